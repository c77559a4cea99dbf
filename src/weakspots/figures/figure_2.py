"""Figure 2: accuracy by target-key position, every run under both paddings, beside the paper's own curves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from weakspots.analysis import paper_numbers
from weakspots.analysis.results import Results
from weakspots.config import PADDINGS
from weakspots.figures import style

HEADLINE = ("full-1kv", "w8s8-1kv", "w8s4-1kv", "w12s12-1kv", "w8s8-1kv-no-rope", "w8s8-1kv-uniform")
"""The runs of the compact figure: full attention, then one run for each thing the effect does not hang on."""


def measure(results: Results) -> pd.DataFrame:
    """One row per run, padding and position, in the model table's order.

    Columns model, label, kv_heads, stride (0: full attention), full_attention (the full-attention model with as many KV
    heads, or None), padding, confidence (of the interval), position, accuracy, low, high (percent), n (prompts).
    """
    parts = []
    for model, padding in results.runs():
        row = results.models[model]
        about = {
            "model": model,
            "label": results.label(model),
            "kv_heads": row.kv_heads,
            "stride": row.period or 0,
            "full_attention": results.full_attention_like(model) if row.compressed else None,
            "padding": padding,
            "confidence": results.statistics.confidence,
        }
        measured = results.by_position(model, padding)
        parts.append(measured.assign(**about)[[*about, *measured.columns]])
    return pd.concat(parts, ignore_index=True)


def draw(table: pd.DataFrame, models: Sequence[str] | None = None, columns: int = 4) -> Figure:
    """Small multiples of `measure`'s table, one panel per run (all of them, or `models` in that order)."""
    style.use_theme()
    shown = list(table["model"].unique() if models is None else models)
    grid = sns.FacetGrid(
        table,
        col="model",
        col_order=shown,
        col_wrap=min(columns, len(shown)),
        height=1.85,
        aspect=1.65,
        ylim=(-3, 103),  # a line at 0 or 100 is drawn whole
        xlim=(-0.6, table["position"].max() + 0.6),
        despine=True,
        sharex=False,  # each panel marks its own periods, so each has its own ticks
    )
    for model, axes in grid.axes_dict.items():
        _draw_run(axes, table[table["model"] == model], table)
    grid.set_axis_labels(f"target-key position mod {table['position'].max() + 1}", "accuracy (%)")
    grid.figure.tight_layout(h_pad=1.3, w_pad=0.8)
    _add_legend(grid.figure, table[table["model"].isin(shown)])
    return grid.figure


def headline(table: pd.DataFrame) -> Figure:
    """The compact version of `draw`, for a first look: the runs of `HEADLINE`, as far as they have been run."""
    present = [model for model in HEADLINE if model in set(table["model"])]
    return draw(table, present or table["model"].unique()[: len(HEADLINE)], columns=3)


def _draw_run(axes: Axes, run: pd.DataFrame, table: pd.DataFrame) -> None:
    """One panel: intervals, measured lines, the paper's lines, full attention, and the marks of the run's periods."""
    stride, label, model = run["stride"].iloc[0], run["label"].iloc[0], run["model"].iloc[0]
    modulus = int(run["position"].max()) + 1
    shape, attributes = label.split(" · ")[:2], label.split(" · ")[2:]
    separator = "\n" if len(label) > 34 else " · "  # a long name takes two lines
    axes.set_title(separator.join([" · ".join(shape), *filter(None, [" · ".join(attributes)])]), pad=4)
    axes.set_yticks([0, 50, 100])
    axes.set_xticks(range(0, modulus, stride or max(1, modulus // 6)))

    if stride:
        for boundary in range(stride, modulus, stride):
            axes.axvline(boundary - 0.5, color="0.8", linestyle="--", linewidth=0.7, zorder=0)
        boundary_phases = np.arange(stride - 1, modulus, stride)
        at_axis = axes.get_xaxis_transform()
        axes.plot(
            boundary_phases, np.full(len(boundary_phases), -0.045), "^", transform=at_axis, clip_on=False,
            color="0.25", markersize=3.5, markeredgewidth=0,
        )  # fmt: skip
    full = table[(table["model"] == run["full_attention"].iloc[0]) & (table["padding"] == "prefix")]
    axes.plot(full["position"], full["accuracy"], color=style.FULL_ATTENTION_COLOUR, linestyle=(0, (4, 2)), linewidth=1)

    for padding, lines in run.groupby("padding", sort=False):
        colour = style.PADDING_COLOURS[padding]
        theirs = paper_numbers.profile(model, padding)
        if theirs is not None and len(theirs) == modulus:
            axes.plot(range(modulus), theirs, color=colour, linestyle=(0, (5, 1.5, 1, 1.5)), linewidth=0.8, alpha=0.75)
        axes.fill_between(lines["position"], lines["low"], lines["high"], color=colour, alpha=0.2, linewidth=0)
        _draw_by_period(axes, lines, stride or modulus, colour)


def _draw_by_period(axes: Axes, lines: pd.DataFrame, period: int, colour: str) -> None:
    """Solid within a period, dotted where the line crosses from one to the next."""
    position, accuracy = lines["position"].to_numpy(), lines["accuracy"].to_numpy()
    for start in range(0, len(position), period):
        within, across = slice(start, start + period), slice(start - 1, start + 1)
        axes.plot(position[within], accuracy[within], color=colour, linewidth=1.5, marker="o", markersize=2.4)
        if start:
            axes.plot(position[across], accuracy[across], color=colour, linewidth=1, linestyle=":")


def _add_legend(figure: Figure, shown: pd.DataFrame) -> None:
    """The legend and the subtitle with the numbers that the panels share, above the panels."""
    paddings = [padding for padding in PADDINGS if padding in set(shown["padding"])]
    entries = [
        *(Line2D([], [], color=style.PADDING_COLOURS[p], linewidth=1.5, marker="o", markersize=3) for p in paddings),
        Line2D([], [], color=style.FULL_ATTENTION_COLOUR, linestyle=(0, (4, 2)), linewidth=1),
        Line2D([], [], color="0.2", linestyle=(0, (5, 1.5, 1, 1.5)), linewidth=0.8),
        Line2D([], [], color="0.25", marker="^", linestyle="", markersize=4),
    ]
    names = [
        *(style.PADDING_NAMES[padding] for padding in paddings),
        "full attention, as many KV heads, prefix padding",
        f"{paper_numbers.CAPTION} (same colours)",
        "boundary phase S−1",
    ]
    counts = sorted(set(shown["n"]))
    n = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    subtitle = (
        f"n = {n} prompts per point, one per key–name mapping. Bands: {shown['confidence'].iloc[0]:.0%} intervals,\n"
        "Wilson for full attention, bootstrap over mappings for compressed runs."
    )
    figure.text(0.5, 1.0, subtitle, ha="center", va="bottom", fontsize=8.5)
    above_subtitle = 1.0 + 0.34 / figure.get_figheight()
    figure.legend(entries, names, loc="lower center", bbox_to_anchor=(0.5, above_subtitle), ncol=3, frameon=False)
