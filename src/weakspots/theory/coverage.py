"""Coverage: how many of the S - 1 non-final positions some head keeps, and the retrieval by phase that follows.

The null is that each head chooses on its own, all positions alike. Then m heads cover k of n positions with probability
C(n, k) k! S2(m, k) / n^m, where S2 are Stirling numbers of the second kind.

A phase that no head keeps has no evidence and is never retrieved. One that n heads keep is, unless another position has
so many heads, n', that their unspecific attention, 1/L each, outweighs it: n' / L > n a, with a the attention of a head
that matches. Then a token at that other position has the largest logit.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from weakspots.statistics import wilson
from weakspots.theory.gradient_flow import effective_number

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
    """One row per run of a heads table: the columns of `GROUP`, run, seed, concentrated (all heads), coverage.

    Positions that no concentrated head keeps are not covered.
    """
    kept = heads.assign(position=heads["key_position"].where(heads["concentrated"]))
    by_run = kept.groupby([*GROUP, "run"], sort=False)
    return by_run.agg(
        seed=("seed", "first"), concentrated=("concentrated", "all"), coverage=("position", "nunique")
    ).reset_index()


def distribution(heads: pd.DataFrame, confidence: float, seed: int) -> pd.DataFrame:
    """How many positions are covered, beside independent uniform choice.

    One row per ensemble and number covered: `GROUP`, covered, runs, share, low, high (Wilson's interval), independent
    (all in percent), mean, mean_independent (positions), p_value (of the ensemble, `goodness_of_fit`), seed.
    """
    rows = []
    for group, runs in covered(heads).groupby(GROUP, sort=False):
        expected = independent(int(group[1]), int(group[0]) - 1)
        counts = np.bincount(runs["coverage"], minlength=len(expected))
        low, high = wilson(counts, len(runs), confidence)
        numbers = np.arange(len(expected))
        rows.append(
            pd.DataFrame(
                {
                    **dict(zip(GROUP, group, strict=True)),
                    "covered": numbers,
                    "runs": len(runs),
                    "share": 100 * counts / len(runs),
                    "low": low,
                    "high": high,
                    "independent": 100 * expected,
                    "mean": runs["coverage"].mean(),
                    "mean_independent": expected @ numbers,
                    "p_value": goodness_of_fit(counts, expected, seed),
                    "seed": seed,
                }
            )
        )
    return pd.concat(rows, ignore_index=True)


def goodness_of_fit(counts: np.ndarray, expected: np.ndarray, seed: int, draws: int = 2_000) -> float:
    """p-value of Pearson's statistic for `counts` under the probabilities `expected`, by simulation.

    Counts where the probability is 0 give the smallest p-value there is. With one possible outcome it is 1.
    """
    possible = expected > 0
    if counts[~possible].any():
        return 1 / (1 + draws)
    total, probabilities = counts.sum(), expected[possible]
    drawn = np.random.default_rng(seed).multinomial(total, probabilities, size=draws)
    statistic = _pearson(counts[possible], total * probabilities)
    return float(1 + (_pearson(drawn, total * probabilities) >= statistic - 1e-9).sum()) / (1 + draws)


def escape_fit(heads: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """How the time until a head has chosen depends on log(1/rho), by ordinary least squares over heads.

    One row per (positions, heads, vocabulary) with at least two radii: slope, low, high in units of 1 / escape rate
    (the linear theory says 1), and count, the number of heads. Heads that have not chosen are left out.
    """
    rows = []
    chose = heads.dropna(subset="escape")
    for group, part in chose.groupby(["positions", "heads", "vocabulary"], sort=False):
        if part["rho"].nunique() < 2:
            continue
        fit = stats.linregress(-np.log(part["rho"]), part["escape"])
        half = stats.t.isf((1 - confidence) / 2, len(part) - 2) * fit.stderr
        row = dict(zip(["positions", "heads", "vocabulary"], group, strict=True))
        rows.append({**row, "slope": fit.slope, "low": fit.slope - half, "high": fit.slope + half, "count": len(part)})
    columns = ["positions", "heads", "vocabulary", "slope", "low", "high", "count"]
    return pd.DataFrame(rows, columns=columns)


def laptop_heads(gates: dict[str, pd.DataFrame], concentrated: float = 2.0) -> pd.DataFrame:
    """What the heads of trained models chose: one row per model, layer and head of gate tables (kind "gates").

    Columns model, layer, head, positions (W), key_position, value_position (offsets from 0, of the largest mean score
    at the last step), key_effective, value_effective (static effective numbers), concentrated (both at most
    `concentrated`), successor (the value one after the key). Heads with tied branches have no value of their own and
    are left out. A description only: the idealised model has one layer, no exact tokens and no boundary phase.
    """
    rows = []
    for name, table in gates.items():
        last = table[table["step"] == table["step"].max()]
        for (layer, head), part in last.groupby(["layer", "head"]):
            branches = {branch: rows.set_index("offset") for branch, rows in part.groupby("branch")}
            if set(branches) != {"key", "value"}:
                continue
            key, value = branches["key"], branches["value"]
            effective = float(key["static"].iloc[0]), float(value["static"].iloc[0])
            place = int(key["score"].idxmax()), int(value["score"].idxmax())
            rows.append(
                [name, layer, head, len(key), *place, *effective, max(effective) <= concentrated,
                 place[1] == place[0] + 1]
            )  # fmt: skip
    columns = ["model", "layer", "head", "positions", "key_position", "value_position", "key_effective"]
    return pd.DataFrame(rows, columns=[*columns, "value_effective", "concentrated", "successor"])


def _pearson(counts: np.ndarray, expected: np.ndarray) -> np.ndarray:
    return (np.square(counts - expected) / expected).sum(axis=-1)
