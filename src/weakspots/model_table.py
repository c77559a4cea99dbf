"""The model table: what a row means, and how the paper names it.

A row states only what differs from the default compressed model, `W8/S8 · 1 KV`: learned scalar gates with a bias per
offset, separate key and value branches, query and key norm, RoPE on every channel, one joint attention over the
compressed entries and a sliding window of 16 exact tokens, seed 42.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

WHOLE_LAYER = -1
"""The "KV head" that stands for all heads of a layer, where one head can be chosen."""

CLEAN = -1
"""The "layer" that stands for the model as it is, where one layer can be knocked out."""


class ModelRow(BaseModel):
    """The attributes of one run of the paper.

    `window` (W) and `stride` (S) are in tokens; `rope_fraction` is the share of a head's channels that rotate.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    attention: Literal["full", "compressed"] = Field(
        "compressed", description="full: plain causal attention; compressed: one entry per window"
    )
    window: int = Field(8, ge=1, description="W, tokens read by one entry")
    stride: int = Field(8, ge=1, description="S, tokens between the starts of two windows; at most W")
    kv_heads: int = Field(1, ge=1, description="key-value heads per layer; divides the backbone's query heads")
    gate: Literal["scalar", "vector", "uniform"] = Field(
        "scalar", description="one score per offset and KV head, one per channel, or a fixed 1/W"
    )
    gate_bias: bool = Field(True, description="whether every offset has its own bias b_i")
    offset_maps: Literal["per_offset", "per_half"] = Field(
        "per_offset",
        description="Z and C of their own for every offset, or shared inside each half of the window "
        "(the DeepSeek-style kernel; needs W = 2S)",
    )
    tied: bool = Field(False, description="one pooled vector is both key and value")
    post_norm: bool = Field(False, description="normalise the pooled vector before both uses; needs tied")
    qk_norm: bool = Field(True, description="RMSNorm on queries, local keys and compressed keys, as in Qwen3")
    rope_fraction: float = Field(1.0, ge=0.0, le=1.0, description="share of the channels that rotate: 1, 0.125 or 0")
    rope_last: bool = Field(False, description="rotate the last channels instead of the first, as DeepSeek-V4 does")
    local: Literal["sliding", "tail"] = Field(
        "sliding", description="exact tokens a query sees: the last local_window, or those no closed window holds yet"
    )
    local_window: int = Field(16, ge=1, description="length of the sliding window in tokens, the query's own included")
    seed: int = Field(42, ge=0, description="seed of the initialisation and of the order of the training data")

    @model_validator(mode="after")
    def _consistent(self) -> ModelRow:
        if self.attention == "full":
            foreign = sorted(self.model_fields_set - {"attention", "kv_heads", "qk_norm", "rope_fraction", "seed"})
            if foreign:
                raise ValueError(f"full attention has no {', '.join(foreign)}: remove it")
            return self
        if self.stride > self.window:
            raise ValueError(
                f"stride {self.stride} is larger than window {self.window}, so tokens would never be read: "
                f"set stride to at most {self.window}"
            )
        if self.post_norm and not self.tied:
            raise ValueError("post_norm normalises the vector shared by key and value: set tied to true as well")
        if self.offset_maps == "per_half" and (self.window != 2 * self.stride or self.gate == "uniform"):
            raise ValueError(
                f"offset_maps per_half is DeepSeek's kernel, with two halves of one stride and a learned gate (window "
                f"{self.window}, stride {self.stride}, gate {self.gate}): set window to {2 * self.stride} and gate to "
                "scalar or vector"
            )
        return self

    @property
    def compressed(self) -> bool:
        """False for full attention, which keeps every token."""
        return self.attention == "compressed"

    @property
    def period(self) -> int | None:
        """The stride in tokens, or None for full attention: the period the paper predicts."""
        return self.stride if self.compressed else None

    @property
    def can_cycle(self) -> bool:
        """Gate cycling needs a learned gate and windows that do not overlap (W = S)."""
        return self.compressed and self.window == self.stride and self.gate != "uniform"

    @property
    def is_deepseek_style(self) -> bool:
        """Whether each half of a window, two strides long, has its own maps, as in DeepSeek-V4."""
        return self.compressed and self.offset_maps == "per_half"

    def attributes(self) -> list[str]:
        """What the paper appends to a run's name, in its order."""
        deepseek = self.is_deepseek_style
        named = [
            (deepseek, "DeepSeek-style kernel"),
            (deepseek and self.gate == "scalar", "scalar gate"),
            (self.gate == "uniform", "uniform averaging"),
            (self.tied and not deepseek, "tied K/V"),
            (self.post_norm and not deepseek, "post-norm"),
            (self.gate == "vector" and not deepseek, "vector gate"),
            (not self.qk_norm, "no QK norm"),
            (self.gate != "uniform" and not self.gate_bias, "no gate bias"),
            (self.rope_fraction == 0, "no RoPE"),
            (0 < self.rope_fraction < 1 and not deepseek, f"RoPE on {self.rope_fraction:.3g} of channels"),
            (self.compressed and self.local == "tail", "uncompressed tail"),
            (self.seed != 42, f"seed {self.seed}"),
        ]
        if self.rope_fraction == 0.125:  # 16 of the paper's 128 channels, and how it names the run
            named = [(on, "RoPE on 16 dims" if name.startswith("RoPE on") else name) for on, name in named]
        return [name for on, name in named if on]

    def label(self) -> str:
        """The run's name as the paper writes it, for example `W8/S8 · 1 KV · no RoPE`."""
        shape = f"W{self.window}/S{self.stride}" if self.compressed else "Full attention"
        return " · ".join([shape, f"{self.kv_heads} KV", *self.attributes()])
