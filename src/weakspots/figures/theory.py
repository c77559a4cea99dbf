"""The figures of the idealised model: Theorem 1, Theorem 2, coverage, and the retrieval by phase that it predicts."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from weakspots.errors import UserError
from weakspots.figures import style
from weakspots.results import Results
from weakspots.statistics import wilson
from weakspots.theory.coverage import escape_fit

NAMES = ("landscape", "minima", "exponent", "map", "heads", "coverage", "retrieval", "trajectories", "tokens")
"""The tables that the figures are drawn from."""


def measure(results: Results) -> dict[str, pd.DataFrame]:
    """The theory's tables by name. Raises UserError if one is missing."""
    if missing := [name for name in NAMES if name not in results.theory]:
        raise UserError(
            f"the scale {results.scale} lacks theory tables ({', '.join(missing)}): run `snakemake theory` first"
        )
    return {name: results.theory[name] for name in NAMES}


def draw_theorem_1(
    landscape: pd.DataFrame, minima: pd.DataFrame, exponent: pd.DataFrame, cases: pd.DataFrame
) -> Figure:
    """The loss landscape, the margin of distinct over coincident assignments, and the map of N and epsilon."""
    figure, (left, middle, right) = _row((1.15, 1, 1.2))
    _draw_landscape(left, landscape)
    _draw_margin(middle, minima, exponent)
    _draw_map(right, cases)
    figure.tight_layout(w_pad=2)
    return figure


def draw_theorem_2(trajectories: pd.DataFrame, heads: pd.DataFrame, coverage: pd.DataFrame) -> Figure:
    """Token gates on the concentration plane, when heads choose, and how often they keep apart at finite N."""
    figure, (left, middle, right) = _row((1, 1, 1.1))
    _draw_plane(left, trajectories)
    _draw_escape(middle, heads)
    _draw_repulsion(right, coverage)
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
    vocabulary, rho, runs = (shown[name].iloc[0] for name in ("vocabulary", "rho", "runs"))
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
        f"N = {vocabulary:,}, ρ = {rho:g}, {runs} starts each; p: goodness of fit of independent uniform choice",
    )
    return grid.figure


