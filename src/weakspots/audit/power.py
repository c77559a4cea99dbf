"""How many prompts show a gap, and what they cost, before any is asked."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from scipy import stats

from weakspots.audit.design import Design, phases
from weakspots.audit.sequential import looks

POWER = 0.8
"""Probability with which a gap of the planned size is to be found."""

VARYING = 0.5
"""Share of mappings that are answered neither always rightly nor always wrongly, as seen with a small real model."""


@dataclass(frozen=True)
class Effort:
    """How much is asked: `mappings` of `size` prompts each, to find `gap` points with probability `power`."""

    mappings: int
    size: int
    gap: float
    power: float

    @property
    def prompts(self) -> int:
        """How many prompts the plan has."""
        return self.mappings * self.size


def variance_within(accuracy: float = 0.5, varying: float = VARYING) -> float:
    """Variance between the prompts of a mapping: a(1 - a) of those mappings that vary, none of the others."""
    return varying * accuracy * (1 - accuracy)


def power(mappings: int, design: Design, gap: float, level: float, variance: float) -> float:
    """The probability of finding one weak phase of `gap` points at the last look.

    With n prompts and b phases the sum of squares between phases over the variance is a noncentral chi-square with
    noncentrality n (g/100)^2 (1 - 1/b) / (b variance), and must exceed the quantile at the level that the last look
    has, shared by two kinds of phase and all periods scanned (Bonferroni: a little less than the power of the
    permutation test).
    """
    count = phases(max(design.asked))
    last = looks(max(mappings, 1), level)[-1].level / 2 / len(design.periods)
    effect = mappings * design.size * (gap / 100) ** 2 * (1 - 1 / count) / (count * variance)
    return float(stats.ncx2.sf(stats.chi2.isf(last, count - 1), count - 1, max(effect, 1e-9)))


def needed(design: Design, gap: float, level: float, variance: float | None = None) -> Effort:
    """The fewest mappings that find `gap` points with probability `POWER`."""
    variance = variance_within() if variance is None else variance
    low, high = 0, 8
    while power(high, design, gap, level, variance) < POWER:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power(middle, design, gap, level, variance) >= POWER else (middle, high)
    return Effort(high, design.size, gap, power(high, design, gap, level, variance))


def affordable(prompts: int, design: Design, gap: float, level: float) -> Effort:
    """What a number of prompts buys: how many mappings, and the power to see `gap`."""
    mappings = max(1, prompts // design.size)
    return Effort(mappings, design.size, gap, power(mappings, design, gap, level, variance_within()))


def tokens(effort: Effort, length: int, design: Design) -> int:
    """Tokens of all prompts and answers; prompts are on average nearly a modulus shorter than the longest."""
    return ceil(effort.prompts * (length - (design.modulus - 1) + 1))
