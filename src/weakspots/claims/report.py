"""Verdicts as a table, and the table as a page to read."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

import pandas as pd

from weakspots.claims import evidence, published_claims
from weakspots.claims.verdicts import Claim, Verdict

_COUNTED = (("holds", "hold"), ("fails", "fail"), ("not run", "not run"))


def to_frame(judged: Iterable[tuple[Claim, Verdict]]) -> pd.DataFrame:
    """A table of kind "claims": one row per claim (model missing), followed by one row per part."""
    rows = [
        {"claim": claim.id, "section": claim.section, "text": claim.text}
        | {
            name: getattr(verdict, name)
            for name in ("status", "value", "model", "padding", "n", "seeds", "low", "high")
        }
        for claim, whole in judged
        for verdict in (whole, *whole.parts)
    ]
    return pd.DataFrame(rows).astype({"n": "Int64", "low": float, "high": float})


def to_markdown(frame: pd.DataFrame) -> str:
    """The table of `to_frame` for a reader: all verdicts first, then what each rests on."""
    whole = frame[frame["model"].isna()]
    counts = whole["status"].value_counts()
    lines = [
        "# Claims",
        "",
        ", ".join(f"{counts.get(status, 0)} {word}" for status, word in _COUNTED) + ".",
        "Accuracies are in percent, gaps (best minus worst position) in percentage points; n counts key–name mappings, "
        "each asked at every position, rankings where a claim is about the code completion, and runs or descents where "
        "it is about the theory. A stand-in is a tiny model trained here, none of DeepSeek's. The runs behind a "
        "verdict follow below, with the intervals of what it measures: bootstraps over mappings (over heads where "
        "gates are correlated with losses).",
        "",
        *_markdown_table(
            ["claim", "verdict", "measured", "n", "seeds", "published", "see"],
            [
                [
                    row["text"],
                    f"**{row['status']}**",
                    row["value"],
                    _count(row["n"]),
                    row["seeds"],
                    published_claims.of(row["claim"]),
                    _links(row["claim"]),
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
        lines += ["", f"## {name}", "", parts["text"].iloc[0], "", *_markdown_table(header, cells)]
    return "\n".join(lines) + "\n"


def _links(claim: str) -> str | None:
    """Figures and tables behind a claim, as links from the page's own folder."""
    kind = evidence.kind_of(claim)
    if kind is None:
        return None
    figures = [f"[{name}](figures/{name}.png)" for name in evidence.FIGURES[kind]]
    return ", ".join([*figures, f"[tables]({evidence.TABLES[kind]}/)"])


def to_terminal(frame: pd.DataFrame) -> str:
    """The verdicts of `to_frame` as plain text: one paragraph per claim, its verdict first."""
    whole = frame[frame["model"].isna()]
    width = max(len(status) for status, _ in _COUNTED)
    lines = []
    for section, rows in whole.groupby("section", sort=False):
        lines += ["", section]
        for _, row in rows.iterrows():
            text = f"{row['claim']}: {row['value']}" + ("" if pd.isna(row["n"]) else f" (n = {_count(row['n'])})")
            start = f"  {row['status']:<{width}}  "
            lines += textwrap.wrap(text, 110, initial_indent=start, subsequent_indent=" " * len(start))
    return "\n".join(lines[1:])


def _count(value: float) -> str | None:
    return None if pd.isna(value) else f"{value:,.0f}"


def _interval_text(row: pd.Series) -> str | None:
    return None if pd.isna(row["low"]) else f"{row['low']:.1f} to {row['high']:.1f}"


def _markdown_table(header: list[str], rows: list[list]) -> list[str]:
    def line(cells: list) -> str:
        return "| " + " | ".join("–" if pd.isna(cell) else str(cell).replace("|", r"\|") for cell in cells) + " |"

    return [line(header), line(["---"] * len(header)), *(line(row) for row in rows)]
