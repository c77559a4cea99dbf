"""What knockouts cost, by phase: which heads matter at a few phases, and which at all alike (Figure 3).

    lost(r) = 100 * (clean accuracy at phase r - accuracy with the head knocked out) / clean accuracy at phase r

Only *retrievable* phases are judged, those at which the whole model answers at least `RETRIEVABLE` percent: elsewhere
there is little to lose, and a ratio of two small numbers is mostly noise. Intervals resample mappings, the clean and
the knocked-out answers alike, so that what makes a mapping hard for both is no noise of their ratio.

Shapes: n mappings, M positions (the modulus), P phases (the period), H heads, R bootstrap replicates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from weakspots import statistics
from weakspots.config import Statistics
from weakspots.errors import UserError
from weakspots.model_table import ModelRow

RETRIEVABLE = 10.0
"""Percent of prompts that the whole model answers at a phase, at least, for the phase to be judged."""

ADJACENT = 3
"""At how many adjacent phases a head may matter to be called concentrated, at most; the paper's are 2 or 3."""

CONCENTRATED = 30.0
"""Percent that a concentrated head loses at its phases, at least."""

FULL_ATTENTION_PERIOD = 8
"""What positions of full attention, which has no stride of its own, are folded to (as in the paper)."""

CONTRAST = 4.0
"""How many times as much a concentrated head loses at its phases as at the others, at least."""

AT_A_TIME = 2**20
"""Replicated accuracies in memory at a time: 8 MiB an array."""


@dataclass(frozen=True)
class Concentration:
    """Where a head's losses concentrate.

    `phases` are adjacent (cyclic, one to `ADJACENT` of them, in order); `inside` and `outside` the mean percent lost
    there and at the other retrievable phases (negative: gained), `elsewhere` the most that is lost at one of these;
    `low` and `high` the interval of inside - outside.
    """

    phases: tuple[int, ...]
    inside: float
    outside: float
    elsewhere: float
    low: float
    high: float

    @property
    def concentrated(self) -> bool:
        """Whether the head matters at these phases, and hardly at the others."""
        much, hardly = self.inside >= CONCENTRATED, self.outside <= self.inside / CONTRAST
        # a mean over the others would hide one at which as much is lost
        return much and hardly and self.elsewhere <= self.inside / 2 and self.low > 0


@dataclass(frozen=True)
class Dispersion:
    """How much is lost over the retrievable phases (`mean`, percent), and how unevenly: `spread` is the largest minus
    the smallest loss, in points, with its interval from `low` to `high`. All are nan where no phase is retrievable.

    A spread is never below zero and noise widens it, so compare it with the spread of a head that loses alike.
    """

    mean: float
    spread: float
    low: float
    high: float


def period_of(row: ModelRow, modulus: int) -> int:
    """What positions are folded to: the stride, or `FULL_ATTENTION_PERIOD` (the modulus itself where it has none)."""
    return row.period or (FULL_ATTENTION_PERIOD if modulus % FULL_ATTENTION_PERIOD == 0 else modulus)


def change(clean: np.ndarray, knocked: np.ndarray, period: int) -> np.ndarray:
    """[..., P] change of accuracy in percent of the clean accuracy, by phase; nan where that is 0.

    `clean` and `knocked` are profiles [..., M] in percent, which broadcast; they are folded first. With M for the
    period the change is by position. Raises UserError if the period does not divide M.
    """
    before, after = _fold(clean, period), _fold(knocked, period)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(before > 0, 100 * (after - before) / before, np.nan)


def retrievable(clean: np.ndarray, period: int) -> np.ndarray:
    """[..., P] whether a phase is judged: the clean profile [..., M] (percent) reaches `RETRIEVABLE` there."""
    return _fold(clean, period) >= RETRIEVABLE - 1e-9  # rounding of the folded mean


