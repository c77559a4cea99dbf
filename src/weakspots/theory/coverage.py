"""Coverage: how many of the S - 1 non-final positions some head keeps, and when heads have chosen theirs.

The null is that each head chooses on its own, all positions alike. Then m heads cover k of n positions with probability
C(n, k) k! S2(m, k) / n^m, where S2 are Stirling numbers of the second kind.

Retrieval by phase follows. A phase that no head keeps has no evidence and is never retrieved. One that n heads keep is,
unless another position has so many heads, n', that their unspecific attention, 1/L each, outweighs it: n' / L > n a,
with a the attention of a head that matches. Then a token at that other position has the largest logit.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from weakspots.statistics import effective_number, wilson
from weakspots.theory.cases import streams
from weakspots.theory.geometry import Seed

CONCENTRATED = 1.05
"""Effective number of positions up to which a gate counts as on one position."""

GROUP = ["positions", "heads", "vocabulary", "rho"]
"""What names an ensemble of runs."""


def independent(heads: int, choices: int) -> np.ndarray:
    """[choices + 1] probability that `heads` independent uniform choices cover 0, 1, ... of `choices` positions."""
    probability = np.zeros(choices + 1)
    probability[0] = 1
    covered = np.arange(choices + 1)
    for _ in range(heads):
        onto_new = probability * (choices - covered) / choices
        probability = probability * covered / choices
        probability[1:] += onto_new[:-1]
    return probability


def chosen(gates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of gates [..., 2, m, S]: the position of every head's key [..., m], and whether the head is concentrated.

    Concentrated: key and value are on one position each, and the value's is the one after the key's.
    """
    place = gates.argmax(axis=-1)
    certain = (effective_number(gates) <= CONCENTRATED).all(axis=-2)
    return place[..., 0, :], certain & (place[..., 1, :] == place[..., 0, :] + 1)


def covered(heads: pd.DataFrame) -> pd.DataFrame:
    """One row per run of a heads table.

    Columns: `GROUP`, run, seed, concentrated (whether all heads are), coverage (how many positions some concentrated
    head keeps), coincident (whether two concentrated heads keep the same one).
    """
    kept = heads.assign(position=heads["key_position"].where(heads["concentrated"]))
    found = kept.groupby([*GROUP, "run"], sort=False).agg(
        seed=("seed", "first"),
        concentrated=("concentrated", "all"),
        coverage=("position", "nunique"),
        keeping=("position", "count"),
    )
    found["coincident"] = found.pop("keeping") > found["coverage"]
    return found.reset_index()


def distribution(heads: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """How many positions are covered, beside independent uniform choice: one row per ensemble and number covered.

    Columns: `GROUP`, covered, runs (those all of whose heads are concentrated; the rest of the row is about them),
    unconcentrated (the others), coincident (of both, how many have two concentrated heads on one position), share, low,
    high (Wilson's interval), independent (all in percent), mean, mean_independent (positions), p_value (of the
    ensemble, `goodness_of_fit`), seed. Where there are no such runs, what is measured of them is missing.
    """
    rows = []
    for group, runs in covered(heads).groupby(GROUP, sort=False):
        expected, seed = independent(int(group[1]), int(group[0]) - 1), int(runs["seed"].iloc[0])
        whole = runs[runs["concentrated"]]
        counts, numbers = np.bincount(whole["coverage"], minlength=len(expected)), np.arange(len(expected))
        rows.append(
            pd.DataFrame(
                {
                    **dict(zip(GROUP, group, strict=True)),
                    "covered": numbers,
                    "runs": len(whole),
                    "unconcentrated": len(runs) - len(whole),
                    "coincident": int(runs["coincident"].sum()),
                    **_measured(counts, expected, confidence, streams(seed, 1)[0]),
                    "independent": 100 * expected,
                    "mean_independent": expected @ numbers,
                    "seed": seed,
                }
            )
        )
    return pd.concat(rows, ignore_index=True)


def goodness_of_fit(counts: np.ndarray, expected: np.ndarray, seed: Seed, draws: int = 100_000) -> float:
    """p-value of Pearson's statistic for `counts` under the probabilities `expected`, by simulation.

    0 for counts where the probability is 0, 1 where only one outcome is possible, and else at least 1 / (1 + draws).
    """
    possible = expected > 0
    if counts[~possible].any():
        return 0.0
    if possible.sum() == 1:
        return 1.0
    total, probabilities = counts.sum(), expected[possible]
    drawn = np.random.default_rng(seed).multinomial(total, probabilities, size=draws)
    statistic = _pearson(counts[possible], total * probabilities)
    return float(1 + (_pearson(drawn, total * probabilities) >= statistic - 1e-9).sum()) / (1 + draws)


def choosing_times(heads: pd.DataFrame) -> pd.DataFrame:
    """One row per run of a heads table: `GROUP`, run, escape (mean over its heads; missing if one never chose)."""
    times = heads.groupby([*GROUP, "run"], sort=False)["escape"].agg(["mean", "count", "size"])
    return times["mean"].where(times["count"] == times["size"]).rename("escape").reset_index()


def escape_fit(heads: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """How the time until heads have chosen depends on log(1/rho): one row per shape and N with several radii.

    Least squares over runs, each with the mean over its heads, which are not independent of each other. Columns:
    positions, heads, vocabulary, slope, low, high (Student's interval; in units of 1 / escape rate, where linear theory
    says 1), runs, censored (runs of which a head never chose, left out). The slope is missing where those that
    chose have one radius, or are fewer than three.
    """
    rows, shape = [], GROUP[:3]
    for group, part in choosing_times(heads).groupby(shape, sort=False):
        if part["rho"].nunique() < 2:
            continue
        chose, slope, half = part.dropna(subset="escape"), np.nan, np.nan
        if chose["rho"].nunique() > 1 and len(chose) > 2:
            fit = stats.linregress(-np.log(chose["rho"]), chose["escape"])
            slope, half = fit.slope, stats.t.isf((1 - confidence) / 2, len(chose) - 2) * fit.stderr
        counted = {"runs": len(chose), "censored": len(part) - len(chose)}
        found = {"slope": slope, "low": slope - half, "high": slope + half, **counted}
        rows.append({**dict(zip(shape, group, strict=True)), **found})
    return pd.DataFrame(rows, columns=[*shape, "slope", "low", "high", "runs", "censored"])


def _measured(counts: np.ndarray, expected: np.ndarray, confidence: float, seed: Seed) -> dict[str, np.ndarray | float]:
    """share, low, high, mean and p_value of `counts` runs by number covered; missing without any run."""
    runs = counts.sum()
    if not runs:
        return dict.fromkeys(("share", "low", "high", "mean", "p_value"), np.nan)
    low, high = wilson(counts, runs, confidence)
    mean = counts @ np.arange(len(counts)) / runs
    p_value = goodness_of_fit(counts, expected, seed)
    return {"share": 100 * counts / runs, "low": low, "high": high, "mean": mean, "p_value": p_value}


def _pearson(counts: np.ndarray, expected: np.ndarray) -> np.ndarray:
    return (np.square(counts - expected) / expected).sum(axis=-1)
