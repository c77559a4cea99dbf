"""Theorem 2: gradient flow of log-linear gates, pB_{h,l}(r) proportional to exp <cB_{h,r}, x_{l,r}>, B in {K, V}.

**Scores.** Let s_{h,r}(i) = <c_{h,r}, x_i> be the score of token i at position r, and g_{h,r}(i) the loss's derivative
by it. With exact geometry, x_i . x_j = kappa + 1{i = j}, the flow dc/dt = -dL/dc moves the scores by

    ds_{h,r}(j)/dt = -g_{h,r}(j) - kappa sum_i g_{h,r}(i).

A token stands at a given place with probability 1/N, so the first term is of order 1/N and the second, common to all
tokens, of order 1: the common part of the scores decides, and what tells tokens apart drifts N times more slowly.

**Common scores.** If every token has the same score b_{h,r}, all g(i) are equal and it stays so, exactly:
db/dt = -(kappa + 1/N) dL/db, where L is the closed form of a `symmetric_context`. Nothing is sampled but the start.

**Token scores** (sampled). `token_flow` integrates s itself, the population replaced by `balanced_contexts`. It shows
what the common scores leave out: how concentrated a gate is in the worst context there is.

**Start.** Choice: all c together are uniform in the ball of radius rho of their space, R^(2 m S (N + 1)). A common
score starts at sqrt(kappa) c_0 + mean_i c_i; `initial_scores` draws that exactly, without drawing the N others. The
common flow leaves out the token-specific part of such a start, which would enter at second order, rho^2 / (2 m S N).

**Escape.** Keys soon leave the final position and values the first, which nothing asks for. With q = 1/(S - 1) on all
others, and a(u) = e^(gamma u) / (e^(gamma u) + L - 1), the differences between positions grow at `escape_rate`,

    (kappa + 1/N) beta q^3 [a'' q + sqrt(a''^2 q^2 + 4 a'^2)] / 2   (a', a'' at q; N large),

so, in units of 1 / escape rate, the time until a head has chosen grows like log(1/rho), plus an offset of about
log(2 m S N) / 2, since a common score starts at about rho / sqrt(2 m S N).

**Integration.** scipy's Runge-Kutta pair of order 5(4), adaptive; all runs of a batch step together. `tolerance` holds
for every run by itself: in a step, the estimated error of a score s, divided by |s| + 1e-9, is at most `tolerance` in
root mean square over the scores of the run. The solver takes that mean over the whole batch; so it is given the
tolerance divided by the square root of the number of runs. Positions that are alike go through the same arithmetic, so
their small differences are kept to the same relative accuracy as the scores, however small rho is, down to rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.integrate import solve_ivp
from scipy.sparse import csr_matrix
from scipy.special import expit, softmax

from weakspots.errors import UserError
from weakspots.theory import model
from weakspots.theory.geometry import Context, Seed
from weakspots.theory.model import Scales


def initial_scores(
    runs: int, heads: int, positions: int, vocabulary: float, kappa: float, rho: float, seed: Seed
) -> np.ndarray:
    """[runs, 2, m, S] common scores (keys, values) of gates drawn uniformly from the ball of radius `rho`.

    A uniform point of the ball in n dimensions is rho U^(1/n) g / |g| with g normal; the N - 1 directions of each gate
    that do not move the common score enter |g| alone, as a chi-square variable.
    """
    rng = np.random.default_rng(seed)
    common, mean = rng.standard_normal((2, runs, 2, heads, positions))
    dimensions = 2.0 * heads * positions * (vocabulary + 1)
    others = rng.chisquare(dimensions - 2 * common[0].size, runs)
    norm = np.sqrt((common**2 + mean**2).sum(axis=(1, 2, 3)) + others)
    radius = rho * rng.random(runs) ** (1 / dimensions)
    return (radius / norm)[:, None, None, None] * (np.sqrt(kappa) * common + mean / np.sqrt(vocabulary))


def escape_rate(scales: Scales, chunks: int, positions: int, vocabulary: float, kappa: float) -> float:
    """The exponential growth rate of differences between positions, as in the module's text; 1 / time."""
    share = 1 / (positions - 1)
    attention = expit(scales.gamma * share - np.log(chunks - 1))
    first = scales.gamma * attention * (1 - attention)
    second = scales.gamma * first * (1 - 2 * attention) * share
    return (kappa + 1 / vocabulary) * scales.beta * share**3 * (second + np.hypot(second, 2 * first)) / 2


def common_flow(
    context: Context, scales: Scales, rate: float, start: np.ndarray, times: np.ndarray, tolerance: float = 1e-5
) -> np.ndarray:
    """[times, runs, 2, m, S] common scores at `times`, from `start` [runs, 2, m, S] at time 0.

    `context` is a `symmetric_context`; `rate` is kappa + 1/N. Raises UserError where the solver gives up.
    """

    def velocity(_time: float, flat: np.ndarray) -> np.ndarray:
        gates = softmax(flat.reshape(start.shape), axis=-1)
        _, keys, values = model.loss_and_gradient(context, scales, gates[:, 0, None], gates[:, 1, None])
        return -rate * _through_softmax(gates, np.stack([keys.sum(axis=1), values.sum(axis=1)], axis=1)).ravel()

    return integrate(velocity, start, times, tolerance / np.sqrt(len(start)))


