"""Whether correctness depends on a phase, with which period, and how large the gap is.

Everything is computed from differences within mappings: e = correct - the mapping's mean. That takes out how hard a
mapping is, which would otherwise be most of the noise. Mappings are independent of each other; the prompts of one are
not, so null distributions move whole mappings, and standard errors add up whole mappings (cluster-robust).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import special, stats

from weakspots.audit.design import phase, phases

MOST_SHIFTS = 100_000
"""Most null profiles that are drawn for one p-value, which is so never below 1e-5."""

_CHUNK = 2_000_000
"""Numbers that are shifted at once."""


@dataclass(frozen=True)
class Sample:
    """n prompts of several mappings: `mapping` [n], `position` [n] token index or length, `value` [n] what was seen.

    A value is 0 or 1 (correct), or a difference of two such.
    """

    mapping: np.ndarray
    position: np.ndarray
    value: np.ndarray

    @cached_property
    def row(self) -> np.ndarray:
        """[n] number of every prompt's mapping, from 0 on without holes."""
        return np.unique(self.mapping, return_inverse=True)[1]

    @cached_property
    def sizes(self) -> np.ndarray:
        """[mappings] prompts per mapping."""
        return np.bincount(self.row)

    def means(self, value: np.ndarray) -> np.ndarray:
        """[mappings] mean of `value` [n] in every mapping."""
        return np.bincount(self.row, value) / self.sizes

    @cached_property
    def residual(self) -> np.ndarray:
        """[n] value minus the mean of its mapping."""
        return self.value - self.means(self.value)[self.row]

    def without_trend(self) -> Sample:
        """The sample without what a quadratic in the position explains of its values, fitted within mappings.

        For prompt lengths: a model that is worse on longer prompts has no phase for that. Positions of targets do not
        need it, since the design gives them equal means and variances at all phases.
        """
        x = self.position - self.position.mean()
        powers = np.stack([x, np.square(x)], axis=1) / max(float(np.abs(x).max()), 1.0) ** np.array([1, 2])
        centred = np.stack([power - self.means(power)[self.row] for power in powers.T], axis=1)
        trend = powers @ np.linalg.lstsq(centred, self.residual, rcond=None)[0]
        return replace(self, value=self.value - trend)

    @property
    def total(self) -> float:
        """Sum of squares within mappings."""
        return float(np.square(self.residual).sum())

    @property
    def freedom(self) -> int:
        """Prompts less mappings."""
        return len(self.value) - len(self.sizes)


def log_survival(x: np.ndarray, freedom: int) -> np.ndarray:
    """Natural logarithm of the probability that a chi-square with `freedom` degrees exceeds x; also where that is 0."""
    a, half = freedom / 2, np.maximum(np.asarray(x, float) / 2, 0)
    tail = special.gammaincc(a, half)
    far = np.maximum(half, 1.0)  # the first terms of the asymptotic series, DLMF 8.11.2
    series = (a - 1) * np.log(far) - far - special.gammaln(a) + np.log1p(np.maximum((a - 1) / far, -0.5))
    with np.errstate(divide="ignore"):
        return np.where(tail > 1e-280, np.log(tail), series)


def _log_p(sample: Sample, position: np.ndarray, periods: Sequence[int]) -> np.ndarray:
    """[B, periods] log p-values of `position` [B, n]: the chi-square test of no difference between the phases.

    x_P = sum over phases of (sum of residuals)^2 / prompts, over the variance within mappings, on phases - 1 degrees.
    """
    rows, variance = len(position), max(sample.total / max(sample.freedom, 1), 1e-12)
    weights, columns = np.tile(sample.residual, rows), []
    for period in periods:
        count = phases(period)
        bins = (phase(position, period) + count * np.arange(rows)[:, None]).ravel()
        sums = np.bincount(bins, weights, rows * count).reshape(rows, count)
        prompts = np.bincount(bins, minlength=rows * count).reshape(rows, count)
        between = (np.square(sums) / np.maximum(prompts, 1)).sum(axis=1)
        columns.append(log_survival(between / variance, count - 1))
    return np.stack(columns, axis=1)


@dataclass(frozen=True)
class PeriodScan:
    """`p_value` of the null that no scanned period matters, and the `period` that stands out most (not a claim)."""

    p_value: float
    period: int
    share: float  # of the variance within mappings that the period's phase explains, without bias (omega squared)


