"""The claims about the code completion that flips (the paper's Figure 1)."""

from __future__ import annotations

from fractions import Fraction

from weakspots import statistics
from weakspots.analysis import paper_numbers
from weakspots.analysis.results import Results
from weakspots.claims import kinds
from weakspots.claims.deepseek.stand_ins import SECTION, models, together
from weakspots.claims.verdicts import Claim, Verdict, all_hold
from weakspots.claims.wording import spelled
from weakspots.config.deepseek import DeepseekModel
from weakspots.deepseek import rankings
from weakspots.files.statuses import Status

FOLLOWS, CONTROL = Fraction(7, 8), Fraction(1, 8)
"""Shares of the rankings: of a model that flips at least, of its control with `32` on top at most."""


def _flipping(results: Results, model: str) -> Verdict:
    table, period = results.completions[model], results.deepseek[model].stride or rankings.PERIOD
    rows, phases = rankings.best_following(table, period)
    low, high = statistics.wilson(rows.sum(), len(rows), results.statistics.confidence)
    value = (
        f"{rows.sum()} of {len(rows)} rankings follow the period {period}, `8` on top where the length mod {period} is "
        f"{' or '.join(map(str, phases))}; code: {table['source'].iloc[0]}"
    )
    return Verdict(Status.of(rows.mean() >= FOLLOWS), value, len(rows), low=float(low), high=float(high))


def _completion_flips(results: Results) -> Verdict:
    published = paper_numbers.following()

    def chosen(model: str, row: DeepseekModel) -> bool:
        return model in published and row.stand_in is None and bool(row.stride)

    asked = models(results, kinds.CODE_COMPLETION, chosen, _flipping, lambda model: str(published[model]))
    return together(results, asked, "models flip with their stride", all_hold)


def _steadiness(results: Results, model: str) -> Verdict:
    table = results.completions[model]
    second = ~rankings.first_on_top(table)
    low, high = statistics.wilson(second.sum(), len(second), results.statistics.confidence)
    value = f"`32` on top after {second.sum()} of {len(second)} inputs; code: {table['source'].iloc[0]}"
    return Verdict(Status.of(second.mean() <= CONTROL), value, len(second), low=float(low), high=float(high))


def _completion_control_is_steady(results: Results) -> Verdict:
    published = paper_numbers.second_on_top()

    def chosen(_: str, row: DeepseekModel) -> bool:
        return row.stand_in is None and not row.stride

    asked = models(results, kinds.CODE_COMPLETION, chosen, _steadiness, lambda model: str(published.get(model, "")))
    return together(results, asked, "models without compression keep to `8`", all_hold)


def _published_following() -> str:
    return "; ".join(f"{share} rankings follow ({model})" for model, share in paper_numbers.following().items())


def _published_control() -> str:
    return "; ".join(f"32 on top on {share} ({model})" for model, share in paper_numbers.second_on_top().items())


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "completion-flips-with-the-stride",
        "Completion flips with the stride",
        SECTION,
        f"The completion flips with the stride, a period of {spelled(rankings.PERIOD)}: at least {FOLLOWS} of "
        "DeepSeek-V4-Flash-Base's rankings of `8` and `32` follow it, over all fillers and lengths (`8` on top at two "
        "adjacent phases, at whichever shift fits best; an answer that never changes would follow on half).",
        _completion_flips,
        kinds.CODE_COMPLETION,
        _published_following,
    ),
    Claim(
        "completion-without-compression-is-steady",
        "Completion steady without it",
        SECTION,
        f"A model without compression keeps to `8`: `32` is on top after at most {CONTROL} of the same inputs.",
        _completion_control_is_steady,
        kinds.CODE_COMPLETION,
        _published_control,
    ),
)
"""The claims about the completion, in the paper's order."""