def concentrations(
    clean: np.ndarray, knocked: np.ndarray, period: int, settings: Statistics
) -> list[Concentration | None]:
    """Where the losses of every head concentrate; `clean` is [n, M] and `knocked` [H, n, M], on the same prompts.

    The phases are the run of one to `ADJACENT` adjacent retrievable phases whose step explains most of the variance of
    the losses by phase: the run with the largest sqrt(k (N - k) / N) * (inside - outside), for k of N phases. The
    interval takes them as given, although they are chosen on the same prompts.

    None where nothing is lost, or where some choice of `ADJACENT` phases would leave fewer than two others to compare
    with, as with a stride of 4. Raises UserError if the period does not divide M or the prompts differ.
    """
    kept = retrievable(statistics.profile(clean), period)
    starts = np.eye(period, dtype=bool)
    runs = [starts]
    for more in range(1, ADJACENT):
        runs.append(runs[-1] | np.roll(starts, more, axis=1))
    if not len(knocked) or kept.sum() - (runs[-1] & kept).sum(axis=1).max() < 2:
        return [None] * len(knocked)
    inside = np.concatenate(runs)
    lengths, firsts = np.repeat(np.arange(1, ADJACENT + 1), period), np.tile(np.arange(period), ADJACENT)
    whole = (inside <= kept).all(axis=1)
    inside, lengths, firsts = inside[whole], lengths[whole], firsts[whole]
    within, without = inside / lengths[:, None], (kept & ~inside) / (kept.sum() - lengths)[:, None]

    scale = np.sqrt(lengths * (kept.sum() - lengths))
    found: list[Concentration | None] = []
    for lost, drawn in _lost(clean, knocked, period, settings):
        lost, drawn = np.where(kept, lost, 0), np.where(kept, drawn, 0)
        best = (scale * (lost @ (within - without).T)).argmax(axis=1)
        low, high = statistics.interval(np.einsum("rhp,hp->rh", drawn, (within - without)[best]), settings.confidence)
        for head, run in enumerate(best):
            if lost[head].max() <= 0:
                found.append(None)
                continue
            phases = tuple((int(firsts[run]) + more) % period for more in range(lengths[run]))
            elsewhere = lost[head][without[run] > 0].max()
            measures = (lost[head] @ within[run], lost[head] @ without[run], elsewhere, low[head], high[head])
            found.append(Concentration(phases, *map(float, measures)))
    return found


def dispersions(clean: np.ndarray, knocked: np.ndarray, period: int, settings: Statistics) -> list[Dispersion]:
    """How unevenly every head's losses lie over the phases; `clean` is [n, M] and `knocked` [H, n, M].

    Raises UserError if the period does not divide M or the prompts differ.
    """
    kept = retrievable(statistics.profile(clean), period)
    if not kept.any() or not len(knocked):
        return [Dispersion(np.nan, np.nan, np.nan, np.nan)] * len(knocked)
    found = []
    for lost, drawn in _lost(clean, knocked, period, settings):
        lost, drawn = lost[:, kept], drawn[..., kept]
        measures = (
            lost.mean(axis=1),
            np.ptp(lost, axis=1),
            *statistics.interval(np.ptp(drawn, axis=2), settings.confidence),
        )
        found += [Dispersion(*map(float, values)) for values in zip(*measures, strict=True)]
    return found


def _lost(
    clean: np.ndarray, knocked: np.ndarray, period: int, settings: Statistics
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Percent lost [H, P], and the same in every replicate [R, H, P], for as many heads at a time as memory allows."""
    if knocked.shape[1:] != clean.shape:
        raise UserError(
            f"outcomes of a knockout are {list(knocked.shape[1:])} and the clean ones {list(clean.shape)} (mappings, "
            "positions), so they are not of the same prompts: run the lookup again"
        )
    size = max(1, AT_A_TIME // (settings.bootstrap * period))
    for start in range(0, len(knocked), size):
        # Folding is linear, so outcomes can be folded before they are resampled. The heads go side by side, like so
        # many more positions: that resamples all of them and the clean model alike, in one product.
        both = _fold(np.concatenate([clean[None], knocked[start : start + size]]), period)  # [1 + H, n, P]
        both = both.transpose(1, 0, 2).reshape(len(clean), -1)
        measured = statistics.profile(both).reshape(-1, period)
        drawn = statistics.bootstrap(both, settings.bootstrap, settings.seed).reshape(settings.bootstrap, -1, period)
        yield -change(measured[:1], measured[1:], period), -change(drawn[:, :1], drawn[:, 1:], period)


def _fold(values: np.ndarray, period: int) -> np.ndarray:
    """`statistics.fold`, for a period that somebody has chosen."""
    modulus = values.shape[-1]
    if period < 1 or modulus % period:
        raise UserError(f"a period of {period} does not divide the {modulus} positions: use a divisor of {modulus}")
    return statistics.fold(values, period)
