"""Tables of Theorem 1: the loss landscape, minima with exact geometry, their margin, and where the theorem stops.

Losses are in nats, shares in percent; positions count from 0.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from weakspots.config.theory import Theory
from weakspots.theory import geometry, minimizers, model
from weakspots.theory.cases import scales_of, seed_of, streams


def landscape(settings: Theory) -> pd.DataFrame:
    """Loss of one head with S = 3 at the flow's N: pK = (u, 1 - u, 0), pV = (0, w, 1 - w); columns u, w, loss."""
    side = np.linspace(0, 1, settings.grid)
    u, w = (axis.ravel() for axis in np.meshgrid(side, side, indexing="ij"))
    zero = np.zeros_like(u)
    context = geometry.symmetric_context(settings.flow.vocabulary, settings.flow.chunks, 3, settings.kappa)
    keys, values = (np.stack(rows, axis=-1)[:, None, None] for rows in ((u, 1 - u, zero), (zero, w, 1 - w)))
    return pd.DataFrame({"u": u, "w": w, "loss": model.loss(context, scales_of(settings), keys, values)})


def minima(settings: Theory) -> pd.DataFrame:
    """Theorem 1 with exact geometry: one row per shape and N.

    Columns positions, heads, vocabulary, starts, converged, concentrated (how many of the converged), loss (the least
    found), one_hot_loss (the least of all assignments), best_concentrated (whether no descent ends below the best
    assignment, and those that end as low, within 1e-9, are concentrated), distinct_optimal (whether the best
    assignments are exactly those with distinct positions), margin (best coincident minus the distinct ones' (all equal)
    loss; missing with one head), seed.
    """
    rows, chosen = [], settings.minimizers
    for shape in chosen.shapes:
        every = minimizers.assignments(chosen.chunks, shape.heads, shape.positions)
        apart = minimizers.distinct(every)
        for vocabulary in chosen.vocabularies:
            if vocabulary <= chosen.chunks * shape.positions:
                continue
            context = geometry.exact_context(vocabulary, chosen.chunks, shape.positions, settings.kappa)
            seed = seed_of(settings, "minima", shape.positions, shape.heads, vocabulary)
            starts = minimizers.random_starts(chosen.starts, chosen.chunks, shape.heads, shape.positions, seed)
            points, loss, converged = minimizers.descend(context, scales_of(settings), starts)
            one_hot = minimizers.one_hot_losses(context, scales_of(settings), every)
            least, concentrated = min(loss.min(), one_hot.min()), minimizers.concentrated(points)
            rows.append(
                {
                    "positions": shape.positions,
                    "heads": shape.heads,
                    "vocabulary": vocabulary,
                    "starts": len(starts),
                    "converged": int(converged.sum()),
                    "concentrated": int((concentrated & converged).sum()),
                    "loss": least,
                    "one_hot_loss": one_hot.min(),
                    "best_concentrated": bool(
                        concentrated[loss <= least + 1e-9].all() and one_hot.min() <= least + 1e-9
                    ),
                    "distinct_optimal": bool(((one_hot <= one_hot.min() + 1e-11) == apart).all()),
                    "margin": one_hot[~apart].min() - one_hot[apart].max() if (~apart).any() else np.nan,
                    "seed": seed,
                }
            )
    return pd.DataFrame(rows)


def exponent(minima: pd.DataFrame, fit_from: int, confidence: float) -> pd.DataFrame:
    """The power of N with which the margin of distinct over coincident assignments shrinks: one row per shape.

    Least squares of log margin on log N from `fit_from` on; columns positions, heads, exponent, low, high (Student's
    interval of the slope: the margins carry no noise, so it measures the curvature left), prefactor (margin times N at
    the largest N), count, fit_from.
    """
    rows = []
    positive = minima[(minima["margin"] > 0) & (minima["vocabulary"] >= fit_from)]
    for (positions, heads), part in positive.groupby(["positions", "heads"], sort=False):
        if len(part) < 3:
            continue
        fit = stats.linregress(np.log(part["vocabulary"]), np.log(part["margin"]))
        half = stats.t.isf((1 - confidence) / 2, len(part) - 2) * fit.stderr
        largest = part.loc[part["vocabulary"].idxmax()]
        rows.append(
            {
                "positions": positions,
                "heads": heads,
                "exponent": fit.slope,
                "low": fit.slope - half,
                "high": fit.slope + half,
                "prefactor": largest["margin"] * largest["vocabulary"],
                "count": len(part),
                "fit_from": fit_from,
            }
        )
    columns = ["positions", "heads", "exponent", "low", "high", "prefactor", "count", "fit_from"]
    return pd.DataFrame(rows, columns=columns)


def validity_map(settings: Theory) -> pd.DataFrame:
    """Theorem 1 with perturbed geometry: one row per N, epsilon and context.

    Columns vocabulary, epsilon, context, geometry_error (verified over all pairs), concentrated (whether the least
    minimum found is), distinct (and has distinct positions in every chunk), loss, converged (share of descents in
    percent), seed. Descents start at random and from the best one-hot assignments.
    """
    rows, chosen = [], settings.map
    shape, scales = chosen.shape, scales_of(settings)
    every = minimizers.assignments(chosen.chunks, shape.heads, shape.positions)
    for vocabulary in chosen.vocabularies:
        for epsilon in chosen.epsilons:
            for number in range(chosen.contexts):
                seed = seed_of(settings, "map", vocabulary, float(epsilon), number)
                of_tokens, of_context, of_starts = streams(seed, 3)
                embedded = geometry.embeddings(vocabulary, settings.kappa, epsilon, chosen.dimensions, of_tokens)
                tokens = geometry.sample_contexts(vocabulary, chosen.chunks, shape.positions, 1, of_context)[0]
                context = geometry.embedded_context(embedded, tokens)
                ranked = np.argsort(minimizers.one_hot_losses(context, scales, every))[:4]
                starts = np.concatenate(
                    [
                        minimizers.random_starts(chosen.starts, chosen.chunks, shape.heads, shape.positions, of_starts),
                        minimizers.one_hot(every[ranked], shape.positions),
                    ]
                )
                points, loss, converged = minimizers.descend(context, scales, starts, steps=500)
                best = points[[loss.argmin()]]
                concentrated = bool(minimizers.concentrated(best)[0])
                rows.append(
                    {
                        "vocabulary": vocabulary,
                        "epsilon": float(epsilon),
                        "context": number,
                        "geometry_error": geometry.geometry_error(embedded, settings.kappa),
                        "concentrated": concentrated,
                        "distinct": concentrated and bool(minimizers.distinct(best[:, 0].argmax(axis=-1))[0]),
                        "loss": loss.min(),
                        "converged": 100 * converged.mean(),
                        "seed": seed,
                    }
                )
    return pd.DataFrame(rows)
