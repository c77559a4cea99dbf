"""Models that are imagined: right or wrong with planted probabilities, without any prompt being read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weakspots.audit.design import Design
from weakspots.audit.follow import Ask
from weakspots.audit.prompts import Batch

Chance = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""From needle positions and lengths [n] to what is added to the chance of a right answer [n]."""

LONGEST = 200
AHEAD = 37  # tokens before the target that are no filler of the design


def nothing(needle: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Position does not matter."""
    return np.zeros(len(needle))


def weak_phase(gap: float, period: int, phase: int, tail: bool = False) -> Chance:
    """One phase of a period is `gap` (0 to 1) worse."""
    return lambda needle, length: -gap * ((length if tail else needle) % period == phase)


def imagined(
    design: Design, effect: Chance, *, seed: int, accuracy: float = 0.6, constant: float = 0.5, models: int = 1
) -> Ask:
    """What `follow` wants to ask. A share `constant` of the mappings is always right or always wrong, half and half.

    The effect, which is of all mappings on average, is in the others. Two models get independent answers.
    """

    def ask(first: int, count: int) -> tuple[Batch, list[np.ndarray]]:
        before, cut = design.draw(seed, first, count)
        needle, length = (AHEAD + before).ravel(), (LONGEST - cut).ravel()
        rng = np.random.default_rng([seed, 99, first])
        fixed, right = (np.repeat(rng.random(count) < share, design.size) for share in (constant, 0.5))
        chance = np.where(fixed, right, accuracy + effect(needle, length) / max(1 - constant, 1e-9))
        mapping = np.repeat(np.arange(first, first + count), design.size)
        batch = Batch(mapping, needle, length, np.zeros(len(mapping), int), [], [])
        return batch, [rng.random(len(chance)) < chance for _ in range(models)]

    return ask
