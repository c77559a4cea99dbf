"""What gate cycling predicts, and how far it comes true: the weak spots should follow the gates (Figure 6).

    Z~_i = Z_{(i - d) mod W},  b~_i = b_{(i - d) mod W}  =>  A_d(r) = A_0((r - d) mod S), but for the boundary phase

with d the shift in offsets and A_d(r) the accuracy at phase r after the cycle, which `mechanism.gate_cycling`
makes. Outcomes are booleans [n mappings, M positions].
"""

from __future__ import annotations

from typing import TypedDict

import numpy as np
import pandas as pd

from weakspots import statistics
from weakspots.config import Statistics
from weakspots.errors import UserError


def compare(clean: np.ndarray, cycled: np.ndarray, shift: int, stride: int) -> pd.DataFrame:
    """Accuracy by phase before and after a cycle, in percent, and what was predicted; changes in points.

    Columns phase, clean, observed, predicted, observed_change, predicted_change; the changes are from `clean`.
    """
    before, after = _folded(clean, cycled, stride)
    predicted = np.roll(before, shift)
    columns = {"phase": np.arange(stride), "clean": before, "observed": after, "predicted": predicted}
    changes = {"observed_change": after - before, "predicted_change": predicted - before}
    return pd.DataFrame(columns | changes)


class RSquared(TypedDict):
    """What `r_squared` returns: (R², low, high) over three choices of phases, and a correlation."""

    without_boundary: tuple[float, float, float]
    interior: tuple[float, float, float]
    all: tuple[float, float, float]
    correlation: float


def r_squared(clean: np.ndarray, cycled: np.ndarray, shift: int, stride: int, settings: Statistics) -> RSquared:
    """Squared correlation of the predicted and the observed change over the phases, each as (R², low, high).

    `without_boundary` leaves out the boundary phase S - 1, as the paper does, `interior` also the phase whose source
    (r - shift) mod S it is, and `all` nothing. `correlation` is the correlation without the boundary phase, with its
    sign. The interval is a percentile bootstrap over mappings, resampled alike before and after the cycle. nan where
    fewer than three phases remain or a change is the same at all of them.

    Both changes are taken from the same clean accuracies, so an R² is not 0 where the pattern merely vanishes:
    `flat_r_squared` is what it is to be compared with.
    """
    before, after = _folded(clean, cycled, stride)
    both = statistics.fold(np.stack([clean, cycled]), stride)
    drawn_before, drawn_after = statistics.bootstrap(both, settings.bootstrap, settings.seed)
    phases = _phases(shift, stride)

    def measured(name: str) -> tuple[float, float, float]:
        estimate = _correlation(before, after, shift, phases[name])
        replicates = np.square(_correlation(drawn_before, drawn_after, shift, phases[name]))
        low, high = (np.nan, np.nan) if np.isnan(estimate) else statistics.interval(replicates, settings.confidence)
        return float(estimate) ** 2, float(low), float(high)

    return {
        "without_boundary": measured("without_boundary"),
        "interior": measured("interior"),
        "all": measured("all"),
        "correlation": float(_correlation(before, after, shift, phases["without_boundary"])),
    }


def flat_r_squared(clean: np.ndarray, shift: int, stride: int) -> float:
    """The R² without the boundary phase of a model that, once cycled, is equally accurate at all phases.

    Over all phases it is (1 - q) / 2, with q the correlation of the clean accuracies with themselves `shift` phases
    away: about a half, for no movement at all. nan as in `r_squared`.
    """
    before = statistics.fold(statistics.profile(clean), stride)
    phases = _phases(shift, stride)["without_boundary"]
    return float(_correlation(before, np.zeros(stride), shift, phases)) ** 2


def mean_change(clean: np.ndarray, cycled: np.ndarray) -> float:
    """Change of the mean accuracy over all prompts, in points."""
    return float(statistics.profile(cycled).mean() - statistics.profile(clean).mean())


def _folded(clean: np.ndarray, cycled: np.ndarray, stride: int) -> tuple[np.ndarray, np.ndarray]:
    """[S] accuracy by phase before and after."""
    if clean.shape != cycled.shape:
        raise UserError(
            f"{len(clean)} clean mappings and {len(cycled)} cycled ones cannot be compared: take the clean outcomes of "
            "the same mappings, clean[:len(cycled)]"
        )
    before, after = statistics.fold(100 * np.stack([clean, cycled]).mean(axis=1), stride)
    return before, after


def _phases(shift: int, stride: int) -> dict[str, np.ndarray]:
    """The phases over which a correlation is taken, as booleans [S]."""
    phase = np.arange(stride)
    inside = phase != stride - 1
    return {
        "without_boundary": inside,
        "interior": inside & ((phase - shift) % stride != stride - 1),
        "all": np.ones(stride, dtype=bool),
    }


def _correlation(before: np.ndarray, after: np.ndarray, shift: int, phases: np.ndarray) -> np.ndarray:
    """[...] correlation over `phases` of predicted and observed change of profiles [..., S]; nan if undefined."""
    changes = (np.roll(before, shift, axis=-1) - before, after - before)
    predicted, observed = (change[..., phases] for change in changes)
    if phases.sum() < 3:
        return np.full(before.shape[:-1], np.nan)
    predicted, observed = (change - change.mean(axis=-1, keepdims=True) for change in (predicted, observed))
    product = np.square(predicted).sum(axis=-1) * np.square(observed).sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        # accuracies are whole counts, so that a smaller product than this is rounding
        return np.where(product > 1e-12, (predicted * observed).sum(axis=-1) / np.sqrt(product), np.nan)
