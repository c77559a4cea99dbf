"""Figure 1b: the completion that flips, probabilities of `8` and `32` by docstring length, and the rankings' period."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from weakspots import statistics
from weakspots.analysis import paper_numbers
from weakspots.analysis.results import Results
from weakspots.deepseek import rankings
from weakspots.figures import figure_1_models as models
from weakspots.figures import panels

FAMILY = "equals"
"""The filler family whose probabilities the paper shows; the others count among the rankings."""


def measure(results: Results) -> pd.DataFrame:
    """One row per model, source, filler family and docstring length.

    Columns model, label, stand_in, stride (0: no compression), source ("paper" or "here"), family, length (tokens),
    first, second (probabilities of `8` and of `32`, missing where a server did not report them).
    """
    parts = []
    for model, row in results.deepseek.items():
        origin = models.about(results, model)
        if row.stand_in is None and (theirs := paper_numbers.code_completion(model)) is not None:
            parts.append(theirs.assign(**origin, source=models.PAPER, family=FAMILY))
        if model in results.completions:
            table = results.completions[model]
            columns = {
                "first": np.exp(table["first_logprob"].astype(float)),
                "second": np.exp(table["second_logprob"].astype(float)),
            }
            ours = table[["family", "length"]].assign(**columns, **origin, source=models.HERE)
            parts.append(ours)
    order = [*_ABOUT, "source", "family", "length", "first", "second"]
    return pd.concat(parts, ignore_index=True)[order] if parts else pd.DataFrame(columns=order)


def count(results: Results) -> pd.DataFrame:
    """One row per model that is no stand-in: how many rankings follow the period, and how many have `32` on top.

    Columns model, label, stand_in, stride, period (the stride; four for a model without one), and following, low, high
    (percent, Wilson's interval), second_on_top, n (rankings), phases (at which `8` is on top), code (which was
    completed), paper_following, paper_second_on_top, paper_n. What was not run or not published is missing.
    """
    rows = []
    for model, row in results.deepseek.items():
        if row.stand_in is not None:
            continue
        entry: dict[str, Any] = {**models.about(results, model), "period": row.stride or rankings.PERIOD}
        if model in results.completions:
            table = results.completions[model]
            following, phases = rankings.best_following(table, entry["period"])
            low, high = statistics.wilson(following.sum(), len(table), results.statistics.confidence)
            on_top = int((~rankings.first_on_top(table)).sum())
            entry |= {"following": int(following.sum()), "low": float(low), "high": float(high)}
            entry |= {"second_on_top": on_top, "n": len(table), "phases": ", ".join(map(str, phases))}
            entry |= {"code": table["source"].iloc[0]}
        if theirs := paper_numbers.following().get(model):
            entry |= {"paper_following": theirs.part, "paper_n": theirs.whole}
        if theirs := paper_numbers.second_on_top().get(model):
            entry |= {"paper_second_on_top": theirs.part, "paper_n": theirs.whole}
        rows.append(entry)
    whole = ["following", "second_on_top", "n", "paper_following", "paper_second_on_top", "paper_n"]
    order = [*_ABOUT, "period", "following", "low", "high", *whole[1:3], "phases", "code", *whole[3:]]
    return pd.DataFrame(rows, columns=order).astype(dict.fromkeys(whole, "Int64"))


_ABOUT = ("model", "label", "stand_in", "stride")
_ABOVE, _LEFT, _WIDTH, _PANEL, _ROW, _LINE = 0.98, 0.48, 2.75, 1.05, 1.72, 0.235  # inches
_SHARE, _SHARE_WIDTH, _XLABEL = 4.75, 0.95, 0.36
_, _, _FIRST, _SECOND = models.colours("0123").values()


def height(table: pd.DataFrame, counts: pd.DataFrame) -> float:
    """Inches that the part takes."""
    curves = table["model"].nunique() * _ROW - (_ROW - _PANEL - _XLABEL)
    return _ABOVE + max(curves, _LINE * len(counts) + _XLABEL)


def draw(figure: Figure, table: pd.DataFrame, counts: pd.DataFrame, top: float, confidence: float) -> None:
    """On the left the probabilities of every model that has any, on the right the rankings of all."""
    models.section(
        figure, top, "b", "Code completion: 8 (correct) or 32 after T.Cast(FP, by docstring length",
        "Filler: n equals signs; the code does not change. Rankings: how many follow a period of S, of all families",
        f"and lengths, at the shift that fits best (half of them if nothing ever changes); {confidence:.0%} Wilson "
        "intervals.",
    )  # fmt: skip
    shown = list(table["model"].unique())
    for number, model in enumerate(shown):
        _draw_curves(figure, table[table["model"] == model], counts, top + _ABOVE + number * _ROW)
    if shown:
        _add_legend(figure, top)
    _draw_shares(figure, counts, top + _ABOVE)


def _draw_curves(figure: Figure, run: pd.DataFrame, counts: pd.DataFrame, top: float) -> None:
    """Probabilities by length of one model, the paper's and those that were measured."""
    axes = panels.inches(figure, _LEFT, top, _WIDTH, _PANEL)
    here = run[(run["source"] == models.HERE) & (run["family"] == FAMILY)].sort_values("length")
    paper = run[run["source"] == models.PAPER].sort_values("length")
    panels.write(figure, _LEFT, top - 0.2, run["label"].iloc[0], fontsize=8.5, fontweight="bold")
    lengths = pd.concat([here, paper])["length"].astype(int)
    for column, colour in (("first", _FIRST), ("second", _SECOND)):
        axes.plot(paper["length"], paper[column], color=colour, linewidth=0.9, linestyle=models.PUBLISHED_LINE)
        axes.plot(here["length"], here[column], color=colour, linewidth=1.5, marker="o", markersize=2.4)
    period = int(run["stride"].iloc[0]) or rankings.PERIOD
    first, last = lengths.min(), lengths.max()
    starts = [length for length in range(first, last + 1) if length % period == 0]
    for start in starts:
        if start > first:
            axes.axvline(start - 0.5, color="0.8", linestyle="--", linewidth=0.7, zorder=0)
    axes.set(xlim=(first - 0.5, last + 0.5), ylim=(-0.03, 1.03), yticks=[0, 0.5, 1])
    axes.set_xticks([length for length in starts if length % 4 == 0])
    axes.set_xlabel("docstring length L (tokens)", fontsize=7.5, labelpad=1.5)
    axes.set_ylabel("probability", fontsize=7.5, labelpad=2)
    axes.tick_params(length=2, width=0.6, pad=1.5, labelsize=7)
    if here.empty:
        models.say(axes, models.NOT_RUN, (1.0, 1.04))
        return
    code = counts.set_index("model")["code"].get(run["model"].iloc[0])
    if isinstance(code, str):
        axes.annotate(f"code here: {code}", (1, 0), (0, -22), xycoords="axes fraction", textcoords="offset points",
                      ha="right", va="top", fontsize=6.5, annotation_clip=False)  # fmt: skip


