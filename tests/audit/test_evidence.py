"""The audit's statistics: error rates, bounds and exact tests, on imagined outcomes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from imagined import imagined, nothing, weak_phase
from scipy import stats

from weakspots.audit import power
from weakspots.audit.compare import exact_p_value, paired
from weakspots.audit.design import design
from weakspots.audit.evidence import Profile, Sample, log_survival, scan_periods
from weakspots.audit.follow import follow
from weakspots.audit.sequential import looks

LEVEL = 0.05


def seen(effect, seed, mappings=44, stride=8, **model):
    asked = design((stride,))
    return follow(imagined(asked, effect, seed=seed, **model), asked, looks(mappings, LEVEL), 20.0, seed=seed)


def test_flat_models_with_mappings_all_right_or_all_wrong_raise_few_false_alarms() -> None:
    """At most 5 %; `benchmarks/audit_simulation.py` counts a thousand, here 40 are a check against gross errors."""
    alarms = sum(any(one.found for one in seen(nothing, seed).findings[0]) for seed in range(40))
    assert alarms <= stats.binom.isf(0.001, 40, LEVEL)


def test_the_planned_number_of_prompts_finds_the_planned_gap() -> None:
    plan = power.needed(design((8,)), 20, LEVEL)
    found = [seen(weak_phase(0.2, 8, 3), seed, plan.mappings).findings[0][0] for seed in range(16)]
    assert sum(one.found for one in found) >= stats.binom.ppf(0.001, 16, power.POWER)
    assert sum(one.found and one.period == 8 for one in found) >= 0.8 * sum(one.found for one in found)
    assert all(one.gap_low <= 20 for one in found) and np.mean([one.gap_high >= 20 for one in found]) >= 0.7


def test_a_smooth_change_over_the_context_is_no_period() -> None:
    alarms = sum(
        any(one.found for one in seen(lambda needle, length: (needle - 60) / 200, seed).findings[0])
        for seed in range(20)
    )
    assert alarms <= stats.binom.isf(0.001, 20, LEVEL)


def test_a_shared_weakness_is_no_fault_of_the_one_that_loses_a_few_answers_anywhere() -> None:
    """Both are wrong at one phase of four, where nothing can be lost: losses are at the others only."""
    asked, alarms = design((4,)), 0
    for seed in range(30):
        ask = imagined(asked, weak_phase(1.0, 4, 1), seed=seed, accuracy=1.0, constant=0.0)
        batch, (right,) = ask(0, 300)
        lost = np.random.default_rng(seed).random(len(right)) < 0.03
        alarms += paired(batch, right, right & ~lost, asked, LEVEL).found
    assert alarms <= stats.binom.isf(0.001, 30, LEVEL)


def test_near_ties_where_the_model_is_weak_are_no_fault_of_either() -> None:
    """At one phase of four a fifth of the answers is other, in either direction, and elsewhere one in a hundred."""
    asked, alarms = design((4,)), 0
    for seed in range(30):
        batch, (right,) = imagined(asked, nothing, seed=seed, constant=0.0, accuracy=0.5)(0, 300)
        other = np.random.default_rng(seed).random(len(right)) < np.where(batch.needle % 4 == 1, 0.2, 0.01)
        alarms += paired(batch, right, right ^ other, asked, LEVEL).found
    assert alarms <= stats.binom.isf(0.001, 30, LEVEL)


def test_a_finding_of_an_earlier_look_keeps_its_period_and_p_value() -> None:
    """Whatever the last look would say: a finding is below the level of the look that made it."""
    for seed in range(40):
        for one in seen(weak_phase(0.1, 8, 3), seed, mappings=80).findings[0]:
            assert not one.found or one.p_value <= LEVEL


def test_looks_spend_the_level_and_no_more() -> None:
    for mappings in (1, 5, 8, 9, 40, 333):
        asked = looks(mappings, LEVEL)
        assert asked[-1].mappings == mappings and sum(look.level for look in asked) == pytest.approx(LEVEL)
        assert all(a.mappings < b.mappings and a.level < b.level for a, b in itertools.pairwise(asked))


def test_the_plan_needs_more_for_smaller_gaps_and_a_budget_buys_its_power() -> None:
    asked = design((8,))
    needed = [power.needed(asked, gap, LEVEL).prompts for gap in (20, 10, 5)]
    assert needed[0] < needed[1] < needed[2] and needed[1] > 3 * needed[0]
    assert power.affordable(needed[1], asked, 10, LEVEL).power == pytest.approx(power.POWER, abs=0.02)


@given(st.integers(1, 40), st.floats(0.1, 400))
def test_the_logarithm_of_a_chi_squares_tail_is_scipys(freedom: int, x: float) -> None:
    assert log_survival(np.array([x]), freedom)[0] == pytest.approx(stats.chi2.logsf(x, freedom), rel=1e-6, abs=1e-9)


def test_far_tails_stay_finite_and_ordered() -> None:
    far = log_survival(np.array([1e3, 2e3, 1e5]), 7)
    # DLMF 8.11.2, two terms
    assert np.isfinite(far).all() and far[0] == pytest.approx(2.5 * np.log(500) - 500 - np.log(3.3233509704), abs=0.01)
    assert far[0] > far[1] > far[2]


def test_the_profile_is_the_planted_one_although_mappings_means_are_taken_out() -> None:
    """Also where a mapping is asked at some of the phases only, which takes out a part of the effect with its mean."""
    rng = np.random.default_rng(0)
    mapping = np.repeat(np.arange(4000), 4)
    position = rng.integers(0, 8, len(mapping))
    planted = np.array([0, 0.4, 0, 0, 0, -0.2, 0, 0.2])
    value = rng.normal(0, 3, 4000)[mapping] + planted[position] + rng.normal(0, 0.1, len(mapping))
    profile = Profile.of(Sample(mapping, position, value), 8)
    np.testing.assert_allclose(profile.effect - profile.effect.mean(), planted - planted.mean(), atol=0.02)


def test_the_bounds_hold_the_true_gap_where_one_weak_mapping_in_two_varies() -> None:
    low, high = [], []
    for seed in range(40):
        asked = design((4,))
        batch, (right,) = imagined(asked, weak_phase(0.15, 4, 1), seed=seed)(0, 60)
        profile = Profile.of(Sample(batch.mapping, batch.needle, right.astype(float)), 4)
        low.append(profile.least_gap(LEVEL, 12))
        high.append(profile.most_gap(LEVEL))
    assert np.mean(np.array(low) > 0.15) <= 0.15 and np.mean(np.array(high) < 0.15) <= 0.15
    assert max(low) > 0  # they say something


def test_a_few_mappings_without_a_failure_rule_out_no_gap_that_they_could_not_have_seen() -> None:
    """All right in 9 mappings: a phase that fails one in five is still right 9 times with a chance of 13 %."""
    sample = Sample(np.repeat(np.arange(9), 4), np.tile(np.arange(4), 9), np.ones(36))
    assert Profile.of(sample, 4).most_gap(0.1) > 0.2 and Profile.of(sample, 4).least_gap(0.1, 12) == 0


def test_noise_has_a_gap_and_the_lower_bound_does_not_take_it_for_one() -> None:
    """Best minus worst of 16 phases is far from zero in a flat model; the bound accounts for having picked them."""
    asked, gaps, low = design((8,)), [], []
    for seed in range(40):
        batch, (right,) = imagined(asked, nothing, seed=seed)(0, 40)
        profile = Profile.of(Sample(batch.mapping, batch.needle, right.astype(float)), 16)
        gaps.append(np.ptp(profile.effect))
        low.append(profile.least_gap(LEVEL, 240))
    assert np.mean(gaps) > 0.15 and np.mean(np.array(low) > 0) <= 0.15


def test_neighbours_that_are_alike_are_no_evidence() -> None:
    """Each mapping right on a stretch of its own: runs of equal answers, but no phase is better on average.

    A null that shuffles the answers instead of turning them raises 10 alarms in a hundred here.
    """
    alarms = 0
    for seed in range(100):
        position = np.tile(np.arange(16), 12)
        start = np.repeat(np.random.default_rng(seed).integers(16, size=12), 16)
        sample = Sample(np.repeat(np.arange(12), 16), position, ((position - start) % 16 < 8).astype(float))
        alarms += scan_periods(sample, (16,), level=0.01, seed=seed).p_value <= 0.01
    assert alarms <= stats.binom.isf(0.001, 100, 0.01)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_with_one_mapping_the_paired_test_is_fishers(data) -> None:
    size = data.draw(st.integers(2, 30))
    lost, here = (np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), bool) for _ in range(2))
    table = [[(lost & here).sum(), (lost & ~here).sum()], [(~lost & here).sum(), (~lost & ~here).sum()]]
    expected = stats.fisher_exact(table, alternative="greater")[1]
    assert exact_p_value(lost, here, np.zeros(size, int)) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_over_many_mappings_the_paired_test_is_what_shuffling_within_them_gives() -> None:
    rng = np.random.default_rng(3)
    row = np.repeat(np.arange(20), 6)
    here = np.tile(np.arange(6) == 2, 20)
    rate = np.repeat(rng.random(20) < 0.3, 6) * 0.5  # mappings differ in how often answers are lost
    lost = rng.random(120) < rate + 0.2 * here
    shuffled = [rng.permuted(lost.reshape(20, 6), axis=1).ravel() for _ in range(4000)]
    expected = np.mean([(some & here).sum() >= (lost & here).sum() for some in shuffled])
    assert exact_p_value(lost, here, row) == pytest.approx(expected, abs=0.03)


def test_disagreement_that_depends_on_no_position_is_no_fault() -> None:
    alarms = 0
    for seed in range(20):
        asked = design((4,))
        ask = imagined(asked, nothing, seed=seed, models=2, constant=0.9)
        alarms += follow(ask, asked, looks(30, LEVEL), 20.0, seed=seed).test.found
    assert alarms <= stats.binom.isf(0.001, 20, LEVEL)
