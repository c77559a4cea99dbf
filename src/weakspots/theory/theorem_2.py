"""Tables of Theorem 2: where gradient flow takes the heads, by themselves and token by token.

Losses are in nats, times in units of 1 / escape rate; positions and phases count from 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.special import softmax

from weakspots.config.theory import Shape, Theory
from weakspots.statistics import effective_number
from weakspots.theory import coverage, geometry, model
from weakspots.theory import gradient_flow as flow
from weakspots.theory.cases import scales_of, seed_of, streams
from weakspots.theory.geometry import Context
from weakspots.theory.model import Scales

SNAPSHOTS = 100
"""Times at which a flow is looked at, evenly spaced in their logarithm."""


def ensembles(settings: Theory) -> Iterator[tuple[Shape, int, float]]:
    """Shape, N and rho of every ensemble of common flows: first m = 1 .. S - 1 for every S, then the sweep."""
    chosen = settings.flow
    for positions in chosen.positions:
        for heads in range(1, positions):
            yield Shape(positions=positions, heads=heads), chosen.vocabulary, chosen.rho
    usual = (chosen.vocabulary, chosen.rho) if chosen.sweep.positions in chosen.positions else None
    for vocabulary in chosen.sweep_vocabularies:
        for rho in chosen.sweep_rhos:
            if (vocabulary, rho) != usual:
                yield chosen.sweep, vocabulary, rho


def common_flows(settings: Theory) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Theorem 2 with gates that are equal for all tokens: where every head ends, and what is retrieved then.

    Exact for such gates; the token-specific part of a start, second order in rho, is left out.

    `heads`, one row per ensemble, run and head: positions, heads, vocabulary, rho, run, head, key_position,
    value_position, key_effective, value_effective, concentrated, escape (when the key's effective number first was at
    most sqrt(S - 1), half way from S - 1 to 1; missing if never), seed. `retrieval`, one row per run and phase
    0 .. S - 2 of the ensembles that are not the sweep: retrieved, probability (of the successor).
    """
    heads, retrieval = [], []
    for shape, vocabulary, rho in ensembles(settings):
        case = {"positions": shape.positions, "heads": shape.heads, "vocabulary": vocabulary, "rho": float(rho)}
        seed, place = seed_of(settings, "flow", *case.values()), (settings.flow.chunks, shape.positions)
        context = geometry.symmetric_context(vocabulary, *place, settings.kappa)
        start = flow.initial_scores(
            settings.flow.runs, shape.heads, shape.positions, vocabulary, settings.kappa, rho, seed
        )
        times, escape_rate = _times(settings, *place, vocabulary, rho, settings.flow.duration)
        rate = settings.kappa + 1 / vocabulary
        scores = flow.common_flow(context, scales_of(settings), rate, start, times / escape_rate)
        gates = softmax(scores[-1], axis=-1)
        heads.append(pd.DataFrame({**case, **_ends(gates), "escape": _escape(scores, times), "seed": seed}))
        if (vocabulary, rho) == (settings.flow.vocabulary, settings.flow.rho):
            retrieval.append(pd.DataFrame({**case, **_retrieval(context, scales_of(settings), gates), "seed": seed}))
    return pd.concat(heads, ignore_index=True), pd.concat(retrieval, ignore_index=True)


