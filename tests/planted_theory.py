"""Tables of the theory at a scale of seconds, for tests of what is measured and drawn from them."""

from __future__ import annotations

from functools import cache

import pandas as pd
from planted import planted

from weakspots.analysis.results import Results
from weakspots.config.theory import Flow, Map, Minimizers, Shape, Theory, Tokens
from weakspots.theory.compute import compute

TINY = Theory(
    grid=11,
    minimizers=Minimizers(
        shapes=[Shape(positions=3, heads=2)], vocabularies=[8, 1024, 4096, 16384], fit_from=1024, starts=6
    ),
    map=Map(vocabularies=[10, 64], epsilons=[0, 0.02, 0.4], contexts=2, starts=4),
    flow=Flow(positions=[4], runs=20, sweep_vocabularies=[20, 1024], sweep_rhos=[1, 1e-6]),
    tokens=Tokens(vocabularies=[32], rhos=[30, 0.01], arrangements=2, fresh=200, runs=1, judged_runs=2),
)
"""A section of the theory that takes a few seconds."""


@cache
def tables() -> dict[str, pd.DataFrame]:
    """`compute` of `TINY`; nobody may change it."""
    return compute(TINY)


def planted_theory(**changes: pd.DataFrame | None) -> Results:
    """Results with these tables, but for `changes` by name; None removes a table."""
    results = planted()
    found = {**tables(), **changes}
    results.theory = {name: table.copy() for name, table in found.items() if table is not None}
    return results
