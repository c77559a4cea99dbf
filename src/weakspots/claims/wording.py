"""How claims and verdicts name heads, phases, models and small numbers."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from weakspots.model_table import WHOLE_LAYER, ModelRow

_SPELLED = {1: "one", 2: "two", 3: "three", 4: "four", Fraction(1, 2): "half"}


def spelled(number: int | Fraction) -> str:
    """A small number, or half, in words; others in digits."""
    return _SPELLED.get(number, str(number))


def by_model(counts: dict[str, int]) -> str:
    """The models that have any of what is counted, with how many, ready to follow a sentence."""
    named = ", ".join(f"{model} {count}" for model, count in counts.items() if count)
    return f"; in {named}" if named else ""


def head_name(row: ModelRow, layer: int, head: int) -> str:
    """A head as a reader knows it; a layer's only head is the layer."""
    return f"layer {layer}" if head == WHOLE_LAYER or row.kv_heads == 1 else f"layer {layer} head {head}"


def phases_name(phases: Iterable[int]) -> str:
    """The phases as a reader knows them: phase 3, or phases 3, 4."""
    phases = list(phases)
    return f"phase{'s' * (len(phases) > 1)} {', '.join(map(str, phases))}"