def scan_periods(sample: Sample, periods: Sequence[int], *, level: float, seed: int = 0) -> PeriodScan:
    """The smallest p-value over the periods, against its own distribution when phases are relabelled.

    The null turns the phase labels of every mapping by a random amount of its own: a permutation within the mapping
    that keeps how hard it is and how alike its neighbouring positions are. The smallest log p-value over all periods is
    compared with the smallest of each null draw, which corrects for the number of periods exactly (Westfall and Young).
    Draws end early once p can no longer be at most `level`; the decision is the same as with all of them.
    """
    observed = _log_p(sample, sample.position[None], periods)[0]
    best = int(observed.argmin())
    draws = int(np.clip(np.ceil(4 / level), 999, MOST_SHIFTS))
    position = sample.position.astype(np.int32)
    enough, rng, exceeded, drawn = level * (draws + 1), np.random.default_rng(seed), 0, 0
    while drawn < draws and 1 + exceeded <= enough:
        rows = int(min(draws - drawn, max(1, _CHUNK // len(sample.value)), 50 if drawn < 50 else 500))
        turns = rng.integers(2**30, size=(rows, len(sample.sizes)), dtype=np.int32)
        found = _log_p(sample, position + turns[:, sample.row], periods).min(axis=1)
        exceeded += int((found <= observed[best] + 1e-9).sum())
        drawn += rows
    return PeriodScan((1 + exceeded) / (1 + drawn), int(periods[best]), explained(sample, periods[best]))


def explained(sample: Sample, period: int) -> float:
    """Omega squared: the share of the variance between prompts of one mapping that the phase explains."""
    profile = Profile.of(sample, period)
    noise = sample.total / max(sample.freedom, 1)
    between = float((profile.prompts * np.square(profile.raw)).sum())
    return float(np.clip((between - (len(profile.raw) - 1) * noise) / max(sample.total + noise, 1e-12), 0, 1))


@dataclass(frozen=True)
class Profile:
    """Values by phase: `effect` [b] from the mean, its `covariance` [b, b] between mappings, `prompts` [b] per phase.

    `raw` is the mean residual. Taking out the mapping's mean takes out a part of the effect too, which `effect` has
    again. Every phase has one imagined prompt more with a residual of 1, so that no standard error is zero.
    """

    effect: np.ndarray
    covariance: np.ndarray
    prompts: np.ndarray
    raw: np.ndarray
    mappings: int

    @classmethod
    def of(cls, sample: Sample, period: int) -> Profile:
        """The profile of one period."""
        count, labels, rows = phases(period), phase(sample.position, period), len(sample.sizes)
        prompts = np.bincount(labels, minlength=count)
        raw = np.bincount(labels, sample.residual, count) / np.maximum(prompts, 1)
        cells = np.bincount(sample.row * count + labels, minlength=rows * count).reshape(rows, count)
        # E[mean residual] = shrink @ effect, since the residual of a prompt lacks the mean effect of its mapping
        shrink = np.diag(prompts) - cells.T @ (cells / sample.sizes[:, None])
        invert = np.linalg.pinv(shrink / np.maximum(prompts, 1)[:, None], rcond=1e-6)
        effect = invert @ raw
        fitted = effect[labels] - (cells @ effect / sample.sizes)[sample.row]
        sums = np.bincount(sample.row * count + labels, sample.residual - fitted, rows * count).reshape(rows, count)
        left = sums / np.maximum(prompts, 1)
        covariance = invert @ (left.T @ left) @ invert.T * rows / max(rows - 1, 1)
        return cls(effect, covariance + np.diag(1 / np.maximum(prompts, 1) ** 2.0), prompts, raw, rows)

    def least_gap(self, level: float, comparisons: int) -> float:
        """A lower confidence bound of best minus worst phase, at least 0: wrong with probability `level` at most.

        The largest over all ordered pairs of phases of difference - t * standard error, where t is Student's quantile
        at level / comparisons. With all comparisons covered at once the chosen pair is too, so picking the extremes of
        a noisy profile adds no bias.
        """
        quantile = stats.t.isf(level / comparisons, max(self.mappings - 1, 1))
        variance = np.diag(self.covariance)
        errors = np.sqrt(np.maximum(variance[:, None] + variance - 2 * self.covariance, 1e-12))
        return float(max(0.0, (self.effect[:, None] - self.effect - quantile * errors).max()))

    def most_gap(self, level: float) -> float:
        """An upper confidence bound of best minus worst phase.

        A gap g makes the sum of squares between phases a noncentral chi-square with noncentrality of at least
        g^2 / 2 over the variance of a phase's mean: one phase high, one low, the others between. The bound is the
        largest g that would leave as little as was seen with probability `level`; and it is never below what m mappings
        without a single failure leave open for one phase, -ln(level) / m (the rule of three).
        """
        count = len(self.effect)
        centred = np.eye(count) - 1 / count
        error = float(np.trace(centred @ self.covariance @ centred)) / max(count - 1, 1)
        seen = float(np.square(centred @ self.effect).sum()) / error
        low, high = 0.0, 4.0 * (seen + 20 * count)
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if stats.ncx2.cdf(seen, count - 1, middle) > level else (low, middle)
        unseen = -np.log(level) / max(1, min(self.mappings, int(self.prompts.min())))
        return float(max(np.sqrt(2 * error * high), unseen))


def comparisons(periods: Sequence[int]) -> int:
    """Ordered pairs of phases over all periods."""
    return sum(phases(period) * (phases(period) - 1) for period in periods)
