"""The claims about lookup accuracy by position (the paper's Figure 2 and table of selected runs)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from weakspots import statistics
from weakspots.analysis.results import Results
from weakspots.claims.verdicts import (
    Claim,
    Verdict,
    all_hold,
    most_hold,
    most_hold_and_none_fails,
    part,
    parts,
    together,
)
from weakspots.model_table import ModelRow, model_row

FLAT_GAP = 6.1
"""Points: the largest gap of the paper's three full-attention runs."""


def _flatness(results: Results, model: str, padding: str) -> Verdict:
    found = results.periodicity(model, padding)
    value = f"gap {found.gap:.1f}, p = {found.gap_p_value:.2g} if position did not matter"
    return part(results, model, padding, "holds" if found.gap <= FLAT_GAP or found.flat else "fails", value)


def _repetition(results: Results, model: str, padding: str) -> Verdict:
    stride, modulus = results.models[model].stride, results.outcomes[model, padding].shape[1]
    if stride not in statistics.candidate_periods(modulus):
        return part(results, model, padding, "not run", f"modulus {modulus} does not show the period {stride} twice")
    found = results.periodicity(model, padding)
    if found.flat:
        return part(results, model, padding, "flat", f"gap {found.gap:.1f} is within the noise")
    value = f"no period is significant (p = {found.p_value:.2g}), gap {found.gap:.1f}"
    if found.period:
        value = (
            f"period {found.period} (p = {found.p_value:.1g}, dominant in {found.share:.0%} of replicates), "
            f"gap {found.gap:.1f}"
        )
    return part(results, model, padding, "holds" if found.period == stride else "fails", value)


def _folded(results: Results, model: str, padding: str) -> np.ndarray:
    return statistics.fold(statistics.profile(results.outcomes[model, padding]), results.models[model].stride)


def _interior_spread(results: Results, model: str, padding: str) -> Verdict:
    if results.periodicity(model, padding).flat:
        return part(results, model, padding, "flat", "the gap is within the noise")
    stride, outcomes = results.models[model].stride, results.outcomes[model, padding]
    interior = outcomes[:, np.arange(outcomes.shape[1]) % stride != stride - 1]
    folded = _folded(results, model, padding)
    spread, whole = np.ptp(folded[:-1]), np.ptp(folded)
    beyond_noise = statistics.gap_p_value(interior, seed=results.statistics.seed) < statistics.LEVEL
    value = f"interior phases spread by {spread:.1f} of {whole:.1f} points"
    status = "holds" if beyond_noise and spread >= whole / 2 else "fails"
    return part(results, model, padding, status, value if beyond_noise else f"{value}, within the noise")


def _weakest_phase(results: Results, model: str, padding: str) -> Verdict:
    if results.periodicity(model, padding).flat:
        return part(results, model, padding, "flat", "the gap is within the noise")
    folded = _folded(results, model, padding)
    weakest = int(folded.argmin())
    value = f"weakest phase {weakest} at {folded[weakest]:.1f}, boundary phase {len(folded) - 1} at {folded[-1]:.1f}"
    return part(results, model, padding, "holds" if weakest == len(folded) - 1 else "fails", value)


def _repeats(chosen: Callable[[ModelRow], bool], padding: str = "prefix") -> Callable[[Results], Verdict]:
    """The runs that are `chosen` repeat with their stride: most of them, and none with another period."""
    return lambda results: together(
        parts(results, padding, lambda row: row.compressed and chosen(row), _repetition),
        "repeat with their stride",
        most_hold_and_none_fails,
    )


def _full_attention_is_flat(results: Results) -> Verdict:
    prefix = parts(results, "prefix", lambda row: not row.compressed, _flatness)
    in_sequence = parts(results, "in_sequence", lambda row: not row.compressed, _flatness)
    return together(prefix + in_sequence, "are flat", all_hold)


def _mean_hides_worst(results: Results) -> Verdict:
    """Some run has a mean close to full attention's, and a far weaker worst position."""
    candidates: list[tuple[float, Verdict]] = []
    compared = []
    for model, row in results.models.items():
        full = results.full_attention_like(model)
        if not row.compressed or not {(model, "prefix"), (full, "prefix")} <= set(results.outcomes):
            continue
        compared.append(model)
        ours = results.summary(model, "prefix")
        beside = ours["estimate"] - results.summary(full, "prefix")["estimate"]
        if beside["mean"] < -5:
            continue
        worst = ours.loc["worst"]
        value = f"mean {beside['mean']:+.1f}, worst {beside['worst']:+.1f} (at {worst['estimate']:.1f}) beside {full}"
        verdict = part(results, model, "prefix", "holds" if beside["worst"] <= -30 else "fails", value)
        interval = {"low": float(worst["low"]), "high": float(worst["high"])}
        candidates.append((beside["worst"], replace(verdict, **interval)))
    if not compared:
        return Verdict("not run", "no compressed run beside full attention with as many KV heads")
    if not candidates:
        n = min(len(results.outcomes[model, "prefix"]) for model in compared)
        return Verdict("fails", f"no mean of {len(compared)} compressed runs comes within 5 points", n)
    clearest = min(candidates, key=lambda candidate: candidate[0])[1]
    value = f"{clearest.model}: {clearest.value}; {len(candidates)} of {len(compared)} runs have such a mean"
    return replace(clearest, value=value, model=None, padding=None, parts=tuple(verdict for _, verdict in candidates))


