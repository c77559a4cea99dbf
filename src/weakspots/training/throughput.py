"""How much of the machine a training run uses."""

from __future__ import annotations

import resource
import statistics
import sys
import time

import torch

_SIDE = {"cpu": 1024, "cuda": 8192}  # of the square matrices: large enough for the full rate
_REPEATS = 5


def matmul_rate(device: torch.device, precision: str) -> float:
    """Operations per second of a large product on this device, at the precision of training; measured, in 0.2 s.

    The median of a few products; a multiplication and an addition count as two operations. On a CPU bfloat16 is
    measured as float32, since few processors multiply it faster.
    """
    side = _SIDE[device.type]
    dtype = torch.bfloat16 if precision == "bfloat16" and device.type == "cuda" else torch.float32
    left, right = torch.ones(2, side, side, device=device, dtype=dtype)
    seconds = []
    for _ in range(_REPEATS + 1):
        _wait(device)
        begin = time.perf_counter()
        left @ right
        _wait(device)
        seconds.append(time.perf_counter() - begin)
    return 2 * side**3 / statistics.median(seconds[1:])


def peak_memory(device: torch.device) -> float:
    """GiB that this process has held at most: on the GPU, or of the machine's memory."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held / (2**30 if sys.platform == "darwin" else 2**20)  # bytes there, KiB elsewhere


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