def initial_token_scores(
    heads: int, positions: int, vocabulary: int, kappa: float, rho: float, seed: Seed
) -> np.ndarray:
    """[2, m, S, N] scores of every token, of gates drawn uniformly from the ball of radius `rho`."""
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal((2, heads, positions, vocabulary + 1))
    drawn *= rho * rng.random() ** (1 / drawn.size) / np.linalg.norm(drawn)
    return np.sqrt(kappa) * drawn[..., :1] + drawn[..., 1:]


def token_flow(
    context: Context,
    scales: Scales,
    kappa: float,
    contexts: np.ndarray,
    start: np.ndarray,
    times: np.ndarray,
    tolerance: float = 1e-5,
) -> np.ndarray:
    """[times, 2, m, S, N] token scores at `times`, from `start` [2, m, S, N] at time 0.

    `context` is an `exact_context`; `contexts` [M, L, S] stand for the population. Raises as `common_flow` does.
    """
    places = _places(contexts, start.shape[-1])

    def velocity(_time: float, flat: np.ndarray) -> np.ndarray:
        gradient = token_loss_and_gradient(context, scales, contexts, flat.reshape(start.shape), places)[1]
        return -(gradient + kappa * gradient.sum(axis=-1, keepdims=True)).ravel()

    return integrate(velocity, start, times, tolerance)


def token_loss_and_gradient(
    context: Context, scales: Scales, contexts: np.ndarray, scores: np.ndarray, places: csr_matrix | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Loss [M] in every one of `contexts` [M, L, S], and the derivative [2, m, S, N] of its mean by `scores`.

    Over `all_contexts` the mean is the population's; over a sample, the losses give its standard error.
    """
    gates = token_gates(scores, contexts)
    found, keys, values = model.loss_and_gradient(context, scales, gates[0], gates[1])
    by_score = _through_softmax(gates, np.stack([keys, values])) / len(contexts)  # [2, M, L, m, S]
    by_place = by_score.transpose(0, 3, 1, 2, 4).reshape(2 * scores.shape[1], -1)
    places = _places(contexts, scores.shape[-1]) if places is None else places
    return found, (places.T @ by_place.T).T.reshape(scores.shape)


def token_gates(scores: np.ndarray, contexts: np.ndarray) -> np.ndarray:
    """[2, M, L, m, S] the gates of `scores` [2, m, S, N] in `contexts` [M, L, S]."""
    picked = scores[:, :, np.arange(contexts.shape[-1]), contexts]  # [2, m, M, L, S]
    return softmax(picked, axis=-1).transpose(0, 2, 3, 1, 4)


def least_weight(scores: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """[...] a lower bound on the gate's weight at `chosen` [...] in any context, for `scores` [..., S, N].

    The worst chunk has the token with the least score at the chosen place, and those with the largest elsewhere.
    """
    worst, rivals = scores.min(axis=-1), scores.max(axis=-1)
    place = chosen[..., None]
    own = np.take_along_axis(worst, place, axis=-1)
    excess = np.exp(np.minimum(rivals - own, 700))
    np.put_along_axis(excess, place, 1.0, axis=-1)
    return 1 / excess.sum(axis=-1)


def integrate(
    velocity: Callable[[float, np.ndarray], np.ndarray], start: np.ndarray, times: np.ndarray, tolerance: float
) -> np.ndarray:
    """[times, ...] what flows by `velocity` (of the time and the flat state) from `start` [...] at time 0.

    `tolerance` is relative. Raises UserError where the flow leaves the range of numbers.
    """
    with np.errstate(under="ignore"):
        solved = solve_ivp(velocity, (0, times[-1]), start.ravel(), t_eval=times, rtol=tolerance, atol=tolerance * 1e-9)
    if not solved.success:
        raise UserError(f"the gradient flow could not be integrated ({solved.message}): lower gamma or beta")
    return solved.y.T.reshape(len(times), *start.shape)


def _through_softmax(gates: np.ndarray, by_gate: np.ndarray) -> np.ndarray:
    """Derivative by scores of what has the derivative `by_gate` by the softmax `gates` over the last axis."""
    return gates * (by_gate - (gates * by_gate).sum(axis=-1, keepdims=True))


def _places(contexts: np.ndarray, vocabulary: int) -> csr_matrix:
    """[M L S, S N] which token's score every place of every context reads."""
    columns = (np.arange(contexts.shape[-1]) * vocabulary + contexts).ravel()
    shape = (columns.size, contexts.shape[-1] * vocabulary)
    return csr_matrix((np.ones(columns.size), columns, np.arange(columns.size + 1)), shape)
