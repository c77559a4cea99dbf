"""Theorem 1: where the loss of query-independent coefficients is smallest.

The coefficients of one context are free: pK, pV [L, m, S], distributions of every head in every chunk. They are
minimised by projected gradient descent from many starts, and one-hot assignments are compared with each other without
exception. With exact geometry the loss is the same function for every context, so one context stands for all; with
epsilon > 0 contexts are drawn, and the coefficients of each are minimised on its own, since a query-independent rule
may depend on the context.

An assignment says for every chunk and head at which position r (from 0) the key stands: pK = e_r and pV = e_{r+1}.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from weakspots.theory import model
from weakspots.theory.geometry import Context, Seed
from weakspots.theory.model import Scales

CERTAIN = 1 - 1e-6
"""A distribution with this much weight on one position is called one-hot."""


def project(points: np.ndarray) -> np.ndarray:
    """The nearest probability distributions over the last axis of `points` [..., S] (Euclidean, by sorting)."""
    ordered = -np.sort(-points, axis=-1)
    excess = (np.cumsum(ordered, axis=-1) - 1) / np.arange(1, points.shape[-1] + 1)
    support = (ordered > excess).sum(axis=-1, keepdims=True)
    return np.maximum(points - np.take_along_axis(excess, support - 1, axis=-1), 0)


def descend(
    context: Context, scales: Scales, starts: np.ndarray, steps: int = 2_000, tolerance: float = 1e-9
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Projected gradient descent from `starts` [B, 2, L, m, S] (keys, values), each with its own step length.

    A step must lower the loss by Armijo's rule, else it is halved; after a success the next is Barzilai and Borwein's.
    Ends when no start moves by more than `tolerance` under a unit step. Returns the points, their losses [B] in nats,
    and whether each converged [B]. A start that did not is stationary to no more than the steps allowed.
    """
    points = starts.copy()
    found, gradient = _evaluate(context, scales, points)
    length = np.ones(len(points))
    active = _stationarity(points, gradient) > tolerance
    for _ in range(steps):
        rows = np.flatnonzero(active)
        if not len(rows):
            break
        here, slope = points[rows], gradient[rows]
        there = project(here - _each(length[rows], here) * slope)
        loss, slope_there = _evaluate(context, scales, there)
        moved = there - here
        # The margin below is rounding: a step that changes the loss by less may not be judged by it.
        lower = loss <= found[rows] + 1e-4 * _dot(slope, moved) + 1e-14
        curvature = _dot(moved, slope_there - slope)
        with np.errstate(divide="ignore", invalid="ignore"):
            spectral = np.where(curvature > 0, _dot(moved, moved) / curvature, 2 * length[rows])
        length[rows] = np.where(lower, np.clip(spectral, 1e-3, 1e6), length[rows] / 4)
        accepted = rows[lower]
        points[accepted], found[accepted], gradient[accepted] = there[lower], loss[lower], slope_there[lower]
        active[rows] = _stationarity(points[rows], gradient[rows]) > tolerance
    return points, found, ~active


def assignments(chunks: int, heads: int, positions: int) -> np.ndarray:
    """[(S - 1)^(L m), L, m] every assignment of non-final positions to heads and chunks."""
    return np.array(list(product(range(positions - 1), repeat=chunks * heads))).reshape(-1, chunks, heads)


def one_hot(assignment: np.ndarray, positions: int) -> np.ndarray:
    """[B, 2, L, m, S] the coefficients of `assignment` [B, L, m]: keys at r, values at r + 1."""
    return np.eye(positions)[np.stack([assignment, assignment + 1], axis=1)]


def distinct(assignment: np.ndarray) -> np.ndarray:
    """[B] whether in every chunk of `assignment` [B, L, m] no two heads have the same position."""
    ordered = np.sort(assignment, axis=-1)
    return np.asarray((np.diff(ordered, axis=-1) > 0).all(axis=(-1, -2)))


def concentrated(points: np.ndarray) -> np.ndarray:
    """[B] whether all coefficients of `points` [B, 2, L, m, S] are one-hot with the value one after the key."""
    certain = (points.max(axis=-1) >= CERTAIN).all(axis=(1, 2, 3))
    chosen = points.argmax(axis=-1)
    return certain & (chosen[:, 1] == chosen[:, 0] + 1).all(axis=(1, 2))


def random_starts(count: int, chunks: int, heads: int, positions: int, seed: Seed) -> np.ndarray:
    """[count, 2, L, m, S] coefficients drawn uniformly from the simplex."""
    return np.random.default_rng(seed).dirichlet(np.ones(positions), size=(count, 2, chunks, heads))


def one_hot_losses(context: Context, scales: Scales, assignment: np.ndarray) -> np.ndarray:
    """[B] loss in nats of every one-hot `assignment` [B, L, m]."""
    coefficients = one_hot(assignment, context.inner.shape[-1])
    return model.loss(context, scales, coefficients[:, 0], coefficients[:, 1])


def _evaluate(context: Context, scales: Scales, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    loss, keys, values = model.loss_and_gradient(context, scales, points[:, 0], points[:, 1])
    return loss, np.stack([keys, values], axis=1)


def _stationarity(points: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """[B] how far a unit projected step moves."""
    return np.abs(project(points - gradient) - points).max(axis=(1, 2, 3, 4))


def _dot(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return (left * right).sum(axis=(1, 2, 3, 4))


def _each(scalars: np.ndarray, like: np.ndarray) -> np.ndarray:
    return scalars.reshape(-1, *[1] * (like.ndim - 1))
