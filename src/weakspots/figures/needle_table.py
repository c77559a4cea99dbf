"""The needle table: accuracy by residue of DeepSeek's models, published and measured here, and of their stand-ins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from weakspots import statistics
from weakspots.analysis.results import Results
from weakspots.figures import figure_1_models as models
from weakspots.figures import figure_1_needle, selected_runs
from weakspots.files.atomic import writing


def measure(results: Results) -> pd.DataFrame:
    """One row per model and source, in the table's order; in percent and percentage points.

    Columns model, label, stand_in, stride (missing: no compression), source ("paper" or "here"), n (prompts per
    residue), mean, worst, best, gap, apart (mean |A(r) - A(r + S)|), then accuracy_<r>, low_<r> and high_<r> (Wilson's
    interval) by residue and fold_<p> by phase. What was not run, or has no stride, is missing.
    """
    rows = []
    for (_, source), run in figure_1_needle.measure(results).groupby(["model", "source"], sort=False):
        entry = {name: run[name].iloc[0] for name in ("model", "label", "stand_in", "stride")} | {"source": source}
        if run["accuracy"].notna().all():
            run = run.sort_values("residue")
            accuracy, stride = run["accuracy"].to_numpy(float), int(entry["stride"])
            entry |= {"n": run["n"].iloc[0], "mean": accuracy.mean(), "worst": accuracy.min(), "best": accuracy.max()}
            entry |= {"gap": float(np.ptp(accuracy))}
            for name in ("accuracy", "low", "high"):
                entry |= {f"{name}_{residue}": value for residue, value in enumerate(run[name])}
            if stride:
                entry |= {"apart": statistics.apart(accuracy, stride)} if stride < len(accuracy) else {}
                entry |= {f"fold_{phase}": value for phase, value in enumerate(statistics.fold(accuracy, stride))}
        rows.append(entry)
    table = pd.DataFrame(rows)
    first = ["model", "label", "stand_in", "stride", "source", "n", "mean", "worst", "best", "gap", "apart"]
    by_place = [name for name in table.columns if name not in first]
    order = sorted(by_place, key=lambda name: (_GROUPS.index(name.split("_")[0]), int(name.split("_")[1])))
    table = table.reindex(columns=[*first, *order]).astype({"stride": "Int64", "n": "Int64"})
    return table.assign(stride=table["stride"].replace(0, pd.NA))


_GROUPS = ["accuracy", "low", "high", "fold"]


def readable(table: pd.DataFrame) -> pd.DataFrame:
    """`measure`'s table as text: a stand-in is called one, and what was not run says so.

    Columns model, S, from, n, one per residue, mean, gap, mean |A(r) − A(r+S)|, folded (accuracy by phase).
    """
    residues = [name for name in table.columns if name.startswith("accuracy_")]
    folds = [name for name in table.columns if name.startswith("fold_")]
    number = selected_runs.number(".1f")
    columns = {
        "model": table["label"],
        "S": table["stride"].map(selected_runs.number("d")),
        "from": [
            models.NOT_RUN if source == models.HERE and pd.isna(n) else source
            for source, n in zip(table["source"], table["n"], strict=True)
        ],
        "n": table["n"].map(selected_runs.number(",d")),
        **{name.removeprefix("accuracy_"): table[name].map(number) for name in residues},
        "mean": table["mean"].map(number),
        "gap": table["gap"].map(number),
        "mean |A(r) − A(r+S)|": table["apart"].map(number),
        "folded": [" ".join(f"{value:.1f}" for value in row.dropna()) or "–" for _, row in table[folds].iterrows()],
    }
    return pd.DataFrame(columns)


def save(table: pd.DataFrame, csv: str | Path, markdown: str | Path) -> None:
    """Write `measure`'s table to `csv` in full precision and to `markdown` as a reader wants it."""
    with writing(csv) as path:
        table.to_csv(path, index=False)
    with writing(markdown) as path:
        path.write_text(selected_runs.to_markdown(readable(table)))
