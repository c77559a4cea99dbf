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

from weakspots.attention.memory import Memory
from weakspots.models import ModelRow

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
        payload, logits = self._project(self._windows(hidden, lead))
        pooled = payload.mean(0) if logits is None else (self._softmax(logits, lead) * payload).sum(0)
        key = pooled[:, :, 0].transpose(1, 2)
        return key, (key if self.branches == 1 else pooled[:, :, 1].transpose(1, 2))

    def scores(self, hidden: torch.Tensor) -> torch.Tensor:
        """Gate scores alpha `[W, B, N, R, K, g]`, float32, which sum to 1 over the window."""
        _, logits = self._project(self._windows(hidden, None))
        if logits is None:
            batch, length, _ = hidden.shape
            shape = (self.memory.window, batch, self.memory.entry_count(length), self.branches, self.kv_heads, 1)
            return torch.full(shape, 1 / self.memory.window, device=hidden.device)
        return self._softmax(logits, None).float()

    def _windows(self, hidden: torch.Tensor, lead: int | None) -> torch.Tensor:
        """Hidden states by offset, `[W, B, N, E]`."""
        lead = self.memory.lead if lead is None else lead
        if lead:
            hidden = F.pad(hidden, (0, 0, lead, 0))
        if hidden.shape[1] < self.memory.window:
            return hidden.new_zeros(self.memory.window, hidden.shape[0], 0, hidden.shape[2])
        return hidden.unfold(1, self.memory.window, self.memory.stride).permute(3, 0, 1, 2)

    def _project(self, windows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Payloads `[W, B, N, R, K, D]` and gate logits `[W, B, N, R, K, g]`, from one batched product."""
        maps = self.payload if self.gate is None else torch.cat([self.payload, self.gate], dim=2)
        if self.part_length > 1:
            maps = maps.repeat_interleave(self.part_length, dim=0)
        window, batch, entries, width = windows.shape
        product = torch.bmm(windows.reshape(window, batch * entries, width), maps)
        heads = (window, batch, entries, self.branches, self.kv_heads)
        payload = product[..., : self.payload.shape[2]].view(*heads, self.head_width)
        if self.gate is None:
            return payload, None
        logits = product[..., self.payload.shape[2] :]
        if self.gate_bias is not None:
            logits = logits + self.gate_bias[:, None]
        return payload, logits.view(*heads, self.gate_width)

    def _softmax(self, logits: torch.Tensor, lead: int | None) -> torch.Tensor:
        lead = self.memory.lead if lead is None else lead
        if lead:  # the tokens before the text take no part in the first entry
            missing = logits.new_zeros(logits.shape[0], 1, logits.shape[2], 1, 1, 1)
            missing[:lead, :, :1] = float("-inf")
            logits = logits + missing
        return logits.softmax(dim=0, dtype=torch.promote_types(logits.dtype, torch.float32)).to(logits.dtype)
