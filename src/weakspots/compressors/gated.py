"""The paper's compressor: a gate and a payload map for every offset of the window (equations 1 and 2 of the paper).

    s_{j,i} = Z_i h_{j,i} + b_i,   alpha_{j,i} = softmax_i(s_{j,i}),   entry_j = sum_i alpha_{j,i} * (C_i h_{j,i})

for a key and a value branch each. Z_i gives one score per head (scalar gate) or one per channel (vector gate).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from weakspots.attention.memory import Memory
from weakspots.compressors.base import ModelRow

if TYPE_CHECKING:
    import torch


class Gated(ModelRow):
    """Weights: `payload` `[W, E, J D]` (C), `gate` `[W, E, J g]` (Z) and `gate_bias` `[W, J g]` (b)."""

    compressor: Literal["gated"] = "gated"
    gate: Literal["scalar", "vector"] = Field("scalar", description="one score per offset and KV head, or per channel")
    gate_bias: bool = Field(True, description="whether every offset has its own bias b_i")

    def weights(self, memory: Memory, width: int, channels: int) -> dict[str, tuple[int, ...]]:
        """C, Z and, unless the row leaves it out, b."""
        scores = self.pooled * self.gate_scores(channels)
        shapes: dict[str, tuple[int, ...]] = {
            "payload": (memory.window, width, self.pooled * channels),
            "gate": (memory.window, width, scores),
        }
        return shapes | ({"gate_bias": (memory.window, scores)} if self.gate_bias else {})

    def pool(self, windows: torch.Tensor, weights: dict[str, torch.Tensor], channels: int, lead: int) -> torch.Tensor:
        """Equation 2."""
        from weakspots.attention import choose, pooling

        product = pooling.product(windows, *self._maps(weights))
        return choose.pool(product, weights.get("gate_bias"), self.pooled, channels, lead)

    def scores(self, windows: torch.Tensor, weights: dict[str, torch.Tensor], channels: int, lead: int) -> torch.Tensor:
        """alpha of equation 1."""
        from weakspots.attention import pooling

        product = pooling.product(windows, *self._maps(weights))
        _, logits = pooling.split(product, weights.get("gate_bias"), self.pooled, channels)
        assert logits is not None  # a gated row has gates
        return pooling.softmax(logits, lead)

    def gate_scores(self, channels: int) -> int:
        """1, or D for a vector gate."""
        return channels if self.gate == "vector" else 1

    def named(self) -> list[str]:
        """A gate that is not the default, and a bias that is missing."""
        named = [(self._differs("gate"), f"{self.gate} gate"), (not self.gate_bias, "no gate bias")]
        return [name for chosen, name in named if chosen]

    @property
    def gate_kind(self) -> str:
        """scalar or vector."""
        return self.gate

    @property
    def gate_weights(self) -> tuple[str, ...]:
        """Z and b."""
        return ("gate", "gate_bias")

    def _maps(self, weights: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        """C and Z of every offset."""
        return [weights["payload"], weights["gate"]]
