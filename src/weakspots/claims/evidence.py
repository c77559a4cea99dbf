"""What each claim rests on: the kind of result that judges it, the tables of that kind, the figures that show it."""

from __future__ import annotations

from weakspots.claims import (
    cycling,
    deepseek_completion,
    deepseek_layers,
    deepseek_needle,
    gates,
    knockouts,
    lookup,
    theory,
)
from weakspots.config.deepseek import STAGES as DEEPSEEK

KINDS = {
    "code_completion": deepseek_completion.CLAIMS,
    "needle": deepseek_needle.CLAIMS,
    "layer_knockout": deepseek_layers.CLAIMS,
    "lookup": lookup.CLAIMS,
    "knockout": knockouts.CLAIMS,
    "gates": gates.CLAIMS,
    "cycling": cycling.CLAIMS,
    "theory": theory.CLAIMS,
}
"""What kind of table each claim is judged by: a claim that is added to one of these has its links."""

FIGURES = {
    **dict.fromkeys(DEEPSEEK, ("figure_1",)),
    "lookup": ("figure_2",),
    "knockout": ("figure_3",),
    "gates": ("figure_4", "figure_5"),
    "cycling": ("figure_6",),
    "theory": (
        "figure_theory_theorem_1",
        "figure_theory_theorem_2",
        "figure_theory_coverage",
        "figure_theory_retrieval",
    ),
}
"""The figures that show each kind of table."""

TABLES = {
    **dict.fromkeys(DEEPSEEK, "deepseek"),
    "lookup": "lookup",
    "knockout": "knockout",
    "gates": "models",
    "cycling": "cycling",
    "theory": "theory",
}
"""The folder, in that of a scale, with the tables of each kind."""


def kind_of(claim: str) -> str | None:
    """The kind of result that a claim is judged by, from its id; None for a claim in none of the lists."""
    return next((kind for kind, claims in KINDS.items() if any(one.id == claim for one in claims)), None)
