"""Heads of trained models beside the idealised model: which offsets their gates prefer. A description only.

The idealised model has one layer, no exact tokens, no boundary phase and windows that do not overlap. Positions here
are offsets within a window; where windows overlap (W > S) several offsets meet the same phase.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from weakspots.analysis.gate_preferences import final
from weakspots.statistics import wilson

CONCENTRATED = 2.0
"""Static effective number of offsets up to which a trained gate is listed: looser than the theory's 1.05."""


def describe(gates: dict[str, pd.DataFrame], concentrated: float = CONCENTRATED) -> pd.DataFrame:
    """One row per model, layer and head of gate tables (kind "gates", by model), at the last step.

    Columns model, layer, head, positions (W), key_position, value_position (offsets from 0, of the largest mean score),
    key_effective, value_effective (static effective numbers), concentrated (both at most `concentrated`), successor
    (the value one after the key). Heads with tied branches have no value of their own and are left out.
    """
    rows = []
    for name, table in gates.items():
        last = final(table)
        for (layer, head), part in last.groupby(["layer", "head"]):
            branches = {branch: offsets.set_index("offset") for branch, offsets in part.groupby("branch")}
            if set(branches) != {"key", "value"}:
                continue
            key, value = branches["key"], branches["value"]
            effective = float(key["static"].iloc[0]), float(value["static"].iloc[0])
            place = int(key["score"].idxmax()), int(value["score"].idxmax())
            judged = max(effective) <= concentrated, place[1] == place[0] + 1
            rows.append([name, layer, head, len(key), *place, *effective, *judged])
    columns = ["model", "layer", "head", "positions", "key_position", "value_position", "key_effective"]
    return pd.DataFrame(rows, columns=[*columns, "value_effective", "concentrated", "successor"])


def summarise(described: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """One row per model of `describe`: how many of its concentrated heads have their value one after the key.

    Columns model, heads, concentrated (how many), successor (how many of these), share, low, high (Wilson's interval;
    it takes heads as independent, which those of one model need not be), chance (all in percent), key_positions (how
    many different ones the concentrated heads have). Chance is independent uniform choice of both offsets among W:
    W - 1 of the W^2 pairs have the value one after the key. A model without concentrated heads has no share.
    """
    rows = []
    for model, heads in described.groupby("model", sort=False):
        kept, width = heads[heads["concentrated"]], int(heads["positions"].iloc[0])
        n, good = len(kept), int(kept["successor"].sum())
        low, high = wilson(good, n, confidence) if n else (np.nan, np.nan)
        share = 100 * good / n if n else np.nan
        chance = 100 * (width - 1) / width**2
        rows.append([model, len(heads), n, good, share, low, high, chance, kept["key_position"].nunique()])
    columns = ["model", "heads", "concentrated", "successor", "share", "low", "high", "chance", "key_positions"]
    return pd.DataFrame(rows, columns=columns)
