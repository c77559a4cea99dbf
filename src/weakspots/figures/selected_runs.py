"""The table of selected runs: mean, worst position, gap and period, beside the paper's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from weakspots.analysis import paper_numbers
from weakspots.analysis.results import Results
from weakspots.figures.style import PADDING_NAMES
from weakspots.files import markdown
from weakspots.files.atomic import writing
from weakspots.statistics import LEVEL

SELECTED = (
    "full-1kv",
    "full-8kv",
    "w8s8-1kv",
    "w8s8-8kv",
    "w8s4-1kv",
    "w12s12-1kv",
    "w8s8-1kv-no-rope",
    "w8s8-1kv-uniform",
)
"""The runs that the paper's own table selects."""


def measure(results: Results) -> pd.DataFrame:
    """One row per run and padding, in the model table's order, in percent and percentage points.

    Columns model, label, padding, stride, validation_loss_<corpus> for each corpus, mean, mean_low, mean_high, worst,
    worst_low, worst_high, gap, gap_low, gap_high, gap_p_value, period, period_p_value, period_share, n (mappings), and
    published_mean, published_worst, published_gap. Missing values: not run, not published, or no period.
    """
    rows = []
    for model, padding in results.runs():
        row, period = results.models[model], results.periodicity(model, padding)
        entry: dict[str, Any] = {
            "model": model,
            "label": results.label(model),
            "padding": padding,
            "stride": row.period,
        }
        entry |= {f"validation_loss_{corpus}": losses.get(model) for corpus, losses in results.losses.items()}
        for statistic, values in results.summary(model, padding).iterrows():
            entry |= {statistic: values["estimate"]}
            entry |= {f"{statistic}_low": values["low"], f"{statistic}_high": values["high"]}
        entry |= {"gap_p_value": period.gap_p_value, "period": period.period, "period_p_value": period.p_value}
        rows.append(entry | {"period_share": period.share, "n": len(results.outcomes[model, padding])})
    theirs = paper_numbers.summary()[["model", "padding", "mean", "worst", "gap"]]
    theirs = theirs.rename(columns={name: f"published_{name}" for name in ("mean", "worst", "gap")})
    merged = pd.DataFrame(rows).merge(theirs, on=["model", "padding"], how="left")
    return merged.astype({"stride": "Int64", "period": "Int64"})


def selected(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of `measure`'s table that the paper's own table selects, in its order, both paddings."""
    order = {model: place for place, model in enumerate(SELECTED)}
    rows = table[table["model"].isin(SELECTED)]
    return rows.sort_values("model", key=lambda models: models.map(order), kind="stable").reset_index(drop=True)


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """`measure`'s table as text, for a reader: intervals in brackets, the paper's figures after ours.

    A gap within the noise is marked so, and has no interval.

    Columns run, padding, a validation loss per corpus, mean, worst, gap, period, n, and the paper's mean, worst, gap.
    """
    columns = {"run": table["label"], "padding": table["padding"].map(PADDING_NAMES)}
    for name in table.columns[table.columns.str.startswith("validation_loss_")]:
        columns[f"val. loss, {name.removeprefix('validation_loss_')}"] = table[name].map(number(".3f"))
    for name in ("mean", "worst", "gap"):
        columns[name] = [_estimate(row, name) for _, row in table.iterrows()]
    columns["period"] = [
        str(row["period"]) if pd.notna(row["period"]) else "flat" if row["gap_p_value"] >= LEVEL else "none"
        for _, row in table.iterrows()
    ]
    columns["n"] = table["n"].astype(str)
    for name in ("mean", "worst", "gap"):
        columns[f"paper: {name}"] = table[f"published_{name}"].map(number(".1f"))
    return pd.DataFrame(columns)


def to_markdown(text: pd.DataFrame) -> str:
    """A table of text in Markdown, with a header row."""
    return "\n".join(markdown.table(text.columns, text.itertuples(index=False))) + "\n"


def save(table: pd.DataFrame, csv: str | Path, page: str | Path) -> None:
    """Write `measure`'s table to `csv` in full precision and to `page`, in Markdown, as a reader wants it."""
    with writing(csv) as path:
        table.to_csv(path, index=False)
    with writing(page) as path:
        path.write_text(to_markdown(readable(table)))


def _estimate(row: pd.Series, name: str) -> str:
    # Extremes of a flat profile are extremes of noise, and resampling adds as much again: an interval would mislead.
    if name != "mean" and row["gap_p_value"] >= LEVEL:
        return f"{row[name]:.1f}" + (" (noise)" if name == "gap" else "")
    return f"{row[name]:.1f} [{row[f'{name}_low']:.1f}, {row[f'{name}_high']:.1f}]"


def number(form: str) -> Callable[[float], str]:
    """Writes a number in this form, and a dash for one that is missing."""
    return lambda value: "–" if pd.isna(value) else format(value, form)
