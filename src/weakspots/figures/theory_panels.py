"""The panels of the two theorems: axes in, a table drawn on them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from weakspots.theory.coverage import choosing_times

RUNS_SHOWN = 3
"""Runs of each N and rho on the concentration plane; more hide each other."""


def draw_landscape(axes: Axes, landscape: pd.DataFrame) -> None:
    """The loss of one head over its key and value weights, with stars at the minima."""
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


def draw_margin(axes: Axes, minima: pd.DataFrame, exponent: pd.DataFrame) -> None:
    """What coincident positions cost over N. Margins that are not positive are ticks on the lower edge."""
    drawn = minima.dropna(subset="margin")
    positive = drawn[drawn["margin"] > 0]
    for number, ((positions, heads), rows) in enumerate(drawn.groupby(["positions", "heads"], sort=False)):
        fit = exponent[(exponent["positions"] == positions) & (exponent["heads"] == heads)]
        name = f"S = {positions}, m = {heads}"
        if not fit.empty:
            name += f": {fit['exponent'].iloc[0]:.3f} ± {(fit['high'] - fit['low']).iloc[0] / 2:.3f}"
        colour = sns.color_palette("colorblind")[number % 10]
        marker = "os^D"[number % 4]
        above = rows[rows["margin"] > 0]
        axes.loglog(above["vocabulary"], above["margin"], marker, color=colour, markersize=4, label=name, alpha=0.8)
        if len(below := rows.loc[rows["margin"] <= 0, "vocabulary"]):
            height = np.full(len(below), 0.02 * (1 + number))
            axes.plot(below, height, "|", color=colour, markersize=7, transform=axes.get_xaxis_transform())
    if not exponent.empty:
        at = np.array([exponent["fit_from"].min(), drawn["vocabulary"].max()], dtype=float)
        axes.plot(at, exponent["prefactor"].max() / at, color="0.4", linewidth=0.9, zorder=0, label="slope −1")
    if len(positive) < len(drawn):
        axes.plot([], [], "|", color="0.4", markersize=7, label=f"{len(drawn) - len(positive)} not above 0")
    axes.set_ylim(top=3e4 * positive["margin"].max() if len(positive) else None)  # room for the legend
    about = {"title": "power of N ± curvature\n(margins have no noise)", "title_fontsize": 8}
    axes.legend(frameon=False, loc="upper right", fontsize=7.5, handletextpad=0.3, **about)
    axes.set(title="Coincident minus distinct", xlabel="vocabulary N", ylabel="loss margin (nats)")


def draw_map(axes: Axes, cases: pd.DataFrame) -> None:
    """In how many contexts the best minimiser found is one-hot, over N and epsilon."""
    share = 100 * cases.pivot_table(index="epsilon", columns="vocabulary", values="concentrated", aggfunc="mean")
    sns.heatmap(
        share.sort_index(ascending=False), ax=axes, cmap="viridis", vmin=0, vmax=100, annot=True, fmt=".0f",
        annot_kws={"fontsize": 7.5}, linewidths=0.5, cbar_kws={"label": "contexts (%)", "ticks": [0, 50, 100]},
    )  # fmt: skip
    axes.tick_params(length=0, rotation=0)
    title = f"Best minimiser one-hot, {cases['context'].nunique()} contexts"
    axes.set(title=title, xlabel="vocabulary N", ylabel="error of the geometry ε")


def draw_plane(axes: Axes, trajectories: pd.DataFrame) -> None:
    """Key gates of the token flow on the axes of Figure 4: a colour per N, a line style per rho."""
    keys = trajectories[(trajectories["branch"] == "key") & (trajectories["run"] < RUNS_SHOWN)]
    top = keys[["static", "per_window"]].max().max()
    axes.plot([1, top], [1, top], color="0.75", linewidth=0.8, zorder=0)
    colours = dict(zip(sorted(keys["vocabulary"].unique()), sns.color_palette("viridis", 4)[::-1], strict=False))
    styles = dict(zip(sorted(keys["rho"].unique(), reverse=True), ("-", (0, (3, 1.5)), ":", "-."), strict=False))
    for (vocabulary, rho, _, _), path in keys.groupby(["vocabulary", "rho", "run", "head"]):
        colour, line = colours.get(vocabulary, "0.3"), styles.get(rho, ":")
        axes.plot(path["static"], path["per_window"], color=colour, linestyle=line, linewidth=1, alpha=0.8)
        first, last = path.iloc[0], path.iloc[-1]
        axes.plot(first["static"], first["per_window"], "o", color=colour, markerfacecolor="white", markersize=4)
        axes.plot(last["static"], last["per_window"], "o", color=colour, markersize=4)
    handles = [Line2D([], [], color=colour, label=f"N = {size}") for size, colour in colours.items()]
    handles += [Line2D([], [], color="0.3", linestyle=line, label=f"ρ = {rho:g}") for rho, line in styles.items()]
    axes.legend(handles=handles, frameon=False, loc="upper left", fontsize=7.5)
    axes.set(title="Key gates: start ○, end ●", xlabel="static effective number", ylabel="per-window effective number")


def draw_escape(axes: Axes, heads: pd.DataFrame, escape: pd.DataFrame) -> None:
    """When the heads of a run have chosen, on average, over log(1/rho), for three N of table `escape`."""
    times = choosing_times(heads).dropna(subset="escape")
    shape = ["positions", "heads", "vocabulary"]
    times = times.merge(escape[shape]).assign(log_inverse=lambda table: -np.log(table["rho"]))
    sizes = sorted(escape["vocabulary"].unique())
    shown = sizes if len(sizes) <= 3 else [sizes[0], sizes[len(sizes) // 2], sizes[-1]]
    for colour, size in zip(sns.color_palette("viridis", 4)[::-1], shown, strict=False):
        rows = times[times["vocabulary"] == size].groupby("log_inverse")["escape"]
        fit = escape[escape["vocabulary"] == size].iloc[0]
        middle, low, high = rows.median(), rows.quantile(0.1), rows.quantile(0.9)
        name = f"N = {size:,}: slope {fit['slope']:.2f} ({fit['low']:.2f} to {fit['high']:.2f})"
        axes.errorbar(
            middle.index, middle, [middle - low, high - middle], color=colour, marker="o", markersize=3.5,
            linewidth=1.2, elinewidth=0.8, label=name,
        )  # fmt: skip
    axes.legend(frameon=False, loc="upper left", fontsize=7.5)
    axes.set_ylim(0, 1.35 * times["escape"].quantile(0.99) if len(times) else 1)
    axes.set(title="When heads choose (10 to 90 %)", xlabel="log(1/ρ)", ylabel="time (1 / escape rate)")


def draw_repulsion(axes: Axes, coverage: pd.DataFrame) -> None:
    """How often all heads are apart in the swept shape, over log(e/rho) / N."""
    counted = coverage.groupby(["positions", "heads"])["vocabulary"].transform("nunique")
    swept = coverage[(counted == counted.max()) & (coverage["covered"] == coverage["heads"])].dropna(subset="share")
    swept = swept.assign(x=(1 - np.log(swept["rho"])) / swept["vocabulary"])
    palette = sns.color_palette("viridis", swept["rho"].nunique())
    for colour, (rho, rows) in zip(palette, swept.groupby("rho"), strict=True):
        rows = rows.sort_values("x")
        error = np.maximum([rows["share"] - rows["low"], rows["high"] - rows["share"]], 0)
        axes.errorbar(
            rows["x"], rows["share"], error, color=colour, marker="o", markersize=3.5, linewidth=0.8,
            label=f"ρ = {rho:g}",
        )  # fmt: skip
    axes.axhline(swept["independent"].iloc[0], color="0.4", linestyle=(0, (4, 2)), linewidth=1, label="independent")
    axes.set_xscale("log")
    axes.legend(frameon=False, loc="upper left", fontsize=7.5)
    axes.set_ylim(0, 100)
    shape = f"S = {swept['positions'].iloc[0]}, m = {swept['heads'].iloc[0]}"
    axes.set(title=f"All heads apart, {shape}", xlabel="log(e/ρ) / N", ylabel="runs (%)")
