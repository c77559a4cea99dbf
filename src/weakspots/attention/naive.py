"""The joint attention as its definition reads: one softmax over entries and exact tokens, with a mask.

Works on every device and dtype and for any query positions, at the cost of the whole score matrix. It is the reference
of the tests, and what decoding with the cache uses, where there are few queries.
"""

from __future__ import annotations

import torch

from weakspots.attention.memory import Memory


def attend(
    queries: torch.Tensor,
    query_positions: torch.Tensor,
    local_keys: torch.Tensor,
    local_values: torch.Tensor,
    local_positions: torch.Tensor,
    entry_keys: torch.Tensor,
    entry_values: torch.Tensor,
    memory: Memory,
) -> torch.Tensor:
    """Attention outputs `[B, H, Q, D]`.

    `queries` is `[B, H, Q, D]` at `query_positions` `[Q]`; local keys and values are `[B, K, L, D]` at
    `local_positions` `[L]`; entries are `[B, K, N, D]`, the first N. Query head h reads KV head h // (H / K).
    """
    batch, heads, length, width = queries.shape
    groups = heads // local_keys.shape[1]
    keys = torch.cat([entry_keys, local_keys], dim=2).repeat_interleave(groups, dim=1)
    values = torch.cat([entry_values, local_values], dim=2).repeat_interleave(groups, dim=1)
    entries = torch.arange(entry_keys.shape[2], device=queries.device)
    visible = torch.cat(
        [
            entries[None, :] < memory.entries_seen(query_positions)[:, None],
            memory.local_visible(query_positions[:, None], local_positions[None, :]),
        ],
        dim=1,
    )
    scores = (queries @ keys.transpose(-1, -2)) * width**-0.5
    scores = scores.masked_fill(~visible, float("-inf"))
    return scores.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(values.dtype) @ values
