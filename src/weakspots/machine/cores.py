"""How many jobs this machine, or the container on it, can run at a time: `python -m weakspots.machine.cores`.

A container's share of processors is a quota of time, which the count of processors does not show, and its memory may
be less than the machine's. Snakemake sees neither, so `make` asks here.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

JOB_GIB = 1.5
"""Memory of the largest job at laptop scale."""

ROOT = Path("/")


def jobs(root: Path = ROOT, processors: int | None = None) -> int:
    """How many jobs can run at a time, at least 1: the processors that this process may use, the quota of its control
    group and of all above it, and memory for each. `root` is where /sys and /proc are.
    """
    cores = float(processors or len(os.sched_getaffinity(0)))
    memory = float(_installed(root))
    for folder in _groups(root):
        cores = min(cores, *_quota(folder))
        for name in ("memory.max", "memory.limit_in_bytes"):
            memory = min(memory, _number(folder / name))
    return max(1, math.floor(min(cores, memory / JOB_GIB / 2**30)))


def _groups(root: Path) -> Iterator[Path]:
    """The folders of this process's control groups and of all above them, of both versions."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        mounts = [root / "sys/fs/cgroup" / name for name in ([controllers, *controllers.split(",")])]
        for mount in dict.fromkeys(mounts):
            group = mount / path.lstrip("/")
            # in a container the group's own folder is often mounted as the top
            yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(mount))


def _quota(folder: Path) -> tuple[float, ...]:
    """Processors that a control group may use: infinite where nothing limits it."""
    quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    old = quota / period if 0 < quota < math.inf and period < math.inf else math.inf
    try:
        most, period_of_new = (folder / "cpu.max").read_text().split()
        return old, math.inf if most == "max" else int(most) / int(period_of_new)
    except (OSError, ValueError):
        return old, math.inf


def _number(path: Path) -> float:
    try:
        return float(path.read_text())
    except (OSError, ValueError):  # not there, or "max"
        return math.inf


def _installed(root: Path) -> float:
    """Bytes of memory of the machine."""
    try:
        first = (root / "proc/meminfo").read_text().splitlines()[0]
        return 1024 * float(first.split()[1])
    except (OSError, ValueError, IndexError):
        return math.inf


if __name__ == "__main__":
    print(jobs())
