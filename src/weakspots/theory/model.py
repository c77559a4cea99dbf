"""The idealised induction model, once: coefficients in, population cross-entropy and its gradient out.

Section "Why compression concentrates". A context has L chunks of S tokens, and each of m < S heads has an entry per
chunk, k = sum_r pK(r) x_r and v = sum_r pV(r) x_r. A query repeats a token x at a non-final position and asks for its
successor. Head h attends over chunks with a_h = softmax(gamma x . k_h), the heads' outputs sum_l a_h v_h are summed to
o, a token y has the logit beta y . o, and the loss is the cross-entropy of the successor, averaged over queries.

Coefficients are arrays [..., C, m, S], distributions over the last axis, for the C chunk rows of a `Context`. Where all
chunks share them, C may be 1. Leading axes are a batch. kappa adds a constant to all scores and all logits, and drops
out of the loss; so the loss is an explicit function of the coefficients, gamma, beta and the context, with no sampling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weakspots.theory.geometry import Context


@dataclass(frozen=True)
class Scales:
    """gamma, the scale of the softmax over chunks, and beta, the scale of the logits."""

    gamma: float
    beta: float


def loss(context: Context, scales: Scales, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """[...] mean cross-entropy of the successor in nats, for coefficients [..., C, m, S]."""
    return surprise(context, scales, keys, values).mean(axis=-1)


def surprise(context: Context, scales: Scales, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """[..., Q] cross-entropy of every query's successor in nats."""
    return _cross_entropy(context, logits(context, scales, keys, values))[0]


def logits(context: Context, scales: Scales, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """[..., Q, T] logit of every token (row) for every query."""
    attention, read = _attention(context, scales, keys), _read(context, values)
    return scales.beta * _over_heads(attention).swapaxes(-1, -2) @ _over_heads(read)


def loss_and_gradient(
    context: Context, scales: Scales, keys: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The loss [...] and its derivatives [..., C, m, S] by `keys` and by `values`, as if all were free.

    Where chunks share coefficients (C = 1 in the input), the caller sums the derivatives over chunk rows.
    """
    attention, read = _attention(context, scales, keys), _read(context, values)
    found = scales.beta * _over_heads(attention).swapaxes(-1, -2) @ _over_heads(read)
    surprises, by_logit = _cross_entropy(context, found)
    by_logit *= scales.beta

    by_read = (_over_heads(attention) @ by_logit).reshape(read.shape)
    by_values = by_read @ context.inner.swapaxes(0, 1)
    by_attention = (_over_heads(read) @ by_logit.swapaxes(-1, -2)).reshape(attention.shape)
    mean = (attention * by_attention).sum(axis=-3, keepdims=True)
    by_score = scales.gamma * attention * (by_attention - mean)
    by_keys = by_score @ context.inner[context.queries].swapaxes(0, 1)
    return surprises.mean(axis=-1), by_keys, by_values


def retrieved(context: Context, scales: Scales, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """[..., Q] whether the successor has the largest logit of the whole vocabulary; ties count against it."""
    found = logits(context, scales, keys, values)
    queries = np.arange(len(context.queries))
    answer = found[..., queries, context.answers].copy()
    found[..., queries, context.answers] = -np.inf
    return answer > found.max(axis=-1) + 1e-9  # what differs by rounding is a tie


def _attention(context: Context, scales: Scales, keys: np.ndarray) -> np.ndarray:
    """[..., C, m, Q] attention of every head on all chunks of a row together."""
    scores = scales.gamma * (keys @ context.inner[context.queries].transpose(1, 2, 0))
    return _softmax(scores, context.chunks[:, None, None], axis=-3)[0]


def _read(context: Context, values: np.ndarray) -> np.ndarray:
    """[..., C, m, T] product of every token with the mean value of a row's chunks."""
    return values @ context.inner.transpose(1, 2, 0)


def _over_heads(array: np.ndarray) -> np.ndarray:
    """[..., C, m, X] as [..., C m, X], since outputs are summed over chunks and heads alike."""
    return array.reshape(*array.shape[:-3], -1, array.shape[-1])


def _cross_entropy(context: Context, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cross-entropy [..., Q] of logits [..., Q, T], and the derivative of its mean by them."""
    queries = np.arange(len(context.queries))
    probabilities, normaliser = _softmax(found, context.tokens, axis=-1)
    surprises = normaliser - found[..., queries, context.answers]
    probabilities[..., queries, context.answers] -= 1
    return surprises, probabilities / len(queries)


def _softmax(scores: np.ndarray, counts: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Softmax in which a row stands for `counts` equal ones, summed over them; and the logarithm of its normaliser."""
    top = scores.max(axis=axis, keepdims=True)
    weights = counts * np.exp(scores - top)
    total = weights.sum(axis=axis, keepdims=True)
    return weights / total, (top + np.log(total)).squeeze(axis)
