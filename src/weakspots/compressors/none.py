"""No compression: plain causal attention over the exact keys and values of all tokens."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from weakspots.attention.memory import Memory
from weakspots.compressors.base import ModelRow

_HAS = {"compressor", "kv_heads", "qk_norm", "rope_fraction", "seed"}


class FullAttention(ModelRow):
    """No weights and no windows: attributes that speak of them are refused."""

    compressor: Literal["none"] = "none"

    @model_validator(mode="after")
    def _without_windows(self) -> FullAttention:
        if foreign := sorted(self.model_fields_set - _HAS):
            raise ValueError(f"full attention has no {', '.join(foreign)}: remove it")
        return self

    def geometry(self, layer: int) -> Memory:
        """There is none. Raises TypeError."""
        raise TypeError("full attention has no windows")

    def named(self) -> list[str]:
        """Nothing: the label says it."""
        return []

    def why_not_cycled(self) -> str:
        """It has no gates."""
        return "full attention has no gates; choose a row with window = stride and a learned gate"

    @property
    def compressed(self) -> bool:
        """False."""
        return False

    @property
    def period(self) -> None:
        """None: no period is predicted."""
        return None

    def label(self) -> str:
        """For example `Full attention · 8 KV`."""
        return " · ".join(["Full attention", f"{self.kv_heads} KV", *self.attributes()])
