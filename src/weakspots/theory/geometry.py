"""Embeddings, contexts, and the inner products that are all the model ever sees of them.

    |x . x' - kappa - 1{x = x'}| <= epsilon   for all pairs of the N embeddings.

**Exact geometry** (epsilon = 0) is x_i = sqrt(kappa) e_0 + e_i. **Perturbed geometry** is built as

    x_i = sqrt(kappa) e_0 + sqrt(1 - epsilon) e_i + sqrt(epsilon) u_i,   |u_i| = 1,

with random directions u_i in a few dimensions: a token's product with itself stays kappa + 1, and two tokens have
kappa + epsilon u_i . u_j. `geometry_error` verifies the size over all pairs.

Choice, where the paper is silent: a context's L S tokens are all distinct, not only those of one chunk, and every
ordered choice of them is equally likely. With exact geometry the inner products are then the same in every context,
and tokens that play the same part are one row with a count: all tokens outside the context, and, where every chunk has
the same coefficients, all chunks but the one that is asked. That is exact, and makes N and L mere numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np

from weakspots.errors import UserError

Seed = int | np.random.SeedSequence
"""What random draws start from."""


@dataclass(frozen=True)
class Context:
    """One context as the model sees it: T rows of tokens, C rows of chunks, Q queries.

    `inner` [T, C, S]: the product of a token of the row with the token at position r of a chunk of the row, averaged
    over the row's chunks; `tokens` [T] and `chunks` [C]: how many of them a row stands for; `queries` and `answers`
    [Q]: the rows of the tokens that are asked, and of their successors.
    """

    inner: np.ndarray
    tokens: np.ndarray
    chunks: np.ndarray
    queries: np.ndarray
    answers: np.ndarray


def check(vocabulary: float, chunks: int, positions: int) -> None:
    """Raises UserError unless `vocabulary` tokens fill `chunks` chunks of `positions` distinct tokens, and one more."""
    if positions < 2 or chunks < 2:
        raise UserError(f"{chunks} chunks of {positions} positions: the model needs at least two of both")
    if vocabulary <= chunks * positions:
        raise UserError(
            f"vocabulary {vocabulary:g} leaves no token outside a context of {chunks} chunks of {positions} distinct "
            f"tokens: raise it to at least {chunks * positions + 1}"
        )


def exact_context(vocabulary: float, chunks: int, positions: int, kappa: float) -> Context:
    """Any context under exact geometry: T = L S + 1 (the last row is every token outside it), C = L.

    Raises UserError as `check` does.
    """
    check(vocabulary, chunks, positions)
    size = chunks * positions
    inner = kappa + np.eye(size + 1, size).reshape(size + 1, chunks, positions)
    return Context(inner, np.append(np.ones(size), vocabulary - size), np.ones(chunks), *_asked(chunks, positions))


def symmetric_context(vocabulary: float, chunks: int, positions: int, kappa: float) -> Context:
    """The same, for coefficients that are equal in all chunks: row 0 of C = 2 is the chunk asked, row 1 the others.

    T = 2 S + 1: its tokens, the other chunks' tokens by position, and the tokens outside. A token of the other chunks
    is in one of L - 1, hence the mean product kappa + 1/(L - 1). Raises UserError as `check` does.
    """
    check(vocabulary, chunks, positions)
    inner = np.full((2 * positions + 1, 2, positions), float(kappa))
    inner[:positions, 0] += np.eye(positions)
    inner[positions:-1, 1] += np.eye(positions) / (chunks - 1)
    tokens = np.repeat([1, chunks - 1, vocabulary - chunks * positions], [positions, positions, 1]).astype(float)
    return Context(inner, tokens, np.array([1.0, chunks - 1]), *_asked(1, positions))


def embedded_context(embeddings: np.ndarray, tokens: np.ndarray) -> Context:
    """The context `tokens` [L, S] (distinct indices) of a vocabulary `embeddings` [N, d]: T = N, no symmetry used."""
    chunks, positions = tokens.shape
    outside = np.setdiff1d(np.arange(len(embeddings)), tokens)
    ordered = embeddings[np.concatenate([tokens.ravel(), outside])]
    inner = (ordered @ embeddings[tokens.ravel()].T).reshape(-1, chunks, positions)
    return Context(inner, np.ones(len(ordered)), np.ones(chunks), *_asked(chunks, positions))


def embeddings(vocabulary: int, kappa: float, epsilon: float = 0.0, dimensions: int = 4, seed: Seed = 0) -> np.ndarray:
    """[N, 1 + N + dimensions] nearly equiangular embeddings, as in the module's text.

    Raises UserError unless 0 <= epsilon <= 1 and kappa >= 0.
    """
    if not 0 <= epsilon <= 1 or kappa < 0:
        raise UserError(f"epsilon {epsilon:g} must lie in [0, 1] and kappa {kappa:g} must not be negative")
    directions = np.random.default_rng(seed).standard_normal((vocabulary, dimensions))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    common = np.full((vocabulary, 1), np.sqrt(kappa))
    return np.hstack([common, np.sqrt(1 - epsilon) * np.eye(vocabulary), np.sqrt(epsilon) * directions])


def geometry_error(embeddings: np.ndarray, kappa: float) -> float:
    """The smallest epsilon for which the [N, d] `embeddings` are nearly equiangular: the maximum over all pairs."""
    return float(np.abs(embeddings @ embeddings.T - kappa - np.eye(len(embeddings))).max())


def all_contexts(vocabulary: int, chunks: int, positions: int) -> np.ndarray:
    """[N! / (N - L S)!, L, S] every context, once. Raises UserError where there are more than a million."""
    check(vocabulary, chunks, positions)
    size = chunks * positions
    if np.prod(np.arange(vocabulary, vocabulary - size, -1, dtype=float)) > 1e6:
        raise UserError(f"too many contexts of {size} of {vocabulary} tokens to enumerate: sample them instead")
    return np.array(list(permutations(range(vocabulary), size))).reshape(-1, chunks, positions)


def sample_contexts(vocabulary: int, chunks: int, positions: int, count: int, seed: Seed) -> np.ndarray:
    """[count, L, S] independent contexts. Raises UserError as `check` does."""
    check(vocabulary, chunks, positions)
    orders = np.random.default_rng(seed).permuted(np.tile(np.arange(vocabulary), (count, 1)), axis=1)
    return orders[:, : chunks * positions].reshape(count, chunks, positions)


def balanced_contexts(vocabulary: int, chunks: int, positions: int, count: int, seed: Seed) -> np.ndarray:
    """[count * N, L, S] contexts: `count` independent ones, each with its N cyclic shifts of the vocabulary.

    Every token is at every place equally often, as in the population; so gates that are equal for all tokens stay so,
    as they do there. Each single context is still uniformly distributed.
    """
    shifts = np.arange(vocabulary)[:, None, None]
    sampled = sample_contexts(vocabulary, chunks, positions, count, seed)
    return ((sampled[:, None] + shifts) % vocabulary).reshape(-1, chunks, positions)


def _asked(chunks: int, positions: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the queries, which stand at every non-final position of every chunk, and of their successors."""
    rows = np.arange(chunks * positions).reshape(chunks, positions)
    return rows[:, :-1].ravel(), rows[:, 1:].ravel()
