"""DeepSeek-V4's compressor: windows of two strides, whose halves have a gate and a payload map each.

As `gated`, with Z_i and C_i the same for all offsets of a half (biases are per offset). The first window begins W - S
tokens before the text, and the tokens that are missing there have weight 0. One vector is key and value, normalised
before both uses, and its last channels rotate. Pooling, norm and rotation equal transformers' `deepseek_v4`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from weakspots.attention.memory import Memory
from weakspots.compressors.gated import Gated

if TYPE_CHECKING:
    import torch


class DeepSeek(Gated):
    """Weights as in `Gated`, but `payload` `[2, E, J D]` and `gate` `[2, E, J g]`: one map for each half."""

    compressor: Literal["deepseek"] = "deepseek"  # type: ignore[assignment]
    stride: int = Field(4, ge=1, description="S, half the window")
    gate: Literal["scalar", "vector"] = "vector"
    tied: bool = True
    post_norm: bool = True
    rope_fraction: float = Field(0.125, ge=0.0, le=1.0)
    rope_last: bool = True

    @model_validator(mode="after")
    def _two_halves(self) -> DeepSeek:
        if self.window != 2 * self.stride:
            raise ValueError(
                f"DeepSeek's kernel has two halves of one stride (window {self.window}, stride {self.stride}): set "
                f"window to {2 * self.stride}"
            )
        return self

    def geometry(self, layer: int) -> Memory:
        """The first window begins W - S tokens before the text."""
        return Memory(self.window, self.stride, self.window - self.stride, self.local, self.local_window)

    def weights(self, memory: Memory, width: int, channels: int) -> dict[str, tuple[int, ...]]:
        """Maps for two halves, biases for every offset."""
        shapes = super().weights(memory, width, channels)
        return {name: (2, *shape[1:]) if len(shape) == 3 else shape for name, shape in shapes.items()}

    def named(self) -> list[str]:
        """The kernel first, as the paper does."""
        return ["DeepSeek-style kernel", *super().named()]

    def _maps(self, weights: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        """Those of its half for every offset."""
        return [maps.repeat_interleave(self.stride, dim=0) for maps in super()._maps(weights)]
