"""The claims of the paper's idealised model: Theorems 1 and 2, and what follows from them (tables of the theory)."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from weakspots.claims.verdicts import Claim, Verdict
from weakspots.results import Results
from weakspots.statistics import LEVEL, wilson
from weakspots.theory.coverage import GROUP, covered

LARGE = 1_000
"""N from which on Theorem 1 is judged with exact geometry; what happens below is told beside it."""

SHARE = 95.0
"""Percent of the runs that counts as "with high probability"."""

WEIGHT = 0.95
"""The least weight, over all contexts and chunks, that counts as close to one."""


def _judged(table: str, judge: Callable[[Results, pd.DataFrame], Verdict]) -> Callable[[Results], Verdict]:
    """`judge` of one of the theory's tables, which has not been run where it is missing or empty."""

    def measure(results: Results) -> Verdict:
        found = results.theory.get(table)
        if found is None or found.empty:
            return Verdict("not run", "no table of the theory")
        return judge(results, found)

    return measure


def _share(good: int, n: int) -> dict[str, float]:
    """Wilson's interval in percent, as the fields of a verdict."""
    low, high = wilson(good, n)
    return {"low": float(low), "high": float(high)}


def _status(holds: bool) -> str:
    return "holds" if holds else "fails"


def _shape(part: tuple) -> str:
    return f"S = {part[0]}, m = {part[1]}"


def _minimizers_are_concentrated(results: Results, minima: pd.DataFrame) -> Verdict:
    large = minima[minima["vocabulary"] >= LARGE]
    if large.empty:
        return Verdict("not run", f"no N of at least {LARGE:,}")
    good = (large["concentrated"] == large["starts"]) & large["best_concentrated"]
    parts = tuple(
        Verdict(
            _status(bool(good[rows.index].all())),
            f"{rows['concentrated'].sum()} of {rows['starts'].sum()} descents",
            n=int(rows["starts"].sum()),
            model=_shape(shape),
            **_share(rows["concentrated"].sum(), rows["starts"].sum()),
        )
        for shape, rows in large.groupby(["positions", "heads"], sort=False)
    )
    found, starts = int(large["concentrated"].sum()), int(large["starts"].sum())
    failing = minima[(minima["concentrated"] < minima["starts"]) | ~minima["best_concentrated"]]
    value = f"{found} of {starts} descents, and none ends below the best one-hot assignment in "
    value += f"{int(large['best_concentrated'].sum())} of {len(large)} cases"
    if not failing.empty:
        value += f"; the largest N with another local minimum is {failing['vocabulary'].max():,}"
    return Verdict(_status(bool(good.all())), value, starts, parts=parts, **_share(found, starts))


def _distinct_is_optimal(results: Results, minima: pd.DataFrame) -> Verdict:
    large = minima[minima["vocabulary"] >= LARGE]
    if large.empty:
        return Verdict("not run", f"no N of at least {LARGE:,}")
    value = f"in {int(large['distinct_optimal'].sum())} of {len(large)} cases, all assignments enumerated"
    below = minima[minima["vocabulary"] < LARGE]
    if not below.empty:
        value += f"; below that N in {int(below['distinct_optimal'].sum())} of {len(below)}"
    return Verdict(_status(bool(large["distinct_optimal"].all())), value, len(large))


def _margin_shrinks(results: Results, fits: pd.DataFrame) -> Verdict:
    parts = tuple(
        Verdict(
            _status(fit.low >= -1.1 and fit.high <= -0.9),
            f"N to the {fit.exponent:.3f} ({fit.low:.3f} to {fit.high:.3f}) from N = {fit.fit_from:,}",
            n=int(fit.n),
            model=_shape((fit.positions, fit.heads)),
            low=float(fit.low),
            high=float(fit.high),
        )
        for fit in fits.rename(columns={"count": "n"}).itertuples()
    )
    value = f"exponents from {fits['exponent'].min():.3f} to {fits['exponent'].max():.3f}"
    interval = {"low": float(fits["low"].min()), "high": float(fits["high"].max())}
    status = _status(all(part.status == "holds" for part in parts))
    return Verdict(status, value, int(fits["count"].min()), parts=parts, **interval)


