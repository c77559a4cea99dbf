"""The columns of the theory's tables (section "Why compression concentrates" of the paper), in order."""

from __future__ import annotations

import pyarrow as pa

_Columns = dict[str, pa.DataType]

# Required columns, then those that may hold missing values.
THEORY_TABLES: dict[str, tuple[_Columns, _Columns]] = {
    # One row per point of the loss of one head, S = 3: key weights (u, 1 - u, 0), value weights (0, w, 1 - w).
    "landscape": (
        {"u": pa.float64(), "w": pa.float64(), "loss": pa.float64()},
        {},
    ),
    # One row per shape and N: descents beside all one-hot assignments; margin: of distinct over coincident positions.
    "minima": (
        {
            "positions": pa.int16(),
            "heads": pa.int16(),
            "vocabulary": pa.int64(),
            "starts": pa.int32(),
            "converged": pa.int32(),
            "concentrated": pa.int32(),
            "loss": pa.float64(),
            "one_hot_loss": pa.float64(),
            "best_concentrated": pa.bool_(),
            "distinct_optimal": pa.bool_(),
            "seed": pa.int64(),
        },
        {"margin": pa.float64()},
    ),
    # One row per shape: the power of N in the margin, with its interval.
    "exponent": (
        {
            "positions": pa.int16(),
            "heads": pa.int16(),
            "exponent": pa.float64(),
            "low": pa.float64(),
            "high": pa.float64(),
            "prefactor": pa.float64(),
            "count": pa.int32(),
            "fit_from": pa.int64(),
        },
        {},
    ),
    # One row per N, epsilon and context; converged in percent of the starts.
    "map": (
        {
            "vocabulary": pa.int64(),
            "epsilon": pa.float64(),
            "context": pa.int32(),
            "geometry_error": pa.float64(),
            "concentrated": pa.bool_(),
            "distinct": pa.bool_(),
            "loss": pa.float64(),
            "converged": pa.float64(),
            "seed": pa.int64(),
        },
        {},
    ),
    # One row per ensemble, run and head at the end of the common flow; escape: when the key's effective number first is
    # at most sqrt(S - 1), in units of 1 / escape rate.
    "heads": (
        {
            "positions": pa.int16(),
            "heads": pa.int16(),
            "vocabulary": pa.int64(),
            "rho": pa.float64(),
            "run": pa.int32(),
            "head": pa.int16(),
            "key_position": pa.int16(),
            "value_position": pa.int16(),
            "key_effective": pa.float64(),
            "value_effective": pa.float64(),
            "concentrated": pa.bool_(),
            "seed": pa.int64(),
        },
        {"escape": pa.float64()},
    ),
    # One row per shape and N whose radius is varied: how the time to choose (mean of a run's heads) grows with
    # log(1/rho). runs: fitted; censored: left out, because one of their heads never chose.
    "escape": (
        {
            "positions": pa.int16(),
            "heads": pa.int16(),
            "vocabulary": pa.int64(),
            "runs": pa.int32(),
            "censored": pa.int32(),
        },
        {"slope": pa.float64(), "low": pa.float64(), "high": pa.float64()},
    ),
    # One row per ensemble and number of covered positions; shares in percent. runs: those all of whose heads are
    # concentrated; unconcentrated: the others, left out; coincident: how many of both have two heads on one position.
    "coverage": (
        {
            "positions": pa.int16(),
            "heads": pa.int16(),
            "vocabulary": pa.int64(),
            "rho": pa.float64(),
            "covered": pa.int16(),
            "runs": pa.int32(),
            "unconcentrated": pa.int32(),
            "coincident": pa.int32(),
            "independent": pa.float64(),
            "mean_independent": pa.float64(),
            "seed": pa.int64(),
        },
        {
            "share": pa.float64(),
            "low": pa.float64(),
            "high": pa.float64(),
            "mean": pa.float64(),
            "p_value": pa.float64(),
        },
    ),
    # One row per run and phase 0..S-2.
    "retrieval": (
        {
            "positions": pa.int16(),
            "heads": pa.int16(),
            "vocabulary": pa.int64(),
            "rho": pa.float64(),
            "run": pa.int32(),
            "phase": pa.int16(),
            "retrieved": pa.bool_(),
            "probability": pa.float64(),
            "seed": pa.int64(),
        },
        {},
    ),
    # One row per run of the token flow, head, branch and time: effective numbers as in Figure 4.
    "trajectories": (
        {
            "vocabulary": pa.int64(),
            "rho": pa.float64(),
            "run": pa.int32(),
            "head": pa.int16(),
            "time": pa.float64(),
            "branch": pa.string(),
            "static": pa.float64(),
            "per_window": pa.float64(),
            "seed": pa.int64(),
        },
        {},
    ),
    # One row per run of the token flow and head, at the end; weights are lower bounds over all contexts.
    "tokens": (
        {
            "vocabulary": pa.int64(),
            "rho": pa.float64(),
            "run": pa.int32(),
            "head": pa.int16(),
            "key_position": pa.int16(),
            "predicted_position": pa.int16(),
            "key_weight": pa.float64(),
            "value_weight": pa.float64(),
            "loss": pa.float64(),
            "standard_error": pa.float64(),
            "contexts": pa.int32(),
            "seed": pa.int64(),
        },
        {},
    ),
    # One row: what all intervals and random cases of these tables rest on.
    "settings": (
        {"confidence": pa.float64(), "seed": pa.int64()},
        {},
    ),
}
"""By name of the table, as `theory.compute.compute` names them."""
