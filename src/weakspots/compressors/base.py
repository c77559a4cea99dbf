"""What a row of the model table says, and with it what every way to compress must say.

A row is an object of its compressor's class: the attributes below, which all rows share, and the compressor's own. The
file of a compressor states which windows there are (`geometry`), what is learnt (`weights`), how windows become entries
(`pool`), what a gate prefers (`scores`) and what that costs (`multiplications`). Nothing here imports torch, since
Snakemake reads the model table each time it starts; methods that compute import it themselves where they need it.

Shapes: B batch, N entries, W window, E hidden width, J = R K pooled vectors per entry: R branches (key and value, or
one vector that is both) of K KV heads, D channels per head, g gate scores per pooled vector (1 or D).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from weakspots.attention.memory import Memory
from weakspots.files.written_values import as_written

if TYPE_CHECKING:
    import torch

BRANCHES = ("key", "value")


def _open(schema: dict[str, Any]) -> None:
    """A row may also have the attributes of its compressor, of which the schema shall not know."""
    schema |= {"additionalProperties": True, "required": []}


class ModelRow(BaseModel):
    """The attributes of one run. `window` (W) and `stride` (S) are in tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, json_schema_extra=_open)

    compressor: str = Field(
        description="how windows become cache entries: a file of src/weakspots/compressors/, which may add "
        "attributes of its own; gated if none is named"
    )
    window: int = Field(8, ge=1, description="W, tokens read by one entry")
    stride: int = Field(8, ge=1, description="S, tokens between the starts of two windows; at most W")
    kv_heads: int = Field(1, ge=1, description="key-value heads per layer; divides the backbone's query heads")
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

    @model_validator(mode="before")
    @classmethod
    def _as_written(cls, data: Any) -> Any:
        return as_written(cls, data)

    @model_validator(mode="after")
    def _consistent(self) -> ModelRow:
        if self.compressed and self.stride > self.window:
            raise ValueError(
                f"stride {self.stride} is larger than window {self.window}, so tokens would never be read: "
                f"set stride to at most {self.window}"
            )
        if self.compressed and self.post_norm and not self.tied:
            raise ValueError("post_norm normalises the vector shared by key and value: set tied to true as well")
        return self

    # What a compressor's file overrides.

    def geometry(self, layer: int) -> Memory:
        """Which windows there are in `layer`, and which exact tokens its queries see. Layers may differ."""
        return Memory(self.window, self.stride, 0, self.local, self.local_window)

    def weights(self, memory: Memory, width: int, channels: int) -> dict[str, tuple[int, ...]]:
        """Name and shape of what one layer learns, for hidden states of `width` (E) and heads of `channels` (D).

        Initial numbers are normal, except that what is called `..._bias` begins at 0.
        """
        raise NotImplementedError(f"compressors/{self.compressor}.py does not say what it learns")

    def pool(self, windows: torch.Tensor, weights: dict[str, torch.Tensor], channels: int, lead: int) -> torch.Tensor:
        """The entries `[B, N, J, D]` of `windows` `[W, B, N, E]`, hidden states by offset, with a layer's `weights`.

        The first `lead` tokens of the first window lie before the text: their hidden states are 0, and they should have
        no part in its entry.
        """
        raise NotImplementedError(f"compressors/{self.compressor}.py does not say how a window is pooled")

    def scores(
        self, windows: torch.Tensor, weights: dict[str, torch.Tensor], channels: int, lead: int
    ) -> torch.Tensor | None:
        """Gate scores `[W, B, N, J, g]`, which sum to 1 over the window; None where offsets have none."""
        return None

    def multiplications(self, memory: Memory, width: int, channels: int) -> int:
        """Multiplications that one entry takes. Here: every offset has a map of its own, and its payload a weight."""
        return memory.window * self.pooled * (width * (channels + self.gate_scores(channels)) + channels)

    def gate_scores(self, channels: int) -> int:
        """g, learnt gate scores per offset and pooled vector: 0 where no gate is learnt."""
        return 0

    def named(self) -> list[str]:
        """What the compressor adds to a run's name."""
        return [self.compressor.replace("_", " ")]

    # What others ask.

    @property
    def compressed(self) -> bool:
        """Whether there are entries at all."""
        return True

    @property
    def period(self) -> int | None:
        """The stride in tokens, the period the paper predicts; None for full attention."""
        return self.stride

    @property
    def gate_kind(self) -> str | None:
        """scalar, vector, or what else `scores` are made of; None where offsets have no scores."""
        return None

    @property
    def gate_weights(self) -> tuple[str, ...]:
        """Those of `weights` that hold a gate by offset, along their first axis: what gate cycling moves."""
        return ()

    @property
    def branches(self) -> int:
        """R, pooled vectors per KV head and entry."""
        return 1 if self.tied else len(BRANCHES)

    @property
    def pooled(self) -> int:
        """J, pooled vectors per entry, of all branches and KV heads."""
        return self.branches * self.kv_heads

    def why_not_cycled(self) -> str | None:
        """Why gate cycling says nothing about this row, with the way out; None where it can be cycled.

        It needs a learnt gate, and windows that do not overlap, so that an offset has one phase.
        """
        if not self.gate_weights:
            reason = "it learns no gate that could be moved"
        elif self.window != self.stride:
            reason = (
                f"its windows overlap (W = {self.window}, S = {self.stride}), so an offset has no one phase to move to"
            )
        else:
            return None
        return f"{reason}; choose a row with window = stride and a learned gate"

    def attributes(self) -> list[str]:
        """What the paper appends to a run's name, in its order: what differs from the compressor's default row."""
        rope = "no RoPE" if self.rope_fraction == 0 else f"RoPE on {self.rope_fraction:.3g} of channels"
        if self.rope_fraction == 0.125:  # 16 of the paper's 128 channels, and how it names the run
            rope = "RoPE on 16 dims"
        named = [
            (self._differs("tied"), "tied K/V" if self.tied else "own K and V"),
            (self._differs("post_norm"), "post-norm" if self.post_norm else "no post-norm"),
            (self._differs("qk_norm"), "no QK norm"),
            (self._differs("rope_fraction"), rope),
            (self._differs("local"), "uncompressed tail"),
            (self._differs("seed"), f"seed {self.seed}"),
        ]
        return [*self.named(), *(name for differs, name in named if differs)]

    def label(self) -> str:
        """The run's name as the paper writes it, for example `W8/S8 · 1 KV · no RoPE`."""
        return " · ".join([f"W{self.window}/S{self.stride}", f"{self.kv_heads} KV", *self.attributes()])

    def _differs(self, attribute: str) -> bool:
        default: Any = type(self).model_fields[attribute].default
        return getattr(self, attribute) != default
