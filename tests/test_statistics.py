"""Intervals are the textbook's, and the period found is the one that was planted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from weakspots import statistics
from weakspots.analysis import paper_numbers
from weakspots.errors import UserError

PUBLISHED = [
    pytest.param(group["accuracy"].to_numpy(), paper_numbers.models()[model]["stride"], id=f"{model}-{padding}")
    for (model, padding), group in paper_numbers.profiles().groupby(["model", "padding"], sort=False)
]
COMPRESSED = [case for case in PUBLISHED if case.values[1]]
FULL = [case for case in PUBLISHED if not case.values[1]]


def answered(percent: np.ndarray, mappings: int = 1_000, seed: int = 0) -> np.ndarray:
    """Independent answers, right with the given probability by position: [mappings, modulus]."""
    return np.random.default_rng(seed).random((mappings, len(percent))) < np.asarray(percent) / 100


# Outcomes and intervals


def test_outcomes_are_read_in_order_whatever_the_order_of_the_rows():
    truth = answered(np.linspace(0, 100, 6), mappings=9)
    rows = [{"mapping": m, "position": p, "correct": truth[m, p]} for m in range(9) for p in range(6)]
    table = pd.DataFrame(rows).sample(frac=1, random_state=0)
    np.testing.assert_array_equal(statistics.outcomes(table), truth)
    for broken in (table.iloc[1:], pd.concat([table.iloc[1:], table.iloc[[1]]])):
        with pytest.raises(UserError, match="once at every position"):
            statistics.outcomes(broken)


@given(n=st.integers(1, 2_000), share=st.floats(0, 1), confidence=st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_interval_is_scipys(n, share, confidence):
    correct = round(share * n)
    expected = stats.binomtest(correct, n).proportion_ci(confidence, method="wilson")
    low, high = statistics.wilson(correct, n, confidence)
    np.testing.assert_allclose([low, high], [100 * expected.low, 100 * expected.high], atol=1e-9)


def test_fold_averages_congruent_positions():
    np.testing.assert_allclose(statistics.fold(np.array([1.0, 2, 3, 4, 5, 6]), 2), [3, 4])
    np.testing.assert_allclose(statistics.fold(np.array([[1.0, 2, 3, 4], [0, 0, 0, 8]]), 2), [[2, 3], [0, 4]])


def test_bootstrap_mean_has_the_standard_error_of_clustered_mappings():
    # Every mapping is answered at all positions or at none: the positions carry no more information than one of them.
    outcomes = np.repeat(answered([40.0], mappings=500), 12, axis=1)
    rows = statistics.summary(outcomes, replicates=4_000)
    share = outcomes.mean()
    expected = 100 * 1.96 * np.sqrt(share * (1 - share) / 500)
    assert rows.loc["mean", "high"] - rows.loc["mean", "estimate"] == pytest.approx(expected, rel=0.1)
    assert rows.loc["gap"].tolist() == [0, 0, 0]


def test_bootstrap_keeps_mappings_whole():
    drawn = statistics.bootstrap(np.eye(4, dtype=bool), replicates=500, seed=1)
    assert drawn.shape == (500, 4)
    np.testing.assert_allclose(drawn.sum(axis=1), 100)


def test_summary_measures_mean_worst_and_gap():
    outcomes = np.array([[1, 1, 0, 0], [1, 0, 1, 0]], dtype=bool)
    rows = statistics.summary(outcomes, replicates=200)
    assert rows["estimate"].to_dict() == {"mean": 50, "worst": 0, "gap": 100}
    assert (rows["low"] <= rows["estimate"]).all() and (rows["estimate"] <= rows["high"]).all()


@pytest.mark.parametrize("compressed", [True, False])
def test_intervals_by_position_cover_the_truth(compressed):
    truth = np.linspace(5, 95, 24)
    rows = statistics.by_position(answered(truth), compressed=compressed, replicates=500)
    assert ((rows["low"] <= truth) & (truth <= rows["high"])).mean() > 0.85
    assert (rows["n"] == 1_000).all()


@pytest.mark.parametrize(("model", "padding"), [("w8s8-1kv", "prefix"), ("w8s4-1kv", "in_sequence")])
def test_gap_interval_is_as_wide_as_the_papers(model, padding):
    run = paper_numbers.models()[model]
    rows = statistics.summary(answered(paper_numbers.profile(model, padding)), replicates=2_000)
    _, low, high = run[padding]["gap"]
    assert rows.loc["gap", "high"] - rows.loc["gap", "low"] == pytest.approx(high - low, rel=0.35)


# Periods


@settings(max_examples=60, deadline=None)
@given(
    modulus_and_period=st.sampled_from([(24, 2), (24, 3), (24, 4), (24, 6), (24, 8), (24, 12), (12, 4), (48, 8)]),
    shift=st.integers(0, 11),
    seed=st.integers(0, 10_000),
)
def test_a_planted_pattern_is_found_with_its_period(modulus_and_period, shift, seed):
    modulus, period = modulus_and_period
    rng = np.random.default_rng(seed)
    # A random order of evenly spread accuracies repeats with no shorter period, and no phase is close to another.
    pattern = np.roll(np.tile(rng.permutation(np.linspace(10, 90, period)), modulus // period), shift)
    noisy = pattern + rng.normal(0, 1.5, modulus)
    assert statistics.dominant_period(noisy) == period
    found = statistics.periodicity(answered(pattern, seed=seed), replicates=100, permutations=200, seed=seed)
    assert found.period == period and found.share > 0.9 and not found.flat


@pytest.mark.parametrize("period", [3, 4, 6, 8, 12])
@pytest.mark.parametrize("phase", [0, 0.7, 2.1])
def test_a_sinusoid_is_found_with_its_period(period, phase):
    wave = 50 + 30 * np.sin(2 * np.pi * np.arange(24) / period + phase)
    assert statistics.dominant_period(wave + np.random.default_rng(1).normal(0, 2, 24)) == period


@pytest.mark.parametrize("period", [2, 3, 4, 6, 8, 12])
def test_an_exact_repetition_is_not_mistaken_for_its_multiple(period):
    assert statistics.dominant_period(np.tile(np.arange(period) / 3, 24 // period)) == period


def test_log_p_value_is_scipys_analysis_of_variance():
    values = np.random.default_rng(3).normal(size=24)
    for period, found in zip(statistics.candidate_periods(24), statistics.log_p_values(values), strict=True):
        expected = stats.f_oneway(*(values[phase::period] for phase in range(period))).pvalue
        assert np.exp(found) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("values", "stride"), COMPRESSED)
def test_every_compressed_run_of_the_paper_repeats_with_its_stride(values, stride):
    assert statistics.dominant_period(values) == stride
    found = statistics.periodicity(answered(values), replicates=100, permutations=200)
    assert found.period == stride and found.share > 0.9


@pytest.mark.parametrize(("values", "stride"), FULL)
def test_full_attention_of_the_paper_is_flat(values, stride):
    found = statistics.periodicity(answered(values), replicates=100, permutations=300)
    assert found.flat and found.period is None


def test_a_bump_that_does_not_repeat_is_neither_flat_nor_periodic():
    bump = np.full(24, 50.0)
    bump[[3, 4]] = 90
    found = statistics.periodicity(answered(bump), replicates=100, permutations=200)
    assert not found.flat and found.period is None


def test_positions_that_do_not_matter_are_called_flat_about_as_often_as_the_level_says():
    difficulty = np.random.default_rng(0).random((200, 300, 1))  # mappings differ, positions do not
    flat = [
        statistics.gap_p_value(np.random.default_rng(i).random((300, 8)) < hard, permutations=100, seed=i)
        for i, hard in enumerate(difficulty)
    ]
    assert stats.kstest(flat, "uniform").statistic < 0.12


def test_a_modulus_of_one_period_shows_no_repetition():
    assert statistics.candidate_periods(7) == []
    assert statistics.periodicity(answered([10, 90, 50]), replicates=100, permutations=100).period is None


def test_published_means_and_gaps_agree_with_the_published_profiles():
    for row in paper_numbers.summary().itertuples():
        shown = paper_numbers.models()[row.model][row.padding]
        if shown["mean"]:
            assert row.mean == pytest.approx(shown["mean"][0], abs=0.06)
            assert row.gap == pytest.approx(shown["gap"][0], abs=0.11)


def test_profiles_are_compared_with_themselves_a_period_later():
    flash_base = 100 * np.array([112, 178, 169, 76, 115, 179, 165, 84]) / 256
    assert statistics.apart(flash_base, 4) == pytest.approx(100 * (3 + 1 + 4 + 8) / 4 / 256)
    assert statistics.apart(np.array([1.0, 5, 1, 5, 1, 5]), 2) == 0
    assert statistics.apart(np.array([1.0, 5, 1, 5, 1, 5]), 3) == 4


def test_effective_numbers_run_from_one_to_all():
    np.testing.assert_allclose(statistics.effective_number(np.stack([np.eye(5)[2], np.full(5, 0.2)])), [1, 5])
