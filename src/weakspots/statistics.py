"""Statistics of accuracy by position: intervals, folding and the test of its period.

`outcomes` is everywhere a boolean or 0/1 matrix [mappings, modulus]: whether the mapping was answered correctly with
its target at each position. Accuracies are in percent, and a gap (best minus worst position) in percentage points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy  # its parts are loaded when they are first used

from weakspots.errors import UserError

LEVEL = 0.01
"""Significance level of the tests: one in a hundred, since some fifty profiles are tested side by side."""


def outcomes(lookup: pd.DataFrame) -> np.ndarray:
    """[mappings, modulus] booleans of a lookup table: whether a mapping was answered with its target at a position.

    Raises UserError if a mapping lacks a position or has it twice.
    """
    modulus = int(lookup["position"].max()) + 1
    counts = np.bincount(lookup["mapping"])
    if lookup.duplicated(["mapping", "position"]).any() or not (counts == modulus).all():
        raise UserError("the lookup table does not hold every mapping once at every position: run the lookup again")
    ordered = lookup.sort_values(["mapping", "position"])
    return ordered["correct"].to_numpy(dtype=bool).reshape(-1, modulus)


def profile(outcomes: np.ndarray) -> np.ndarray:
    """[modulus] accuracy by position in percent."""
    return 100 * outcomes.mean(axis=0)


def fold(profile: np.ndarray, period: int) -> np.ndarray:
    """[..., period] mean over the positions that are congruent modulo `period`; `profile` is [..., modulus]."""
    return profile.reshape(*profile.shape[:-1], -1, period).mean(axis=-2)


def gap(profile: np.ndarray) -> np.ndarray:
    """[...] best minus worst position of `profile` [..., modulus]."""
    return np.ptp(profile, axis=-1)


def effective_number(shares: np.ndarray) -> np.ndarray:
    """[...] exp(H) of distributions `shares` [..., n], H in nats: from 1 (all in one) to n (uniform).

    `mechanism.gate_statistics` has the same for tensors.
    """
    return np.exp(scipy.special.entr(shares).sum(axis=-1))


def apart(profile: np.ndarray, period: int) -> float:
    """Mean of |A(r) - A(r + period)| over the positions r that have one a period later, in points."""
    return float(np.abs(profile[period:] - profile[:-period]).mean())


def wilson(
    correct: np.ndarray | float, n: np.ndarray | float, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's score interval of a proportion, in percent, for `correct` successes in `n` trials."""
    z = scipy.stats.norm.isf((1 - confidence) / 2)
    share = np.asarray(correct) / n
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return 100 * (centre - half).clip(0), 100 * (centre + half).clip(max=1)


def bootstrap(outcomes: np.ndarray, replicates: int, seed: int) -> np.ndarray:
    """[..., replicates, modulus] profiles of resampled mappings, drawn with replacement.

    A mapping is resampled with all its positions, so that what they share is kept. `outcomes` [..., mappings, modulus]
    of several runs on the same mappings are resampled alike, so that their replicates can be compared one by one.
    """
    count = outcomes.shape[-2]
    drawn = np.random.default_rng(seed).integers(count, size=(replicates, count))
    drawn += count * np.arange(replicates)[:, None]  # one range of bins per replicate
    times = np.bincount(drawn.ravel(), minlength=replicates * count).reshape(replicates, count)
    return 100 * (times.astype(np.float64) @ outcomes.astype(np.float64)) / count


def interval(replicates: np.ndarray, confidence: float) -> np.ndarray:
    """[2, ...] percentile interval over the first axis; replicates without a value (nan) are left out."""
    return np.nanquantile(replicates, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)


def by_position(
    outcomes: np.ndarray, *, compressed: bool, replicates: int, confidence: float = 0.95, seed: int = 0
) -> pd.DataFrame:
    """Accuracy by position with an interval, in percent: columns position, accuracy, low, high, n (prompts).

    As in the paper's Figure 2: Wilson's interval for full attention, a bootstrap over mappings for compressed models.
    """
    if compressed:
        low, high = interval(bootstrap(outcomes, replicates, seed), confidence)
    else:
        low, high = wilson(outcomes.sum(axis=0), len(outcomes), confidence)
    columns = {"position": np.arange(outcomes.shape[1]), "accuracy": profile(outcomes), "low": low, "high": high}
    return pd.DataFrame({**columns, "n": len(outcomes)})


