"""The hash of a file's content."""

from __future__ import annotations

import hashlib
from pathlib import Path


def sha256(path: Path) -> str:
    """SHA-256 of the file, as hexadecimal digits; it is read in parts, whatever its size."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
