"""Where the targets of an audit stand, and how long its prompts are: the two phases, varied independently.

The *needle phase* is the target key's token index modulo a period, the *tail phase* the prompt's length modulo it. A
design scans several periods at once. Every mapping is asked several times, so that phases are compared within mappings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

import numpy as np
import pandas as pd

from weakspots.errors import UserError
from weakspots.task.matched_positions import matched_quotas

AUTO: tuple[int, ...] = (*range(2, 17), 32, 64, 128)
"""The periods that `--stride auto` scans, in tokens."""

LARGEST_EXACT = 24
"""Largest modulus whose every residue each mapping is asked at."""

SPREAD_PROMPTS = 16
"""Prompts per mapping where the modulus is larger."""

MOST_PHASES = 24
LONG_PHASES = 16
"""A period of more than `MOST_PHASES` tokens is cut into `LONG_PHASES` phases of several neighbouring tokens."""


def phases(period: int) -> int:
    """How many phases a period is cut into: one per token, or `LONG_PHASES` where it is long."""
    return period if period <= MOST_PHASES else LONG_PHASES


def phase(position: np.ndarray, period: int) -> np.ndarray:
    """The phase, 0 to phases(period) - 1, of every token index or length."""
    return position % period * phases(period) // period


@dataclass(frozen=True)
class Design:
    """Filler that moves the target and the end of the prompt, for one set of periods.

    `periods` are scanned, `asked` are those of them the user asked about. With `exact` every mapping is asked once at
    every residue of `modulus`, and the filler before the target has r + modulus k tokens, k = 0, 1, 2, in the quotas of
    `matched_positions.matched_quotas`: mean and variance are equal over residues, exactly after every modulus² mappings
    and nearly in between. Otherwise every mapping is asked at `SPREAD_PROMPTS` places drawn as the sum of three uniform
    numbers below `modulus`: a quadratic B-spline, whose zeroth to second moments are the same at every residue of the
    modulus and of its divisors (the Strang-Fix conditions), and nearly so for other periods.

    The lengths of a mapping are within `modulus` neighbouring ones, which begin at a random place of its own. So a
    straight trend over the length is no period of it, and a curved one can be told from a period and taken out
    (`evidence.Sample`): lengths take twice as many values as there are phases.
    """

    asked: tuple[int, ...]
    periods: tuple[int, ...]
    modulus: int
    exact: bool

    @property
    def size(self) -> int:
        """Prompts per mapping."""
        return self.modulus if self.exact else SPREAD_PROMPTS

    @property
    def reach(self) -> int:
        """Most tokens of filler that the design puts before the target."""
        return 3 * self.modulus - 1

    @property
    def span(self) -> int:
        """Tokens of filler that the design needs: for the target's places and for the lengths."""
        return self.reach + 2 * self.modulus - 2

    def draw(self, seed: int, first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Filler before the target and tokens cut off the end, both [count, size], of mappings `first` and following.

        Tokens cut off are b to b + modulus - 1, with b below modulus and an order of their own for every mapping.
        """
        rng = np.random.default_rng([seed, 7, first])
        least = rng.integers(self.modulus, size=(count, 1))
        if not self.exact:
            before = rng.integers(self.modulus, size=(count, self.size, 3)).sum(axis=2)
            return before, least + rng.integers(self.modulus, size=before.shape)
        turns = self._turns(first, count)  # [modulus, count]: which mapping gets which is left to chance
        before = np.arange(self.modulus) + self.modulus * rng.permuted(turns, axis=1).T
        return before, least + rng.permuted(np.tile(np.arange(self.modulus), (count, 1)), axis=1)

    def _turns(self, first: int, count: int) -> np.ndarray:
        """[modulus, count] k of mappings first .. first + count - 1: of every residue always the k that lags most."""
        weights = matched_quotas(self.modulus, self.modulus**2).counts / self.modulus**2  # [modulus, 3]
        given, turns = np.zeros_like(weights), []
        for number in range((first % self.modulus**2) + count):
            lagging = (weights * (number + 1) - given).argmax(axis=1)
            given[np.arange(self.modulus), lagging] += 1
            turns.append(lagging)
        return np.stack(turns[first % self.modulus**2 :], axis=1)


def design(strides: Sequence[int] | str, room: int | None = None) -> Design:
    """The design for strides, in tokens, or for "auto", in `room` tokens of filler (any amount if None).

    Scanned are the strides, their divisors and, where they are short, the double, so that a profile that repeats can be
    seen to. "auto" scans those of `AUTO` that fit. Raises UserError where a stride is no period or does not fit.
    """
    fit = len(AUTO) if room is None else sum(5 * period - 3 <= room for period in AUTO)
    asked = AUTO[: max(fit, 1)] if isinstance(strides, str) else tuple(sorted(set(strides)))
    if not asked or min(asked) < 2:
        raise UserError("a stride is a number of tokens from 2 on: a period of one token has no phases")
    if isinstance(strides, str):
        found = Design(asked, asked, asked[-1], False)
    else:
        whole = lcm(*asked)
        twice = 2 * whole if whole <= 8 and (room is None or 10 * whole - 3 <= room) else whole
        exact = twice <= LARGEST_EXACT
        scanned = [*range(2, twice + 1)] if exact else [p for p in range(2, max(asked) + 1)]
        divided = [twice] if exact else asked
        periods = tuple(p for p in scanned if any(stride % p == 0 for stride in divided))
        found = Design(asked, periods, twice if exact else max(asked), exact)
    if room is not None and found.span > room:
        raise UserError(
            f"stride {max(asked)} needs {found.span} tokens of filler and the context has room for {room}: raise the "
            f"length by {found.span - room}, or ask for fewer records or shorter strides"
        )
    return found


def moments(position: np.ndarray, period: int) -> pd.DataFrame:
    """What a design realised: mean and standard deviation of the target's token index by phase; index phase."""
    frame = pd.DataFrame({"phase": phase(position, period), "position": position})
    return frame.groupby("phase")["position"].agg(mean="mean", deviation=lambda found: found.std(ddof=0))