def summary(outcomes: np.ndarray, *, replicates: int, confidence: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """Mean, worst position and gap in percent: index statistic, columns estimate, low, high (bootstrap over mappings).

    Percentile intervals, as the paper's. A worst position and a gap are extremes, which noise moves outwards, and each
    replicate adds noise of its own: where position hardly matters the interval of a gap lies above its estimate, and
    only `gap_p_value` says whether there is one.
    """
    measures = {"mean": lambda p: p.mean(axis=-1), "worst": lambda p: p.min(axis=-1), "gap": gap}
    drawn = bootstrap(outcomes, replicates, seed)
    rows = {
        name: (measure(profile(outcomes)), *interval(measure(drawn), confidence)) for name, measure in measures.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=["estimate", "low", "high"]).rename_axis("statistic")


@dataclass(frozen=True)
class Periodicity:
    """What repeats in a profile.

    `gap` exceeds the noise if `gap_p_value` is below `LEVEL`; a profile that does not is flat. `period` is the dominant
    period, or None if the profile is flat or repeats with no candidate; `p_value` is its p-value times the number of
    candidates, and `share` of the bootstrap replicates have it as their dominant period.
    """

    gap: float
    gap_p_value: float
    period: int | None
    p_value: float
    share: float

    @property
    def flat(self) -> bool:
        """Whether no gap is found at `LEVEL`."""
        return self.gap_p_value >= LEVEL


def candidate_periods(modulus: int) -> list[int]:
    """The periods that a profile of `modulus` positions can show at least twice: its divisors between 1 and itself."""
    return [period for period in range(2, modulus) if modulus % period == 0]


def log_p_values(profile: np.ndarray) -> np.ndarray:
    """[..., candidates] logarithm of the p-value of every candidate period of `profile` [..., modulus].

    One-way analysis of variance of the positions by phase modulo P:
    F_P = [SS_between / (P - 1)] / [SS_within / (modulus - P)].

    The true stride S has the smallest p-value. With R_P the share of the variance that phase mod P explains, log p is
    about (modulus - P) / 2 * log(1 - R_P). A multiple of S explains what S does, and beyond it only noise, but pays
    with fewer degrees of freedom within (modulus - P), so it loses. A divisor of S, or a period unrelated to it, leaves
    unexplained what differs between the phases it merges: its R_P stays below one while R_S approaches it as the noise
    shrinks, so it loses unless these phases really are alike, in which case it is the profile's period.
    """
    modulus = profile.shape[-1]
    total = np.square(profile - profile.mean(axis=-1, keepdims=True)).sum(axis=-1)
    columns = []
    for period in candidate_periods(modulus):
        folded = fold(profile, period)
        between = np.square(folded - folded.mean(axis=-1, keepdims=True)).sum(axis=-1) * (modulus // period)
        within = total - between
        within = np.where(within < 1e-12 * total, 0, within)  # rounding, where the repetition is exact
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (between / (period - 1)) / (within / (modulus - period))
        columns.append(scipy.stats.f.logsf(np.where(total > 0, ratio, 0), period - 1, modulus - period))
    return np.stack(columns, axis=-1) if columns else np.zeros((*profile.shape[:-1], 0))


def dominant_period(profile: np.ndarray) -> np.ndarray:
    """[...] the candidate period with the smallest p-value (the shortest of equals) for `profile` [..., modulus]."""
    return np.array(candidate_periods(profile.shape[-1]))[log_p_values(profile).argmin(axis=-1)]


def gap_p_value(outcomes: np.ndarray, permutations: int = 1_000, seed: int = 0) -> float:
    """The probability of a gap at least this large if position did not matter (a permutation test).

    The null turns every mapping's outcomes around the positions by a random amount of its own, which keeps how hard the
    mapping is and how alike its neighbouring positions are.
    """
    count, modulus = outcomes.shape
    rng, observed, exceeded = np.random.default_rng(seed), gap(profile(outcomes)), 0
    turns = np.lib.stride_tricks.sliding_window_view(np.tile(outcomes, 2), modulus, axis=1)[:, :modulus].copy()
    for _ in range(permutations):
        turned = turns[np.arange(count), rng.integers(modulus, size=count)]
        exceeded += bool(gap(profile(turned)) >= observed - 1e-9)
    return (1 + exceeded) / (1 + permutations)


def periodicity(outcomes: np.ndarray, *, replicates: int, permutations: int = 1_000, seed: int = 0) -> Periodicity:
    """Whether accuracy depends on position beyond noise, and with which period it repeats."""
    measured = profile(outcomes)
    chance = gap_p_value(outcomes, permutations, seed)
    candidates = candidate_periods(len(measured))
    if chance >= LEVEL or not candidates:
        return Periodicity(float(gap(measured)), chance, None, 1.0, 0.0)
    p_value = min(1.0, len(candidates) * float(np.exp(log_p_values(measured).min())))
    dominant = int(dominant_period(measured))
    share = float((dominant_period(bootstrap(outcomes, replicates, seed)) == dominant).mean())
    return Periodicity(float(gap(measured)), chance, dominant if p_value < LEVEL else None, p_value, share)