def _small_errors_do_not_matter(results: Results, cases: pd.DataFrame) -> Verdict:
    positive = cases[cases["epsilon"] > 0]
    if positive.empty:
        return Verdict("not run", "no positive epsilon in the map")
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
    return Verdict(_status(good == n), value, n, **_share(good, n))


def _flow_concentrates(results: Results, heads: pd.DataFrame) -> Verdict:
    runs = covered(heads)
    largest = runs[runs["vocabulary"] == runs["vocabulary"].max()]
    parts = tuple(
        Verdict(
            _status(100 * rows["concentrated"].mean() >= SHARE),
            f"{rows['concentrated'].sum()} of {len(rows)} runs",
            n=len(rows),
            model=f"S = {positions}",
            **_share(rows["concentrated"].sum(), len(rows)),
        )
        for positions, rows in largest.groupby("positions")
    )
    value = f"{largest['concentrated'].sum()} of {len(largest)} runs at N = {largest['vocabulary'].iloc[0]:,}"
    by_n = runs.groupby("vocabulary")["concentrated"].mean()
    if not (less := by_n[100 * by_n < SHARE]).empty:
        value += "; fewer at " + ", ".join(f"N = {n:,} ({share:.0%})" for n, share in less.items())
    status = _status(all(part.status == "holds" for part in parts))
    interval = _share(largest["concentrated"].sum(), len(largest))
    return Verdict(status, value, len(largest), _seed(results), parts=parts, **interval)


def _uniformly_over_contexts(results: Results, tokens: pd.DataFrame) -> Verdict:
    least = tokens[["key_weight", "value_weight"]].min(axis=1)
    where = (tokens["vocabulary"] == tokens["vocabulary"].max()) & (tokens["rho"] == tokens["rho"].min())
    good, n = int((least[where] >= WEIGHT).sum()), int(where.sum())
    value = (
        f"{good} of {n} heads at N = {tokens['vocabulary'].max()}, ρ = {tokens['rho'].min():g}; the least weight is "
    )
    value += f"{least[where].min():.3f}"
    by_case = least.groupby([tokens["vocabulary"], tokens["rho"]]).agg(lambda weights: (weights >= WEIGHT).mean())
    if not (less := by_case[by_case < 1]).empty:
        value += "; not always at " + ", ".join(f"N = {n}, ρ = {rho:g} ({s:.0%})" for (n, rho), s in less.items())
    return Verdict(_status(good == n), value, n, _seed(results), **_share(good, n))


def _heads_may_coincide(results: Results, coverage: pd.DataFrame) -> Verdict:
    several = coverage[coverage["heads"] > 1]
    largest = several[several["vocabulary"] == several["vocabulary"].max()] if not several.empty else several
    if largest.empty:
        return Verdict("not run", "no ensemble with at least two heads")
    ensembles = list(largest.groupby(GROUP, sort=False))
    parts = []
    for group, rows in ensembles:
        coincident = rows.loc[rows["covered"] < rows["heads"], "share"].sum()
        p_value = min(1.0, rows["p_value"].iloc[0] * len(ensembles))
        value = f"heads coincide in {coincident:.0f} % of runs; mean coverage {rows['mean'].iloc[0]:.2f}, independent "
        value += f"{rows['mean_independent'].iloc[0]:.2f} (p = {p_value:.2g})"
        holds, n = coincident > 0 and p_value >= LEVEL, int(rows["runs"].iloc[0])
        parts.append(Verdict(_status(holds), value, n, model=_shape(group), **_share(round(coincident * n / 100), n)))
    good = sum(part.status == "holds" for part in parts)
    value = f"in {good} of {len(parts)} ensembles at N = {largest['vocabulary'].iloc[0]:,}"
    differing = several[(several["vocabulary"] < largest["vocabulary"].iloc[0]) & (several["p_value"] < LEVEL)]
    if not differing.empty:
        value += f"; at N up to {differing['vocabulary'].max():,} heads keep apart more often than that"
    return Verdict(_status(good == len(parts)), value, parts[0].n, _seed(results), parts=tuple(parts))


