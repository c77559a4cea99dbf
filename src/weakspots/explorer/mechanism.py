"""Knockouts, gate statistics and gate cycling of every run, for the page."""

from __future__ import annotations

from weakspots.analysis import gate_preferences
from weakspots.analysis.results import Results
from weakspots.explorer.plain import counts, number, numbers
from weakspots.figures import figure_6, figure_6_grid
from weakspots.model_table import WHOLE_LAYER


def knockouts(results: Results) -> dict[str, dict]:
    """By `model/padding`: the knocked-out places (layer, head; head -1 is the whole layer) and their correct answers.

    A layer with one KV head has no row of its own: it would repeat that of the head.
    """
    found = {}
    for (model, padding), places in sorted(results.knockouts.items()):
        if (model, padding) not in results.outcomes:
            continue
        several = results.models[model].kv_heads > 1
        shown = sorted(place for place in places if several or place[1] != WHOLE_LAYER)
        found[f"{model}/{padding}"] = {
            "places": [[int(layer), int(head)] for layer, head in shown],
            "correct": [counts(places[place]) for place in shown],
        }
    return found


def gate_statistics(results: Results) -> dict[str, dict]:
    """By model: effective numbers of every gate at every checkpoint; scores and preferences by phase at the last one.

    Scores are kept for the last checkpoint only, since at the paper's scale all of them would be most of the file.
    """
    found = {}
    for model, table in results.gates.items():
        ordered = table.sort_values(["layer", "head", "branch", "step", "offset"])
        row = results.models[model]
        steps = sorted(int(step) for step in table["step"].unique())
        last, by_gate = gate_preferences.final(ordered), ["layer", "head", "branch"]
        first_offsets = ordered[ordered["offset"] == 0]
        preferences = gate_preferences.by_phase(last, row)
        found[model] = {
            "steps": steps,
            "gates": [
                {
                    "layer": int(layer),
                    "head": int(head),
                    "branch": branch,
                    "static": numbers(paths["static"]),
                    "perWindow": numbers(paths["per_window"]),
                }
                for (layer, head, branch), paths in first_offsets.groupby(by_gate)
            ],
            "scores": [numbers(scores["score"]) for _, scores in last.groupby(by_gate)],
            "preferences": [numbers(part["preference"]) for _, part in preferences.groupby(by_gate)],
            "phases": [number(part["static"].iloc[0]) for _, part in preferences.groupby(by_gate)],
            "lead": row.geometry(0).lead,
        }
    return found


def cycles(results: Results) -> dict:
    """The padding, and by model and shift what was predicted and observed; no model where none has been cycled."""
    found: dict = {"padding": results.cycling_padding, "models": {}}
    if not any((model, results.cycling_padding) in results.outcomes for model in results.cycles):
        return found
    agreed = figure_6_grid.measure(results).set_index(["model", "shift"])
    for (model, shift), table in figure_6.measure(results).groupby(["model", "shift"], sort=False):
        rated = agreed.loc[(model, shift)]
        run = found["models"].setdefault(
            model,
            {
                "stride": int(table["stride"].iloc[0]),
                "mappings": int(table["mappings"].iloc[0]),
                "n": int(table["n"].iloc[0]),
                "clean": numbers(table["clean"]),
                "shifts": {},
            },
        )
        run["shifts"][str(shift)] = {
            **{name: numbers(table[name]) for name in ("observed", "predicted", "low", "high")},
            "rSquared": numbers(rated[["r_squared", "low", "high"]]),
            "flat": number(rated["flat"]),
            "meanChange": number(rated["mean_change"]),
            "publishedRSquared": number(rated["published_r_squared"]),
            "publishedMeanChange": number(rated["published_mean_change"]),
        }
    return found
