"""The heads of trained models are described and counted, with what chance would give."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from weakspots.analysis import trained_heads
from weakspots.statistics import wilson


def test_heads_of_trained_models_are_described_at_their_last_step():
    def gate(step: int, head: int, branch: str, scores: list[float], static: float) -> pd.DataFrame:
        return pd.DataFrame(
            {"step": step, "layer": 0, "head": head, "branch": branch, "offset": range(3), "score": scores,
             "static": static, "per_window": static}
        )  # fmt: skip

    table = pd.concat(
        [
            gate(1, 0, "key", [0.9, 0.1, 0], 1.2),
            gate(9, 0, "key", [0.1, 0.9, 0], 1.3),
            gate(9, 0, "value", [0, 0.1, 0.9], 1.4),
            gate(9, 1, "key", [0.4, 0.3, 0.3], 2.9),
            gate(9, 1, "value", [0.9, 0.1, 0], 1.4),
            gate(9, 2, "key", [0.9, 0.1, 0], 1.4),  # tied: it has no value gate
        ]
    )
    found = trained_heads.describe({"model": table})
    assert found[["head", "key_position", "value_position"]].to_numpy().tolist() == [[0, 1, 2], [1, 0, 0]]
    assert found["concentrated"].tolist() == [True, False] and found["successor"].tolist() == [True, False]
    assert trained_heads.describe({}).empty


def test_concentrated_heads_are_counted_by_model_beside_chance():
    described = pd.DataFrame(
        [
            ("one", 8, True, True, 2),
            ("one", 8, True, True, 2),
            ("one", 8, True, False, 7),
            ("one", 8, False, True, 4),
            ("two", 4, False, False, 1),
        ],
        columns=["model", "positions", "concentrated", "successor", "key_position"],
    )
    one, two = trained_heads.summarise(described, 0.9).to_dict("records")
    assert (one["heads"], one["concentrated"], one["successor"], one["key_positions"]) == (4, 3, 2, 2)
    assert one["share"] == pytest.approx(200 / 3) and (one["low"], one["high"]) == wilson(2, 3, 0.9)
    assert one["chance"] == pytest.approx(100 * sum(v == k + 1 for k in range(8) for v in range(8)) / 64)
    assert (two["heads"], two["concentrated"], two["successor"], two["key_positions"]) == (1, 0, 0, 0)
    assert np.isnan([two["share"], two["low"], two["high"]]).all()
    assert trained_heads.summarise(trained_heads.describe({}), 0.9).empty
