"""Figure 4: two ways a key gate can concentrate, on the same offsets in every window or on others in each."""

from __future__ import annotations

from collections.abc import Iterable

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from weakspots.analysis import gate_preferences
from weakspots.analysis.results import Results
from weakspots.errors import UserError
from weakspots.figures import panels, style
from weakspots.model_table import ModelRow

TRACED = "w8s8-1kv"
"""The run whose gates are followed through training."""

TRACED_LAYERS = (9, 10, 14)
"""The layers that the paper follows; a model without them is followed in its most concentrated ones."""

DEPTH = ListedColormap(mpl.colormaps["plasma"](np.linspace(0.0, 0.85, 256)))
"""Colours from the first layer to the last; without the palest, which white paper swallows."""


def measure(results: Results) -> pd.DataFrame:
    """One row per key gate and checkpoint of every run with a learned scalar gate, in the model table's order.

    Columns model, label, window (W), layers (of the model), step, last (whether it is the last checkpoint), layer,
    head, static, per_window (effective numbers of offsets, from 1 to W), traced (whether the layer is followed).
    Raises UserError if there is no such run.
    """
    parts = []
    for model, row in results.models.items():
        if model not in results.gates or not _has_scalar_gate(row):
            continue
        table = results.gates[model]
        table = table[(table["branch"] == "key") & (table["offset"] == 0)].sort_values(["step", "layer", "head"])
        last = gate_preferences.final(table)
        traced = _traced_layers(last) if model == TRACED else []
        about = {
            "model": model,
            "label": results.label(model),
            "window": row.window,
            "layers": int(table["layer"].max()) + 1,
            "step": table["step"],
            "last": table["step"] == last["step"].iloc[0],
        }
        measured = table[["layer", "head", "static", "per_window"]]
        parts.append(pd.DataFrame(about).join(measured).assign(traced=table["layer"].isin(traced)))
    if not parts:
        raise UserError(f"the scale {results.scale} has no statistics of scalar gates yet: run `snakemake gates` first")
    return pd.concat(parts, ignore_index=True)


def _has_scalar_gate(row: ModelRow) -> bool:
    """Uniform averaging has no learned gate, and vector gates score every channel on its own."""
    return row.gate_kind == "scalar"


def _traced_layers(last: pd.DataFrame) -> list[int]:
    """The layers that are followed: the paper's or, if one is missing, equally many of the most concentrated."""
    if set(TRACED_LAYERS) <= set(last["layer"]):
        return list(TRACED_LAYERS)
    concentrated = last.groupby("layer")["static"].min().sort_values(kind="stable")
    return sorted(concentrated.index[: len(TRACED_LAYERS)])


_COLUMNS, _TOP, _LEFT, _ABOVE, _BELOW = 5, 1.04, 0.42, 0.36, 0.32  # panels in a row; inches around the panels
_CELL = panels.WIDTH / _COLUMNS
_SIDE = _CELL - _LEFT - 0.08


def draw(table: pd.DataFrame) -> Figure:
    """`measure`'s table, one panel per run; the run that is followed comes first and takes two rows and columns."""
    style.use_theme()
    shown = list(table["model"].unique())
    followed = [model for model in shown if table.loc[table["model"] == model, "traced"].any()]
    small = [model for model in shown if model not in followed]
    cells = [divmod(number, _COLUMNS) for number in range(len(shown) + 4)]
    free = [cell for cell in cells if not followed or max(cell) > 1]
    places = dict(zip(small, free, strict=False))
    rows = max([row + 1 for row, _ in places.values()] + [2] * len(followed))
    tall = _SIDE + _ABOVE + _BELOW
    figure = panels.sheet(_TOP + rows * tall)
    _add_heading(figure, table)
    for model in followed:
        run = table[table["model"] == model]
        axes = panels.inches(figure, _LEFT, _TOP + _ABOVE, _CELL + _SIDE, tall + _SIDE)
        _draw_run(axes, run, marker=6, faint=0.35)
        _trace(axes, run[run["traced"]])
        axes.set(xlabel="static effective number of offsets", ylabel="per-window effective number")
        axes.set_title(run["label"].iloc[0], pad=4)
    below = {column: row for row, column in places.values()}
    for model, (row, column) in places.items():
        run = table[table["model"] == model]
        axes = panels.inches(figure, column * _CELL + _LEFT, _TOP + row * tall + _ABOVE, _SIDE, _SIDE)
        _draw_run(axes, run, marker=4.5)
        axes.set_title(panels.wrapped(run["label"].iloc[0], _CELL), fontsize=7.5, pad=3, linespacing=1.05)
        axes.set_xlabel("static" if below[column] == row else "")
        axes.set_ylabel("per window" if column == 0 or (followed and column == 2 and row < 2) else "")
    return figure


def _colour(layer: int, layers: int) -> tuple:
    return DEPTH(layer / max(1, layers - 1))


