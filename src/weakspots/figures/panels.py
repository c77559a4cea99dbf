"""What the figures of the mechanism share: maps with a row per KV head, their ticks, colour bars and headings.

Lengths are in inches. `WIDTH` is the width of a page, about 18 cm.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from weakspots.analysis.phase_losses import RETRIEVABLE

WIDTH = 7.1
UNDEFINED_COLOUR = "0.78"

NOT_JUDGED: dict[str, Any] = {"facecolor": "0.93", "edgecolor": "0.6", "hatch": "//////", "linewidth": 0}
"""How a cell is drawn at which the whole model answers too little for a loss to mean anything."""


@dataclass(frozen=True)
class Scale:
    """How a map colours its numbers: which colours, between which limits, with which ticks and name on its bar."""

    colours: Colormap
    norm: Normalize
    ticks: Sequence[float] | np.ndarray
    names: Sequence[str]
    label: str


CHANGE = Scale(
    mpl.colormaps["RdBu"].with_extremes(bad=UNDEFINED_COLOUR),
    Normalize(-100, 100, clip=True),
    (-100, -50, 0, 50, 100),
    ("−100", "−50", "0", "+50", "+100"),
    "accuracy change, % of clean accuracy",
)
"""Knockouts: red is accuracy lost, blue gained, clipped at ±100 %."""

PREFERENCE = Scale(
    mpl.colormaps["BuGn"].with_extremes(bad=UNDEFINED_COLOUR),
    LogNorm(1, 8, clip=True),
    (1, 2, 4, 8),
    ("≤ 1", "2", "4", "≥ 8"),
    "mean gate score, 1 = uniform share",
)
"""Gates: the darker, the more of its score a gate gives to a phase, on a logarithmic scale."""


@dataclass(frozen=True)
class Map:
    """One of the maps that lie side by side: `values` [KV heads, phases], and what stands above it in which colour.

    Cells that are not `judged` (same shape; None: all are) are hatched, whatever their value.
    """

    values: np.ndarray
    scale: Scale
    title: str
    colour: str = "0.15"
    judged: np.ndarray | None = None


def draw_maps(axes: Axes, maps: Sequence[Map], layers: Sequence[int], period: int = 0, gap: float = 0.14) -> None:
    """Maps with the same number of columns, side by side with a gap (a share of a map's width), the first row on top.

    `layers` is the layer of each row; a white line lies between layers. `period` marks the borders between periods,
    for positions that are not folded. Phases are counted from 0 under each map.
    """
    rows, columns = maps[0].values.shape
    starts = np.arange(len(maps)) * columns * (1 + gap)
    phases = np.arange(0, columns, period or every(columns, 6))
    for start, drawn in zip(starts, maps, strict=True):
        axes.imshow(
            np.ma.masked_invalid(drawn.values), cmap=drawn.scale.colours, norm=drawn.scale.norm, aspect="auto",
            interpolation="nearest", extent=(start - 0.5, start + columns - 0.5, rows - 0.5, -0.5),
        )  # fmt: skip
        if drawn.judged is not None:
            _hatch(axes, drawn.judged, start)
        frame = Rectangle((start - 0.5, -0.5), columns, rows, fill=False, edgecolor="0.5", linewidth=0.6, clip_on=False)
        axes.add_patch(frame)
        axes.annotate(
            drawn.title, (start + (columns - 1) / 2, -0.5), (0, 2), textcoords="offset points", ha="center",
            va="bottom", color=drawn.colour, fontsize=7.5, annotation_clip=False,
        )  # fmt: skip
    borders = np.flatnonzero(np.diff(layers)) + 0.5
    _cross(axes, borders, starts, columns, color="white", linewidth=1.2 if rows > len(borders) + 1 else 0.5)
    if columns <= 12 and rows <= 16:
        _cross(axes, np.arange(rows - 1) + 0.5, starts, columns, color="white", linewidth=0.4)
        inner = np.add.outer(starts, np.arange(columns - 1) + 0.5).ravel()
        axes.vlines(inner, -0.5, rows - 0.5, color="white", linewidth=0.4)
    if period:
        marks = np.add.outer(starts, np.arange(period, columns, period) - 0.5).ravel()
        axes.vlines(marks, -0.5, rows - 0.5, color="0.4", linestyle=(0, (3, 2)), linewidth=0.5)
    axes.set(xlim=(-0.5, starts[-1] + columns - 0.5), ylim=(rows - 0.5, -0.5))
    axes.set_xticks(np.add.outer(starts, phases).ravel(), [str(phase) for phase in phases] * len(maps))
    tick_layers(axes, layers)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=2, width=0.6, pad=1.5, labelsize=7)


def _hatch(axes: Axes, judged: np.ndarray, start: float) -> None:
    """Covers the cells of a map that are not judged; cells below each other share a rectangle."""
    for column, ends in enumerate(np.diff(~judged.T, axis=1, prepend=False, append=False)):
        borders = np.flatnonzero(ends)
        for top, bottom in zip(borders[::2], borders[1::2], strict=True):
            axes.add_patch(Rectangle((start + column - 0.5, top - 0.5), 1, bottom - top, **NOT_JUDGED))


def _cross(axes: Axes, heights: np.ndarray, starts: np.ndarray, columns: int, **options: Any) -> None:
    """Horizontal lines at these heights through every map."""
    lefts = np.repeat(starts, len(heights)) - 0.5
    axes.hlines(np.tile(heights, len(starts)), lefts, lefts + columns, **options)


def tick_layers(axes: Axes, layers: Sequence[int], most: int = 8) -> None:
    """A layer's number in the middle of its rows, and of at most `most` layers."""
    numbers = sorted(set(layers))
    step = every(len(numbers), most)
    middles = [float(np.mean(np.flatnonzero(np.array(layers) == number))) for number in numbers[::step]]
    axes.set_yticks(middles, [str(number) for number in numbers[::step]])


def every(count: int, most: int) -> int:
    """One tick in how many is shown, so that of `count` at most `most` are: 1, 2, 4, 8, ..."""
    return 1 if count <= most else 2 * every(-(-count // 2), most)


def map_height(rows: int, lowest: float = 0.45, highest: float = 3.4) -> float:
    """Inches for a map with this number of rows: the more rows, the thinner they are."""
    return float(np.clip(0.1 * rows + 0.25, lowest, highest))


def colour_bar(figure: Figure, scale: Scale, place: tuple[float, float], width: float = 2.1) -> None:
    """A horizontal bar with its ticks below and its name above; `place` is its left lower corner, from the left top."""
    axes = inches(figure, place[0], place[1], width, 0.1)
    bar = figure.colorbar(mpl.cm.ScalarMappable(scale.norm, scale.colours), cax=axes, orientation="horizontal")
    bar.set_ticks(list(scale.ticks), labels=list(scale.names))
    bar.ax.minorticks_off()
    bar.ax.tick_params(length=2, pad=1.5, labelsize=7)
    bar.outline.set(linewidth=0.5, edgecolor="0.5")
    axes.set_title(scale.label, fontsize=8, fontweight="normal", pad=3)


def not_judged(figure: Figure, left: float, middle: float) -> None:
    """The legend of hatched cells; its left end and middle are inches from the figure's left upper corner."""
    figure.legend(
        [Patch(**NOT_JUDGED)], [f"not judged: the model answers\nless than {RETRIEVABLE:.0f} % there"],
        loc="center left", frameon=False, fontsize=8,
        bbox_to_anchor=(left / WIDTH, 1 - middle / figure.get_figheight()),
    )  # fmt: skip


def sheet(height: float) -> Figure:
    """An empty figure as wide as a page."""
    return plt.figure(figsize=(WIDTH, height))


def inches(figure: Figure, left: float, top: float, width: float, height: float, **options: Any) -> Axes:
    """Axes of `width` by `height` inches, whose upper left corner is this many inches from the figure's."""
    whole = figure.get_figheight()
    return figure.add_axes((left / WIDTH, 1 - (top + height) / whole, width / WIDTH, height / whole), **options)


def write(figure: Figure, left: float, top: float, text: str, **options: Any) -> None:
    """Text whose anchor is this many inches from the figure's upper left corner; top-aligned unless `va` says else."""
    figure.text(left / WIDTH, 1 - top / figure.get_figheight(), text, **{"va": "top", **options})


def heading(figure: Figure, title: str, *subtitle: str) -> None:
    """What the figure shows, in bold, and in the lines below it from how many answers and how."""
    write(figure, WIDTH / 2, 0.0, title, ha="center", fontsize=11, fontweight="bold")
    write(figure, WIDTH / 2, 0.22, "\n".join(subtitle), ha="center", fontsize=8.5, linespacing=1.25)


LINE = 0.145
"""Height of a line of a run's name."""

_PER_INCH = 14  # characters of a run's name in an inch, as `name_run` writes it


def wrapped(label: str, width: float) -> str:
    """A run's name, broken into lines that fit this many inches; the parts of the name stay whole."""
    lines = [""]
    for part in label.split(" · "):
        longer = f"{lines[-1]} · {part}" if lines[-1] else part
        lines = [*lines[:-1], longer] if len(longer) <= _PER_INCH * width else [*lines, part]
    return "\n".join(lines)


def name_run(figure: Figure, name: str, middle: float, bottom: float) -> None:
    """A `wrapped` name above a run's panels; `middle` and `bottom` are inches from the figure's left upper corner."""
    options = {"fontsize": 8.5, "fontweight": "bold", "linespacing": 1.1}
    write(figure, middle, bottom, name, ha="center", va="bottom", **options)


def packed(heights: dict[str, float], across: int, top: float) -> tuple[dict[str, tuple[float, float]], float]:
    """Left and top in inches of blocks of these heights in `across` columns, and the height of the whole figure.

    Each block, in order, goes to the column that is shortest so far.
    """
    ends, places = [top] * across, {}
    for name, height in heights.items():
        column = min(range(across), key=lambda number: round(ends[number], 3))
        places[name] = column * WIDTH / across, ends[column]
        ends[column] += height
    return places, max(ends)


def counted(numbers: Iterable[int]) -> str:
    """A number or, where they differ, the range of several: `576` or `192 to 576`."""
    found = sorted(set(numbers))
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"


def signed(number: int) -> str:
    """A number with its sign, a true minus."""
    return f"{number:+d}".replace("-", "−") if number else "0"
