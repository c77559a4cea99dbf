"""How every figure looks: one theme, and one colour per meaning, from seaborn's colour-blind safe palette."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure

from weakspots.files.atomic import writing

_PALETTE = sns.color_palette("colorblind").as_hex()

PADDING_COLOURS = {"prefix": _PALETTE[0], "in_sequence": _PALETTE[1]}
PADDING_NAMES = {"prefix": "prefix padding", "in_sequence": "in-sequence padding"}
FULL_ATTENTION_COLOUR = "0.45"


def use_theme() -> None:
    """Seaborn's theme with the project's sizes, for text that stays readable at the width of a page."""
    sns.set_theme(
        style="ticks",
        palette="colorblind",
        rc={
            "font.size": 9,
            "axes.titlesize": 9.5,
            "axes.labelsize": 9,
            "xtick.labelsize": 8,
            "ytick.labelsize": 8,
            "legend.fontsize": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titleweight": "bold",
            "svg.fonttype": "none",  # text stays text
            "svg.hashsalt": "weakspots",  # the same figure is the same file
        },
    )


def save(figure: Figure, *paths: str | Path) -> None:
    """Write `figure` to every path, in the format of its suffix (.png, .svg, .pdf)."""
    for path in map(Path, paths):
        # No date in the file, so that an unchanged figure is an unchanged file.
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(path.suffix[1:])
        with writing(path) as unfinished:
            figure.savefig(unfinished, dpi=160, bbox_inches="tight", metadata=metadata)
    plt.close(figure)
