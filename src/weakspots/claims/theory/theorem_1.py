"""Claims about Theorem 1: which query-independent coefficients have the least loss."""

from __future__ import annotations

import pandas as pd

from weakspots.analysis.results import Results
from weakspots.claims import kinds
from weakspots.claims.theory.judging import SECTION, judged, shape, share
from weakspots.claims.verdicts import Claim, Verdict
from weakspots.files.statuses import Status

LARGE = 1_000
"""N from which on Theorem 1 is judged with exact geometry; what happens below is told beside it."""

EXPONENT = (-1.1, -0.9)
"""The exponents of N that count as -1, the order of the margin."""


def _minimizers_are_concentrated(results: Results, minima: pd.DataFrame) -> Verdict:
    large = minima[minima["vocabulary"] >= LARGE]
    if large.empty:
        return Verdict(Status.NOT_RUN, f"no N of at least {LARGE:,}")
    good = (large["concentrated"] == large["starts"]) & large["best_concentrated"]
    parts = tuple(
        Verdict(
            Status.of(bool(good[rows.index].all())),
            f"{rows['concentrated'].sum()} of {rows['starts'].sum()} descents",
            n=int(rows["starts"].sum()),
            model=shape(group),
            **share(results, rows["concentrated"].sum(), rows["starts"].sum()),
        )
        for group, rows in large.groupby(["positions", "heads"], sort=False)
    )
    found, starts = int(large["concentrated"].sum()), int(large["starts"].sum())
    failing = minima[(minima["concentrated"] < minima["starts"]) | ~minima["best_concentrated"]]
    value = f"{found} of {starts} descents; none ends below the best one-hot assignment in "
    value += f"{int(large['best_concentrated'].sum())} of {len(large)} cases"
    if not failing.empty:
        value += f"; the largest N with a descent that did not end one-hot is {failing['vocabulary'].max():,}"
    return Verdict(Status.of(bool(good.all())), value, starts, parts=parts, **share(results, found, starts))


def _distinct_is_optimal(results: Results, minima: pd.DataFrame) -> Verdict:
    large = minima[minima["vocabulary"] >= LARGE]
    if large.empty:
        return Verdict(Status.NOT_RUN, f"no N of at least {LARGE:,}")
    value = f"in {int(large['distinct_optimal'].sum())} of {len(large)} cases; all assignments enumerated"
    below = minima[minima["vocabulary"] < LARGE]
    if not below.empty:
        value += f"; below that N in {int(below['distinct_optimal'].sum())} of {len(below)}"
    return Verdict(Status.of(bool(large["distinct_optimal"].all())), value, len(large))


def _margin_shrinks(results: Results, fits: pd.DataFrame) -> Verdict:
    parts = tuple(
        Verdict(
            Status.of(fit.low >= EXPONENT[0] and fit.high <= EXPONENT[1]),
            f"N to the {fit.exponent:.3f} (curvature {fit.low:.3f} to {fit.high:.3f}) from N = {fit.fit_from:,}",
            n=int(fit.n),
            model=shape((fit.positions, fit.heads)),
            low=float(fit.low),
            high=float(fit.high),
        )
        for fit in fits.rename(columns={"count": "n"}).itertuples()
    )
    value = f"exponents from {fits['exponent'].min():.3f} to {fits['exponent'].max():.3f}"
    low, high = float(fits["low"].min()), float(fits["high"].max())
    holds = all(part.status == Status.HOLDS for part in parts)
    return Verdict(Status.of(holds), value, int(fits["count"].min()), low=low, high=high, parts=parts)


def _small_errors_do_not_matter(results: Results, cases: pd.DataFrame) -> Verdict:
    positive = cases[cases["epsilon"] > 0]
    if positive.empty:
        return Verdict(Status.NOT_RUN, "no positive epsilon in the map")
    where = (positive["vocabulary"] == positive["vocabulary"].max()) & (
        positive["epsilon"] == positive["epsilon"].min()
    )
    corner = positive[where]
    good, n = int(corner["concentrated"].sum()), len(corner)
    by_epsilon = cases[cases["vocabulary"] == cases["vocabulary"].max()].groupby("epsilon")["concentrated"].mean()
    by_n = cases[cases["epsilon"] == cases["epsilon"].min()].groupby("vocabulary")["concentrated"].mean()
    value = f"{good} of {n} contexts at N = {corner['vocabulary'].iloc[0]:,}, ε = {corner['epsilon'].iloc[0]:g}"
    if not (failing := by_epsilon[by_epsilon < 1]).empty:
        value += f"; at that N it first fails at ε = {failing.index.min():g}"
    if not (failing := by_n[by_n < 1]).empty:
        value += f"; at ε = {cases['epsilon'].min():g} it fails up to N = {failing.index.max():,}"
    return Verdict(Status.of(good == n), value, n, **share(results, good, n))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "theorem-1-minimizers-are-concentrated",
        "Minimisers are concentrated",
        SECTION,
        f"Optimal compression is concentrated: with exact geometry and N of at least {LARGE:,}, every minimiser found "
        "is one-hot with the value one after the key, and none lies below the best one-hot assignment.",
        judged("minima", _minimizers_are_concentrated),
        kinds.THEORY,
        lambda: "Theorem 1; for sufficiently large N",
    ),
    Claim(
        "theorem-1-distinct-positions",
        "… at distinct positions",
        SECTION,
        f"With exact geometry and N of at least {LARGE:,}, the best one-hot assignments are exactly those with "
        "distinct positions across heads.",
        judged("minima", _distinct_is_optimal),
        kinds.THEORY,
        lambda: "Theorem 1, at ε = 0",
    ),
    Claim(
        "theorem-1-margin",
        "… by a margin of order 1/N",
        SECTION,
        "Distinct positions lower the loss only by an amount of order 1/N: the fitted exponent of the margin has its "
        f"interval between {EXPONENT[0]:g} and {EXPONENT[1]:g} for every shape (margins carry no noise: the interval "
        "is that of a straight line and measures the curvature left).",
        judged("exponent", _margin_shrinks),
        kinds.THEORY,
        lambda: "at most of order 1/N; in words",
    ),
    Claim(
        "theorem-1-small-errors",
        "… with small errors, too",
        SECTION,
        "It holds in the perturbed vocabularies tried: at the largest N and the smallest positive ε of the map, the "
        "best minimiser found is concentrated in every context.",
        judged("map", _small_errors_do_not_matter),
        kinds.THEORY,
        lambda: "Theorem 1; for sufficiently small ε",
    ),
)
"""In the paper's order."""
