"""Coverage is counted, compared with independent choice, and predicts retrieval."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weakspots.theory import coverage, geometry, model
from weakspots.theory.model import Scales


@given(st.integers(1, 5), st.integers(1, 5))
def test_independent_choice_equals_the_count_of_all_choices(heads, choices):
    counts = np.bincount([len(set(each)) for each in product(range(choices), repeat=heads)], minlength=choices + 1)
    np.testing.assert_allclose(coverage.independent(heads, choices), counts / choices**heads)


def heads_table(key_positions: list[list[int]], concentrated: bool = True) -> pd.DataFrame:
    rows = [
        {"positions": 4, "heads": len(run), "vocabulary": 100, "rho": 0.1, "run": number, "seed": 7,
         "key_position": key, "concentrated": concentrated}
        for number, run in enumerate(key_positions)
        for key in run
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_coverage_counts_the_positions_of_concentrated_heads():
    table = heads_table([[0, 0], [0, 2], [1, 2]])
    table.loc[3, "concentrated"] = False
    found = coverage.covered(table)
    assert found["coverage"].tolist() == [1, 1, 2] and found["concentrated"].tolist() == [True, False, True]


def test_the_distribution_stands_beside_independent_choice():
    found = coverage.distribution(heads_table([[0, 0], [0, 2], [1, 2], [2, 1]]), confidence=0.95, seed=3)
    assert found["share"].tolist() == [0, 25, 75, 0]
    np.testing.assert_allclose(found["independent"], [0, 100 / 3, 200 / 3, 0])
    assert (found["low"] <= found["share"]).all() and (found["share"] <= found["high"]).all()
    assert found["mean"].iloc[0] == 1.75 and found["mean_independent"].iloc[0] == pytest.approx(5 / 3)


def test_goodness_of_fit_accepts_what_it_supposes_and_nothing_else():
    expected = coverage.independent(3, 5)
    rng = np.random.default_rng(0)
    p_values = [coverage.goodness_of_fit(rng.multinomial(200, expected), expected, seed, 500) for seed in range(200)]
    assert 0.01 <= np.mean(np.array(p_values) < 0.05) <= 0.10
    assert coverage.goodness_of_fit(np.array([0, 0, 0, 200, 0, 0]), expected, 0) < 0.001
    assert coverage.goodness_of_fit(np.array([0, 0, 0, 0, 0, 200]), expected, 0) < 0.001, "an impossible count"
    assert coverage.goodness_of_fit(np.array([0, 200]), np.array([0.0, 1.0]), 0) == 1


def test_chosen_needs_both_branches_and_the_successor():
    one, spread = np.eye(4), np.full(4, 0.25)
    gates = np.array([[one[1], one[2]], [one[1], one[3]], [one[1], spread], [one[0], one[1]]])[:, :, None]
    place, concentrated = coverage.chosen(gates)
    assert place[:, 0].tolist() == [1, 1, 1, 0]
    assert concentrated[:, 0].tolist() == [True, False, False, True]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=9))
def test_a_phase_is_retrieved_unless_it_has_no_head_or_another_outweighs_it(chosen):
    chunks, gamma = 4, 4.0
    context = geometry.symmetric_context(10**6, chunks, 8, 1.0)
    keys, values = np.eye(8)[[chosen]], np.eye(8)[[np.array(chosen) + 1]]
    found = model.retrieved(context, Scales(gamma, 2.0), keys, values)
    matching = np.exp(gamma) / (np.exp(gamma) + chunks - 1)
    counts = np.bincount(chosen, minlength=7)
    for phase, count in enumerate(counts):
        others = np.delete(counts, phase).max()
        assert found[phase] == (count > 0 and count * matching > others / chunks)


def test_the_slope_over_log_radius_is_recovered():
    rng = np.random.default_rng(0)
    rho = np.repeat([1, 1e-2, 1e-4], 50)
    escape = 5 - 1.5 * np.log(rho) + rng.normal(0, 0.5, len(rho))
    table = pd.DataFrame({"positions": 4, "heads": 2, "vocabulary": 100, "rho": rho, "escape": escape})
    table.loc[0, "escape"] = np.nan
    fit = coverage.escape_fit(table, 0.95).iloc[0]
    assert fit["low"] < 1.5 < fit["high"] and fit["high"] - fit["low"] < 0.1 and fit["count"] == 149
    assert coverage.escape_fit(table[table["rho"] == 1], 0.95).empty


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
    found = coverage.laptop_heads({"model": table})
    assert found[["head", "key_position", "value_position"]].to_numpy().tolist() == [[0, 1, 2], [1, 0, 0]]
    assert found["concentrated"].tolist() == [True, False] and found["successor"].tolist() == [True, False]
    assert coverage.laptop_heads({}).empty
