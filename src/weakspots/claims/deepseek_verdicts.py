"""Verdicts on DeepSeek's models, and on the stand-ins for them where none has been run.

A stand-in, a tiny model of the same architecture that is trained here, says whether the effect is in the architecture.
It is judged only where no model of DeepSeek's has been run, and the verdict then says so.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weakspots import statistics
from weakspots.analysis.results import Results
from weakspots.claims.verdicts import Verdict
from weakspots.config.deepseek import DeepseekModel

SECTION = "Weak spots in DeepSeek-V4"
ONLY_STAND_IN = "stand-in only, no DeepSeek model was run"


def parts(
    results: Results,
    stage: str,
    chosen: Callable[[str, DeepseekModel], bool],
    measure: Callable[[Results, str], Verdict],
    paper: Callable[[str], str] = lambda model: "",
) -> tuple[Verdict, ...]:
    """One part per chosen row of the model table; `paper` is what the paper says of it, after what was measured."""
    run = {"needle": results.needles, "code_completion": results.completions, "layer_knockout": results.layer_knockouts}
    found = []
    for model, row in results.deepseek.items():
        if not chosen(model, row):
            continue
        theirs = paper(model) if row.stand_in is None else ""
        part = measure(results, model) if model in run[stage] else Verdict("not run", f"no {stage} table")
        seed = None if row.stand_in is None else str(row.stand_in.seed)
        prefix = "stand-in: " if row.stand_in is not None else ""
        value = f"{prefix}{part.value}" + (f" (paper: {theirs})" if theirs else "")
        found.append(Verdict(part.status, value, part.n, seed, part.low, part.high, model=model))
    return tuple(found)


def together(results: Results, judging: tuple[Verdict, ...], what: str, rule: Callable[[list[str]], bool]) -> Verdict:
    """The verdict on DeepSeek's models by `rule`; on the stand-ins, saying so, where none of these has been run."""
    run = [part for part in judging if part.status != "not run"]
    if not run:
        return Verdict(
            "not run", "no model was asked: give one an endpoint or a folder in deepseek.models", parts=judging
        )
    stand_ins = [part for part in run if results.deepseek[part.model].stand_in is not None]
    judged = [part for part in run if part not in stand_ins] or stand_ins
    statuses = [part.status for part in judged]
    value = f"{statuses.count('holds')} of {len(judged)} {what}"
    for status, wording in (("flat", "flat"), ("fails", "not")):
        if names := [part.model for part in judged if part.status == status]:
            value += f"; {wording}: {', '.join(names)}"
    if judged == stand_ins:
        value = f"{ONLY_STAND_IN}: {value}"
    elif stand_ins:
        value += "; stand-ins, not counted: " + ", ".join(f"{part.model} {part.status}" for part in stand_ins)
    seeds = ", ".join(sorted({part.seeds for part in judged if part.seeds})) or None
    return Verdict("holds" if rule(statuses) else "fails", value, min(p.n for p in judged), seeds, parts=judging)


def periodicity(results: Results, outcomes: np.ndarray) -> statistics.Periodicity:
    """`statistics.periodicity` of outcomes [n, modulus], or of differences of two, with the settings of the results."""
    settings = results.statistics
    return statistics.periodicity(outcomes, replicates=settings.bootstrap, seed=settings.seed)
