"""Knockouts, gates and cycled models with a planted answer, in which what the paper finds holds.

Full attention loses alike at every phase. In compressed models with a learned gate layer 0 matters everywhere and its
gate follows the content, while the specialised heads lose one to three adjacent phases, at which their key gate peaks;
their value gate peaks one offset later. Cycling moves the profile within the window and leaves the boundary phase.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd
from planted import ROWS as LOOKUP_ROWS
from planted import WEAK_BOUNDARY, answers

from weakspots.analysis.results import Results
from weakspots.compressors.base import BRANCHES
from weakspots.config import PADDINGS, Statistics
from weakspots.files.tables import SCHEMAS
from weakspots.model_table import WHOLE_LAYER, ModelRow, model_row

DEEPSEEK = model_row(compressor="deepseek", gate="scalar", rope_fraction=1.0)

ROWS = LOOKUP_ROWS | {
    "w8s8-4kv": model_row(kv_heads=4),
    "w8s8-1kv-tied": model_row(tied=True),
    "w8s8-1kv-vector": model_row(gate="vector"),
    "w8s4-1kv-deepseek-scalar": DEEPSEEK,
    "w12s12-4kv": model_row(window=12, stride=12, kv_heads=4),
}
"""A small model table with a row for every kind of gate."""

PROFILES = WEAK_BOUNDARY | {6: [80.0, 35, 70, 45, 60, 10]}
"""Clean accuracies in percent by phase, by stride; full attention is flat."""

CYCLED = ("w12s12-1kv", "w12s12-4kv", "w8s8-1kv", "w8s8-1kv-seed43", "w8s8-1kv-seed44")
SHIFTS = (-3, -2, -1, 1, 2, 3)
STEPS = (0, 200, 1000)
CYCLED_MAPPINGS = 192
EVERYWHERE = 90.0
"""Percent of its answers that a model loses with layer 0, at every phase."""


def specialised(row: ModelRow, layers: int) -> dict[tuple[int, int], int]:
    """The phase at which each specialised head of a compressed model with a learned gate peaks, by layer and head."""
    if row.gate_kind in (None, "uniform"):
        return {}
    where = (9, 10, 14) if layers > 14 else range(1, layers)
    heads = [(layer, head) for layer in where for head in range(row.kv_heads)]
    inside = row.stride - 1  # the boundary phase belongs to no head
    return {head: (inside - 2 - 2 * number) % inside for number, head in enumerate(heads)}


def peaked(row: ModelRow, phase: int, length: int) -> np.ndarray:
    """[length] weights around `phase`, 1 at the peak: two or three phases wide with one KV head, one with several."""
    width = 0.4 if row.kv_heads > 1 else 0.9
    return np.exp(-0.5 * ((np.arange(length) - phase) / width) ** 2)


def lost(row: ModelRow, layer: int, head: int, layers: int) -> np.ndarray:
    """[period] percent of the clean accuracy that is lost by phase when a head is knocked out; negative: gained."""
    period = row.period or 1
    if layer == 0:
        return np.full(period, EVERYWHERE if row.kv_heads == 1 else EVERYWHERE / 2)
    phase = specialised(row, layers).get((layer, head))
    if phase is None:
        return np.full(period, 30.0 if layer == 1 and not row.compressed else 0.0)
    weights = peaked(row, phase, period)
    return np.where(weights > 0.3, 95 * weights, 0.0) - 15.0 * (np.arange(period) == (phase + 3) % period)


def knocked(clean: np.ndarray, percent: Iterable[float], seed: int) -> np.ndarray:
    """[mappings, modulus] the clean answers less `percent` of them by phase, or so many more where it is negative."""
    share = np.tile(np.array(list(percent)), clean.shape[1] // len(list(percent))) / 100
    rate = clean.mean(axis=0).clip(max=0.99)
    drawn = np.random.default_rng(seed).random(clean.shape)
    return (clean & (drawn >= share)) | (~clean & (drawn < -share * rate / (1 - rate)))


def planted_mechanism(
    rows: dict[str, ModelRow] = ROWS,
    layers: int = 2,
    changes: dict[str, Iterable[float] | None] | None = None,
    losses: dict[str, dict[tuple[int, int], Iterable[float]]] | None = None,
) -> Results:
    """Results with knockouts, gates and cycled models in which every claim of the mechanism holds.

    `changes` replaces clean accuracies by phase, as in `planted`; `losses` what a model loses by phase (percent of its
    clean accuracy) with a head, by layer and head.
    """
    results = Results("planted", dict(rows), Statistics(bootstrap=200), _lookups(rows, changes or {}))
    for (model, padding), clean in results.outcomes.items():
        row, own = rows[model], (losses or {}).get(model, {})
        kept = results.knockouts.setdefault((model, padding), {})
        for layer in range(layers):
            whole = clean
            for head in range(row.kv_heads):
                percent = own.get((layer, head), lost(row, layer, head, layers))
                kept[layer, head] = knocked(clean, percent, seed=10_000 + 1000 * layer + head)
                whole = whole & kept[layer, head]
            kept[layer, WHOLE_LAYER] = whole if row.kv_heads > 1 else kept[layer, 0]
    results.gates = {model: gates(row, layers) for model, row in rows.items() if row.compressed}
    for model in CYCLED:
        if (model, results.cycling_padding) in results.outcomes:
            results.cycles[model] = dict(_cycles(results, model))
    return results


def _lookups(
    rows: dict[str, ModelRow], changes: dict[str, Iterable[float] | None]
) -> dict[tuple[str, str], np.ndarray]:
    """Clean answers by model and padding."""
    percent = {model: PROFILES.get(row.period, [70.0]) for model, row in rows.items()} | changes
    runs = [(model, padding) for model in rows if percent[model] is not None for padding in PADDINGS]
    return {(model, padding): answers(percent[model], seed=seed) for seed, (model, padding) in enumerate(runs)}


def gates(row: ModelRow, layers: int) -> pd.DataFrame:
    """The gate statistics of a compressed model: uniform at first, then static or following the content."""
    rows = []
    for step in STEPS:
        for layer in range(layers):
            for head in range(row.kv_heads):
                for later, branch in enumerate(BRANCHES[: 1 if row.tied else 2]):
                    score, per_window = _gate(row, layer, head, later, layers, step / STEPS[-1])
                    about, static = (step, layer, head, branch), _effective(score)
                    rows += [(*about, offset, share, static, per_window) for offset, share in enumerate(score)]
    return pd.DataFrame(rows, columns=SCHEMAS["gates"].names)


def _gate(row: ModelRow, layer: int, head: int, later: int, layers: int, trained: float) -> tuple[np.ndarray, float]:
    """Mean score by offset and per-window effective number of one gate; `trained` runs from 0 to 1."""
    uniform = np.full(row.window, 1 / row.window)
    if row.gate_kind == "uniform":
        return uniform, float(row.window)
    phase = specialised(row, layers).get((layer, head))
    if phase is None:  # uniform on average, and concentrated on other offsets in every window
        follows = 1 + (row.window - 1) * (0.2 + 0.6 * ((7 * layer + 3 * head) % 10) / 10)
        return uniform, row.window * 0.95 * (1 - trained) + follows * trained
    weights = peaked(row, phase + row.geometry(0).lead + later, row.window) + 0.02
    score = (1 - trained) * uniform + trained * weights / weights.sum()
    return score, _effective(score) * (0.97 - 0.05 * trained)


def _effective(score: np.ndarray) -> float:
    return float(np.exp(-(score * np.log(score)).sum()))


def _cycles(results: Results, model: str) -> Iterator[tuple[int, np.ndarray]]:
    """Answers of a cycled model: the profile moves by the shift, 5 % lower, but for the boundary phase."""
    stride = results.models[model].stride
    clean = results.outcomes[model, results.cycling_padding]
    accuracy = 100 * clean.mean(axis=0).reshape(-1, stride).mean(axis=0)
    for shift in SHIFTS:
        moved = 0.95 * np.roll(accuracy, shift)
        moved[stride - 1] = accuracy[stride - 1]
        yield shift, answers(moved, clean.shape[1], CYCLED_MAPPINGS, seed=100 + shift)
