"""What a claim and a verdict are, and how verdicts about single runs make up one about a claim."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from weakspots.analysis.results import Results
from weakspots.claims.kinds import Kind
from weakspots.config.deepseek import DeepseekModel
from weakspots.files.statuses import Status
from weakspots.model_table import ModelRow


class Interval(TypedDict):
    """The bounds of a verdict."""

    low: float
    high: float


@dataclass(frozen=True)
class Verdict:
    """What the results say of a claim, or of one run's part in it.

    `n` counts key-name mappings, each asked at every position; `low` and `high` bound the gap (or what `value` names)
    in percentage points.
    """

    status: Status
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
    """One claim of the paper: what it says, where, how it is measured, by which kind of result.

    `title` names it in a few words, for a table of all of them; one that begins with an ellipsis goes on from the title
    above it. `published` words what the paper gives for it, from its numbers where it has any, with the most telling
    number in the first clause; None where it gives nothing.
    """

    id: str
    title: str
    section: str
    text: str
    measure: Callable[[Results], Verdict]
    kind: Kind
    published: Callable[[], str] | None = None


def parts(
    rows: Mapping[str, ModelRow | DeepseekModel],
    run: Container[str],
    measure: Callable[[str], Verdict],
    missing: str,
    padding: str | None = None,
) -> tuple[Verdict, ...]:
    """One part for each of these rows of a model table, with the name, the seed and the padding of its run.

    Those of the models in `run` are what `measure` says of the model; the others are not run, as `missing` says.
    """
    return tuple(
        replace(
            measure(model) if model in run else Verdict(Status.NOT_RUN, missing),
            model=model,
            padding=padding,
            seeds=_seed(row),
        )
        for model, row in rows.items()
    )


def _seed(row: ModelRow | DeepseekModel) -> str | None:
    """The seed of what is trained here; DeepSeek's own models have none that is known."""
    if isinstance(row, ModelRow):
        return str(row.seed)
    return None if row.stand_in is None else str(row.stand_in.seed)


def together(
    parts: tuple[Verdict, ...], what: str, rule: Callable[[list[Status]], bool], missing: str = "no such run"
) -> Verdict:
    """The verdict of a claim about several runs: `rule` judges the statuses of the parts that have been run.

    `what` ends the sentence "3 of 4 ...", which goes on to name the runs that are flat and those that fail.
    """
    run = _run(parts)
    statuses = [part.status for part in run]

    def value() -> str:
        text = f"{statuses.count(Status.HOLDS)} of {len(run)} {what}"
        for status, wording in ((Status.FLAT, "flat"), (Status.FAILS, "not")):
            if names := [str(part.model) for part in run if part.status == status]:
                text += f"; {wording}: {', '.join(dict.fromkeys(names))}"
        return text

    return combined(parts, missing, lambda: rule(statuses), value)


def combined(parts: tuple[Verdict, ...], missing: str, holds: Callable[[], bool], value: Callable[[], str]) -> Verdict:
    """The verdict of a claim about what the runs behind `parts` have together, such as a count over all of them.

    `holds` and `value` are asked only if one of the parts has been run; if none has, `missing` says what to run.
    """
    run = _run(parts)
    if not run:
        return Verdict(Status.NOT_RUN, missing, parts=parts)
    sizes = [part.n for part in run if part.n is not None]
    seeds = ", ".join(sorted({part.seeds for part in run if part.seeds})) or None
    return Verdict(Status.of(holds()), value(), min(sizes, default=None), seeds, parts=parts)


def _run(parts: Sequence[Verdict]) -> list[Verdict]:
    return [part for part in parts if part.status != Status.NOT_RUN]


def all_hold(statuses: list[Status]) -> bool:
    """A rule for `together`: every part holds."""
    return set(statuses) == {Status.HOLDS}


def most_hold(statuses: list[Status]) -> bool:
    """A rule for `together`: more than half of the parts hold."""
    return statuses.count(Status.HOLDS) > len(statuses) / 2


def most_hold_and_none_fails(statuses: list[Status]) -> bool:
    """A rule for `together`: more than half of the parts hold, and the others are flat."""
    return most_hold(statuses) and Status.FAILS not in statuses
