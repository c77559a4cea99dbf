"""Full attention is flat, and compressed models repeat with their stride."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from weakspots import statistics
from weakspots.analysis import paper_numbers
from weakspots.analysis.results import Results
from weakspots.claims import kinds
from weakspots.claims.lookup.runs import SECTION, compressed, finding, runs
from weakspots.claims.verdicts import Claim, Verdict, all_hold, most_hold_and_none_fails, together
from weakspots.files.statuses import Status
from weakspots.model_table import ModelRow

FLAT_GAP = 6.1
"""Points: the largest gap of the paper's three full-attention runs."""


def _flatness(results: Results, model: str, padding: str) -> Verdict:
    found = results.periodicity(model, padding)
    value = f"gap {found.gap:.1f}, p = {found.gap_p_value:.2g} if position did not matter"
    return finding(results, model, padding, Status.of(found.gap <= FLAT_GAP or found.flat), value)


def _full_attention_is_flat(results: Results) -> Verdict:
    prefix = runs(results, lambda row: not row.compressed, _flatness, "prefix")
    in_sequence = runs(results, lambda row: not row.compressed, _flatness, "in_sequence")
    return together(prefix + in_sequence, "runs are flat", all_hold)


def _repetition(results: Results, model: str, padding: str) -> Verdict:
    stride, modulus = results.models[model].stride, results.outcomes[model, padding].shape[1]
    if stride not in statistics.candidate_periods(modulus):
        value = f"modulus {modulus} does not show the period {stride} twice"
        return finding(results, model, padding, Status.NOT_RUN, value)
    found = results.periodicity(model, padding)
    if found.flat:
        return finding(results, model, padding, Status.FLAT, f"gap {found.gap:.1f} is within the noise")
    value = f"no period is significant (p = {found.p_value:.2g}), gap {found.gap:.1f}"
    if found.period:
        value = (
            f"period {found.period} (p = {found.p_value:.1g}, dominant in {found.share:.0%} of replicates), "
            f"gap {found.gap:.1f}"
        )
        if found.period != stride and stride % found.period == 0:
            value += f"; {found.period} divides the stride {stride}, after which accuracy repeats too"
    return finding(results, model, padding, Status.of(found.period == stride), value)


def _repeats(chosen: Callable[[ModelRow], bool], padding: str = "prefix") -> Callable[[Results], Verdict]:
    """The runs that are `chosen` repeat with their stride: most of them, and none with another period."""
    return lambda results: together(
        runs(results, lambda row: row.compressed and chosen(row), _repetition, padding),
        "runs repeat with their stride",
        most_hold_and_none_fails,
    )


def published_runs(padding: str = "prefix", chosen: Callable[[str, dict], bool] = lambda *_: True) -> pd.DataFrame:
    """`paper_numbers.summary` of the compressed runs that are chosen by their name and what is published of them."""
    table, models = paper_numbers.summary(), paper_numbers.models()
    kept = table["model"].map(lambda model: models[model]["stride"] is not None and chosen(model, models[model]))
    return table[kept & (table["padding"] == padding)]


def _published_flatness() -> str:
    table, models = paper_numbers.summary(), paper_numbers.models()
    full = table[table["model"].map(lambda model: models[model]["stride"] is None)]
    listed = ", ".join(f"{row.model} {row.gap:.1f}" for row in full.itertuples())
    return f"gaps {full['gap'].min():.1f} to {full['gap'].max():.1f}; {listed}"


def _published_repetition(padding: str = "prefix", chosen: Callable[[str, dict], bool] = lambda *_: True) -> str:
    rows = published_runs(padding, chosen)
    low, high = rows["gap"].min(), rows["gap"].max()
    gaps = f"gap {low:.1f} points" if len(rows) == 1 else f"gaps of {low:.1f} to {high:.1f} points"
    repeats = [
        statistics.dominant_period(curve) == paper_numbers.models()[model]["stride"]
        for model in rows["model"]
        if (curve := paper_numbers.profile(model, padding)) is not None
    ]
    return f"{sum(repeats)} of {len(rows)} curves repeat; {gaps}"


_REPEATS = "most of them beyond the noise, and none beyond the noise with another dominant period"
CLAIMS: tuple[Claim, ...] = (
    Claim(
        "full-attention-is-flat",
        "Full attention is flat",
        SECTION,
        f"Full attention is flat: in every run the gap is at most {FLAT_GAP} points or within the noise.",
        _full_attention_is_flat,
        kinds.LOOKUP,
        _published_flatness,
    ),
    Claim(
        "accuracy-repeats-with-the-stride",
        "Accuracy repeats with the stride",
        SECTION,
        f"Each compressed model's accuracy repeats with its stride (prefix padding): {_REPEATS}.",
        _repeats(compressed),
        kinds.LOOKUP,
        _published_repetition,
    ),
    Claim(
        "without-rope",
        "… without RoPE",
        SECTION,
        f"It persists without RoPE: such runs repeat with their stride, {_REPEATS}.",
        _repeats(lambda row: row.rope_fraction == 0),
        kinds.LOOKUP,
        lambda: _published_repetition(chosen=lambda model, _: "no-rope" in model),
    ),
    Claim(
        "with-uniform-averaging",
        "… with uniform averaging",
        SECTION,
        f"It persists with uniform averaging instead of gates: such runs repeat with their stride, {_REPEATS}.",
        _repeats(lambda row: row.gate_kind == "uniform"),
        kinds.LOOKUP,
        lambda: _published_repetition(chosen=lambda model, _: "uniform" in model),
    ),
    Claim(
        "with-overlapping-windows",
        "… with overlapping windows",
        SECTION,
        f"It persists with overlapping windows (S < W), whose period is S and not W: {_REPEATS}.",
        _repeats(lambda row: row.stride < row.window),
        kinds.LOOKUP,
        lambda: _published_repetition(chosen=lambda _, run: run["stride"] < run["window"]),
    ),
    Claim(
        "under-in-sequence-padding",
        "… under in-sequence padding",
        SECTION,
        f"It persists where distractors do not move in lockstep with the target (in-sequence padding): {_REPEATS}.",
        _repeats(compressed, "in_sequence"),
        kinds.LOOKUP,
        lambda: _published_repetition("in_sequence"),
    ),
)
"""In the paper's order."""
