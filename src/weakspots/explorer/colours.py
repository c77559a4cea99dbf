"""The figures' own colours for the page, so that a run and a number look alike in both."""

from __future__ import annotations

import numpy as np
import seaborn as sns
from matplotlib.colors import Colormap, to_hex

from weakspots.figures import figure_4, figure_6, panels, style

STEPS = 33
"""Colours taken from a continuous scale: odd, so that the middle of a diverging one is among them."""


def all_colours() -> dict:
    """Colours by meaning: paddings, full attention, the scales of maps, the depth of layers, shifts."""
    return {
        "padding": dict(style.PADDING_COLOURS),
        "other": sns.color_palette("colorblind").as_hex()[4],  # of a second run, beside the paddings' first two
        "fullAttention": to_hex(style.FULL_ATTENTION_COLOUR),
        "undefined": to_hex(panels.UNDEFINED_COLOUR),
        "change": _sampled(panels.CHANGE.colours),
        "preference": _sampled(panels.PREFERENCE.colours),
        "depth": _sampled(figure_4.DEPTH),
        "shift": [to_hex(colour) for colour in sns.color_palette(figure_6.SHIFT_PALETTE, 11)],
    }


def _sampled(scale: Colormap) -> list[str]:
    return [to_hex(colour) for colour in scale(np.linspace(0, 1, STEPS))]
