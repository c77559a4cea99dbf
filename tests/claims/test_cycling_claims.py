"""Claims about cycling fail where planted cycles do something else."""

from __future__ import annotations

import numpy as np
import pytest
from mechanism_claims import (
    CYCLES,
    SHIFTS,
    status_of,
    verdict,
)
from planted import answers
from planted_mechanism import planted_mechanism

from weakspots.analysis.results import Results
from weakspots.model_table import model_row


def cycled(results: Results, accuracy) -> None:
    """Plant cycled answers: `accuracy` gives the percent by phase for the clean profile by phase and a shift."""
    for model in results.cycles:
        stride = results.models[model].stride
        clean = 100 * results.outcomes[model, "prefix"].mean(axis=0).reshape(-1, stride).mean(axis=0)
        results.cycles[model] = {shift: answers(accuracy(clean, shift), 24, 192, seed=shift + 9) for shift in SHIFTS}


def follow(clean: np.ndarray, shift: int) -> np.ndarray:
    return np.roll(clean, shift)


def stay(clean: np.ndarray, shift: int) -> np.ndarray:
    return clean


def level(clean: np.ndarray, shift: int) -> np.ndarray:
    return np.full_like(clean, clean.mean())


def against(clean: np.ndarray, shift: int) -> np.ndarray:
    return (2 * clean - np.roll(clean, shift)).clip(0, 100)


def better(clean: np.ndarray, shift: int) -> np.ndarray:
    return (1.1 * np.roll(clean, shift) + 3).clip(0, 100)


@pytest.mark.parametrize(
    ("accuracy", "statuses"),
    [
        (follow, {CYCLES[0]: "holds", CYCLES[1]: "fails"}),  # the boundary moves too
        (stay, {CYCLES[0]: "fails", CYCLES[1]: "holds"}),
        (level, {CYCLES[0]: "fails"}),
        (against, {CYCLES[0]: "fails", CYCLES[1]: "holds"}),
        (better, {CYCLES[0]: "holds", CYCLES[2]: "fails"}),
        (lambda clean, shift: clean / 2, {CYCLES[1]: "holds", CYCLES[2]: "holds"}),
    ],
)
def test_what_cycles_do_decides_about_each_claim(results, accuracy, statuses):
    cycled(results, accuracy)
    assert {name: verdict(name, results).status for name in statuses} == statuses


def test_cycles_are_compared_with_the_same_mappings(results):
    for name in CYCLES:
        whole = verdict(name, results)
        assert whole.n == 192 and {part.n for part in whole.parts} == {192}
        assert {part.padding for part in whole.parts} == {"prefix"}
    # identical answers: nothing changes, and nothing falls
    results.cycles = {model: dict.fromkeys(SHIFTS, results.outcomes[model, "prefix"][:192]) for model in results.cycles}
    assert "from +0.0 to +0.0" in verdict(CYCLES[2], results).value
    assert verdict(CYCLES[2], results).status == verdict(CYCLES[0], results).status == "fails"


def test_a_movement_against_the_prediction_counts_as_none(results):
    cycled(results, against)
    whole = verdict(CYCLES[0], results)
    assert "from 0.00 to" in whole.value and "against the prediction" in whole.parts[0].value


def test_a_boundary_like_its_neighbours_shows_nothing():
    even = {"w8s8-1kv": [60.0, 58, 60, 58, 60, 58, 60, 58]}
    whole = verdict(CYCLES[1], planted_mechanism({"w8s8-1kv": model_row()}, 2, changes=even))
    assert whole.status == "fails" and status_of(whole) == {"w8s8-1kv": "flat"}
    assert "no prediction lies 10 points from the uncycled" in whole.parts[0].value


def test_the_fall_has_an_interval_over_mappings(results):
    for part in verdict(CYCLES[2], results).parts:
        mean = float(part.value.split("mean ")[1].split(";")[0])
        assert part.low < mean < part.high < 0


def test_a_cycled_model_without_its_lookup_is_not_run(results):
    del results.outcomes["w8s8-1kv", "prefix"]
    for name in CYCLES:
        assert status_of(verdict(name, results)) == {"w8s8-1kv": "not run", "w12s12-1kv": "holds"}
