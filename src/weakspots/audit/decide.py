"""From the answers so far to what may be said about one backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weakspots import statistics
from weakspots.audit.design import Design, phase, phases
from weakspots.audit.evidence import Profile, Sample, comparisons, scan_periods
from weakspots.audit.prompts import Batch

PHASE_KINDS = ("needle", "tail")
"""needle: the target's token index modulo the period matters; tail: the prompt's length does."""

FLOOR, CEILING = 0.05, 0.97
"""Mean accuracy at which a phase can hardly show."""


def at_floor(mapping: np.ndarray, correct: np.ndarray, records: int) -> bool:
    """Whether answers are hardly ever right, or no more often than naming any of the `records` would be.

    More often means by 1.64 standard errors, over mappings.
    """
    _, row, sizes = np.unique(mapping, return_inverse=True, return_counts=True)
    means = np.bincount(row, correct) / sizes
    error = means.std(ddof=1) / np.sqrt(len(means)) if len(means) > 1 else 0.5
    return bool(correct.mean() <= max(FLOOR, 1 / records + 1.64 * error))


@dataclass(frozen=True)
class PhaseAccuracy:
    """Percent correct at one phase, with an interval (Wilson's, prompts divided by the design effect of mappings)."""

    phase: int
    accuracy: float
    low: float
    high: float
    prompts: int


@dataclass(frozen=True)
class Finding:
    """What one kind of phase does. Gaps are percentage points, best minus worst phase.

    `gap` is the difference seen, which noise makes too large; the true one is between `gap_low` and `gap_high`.
    `p_value` is corrected for the periods scanned and for both kinds of phase.
    """

    kind: str
    found: bool
    period: int
    p_value: float
    effect_size: float
    gap: float
    gap_low: float
    gap_high: float
    by_phase: tuple[PhaseAccuracy, ...]

    @property
    def worst(self) -> PhaseAccuracy:
        """The phase with the lowest accuracy."""
        return min(self.by_phase, key=lambda found: found.accuracy)


def positions(batch: Batch, kind: str) -> np.ndarray:
    """[n] what the phase is taken of."""
    return batch.needle if kind == "needle" else batch.length


def finding(
    batch: Batch, correct: np.ndarray, design: Design, kind: str, level: float, confidence: float, seed: int
) -> Finding:
    """What the answers say about one kind of phase, at a look that may spend `level` on it.

    Without a finding the profile shown is that of the longest period asked for, if there was one, else of the period
    that stands out most.
    """
    sample = Sample(batch.mapping, positions(batch, kind), correct.astype(float))
    if kind == "tail":
        sample = sample.without_trend()
    share = level / len(PHASE_KINDS)
    best = scan_periods(sample, design.periods, level=share, seed=seed)
    found = best.p_value <= share
    profiles = {period: Profile.of(sample, period) for period in design.periods}
    pairs = comparisons(design.periods)
    low = max(profile.least_gap(share, pairs) for profile in profiles.values()) if found else 0.0
    high = max(profiles[period].most_gap(level) for period in {*design.asked, *([best.period] if found else [])})
    shown = best.period if found or len(design.asked) > 3 else max(design.asked)
    by_phase = accuracy_by_phase(batch.mapping, sample.position, correct, shown, confidence)
    return Finding(
        kind=kind,
        found=found,
        period=shown,
        p_value=min(1.0, len(PHASE_KINDS) * best.p_value),
        effect_size=best.share,
        gap=float(min(100.0, 100 * np.ptp(profiles[shown].effect))),  # effects are estimates and may go beyond
        gap_low=100 * low,
        gap_high=100 * max(low, min(high, 1.0)),
        by_phase=by_phase,
    )


def accuracy_by_phase(
    mapping: np.ndarray, position: np.ndarray, correct: np.ndarray, period: int, confidence: float
) -> tuple[PhaseAccuracy, ...]:
    """Accuracy at every phase. Prompts of one mapping are alike, and count for less than independent ones."""
    labels, row = phase(position, period), np.unique(mapping, return_inverse=True)[1]
    shown = []
    for number in range(phases(period)):
        here = labels == number
        count = int(here.sum())
        if not count:
            continue
        share = correct[here].mean()
        clusters = np.bincount(row[here], correct[here] - share)
        held = len(np.unique(row[here]))
        variance = float(np.square(clusters).sum()) / count**2
        effective = float(np.clip(share * (1 - share) / variance, held / 2, count)) if variance > 0 else float(held)
        low, high = statistics.wilson(share * effective, effective, confidence)
        shown.append(PhaseAccuracy(number, float(100 * share), float(low), float(high), count))
    return tuple(shown)


def settled(findings: Sequence[Finding], limit: float) -> bool:
    """Whether more prompts would not change the verdict: the gap is surely above `limit` points, or surely below."""
    return any(found.gap_low > limit for found in findings) or all(found.gap_high < limit for found in findings)


def status(findings: Sequence[Finding], floor: bool, gap: float) -> str:
    """The verdict in a word: the first of these that applies.

    periodic: a phase was found to matter; floor: accuracy is at the floor, where no phase can show; flat: a gap of
    `gap` points is ruled out; unsettled: it is not.
    """
    if any(one.found for one in findings):
        return "periodic"
    if floor:
        return "floor"
    return "flat" if all(one.gap_high < gap for one in findings) else "unsettled"


def worst_accuracy(findings: Sequence[Finding]) -> float:
    """Percent correct at the worst phase of the target's position, and of the prompt's length if that was found."""
    return min(one.worst.accuracy for one in findings if one.found or one.kind == "needle")


def verdict(
    findings: Sequence[Finding],
    accuracy: float,
    periods: Sequence[int],
    gap: float,
    confidence: float,
    floor: int | None = None,
) -> str:
    """One sentence. `accuracy` is the mean, between 0 and 1; `floor` the records of a prompt if it is at the floor."""
    found = [one for one in findings if one.found]
    sure = f"with {100 * confidence:g} % confidence"
    if found:
        where = {"needle": "where the target stands", "tail": "how long the prompt is"}
        parts = [f"{where[one.kind]} modulo {one.period}" for one in found]
        one = max(found, key=lambda some: some.gap)
        best = max(one.by_phase, key=lambda some: some.accuracy)
        least = f"at least {one.gap_low:.0f} points" if one.gap_low >= 0.5 else "of a size not settled yet"
        return (
            f"Accuracy depends on {' and on '.join(parts)}: {best.accuracy:.0f} % at phase {best.phase}, "
            f"{one.worst.accuracy:.0f} % at phase {one.worst.phase} (a gap {least} {sure}, p = {one.p_value:.2g})."
        )
    high = max(one.gap_high for one in findings)
    names = _listed(periods)
    if floor is not None:
        chance = "" if accuracy <= FLOOR else f" (naming any of {floor} records: {100 / floor:.0f} %)"
        return f"No verdict: {100 * accuracy:.0f} % of the answers are right{chance}; at the floor no phase can show."
    ceiling = " But accuracy is at the ceiling, where a phase can hardly show." if accuracy >= CEILING else ""
    if high < gap:
        return f"No periodic weak spot at {names}: a gap of more than {high:.1f} points is ruled out {sure}.{ceiling}"
    return f"No periodic weak spot found at {names}; gaps up to {high:.0f} points are not ruled out.{ceiling}"


def _listed(periods: Sequence[int]) -> str:
    first, last = periods[0], periods[-1]
    if len(periods) > 2 and list(periods) == list(range(first, last + 1)):
        return f"periods {first} to {last}"
    if len(periods) == 1:
        return f"period {first}"
    if len(periods) > 6:
        return f"{len(periods)} periods from {first} to {last}"
    return f"periods {', '.join(map(str, periods[:-1]))} and {last}"
