"""Lookup results with a planted answer, for tests of what is measured from them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from weakspots.analysis.results import Results
from weakspots.config import Statistics
from weakspots.model_table import ModelRow, model_row

ROWS = {
    "full-1kv": model_row(compressor="none"),
    "full-8kv": model_row(compressor="none", kv_heads=8),
    "w8s8-1kv": model_row(),
    "w8s8-1kv-seed43": model_row(seed=43),
    "w8s8-1kv-seed44": model_row(seed=44),
    "w8s8-1kv-seed45": model_row(seed=45),
    "w8s4-1kv": model_row(stride=4),
    "w12s12-1kv": model_row(window=12, stride=12),
    "w8s8-8kv": model_row(kv_heads=8),
    "w8s8-1kv-no-rope": model_row(rope_fraction=0),
    "w8s8-1kv-uniform": model_row(compressor="uniform"),
}
"""A small model table with a row for every claim."""

WEAK_BOUNDARY = {
    4: [85.0, 30, 70, 10],
    8: [90.0, 30, 75, 50, 85, 40, 60, 10],
    12: [90.0, 30, 75, 50, 85, 40, 60, 20, 95, 35, 70, 10],
}
"""Graded accuracies in percent by phase, the boundary phase the weakest, by stride."""


def answers(percent: Iterable[float], modulus: int = 24, mappings: int = 250, seed: int = 0) -> np.ndarray:
    """[mappings, modulus] independent answers, right with the probabilities `percent`, repeated over the positions."""
    percent = np.array(list(percent))
    probability = np.tile(percent, modulus // len(percent)) / 100
    return np.random.default_rng(seed).random((mappings, modulus)) < probability


def planted(
    changes: dict[str, Iterable[float] | None] | None = None,
    in_sequence: dict[str, Iterable[float] | None] | None = None,
    rows: dict[str, ModelRow] = ROWS,
    modulus: int = 24,
) -> Results:
    """Results in which every claim holds, except for what `changes` says of a model.

    `changes` holds accuracies by phase (or by position), or None for a model that has not been run; `in_sequence` the
    same for that padding alone.
    """
    outcomes = {}
    for number, (model, row) in enumerate(rows.items()):
        usual = WEAK_BOUNDARY[row.stride] if row.compressed else [70.0]
        of_padding = {"prefix": {}, "in_sequence": in_sequence or {}}
        for padding, own in of_padding.items():
            percent = {**{model: usual}, **(changes or {}), **own}[model]
            if percent is not None:
                outcomes[model, padding] = answers(percent, modulus, seed=2 * number + (padding == "prefix"))
    return Results("planted", dict(rows), Statistics(bootstrap=200), outcomes)
