"""The code completion and the needle of DeepSeek's models and of their stand-ins, for the page."""

from __future__ import annotations

import numpy as np

from weakspots.analysis import paper_numbers
from weakspots.analysis.results import Results
from weakspots.deepseek import rankings
from weakspots.explorer.plain import counts, numbers


def measure(results: Results) -> dict[str, dict]:
    """By model of `deepseek.models`: what was measured here and what the paper publishes, each None where absent."""
    return {
        model: {
            "label": row.label,
            "standIn": row.stand_in is not None,
            "stride": row.stride,
            "completion": _completion(results, model),
            "needle": _needle(results, model),
            # a stand-in is none of the paper's models
            "published": {"completion": None, "needle": None} if row.stand_in else _published(model),
        }
        for model, row in results.deepseek.items()
    }


def _completion(results: Results, model: str) -> dict | None:
    """Probabilities of the right continuation and of the other, by filler family."""
    if model not in results.completions:
        return None
    table = results.completions[model].assign(right=lambda rows: rankings.first_on_top(rows))
    families = {
        family: {
            "length": [int(length) for length in rows["length"]],
            "first": numbers(np.exp(rows["first_logprob"].astype(float))),
            "second": numbers(np.exp(rows["second_logprob"].astype(float))),
            "firstOnTop": [bool(right) for right in rows["right"]],
        }
        for family, rows in table.sort_values("length").groupby("family", sort=False)
    }
    following, _ = rankings.best_following(table, results.deepseek[model].stride or rankings.PERIOD)
    return {
        "source": table["source"].iloc[0],
        "families": families,
        "following": [int(following.sum()), len(table)],
    }


def _needle(results: Results, model: str) -> dict | None:
    if model not in results.needles:
        return None
    return {"n": len(results.needles[model]), "correct": counts(results.needles[model])}


def _published(model: str) -> dict:
    completion, needle = paper_numbers.code_completion(model), paper_numbers.needle(model)
    return {
        "completion": None
        if completion is None
        else {
            "length": [int(length) for length in completion["length"]],
            "first": numbers(completion["first"]),
            "second": numbers(completion["second"]),
            "firstOnTop": [bool(right) for right in completion["first"] > completion["second"]],
        },
        "needle": None if needle is None else {"n": needle[1], "correct": [int(count) for count in needle[0]]},
    }
