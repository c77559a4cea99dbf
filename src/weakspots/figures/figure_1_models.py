"""What the parts of Figure 1 share: how models are named and coloured, and what is drawn how."""

from __future__ import annotations

from collections.abc import Sequence

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from weakspots.analysis.results import Results
from weakspots.config.deepseek import DeepseekModel
from weakspots.figures import panels

PAPER, HERE = "paper", "here"
"""Where a row of a table is from: published, or measured by this project."""

STAND_IN = "stand-in (tiny model of the same architecture, trained here)"
"""What a stand-in is called: it is none of DeepSeek's models, whatever the table calls it."""

CONTROL = "stand-in without compression (tiny model, trained here)"
"""What a stand-in is called that has nothing which could repeat: the control of the others."""

NOT_RUN = "not run"
PUBLISHED_LINE = (0, (5, 1.5, 1, 1.5))
GREY = "0.45"
_STAND_IN_COLOURS = ("#5e3c99", "#1b7837", "#8c510a", "#01665e")
_PALETTE = sns.color_palette("colorblind").as_hex()


def about(results: Results, model: str) -> dict[str, object]:
    """The columns that every table begins with: model, label, stand_in, stride (0: no compression)."""
    row = results.deepseek[model]
    return {
        "model": model,
        "label": label(row),
        "stand_in": row.stand_in is not None,
        "stride": row.stride or 0,
    }


def label(row: DeepseekModel) -> str:
    """The model's name; of a stand-in what it is, and in which way."""
    if row.stand_in is None:
        return row.label
    return STAND_IN if row.stride else CONTROL


def colours(models: Sequence[str], stand_ins: bool = False) -> dict[str, str]:
    """One colour per model, in this order; stand-ins share none with the others."""
    chosen = _STAND_IN_COLOURS if stand_ins else _PALETTE
    return {model: chosen[number % len(chosen)] for number, model in enumerate(models)}


def section(figure: Figure, top: float, letter: str, title: str, *lines: str) -> None:
    """The heading of a part: its letter and what it shows, and below it from how many answers and how."""
    panels.write(figure, 0.06, top, letter, fontsize=11, fontweight="bold")
    panels.write(figure, 0.26, top + 0.01, title, fontsize=9.5, fontweight="bold")
    panels.write(figure, 0.26, top + 0.2, "\n".join(lines), fontsize=8, linespacing=1.25)


def say(
    axes: Axes, words: str, place: tuple[float, float] = (0.98, 0.05), ha: str = "right", va: str = "bottom"
) -> None:
    """Inside a panel, what is missing from it; `place` is a share of its width and height."""
    axes.text(*place, words, transform=axes.transAxes, ha=ha, va=va, fontsize=8, style="italic", color=GREY)