def _unselected_are_lost(results: Results, retrieval: pd.DataFrame) -> Verdict:
    heads = results.theory.get("heads")
    if heads is None or heads.empty:
        return Verdict("not run", "no table of the theory")
    kept = heads[heads["concentrated"]].rename(columns={"key_position": "phase"})
    phases = retrieval.merge(kept[[*GROUP, "run", "phase"]].drop_duplicates(), how="left", indicator="kept")
    selected = phases["kept"] == "both"
    lost, found = int((~phases[~selected]["retrieved"]).sum()), int(phases[selected]["retrieved"].sum())
    n = int((~selected).sum())
    value = f"{lost:,} of {n:,} unselected phases are not retrieved; of the selected ones {found:,} of "
    value += f"{int(selected.sum()):,} are"
    if not n:
        return Verdict("not run", "every run covers all phases")
    return Verdict(_status(lost == n), value, n, _seed(results), **_share(lost, n))


def _seed(results: Results) -> str | None:
    """The seed that all random cases of the theory derive theirs from."""
    coverage = results.theory.get("coverage")
    return None if coverage is None or coverage.empty else str(coverage["seed"].iloc[0])


_SECTION = "Why compression concentrates"
CLAIMS: tuple[Claim, ...] = (
    Claim(
        "theorem-1-minimizers-are-concentrated",
        _SECTION,
        f"Optimal compression is concentrated: with exact geometry and N of at least {LARGE:,}, every minimiser found "
        "is one-hot with the value one after the key, and none lies below the best one-hot assignment.",
        _judged("minima", _minimizers_are_concentrated),
    ),
    Claim(
        "theorem-1-distinct-positions",
        _SECTION,
        f"With exact geometry and N of at least {LARGE:,}, the best one-hot assignments are exactly those with "
        "distinct positions across heads.",
        _judged("minima", _distinct_is_optimal),
    ),
    Claim(
        "theorem-1-margin",
        _SECTION,
        "Distinct positions lower the loss only by an amount of order 1/N: the fitted exponent of the margin has its "
        "interval between -1.1 and -0.9 for every shape.",
        _judged("exponent", _margin_shrinks),
    ),
    Claim(
        "theorem-1-small-errors",
        _SECTION,
        "It holds for nearly equiangular embeddings: at the largest N and the smallest positive ε of the map, the best "
        "minimiser found is concentrated in every context.",
        _judged("map", _small_errors_do_not_matter),
    ),
    Claim(
        "theorem-2-flow-concentrates",
        _SECTION,
        f"Gradient flow makes the concentration static: at the largest N, in at least {SHARE:g} % of the runs for "
        "every S, every head ends on one position with its value on the next.",
        _judged("heads", _flow_concentrates),
    ),
    Claim(
        "theorem-2-uniformly",
        _SECTION,
        f"Uniformly over contexts and chunks: at the largest N and the smallest ρ, every head's weights on r and r + 1 "
        f"are at least {WEIGHT:g} in the worst context there is.",
        _judged("tokens", _uniformly_over_contexts),
    ),
    Claim(
        "theorem-2-heads-may-coincide",
        _SECTION,
        "Different heads may select the same position, and nothing keeps them apart: at the largest N heads coincide "
        "in some runs of every ensemble, and no coverage differs from independent uniform choice (p of at least "
        f"{LEVEL:g}, times the number of ensembles).",
        _judged("coverage", _heads_may_coincide),
    ),
    Claim(
        "theory-unselected-phases-are-lost",
        _SECTION,
        "Retrieval depends on phase unless the heads cover all positions: a phase that no head selects is retrieved in "
        "no run.",
        _judged("retrieval", _unselected_are_lost),
    ),
)
"""The claims of the idealised model, in the paper's order."""
