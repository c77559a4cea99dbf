"""Which backend computes the joint attention of a whole text."""

from __future__ import annotations

import torch

from weakspots.attention import blocked, naive
from weakspots.attention.memory import Memory


def attend(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    entry_keys: torch.Tensor,
    entry_values: torch.Tensor,
    memory: Memory,
) -> torch.Tensor:
    """Attention outputs `[B, H, T, D]` at positions 0..T-1: the blocked kernel on a CPU, the definition elsewhere."""
    if queries.device.type == "cpu":
        return blocked.attend(queries, keys, values, entry_keys, entry_values, memory)
    positions = torch.arange(queries.shape[2], device=queries.device)
    return naive.attend(queries, positions, keys, values, positions, entry_keys, entry_values, memory)
