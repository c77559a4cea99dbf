"""Which positions are weak: behind a good mean, inside the window, at its boundary, and whatever the seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from weakspots import statistics
from weakspots.analysis import paper_numbers
from weakspots.analysis.results import Results
from weakspots.claims import kinds
from weakspots.claims.lookup.repetition import published_runs
from weakspots.claims.lookup.runs import SECTION, compressed, finding, runs
from weakspots.claims.verdicts import Claim, Verdict, most_hold, parts, together
from weakspots.claims.wording import spelled
from weakspots.files.statuses import Status
from weakspots.model_table import model_row

CLOSE, FAR = 5, 30
"""Points below full attention: a mean that lies no further is good, a worst position that lies so far is weak."""
INTERIOR = Fraction(1, 2)
"""The least share of the whole gap that the interior phases must spread by on their own."""
SEED_GAP, SEEDS, AGREE = 40, 4, 3
"""Points of the gap that `AGREE` of `SEEDS` seeds must have at least."""


def _mean_hides_worst(results: Results) -> Verdict:
    """Some run has a mean close to full attention's, and a far weaker worst position."""
    compared = {}
    for model, row in results.models.items():
        full = results.full_attention_like(model)
        if full is not None and row.compressed and {(model, "prefix"), (full, "prefix")} <= set(results.outcomes):
            ours, theirs = results.summary(model, "prefix"), results.summary(full, "prefix")
            compared[model] = ours["estimate"] - theirs["estimate"]
    if not compared:
        return Verdict(Status.NOT_RUN, "no compressed run beside full attention with as many KV heads")
    good = {model: beside for model, beside in compared.items() if beside["mean"] >= -CLOSE}
    if not good:
        n = min(len(results.outcomes[model, "prefix"]) for model in compared)
        return Verdict(Status.FAILS, f"no mean of {len(compared)} compressed runs comes within {CLOSE} points", n)

    def measure(model: str) -> Verdict:
        beside, worst = good[model], results.summary(model, "prefix").loc["worst"]
        value = f"mean {beside['mean']:+.1f}, worst {beside['worst']:+.1f} (at {worst['estimate']:.1f}) beside "
        value += str(results.full_attention_like(model))
        status, n = Status.of(beside["worst"] <= -FAR), len(results.outcomes[model, "prefix"])
        return Verdict(status, value, n, low=float(worst["low"]), high=float(worst["high"]))

    candidates = parts({model: results.models[model] for model in good}, good, measure, "", "prefix")
    clearest = min(candidates, key=lambda part: good[str(part.model)]["worst"])
    value = f"{clearest.value}; {clearest.model}; {len(good)} of {len(compared)} runs have such a mean"
    return replace(clearest, value=value, model=None, padding=None, parts=candidates)


def _folded(results: Results, model: str, padding: str) -> np.ndarray:
    return statistics.fold(statistics.profile(results.outcomes[model, padding]), results.models[model].stride)


def _interior_spread(results: Results, model: str, padding: str) -> Verdict:
    if results.periodicity(model, padding).flat:
        return finding(results, model, padding, Status.FLAT, "the gap is within the noise")
    stride, outcomes = results.models[model].stride, results.outcomes[model, padding]
    interior = outcomes[:, np.arange(outcomes.shape[1]) % stride != stride - 1]
    folded = _folded(results, model, padding)
    spread, whole = np.ptp(folded[:-1]), np.ptp(folded)
    beyond_noise = statistics.gap_p_value(interior, seed=results.statistics.seed) < statistics.LEVEL
    value = f"interior phases spread by {spread:.1f} of {whole:.1f} points"
    holds = beyond_noise and spread >= whole * float(INTERIOR)
    return finding(results, model, padding, Status.of(holds), value if beyond_noise else f"{value}, within the noise")


def _weakest_phase(results: Results, model: str, padding: str) -> Verdict:
    if results.periodicity(model, padding).flat:
        return finding(results, model, padding, Status.FLAT, "the gap is within the noise")
    folded = _folded(results, model, padding)
    weakest = int(folded.argmin())
    value = f"weakest phase {weakest} at {folded[weakest]:.1f}, boundary phase {len(folded) - 1} at {folded[-1]:.1f}"
    return finding(results, model, padding, Status.of(weakest == len(folded) - 1), value)


