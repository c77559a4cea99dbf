"""The mechanism's claims by id, and ways to plant what they are about."""

from __future__ import annotations

import numpy as np
from planted_mechanism import ROWS, knocked

from weakspots.analysis.results import Results
from weakspots.claims import Verdict, mechanism
from weakspots.model_table import WHOLE_LAYER

CLAIMS = {claim.id: claim for claim in mechanism.CLAIMS}
SMALL = {name: ROWS[name] for name in ("full-1kv", "full-8kv", "w8s8-1kv", "w8s8-4kv", "w12s12-1kv", "w8s8-1kv-tied")}
LAYERS = 16
KNOCKOUTS = list(CLAIMS)[:3]
CYCLES = list(CLAIMS)[6:]
SHIFTS = (-3, -2, -1, 1, 2, 3)


def verdict(claim: str, results: Results) -> Verdict:
    return CLAIMS[claim].measure(results)


def status_of(whole: Verdict) -> dict[str, str]:
    return {part.model: part.status for part in whole.parts}


def value_of(whole: Verdict, model: str) -> str:
    return next(part.value for part in whole.parts if part.model == model)


def knock(results: Results, model: str, at: tuple[int, int], percent: list[float]) -> None:
    """Plant what a model loses by phase with one head, and with its layer where that is the only head."""
    for padding in ("prefix", "in_sequence"):
        outcomes = knocked(results.outcomes[model, padding], percent, seed=5)
        results.knockouts[model, padding][at] = outcomes
        if results.models[model].kv_heads == 1:
            results.knockouts[model, padding][at[0], WHOLE_LAYER] = outcomes


def set_gates(results: Results, model: str, **columns: float) -> None:
    """Plant columns of a model's gate statistics at the last step."""
    table = results.gates[model] = results.gates[model].copy()
    table.loc[table["step"] == table["step"].max(), list(columns)] = list(columns.values())


def roll_gates(results: Results, branch: str, by: int) -> None:
    """Move the scores of one branch by some offsets in every window."""
    for model, table in results.gates.items():
        window = results.models[model].window
        scores = table["score"].to_numpy().reshape(-1, window)
        moved = np.where((table["branch"] == branch).to_numpy()[::window, None], np.roll(scores, by, axis=1), scores)
        results.gates[model] = table.assign(score=moved.ravel())
