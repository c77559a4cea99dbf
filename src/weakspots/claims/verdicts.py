"""What a claim and a verdict are, and how verdicts about single runs make up one about a claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from weakspots.analysis.results import Results
from weakspots.model_table import ModelRow


@dataclass(frozen=True)
class Verdict:
    """What the results say of a claim, or of one run's part in it.

    `n` counts key-name mappings, each asked at every position; `low` and `high` bound the gap (or what `value` names)
    in percentage points.
    """

    status: str
    value: str
    n: int | None = None
    seeds: str | None = None
    low: float | None = None
    high: float | None = None
    model: str | None = None
    padding: str | None = None
    parts: tuple[Verdict, ...] = ()


@dataclass(frozen=True)
class Claim:
    """One claim of the paper: what it says, where, and how it is measured."""

    id: str
    section: str
    text: str
    measure: Callable[[Results], Verdict]


def part(results: Results, model: str, padding: str, status: str, value: str) -> Verdict:
    """A part about one run, with the interval of its gap if that exceeds the noise."""
    n, seed = len(results.outcomes[model, padding]), str(results.models[model].seed)
    verdict = Verdict(status, value, n, seed, model=model, padding=padding)
    if results.periodicity(model, padding).flat:
        return verdict
    gap = results.summary(model, padding).loc["gap"]
    return replace(verdict, low=float(gap["low"]), high=float(gap["high"]))


def parts(
    results: Results, padding: str, chosen: Callable[[ModelRow], bool], measure: Callable[[Results, str, str], Verdict]
) -> tuple[Verdict, ...]:
    """One part for each chosen row of the model table; rows without outcomes are not run."""
    return tuple(
        measure(results, model, padding)
        if (model, padding) in results.outcomes
        else Verdict("not run", "no lookup table", seeds=str(row.seed), model=model, padding=padding)
        for model, row in results.models.items()
        if chosen(row)
    )


def together(parts: tuple[Verdict, ...], what: str, rule: Callable[[list[str]], bool]) -> Verdict:
    """The verdict of a claim about several runs: `rule` judges the statuses of the parts that have been run."""
    run = [part for part in parts if part.status != "not run"]
    if not run:
        return Verdict("not run", "no such run", parts=parts)
    statuses = [part.status for part in run]
    value = f"{statuses.count('holds')} of {len(run)} runs {what}"
    for status, wording in (("flat", "flat"), ("fails", "not")):
        if names := [part.model for part in run if part.status == status]:
            value += f"; {wording}: {', '.join(dict.fromkeys(names))}"
    seeds = ", ".join(sorted({part.seeds for part in run}))
    return Verdict("holds" if rule(statuses) else "fails", value, min(p.n for p in run), seeds, parts=parts)


def all_hold(statuses: list[str]) -> bool:
    """A rule for `together`: every part holds."""
    return set(statuses) == {"holds"}


def most_hold(statuses: list[str]) -> bool:
    """A rule for `together`: more than half of the parts hold."""
    return statuses.count("holds") > len(statuses) / 2


def most_hold_and_none_fails(statuses: list[str]) -> bool:
    """A rule for `together`: more than half of the parts hold, and the others are flat."""
    return most_hold(statuses) and "fails" not in statuses
