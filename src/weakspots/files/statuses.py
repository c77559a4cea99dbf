"""The words that a table of claims says its verdicts in."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Status(StrEnum):
    """What the results say of a claim, or of one run's part in it; a claim as a whole is never flat."""

    HOLDS = "holds"
    FAILS = "fails"
    NOT_RUN = "not run"
    FLAT = "flat"
    """The run has nothing that could show the claim: a gap within the noise, no head of the kind in question."""

    @classmethod
    def of(cls, holds: bool) -> Status:
        """The status of what has been judged."""
        return cls.HOLDS if holds else cls.FAILS


COUNTED = {Status.HOLDS: "hold", Status.FAILS: "fail", Status.NOT_RUN: "not run"}
"""The statuses of a claim, in the order in which a reader wants them, and how a count of each is worded."""


def tally(statuses: Iterable[str]) -> str:
    """How many of a list of claims hold, fail and were not run, as a sentence."""
    found = list(statuses)
    return ", ".join(f"{found.count(status)} {words}" for status, words in COUNTED.items()) + "."
