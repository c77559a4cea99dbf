"""Designs: where targets stand, so that groups of prompts differ in the target's residue and in nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from weakspots.errors import UserError


@dataclass(frozen=True)
class Quotas:
    """How often filler of length r + modulus * k stands before the target.

    `counts` [modulus, 3] by r and k; every row sums to the number of mappings, and every row's filler length has
    exactly this `mean` and `variance` (in tokens and tokens squared).
    """

    counts: np.ndarray
    mean: Fraction
    variance: Fraction


def matched_quotas(modulus: int, count: int) -> Quotas:
    """Integer quotas over k = 0, 1, 2 that give the lengths r + modulus * k the same two moments for every r.

    Three weights per r are fixed by their sum, mean and variance: with d = mean - r,
    p2 = (variance + d^2 - modulus d) / (2 modulus^2), p1 = (2 modulus d - variance - d^2) / modulus^2, p0 = the rest.
    The mean is the middle of all lengths, (3 modulus - 1) / 2. The weights are then non-negative for variances from
    about modulus^2 / 4 to 3 modulus^2 / 4, and count * p is whole for every r and every count that is a multiple of
    modulus^2 if the variance is even (odd modulus) or modulus/2 - 1/4 more than an even number (even modulus); of
    these, the one nearest to modulus^2 / 2 is taken.
    Raises UserError if `count` is no multiple of modulus squared.
    """
    if count <= 0 or count % modulus**2:
        raise UserError(
            f"{count} mappings are no multiple of modulus² = {modulus**2}, so the moments of the target position could "
            f"not be equal: use {max(1, round(count / modulus**2)) * modulus**2}"
        )
    mean = Fraction(3 * modulus - 1, 2)
    remainder = Fraction(0) if modulus % 2 else Fraction(modulus, 2) - Fraction(1, 4)
    variance = remainder + 2 * round((Fraction(modulus**2, 2) - remainder) / 2)
    counts = np.zeros((modulus, 3), dtype=np.int64)
    for r in range(modulus):
        d = mean - r
        second = count * (variance + d**2 - modulus * d) / (2 * modulus**2)
        first = count * (2 * modulus * d - variance - d**2) / modulus**2
        assert second.denominator == first.denominator == 1 and min(first, second, count - first - second) >= 0
        counts[r] = count - int(first) - int(second), int(first), int(second)
    return Quotas(counts, mean, variance)
