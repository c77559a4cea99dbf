"""What a gate prefers by phase, so that it can be laid beside the losses of its knockout (Figures 4 and 5).

Offset i of a window stands at phase (i - lead) mod S, whatever the window, since windows start every S tokens. Where
windows overlap (S < W) a phase pools the offsets that stand at it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from weakspots.errors import UserError
from weakspots.model_table import ModelRow
from weakspots.statistics import effective_number

COLUMNS = ["layer", "head", "branch", "phase", "preference", "static"]
"""The columns of preferences by phase."""


def final(gates: pd.DataFrame) -> pd.DataFrame:
    """The rows of the last step in a table "gates"."""
    return gates[gates["step"] == gates["step"].max()]


def by_phase(gates: pd.DataFrame, row: ModelRow) -> pd.DataFrame:
    """The preferences of every gate at one step: layer, head, branch, phase, preference, static (`COLUMNS`).

    `gates` holds the rows of one step, as `final` gives them, and `row` is the model's. `preference` is the score
    pooled at the phase, relative to what a uniform gate gives it (1 is uniform). A value's preference is that of the
    next phase: a head that keeps a key with its successor then peaks at the same phase in both branches.

    `static` is the effective number of phases exp(H(pooled score)), from 1 to S, the same in every row of a gate. For
    W = S and a scalar gate it is the effective number of offsets. With one score per channel the scores are means over
    channels, so it is larger than the table's own, which is taken for each channel first. If S does not divide W, a
    uniform gate pools more at some phases than at others, and stays a little below S.
    Raises UserError, naming the row, for full attention and for rows of several steps or another window.
    """
    if row.gate_kind is None:
        raise UserError(f"{row.label()} has no gates: choose a row whose offsets have scores")
    table = gates.sort_values(["layer", "head", "branch", "offset"])
    offsets = np.arange(row.window)
    if len(table) % row.window or (table["offset"].to_numpy().reshape(-1, row.window) != offsets).any():
        raise UserError(
            f"the gates of {row.label()} need every offset from 0 to {row.window - 1} once: take one step of this "
            "model, as final() does"
        )
    which = table[["layer", "head", "branch"]].iloc[:: row.window]
    leads = np.array([row.geometry(layer).lead for layer in which["layer"]], dtype=np.int64)
    pooling = np.eye(row.stride)[(offsets - leads[:, None]) % row.stride]  # [gates, W, S]
    pooled = np.einsum("gw,gws->gs", table["score"].to_numpy(np.float64).reshape(-1, row.window), pooling)
    pooled /= pooled.sum(axis=1, keepdims=True)  # scores are stored as float32, which sum to 1 only nearly
    preference = pooled / pooling.mean(axis=1)
    values = (which["branch"] == "value").to_numpy()
    preference[values] = np.roll(preference[values], -1, axis=1)
    found = which.loc[which.index.repeat(row.stride)].reset_index(drop=True)
    found["phase"] = np.tile(np.arange(row.stride), len(which))
    found["preference"] = preference.ravel()
    found["static"] = effective_number(pooled).repeat(row.stride)
    return found[COLUMNS]
