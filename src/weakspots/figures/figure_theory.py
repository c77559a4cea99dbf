"""The figures of the idealised model: Theorem 1, Theorem 2, coverage, and the retrieval by phase that it predicts."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from weakspots.analysis import trained_heads
from weakspots.analysis.results import Results
from weakspots.errors import UserError
from weakspots.figures import style, theory_panels
from weakspots.files.theory_columns import THEORY_TABLES
from weakspots.statistics import wilson
from weakspots.theory.coverage import GROUP


def measure(results: Results) -> dict[str, pd.DataFrame]:
    """The theory's tables by name. Raises UserError if one is missing."""
    if missing := [name for name in THEORY_TABLES if name not in results.theory]:
        raise UserError(
            f"the scale {results.scale} lacks theory tables ({', '.join(missing)}): run `snakemake theory` first"
        )
    return {name: results.theory[name] for name in THEORY_TABLES}


def beside_trained_models(results: Results) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The heads of the models that have learnt, `trained_heads.describe`, and their summary by model."""
    described = trained_heads.describe(results.evidence().gates)
    confidence = float(results.theory["settings"]["confidence"].iloc[0])
    return described, trained_heads.summarise(described, confidence)


def draw_theorem_1(
    landscape: pd.DataFrame, minima: pd.DataFrame, exponent: pd.DataFrame, cases: pd.DataFrame
) -> Figure:
    """The loss landscape, the margin of distinct over coincident assignments, and the map of N and epsilon."""
    figure, (left, middle, right) = _row((1.15, 1, 1.2))
    theory_panels.draw_landscape(left, landscape)
    theory_panels.draw_margin(middle, minima, exponent)
    theory_panels.draw_map(right, cases)
    figure.tight_layout(w_pad=2)
    return figure


def draw_theorem_2(
    trajectories: pd.DataFrame, heads: pd.DataFrame, escape: pd.DataFrame, coverage: pd.DataFrame
) -> Figure:
    """Token gates on the concentration plane, when heads choose, and how often they keep apart at finite N."""
    figure, (left, middle, right) = _row((1, 1, 1.1))
    theory_panels.draw_plane(left, trajectories)
    theory_panels.draw_escape(middle, heads, escape)
    theory_panels.draw_repulsion(right, coverage)
    figure.tight_layout(w_pad=2)
    return figure


def draw_coverage(coverage: pd.DataFrame) -> Figure:
    """How many positions are covered at the largest N, for three m of each S, beside independent uniform choice."""
    style.use_theme()
    shown = coverage[coverage["vocabulary"] == coverage["vocabulary"].max()]
    sizes = sorted(shown["positions"].unique())
    panels = pd.DataFrame([(size, *panel) for size in sizes for panel in enumerate(_few_half_all(size))])
    panels.columns = ["positions", "panel", "heads"]
    grid = sns.FacetGrid(
        panels, row="positions", col="panel", height=1.75, aspect=1.75, sharex=False, sharey=False, despine=True
    )
    for (size, panel), axes in grid.axes_dict.items():
        rows = shown[(shown["positions"] == size) & (shown["heads"] == _few_half_all(size)[panel])]
        numbers = rows["covered"]
        error = np.maximum([rows["share"] - rows["low"], rows["high"] - rows["share"]], 0)
        axes.bar(numbers, rows["share"], color=style.PADDING_COLOURS["prefix"], alpha=0.55, width=0.75, linewidth=0)
        axes.errorbar(numbers, rows["share"], error, fmt="none", color="0.25", linewidth=0.9)
        axes.plot(numbers, rows["independent"], "o", color=style.PADDING_COLOURS["in_sequence"], markersize=3.5)
        axes.set_title(f"S = {size}, m = {rows['heads'].iloc[0]} (p = {rows['p_value'].iloc[0]:.2g})", pad=3)
        axes.set_xticks(numbers if size <= 8 else numbers[::2])
        axes.set_xlim(0.4, size - 0.4)
        axes.set_ylim(0)
    grid.set_axis_labels("positions covered", "runs (%)")
    grid.figure.tight_layout(h_pad=1.2)
    vocabulary, rho = (shown[name].iloc[0] for name in ("vocabulary", "rho"))
    ensembles = shown.drop_duplicates(GROUP)
    starts, left_out = (ensembles["runs"] + ensembles["unconcentrated"]).max(), ensembles["unconcentrated"].sum()
    _legend_above(
        grid.figure,
        [
            (Line2D([], [], color=style.PADDING_COLOURS["prefix"], alpha=0.55, linewidth=7), "gradient flow"),
            (Line2D([], [], color="0.25", linewidth=0.9), "Wilson's interval"),
            (
                Line2D([], [], color=style.PADDING_COLOURS["in_sequence"], marker="o", linestyle="", markersize=4),
                "independent uniform choice",
            ),
        ],
        f"N = {vocabulary:,}, ρ = {rho:g}, {starts} starts each ({left_out} left out, as a head did not concentrate); "
        "p: goodness of fit of independent uniform choice",
    )
    return grid.figure


def draw_retrieval(retrieval: pd.DataFrame, confidence: float) -> Figure:
    """Predicted retrieval by phase: the share of runs, and the runs that retrieve the fewest and the most phases.

    One panel per S, for m = S / 2. At large N non-final positions play the same part, so the share of all runs is flat
    by symmetry, and what depends on phase is a single run. The boundary phase S - 1 is never asked, and is left open.
    """
    style.use_theme()
    sizes = sorted(retrieval["positions"].unique())
    shown = pd.concat([retrieval.query("positions == @size and heads == @size // 2") for size in sizes])
    grid = sns.FacetGrid(shown, col="positions", height=2.0, aspect=1.65, sharex=False, ylim=(-5, 105), despine=True)
    for size, axes in grid.axes_dict.items():
        runs = shown[shown["positions"] == size].pivot(index="run", columns="phase", values="retrieved")
        low, high = wilson(runs.sum(), len(runs), confidence)
        counts = runs.sum(axis=1)
        for run, colour, width in ((counts.idxmin(), "0.65", 0.9), (counts.idxmax(), "0.35", 0.9)):
            axes.plot(
                runs.columns, 100 * runs.loc[run], color=colour, linewidth=width, marker="o", markersize=2.4,
                linestyle="--" if colour == "0.65" else "-",
            )  # fmt: skip
        colour = style.PADDING_COLOURS["prefix"]
        axes.fill_between(runs.columns, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(runs.columns, 100 * runs.mean(), color=colour, linewidth=1.5, marker="o", markersize=2.8)
        axes.axvspan(size - 1.5, size - 0.5, color="0.93", linewidth=0, zorder=0)
        axes.plot(size - 1, -0.06, "^", transform=axes.get_xaxis_transform(), clip_on=False, color="0.25", markersize=4)
        axes.set_title(f"S = {size}, m = {size // 2} heads", pad=4)
        axes.set_xticks(range(0, size, 1 if size <= 8 else 2))
        axes.set_xlim(-0.5, size - 0.5)
        axes.set_yticks([0, 50, 100])
    grid.set_axis_labels("phase of the key", "retrieved (%)")
    grid.figure.tight_layout(w_pad=1)
    _legend_above(
        grid.figure,
        [
            (Line2D([], [], color=style.PADDING_COLOURS["prefix"], marker="o", markersize=3), "all runs"),
            (Line2D([], [], color="0.65", linestyle="--", marker="o", markersize=2.4), "a run that retrieves fewest"),
            (Line2D([], [], color="0.35", marker="o", markersize=2.4, linewidth=0.9), "a run that retrieves most"),
            (Line2D([], [], color="0.25", marker="^", linestyle="", markersize=4), "boundary phase S−1, never asked"),
        ],
        f"n = {shown['run'].nunique()} starts per panel; all runs: flat by symmetry at large N, up to noise. "
        f"Bands: {confidence:.0%} Wilson intervals over starts.",
    )
    return grid.figure


def _few_half_all(positions: int) -> tuple[int, int, int]:
    """Three numbers of heads for S positions."""
    return max(1, positions // 4), max(1, positions // 2), positions - 1


def _row(widths: tuple[float, ...]) -> tuple[Figure, np.ndarray]:
    style.use_theme()
    return plt.subplots(1, len(widths), figsize=(11, 3.4), width_ratios=widths)


def _legend_above(figure: Figure, entries: list[tuple[Line2D, str]], subtitle: str) -> None:
    handles, names = zip(*entries, strict=True)
    figure.text(0.5, 1.0, subtitle, ha="center", va="bottom", fontsize=8.5)
    above = 1.0 + 0.14 / figure.get_figheight()
    figure.legend(handles, names, loc="lower center", bbox_to_anchor=(0.5, above), ncol=len(names), frameon=False)
