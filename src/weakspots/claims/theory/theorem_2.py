"""Claims about Theorem 2, where gradient flow takes the heads, and about what follows from it."""

from __future__ import annotations

import pandas as pd

from weakspots.analysis.results import Results
from weakspots.claims import kinds
from weakspots.claims.theory.judging import SECTION, judged, seed, shape, share
from weakspots.claims.verdicts import Claim, Verdict
from weakspots.files.statuses import Status
from weakspots.statistics import LEVEL
from weakspots.theory.coverage import GROUP, covered

SHARE = 95.0
"""Percent of the runs that counts as "with high probability"."""

WEIGHT = 0.95
"""The least weight, over all contexts and chunks, that counts as close to one."""

SLOPE = (0.9, 1.1)
"""The slope of the time to choose over log(1/rho) that counts as 1."""


def _flow_concentrates(results: Results, heads: pd.DataFrame) -> Verdict:
    runs = covered(heads)
    largest = runs[runs["vocabulary"] == runs["vocabulary"].max()]
    parts = tuple(
        Verdict(
            Status.of(100 * rows["concentrated"].mean() >= SHARE),
            f"{rows['concentrated'].sum()} of {len(rows)} runs",
            len(rows),
            str(rows["seed"].iloc[0]),
            model=shape(group),
            **share(results, rows["concentrated"].sum(), len(rows)),
        )
        for group, rows in largest.groupby(GROUP, sort=False)
    )
    good = sum(part.status == Status.HOLDS for part in parts)
    value = f"in {good} of {len(parts)} ensembles at N = {largest['vocabulary'].iloc[0]:,}; "
    value += f"{largest['concentrated'].sum():,} of {len(largest):,} runs"
    by_n = runs.groupby("vocabulary")["concentrated"].mean()
    if not (less := by_n[100 * by_n < SHARE]).empty:
        value += "; fewer at " + ", ".join(f"N = {n:,} ({part:.0%})" for n, part in less.items())
    return Verdict(
        Status.of(good == len(parts)), value, int(largest.groupby(GROUP).size().min()), seed(results), parts=parts
    )


def _uniformly_over_contexts(results: Results, tokens: pd.DataFrame) -> Verdict:
    least = tokens.assign(least=tokens[["key_weight", "value_weight"]].min(axis=1))
    runs = least.groupby(["vocabulary", "rho", "run"])["least"].min().reset_index()
    smallest = tokens[tokens["rho"] == tokens["rho"].min()]
    where = (runs["vocabulary"] == runs["vocabulary"].max()) & (runs["rho"] == runs["rho"].min())
    good, n = int((runs["least"][where] >= WEIGHT).sum()), int(where.sum())
    value = f"{good} of {n} runs at N = {runs['vocabulary'].max()}, ρ = {runs['rho'].min():g}; the least weight is "
    value += f"{runs['least'][where].min():.3f}"
    by_case = runs.groupby(["vocabulary", "rho"])["least"].agg(lambda weights: (weights >= WEIGHT).mean())
    if not (less := by_case[by_case < 1]).empty:
        value += "; not always at " + ", ".join(f"N = {n}, ρ = {rho:g} ({s:.0%})" for (n, rho), s in less.items())
    agree = int((smallest["key_position"] == smallest["predicted_position"]).sum())
    value += f"; at that ρ {agree} of {len(smallest)} heads, over all N, are where gates equal for all tokens end"
    return Verdict(Status.of(good == n), value, n, seed(results), **share(results, good, n))


def _heads_may_coincide(results: Results, coverage: pd.DataFrame) -> Verdict:
    several = coverage[coverage["heads"] > 1].drop_duplicates(GROUP)
    where = several["vocabulary"] == several["vocabulary"].max()
    largest, smaller = several[where], several[~where]
    if largest.empty:
        return Verdict(Status.NOT_RUN, "no ensemble with at least two heads")
    parts = []
    for row in largest.itertuples():
        n, p_value = row.runs + row.unconcentrated, row.p_value * len(largest)
        value = f"heads coincide in {row.coincident} of {n} runs; mean coverage {row.mean:.2f}, independent "
        value += f"{row.mean_independent:.2f} (p = {min(p_value, 1.0):.2g})"
        if row.unconcentrated:
            value += f", without {row.unconcentrated} runs that did not concentrate"
        holds, name = row.coincident > 0 and p_value >= LEVEL, shape((row.positions, row.heads))
        interval = share(results, row.coincident, n)
        parts.append(Verdict(Status.of(holds), value, n, str(row.seed), model=name, **interval))
    good = sum(part.status == Status.HOLDS for part in parts)
    value = f"in {good} of {len(parts)} ensembles at N = {largest['vocabulary'].iloc[0]:,}"
    apart = smaller[(smaller["mean"] > smaller["mean_independent"]) & (smaller["p_value"] * len(smaller) < LEVEL)]
    if not apart.empty:
        value += f"; at smaller N heads keep apart more often in {len(apart)} of {len(smaller)} ensembles, "
        value += f"up to N = {apart['vocabulary'].max():,}"
    return Verdict(Status.of(good == len(parts)), value, parts[0].n, seed(results), parts=tuple(parts))


