"""The compressor: one cache entry per window, from per-offset gates and payload maps (equations 1 and 2 of the paper).

    s_{j,i} = Z_i h_{j,i} + b_i,   alpha_{j,i} = softmax_i(s_{j,i}),   entry_j = sum_i alpha_{j,i} * (C_i h_{j,i})

for a key and a value branch each; the compressed key is then normalised and rotated by the attention layer.

Shapes: B batch, T tokens, N entries, W window, K KV heads, D channels, g gate scores per head (1 or D), R branches
(2, or 1 where one pooled vector is both key and value), E hidden width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from weakspots.attention import choose, pooling
from weakspots.attention.memory import Memory
from weakspots.model_table import ModelRow

BRANCHES = ("key", "value")


class Compressor(nn.Module):
    """Pools every window of hidden states into one key and one value per KV head.

    Parameters: `payload` `[P, E, R * K * D]` (C), `gate` `[P, E, R * K * g]` (Z), `gate_bias` `[W, R * K * g]` (b),
    where P is W, or the number of stride-long parts whose offsets share their maps. A uniform gate has no Z and no b.
    """

    def __init__(self, row: ModelRow, hidden_width: int, head_width: int):
        super().__init__()
        self.memory = Memory.of(row)
        self.kv_heads, self.head_width = row.kv_heads, head_width
        self.branches = 1 if row.tied else 2
        self.heads = self.branches * row.kv_heads
        self.gate_width = head_width if row.gate == "vector" else 1
        self.part_length = row.stride if row.offset_maps == "per_half" else 1
        parts = row.window // self.part_length
        self.payload = nn.Parameter(torch.empty(parts, hidden_width, self.branches * row.kv_heads * head_width))
        gates = self.branches * row.kv_heads * self.gate_width
        uniform = row.gate == "uniform"
        self.gate = None if uniform else nn.Parameter(torch.empty(parts, hidden_width, gates))
        self.gate_bias = None if uniform or not row.gate_bias else nn.Parameter(torch.zeros(row.window, gates))

    def forward(self, hidden: torch.Tensor, lead: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Entries of every window that closes within `hidden` `[B, T, E]`: key and value, `[B, K, N, D]` each.

        `lead` is the number of tokens missing before the first window, by default the geometry's own (0 when decoding
        continues from cached hidden states). With tied branches both results are the same tensor.
        """
        lead = self.memory.lead if lead is None else lead
        pooled = choose.pool(self._product(hidden, lead), self.gate_bias, self.heads, self.head_width, lead)
        key, *value = pooled.unflatten(2, (self.branches, self.kv_heads)).permute(2, 0, 3, 1, 4)
        return key, (value[0] if value else key)

    def scores(self, hidden: torch.Tensor) -> torch.Tensor:
        """Gate scores alpha `[W, B, N, R, K, g]`, float32, which sum to 1 over the window."""
        lead = self.memory.lead
        product = self._product(hidden, lead)
        _, logits = pooling.split(product, self.gate_bias, self.heads, self.head_width)
        if logits is None:
            shape = (*product.shape[:3], self.branches, self.kv_heads, 1)
            return torch.full(shape, 1 / self.memory.window, device=hidden.device)
        return pooling.softmax(logits, lead).float().unflatten(3, (self.branches, self.kv_heads))

    def _product(self, hidden: torch.Tensor, lead: int) -> torch.Tensor:
        """Payloads, then gate products, of every window and offset, `[W, B, N, R * K * (D + g)]`, in one product."""
        maps = self.payload if self.gate is None else torch.cat([self.payload, self.gate], dim=2)
        if self.part_length > 1:
            maps = maps.repeat_interleave(self.part_length, dim=0)
        windows = self._windows(hidden, lead)
        return torch.bmm(windows.flatten(1, 2), maps).unflatten(1, windows.shape[1:3])

    def _windows(self, hidden: torch.Tensor, lead: int) -> torch.Tensor:
        """Hidden states by offset, `[W, B, N, E]`."""
        if lead:
            hidden = F.pad(hidden, (0, 0, lead, 0))
        if hidden.shape[1] < self.memory.window:
            return hidden.new_zeros(self.memory.window, hidden.shape[0], 0, hidden.shape[2])
        return hidden.unfold(1, self.memory.window, self.memory.stride).permute(3, 0, 1, 2)
