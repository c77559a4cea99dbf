"""Figure 5: the phases that a head's gate prefers beside those at which the head's knockout loses accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from weakspots import statistics
from weakspots.analysis import alignment, gate_preferences, phase_losses
from weakspots.analysis.results import Results
from weakspots.errors import UserError
from weakspots.figures import figure_3, panels, style
from weakspots.model_table import WHOLE_LAYER

PADDING = "prefix"
"""The padding of the knockouts, as in the paper."""

HEADLINE = ("w8s8-1kv", "w12s12-1kv", "w8s8-4kv", "w8s4-1kv", "w8s8-1kv-tied", "w8s4-1kv-deepseek")
"""The runs of the compact figure: the paper's example, longer windows, more heads, overlap, one gate for both."""


def measure(results: Results) -> pd.DataFrame:
    """One row per KV head and phase of every run with a learned gate and knockouts, in the model table's order.

    Columns model, label, window (W), stride (S), step (of the gates: the last checkpoint), layer, head, phase, static
    (effective number of phases of the key gate, from 1 to S), key, value (preferences, 1 = uniform share; the value's
    is that of the next phase, and missing where one gate serves both), change (knockout, percent of clean accuracy;
    missing where that is 0), judged (whether the clean accuracy reaches `phase_losses.RETRIEVABLE`), n (prompts per
    phase).
    Raises UserError if there is no such run.
    """
    parts = []
    for model, padding in figure_3.knocked_out(results):
        row = results.models[model]
        if padding != PADDING or model not in results.gates or row.gate_kind in (None, "uniform"):
            continue
        last = gate_preferences.final(results.gates[model])
        preferences = gate_preferences.by_phase(last, row)
        keys = ["layer", "head", "phase"]
        table = preferences.pivot(index=keys, columns="branch", values="preference").reindex(columns=["key", "value"])
        static = preferences[preferences["branch"] == "key"].set_index(keys)["static"]
        clean = results.outcomes[model, padding]
        changes = {
            (*place, phase): change
            for place, outcomes in results.knockouts[model, padding].items()
            if place[1] != WHOLE_LAYER
            for phase, change in enumerate(_change(clean, outcomes, row.stride))
        }
        judged = phase_losses.retrievable(statistics.profile(clean), row.stride)
        table = table.assign(static=static, change=pd.Series(changes), n=clean.size // row.stride).reset_index()
        table["judged"] = judged[table["phase"]]
        about = {"model": model, "label": results.label(model), "window": row.window, "stride": row.stride}
        parts.append(table.assign(**about, step=last["step"].iloc[0]))
    if not parts:
        raise UserError(
            f"no run of the scale {results.scale} has gate statistics and knockouts under {PADDING} padding: run "
            f"`snakemake gates knockout` first, with {PADDING} among lookup.paddings"
        )
    columns = [
        "model",
        "label",
        "window",
        "stride",
        "step",
        "layer",
        "head",
        "phase",
        "static",
        "key",
        "value",
        "change",
        "judged",
    ]
    return pd.concat(parts, ignore_index=True)[[*columns, "n"]]


def aligned(results: Results) -> pd.DataFrame:
    """How far each gate's preference and its head's loss line up: `alignment.by_head` of every run with both.

    Columns model, then those of `alignment.COLUMNS`.
    """
    both = results.knockouts.keys() & results.outcomes.keys()
    models = [model for model in results.gates if (model, PADDING) in both]
    parts = [alignment.by_head(results, model, PADDING).assign(model=model) for model in models]
    return pd.concat(parts, ignore_index=True)[["model", *alignment.COLUMNS]]


def _change(clean: np.ndarray, knocked: np.ndarray, stride: int) -> np.ndarray:
    return phase_losses.change(statistics.profile(clean), statistics.profile(knocked), stride)


_TOP, _BELOW, _LEFT, _GAP = 1.08, 0.46, 0.36, 0.14  # inches: heading, and around the maps
_BARS, _APART = 0.62, 0.2  # width of the bars, and their distance from the maps, as shares of a map's width


def headline(table: pd.DataFrame) -> Figure:
    """The compact version of `draw`: the runs of `HEADLINE`, as far as they have been run."""
    present = [model for model in HEADLINE if model in set(table["model"])]
    return draw(table, present or list(table["model"].unique()[: len(HEADLINE)]))


def draw(table: pd.DataFrame, models: Sequence[str] | None = None) -> Figure:
    """Gates beside knockouts from `measure`'s table, a row per KV head, for all models (or `models` in that order)."""
    style.use_theme()
    shown = list(table["model"].unique() if models is None else models)
    table = table[table["model"].isin(shown)]
    across = min(2, len(shown))
    width = panels.WIDTH / across
    runs = {model: table[table["model"] == model] for model in shown}
    names = {model: panels.wrapped(run["label"].iloc[0], width - _LEFT - _GAP) for model, run in runs.items()}
    above = {model: panels.LINE * (1 + name.count("\n")) + 0.17 for model, name in names.items()}
    maps = {model: panels.map_height(len(run) // int(run["stride"].iloc[0]), 0.5) for model, run in runs.items()}
    heights = {model: above[model] + maps[model] + _BELOW for model in shown}
    places, height = panels.packed(heights, across, _TOP)
    figure = panels.sheet(height)
    _add_heading(figure, table)
    for model, (left, top) in places.items():
        panels.name_run(figure, names[model], left + (_LEFT + width - _GAP) / 2, top + above[model] - 0.15)
        inside = left + _LEFT, top + above[model], width - _LEFT - _GAP
        _draw_model(figure, runs[model], inside, maps[model])
    return figure


def _draw_model(figure: Figure, run: pd.DataFrame, inside: tuple[float, float, float], height: float) -> None:
    """One model's bars and maps; `inside` is left, top and width in inches."""
    stride = int(run["stride"].iloc[0])
    ordered = run.sort_values(["layer", "head", "phase"])
    heads = ordered[ordered["phase"] == 0]
    judged = ordered["judged"].to_numpy(bool).reshape(-1, stride)
    key, value, change = (ordered[name].to_numpy().reshape(-1, stride) for name in ("key", "value", "change"))
    tied = np.isnan(value).all()
    maps = [
        panels.Map(key, panels.PREFERENCE, "key and value gate" if tied else "key gate"),
        *([] if tied else [panels.Map(value, panels.PREFERENCE, "value gate")]),
        panels.Map(change, panels.CHANGE, "knockout", judged=judged),
    ]
    axes = panels.inches(figure, *inside, height)
    panels.draw_maps(axes, maps, heads["layer"].to_list())
    axes.set_ylabel("layer", fontsize=7.5, labelpad=2)
    under: dict[str, Any] = {
        "xycoords": ("data", "axes fraction"),
        "textcoords": "offset points",
        "ha": "center",
        "va": "top",
    }
    middle = float(np.mean(axes.get_xlim()))
    axes.annotate(f"position mod {stride}", (middle, 0), (0, -13), fontsize=7.5, **under)
    middle = _draw_static(axes, heads["static"].to_numpy(), stride)
    axes.annotate("eff. phases", (middle, 0), (0, -13), fontsize=7.5, **under)


def _draw_static(axes: Axes, static: np.ndarray, stride: int) -> float:
    """A bar per row from 1 to the effective number, left of the maps, and a dashed line at S, the uniform gate's.

    Returns where the middle of the bars is.
    """
    right = -0.5 - _APART * stride
    left, rows = right - _BARS * stride, np.arange(len(static))
    lengths = (static - 1) / max(1, stride - 1) * (right - left)
    axes.barh(rows, lengths, left=left, height=0.72 if len(rows) <= 32 else 1, color="0.5", linewidth=0)
    axes.vlines(left, -0.5, len(rows) - 0.5, color="0.15", linewidth=1.0)
    axes.vlines(right, -0.5, len(rows) - 0.5, color="0.6", linestyle=(0, (3, 2)), linewidth=0.7)
    ticks, labels = axes.get_xticks(), [label.get_text() for label in axes.get_xticklabels()]
    axes.set_xticks([left, right, *ticks], ["1", str(stride), *labels])
    axes.set(xlim=(left, axes.get_xlim()[1]), ylim=(len(rows) - 0.5, -0.5))
    middle = (left + right) / 2
    axes.annotate("static", (middle, -0.5), (0, 2), textcoords="offset points", ha="center", va="bottom", fontsize=7.5)
    return middle


def _add_heading(figure: Figure, table: pd.DataFrame) -> None:
    """Title, the number of prompts, and what the colours mean."""
    panels.heading(
        figure,
        "Phases that a gate prefers, beside those at which its head's knockout loses accuracy",
        "Each row is one KV head at the last checkpoint. Static: effective number of phases of its key gate, 1 to S.",
        "Value gates are moved back by one phase. "
        f"Knockouts: prefix padding, n = {panels.counted(table['n'])} prompts per cell.",
    )
    panels.colour_bar(figure, panels.PREFERENCE, (0.3, 0.76))
    panels.colour_bar(figure, panels.CHANGE, (2.7, 0.76))
    panels.not_judged(figure, 5.0, 0.78)