def _time_to_choose(results: Results, fits: pd.DataFrame) -> Verdict:
    *smaller, largest = fits.sort_values("vocabulary").itertuples()
    value = f"slope {largest.slope:.3f} ({largest.low:.3f} to {largest.high:.3f}) at N = {largest.vocabulary:,}; "
    value += f"{largest.censored} runs left out, because one of their heads never chose"
    if smaller:
        value += "; below " + ", ".join(f"{fit.slope:.2f} at N = {fit.vocabulary:,}" for fit in smaller)
    holds = largest.low >= SLOPE[0] and largest.high <= SLOPE[1]
    low, high = float(largest.low), float(largest.high)
    return Verdict(Status.of(bool(holds)), value, int(largest.runs), seed(results), low, high)


def _unselected_are_lost(results: Results, retrieval: pd.DataFrame) -> Verdict:
    heads = results.theory.get("heads")
    if heads is None or heads.empty:
        return Verdict(Status.NOT_RUN, "no table of the theory")
    kept = heads[heads["concentrated"]].rename(columns={"key_position": "phase"})
    phases = retrieval.merge(kept[[*GROUP, "run", "phase"]].drop_duplicates(), how="left", indicator="kept")
    selected = phases["kept"] == "both"
    lost, found = int((~phases[~selected]["retrieved"]).sum()), int(phases[selected]["retrieved"].sum())
    n = int((~selected).sum())
    value = f"{lost:,} of {n:,} unselected phases are lost; of the selected ones {found:,} of "
    value += f"{int(selected.sum()):,} are"
    if not n:
        return Verdict(Status.NOT_RUN, "every run covers all phases")
    return Verdict(Status.of(lost == n), value, n, seed(results), **share(results, lost, n))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "theorem-2-flow-concentrates",
        "Gradient flow concentrates",
        SECTION,
        "With gates equal for all tokens, gradient flow makes the concentration static: at the largest N, for every S "
        f"and m, in at least {SHARE:g} % of the runs every head ends on one position with its value on the next.",
        judged("heads", _flow_concentrates),
        kinds.THEORY,
        lambda: "Theorem 2; with high probability",
    ),
    Claim(
        "theorem-2-uniformly",
        "… uniformly over contexts",
        SECTION,
        "Uniformly over contexts and chunks: at the largest N and the smallest ρ, for flows on sampled contexts, in "
        f"every run every head's weights on r and r + 1 are at least {WEIGHT:g} in any context, by a lower bound.",
        judged("tokens", _uniformly_over_contexts),
        kinds.THEORY,
        lambda: "Theorem 2; uniformly over contexts and chunks",
    ),
    Claim(
        "theorem-2-heads-may-coincide",
        "… heads may coincide",
        SECTION,
        "Different heads may select the same position: at the largest N heads coincide in some runs of every ensemble, "
        f"and coverage shows no difference from independent uniform choice (p of at least {LEVEL:g}, times the number "
        "of ensembles).",
        judged("coverage", _heads_may_coincide),
        kinds.THEORY,
        lambda: "Theorem 2, in words",
    ),
    Claim(
        "theory-time-to-choose",
        "Time to choose grows as log 1/ρ",
        SECTION,
        "From a smaller ball heads choose later, by log(1/ρ) in units of the time in which a small difference grows "
        "e-fold: at the largest N of those whose ρ is varied, the fitted slope has its interval between "
        f"{SLOPE[0]:g} and {SLOPE[1]:g}.",
        judged("escape", _time_to_choose),
        kinds.THEORY,
    ),
    Claim(
        "theory-unselected-phases-are-lost",
        "Unselected phases are lost",
        SECTION,
        "Retrieval depends on phase unless the heads cover all positions: a phase that no head selects is retrieved in "
        "no run.",
        judged("retrieval", _unselected_are_lost),
        kinds.THEORY,
    ),
)
"""In the paper's order."""
