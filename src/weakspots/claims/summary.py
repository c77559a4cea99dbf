"""All verdicts on one screen: a short name, the verdict, what was measured and what the paper gives, in a few words.

The name is the claim's title. Both texts are the first clauses of the full ones, so no number is written for the table.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pandas as pd

from weakspots.claims import catalogue
from weakspots.claims.deepseek.stand_ins import ONLY_STAND_IN
from weakspots.files.statuses import Status

NAME, MEASURED, PUBLISHED = 32, 45, 28
"""The most characters in a column: with the verdict and the bars of Markdown, a line has at most 120."""
CUT = " …"


class Line(NamedTuple):
    """One claim's line on the screen, in the order of its columns, after the section it belongs to."""

    section: str
    claim: str
    name: str
    status: str
    measured: str
    published: str


def lines(frame: pd.DataFrame) -> list[Line]:
    """One line per claim of a table of kind "claims", by section."""
    found = [
        Line(row["section"], row["claim"], title(row["claim"]), row["status"], measured(row), published(row["claim"]))
        for _, row in frame[frame["model"].isna()].iterrows()
    ]
    sections = list(dict.fromkeys(line.section for line in found))
    return sorted(found, key=lambda line: sections.index(line.section))


def title(claim: str) -> str:
    """The title of a claim; its id where a table of another version knows a claim that is not here."""
    found = catalogue.find(claim)
    return brief(found.title if found else claim, NAME)


def measured(row: pd.Series) -> str:
    """The first clauses of what a verdict says was measured, or of why there is none."""
    value = row["value"].replace(f"{ONLY_STAND_IN}: ", "stand-in: ")
    return brief(value.split(": ")[0] if row["status"] == Status.NOT_RUN.value else value.split("; ")[0], MEASURED)


def published(claim: str) -> str:
    """The first clauses of what the paper gives for a claim; a dash where it gives nothing."""
    found = catalogue.find(claim)
    return brief(found.published().split("; ")[0], PUBLISHED) if found and found.published else "–"


def brief(text: str, width: int) -> str:
    """The text without its parentheses if that makes it fit, else its first clauses, or words, that do, and a mark."""
    if len(text) <= width:
        return text
    text = re.sub(r" \([^()]*\)", "", text)
    if len(text) <= width:
        return text
    for boundary in (r"; |, ", r"(?<! of)(?<! to)(?<! in) (?!of |to |%)"):
        ends = [match.start() for match in re.finditer(boundary, text) if match.start() + len(CUT) <= width]
        if ends:
            return text[: ends[-1]] + CUT
    return text[: width - len(CUT)] + CUT
