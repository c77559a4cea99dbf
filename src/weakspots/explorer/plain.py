"""Numbers as JSON can hold them, short."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

DIGITS = 4
"""Decimals kept of what is not a count: a hundredth of what the page shows."""


def number(value: float | None, digits: int = DIGITS) -> float | None:
    """The value rounded; None where there is none (nan, missing)."""
    if value is None or not math.isfinite(value):
        return None
    rounded = round(float(value), digits)
    return int(rounded) if rounded == int(rounded) else rounded  # shorter, and the same number in JSON


def numbers(values: Iterable[float], digits: int = DIGITS) -> list[float | None]:
    """Every value rounded, None where there is none."""
    return [number(value, digits) for value in values]


def counts(outcomes: np.ndarray) -> list[int]:
    """[modulus] correct answers by position of outcomes [mappings, modulus]: exact, and shorter than accuracies."""
    return [int(count) for count in outcomes.sum(axis=0)]
