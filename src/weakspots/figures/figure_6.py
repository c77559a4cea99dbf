"""Figure 6: gate cycling, which moves the weak spots inside the window and leaves the boundary phase."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from weakspots import statistics
from weakspots.analysis import cycling_prediction
from weakspots.analysis.results import Results
from weakspots.figures import figure_6_grid, panels, style

SHIFT_PALETTE = "PRGn"
"""Diverging colours of the shifts, backward to forward, in the scatter plots."""


def measure(results: Results) -> pd.DataFrame:
    """One row per cycled run, shift and phase, in the model table's order.

    Columns model, label, stride, padding, confidence, shift (offsets), phase, boundary (whether it is S - 1), clean,
    observed, low, high (bootstrap over mappings), predicted (accuracies, percent), observed_change, predicted_change
    (percentage points), n (prompts per phase), mappings.
    Raises UserError if no run has been cycled.
    """
    parts, settings = [], results.statistics
    for model, shift, clean, cycled in figure_6_grid.cycles(results):
        row = results.models[model]
        drawn = statistics.fold(statistics.bootstrap(cycled, settings.bootstrap, settings.seed), row.stride)
        low, high = statistics.interval(drawn, settings.confidence)
        about = {
            "model": model,
            "label": results.label(model),
            "stride": row.stride,
            "padding": results.cycling_padding,
            "confidence": settings.confidence,
            "shift": shift,
        }
        table = cycling_prediction.compare(clean, cycled, shift, row.stride)
        counts = {"n": cycled.size // row.stride, "mappings": len(cycled)}
        measured = {"boundary": table["phase"] == row.stride - 1, "low": low, "high": high}
        parts.append(table.assign(**about, **measured, **counts))
    order = [*about, "phase", "boundary", "clean", "observed", "low", "high", "predicted", "observed_change"]
    return pd.concat(parts, ignore_index=True)[[*order, "predicted_change", *counts]]


_TOP, _LEFT, _ROW, _SCATTER, _GAP = 0.92, 0.42, 1.36, 1.0, 0.62  # inches


def draw(table: pd.DataFrame, agreed: pd.DataFrame) -> Figure:
    """`measure`'s table, a row of panels per run, and below them the grid of R² (`figure_6_grid.measure`'s table)."""
    style.use_theme()
    models, shifts = list(table["model"].unique()), sorted(table["shift"].unique())
    end = _TOP + len(models) * _ROW
    figure = panels.sheet(end + figure_6_grid.height(agreed))
    _add_heading(figure, table)
    width = min(1.4, (panels.WIDTH - _LEFT - _GAP - _SCATTER) / len(shifts))
    colours = dict(zip(shifts, _shift_colours(len(shifts)), strict=True))
    for number, model in enumerate(models):
        run, top, lowest = table[table["model"] == model], _TOP + number * _ROW, number == len(models) - 1
        panels.write(figure, _LEFT, top, run["label"].iloc[0], fontsize=9, fontweight="bold")
        for column, shift in enumerate(shifts):
            cycle = run[run["shift"] == shift]
            if cycle.empty:
                continue
            axes = panels.inches(figure, _LEFT + column * width, top + 0.34, width - 0.1, _ROW - 0.62)
            _draw_profile(axes, cycle, first=column == 0, lowest=lowest)
            axes.set_title(f"δ = {panels.signed(shift)}", fontsize=8, pad=2, color=colours[shift])
        left = _LEFT + len(shifts) * width + _GAP - 0.1
        axes = panels.inches(figure, left, top + 0.1, _SCATTER, _SCATTER)
        _draw_changes(axes, run, colours, lowest)
    figure_6_grid.draw(figure, agreed, end)
    return figure


def _draw_profile(axes: Axes, run: pd.DataFrame, first: bool, lowest: bool) -> None:
    """Accuracy by phase after one cycle, as it was predicted, and before."""
    phase, colour = run["phase"], style.PADDING_COLOURS[run["padding"].iloc[0]]
    axes.fill_between(phase, run["low"], run["high"], color=colour, alpha=0.25, linewidth=0)
    axes.plot(phase, run["clean"], color="0.65", linewidth=1.2)
    axes.plot(phase, run["observed"], color=colour, linewidth=1.5, marker="o", markersize=2.2)
    axes.plot(phase, run["predicted"], color="0.1", linewidth=0.9, linestyle=(0, (3, 1.5)))
    boundary, at_axis = run.loc[run["boundary"], "phase"], axes.get_xaxis_transform()
    axes.plot(boundary, [-0.05], "^", transform=at_axis, clip_on=False, color="0.25", markersize=3.5, markeredgewidth=0)
    stride = int(run["stride"].iloc[0])
    axes.set(xlim=(-0.4, stride - 0.6), xticks=range(0, stride, panels.every(stride, 4)))
    axes.set(ylim=(-3, 103), yticks=[0, 50, 100])  # a line at 0 or 100 is drawn whole
    axes.tick_params(length=2, pad=2, labelsize=7)
    if first:
        axes.set_ylabel("accuracy (%)", fontsize=8, labelpad=1)
    else:
        axes.set_yticklabels([])
    if lowest:
        axes.set_xlabel("phase", fontsize=8, labelpad=1)


def _draw_changes(axes: Axes, run: pd.DataFrame, colours: dict[int, tuple], lowest: bool) -> None:
    """Predicted against observed change by phase, one colour per shift; boundary phases hollow."""
    limit = 10 * max(1, np.ceil(run[["observed_change", "predicted_change"]].abs().to_numpy().max() / 10))
    axes.plot([-limit, limit], [-limit, limit], color="0.6", linestyle=(0, (4, 3)), linewidth=0.8, zorder=0)
    for shift, points in run.groupby("shift"):
        for boundary, part in points.groupby("boundary"):
            axes.scatter(
                part["predicted_change"], part["observed_change"], s=11, linewidth=0.8, edgecolor=[colours[shift]],
                facecolor="none" if boundary else [colours[shift]], zorder=2,
            )  # fmt: skip
    room = 1.12 * limit  # so that the ticks of the two axes keep apart
    axes.set(xlim=(-room, room), ylim=(-room, room), xticks=[-limit, 0, limit], yticks=[-limit, 0, limit])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: panels.signed(int(value)))
    axes.tick_params(length=2, pad=1.5, labelsize=7)
    axes.set_ylabel("observed change (pp)", fontsize=7.5, labelpad=2)
    if lowest:
        axes.set_xlabel("predicted change (pp)", fontsize=8, labelpad=1)


def _add_heading(figure: Figure, table: pd.DataFrame) -> None:
    """Title, the number of prompts, and what the lines mean."""
    padding, mappings = table["padding"].iloc[0], panels.counted(table["mappings"])
    panels.heading(
        figure,
        "Accuracy by phase after cycling the gates by δ offsets, observed and predicted",
        f"Gates cycled, payload maps kept. n = {mappings} mappings at every position, {style.PADDING_NAMES[padding]}.",
        f"Bands: {table['confidence'].iloc[0]:.0%} bootstrap intervals over mappings. "
        "Right: a point per phase, coloured by δ.",
    )
    colour = style.PADDING_COLOURS[padding]
    entries = {
        "observed": Line2D([], [], color=colour, linewidth=1.5, marker="o", markersize=3),
        "predicted": Line2D([], [], color="0.1", linewidth=0.9, linestyle=(0, (3, 1.5))),
        "not cycled": Line2D([], [], color="0.65", linewidth=1.2),
        "boundary phase S−1 (at right hollow)": Line2D([], [], color="0.25", marker="^", linestyle="", markersize=4),
    }
    at = (0.5, 1 - 0.72 / figure.get_figheight())
    figure.legend(
        entries.values(), entries.keys(), loc="center", bbox_to_anchor=at, ncol=4, frameon=False, fontsize=8.5,
        columnspacing=1.4, handletextpad=0.5,
    )  # fmt: skip


def _shift_colours(count: int) -> list[tuple]:
    """One colour per shift, without the palest in the middle of the palette."""
    palette = sns.color_palette(SHIFT_PALETTE, count + 4)
    return palette[: (count + 1) // 2] + palette[len(palette) - count // 2 :]
