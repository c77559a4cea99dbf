"""Uniform averaging: every offset has its own payload map and the same fixed share, so no gate is learnt.

entry_j = 1/W sum_i C_i h_{j,i}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from weakspots.attention.memory import Memory
from weakspots.compressors.base import ModelRow

if TYPE_CHECKING:
    import torch


class Uniform(ModelRow):
    """Weights: `payload` `[W, E, J D]` (C)."""

    compressor: Literal["uniform"] = "uniform"

    def weights(self, memory: Memory, width: int, channels: int) -> dict[str, tuple[int, ...]]:
        """C alone."""
        return {"payload": (memory.window, width, self.pooled * channels)}

    def pool(self, windows: torch.Tensor, weights: dict[str, torch.Tensor], channels: int, lead: int) -> torch.Tensor:
        """The mean payload."""
        from weakspots.attention import pooling

        return pooling.pool(pooling.product(windows, weights["payload"]), None, self.pooled, channels, lead)

    def scores(self, windows: torch.Tensor, weights: dict[str, torch.Tensor], channels: int, lead: int) -> torch.Tensor:
        """1 / W everywhere."""
        window, batch, entries, _ = windows.shape
        return windows.new_full((window, batch, entries, self.pooled, 1), 1 / window)

    def named(self) -> list[str]:
        """As the paper calls it."""
        return ["uniform averaging"]

    @property
    def gate_kind(self) -> str:
        """uniform."""
        return "uniform"
