"""Hashes: of a file's content, and of a part of the configuration."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from pydantic import BaseModel

DIGITS = 12
"""Hexadecimal digits of every hash shown: short enough to read, too many to meet by accident."""


def sha256(path: str | Path) -> str:
    """SHA-256 of the file, as hexadecimal digits; it is read in parts, whatever its size."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def config_hash(section: object) -> str:
    """Short SHA-256 of a part of the configuration: typed sections, or plain data that JSON can hold."""
    plain = json.dumps(section, sort_keys=True, default=_plain)
    return hashlib.sha256(plain.encode()).hexdigest()[:DIGITS]


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is no part of a configuration")
