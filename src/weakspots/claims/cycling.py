"""The claims about cycled gates (the paper's Figure 6)."""

from __future__ import annotations

import numpy as np

from weakspots import statistics
from weakspots.analysis import cycling_prediction
from weakspots.analysis.results import Results
from weakspots.claims.counting import counted, not_run
from weakspots.claims.verdicts import Claim, Verdict

_LOWEST = 0.66
"""The lowest of the paper's 30 squared correlations."""
_APART = 10
"""Points between the boundary's prediction and its uncycled accuracy from which on they can be told apart."""
_MISSING = "no cycled models: run `snakemake cycling`"


def _clean(results: Results, model: str) -> np.ndarray | None:
    """The uncycled answers to the mappings that the cycled model was asked, or None without such a lookup."""
    clean = results.outcomes.get((model, results.cycling_padding))
    return None if clean is None else clean[: len(next(iter(results.cycles[model].values())))]


def _part(results: Results, model: str, holds: bool | None, value: str, **interval: float) -> Verdict:
    """The part of one model; `holds` is None where it has nothing that could show the claim."""
    n, seeds = len(_clean(results, model)), str(results.models[model].seed)
    status = "flat" if holds is None else "holds" if holds else "fails"
    return Verdict(status, value, n, seeds, model=model, padding=results.cycling_padding, **interval)


def _runs(results: Results) -> tuple[tuple[Verdict, ...], dict[str, np.ndarray]]:
    """Parts for cycled models without their lookup, and the clean answers of the others."""
    models = [model for model in results.models if results.cycles.get(model)]
    clean = {model: _clean(results, model) for model in models}
    absent = [model for model in models if clean[model] is None]
    parts = tuple(not_run(results, model, results.cycling_padding, "no lookup table") for model in absent)
    return parts, {model: answers for model, answers in clean.items() if answers is not None}


def _moves_the_pattern(results: Results) -> Verdict:
    parts, runs = _runs(results)
    found, levelled = [], []
    for model, clean in runs.items():
        own, listed = [], []
        stride = results.models[model].stride
        for shift, cycled in sorted(results.cycles[model].items()):
            measured = cycling_prediction.r_squared(clean, cycled, shift, stride, results.statistics)
            r2, low, high = measured["without_boundary"]
            against = " against the prediction" if measured["correlation"] < 0 else ""
            listed.append(f"{shift:+d}: {r2:.2f}{against} ({low:.2f} to {high:.2f})")
            own.append(r2 if measured["correlation"] > 0 else 0.0)  # 0 also where it is undefined
            levelled.append(np.nan_to_num(cycling_prediction.flat_r_squared(clean, shift, stride)))
        middle = float(np.median(own))
        parts += (_part(results, model, middle >= _LOWEST, f"median {middle:.2f}; {', '.join(listed)}"),)
        found += own
    return counted(
        parts,
        _MISSING,
        lambda: np.median(found) >= max(_LOWEST, np.median(levelled)),
        lambda: (
            f"median {np.median(found):.2f} of {len(found)} cycles of {len(runs)} models, from {min(found):.2f} to "
            f"{max(found):.2f}; it would be {np.median(levelled):.2f} if cycles levelled all phases"
        ),
    )


def _leaves_the_boundary(results: Results) -> Verdict:
    parts, runs = _runs(results)
    stays = []
    for model, clean in runs.items():
        own, listed = [], []
        stride = results.models[model].stride
        for shift, cycled in sorted(results.cycles[model].items()):
            at = cycling_prediction.compare(clean, cycled, shift, stride).set_index("phase").loc[stride - 1]
            if abs(at["predicted"] - at["clean"]) < _APART:
                continue
            own.append(bool(abs(at["observed"] - at["clean"]) < abs(at["observed"] - at["predicted"])))
            listed.append(f"{shift:+d}: {at['observed']:.1f} (predicted {at['predicted']:.1f})")
        boundary = float(statistics.fold(statistics.profile(clean), stride)[-1])
        value = f"no prediction lies {_APART} points from the uncycled {boundary:.1f}"
        if own:
            value = f"in {sum(own)} of {len(own)} cycles; uncycled {boundary:.1f}, {', '.join(listed)}"
        parts += (_part(results, model, sum(own) > len(own) / 2 if own else None, value),)
        stays += own
    return counted(
        parts,
        _MISSING,
        lambda: sum(stays) > len(stays) / 2,
        lambda: f"closer to the uncycled accuracy in {sum(stays)} of {len(stays)} such cycles",
    )


def _costs_accuracy(results: Results) -> Verdict:
    parts, runs = _runs(results)
    found = []
    for model, clean in runs.items():
        cycles = sorted(results.cycles[model].items())
        changes = {shift: cycling_prediction.mean_change(clean, cycled) for shift, cycled in cycles}
        low, high = _interval_of_change(results, clean, [cycled for _, cycled in cycles])
        own = list(changes.values())
        listed = ", ".join(f"{shift:+d}: {change:+.1f}" for shift, change in changes.items())
        falls = sum(change < 0 for change in own) > len(own) / 2
        parts += (_part(results, model, falls, f"mean {np.mean(own):+.1f}; {listed}", low=low, high=high),)
        found += own
    return counted(
        parts,
        _MISSING,
        lambda: sum(change < 0 for change in found) > len(found) / 2,
        lambda: (
            f"falls in {sum(change < 0 for change in found)} of {len(found)} cycles, "
            f"changes from {min(found):+.1f} to {max(found):+.1f} points"
        ),
    )


def _interval_of_change(results: Results, clean: np.ndarray, cycles: list[np.ndarray]) -> tuple[float, float]:
    """Percentile interval over mappings of the change of the mean accuracy, averaged over `cycles`, in points."""
    settings = results.statistics
    means = statistics.bootstrap(np.stack([clean, *cycles]), settings.bootstrap, settings.seed).mean(axis=-1)
    low, high = statistics.interval(means[1:].mean(axis=0) - means[0], settings.confidence)
    return float(low), float(high)


_SECTION = "Moving the weak spots"
CLAIMS: tuple[Claim, ...] = (
    Claim(
        "cycling-moves-the-pattern",
        _SECTION,
        "Cycling the gates moves the accuracy pattern as predicted: the squared correlation of predicted and observed "
        f"change without the boundary phase has a median over models and shifts of at least {_LOWEST}, the paper's "
        "lowest value, and no less than if cycles merely levelled all phases. One that is undefined, or of a negative "
        "correlation, counts as 0.",
        _moves_the_pattern,
    ),
    Claim(
        "cycling-leaves-the-boundary",
        _SECTION,
        f"The boundary phase S-1 stays as it is under every cycle: where its predicted accuracy lies at least {_APART} "
        "points from the uncycled one, the observed accuracy is closer to the uncycled one in most cycles.",
        _leaves_the_boundary,
    ),
    Claim(
        "cycling-costs-accuracy",
        _SECTION,
        "A cycle costs accuracy: the mean over all positions falls in most cycles of all models (paper: in all, by 3 "
        "to 18 points).",
        _costs_accuracy,
    ),
)
"""The claims about cycled gates, in the paper's order."""
