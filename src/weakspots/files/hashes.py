"""Hashes: of files, of content in memory, and of a part of the configuration."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel

DIGITS = 12
"""Hexadecimal digits of every hash shown: short enough to read, too many to meet by accident."""


def sha256(path: str | Path) -> str:
    """SHA-256 of the file, as hexadecimal digits; it is read in parts, whatever its size."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of(content: bytes | memoryview) -> str:
    """SHA-256 of content in memory, as hexadecimal digits: the one that `sha256` finds for a file of it."""
    return hashlib.sha256(content).hexdigest()


def sha256_of_files(hashes: Iterable[tuple[str, str]]) -> str:
    """One SHA-256 for several files, by the name and the hash of each; their order counts."""
    return sha256_of("".join(f"{name}\0{digest}\0" for name, digest in hashes).encode())


def config_hash(section: object) -> str:
    """Short SHA-256 of a part of the configuration: typed sections, or plain data that JSON can hold."""
    plain = json.dumps(section, sort_keys=True, default=_plain)
    return sha256_of(plain.encode())[:DIGITS]


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is no part of a configuration")
