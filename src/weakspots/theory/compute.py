"""Everything the theory room computes, as tidy tables by name."""

from __future__ import annotations

import pandas as pd

from weakspots.config.theory import Theory
from weakspots.theory import coverage, theorem_1, theorem_2


def compute(settings: Theory) -> dict[str, pd.DataFrame]:
    """The tables of `theory_columns.THEORY_TABLES`, by name.

    Deterministic: every random case has a seed of its own, which its rows carry. Raises UserError where a flow cannot
    be integrated.
    """
    confidence = settings.confidence
    minima = theorem_1.minima(settings)
    heads, retrieval = theorem_2.common_flows(settings)
    trajectories, tokens = theorem_2.token_flows(settings)
    return {
        "landscape": theorem_1.landscape(settings),
        "minima": minima,
        "exponent": theorem_1.exponent(minima, settings.minimizers.fit_from, confidence),
        "map": theorem_1.validity_map(settings),
        "heads": heads,
        "escape": coverage.escape_fit(heads, confidence),
        "coverage": coverage.distribution(heads, confidence),
        "retrieval": retrieval,
        "trajectories": trajectories,
        "tokens": tokens,
        "settings": pd.DataFrame({"confidence": [confidence], "seed": [settings.seed]}),
    }
