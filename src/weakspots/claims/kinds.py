"""The kinds of result that claims are judged by, and where a reader finds the figures and tables of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from weakspots.analysis import paper_numbers


@dataclass(frozen=True)
class Kind:
    """A kind of result: its name as in `files.tables`, the figures that show it, and the folder with its tables.

    `published` says what the paper gives for one run, by model and padding; None where it gives nothing.
    """

    name: str
    figures: tuple[str, ...]
    folder: str
    published: Callable[[str, str | None], str | None] = lambda model, padding: None


def _published_lookup(model: str, padding: str | None) -> str | None:
    profile = None if padding is None else paper_numbers.profile(model, padding)
    if profile is None:
        return None
    return f"mean {profile.mean():.1f}, worst {profile.min():.1f}, gap {np.ptp(profile):.1f}"


def _published_cycling(model: str, _: str | None) -> str | None:
    shown = paper_numbers.by_model("gate_cycling").get(model)
    if shown is None:
        return None
    return f"R² {min(shown['r2_excluding_boundary']):.2f} to {max(shown['r2_excluding_boundary']):.2f}"


CODE_COMPLETION = Kind("code_completion", ("figure_1",), "deepseek")
NEEDLE = Kind("needle", ("figure_1",), "deepseek")
LAYER_KNOCKOUT = Kind("layer_knockout", ("figure_1",), "deepseek")
LOOKUP = Kind("lookup", ("figure_2",), "lookup", _published_lookup)
KNOCKOUT = Kind("knockout", ("figure_3",), "knockout")
GATES = Kind("gates", ("figure_4", "figure_5"), "models")
CYCLING = Kind("cycling", ("figure_6",), "cycling", _published_cycling)
THEORY = Kind(
    "theory",
    ("figure_theory_theorem_1", "figure_theory_theorem_2", "figure_theory_coverage", "figure_theory_retrieval"),
    "theory",
)
