"""The grid of Figure 6: how much of the change that a cycle of the gates makes was predicted, beside the paper's R²."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from weakspots.analysis import cycling_prediction, paper_numbers
from weakspots.analysis.results import Results
from weakspots.errors import UserError
from weakspots.figures import panels


def measure(results: Results) -> pd.DataFrame:
    """One row per cycled run and shift: how well the prediction holds without the boundary phase.

    Columns model, label, shift (offsets), r_squared, low, high (bootstrap over mappings), correlation (with its sign),
    interior and all_phases (R² without the source of the boundary phase too, and over all phases), flat (the R² of a
    model that would be equally accurate at all phases), mean_change (of the accuracy, percentage points),
    published_r_squared, published_mean_change (missing where the paper has none), mappings.
    """
    rows = []
    for model, shift, clean, cycled in cycles(results):
        row = results.models[model]
        found = cycling_prediction.r_squared(clean, cycled, shift, row.stride, results.statistics)
        r_squared, low, high = found["without_boundary"]
        rows.append(
            {
                "model": model,
                "label": results.label(model),
                "shift": shift,
                "r_squared": r_squared,
                "low": low,
                "high": high,
                "correlation": found["correlation"],
                "interior": found["interior"][0],
                "all_phases": found["all"][0],
                "flat": cycling_prediction.flat_r_squared(clean, shift, row.stride),
                "mean_change": cycling_prediction.mean_change(clean, cycled),
                "published_r_squared": paper_numbers.gate_cycling_r_squared(model, shift),
                "published_mean_change": paper_numbers.gate_cycling_mean_change(model, shift),
                "mappings": len(cycled),
            }
        )
    return pd.DataFrame(rows).astype({"published_r_squared": float, "published_mean_change": float})


def cycles(results: Results) -> list[tuple[str, int, np.ndarray, np.ndarray]]:
    """Model, shift, and outcomes on the same prompts before and after every cycle, in the model table's order.

    Raises UserError if there are none.
    """
    found = []
    for model in results.models:
        clean = results.outcomes.get((model, results.cycling_padding))
        for shift, cycled in sorted(results.cycles.get(model, {}).items()):
            if clean is not None:
                found.append((model, shift, clean[: len(cycled)], cycled))
    if not found:
        raise UserError(f"the scale {results.scale} has no cycled gates yet: run `snakemake cycling` first")
    return found


_ABOVE, _LABELS, _CELL, _LINE = 0.98, 1.0, 0.8, 0.6  # inches: heading, names of runs, width and height of a cell


def height(agreed: pd.DataFrame) -> float:
    """Inches that `draw` needs."""
    return _ABOVE + _LINE * agreed["model"].nunique()


def draw(figure: Figure, agreed: pd.DataFrame, end: float) -> None:
    """R² by run and shift, each cell with its interval and the paper's R²; to the right the range of mean changes."""
    models, shifts = list(agreed["model"].unique()), sorted(agreed["shift"].unique())
    cells = agreed.set_index(["model", "shift"])
    title = {"ha": "center", "fontsize": 10, "fontweight": "bold"}
    panels.write(figure, panels.WIDTH / 2, end + 0.22, "R² excluding the boundary phase", **title)
    note = (
        f"In brackets: bootstrap interval over mappings. Paper: {paper_numbers.CAPTION.removeprefix('paper, ')}.\n"
        "Flat: what R² would be if the pattern vanished and all phases became alike."
    )
    panels.write(figure, panels.WIDTH / 2, end + 0.41, note, ha="center", fontsize=8.5, linespacing=1.25)
    values = cells["r_squared"].unstack().reindex(index=models, columns=shifts)
    width = min(_CELL, (panels.WIDTH - _LABELS - 1.2) / len(shifts)) * len(shifts)
    axes = panels.inches(figure, _LABELS, end + _ABOVE, width, _LINE * len(models))
    colours = sns.light_palette("mediumseagreen", as_cmap=True)
    axes.set_facecolor(panels.UNDEFINED_COLOUR)
    sns.heatmap(values, ax=axes, cmap=colours, vmin=0, vmax=1, cbar=False, linewidths=1)
    for row, model in enumerate(models):
        run = agreed[agreed["model"] == model]
        for _, cell in run.iterrows():
            middle = shifts.index(cell["shift"]) + 0.5
            known, theirs = pd.notna(cell["r_squared"]), pd.notna(cell["published_r_squared"])
            below = [f"[{cell['low']:.2f}, {cell['high']:.2f}]"] if known else []
            below += [f"paper {cell['published_r_squared']:.2f}"] if theirs else []
            below += [f"flat {cell['flat']:.2f}"] if pd.notna(cell["flat"]) else []
            against = " (against)" if cell["correlation"] < 0 else ""
            name = f"{cell['r_squared']:.2f}{against}" if known else "undefined"
            axes.text(middle, row + 0.2, name, ha="center", va="center", fontsize=9, fontweight="bold", color="0.1")
            axes.text(middle, row + 0.65, "\n".join(below), ha="center", va="center", fontsize=7, color="0.1")
        changes = [_span(run["mean_change"], "+.1f")]
        if run["published_mean_change"].notna().any():
            changes += [f"paper {_span(run['published_mean_change'], '+.1f')}"]
        axes.text(len(shifts) + 0.12, row + 0.5, "\n".join(changes), va="center", fontsize=7.5)
    axes.text(len(shifts) + 0.12, -0.1, "mean change (pp)", va="bottom", fontsize=7.5)
    labels = [panels.wrapped(agreed.loc[agreed["model"] == model, "label"].iloc[0], 1.0) for model in models]
    axes.set_yticks(np.arange(len(models)) + 0.5, labels, rotation=0, fontsize=8)
    axes.set_xticks(np.arange(len(shifts)) + 0.5, [f"δ = {panels.signed(shift)}" for shift in shifts], fontsize=8)
    axes.tick_params(length=0, labeltop=True, labelbottom=False, pad=2)
    axes.set(xlabel="", ylabel="")


def _span(values: pd.Series, form: str) -> str:
    """The smallest and the largest of several numbers."""
    found = dict.fromkeys(format(value, form).replace("-", "−") for value in (values.min(), values.max()))
    return " to ".join(found)