def _draw_run(axes: Axes, run: pd.DataFrame, marker: float, faint: float = 1.0) -> None:
    """One run's gates at its last checkpoint in the plane; those that are followed are left to `_trace`."""
    window, layers = int(run["window"].iloc[0]), int(run["layers"].iloc[0])
    room = 0.06 * (window - 1)
    axes.plot([1, window], [1, window], color="0.6", linestyle=(0, (4, 3)), linewidth=0.8, zorder=0)
    points = run[run["last"] & ~run["traced"]]
    axes.scatter(
        points["static"], points["per_window"], s=marker**2, zorder=2, clip_on=False,
        color=[_colour(layer, layers) for layer in points["layer"]], edgecolor="white", linewidth=0.4,
    )  # fmt: skip
    limits, ticks = (1 - room, window + room), [1, window // 2, window] if window > 2 else [1, window]
    axes.set(xlim=limits, ylim=limits, xticks=ticks, yticks=ticks)
    axes.tick_params(length=2, pad=1.5, labelsize=7.5)
    axes.xaxis.labelpad = axes.yaxis.labelpad = 1.5


def _trace(axes: Axes, run: pd.DataFrame) -> None:
    """The way of the followed gates from the first checkpoint (open) to the last (filled), named by layer."""
    for (layer, _), way in run.groupby(["layer", "head"]):
        way, colour = way.sort_values("step"), _colour(layer, int(run["layers"].iloc[0]))
        static, per_window = way["static"].to_numpy(), way["per_window"].to_numpy()
        axes.plot(static, per_window, color=colour, linewidth=1.3, marker=".", markersize=3, zorder=3, clip_on=False)
        for at, filled in ((0, False), (-1, True))[len(way) < 2 :]:
            axes.plot(
                static[at], per_window[at], "o", color=colour, markerfacecolor=colour if filled else "white",
                markersize=6.5, markeredgewidth=1.2, zorder=4, clip_on=False,
            )  # fmt: skip
    # Names stand where no gate can be, above the diagonal, in the order in which the lines to them do not cross.
    window, ends = int(run["window"].iloc[0]), run[run["last"]]
    steepness = (window - ends["per_window"]) / (ends["static"] - 0.9)
    for number, end in enumerate(ends.loc[steepness.sort_values().index].itertuples()):
        axes.annotate(
            f"layer {end.layer}", (end.static, end.per_window), (1, window - (0.03 + 0.09 * number) * (window - 1)),
            va="center", fontsize=8, color=_colour(end.layer, end.layers), zorder=5,
            arrowprops={"arrowstyle": "-", "color": "0.6", "linewidth": 0.6, "relpos": (1, 0.5), "shrinkB": 4},
        )  # fmt: skip


def _add_heading(figure: Figure, table: pd.DataFrame) -> None:
    """Title, the number of gates, which layers are followed, and the colours of the layers."""
    last, traced = table[table["last"]], table[table["traced"]]
    lines = [
        f"n = {len(last):,} key gates of {last['model'].nunique()} runs after step {panels.counted(last['step'])}, one "
        "point per KV head. Effective numbers of offsets, from 1 to W.",
        "On the dashed line: the same scores in every window. At the right edge: uniform on average over windows.",
    ]
    if len(traced):
        layers, first, end = sorted(traced["layer"].unique()), traced["step"].min(), traced["step"].max()
        theirs = f" (the most concentrated; in the paper {_listed(TRACED_LAYERS)})"
        which = f"layer{'s' if len(layers) > 1 else ''} {_listed(layers)}"
        which += "" if tuple(layers) == TRACED_LAYERS else theirs
        way = f"Lines follow {which} from step {first:,}, open, to {end:,}, filled."
        lines += [way if first < end else f"Only step {end:,} was kept, so no way through training is drawn."]
    panels.heading(figure, "How key gates concentrate: on fixed offsets, or on offsets that follow the content", *lines)
    _add_depth(figure, int(table["layers"].max()))


def _listed(numbers: Iterable[int]) -> str:
    names = [str(number) for number in numbers]
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _add_depth(figure: Figure, layers: int) -> None:
    """The colours of the layers: one by one where they are few, else as a bar."""
    top = _TOP - 0.18
    if layers > 6:
        ticks = np.unique(np.linspace(0, layers - 1, 5).round()).astype(int)
        scale = panels.Scale(DEPTH, Normalize(0, layers - 1), ticks, [str(tick) for tick in ticks], "layer")
        panels.colour_bar(figure, scale, (panels.WIDTH / 2 - 1.05, top))
        return
    handles = [Line2D([], [], marker="o", linestyle="", color=_colour(layer, layers)) for layer in range(layers)]
    figure.legend(
        handles, [f"layer {layer}" for layer in range(layers)], loc="center", ncol=layers, frameon=False,
        bbox_to_anchor=(0.5, 1 - top / figure.get_figheight()), fontsize=8.5, handletextpad=0.2,
    )  # fmt: skip
