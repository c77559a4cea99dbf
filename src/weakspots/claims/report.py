"""Verdicts as a table, and the table as a page to read."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

import pandas as pd

from weakspots.claims import catalogue, summary
from weakspots.claims.verdicts import Claim, Verdict
from weakspots.files import markdown, statuses


def to_frame(judged: Iterable[tuple[Claim, Verdict]]) -> pd.DataFrame:
    """A table of kind "claims": one row per claim (model missing), followed by one row per part."""
    rows = [
        {"claim": claim.id, "section": claim.section, "text": claim.text}
        | {"status": verdict.status.value}
        | {name: getattr(verdict, name) for name in ("value", "model", "padding", "n", "seeds", "low", "high")}
        for claim, whole in judged
        for verdict in (whole, *whole.parts)
    ]
    return pd.DataFrame(rows).astype({"n": "Int64", "low": float, "high": float})


def to_markdown(frame: pd.DataFrame) -> str:
    """The table of `to_frame` for a reader: all verdicts on one screen, then in full, then what each rests on."""
    whole = frame[frame["model"].isna()]
    lines = [
        "# Claims",
        "",
        statuses.tally(whole["status"]),
        "",
        *_short_table(frame),
        "",
        "## What each claim says and rests on",
        "",
        "Accuracies are in percent, gaps (best minus worst position) in percentage points; n counts key–name mappings, "
        "each asked at every position, rankings where a claim is about the code completion, and runs or descents where "
        "it is about the theory. A stand-in is a tiny model trained here, none of DeepSeek's. The runs behind a "
        "verdict follow below, with the intervals of what it measures: bootstraps over mappings (over heads where "
        "gates are correlated with losses).",
        "",
        *markdown.table(
            ["claim", "verdict", "measured", "n", "seeds", "published", "see"],
            [
                [
                    row["text"],
                    f"**{row['status']}**",
                    row["value"],
                    _count(row["n"]),
                    row["seeds"],
                    *_published_and_links(row["claim"]),
                ]
                for _, row in whole.iterrows()
            ],
        ),
    ]
    for name, parts in frame[frame["model"].notna()].groupby("claim", sort=False):
        cells = [
            [
                row["model"],
                row["padding"],
                row["status"],
                row["value"],
                _interval_text(row),
                _count(row["n"]),
                row["seeds"],
            ]
            for _, row in parts.iterrows()
        ]
        header = ["model", "padding", "verdict", "measured", "interval", "n", "seed"]
        lines += ["", f"## {name}", "", parts["text"].iloc[0], "", *markdown.table(header, cells)]
    return "\n".join(lines) + "\n"


def _short_table(frame: pd.DataFrame) -> list[str]:
    """The screen of `summary.lines` as a Markdown table, with a row that names each section before its claims."""
    rows: list[list[str | None]] = []
    section = None
    for line in summary.lines(frame):
        if line.section != section:
            section = line.section
            rows.append([f"**{section}**", "", "", ""])
        rows.append([line.name, line.status, line.measured, line.published])
    return markdown.table(["claim", "verdict", "measured", "paper"], rows)


def _published_and_links(claim: str) -> tuple[str | None, str | None]:
    """What the paper gives for a claim, and the figures and tables behind it as links from the page's own folder."""
    found = catalogue.find(claim)
    if found is None:
        return None, None
    figures = [f"[{name}](figures/{name}.png)" for name in found.kind.figures]
    published = found.published() if found.published else None
    return published, ", ".join([*figures, f"[tables]({found.kind.folder}/)"])


def to_terminal(frame: pd.DataFrame) -> str:
    """The verdicts of `to_frame` as plain text: all on one screen, then one paragraph per claim, its verdict first."""
    whole = frame[frame["model"].isna()]
    width = max(map(len, statuses.COUNTED))
    heading = f"{'claim':<{summary.NAME}}  {'measured':<{summary.MEASURED}}  paper"
    screen, section = [f"  {'verdict':<{width}}  {heading}"], None
    for line in summary.lines(frame):
        if line.section != section:
            section = line.section
            screen.append(section)
        name, measured = f"{line.name:<{summary.NAME}}", f"{line.measured:<{summary.MEASURED}}"
        screen.append(f"  {line.status:<{width}}  {name}  {measured}  {line.published}")
    details = []
    for section, rows in whole.groupby("section", sort=False):
        details += ["", section]
        for _, row in rows.iterrows():
            text = f"{row['claim']}: {row['value']}" + ("" if pd.isna(row["n"]) else f" (n = {_count(row['n'])})")
            start = f"  {row['status']:<{width}}  "
            details += textwrap.wrap(text, 110, initial_indent=start, subsequent_indent=" " * len(start))
    return "\n".join([*screen, "", "In full:", *details])


def _count(value: float) -> str | None:
    return None if pd.isna(value) else f"{value:,.0f}"


def _interval_text(row: pd.Series) -> str | None:
    return None if pd.isna(row["low"]) else f"{row['low']:.1f} to {row['high']:.1f}"
