"""How the C library treats freed memory in a process that computes."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt's names in glibc's malloc.h
_NEVER = 2**31 - 1


def keep_freed_memory() -> None:
    """Reuse freed memory instead of giving it back to the system after every operation.

    Tensors of a small model are some MiB large. By default glibc maps each afresh, and the kernel clears every page of
    it again: a third of the time of a lookup. Peak memory stays about the same; without glibc nothing happens.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_MMAP_THRESHOLD, _NEVER)
            mallopt(_TRIM_THRESHOLD, _NEVER)
