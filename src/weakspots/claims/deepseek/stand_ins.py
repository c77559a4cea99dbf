"""Verdicts on DeepSeek's models, and on the stand-ins for them where none has been run.

A stand-in, a tiny model of the same architecture that is trained here, says whether the effect is in the architecture.
It is judged only where no model of DeepSeek's has been run, and the verdict then says so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from weakspots import statistics
from weakspots.analysis.results import Results
from weakspots.claims import verdicts
from weakspots.claims.kinds import Kind
from weakspots.claims.verdicts import Verdict
from weakspots.config.deepseek import DeepseekModel
from weakspots.files.statuses import Status

SECTION = "Weak spots in DeepSeek-V4"
ONLY_STAND_IN = "stand-in only, no DeepSeek model was run"


def models(
    results: Results,
    kind: Kind,
    chosen: Callable[[str, DeepseekModel], bool],
    measure: Callable[[Results, str], Verdict],
    paper: Callable[[str], str] = lambda model: "",
) -> tuple[Verdict, ...]:
    """One part per chosen row of the model table; `paper` is what the paper says of it, after what was measured."""
    tables = {"needle": results.needles, "code_completion": results.completions}
    run = {**tables, "layer_knockout": results.layer_knockouts}[kind.name]
    rows = {model: row for model, row in results.deepseek.items() if chosen(model, row)}

    def worded(part: Verdict) -> str:
        model = str(part.model)  # `verdicts.parts` names it
        if rows[model].stand_in is not None:
            return f"stand-in: {part.value}"
        return f"{part.value} (paper: {theirs})" if (theirs := paper(model)) else part.value

    found = verdicts.parts(rows, run, lambda model: measure(results, model), f"no {kind.name} table")
    return tuple(replace(part, value=worded(part)) for part in found)


def together(results: Results, parts: tuple[Verdict, ...], what: str, rule: Callable[[list[Status]], bool]) -> Verdict:
    """`verdicts.together` of DeepSeek's models; of the stand-ins, saying so, where none of these has been run."""
    stand_ins = tuple(part for part in parts if results.deepseek[str(part.model)].stand_in is not None)
    theirs = tuple(part for part in parts if part not in stand_ins)
    any_of_theirs = any(part.status != Status.NOT_RUN for part in theirs)
    missing = "no model was asked: give one an endpoint or a folder in deepseek.models"
    verdict = verdicts.together(theirs if any_of_theirs else stand_ins, what, rule, missing)
    value, also = verdict.value, [part for part in stand_ins if part.status != Status.NOT_RUN]
    if any_of_theirs and also:
        value += "; stand-ins, not counted: " + ", ".join(f"{part.model} {part.status}" for part in also)
    elif also:
        value = f"{ONLY_STAND_IN}: {value}"
    return replace(verdict, value=value, parts=parts)


def periodicity(results: Results, outcomes: np.ndarray) -> statistics.Periodicity:
    """`statistics.periodicity` of outcomes [n, modulus], or of differences of two, with the settings of the results."""
    settings = results.statistics
    return statistics.periodicity(outcomes, replicates=settings.bootstrap, seed=settings.seed)