def token_flows(settings: Theory) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Theorem 2 with gates that tell tokens apart, for sampled contexts: one row per N, rho, run and head.

    `trajectories`, also by branch and time: static and per_window, as in the paper's Figure 4, over fresh contexts.
    `tokens`, at the end: key_position, predicted_position (by the common flow from the mean scores), key_weight and
    value_weight (lower bounds on pK(r) and pV(r + 1) in any context and chunk, r the key's position; 0 where there is
    no r + 1), loss and standard_error (over fresh contexts), contexts.
    """
    trajectories, ends = [], []
    for vocabulary in settings.tokens.vocabularies:
        for rho in settings.tokens.rhos:
            judged = (vocabulary, rho) == (max(settings.tokens.vocabularies), min(settings.tokens.rhos))
            for run in range(settings.tokens.judged_runs if judged else settings.tokens.runs):
                case = {"vocabulary": vocabulary, "rho": float(rho), "run": run}
                seed = seed_of(settings, "tokens", *case.values())
                path, end = _token_flow(settings, vocabulary, rho, seed)
                trajectories.append(path.assign(**case, seed=seed))
                ends.append(end.assign(**case, seed=seed))
    first = ["vocabulary", "rho", "run", "head"]
    return tuple(
        (whole := pd.concat(parts, ignore_index=True))[[*first, *whole.columns.difference(first, sort=False)]]
        for parts in (trajectories, ends)
    )


def _token_flow(settings: Theory, vocabulary: int, rho: float, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    chosen, shape, scales, kappa = settings.tokens, settings.tokens.shape, scales_of(settings), settings.kappa
    place = (vocabulary, chosen.chunks, shape.positions)
    exact, symmetric = geometry.exact_context(*place, kappa), geometry.symmetric_context(*place, kappa)
    of_start, of_sample, of_fresh = streams(seed, 3)
    fresh = geometry.sample_contexts(*place, chosen.fresh, of_fresh)
    start = flow.initial_token_scores(shape.heads, shape.positions, vocabulary, kappa, rho, of_start)
    times, escape_rate = _times(settings, chosen.chunks, shape.positions, vocabulary, rho, chosen.duration)
    sample = geometry.balanced_contexts(*place, chosen.arrangements, of_sample)
    scores = flow.token_flow(exact, scales, kappa, sample, start, times / escape_rate)
    mean = start.mean(axis=-1)[None]
    common = flow.common_flow(symmetric, scales, kappa + 1 / vocabulary, mean, times[-1:] / escape_rate)

    loss = flow.token_loss_and_gradient(exact, scales, fresh, scores[-1])[0]
    key = scores[-1, 0].mean(axis=-1).argmax(axis=-1)
    after = np.minimum(key + 1, shape.positions - 1)
    end = {
        "head": np.arange(shape.heads),
        "key_position": key,
        "predicted_position": common[-1, 0, 0].argmax(axis=-1),
        "key_weight": flow.least_weight(scores[-1, 0], key),
        "value_weight": np.where(after > key, flow.least_weight(scores[-1, 1], after), 0),
        "loss": loss.mean(),
        "standard_error": loss.std(ddof=1) / np.sqrt(len(loss)),
        "contexts": len(loss),
    }
    kept = np.linspace(0, len(times) - 1, 25).astype(int)
    return _concentration(scores[kept], fresh, times[kept]), pd.DataFrame(end)


def _times(
    settings: Theory, chunks: int, positions: int, vocabulary: int, rho: float, duration: float
) -> tuple[np.ndarray, float]:
    """[SNAPSHOTS] times up to `duration` + log(1/rho) in units of 1 / escape rate, and that rate."""
    last = duration + max(0.0, -np.log(rho))
    rate = flow.escape_rate(scales_of(settings), chunks, positions, vocabulary, settings.kappa)
    return np.geomspace(last / 1000, last, SNAPSHOTS), rate


def _ends(gates: np.ndarray) -> dict[str, np.ndarray]:
    """Columns on every run and head of gates [runs, 2, m, S]."""
    key, concentrated = coverage.chosen(gates)
    effective = effective_number(gates)
    run, head = (index.ravel() for index in np.indices(key.shape))
    return {
        "run": run,
        "head": head,
        "key_position": key.ravel(),
        "value_position": gates[:, 1].argmax(axis=-1).ravel(),
        "key_effective": effective[:, 0].ravel(),
        "value_effective": effective[:, 1].ravel(),
        "concentrated": concentrated.ravel(),
    }


def _escape(scores: np.ndarray, times: np.ndarray) -> np.ndarray:
    """[runs m] when a head's key gate has chosen, between two `times`, for scores [times, runs, 2, m, S]."""
    gates = softmax(scores[:, :, 0], axis=-1)
    effective, threshold = effective_number(gates), np.sqrt(gates.shape[-1] - 1)
    reached = effective <= threshold
    after = reached.argmax(axis=0)
    before = np.maximum(after - 1, 0)
    high, low = (np.take_along_axis(effective, at[None], axis=0)[0] for at in (before, after))
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.where(after > before, (high - threshold) / (high - low), 1)
    escaped = times[before] + part * (times[after] - times[before])
    return np.where(reached.any(axis=0), escaped, np.nan).ravel()


def _retrieval(context: Context, scales: Scales, gates: np.ndarray) -> dict[str, np.ndarray]:
    """Columns run, phase, retrieved and probability of the successor, for gates [runs, 2, m, S] equal in all chunks."""
    keys, values = gates[:, 0, None], gates[:, 1, None]
    answer = np.exp(-model.surprise(context, scales, keys, values))
    run, phase = (index.ravel() for index in np.indices(answer.shape))
    right = model.retrieved(context, scales, keys, values)
    return {"run": run, "phase": phase, "retrieved": right.ravel(), "probability": answer.ravel()}


def _concentration(scores: np.ndarray, contexts: np.ndarray, times: np.ndarray) -> pd.DataFrame:
    """Columns time, head, branch, static, per_window of token scores [times, 2, m, S, N], over `contexts`."""
    parts = []
    for time, at in zip(times, scores, strict=True):
        gates = flow.token_gates(at, contexts)  # [2, M, L, m, S]
        static = effective_number(gates.mean(axis=(1, 2)))
        per_window = effective_number(gates).mean(axis=(1, 2))
        branch, head = (index.ravel() for index in np.indices(static.shape))
        columns = {"head": head, "branch": np.array(["key", "value"])[branch]}
        parts.append(
            pd.DataFrame({"time": time, **columns, "static": static.ravel(), "per_window": per_window.ravel()})
        )
    return pd.concat(parts, ignore_index=True)
