"""Everything the theory room computes, as tidy tables by name."""

from __future__ import annotations

import pandas as pd

from weakspots.config.theory import Theory
from weakspots.theory import coverage, theorem_1, theorem_2


def compute(settings: Theory) -> dict[str, pd.DataFrame]:
    """The tables landscape, minima, exponent, map, heads, coverage, retrieval, trajectories and tokens.

    Deterministic: every random case has a seed of its own, which its rows carry. Raises UserError where a flow cannot
    be integrated.
    """
    minima = theorem_1.minima(settings)
    heads, retrieval = theorem_2.common_flows(settings)
    trajectories, tokens = theorem_2.token_flows(settings)
    return {
        "landscape": theorem_1.landscape(settings),
        "minima": minima,
        "exponent": theorem_1.exponent(minima, settings.minimizers.fit_from, settings.confidence),
        "map": theorem_1.validity_map(settings),
        "heads": heads,
        "coverage": coverage.distribution(heads, settings.confidence, settings.seed),
        "retrieval": retrieval,
        "trajectories": trajectories,
        "tokens": tokens,
    }
