"""Verdicts of claims that count heads, gates or cycles over several runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from weakspots.analysis.results import Results
from weakspots.claims.verdicts import Verdict
from weakspots.model_table import WHOLE_LAYER, ModelRow


def not_run(results: Results, model: str, padding: str | None, missing: str) -> Verdict:
    """A part about a run that lacks what it is judged by."""
    return Verdict("not run", missing, seeds=str(results.models[model].seed), model=model, padding=padding)


def counted(parts: tuple[Verdict, ...], missing: str, holds: Callable[[], bool], value: Callable[[], str]) -> Verdict:
    """The verdict of a claim about what the runs behind `parts` have together.

    `holds` and `value` are asked only if one of the parts has been run; if none has, `missing` says what to run.
    """
    run = [part for part in parts if part.status != "not run"]
    if not run:
        return Verdict("not run", missing, parts=parts)
    sizes = [part.n for part in run if part.n is not None]
    seeds = ", ".join(sorted({part.seeds for part in run}))
    return Verdict("holds" if holds() else "fails", value(), min(sizes, default=None), seeds, parts=parts)


def by_model(counts: dict[str, int]) -> str:
    """The models that have any of what is counted, with how many, ready to follow a sentence."""
    named = ", ".join(f"{model} {count}" for model, count in counts.items() if count)
    return f": {named}" if named else ""


def head_name(row: ModelRow, layer: int, head: int) -> str:
    """A head as a reader knows it; a layer's only head is the layer."""
    return f"layer {layer}" if head == WHOLE_LAYER or row.kv_heads == 1 else f"layer {layer} head {head}"


def phases_name(phases: Iterable[int]) -> str:
    """The phases as a reader knows them: phase 3, or phases 3, 4."""
    phases = list(phases)
    return f"phase{'s' * (len(phases) > 1)} {', '.join(map(str, phases))}"
