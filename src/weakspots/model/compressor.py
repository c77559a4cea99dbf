"""The compressor of one layer: the learnt weights of a row's way to compress, and the windows it is given."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from weakspots.compressors.base import ModelRow


class Compressor(nn.Module):
    """Pools every window of hidden states into one key and one value per KV head.

    What it learns and how it pools is said by the row (`compressors`); parameters have the names given there.

    Shapes: B batch, T tokens, N entries, W window, K KV heads, R branches, D channels, E hidden width.
    """

    def __init__(self, row: ModelRow, layer: int, hidden_width: int, head_width: int):
        super().__init__()
        self.row, self.memory, self.head_width = row, row.geometry(layer), head_width
        for name, shape in row.weights(self.memory, hidden_width, head_width).items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape)))

    def reset_parameters(self, std: float) -> None:
        """Normal weights of deviation `std`; biases at 0."""
        for name, weight in self.named_parameters(recurse=False):
            nn.init.zeros_(weight) if name.endswith("_bias") else nn.init.normal_(weight, std=std)

    def forward(self, hidden: torch.Tensor, lead: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Entries of every window that closes within `hidden` `[B, T, E]`: key and value, `[B, K, N, D]` each.

        `lead` is the number of tokens missing before the first window, by default the geometry's own (0 when decoding
        continues from cached hidden states). With tied branches both results are the same tensor.
        """
        lead = self.memory.lead if lead is None else lead
        pooled = self.row.pool(self._windows(hidden, lead), self._weights(), self.head_width, lead)
        key, *value = pooled.unflatten(2, (self.row.branches, self.row.kv_heads)).permute(2, 0, 3, 1, 4)
        return key, (value[0] if value else key)

    def scores(self, hidden: torch.Tensor) -> torch.Tensor | None:
        """Gate scores `[W, B, N, R, K, g]`, float32, which sum to 1 over the window; None where there are none."""
        lead = self.memory.lead
        scores = self.row.scores(self._windows(hidden, lead), self._weights(), self.head_width, lead)
        return None if scores is None else scores.float().unflatten(3, (self.row.branches, self.row.kv_heads))

    def _weights(self) -> dict[str, torch.Tensor]:
        return dict(self.named_parameters(recurse=False))

    def _windows(self, hidden: torch.Tensor, lead: int) -> torch.Tensor:
        """Hidden states by offset, `[W, B, N, E]`."""
        if lead:
            hidden = F.pad(hidden, (0, 0, lead, 0))
        if hidden.shape[1] < self.memory.window:
            return hidden.new_zeros(self.memory.window, hidden.shape[0], 0, hidden.shape[2])
        return hidden.unfold(1, self.memory.window, self.memory.stride).permute(3, 0, 1, 2)