def _add_legend(figure: Figure, top: float) -> None:
    entries = [
        Line2D([], [], color=_FIRST, linewidth=2), Line2D([], [], color=_SECOND, linewidth=2),
        Line2D([], [], color="0.2", linewidth=1.5, marker="o", markersize=3),
        Line2D([], [], color="0.2", linewidth=0.9, linestyle=models.PUBLISHED_LINE),
    ]  # fmt: skip
    names = ["P(8)", "P(32)", "measured here", "paper"]
    figure.legend(
        entries, names, loc="upper left", ncol=4, frameon=False, fontsize=7.5, handlelength=1.6, columnspacing=1.0,
        bbox_to_anchor=(0.2 / panels.WIDTH, 1 - (top + 0.47) / figure.get_figheight()),
    )  # fmt: skip


def _draw_shares(figure: Figure, counts: pd.DataFrame, top: float) -> None:
    """A line per model: the share of rankings that follow the period, and the counts in words."""
    if counts.empty:
        return
    axes: Axes = panels.inches(figure, _SHARE, top, _SHARE_WIDTH, _LINE * len(counts))
    for place, (_, row) in enumerate(counts.iterrows()):
        said = []
        if pd.notna(row["paper_following"]):
            axes.plot(
                100 * row["paper_following"] / row["paper_n"], place, "D", color="0.2", markersize=4, fillstyle="none"
            )
            said.append(f"paper {row['paper_following']} of {row['paper_n']}")
        if pd.notna(row["paper_second_on_top"]):
            said.append(f"paper: 32 on top\nafter {row['paper_second_on_top']} of {row['paper_n']}")
        if pd.notna(row["following"]):
            share = 100 * row["following"] / row["n"]
            axes.plot([row["low"], row["high"]], [place, place], color="0.2", linewidth=1.2)
            axes.plot(share, place, "o", color="0.2", markersize=4)
            said.append(f"here {row['following']} of {row['n']}")
        else:
            said.append(models.NOT_RUN)
        text = " · ".join(said)
        axes.annotate(
            text, (1, place), (4, 0), xycoords=("axes fraction", "data"), textcoords="offset points", va="center",
            fontsize=6.5, annotation_clip=False, linespacing=1.0,
        )  # fmt: skip
    axes.axvline(50, color="0.8", linestyle="--", linewidth=0.7, zorder=0)
    names = [f"{row.label.removeprefix('DeepSeek-')}" for row in counts.itertuples()]
    axes.set(xlim=(38, 103), ylim=(len(counts) - 0.5, -0.5), yticks=range(len(counts)), xticks=[50, 100])
    axes.set_yticklabels(names)
    axes.set_xlabel("rankings that follow the period (%)", fontsize=7.5, labelpad=1.5)
    axes.tick_params(length=2, width=0.6, pad=1.5, labelsize=7)
