"""What follows the prediction of a cycle has an R² of 1, and what does not has a known one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import answers

from weakspots.analysis import cycling_prediction
from weakspots.config import Statistics
from weakspots.errors import UserError

SETTINGS = Statistics(bootstrap=200)
PROFILE = np.array([90.0, 30, 75, 50, 85, 40, 60, 10])


def exact(percent, mappings: int = 1_000) -> np.ndarray:
    """[mappings, 24] outcomes that have exactly these accuracies by phase."""
    needed = np.tile(np.asarray(percent, float) / 100 * mappings, 24 // len(percent)).round()
    return np.arange(mappings)[:, None] < needed


def test_predicted_and_observed_are_laid_side_by_side():
    found = cycling_prediction.compare(exact([80, 60, 40, 20]), exact([10, 75, 60, 20]), 1, 4)
    assert found["phase"].tolist() == [0, 1, 2, 3]
    for column, expected in {
        "clean": [80, 60, 40, 20],
        "observed": [10, 75, 60, 20],
        "predicted": [20, 80, 60, 40],  # phase 0 comes from the boundary phase, 1 from 0
        "observed_change": [-70, 15, 20, 0],
        "predicted_change": [-60, 20, 20, 20],
    }.items():
        np.testing.assert_allclose(found[column], expected, atol=1e-9)
    back = cycling_prediction.compare(exact([80, 60, 40, 20]), exact([10, 75, 60, 20]), -1, 4)
    np.testing.assert_allclose(back["predicted"], [60, 40, 20, 80])
    assert cycling_prediction.mean_change(exact([80, 60, 40, 20]), exact([10, 75, 60, 20])) == pytest.approx(
        165 / 4 - 50
    )


@pytest.mark.parametrize("shift", [-3, -2, -1, 1, 2, 3])
def test_a_profile_that_moves_as_predicted_has_an_r_squared_of_one(shift):
    clean = answers(PROFILE, mappings=192)
    found = cycling_prediction.r_squared(clean, np.roll(clean, shift, axis=1), shift, 8, SETTINGS)
    for name in ("without_boundary", "interior", "all"):
        assert found[name] == pytest.approx((1, 1, 1))
    assert found["correlation"] == pytest.approx(1)
    assert set(found) == {"without_boundary", "interior", "all", "correlation"}


def test_a_smaller_move_correlates_as_well():
    half = PROFILE + (np.roll(PROFILE, 1) - PROFILE) / 2 - 5
    found = cycling_prediction.r_squared(exact(PROFILE), exact(half), 1, 8, SETTINGS)
    assert found["all"][0] == pytest.approx(1) and found["correlation"] == pytest.approx(1)


@pytest.mark.parametrize("shift", [-1, 2])
def test_the_boundary_phase_and_its_target_are_left_out_by_name(shift):
    target = (7 + shift) % 8  # where the boundary phase would go
    moved = np.roll(PROFILE, shift)
    moved[7] = PROFILE[7]  # it stays weak
    clean, observed = exact(PROFILE), moved.copy()
    found = cycling_prediction.r_squared(clean, exact(observed), shift, 8, SETTINGS)
    assert found["without_boundary"][0] == pytest.approx(1) and found["interior"][0] == pytest.approx(1)
    assert found["all"][0] < 0.99
    observed[target] = 55.0
    found = cycling_prediction.r_squared(clean, exact(observed), shift, 8, SETTINGS)
    assert found["interior"][0] == pytest.approx(1)
    predicted, seen = np.roll(PROFILE, shift) - PROFILE, observed - PROFILE
    for name, left_out in {"without_boundary": [7], "interior": [7, target], "all": []}.items():
        chosen = np.delete(np.arange(8), left_out)
        expected = np.corrcoef(predicted[chosen], seen[chosen])[0, 1]
        assert found[name][0] == pytest.approx(expected**2)
        if name == "without_boundary":
            assert found["correlation"] == pytest.approx(expected)


@given(
    profile=st.lists(st.integers(0, 100), min_size=8, max_size=8),
    shift=st.integers(-7, 7),
    constant=st.integers(0, 100),
    kept=st.sampled_from([0, 0.1, 0.5, 0.9]),
)
@settings(deadline=None, max_examples=40)
def test_a_pattern_that_vanishes_or_fades_in_place_has_half_of_one_minus_its_own_correlation(
    profile, shift, constant, kept
):
    clean = np.array(profile, dtype=float)
    moved = np.roll(clean, shift)
    for observed in (np.full(8, float(constant)), clean * kept):
        found = cycling_prediction.r_squared(exact(clean), exact(observed), shift, 8, Statistics(bootstrap=100))["all"][
            0
        ]
        if np.ptp(moved - clean) == 0:
            assert np.isnan(found)
        else:
            assert found == pytest.approx((1 - np.corrcoef(clean, moved)[0, 1]) / 2)


def test_the_r_squared_of_a_pattern_that_vanishes_is_told_beforehand():
    vanished = cycling_prediction.r_squared(exact(PROFILE), exact([30.0] * 8), 1, 8, SETTINGS)
    assert cycling_prediction.flat_r_squared(exact(PROFILE), 1, 8) == pytest.approx(vanished["without_boundary"][0])
    assert np.isnan(cycling_prediction.flat_r_squared(exact([30.0] * 8), 1, 8))


def test_the_sign_of_the_correlation_is_kept():
    changes = np.roll(PROFILE, 2) - PROFILE
    found = cycling_prediction.r_squared(exact(PROFILE), exact(PROFILE - changes / 10), 2, 8, SETTINGS)
    assert found["correlation"] == pytest.approx(-1) and found["without_boundary"][0] == pytest.approx(1)


def test_where_nothing_moves_or_too_few_phases_remain_r_squared_is_undefined():
    clean = exact(PROFILE)
    unmoved = cycling_prediction.r_squared(clean, clean, 1, 8, SETTINGS)
    assert np.isnan([*unmoved["all"], *unmoved["without_boundary"], *unmoved["interior"], unmoved["correlation"]]).all()
    once_around = cycling_prediction.r_squared(clean, exact(PROFILE[::-1]), 8, 8, SETTINGS)
    assert np.isnan(once_around["all"]).all()
    small = exact([80, 60, 40, 20])
    few = cycling_prediction.r_squared(small, np.roll(small, 1, axis=1), 1, 4, SETTINGS)
    assert few["without_boundary"][0] == pytest.approx(1)
    assert np.isnan(few["interior"]).all()  # two phases, through which a line can always be drawn


def test_the_interval_is_a_bootstrap_of_pairs():
    clean, cycled = answers(PROFILE, mappings=50, seed=1), answers(np.roll(PROFILE, 1), mappings=50, seed=2)
    found = cycling_prediction.r_squared(clean, cycled, 1, 8, SETTINGS)
    squares = []
    for drawn in np.random.default_rng(SETTINGS.seed).integers(50, size=(SETTINGS.bootstrap, 50)):
        before, after = (of[drawn].reshape(50, 3, 8).mean(axis=(0, 1)) for of in (clean, cycled))
        squares.append(np.corrcoef((np.roll(before, 1) - before)[:7], (after - before)[:7])[0, 1] ** 2)
    np.testing.assert_allclose(found["without_boundary"][1:], np.quantile(squares, [0.025, 0.975]))
    assert found["without_boundary"][1] < found["without_boundary"][0] < found["without_boundary"][2]


def test_other_mappings_are_refused():
    with pytest.raises(UserError, match=r"1000 clean mappings and 100 cycled ones.*clean\[:len\(cycled\)\]"):
        cycling_prediction.compare(exact(PROFILE), exact(PROFILE, mappings=100), 1, 8)
