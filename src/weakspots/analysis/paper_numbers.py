"""The paper's own figures (arXiv 2609.36322), read off its web page: what a reader compares results with."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from weakspots.config import PADDINGS

CAPTION = "paper, Qwen3-0.6B, 100B tokens"
"""How a figure names the paper's own curves."""

CAPTION_DEEPSEEK = "paper, 128K tokens"
"""How a figure names the paper's own needle curves of DeepSeek's models."""


@cache
def _published() -> dict:
    """Everything in `resources/published.json`; its key `about` says how the figures were read."""
    return json.loads((resources.files("weakspots") / "resources" / "published.json").read_text())


# The models that the paper trains


def models() -> dict[str, dict]:
    """What is published of each model that the paper trains, by its name in the model table.

    Every model has window and stride (None: full attention), kv_heads, validation_loss (nats), and by padding the
    accuracy in percent by position mod 24 with mean and gap (estimate, low, high); None where the paper shows none.
    `by_model` has the measures that only some have.
    """
    return _published()["models"]


def by_model(measure: str) -> dict[str, Any]:
    """One measure of the models that the paper shows it for.

    By layer, then by phase: `knockout_percent_by_phase`, `key_gate_share_of_uniform` and
    `value_gate_share_rolled_back_one`. By layer: `knockout_percent` and `effective_offsets_static_and_per_window`. By
    shift: `r2_excluding_boundary` and `mean_accuracy_change_pp` of `gate_cycling`.
    """
    return {model: run[measure] for model, run in models().items() if measure in run}


def profile(model: str, padding: str) -> np.ndarray | None:
    """[24] accuracy in percent by target-key position mod 24, or None where the paper shows no such run."""
    shown = models().get(model, {}).get(padding)
    return None if shown is None else np.array(shown["accuracy"])


def profiles() -> pd.DataFrame:
    """Every published profile: columns model, padding, position, accuracy (percent)."""
    found = [
        pd.DataFrame({"model": model, "padding": padding, "position": range(len(values)), "accuracy": values})
        for model in models()
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
    losses = {model: run["validation_loss"] for model, run in models().items()}
    rows.insert(2, "validation_loss", rows["model"].map(losses))
    return rows


def gate_cycling_shifts() -> list[int]:
    """The shifts by which the paper cycles gates."""
    return _published()["gate_cycling_shifts"]


def gate_cycling_r_squared(model: str, shift: int) -> float | None:
    """Squared correlation of predicted and observed change without the boundary phase, or None if not published."""
    return _gate_cycling("r2_excluding_boundary", model, shift)


def gate_cycling_mean_change(model: str, shift: int) -> float | None:
    """Change of the mean accuracy in percentage points after cycling the gates, or None if not published."""
    return _gate_cycling("mean_accuracy_change_pp", model, shift)


def _gate_cycling(measure: str, model: str, shift: int) -> float | None:
    shown = by_model("gate_cycling").get(model)
    return None if shown is None else dict(zip(gate_cycling_shifts(), shown[measure], strict=True)).get(shift)


# DeepSeek's models


class Share(NamedTuple):
    """So many of a whole."""

    part: int
    whole: int

    def __str__(self) -> str:
        return f"{self.part} of {self.whole}"


def needle(model: str) -> tuple[np.ndarray, int] | None:
    """[8] prompts answered correctly by residue mod 8, and how many each residue has; None if not published."""
    shown = _of_deepseek(model, "needle")
    return None if shown is None else (np.array(shown["correct_by_residue"]), shown["prompts_per_residue"])


def needles() -> dict[str, tuple[np.ndarray, int]]:
    """`needle` of every model of DeepSeek's that the paper shows it for."""
    return {model: shown for model in _published()["deepseek"] if (shown := needle(model)) is not None}


def code_completion(model: str) -> pd.DataFrame | None:
    """Probabilities of `8` and `32` by docstring length: columns length, first, second; None if not published."""
    shown = _of_deepseek(model, "code_completion")
    if shown is None:
        return None
    return pd.DataFrame(
        {"length": shown["length"], "first": shown["first_probability"], "second": shown["second_probability"]}
    )


def following() -> dict[str, Share]:
    """How many of all rankings of the code completion follow the period of four, by model."""
    return _rankings("following")


def second_on_top() -> dict[str, Share]:
    """After how many of all inputs `32` is likelier than `8`, by model."""
    return _rankings("second_on_top")


def layer_knockout(model: str) -> dict[int, np.ndarray]:
    """[8] change of accuracy by residue mod 8 in percent of the clean one, by layer; empty if not published."""
    shown = _of_deepseek(model, "layer_knockout_percent_by_residue") or {}
    return {int(layer): np.array(values) for layer, values in shown.items()}


def _of_deepseek(model: str, measure: str) -> dict | None:
    return _published()["deepseek"].get(model, {}).get(measure)


def _rankings(measure: str) -> dict[str, Share]:
    shown = {model: run["rankings"] for model, run in _published()["deepseek"].items() if "rankings" in run}
    return {model: Share(counts[measure], counts["asked"]) for model, counts in shown.items() if measure in counts}
