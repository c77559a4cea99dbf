"""Verdicts on single lookups, one for each run and padding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weakspots.analysis.results import Results
from weakspots.claims.verdicts import Verdict, parts
from weakspots.files.statuses import Status
from weakspots.model_table import ModelRow

SECTION = "Controlled pretraining"


def runs(
    results: Results,
    chosen: Callable[[ModelRow], bool],
    measure: Callable[[Results, str, str], Verdict],
    padding: str = "prefix",
) -> tuple[Verdict, ...]:
    """One part for each chosen row of the model table under one padding; a row without its lookup is not run."""
    rows = {model: row for model, row in results.models.items() if chosen(row)}
    looked_up = {model for model, asked in results.outcomes if asked == padding}
    return parts(rows, looked_up, lambda model: measure(results, model, padding), "no lookup table", padding)


def finding(results: Results, model: str, padding: str, status: Status, value: str) -> Verdict:
    """What one run shows, with its mappings and with the interval of its gap if that exceeds the noise."""
    verdict = Verdict(status, value, len(results.outcomes[model, padding]))
    if results.periodicity(model, padding).flat:
        return verdict
    gap = results.summary(model, padding).loc["gap"]
    return replace(verdict, low=float(gap["low"]), high=float(gap["high"]))


def compressed(row: ModelRow) -> bool:
    """A choice of rows: those that compress."""
    return row.compressed