def _seeds_agree(results: Results) -> Verdict:
    default = model_row().model_dump(exclude={"seed"})

    def measure(results: Results, model: str, padding: str) -> Verdict:
        gap = results.summary(model, padding).loc["gap", "estimate"]
        return part(results, model, padding, "holds" if gap >= 40 else "fails", f"gap {gap:.1f}")

    seeds = parts(results, "prefix", lambda row: row.model_dump(exclude={"seed"}) == default, measure)
    if sum(seed.status != "not run" for seed in seeds) < 4:
        return Verdict("not run", "fewer than four seeds have been run", parts=seeds)
    return together(seeds, "have such a gap", lambda statuses: statuses.count("holds") >= 0.75 * len(statuses))


def _compressed(row: ModelRow) -> bool:
    return row.compressed


def _without_flat(results: Results, measure: Callable[[Results, str, str], Verdict], what: str) -> Verdict:
    """Most compressed runs whose gap exceeds the noise hold."""
    runs = parts(results, "prefix", _compressed, measure)
    return together(runs, what, lambda statuses: most_hold([status for status in statuses if status != "flat"]))


_REPEATS = "most of them beyond the noise, and none beyond the noise with another dominant period"
_SECTION = "Controlled pretraining"
CLAIMS: tuple[Claim, ...] = (
    Claim(
        "full-attention-is-flat",
        _SECTION,
        f"Full attention is flat: in every run the gap is at most {FLAT_GAP} points or within the noise.",
        _full_attention_is_flat,
    ),
    Claim(
        "accuracy-repeats-with-the-stride",
        _SECTION,
        f"Each compressed model's accuracy repeats with its stride (prefix padding): {_REPEATS}.",
        _repeats(_compressed),
    ),
    Claim(
        "without-rope",
        _SECTION,
        f"It persists without RoPE: such runs repeat with their stride, {_REPEATS}.",
        _repeats(lambda row: row.rope_fraction == 0),
    ),
    Claim(
        "with-uniform-averaging",
        _SECTION,
        f"It persists with uniform averaging instead of gates: such runs repeat with their stride, {_REPEATS}.",
        _repeats(lambda row: row.gate_kind == "uniform"),
    ),
    Claim(
        "with-overlapping-windows",
        _SECTION,
        f"It persists with overlapping windows (S < W), whose period is S and not W: {_REPEATS}.",
        _repeats(lambda row: row.stride < row.window),
    ),
    Claim(
        "under-in-sequence-padding",
        _SECTION,
        f"It persists where distractors do not move in lockstep with the target (in-sequence padding): {_REPEATS}.",
        _repeats(_compressed, "in_sequence"),
    ),
    Claim(
        "a-good-mean-hides-a-weak-position",
        _SECTION,
        "A mean close to full attention's can hide a weak position: some compressed run has a mean no more than 5 "
        "points below full attention with as many KV heads, and a worst position at least 30 points below its worst.",
        _mean_hides_worst,
    ),
    Claim(
        "interior-phases-differ-too",
        "Discussion",
        "The boundary phase is not the only weak one: in most compressed runs beyond the noise, the interior "
        "phases 0..S-2 alone spread beyond the noise and by at least half of the whole gap (paper: W8/S8 · 1 KV by 54 "
        "points).",
        lambda results: _without_flat(results, _interior_spread, "spread like that"),
    ),
    Claim(
        "the-boundary-phase-is-usually-weakest",
        "Discussion",
        "The boundary phase S-1 is usually, not always, the weakest: in most compressed runs beyond the noise.",
        lambda results: _without_flat(results, _weakest_phase, "are weakest at the boundary phase"),
    ),
    Claim(
        "seeds-agree",
        _SECTION,
        "It is no accident of one seed: at least three of four seeds of W8/S8 · 1 KV have a gap of at least 40 points.",
        _seeds_agree,
    ),
)
"""The claims about lookup accuracy, in the paper's order."""
