"""The paper's own figures (arXiv 2609.36322), read off its web page: what a reader compares results with."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources

import numpy as np
import pandas as pd

from weakspots.config import PADDINGS

CAPTION = "paper, Qwen3-0.6B, 100B tokens"
"""How a figure names the paper's own curves."""


@cache
def figures() -> dict:
    """Everything in `resources/published.json`; its key `about` says how the figures were read."""
    return json.loads((resources.files("weakspots") / "resources" / "published.json").read_text())


def profile(model: str, padding: str) -> np.ndarray | None:
    """[24] accuracy in percent by target-key position mod 24, or None where the paper shows no such run."""
    values = figures()["models"].get(model, {}).get(padding)
    return None if values is None else np.array(values)


def profiles() -> pd.DataFrame:
    """Every published profile: columns model, padding, position, accuracy (percent)."""
    found = [
        pd.DataFrame({"model": model, "padding": padding, "position": range(len(values)), "accuracy": values})
        for model in figures()["models"]
        for padding in PADDINGS
        if (values := profile(model, padding)) is not None
    ]
    return pd.concat(found, ignore_index=True)


def summary() -> pd.DataFrame:
    """Mean, worst position and gap in percent of every published profile, and the run's validation loss (nats).

    Columns model, padding, validation_loss, mean, worst, gap; computed from the profiles.
    """
    by_run = profiles().groupby(["model", "padding"], sort=False)["accuracy"]
    rows = by_run.agg(mean="mean", worst="min", gap=np.ptp).reset_index()
    losses = {model: run["validation_loss"] for model, run in figures()["models"].items()}
    rows.insert(2, "validation_loss", rows["model"].map(losses))
    return rows


def gate_cycling_r_squared(model: str, shift: int) -> float | None:
    """Squared correlation of predicted and observed change without the boundary phase, or None if not published."""
    return _cycled("gate_cycling_r2_excluding_boundary", model, shift)


def gate_cycling_mean_change(model: str, shift: int) -> float | None:
    """Change of the mean accuracy in percentage points after cycling the gates, or None if not published."""
    return _cycled("gate_cycling_mean_accuracy_change_pp", model, shift)


def _cycled(name: str, model: str, shift: int) -> float | None:
    table = figures()[name]
    return dict(zip(table["shifts"], table.get(model, []), strict=False)).get(shift)


CAPTION_DEEPSEEK = "paper, 128K tokens"
"""How a figure names the paper's own needle curves of DeepSeek's models."""

FOLLOWING = {"flash-base": (60, 64)}
"""How many of how many rankings of the code completion follow the period of four, by model."""

SECOND_ON_TOP = {"v3.1-base": (4, 64)}
"""After how many of how many inputs `32` is likelier than `8`, by model."""


def needle(model: str) -> tuple[np.ndarray, int] | None:
    """[8] prompts answered correctly by residue mod 8, and how many each residue has; None if not published."""
    table = figures()["deepseek_needle_correct_by_residue_mod_8"]
    prompts = table["prompts_per_residue"].get(model)
    return None if prompts is None else (np.array(table[model]), prompts)


def code_completion(model: str) -> pd.DataFrame | None:
    """Probabilities of `8` and `32` by docstring length: columns length, first, second; None if not published."""
    if model != "flash-base":
        return None
    table = figures()["deepseek_code_completion_flash_base"]
    return pd.DataFrame({"length": table["L"], "first": table["P8"], "second": table["P32"]})


def layer_knockout(model: str) -> dict[int, np.ndarray]:
    """[8] change of accuracy by residue mod 8 in percent of the clean one, by layer; empty if not published."""
    if model != "flash-base":
        return {}
    table = figures()["deepseek_layer_knockout_percent_by_residue_mod_8"]
    return {int(layer): np.array(values) for layer, values in table.items()}