def draw_retrieval(retrieval: pd.DataFrame, confidence: float = 0.95) -> Figure:
    """Predicted retrieval by phase: the share of runs, and single runs with the least and the most coverage.

    One panel per S, for m = S / 2. The boundary phase S - 1 is never asked, and is left open.
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
            (Line2D([], [], color="0.65", linestyle="--", marker="o", markersize=2.4), "the run that covers least"),
            (Line2D([], [], color="0.35", marker="o", markersize=2.4, linewidth=0.9), "the run that covers most"),
            (Line2D([], [], color="0.25", marker="^", linestyle="", markersize=4), "boundary phase S−1, never asked"),
        ],
        f"n = {shown['run'].nunique()} starts per panel. Bands: {confidence:.0%} Wilson intervals over starts.",
    )
    return grid.figure


def _draw_landscape(axes: Axes, landscape: pd.DataFrame) -> None:
    surface = landscape.pivot(index="w", columns="u", values="loss")
    filled = axes.contourf(surface.columns, surface.index, surface, levels=24, cmap="viridis_r")
    filled.set_edgecolor("face")  # no hairlines between the levels in a vector file
    axes.contour(surface.columns, surface.index, surface, levels=12, colors="white", linewidths=0.4)
    least = landscape[landscape["loss"] <= landscape["loss"].min() + 1e-9]
    axes.plot(least["u"], least["w"], "*", color="white", markeredgecolor="black", markersize=11, clip_on=False)
    bar = axes.figure.colorbar(filled, ax=axes, fraction=0.05, pad=0.03)
    bar.locator = MaxNLocator(4)
    bar.set_label("loss (nats)")
    bar.outline.set_visible(False)
    axes.set(
        title="Loss of one head, S = 3", xlabel="key: weight on 0, rest on 1", ylabel="value: weight on 1, rest on 2"
    )


def _draw_margin(axes: Axes, minima: pd.DataFrame, exponent: pd.DataFrame) -> None:
    drawn = minima.dropna(subset="margin")
    for number, ((positions, heads), rows) in enumerate(drawn.groupby(["positions", "heads"], sort=False)):
        fit = exponent[(exponent["positions"] == positions) & (exponent["heads"] == heads)]
        name = f"S = {positions}, m = {heads}"
        if not fit.empty:
            name += f": {fit['exponent'].iloc[0]:.3f} ± {(fit['high'] - fit['low']).iloc[0] / 2:.3f}"
        colour = sns.color_palette("colorblind")[number % 10]
        marker = "os^D"[number % 4]
        axes.loglog(rows["vocabulary"], rows["margin"], marker, color=colour, markersize=4, label=name, alpha=0.8)
    if not exponent.empty:
        at = np.array([exponent["fit_from"].min(), drawn["vocabulary"].max()], dtype=float)
        axes.plot(at, exponent["prefactor"].max() / at, color="0.4", linewidth=0.9, zorder=0, label="slope −1")
    axes.set_ylim(top=3_000 * drawn["margin"].max())  # room for the legend
    about = {"title": "exponent of N", "title_fontsize": 8}
    axes.legend(frameon=False, loc="upper right", fontsize=7.5, handletextpad=0.3, **about)
    axes.set(title="Coincident minus distinct", xlabel="vocabulary N", ylabel="loss margin (nats)")


def _draw_map(axes: Axes, cases: pd.DataFrame) -> None:
    share = 100 * cases.pivot_table(index="epsilon", columns="vocabulary", values="concentrated", aggfunc="mean")
    sns.heatmap(
        share.sort_index(ascending=False), ax=axes, cmap="viridis", vmin=0, vmax=100, annot=True, fmt=".0f",
        annot_kws={"fontsize": 7.5}, linewidths=0.5, cbar_kws={"label": "contexts (%)", "ticks": [0, 50, 100]},
    )  # fmt: skip
    axes.tick_params(length=0, rotation=0)
    title = f"Best minimiser one-hot, {cases['context'].nunique()} contexts"
    axes.set(title=title, xlabel="vocabulary N", ylabel="error of the geometry ε")


def _draw_plane(axes: Axes, trajectories: pd.DataFrame) -> None:
    keys = trajectories[trajectories["branch"] == "key"]
    top = keys[["static", "per_window"]].max().max()
    axes.plot([1, top], [1, top], color="0.6", linestyle="--", linewidth=0.8, zorder=0)
    colours = dict(zip(sorted(keys["vocabulary"].unique()), sns.color_palette("viridis", 4)[::-1], strict=False))
    for (vocabulary, _, _, _), path in keys.groupby(["vocabulary", "rho", "run", "head"]):
        colour = colours.get(vocabulary, "0.3")
        axes.plot(path["static"], path["per_window"], color=colour, linewidth=0.9, alpha=0.8)
        first, last = path.iloc[0], path.iloc[-1]
        axes.plot(first["static"], first["per_window"], "o", color=colour, markerfacecolor="white", markersize=4)
        axes.plot(last["static"], last["per_window"], "o", color=colour, markersize=4)
    handles = [Line2D([], [], color=colour, label=f"N = {size}") for size, colour in colours.items()]
    axes.legend(handles=handles, frameon=False, loc="upper left", fontsize=7.5)
    axes.set(title="Key gates: start ○, end ●", xlabel="static effective number", ylabel="per-window effective number")


def _draw_escape(axes: Axes, heads: pd.DataFrame) -> None:
    chosen = heads.dropna(subset="escape")
    several = chosen.groupby(["positions", "heads", "vocabulary"])["rho"].transform("nunique") > 1
    chosen = chosen[several].assign(log_inverse=lambda table: -np.log(table["rho"]))
    fits = escape_fit(heads, 0.95)
    sizes = sorted(chosen["vocabulary"].unique())
    shown = sizes if len(sizes) <= 3 else [sizes[0], sizes[len(sizes) // 2], sizes[-1]]
    for colour, size in zip(sns.color_palette("viridis", 4)[::-1], shown, strict=False):
        rows = chosen[chosen["vocabulary"] == size].groupby("log_inverse")["escape"]
        fit = fits[fits["vocabulary"] == size].iloc[0]
        middle, low, high = rows.median(), rows.quantile(0.1), rows.quantile(0.9)
        name = f"N = {size:,}: slope {fit['slope']:.2f} ± {(fit['high'] - fit['low']) / 2:.2f}"
        axes.errorbar(
            middle.index, middle, [middle - low, high - middle], color=colour, marker="o", markersize=3.5,
            linewidth=1.2, elinewidth=0.8, label=name,
        )  # fmt: skip
    axes.legend(frameon=False, loc="upper left", fontsize=7.5)
    axes.set_ylim(0, 1.35 * chosen["escape"].quantile(0.99) if len(chosen) else 1)
    axes.set(title="When heads choose (10 to 90 %)", xlabel="log(1/ρ)", ylabel="time (1 / escape rate)")


def _draw_repulsion(axes: Axes, coverage: pd.DataFrame) -> None:
    """How often all heads are apart in the swept shape, over log(e/rho) / N."""
    counted = coverage.groupby(["positions", "heads"])["vocabulary"].transform("nunique")
    swept = coverage[(counted == counted.max()) & (coverage["covered"] == coverage["heads"])]
    swept = swept.assign(x=(1 - np.log(swept["rho"])) / swept["vocabulary"])
    palette = sns.color_palette("viridis", swept["rho"].nunique())
    for colour, (rho, rows) in zip(palette, swept.groupby("rho"), strict=True):
        rows = rows.sort_values("x")
        error = np.maximum([rows["share"] - rows["low"], rows["high"] - rows["share"]], 0)
        axes.errorbar(
            rows["x"],
            rows["share"],
            error,
            color=colour,
            marker="o",
            markersize=3.5,
            linewidth=0.8,
            label=f"ρ = {rho:g}",
        )
    axes.axhline(swept["independent"].iloc[0], color="0.4", linestyle=(0, (4, 2)), linewidth=1, label="independent")
    axes.set_xscale("log")
    axes.legend(frameon=False, loc="upper left", fontsize=7.5)
    axes.set_ylim(0, 100)
    shape = f"S = {swept['positions'].iloc[0]}, m = {swept['heads'].iloc[0]}"
    axes.set(title=f"All heads apart, {shape}", xlabel="log(e/ρ) / N", ylabel="runs (%)")


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
