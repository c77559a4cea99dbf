"""This process among those that a launcher started together (`accelerate launch`, `torchrun`), from its environment.

Known before anything heavy is imported: who writes results and tracks them is decided by it.
"""

from __future__ import annotations

import os


def count() -> int:
    """How many processes work on this job; 1 without a launcher."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """The number of this process among them."""
    return int(os.environ.get("RANK", "0"))


def is_main() -> bool:
    """Whether this is the process that writes files, logs and tracks."""
    return rank() == 0
