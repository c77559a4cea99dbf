"""Accuracy by position of every run, for the page."""

from __future__ import annotations

import numpy as np

from weakspots import statistics
from weakspots.analysis.phase_losses import period_of
from weakspots.analysis.results import Results
from weakspots.explorer.plain import counts, number, numbers


def measure(results: Results) -> dict[str, dict]:
    """By `model/padding`: correct answers by position out of n, intervals, summary and period of every run."""
    return {f"{model}/{padding}": _run(results, model, padding) for model, padding in sorted(results.outcomes)}


def _run(results: Results, model: str, padding: str) -> dict:
    outcomes = results.outcomes[model, padding]
    by_position, repeats = results.by_position(model, padding), results.periodicity(model, padding)
    period = period_of(results.models[model], outcomes.shape[1])
    low, high = _folded_interval(results, model, outcomes, period)
    return {
        "n": len(outcomes),
        "correct": counts(outcomes),
        "low": numbers(by_position["low"]),
        "high": numbers(by_position["high"]),
        "period": period,
        "folded": {"low": numbers(low), "high": numbers(high)},
        "summary": {
            name: numbers((row["estimate"], row["low"], row["high"]))
            for name, row in results.summary(model, padding).iterrows()
        },
        "repeats": {
            "flat": bool(repeats.flat),
            "period": repeats.period,
            "share": number(repeats.share),
            "gapP": number(repeats.gap_p_value),
        },
    }


def _folded_interval(results: Results, model: str, outcomes: np.ndarray, period: int) -> tuple[np.ndarray, np.ndarray]:
    """The intervals of the folded profile, of the same kind as by position."""
    settings = results.statistics
    if results.models[model].compressed:
        drawn = statistics.bootstrap(outcomes, settings.bootstrap, settings.seed)
        return tuple(statistics.interval(statistics.fold(drawn, period), settings.confidence))
    correct = outcomes.sum(axis=0).reshape(-1, period).sum(axis=0)
    return statistics.wilson(correct, outcomes.size // period, settings.confidence)
