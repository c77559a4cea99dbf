"""Coverage is counted, compared with independent choice, and predicts retrieval."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weakspots.statistics import LEVEL
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
    table = heads_table([[0, 0], [0, 2], [1, 2], [1, 1]])
    table.loc[[3, 6], "concentrated"] = False
    found = coverage.covered(table)
    assert found["coverage"].tolist() == [1, 1, 2, 1]
    assert found["concentrated"].tolist() == [True, False, True, False]
    assert found["coincident"].tolist() == [True, False, False, False], "a head without a position meets nobody"


def test_the_distribution_stands_beside_independent_choice():
    found = coverage.distribution(heads_table([[0, 0], [0, 2], [1, 2], [2, 1]]), confidence=0.95)
    assert found["share"].tolist() == [0, 25, 75, 0]
    np.testing.assert_allclose(found["independent"], [0, 100 / 3, 200 / 3, 0])
    assert (found["low"] <= found["share"]).all() and (found["share"] <= found["high"]).all()
    assert found["mean"].iloc[0] == 1.75 and found["mean_independent"].iloc[0] == pytest.approx(5 / 3)
    assert (found["seed"] == 7).all() and (found["coincident"] == 1).all() and (found["unconcentrated"] == 0).all()


def test_runs_with_a_head_that_is_not_concentrated_are_left_out_of_the_distribution():
    table = heads_table([[0, 0], [0, 2], [1, 2], [2, 1]])
    table.loc[[2, 7], "concentrated"] = False
    found = coverage.distribution(table, confidence=0.95)
    assert found["share"].tolist() == [0, 50, 50, 0]
    assert (found["runs"] == 2).all() and (found["unconcentrated"] == 2).all() and (found["coincident"] == 1).all()
    none = coverage.distribution(heads_table([[0, 1], [1, 1]], concentrated=False), confidence=0.95)
    assert (none["runs"] == 0).all() and (none["unconcentrated"] == 2).all()
    assert none[["share", "low", "high", "mean", "p_value"]].isna().all().all() and none["independent"].notna().all()


def test_goodness_of_fit_accepts_what_it_supposes_and_nothing_else():
    expected = coverage.independent(3, 5)
    rng = np.random.default_rng(0)
    p_values = [coverage.goodness_of_fit(rng.multinomial(200, expected), expected, seed, 500) for seed in range(200)]
    assert 0.01 <= np.mean(np.array(p_values) < 0.05) <= 0.10
    assert coverage.goodness_of_fit(np.array([0, 0, 0, 200, 0, 0]), expected, 0) < 0.001
    assert coverage.goodness_of_fit(np.array([0, 0, 0, 0, 0, 200]), expected, 0) == 0, "an impossible count"
    assert coverage.goodness_of_fit(np.array([0, 200]), np.array([0.0, 1.0]), 0) == 1


def test_a_strong_shift_is_rejected_even_times_forty_ensembles():
    expected = coverage.independent(7, 7)
    shifted = np.append(0, expected[:-1]) / expected[:-1].sum()  # one position more in every run
    counts = np.random.default_rng(0).multinomial(200, shifted)
    p_value = coverage.goodness_of_fit(counts, expected, seed=1)
    assert p_value > 0 and 40 * p_value < LEVEL


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


def escape_table(escape: np.ndarray, rho: np.ndarray, heads: int = 1) -> pd.DataFrame:
    """`heads` heads of every run with the same time."""
    run = np.arange(len(rho))
    table = {"positions": 4, "heads": 3, "vocabulary": 100, "rho": rho, "run": run, "escape": escape}
    return pd.DataFrame(table).loc[np.repeat(run, heads)].reset_index(drop=True)


def test_the_slope_over_log_radius_is_recovered():
    rng = np.random.default_rng(0)
    rho = np.repeat([1, 1e-2, 1e-4], 50)
    escape = 5 - 1.5 * np.log(rho) + rng.normal(0, 0.5, len(rho))
    fit = coverage.escape_fit(escape_table(escape, rho), 0.95).iloc[0]
    assert fit["low"] < 1.5 < fit["high"] and fit["high"] - fit["low"] < 0.1
    assert fit["runs"] == 150 and fit["censored"] == 0
    wider = coverage.escape_fit(escape_table(escape, rho), 0.99).iloc[0]
    assert wider["high"] - wider["low"] > fit["high"] - fit["low"]
    assert coverage.escape_fit(escape_table(escape[:50], rho[:50]), 0.95).empty, "one radius has no slope"


def test_heads_of_a_run_are_one_observation_and_a_run_with_one_that_never_chose_is_left_out():
    rng = np.random.default_rng(1)
    rho = np.repeat([1, 1e-2], 20)
    escape = 5 - np.log(rho) + rng.normal(0, 0.5, len(rho))
    alone, together = (coverage.escape_fit(escape_table(escape, rho, heads), 0.95) for heads in (1, 3))
    pd.testing.assert_frame_equal(alone, together)
    table = escape_table(escape, rho, heads=3)
    table.loc[[0, 7], "escape"] = np.nan
    found = coverage.escape_fit(table, 0.95).iloc[0]
    assert found["runs"] == 38 and found["censored"] == 2
    never = coverage.escape_fit(table.assign(escape=np.nan), 0.95).iloc[0]
    assert np.isnan(never["slope"]) and never["runs"] == 0 and never["censored"] == 40
