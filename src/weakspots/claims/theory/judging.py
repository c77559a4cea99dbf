"""What verdicts on the theory share: tables that may be missing, intervals at its own confidence, names, seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from weakspots.analysis.results import Results
from weakspots.claims.verdicts import Interval, Verdict
from weakspots.files.statuses import Status
from weakspots.statistics import wilson

SECTION = "Why compression concentrates"


def judged(table: str, judge: Callable[[Results, pd.DataFrame], Verdict]) -> Callable[[Results], Verdict]:
    """`judge` of one of the theory's tables, which has not been run where it is missing or empty."""

    def measure(results: Results) -> Verdict:
        found = results.theory.get(table)
        if found is None or found.empty:
            return Verdict(Status.NOT_RUN, "no table of the theory")
        return judge(results, found)

    return measure


def share(results: Results, good: int, n: int) -> Interval:
    """Wilson's interval in percent at the theory's confidence, as the fields of a verdict."""
    settings = results.theory.get("settings")
    confidence = results.statistics.confidence if settings is None else float(settings["confidence"].iloc[0])
    low, high = wilson(good, n, confidence)
    return {"low": float(low), "high": float(high)}


def seed(results: Results) -> str | None:
    """The seed that all random cases of the theory derive theirs from."""
    settings = results.theory.get("settings")
    return None if settings is None else str(settings["seed"].iloc[0])


def shape(group: Sequence) -> str:
    """The name of a shape, or of the ensemble that starts with it."""
    return f"S = {group[0]}, m = {group[1]}"
