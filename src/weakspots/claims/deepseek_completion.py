"""The claims about the code completion that flips (the paper's Figure 1)."""

from __future__ import annotations

from weakspots import statistics
from weakspots.analysis import paper_numbers
from weakspots.analysis.results import Results
from weakspots.claims.deepseek_verdicts import SECTION, parts, together
from weakspots.claims.verdicts import Claim, Verdict, all_hold
from weakspots.config.deepseek import DeepseekModel
from weakspots.deepseek import rankings

_FOLLOWS, _CONTROL = 7 / 8, 1 / 8
"""Shares of the rankings: of a model that flips at least, of its control with `32` on top at most."""


def _flipping(results: Results, model: str) -> Verdict:
    table, period = results.completions[model], results.deepseek[model].stride or rankings.PERIOD
    rows, phases = rankings.best_following(table, period)
    low, high = statistics.wilson(rows.sum(), len(rows), results.statistics.confidence)
    value = (
        f"{rows.sum()} of {len(rows)} rankings follow the period {period}, `8` on top where the length mod {period} is "
        f"{' or '.join(map(str, phases))}; code: {table['source'].iloc[0]}"
    )
    status = "holds" if rows.mean() >= _FOLLOWS else "fails"
    return Verdict(status, value, len(rows), low=float(low), high=float(high))


def _completion_flips(results: Results) -> Verdict:
    def chosen(model: str, row: DeepseekModel) -> bool:
        return model in paper_numbers.FOLLOWING and row.stand_in is None and bool(row.stride)

    def theirs(model: str) -> str:
        return "{} of {}".format(*paper_numbers.FOLLOWING[model])

    models = parts(results, "code_completion", chosen, _flipping, theirs)
    return together(results, models, "models flip with their stride", all_hold)


def _steadiness(results: Results, model: str) -> Verdict:
    table = results.completions[model]
    second = ~rankings.first_on_top(table)
    low, high = statistics.wilson(second.sum(), len(second), results.statistics.confidence)
    value = f"`32` on top after {second.sum()} of {len(second)} inputs; code: {table['source'].iloc[0]}"
    status = "holds" if second.mean() <= _CONTROL else "fails"
    return Verdict(status, value, len(second), low=float(low), high=float(high))


def _completion_control_is_steady(results: Results) -> Verdict:
    def chosen(_: str, row: DeepseekModel) -> bool:
        return row.stand_in is None and not row.stride

    def theirs(model: str) -> str:
        return "{} of {}".format(*paper_numbers.SECOND_ON_TOP[model]) if model in paper_numbers.SECOND_ON_TOP else ""

    models = parts(results, "code_completion", chosen, _steadiness, theirs)
    return together(results, models, "models without compression keep to `8`", all_hold)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "completion-flips-with-the-stride",
        SECTION,
        "The completion flips with the stride, a period of four: at least 7/8 of DeepSeek-V4-Flash-Base's rankings of "
        "`8` and `32` follow it, over all fillers and lengths (`8` on top at two adjacent phases, at whichever shift "
        "fits best; an answer that never changes would follow on half).",
        _completion_flips,
    ),
    Claim(
        "completion-without-compression-is-steady",
        SECTION,
        "A model without compression keeps to `8`: `32` is on top after at most 1/8 of the same inputs.",
        _completion_control_is_steady,
    ),
)
"""The claims about the completion, in the paper's order."""
