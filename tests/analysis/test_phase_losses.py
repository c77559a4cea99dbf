"""What a knockout costs by phase: losses in closed form, and the heads of the paper that matter at a few phases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import answers

from weakspots import statistics
from weakspots.analysis import paper_numbers, phase_losses
from weakspots.config import Statistics
from weakspots.errors import UserError

SETTINGS = Statistics(bootstrap=200)
EVEN = [80.0, 40, 60, 50, 70, 30, 60, 20]


def exact(percent, modulus: int = 24, mappings: int = 1_000) -> np.ndarray:
    """Outcomes that have exactly these accuracies by phase."""
    needed = np.tile(np.asarray(percent) / 100 * mappings, modulus // len(percent)).round()
    return np.arange(mappings)[:, None] < needed


def losing(clean, lost) -> np.ndarray:
    """The accuracies by phase that are left of `clean` when `lost` percent of them go."""
    return np.asarray(clean) * (1 - np.asarray(lost) / 100)


def concentration(clean, knocked, period: int, settings: Statistics) -> phase_losses.Concentration | None:
    """Where the losses of one head concentrate, asked as the claims ask: for a stack of heads, here of one."""
    (found,) = phase_losses.concentrations(clean, knocked[None], period, settings)
    return found


def dispersion(clean, knocked, period: int, settings: Statistics) -> phase_losses.Dispersion:
    """How unevenly the losses of one head lie over the phases."""
    (found,) = phase_losses.dispersions(clean, knocked[None], period, settings)
    return found


def test_a_change_is_relative_to_the_clean_accuracy_of_the_phase():
    clean, knocked = np.array([40.0, 20, 60, 20, 0, 0]), np.array([20.0, 30, 30, 30, 5, 0])
    np.testing.assert_allclose(
        phase_losses.change(clean, knocked, 2), [-45, 50]
    )  # 100 to 55, 40 to 60, over three each
    np.testing.assert_allclose(phase_losses.change(clean, knocked, 6), [-50, 50, -50, 50, np.nan, np.nan])
    np.testing.assert_allclose(phase_losses.change(clean, np.stack([clean, knocked]), 2), [[0, 0], [-45, 50]])
    with pytest.raises(UserError, match="period of 4 does not divide the 6 positions: use a divisor"):
        phase_losses.change(clean, knocked, 4)


@pytest.mark.parametrize(("layer", "phases"), [("9", (5, 6)), ("10", (3, 4)), ("14", (1, 2)), ("11", (0,))])
def test_the_papers_specialised_layers_are_found_at_their_phases(layer, phases):
    # Layer 11 loses 79 % at the boundary phase as well, where too little is retrieved to be judged.
    clean = paper_numbers.profile("w8s8-1kv", "prefix")
    lost = -np.array(paper_numbers.by_model("knockout_percent_by_phase")["w8s8-1kv"][layer], dtype=float)
    knocked = np.minimum(losing(clean, np.tile(lost, 3)), 100)
    found = concentration(exact(clean), exact(knocked), 8, SETTINGS)
    inside = np.isin(np.arange(8), phases)
    kept = statistics.fold(clean, 8) >= 10
    assert found.phases == phases and found.concentrated
    assert found.inside == pytest.approx(lost[inside & kept].mean(), abs=1)
    assert found.outside == pytest.approx(lost[~inside & kept].mean(), abs=1)
    assert found.low < found.inside - found.outside < found.high


def test_the_papers_layer_0_matters_everywhere_and_so_is_not_concentrated():
    clean = paper_numbers.profile("w8s8-1kv", "prefix")
    found = concentration(answers(clean, mappings=576), answers(0.02 * clean, mappings=576), 8, SETTINGS)
    assert found.inside > 90 and found.outside > 90 and not found.concentrated


@pytest.mark.parametrize("period", [6, 8, 12])
@pytest.mark.parametrize("first", [0, 2, -1])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_planted_head_is_found_also_across_the_end_of_the_window(period, first, length):
    phases = tuple((first + i) % period for i in range(length))
    clean = np.linspace(80, 30, period)
    lost = np.where(np.isin(np.arange(period), phases), 75, 5)
    found = concentration(exact(clean), exact(losing(clean, lost)), period, SETTINGS)
    assert found.phases == phases and found.concentrated
    assert (found.inside, found.outside) == pytest.approx((75, 5), abs=0.5)


@pytest.mark.parametrize(
    ("lost", "why"),
    [
        ([100.0] * 8, "everything is lost"),
        ([25, 25, 0, 0, 0, 0, 0, 0], "less than 30 % is lost"),
        ([80, 80, 21, 21, 21, 21, 21, 21], "more than a quarter is lost elsewhere"),
        ([80, 80, 80, 80, 80, 0, 0, 0], "five phases are more than a few"),
    ],
)
def test_a_head_that_matters_too_widely_or_too_little_is_not_concentrated(lost, why):
    found = concentration(exact(EVEN), exact(losing(EVEN, lost)), 8, SETTINGS)
    assert found is not None and not found.concentrated, why


def test_a_loss_within_the_noise_is_not_concentrated():
    clean = np.tile([[1, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1]], (2, 1)).astype(bool)  # four mappings
    knocked = clean.copy()
    knocked[0, 0] = False
    found = concentration(clean, knocked, 6, SETTINGS)
    assert found.phases == (0,) and found.inside == 50 and found.outside == 0
    assert found.low == 0 and not found.concentrated


def test_heads_that_lose_alike_are_not_taken_for_concentrated_by_chance():
    clean = answers([30.0] * 8, mappings=576, seed=1)
    kept = np.random.default_rng(2).random((100, *clean.shape)) < 0.6
    found = phase_losses.concentrations(clean, clean & kept, 8, SETTINGS)
    assert not any(head.concentrated for head in found)


def test_phases_that_are_hardly_retrieved_are_ignored():
    clean = [80.0, 40, 60, 9.9, 70, 30, 60, 20]
    lost = [0, 0, 90, 100, 0, 0, 0, 0]
    found = concentration(exact(clean), exact(losing(clean, lost)), 8, SETTINGS)
    assert found.phases == (2,) and found.outside == pytest.approx(0, abs=0.1)
    assert dispersion(exact(clean), exact(losing(clean, lost)), 8, SETTINGS).mean == pytest.approx(90 / 7)
    assert phase_losses.retrievable(np.array(clean), 8).tolist() == [True] * 3 + [False] + [True] * 4


@pytest.mark.parametrize(
    ("clean", "period"), [([80.0, 60, 40, 20], 4), ([80.0, 70, 60, 50, 5, 5, 5, 5], 8), ([80.0, 60], 2), ([5.0] * 8, 8)]
)
def test_without_two_phases_to_compare_with_there_is_no_judgement(clean, period):
    lost = [90.0] + [0.0] * (period - 1)
    assert concentration(exact(clean), exact(losing(clean, lost)), period, SETTINGS) is None


def test_a_head_without_a_loss_concentrates_nowhere():
    clean = exact(EVEN)
    assert concentration(clean, clean, 8, SETTINGS) is None
    assert concentration(clean, exact(np.array(EVEN) + 10), 8, SETTINGS) is None


@settings(max_examples=60, deadline=None)
@given(
    lost=st.lists(st.integers(-20, 100), min_size=6, max_size=12).filter(lambda lost: len(lost) in (6, 8, 12)),
    weak=st.sets(st.integers(0, 11), max_size=2),
)
def test_the_phases_are_those_whose_step_explains_most(lost, weak):
    period = len(lost)
    kept = [phase for phase in range(period) if phase not in weak]
    clean = np.where(np.isin(np.arange(period), kept), 50.0, 5.0)
    found = concentration(exact(clean), exact(losing(clean, lost)), period, SETTINGS)
    measured = -phase_losses.change(clean, statistics.profile(exact(losing(clean, lost), period)), period)
    best, chosen = -np.inf, None
    runs = [[(first + i) % period for i in range(length)] for length in (1, 2, 3) for first in range(period)]
    enough = min(len(set(kept) - set(run)) for run in runs) >= 2
    for run in [run for run in runs if set(run) <= set(kept)]:
        inside = measured[run]
        outside = measured[[phase for phase in kept if phase not in run]]
        step = inside.mean() - outside.mean() if len(outside) else -np.inf
        explained = len(inside) * len(outside) / len(kept) * step * abs(step)  # signed: a step down is none
        if explained > best + 1e-6:
            best, chosen = explained, (inside.mean(), outside.mean())
    if not enough or measured[kept].max() <= 0:
        assert found is None
    else:
        inside, outside = found.inside, found.outside
        length = len(found.phases)
        explained = length * (len(kept) - length) / len(kept) * (inside - outside) * abs(inside - outside)
        assert explained == pytest.approx(best) and set(found.phases) <= set(kept), chosen


def test_intervals_are_a_bootstrap_of_pairs():
    clean = answers(EVEN, mappings=40, seed=3)
    knocked = clean & (np.random.default_rng(4).random(clean.shape) < np.tile([0.1, 0.2, 1, 1, 1, 1, 1, 1], 3))
    concentrated, dispersed = concentration(clean, knocked, 8, SETTINGS), dispersion(clean, knocked, 8, SETTINGS)
    assert concentrated.phases == (0, 1)
    steps, spreads = [], []
    for drawn in np.random.default_rng(SETTINGS.seed).integers(40, size=(SETTINGS.bootstrap, 40)):
        before, after = (of[drawn].reshape(40, 3, 8).mean(axis=(0, 1)) for of in (clean, knocked))
        lost = 100 * (before - after) / before
        steps.append(lost[:2].mean() - lost[2:].mean())
        spreads.append(lost.max() - lost.min())
    np.testing.assert_allclose([concentrated.low, concentrated.high], np.quantile(steps, [0.025, 0.975]))
    np.testing.assert_allclose([dispersed.low, dispersed.high], np.quantile(spreads, [0.025, 0.975]))


def test_heads_together_give_what_each_gives_alone(monkeypatch):
    monkeypatch.setattr(phase_losses, "AT_A_TIME", 3 * SETTINGS.bootstrap * 8)  # three heads at a time
    clean = answers(EVEN, seed=5)
    knocked = np.stack([answers(np.roll(EVEN, shift), seed=shift) for shift in range(8)])
    for together in (phase_losses.concentrations, phase_losses.dispersions):
        many = together(clean, knocked, 8, SETTINGS)
        single = [alone for head in knocked for alone in together(clean, head[None], 8, SETTINGS)]
        assert len(many) == 8
        for one, other in zip(many, single, strict=True):
            one, other = vars(one), vars(other)
            assert one.pop("phases", None) == other.pop("phases", None)
            assert one == pytest.approx(other, abs=1e-9)
        assert together(clean, knocked[:0], 8, SETTINGS) == []


def test_equal_relative_losses_have_no_spread():
    clean = exact([80.0, 40, 60, 20])
    found = dispersion(clean, exact([40.0, 20, 30, 10]), 4, SETTINGS)
    assert found.mean == pytest.approx(50) and found.spread == pytest.approx(0, abs=1e-9)
    everywhere = np.repeat(answers([60.0], modulus=1, mappings=100), 24, axis=1)  # a mapping at all phases or none
    found = dispersion(everywhere, everywhere & (np.arange(100) % 2 == 0)[:, None], 8, SETTINGS)
    assert [found.spread, found.low, found.high] == pytest.approx([0, 0, 0], abs=1e-9)


def test_a_spread_is_the_largest_loss_minus_the_smallest():
    found = dispersion(exact([50.0, 50, 80]), exact([25.0, 55, 80]), 3, SETTINGS)
    assert (found.mean, found.spread) == pytest.approx((40 / 3, 60))
    assert found.low < 60 < found.high
    assert np.isnan(list(vars(dispersion(exact([5.0]), exact([0.0]), 1, SETTINGS)).values())).all()


def test_outcomes_of_other_prompts_are_refused():
    for measure in (concentration, dispersion):
        with pytest.raises(UserError, match=r"\[10, 24\] and the clean ones \[20, 24\].*not of the same prompts"):
            measure(exact(EVEN, mappings=20), exact(EVEN, mappings=10), 8, SETTINGS)