def _without_flat(results: Results, measure: Callable[[Results, str, str], Verdict], what: str) -> Verdict:
    """Most compressed runs whose gap exceeds the noise hold."""

    def most_of_the_uneven(statuses: list[Status]) -> bool:
        return most_hold([status for status in statuses if status != Status.FLAT])

    return together(runs(results, compressed, measure), what, most_of_the_uneven)


def _seeds_agree(results: Results) -> Verdict:
    default = model_row().model_dump(exclude={"seed"})

    def measure(results: Results, model: str, padding: str) -> Verdict:
        gap = results.summary(model, padding).loc["gap", "estimate"]
        return finding(results, model, padding, Status.of(gap >= SEED_GAP), f"gap {gap:.1f}")

    seeds = runs(results, lambda row: row.model_dump(exclude={"seed"}) == default, measure)
    if sum(seed.status != Status.NOT_RUN for seed in seeds) < SEEDS:
        return Verdict(Status.NOT_RUN, f"fewer than {spelled(SEEDS)} seeds have been run", parts=seeds)
    return together(
        seeds,
        "runs have such a gap",
        lambda statuses: statuses.count(Status.HOLDS) >= len(statuses) * AGREE / SEEDS,
    )


def _published_means() -> str:
    table = paper_numbers.summary().set_index(["model", "padding"])
    ours, full = table.loc[("w8s8-8kv", "prefix")], table.loc[("full-8kv", "prefix")]
    return (
        f"mean {ours['mean'] - full['mean']:+.1f}, worst {ours['worst'] - full['worst']:+.1f}; w8s8-8kv beside "
        f"full-8kv, mean {ours['mean']:.1f} and {full['mean']:.1f}, worst {ours['worst']:.1f} and {full['worst']:.1f}"
    )


def _published_folded(model: str) -> np.ndarray:
    curve = paper_numbers.profile(model, "prefix")
    assert curve is not None, model
    return statistics.fold(curve, paper_numbers.models()[model]["stride"])


def _published_interior() -> str:
    folded = _published_folded("w8s8-1kv")
    return f"{np.ptp(folded[:-1]):.1f} of {np.ptp(folded):.1f} points; w8s8-1kv, by how much interior phases spread"


def _published_weakest() -> str:
    folded = [_published_folded(model) for model in published_runs()["model"]]
    boundary = [int(profile.argmin()) == len(profile) - 1 for profile in folded]
    return f"{sum(boundary)} of {len(boundary)} runs; weakest at S-1"


def _published_seeds() -> str:
    rows = published_runs(chosen=lambda model, _: model == "w8s8-1kv" or model.startswith("w8s8-1kv-seed"))
    return "gaps " + ", ".join(f"{gap:.1f}" for gap in rows["gap"])


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "a-good-mean-hides-a-weak-position",
        "A good mean hides a weak spot",
        SECTION,
        "A mean close to full attention's can hide a weak position: some compressed run has a mean no more than "
        f"{CLOSE} points below full attention with as many KV heads, and a worst position at least {FAR} points "
        "below its worst.",
        _mean_hides_worst,
        kinds.LOOKUP,
        _published_means,
    ),
    Claim(
        "interior-phases-differ-too",
        "Interior phases differ too",
        "Discussion",
        "The boundary phase is not the only weak one: in most compressed runs beyond the noise, the interior "
        f"phases 0..S-2 alone spread beyond the noise and by at least {spelled(INTERIOR)} of the whole gap (paper: "
        "W8/S8 · 1 KV by 54 points).",
        lambda results: _without_flat(results, _interior_spread, "runs spread like that"),
        kinds.LOOKUP,
        _published_interior,
    ),
    Claim(
        "the-boundary-phase-is-usually-weakest",
        "The boundary is usually weakest",
        "Discussion",
        "The boundary phase S-1 is usually, not always, the weakest: in most compressed runs beyond the noise.",
        lambda results: _without_flat(results, _weakest_phase, "runs are weakest at the boundary"),
        kinds.LOOKUP,
        _published_weakest,
    ),
    Claim(
        "seeds-agree",
        "Seeds agree",
        SECTION,
        f"It is no accident of one seed: at least {spelled(AGREE)} of {spelled(SEEDS)} seeds of W8/S8 · 1 KV have a "
        f"gap of at least {SEED_GAP} points.",
        _seeds_agree,
        kinds.LOOKUP,
        _published_seeds,
    ),
)
"""In the paper's order."""
