"""Answers of DeepSeek's models and their stand-ins with a planted answer, in which what the paper finds holds."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from weakspots.analysis import paper_numbers
from weakspots.analysis.results import Results
from weakspots.config import Statistics
from weakspots.config.deepseek import DeepseekModel, StandInShape
from weakspots.model_table import CLEAN

STAND_INS = {
    "stand-in": DeepseekModel(
        label="stand-in", stride=4, stand_in=StandInShape(layers=["compressed_sparse_attention"])
    ),
    "stand-in-flat": DeepseekModel(
        label="flat", stand_in=StandInShape(architecture="deepseek_v3", layers=["full_attention"])
    ),
}
THEIRS = {
    "flash-base": DeepseekModel(label="DeepSeek-V4-Flash-Base", stride=4),
    "flash-0731": DeepseekModel(label="DeepSeek-V4-Flash-0731", stride=4),
    "pro-base": DeepseekModel(label="DeepSeek-V4-Pro-Base", stride=4),
    "pro-0813": DeepseekModel(label="DeepSeek-V4-Pro-0813", stride=4),
    "v4.1-flash": DeepseekModel(label="DeepSeek-V4.1-Flash", stride=2),
    "v3.1-base": DeepseekModel(label="DeepSeek-V3.1-Base"),
}
ROWS = THEIRS | STAND_INS
"""The model table of the configuration."""

PROFILE = [14.0, 14, 91, 70]
"""The stand-in's accuracies in percent by phase, as a probe found them."""

FAMILIES = ("equals", "dashes", "asterisks", "dots")
LENGTHS = np.arange(24, 40)


PROMPTS = {"v4.1-flash": 2560}
"""Per residue, where they are not 256."""


def needles() -> dict[str, list[float]]:
    """Accuracies in percent by residue: the published ones, a flat control, and a probe's stand-in."""
    found = {model: paper_numbers.needle(model) for model in THEIRS}
    theirs = {model: list(100 * known[0] / known[1]) for model, known in found.items() if known}
    return theirs | {"v3.1-base": [93.0], "stand-in": PROFILE, "stand-in-flat": [98.0]}


def counted(percent: Iterable[float], prompts: int = 256, seed: int = 0) -> np.ndarray:
    """[prompts, 8] answers of which exactly so many are right at every residue, repeated over the residues.

    A mapping that is hard is hard at every residue, as where the same words are asked for.
    """
    right = np.resize(np.array(list(percent)), 8) * prompts / 100
    return np.random.default_rng(seed).permutation(prompts)[:, None] < np.round(right)


def completion(period: int = 4, first_phases: Iterable[int] = (2, 3), against: int = 0) -> pd.DataFrame:
    """A table "code_completion" in which `8` is on top at these phases, but for the first `against` rankings."""
    lengths = np.tile(LENGTHS, len(FAMILIES))
    first = np.isin(lengths % period, list(first_phases))
    first[:against] = ~first[:against]
    probability = np.where(first, 0.9, 0.2)
    return pd.DataFrame(
        {
            "family": np.repeat(list(FAMILIES), len(LENGTHS)),
            "length": lengths,
            "equals": lengths - 15,
            "source": "stand-in module",
            "first_logprob": np.log(probability),
            "second_logprob": np.log(0.95 - probability),
        }
    )


def knockouts(clean: np.ndarray, lost: dict[int, Iterable[float]], seed: int = 0) -> dict[int, np.ndarray]:
    """Outcomes by layer: the model as it is, and each layer's knockout, which loses so many percent by residue."""
    modulus, found = clean.shape[1], {CLEAN: clean}
    for layer, percent in lost.items():
        share = np.resize(np.array(list(percent)), modulus) / 100
        found[layer] = clean & (np.random.default_rng([seed, layer]).random(clean.shape) >= share)
    return found


LOST = {0: [90.0], 1: [0.0, 10, 80, 50], 2: [0.0], 3: [80.0, 60, 5, 20]}
"""Percent lost by phase, by layer: one everywhere, two with the stride, one nothing."""


def planted_deepseek(
    changes: dict[str, Iterable[float] | None] | None = None,
    run: Iterable[str] = tuple(ROWS),
    completions: dict[str, pd.DataFrame] | None = None,
    lost: dict[str, dict[int, Iterable[float]]] | None = None,
) -> Results:
    """Results of the models in `run`, the rest not run.

    `changes` replaces accuracies by residue, or removes a model with None; `completions` tables of the completion,
    `lost` what layer knockouts lose.
    """
    percent = {model: values for model, values in {**needles(), **(changes or {})}.items() if values is not None}
    results = Results("planted", {}, Statistics(bootstrap=200), {}, deepseek=dict(ROWS))
    for number, model in enumerate(ROWS):
        if model in run and model in percent:
            results.needles[model] = counted(percent[model], PROMPTS.get(model, 256), seed=number)
    usual = {"flash-base": completion(), "v3.1-base": completion(first_phases=range(4), against=4)}
    results.completions = {model: table for model, table in {**usual, **(completions or {})}.items() if model in run}
    for number, (model, layers) in enumerate({"flash-base": LOST, "stand-in": LOST, **(lost or {})}.items()):
        if model in run:
            clean = counted([80.0, 60, 90, 40], 128, seed=50 + number)
            results.layer_knockouts[model] = knockouts(clean, layers)
    return results
