"""The claims about cycled gates (the paper's Figure 6)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weakspots import statistics
from weakspots.analysis import cycling_prediction, paper_numbers
from weakspots.analysis.results import Results
from weakspots.claims import kinds
from weakspots.claims.verdicts import Claim, Verdict, combined, parts
from weakspots.files.statuses import Status

LOWEST = 0.66
"""The lowest of the paper's 30 squared correlations."""
APART = 10
"""Points between the boundary's prediction and its uncycled accuracy from which on they can be told apart."""
_MISSING = "no cycled models: run `snakemake cycling`"


def _clean(results: Results) -> dict[str, np.ndarray]:
    """By cycled model with a lookup: the uncycled answers to the mappings that the cycled model was asked."""
    found = {}
    for model in results.models:
        answers, cycles = results.outcomes.get((model, results.cycling_padding)), results.cycles.get(model)
        if answers is not None and cycles:
            found[model] = answers[: len(next(iter(cycles.values())))]
    return found


def _parts(results: Results, measure: Callable[[str], Verdict]) -> tuple[Verdict, ...]:
    """One part for each cycled model."""
    rows = {model: row for model, row in results.models.items() if model in results.cycles}
    return parts(rows, _clean(results), measure, "no lookup table", results.cycling_padding)


def _moves_the_pattern(results: Results) -> Verdict:
    runs = _clean(results)
    found, levelled = [], []

    def measure(model: str) -> Verdict:
        clean, stride = runs[model], results.models[model].stride
        own, listed = [], []
        for shift, cycled in sorted(results.cycles[model].items()):
            measured = cycling_prediction.r_squared(clean, cycled, shift, stride, results.statistics)
            r2, low, high = measured["without_boundary"]
            against = " against the prediction" if measured["correlation"] < 0 else ""
            listed.append(f"{shift:+d}: {r2:.2f}{against} ({low:.2f} to {high:.2f})")
            own.append(r2 if measured["correlation"] > 0 else 0.0)  # 0 also where it is undefined
            levelled.append(np.nan_to_num(cycling_prediction.flat_r_squared(clean, shift, stride)))
        found.extend(own)
        middle = float(np.median(own))
        return Verdict(Status.of(middle >= LOWEST), f"median {middle:.2f}; {', '.join(listed)}", len(clean))

    return combined(
        _parts(results, measure),
        _MISSING,
        lambda: np.median(found) >= max(LOWEST, np.median(levelled)),
        lambda: (
            f"median R² {np.median(found):.2f}; of {len(found)} cycles of {len(runs)} models, from {min(found):.2f} to "
            f"{max(found):.2f}; it would be {np.median(levelled):.2f} if cycles levelled all phases"
        ),
    )


def _leaves_the_boundary(results: Results) -> Verdict:
    runs = _clean(results)
    stays = []

    def measure(model: str) -> Verdict:
        clean, stride = runs[model], results.models[model].stride
        own, listed = [], []
        for shift, cycled in sorted(results.cycles[model].items()):
            at = cycling_prediction.compare(clean, cycled, shift, stride).set_index("phase").loc[stride - 1]
            if abs(at["predicted"] - at["clean"]) < APART:
                continue
            own.append(bool(abs(at["observed"] - at["clean"]) < abs(at["observed"] - at["predicted"])))
            listed.append(f"{shift:+d}: {at['observed']:.1f} (predicted {at['predicted']:.1f})")
        stays.extend(own)
        boundary = float(statistics.fold(statistics.profile(clean), stride)[-1])
        if not own:
            value = f"no prediction lies {APART} points from the uncycled {boundary:.1f}"
            return Verdict(Status.FLAT, value, len(clean))
        value = f"in {sum(own)} of {len(own)} cycles; uncycled {boundary:.1f}, {', '.join(listed)}"
        return Verdict(Status.of(sum(own) > len(own) / 2), value, len(clean))

    return combined(
        _parts(results, measure),
        _MISSING,
        lambda: sum(stays) > len(stays) / 2,
        lambda: f"{sum(stays)} of {len(stays)} such cycles leave it; closer to the uncycled accuracy",
    )


def _costs_accuracy(results: Results) -> Verdict:
    runs = _clean(results)
    found = []

    def measure(model: str) -> Verdict:
        clean, cycles = runs[model], sorted(results.cycles[model].items())
        changes = {shift: cycling_prediction.mean_change(clean, cycled) for shift, cycled in cycles}
        low, high = _interval_of_change(results, clean, [cycled for _, cycled in cycles])
        own = list(changes.values())
        found.extend(own)
        listed = ", ".join(f"{shift:+d}: {change:+.1f}" for shift, change in changes.items())
        falls = sum(change < 0 for change in own) > len(own) / 2
        return Verdict(Status.of(falls), f"mean {np.mean(own):+.1f}; {listed}", len(clean), low=low, high=high)

    return combined(
        _parts(results, measure),
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


def _published(measure: str) -> np.ndarray:
    """One number per cycle of the paper's."""
    return np.concatenate([shown[measure] for shown in paper_numbers.by_model("gate_cycling").values()])


def _published_r_squared() -> str:
    values = _published("r2_excluding_boundary")
    return f"median R² {np.median(values):.2f}; {values.min():.2f} to {values.max():.2f} in {len(values)} cycles"


def _published_cost() -> str:
    values = _published("mean_accuracy_change_pp")
    return f"{values.min():.1f} to {values.max():.1f} points; change of the mean in {len(values)} cycles"


_SECTION = "Moving the weak spots"
CLAIMS: tuple[Claim, ...] = (
    Claim(
        "cycling-moves-the-pattern",
        "Cycling moves the pattern",
        _SECTION,
        "Cycling the gates moves the accuracy pattern as predicted: the squared correlation of predicted and observed "
        f"change without the boundary phase has a median over models and shifts of at least {LOWEST}, the paper's "
        "lowest value, and no less than if cycles merely levelled all phases. One that is undefined, or of a negative "
        "correlation, counts as 0.",
        _moves_the_pattern,
        kinds.CYCLING,
        _published_r_squared,
    ),
    Claim(
        "cycling-leaves-the-boundary",
        "Cycling leaves the boundary",
        _SECTION,
        f"The boundary phase S-1 stays as it is under every cycle: where its predicted accuracy lies at least {APART} "
        "points from the uncycled one, the observed accuracy is closer to the uncycled one in most cycles.",
        _leaves_the_boundary,
        kinds.CYCLING,
        lambda: "S-1 stays weak; in words, under every cycle",
    ),
    Claim(
        "cycling-costs-accuracy",
        "Cycling costs accuracy",
        _SECTION,
        "A cycle costs accuracy: the mean over all positions falls in most cycles of all models (paper: in all, by 3 "
        "to 18 points).",
        _costs_accuracy,
        kinds.CYCLING,
        _published_cost,
    ),
)
"""In the paper's order."""
