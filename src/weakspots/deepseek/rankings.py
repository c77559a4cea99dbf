"""Which of the two continuations is on top, and whether that follows the period."""

from __future__ import annotations

import numpy as np
import pandas as pd

PERIOD = 4
FIRST_PHASES = (2, 3)
"""Published for DeepSeek-V4-Flash-Base: `8` is on top when the docstring's length modulo 4 is one of these."""


def first_on_top(table: pd.DataFrame) -> np.ndarray:
    """Per row of a "code_completion" table `[N]`: whether `8` is likelier than `32`.

    A log-probability that the server did not report is below those that it did.
    """
    first, second = (table[name].fillna(-np.inf).to_numpy() for name in ("first_logprob", "second_logprob"))
    return first > second


def follows(table: pd.DataFrame, period: int = PERIOD, first_phases: tuple[int, ...] = FIRST_PHASES) -> np.ndarray:
    """Per row `[N]`: whether the ranking is the one that the length's phase says."""
    return first_on_top(table) == np.isin(table["length"].to_numpy() % period, first_phases)


def best_following(table: pd.DataFrame, period: int = PERIOD) -> tuple[np.ndarray, tuple[int, ...]]:
    """Per row `[N]` whether its ranking follows `period`, and the phases at which `8` is then on top.

    These are half of the phases, adjacent (cyclic), the ones that most rankings follow: which they are depends on the
    code after the docstring, whose length shifts them all. An answer that never changes follows on half of its rows.
    """
    half = max(1, period // 2)
    shifts = [tuple(sorted((first + more) % period for more in range(half))) for first in range(period)]
    found = [follows(table, period, phases) for phases in shifts]
    best = int(np.argmax([rows.sum() for rows in found]))
    return found[best], shifts[best]
