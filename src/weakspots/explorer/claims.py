"""The verdicts on all claims, with the published figure beside each and links to the table and figure behind it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from weakspots.analysis.results import Results
from weakspots.claims import catalogue, kinds, summary
from weakspots.claims.kinds import Kind
from weakspots.config import load
from weakspots.config.deepseek import TESTS
from weakspots.explorer.plain import number
from weakspots.files import tables
from weakspots.files.theory_columns import THEORY_TABLES
from weakspots.workflow.layout import Layout


def read(results: Results, layout: Layout) -> list[dict] | None:
    """Every claim in the order of its table, with its parts; None if the claims have not been judged."""
    path = Path(layout.claims("parquet"))
    if not path.exists():
        return None
    frame, corpus = tables.read(path, "claims"), load(layout.config).lookup.corpus
    found = []
    for name, rows in frame.groupby("claim", sort=False):
        claim = catalogue.find(name)  # None for one that this version does not know
        kind = claim.kind if claim else None
        whole = rows[rows["model"].isna()].iloc[0]
        found.append(
            {
                "id": name,
                "section": whole["section"],
                "name": summary.title(name),
                "measured_briefly": summary.measured(whole),
                "published_briefly": summary.published(name),
                "text": whole["text"],
                **_verdict(whole),
                "published": claim.published() if claim and claim.published else None,
                "figures": _links(layout, (layout.figure(figure, "png") for figure in (kind.figures if kind else ()))),
                "tables": _links(layout, map(layout.theory, THEORY_TABLES)) if kind == kinds.THEORY else [],
                "parts": [
                    {
                        "model": part["model"],
                        "label": _label(results, kind, part["model"]),
                        "padding": _padding(part),
                        **_verdict(part),
                        "published": kind.published(part["model"], _padding(part)) if kind else None,
                        "table": next(iter(_links(layout, _table(layout, corpus, kind, part))), None),
                    }
                    for _, part in rows[rows["model"].notna()].iterrows()
                ],
            }
        )
    return found


def _label(results: Results, kind: Kind | None, model: str) -> str | None:
    """A run's name; None for what is no run, such as a shape of the theory."""
    if kind and kind.name in TESTS:
        return results.deepseek[model].label if model in results.deepseek else None
    return results.label(model) if model in results.models else None


def _verdict(row: pd.Series) -> dict:
    return {
        "status": row["status"],
        "value": row["value"],
        "n": None if pd.isna(row["n"]) else int(row["n"]),
        "seeds": row["seeds"] if isinstance(row["seeds"], str) else None,
        "low": number(row["low"]),
        "high": number(row["high"]),
    }


def _table(layout: Layout, corpus: str, kind: Kind | None, part: pd.Series) -> list[str]:
    """The table that this part is judged by, if it is one of a model's."""
    model, padding = part["model"], _padding(part)
    if kind in (kinds.LOOKUP, kinds.KNOCKOUT) and padding is not None:
        return [getattr(layout, kind.name)(model, padding)]
    if kind and kind.name in TESTS:
        return [layout.deepseek(model, kind.name)]
    if kind == kinds.GATES:
        return [layout.gates(corpus, model)]
    return [layout.cycling(model)] if kind == kinds.CYCLING else []


def _padding(part: pd.Series) -> str | None:
    return part["padding"] if isinstance(part["padding"], str) else None


def _links(layout: Layout, paths: Iterable[str]) -> list[str]:
    """Those paths that exist, as seen from the page, which lies in the layout's folder."""
    return [Path(path).relative_to(layout.root).as_posix() for path in paths if Path(path).exists()]
