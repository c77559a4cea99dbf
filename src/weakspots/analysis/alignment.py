"""How far a head's gate prefers the phases at which the head's knockout loses most (Figure 5)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from weakspots import statistics
from weakspots.analysis import gate_preferences, phase_losses
from weakspots.analysis.results import Results
from weakspots.compressors.base import BRANCHES
from weakspots.errors import UserError
from weakspots.model_table import WHOLE_LAYER

COLUMNS = ["layer", "head", "branch", "correlation", "static", "lost", "n_phases"]
"""The columns of the alignment by head."""


def by_head(results: Results, model: str, padding: str = "prefix") -> pd.DataFrame:
    """Every gate of a model beside the losses of its head: one row per layer, head and branch (`COLUMNS`).

    `correlation` is Spearman's, of the gate's preference and the percent lost by phase, over the `n_phases`
    retrievable phases; nan with fewer than three of them, or where one of the two does not vary. `static` is the
    gate's effective number of phases, and `lost` the most that the head's knockout loses at a retrievable phase, in
    percent. Raises UserError, naming the model, for full attention and where something has not been run.
    """
    row = results.models[model]
    if row.gate_kind is None:
        raise UserError(f"{model} ({row.label()}) has no gates to compare with its knockouts: choose a compressed row")
    if not _measured(results, model, padding):
        raise UserError(
            f"{model} has no gate statistics or knockouts under {padding} padding yet: run `snakemake gates knockout`"
        )
    clean = statistics.profile(results.outcomes[model, padding])
    knocked = {head: found for head, found in results.knockouts[model, padding].items() if head[1] != WHOLE_LAYER}
    profiles = np.stack([statistics.profile(outcomes) for outcomes in knocked.values()])
    kept = phase_losses.retrievable(clean, row.stride)
    losses = dict(zip(knocked, -phase_losses.change(clean, profiles, row.stride)[:, kept], strict=True))

    preferences = gate_preferences.by_phase(gate_preferences.final(results.gates[model]), row)
    found = preferences[preferences["phase"] == 0].drop(columns=["phase", "preference"]).reset_index(drop=True)
    preference = preferences["preference"].to_numpy().reshape(-1, row.stride)[:, kept]
    lost = np.stack([losses[head] for head in zip(found["layer"], found["head"], strict=True)])
    found["correlation"] = spearman(preference, lost)
    found["lost"] = lost.max(axis=1) if kept.any() else np.nan
    found["n_phases"] = int(kept.sum())
    return found[COLUMNS]


def concentrated(results: Results, padding: str = "prefix") -> pd.DataFrame:
    """The rows of `by_head`, after the column model, of every head whose key gate and whose losses are concentrated.

    Its key gate's effective number of phases is at most S/2, and its knockout loses at least
    `phase_losses.CONCENTRATED` percent at some phase. Models whose gates or knockouts have not been run are absent.
    """
    parts = [pd.DataFrame(columns=["model", *COLUMNS])]
    for model, row in results.models.items():
        if row.gate_kind is not None and _measured(results, model, padding):
            table = by_head(results, model, padding)
            keys = table["static"].where(table["branch"] == "key")
            static = keys.groupby([table["layer"], table["head"]]).transform("max")
            chosen = table[(static <= row.stride / 2) & (table["lost"] >= phase_losses.CONCENTRATED)]
            parts.append(chosen.assign(model=model))
    found = [part for part in parts if len(part)] or parts
    return pd.concat(found, ignore_index=True)[["model", *COLUMNS]]


def pooled(results: Results, padding: str = "prefix") -> pd.DataFrame:
    """Mean correlation over all `concentrated` heads: index branch (key, value), columns correlation, low, high, heads.

    The interval is a bootstrap over heads, which takes the heads of one model as independent. `heads` is their number;
    a head without a correlation does not count, and without any the mean and its interval are nan.
    """
    table, settings = concentrated(results, padding), results.statistics
    rows = {}
    for branch in BRANCHES:
        values = table.loc[table["branch"] == branch, "correlation"].dropna().to_numpy(np.float64)
        low = high = np.nan
        if len(values):
            drawn = statistics.bootstrap(values[:, None], settings.bootstrap, settings.seed) / 100
            low, high = statistics.interval(drawn[:, 0], settings.confidence)
        rows[branch] = (values.mean() if len(values) else np.nan, low, high, len(values))
    found = pd.DataFrame.from_dict(rows, orient="index", columns=["correlation", "low", "high", "heads"])
    return found.rename_axis("branch")


def spearman(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """[...] Spearman's correlation along the last axis of two arrays of one shape; ties get their mean rank.

    nan with fewer than three values, or where either side does not vary.
    """
    if left.shape[-1] < 3:
        return np.full(left.shape[:-1], np.nan)
    # to nine digits: what differs by rounding alone, such as the scores of a uniform gate, is a tie
    ranks = [rankdata(np.round(side, 9), axis=-1) for side in (left, right)]
    one, other = (side - side.mean(axis=-1, keepdims=True) for side in ranks)
    size = np.sqrt(np.square(one).sum(axis=-1) * np.square(other).sum(axis=-1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(size > 0, (one * other).sum(axis=-1) / size, np.nan)


def _measured(results: Results, model: str, padding: str) -> bool:
    run = (model, padding)
    return model in results.gates and run in results.knockouts and run in results.outcomes
