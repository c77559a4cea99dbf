"""The model does what its definition says, whichever way the context is written down."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weakspots.errors import UserError
from weakspots.theory import geometry, model
from weakspots.theory.model import Scales

SCALES = Scales(gamma=4.0, beta=2.0)
shapes = st.tuples(st.integers(2, 4), st.integers(2, 5), st.integers(1, 4))  # L, S, m


def coefficients(seed: int, *shape: int) -> tuple[np.ndarray, np.ndarray]:
    """Keys and values [*shape], drawn uniformly from the simplex."""
    return tuple(np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), size=(2, *shape[:-1])))


def by_definition(embeddings: np.ndarray, tokens: np.ndarray, keys: np.ndarray, values: np.ndarray) -> float:
    """The loss in one context, word by word as the paper has it; keys and values [L, m, S]."""
    chunks, positions = tokens.shape
    context = embeddings[tokens]  # [L, S, d]
    k, v = (np.einsum("lhr,lrd->lhd", p, context) for p in (keys, values))
    losses = []
    for chunk in range(chunks):
        for position in range(positions - 1):
            scores = SCALES.gamma * np.einsum("d,lhd->lh", context[chunk, position], k)
            attention = np.exp(scores) / np.exp(scores).sum(axis=0)
            logits = SCALES.beta * embeddings @ np.einsum("lh,lhd->d", attention, v)
            losses.append(np.log(np.exp(logits).sum()) - logits[tokens[chunk, position + 1]])
    return np.mean(losses)


@settings(max_examples=25, deadline=None)
@given(shapes, st.integers(0, 10_000), st.floats(0, 3), st.floats(0, 1))
def test_loss_is_the_papers_word_by_word(shape, seed, kappa, epsilon):
    chunks, positions, heads = shape
    vocabulary = chunks * positions + 1 + seed % 9
    embeddings = geometry.embeddings(vocabulary, kappa, epsilon, seed=seed)
    tokens = geometry.sample_contexts(vocabulary, chunks, positions, 1, seed)[0]
    keys, values = coefficients(seed, chunks, heads, positions)
    found = model.loss(geometry.embedded_context(embeddings, tokens), SCALES, keys, values)
    assert found == pytest.approx(by_definition(embeddings, tokens, keys, values), rel=1e-11)


@settings(max_examples=25, deadline=None)
@given(shapes, st.integers(0, 10_000), st.floats(0, 3))
def test_symmetries_of_exact_geometry_change_nothing(shape, seed, kappa):
    chunks, positions, heads = shape
    vocabulary = chunks * positions + 1 + seed % 9
    place = (vocabulary, chunks, positions)
    tokens = geometry.sample_contexts(*place, 1, seed)[0]
    whole = geometry.embedded_context(geometry.embeddings(vocabulary, kappa), tokens)
    exact = geometry.exact_context(*place, kappa)
    own = coefficients(seed, chunks, heads, positions)
    assert model.loss(exact, SCALES, *own) == pytest.approx(model.loss(whole, SCALES, *own), rel=1e-12)
    shared = coefficients(seed, 1, heads, positions)
    reduced = model.loss(geometry.symmetric_context(*place, kappa), SCALES, *shared)
    assert reduced == pytest.approx(model.loss(whole, SCALES, *shared), rel=1e-12)


def test_the_common_component_drops_out():
    own = coefficients(1, 2, 2, 4)
    losses = [model.loss(geometry.exact_context(50, 2, 4, kappa), SCALES, *own) for kappa in (0, 1, 7.5)]
    np.testing.assert_allclose(losses, losses[0], rtol=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_gradient_equals_finite_differences_and_autograd(epsilon):
    tokens = geometry.sample_contexts(12, 2, 4, 1, seed=3)[0]
    context = geometry.embedded_context(geometry.embeddings(12, 1.0, epsilon), tokens)
    keys, values = coefficients(2, 5, 2, 3, 4)  # a batch of 5
    loss, by_keys, by_values = model.loss_and_gradient(context, SCALES, keys, values)
    np.testing.assert_allclose(loss, model.loss(context, SCALES, keys, values), rtol=1e-13)

    rng, step = np.random.default_rng(0), 1e-6
    for number, gradient in enumerate((by_keys, by_values)):
        direction = rng.standard_normal(gradient.shape)
        ends = []
        for sign in (1, -1):
            moved = [keys, values]
            moved[number] = moved[number] + sign * step * direction
            ends.append(model.loss(context, SCALES, *moved))
        expected = (gradient * direction).sum(axis=(1, 2, 3))
        np.testing.assert_allclose((ends[0] - ends[1]) / (2 * step), expected, rtol=1e-6)

    k, v = (torch.tensor(p, requires_grad=True) for p in (keys, values))
    inner = torch.tensor(context.inner)
    attention = (SCALES.gamma * torch.einsum("blhr,qlr->blhq", k, inner[context.queries])).softmax(1)
    logits = SCALES.beta * torch.einsum("blhq,blhr,tlr->bqt", attention, v, inner)
    picked = logits.log_softmax(-1)[:, torch.arange(len(context.queries)), context.answers]
    (-picked.mean(-1)).sum().backward()
    np.testing.assert_allclose(by_keys, k.grad.numpy(), atol=1e-13)
    np.testing.assert_allclose(by_values, v.grad.numpy(), atol=1e-13)


def test_gradient_of_shared_coefficients_is_the_sum_over_chunk_rows():
    context = geometry.symmetric_context(100, 4, 3, 1.0)
    keys, values = coefficients(4, 1, 2, 3)
    _, by_keys, by_values = model.loss_and_gradient(context, SCALES, keys, values)
    exact = geometry.exact_context(100, 4, 3, 1.0)
    _, *expected = model.loss_and_gradient(exact, SCALES, *(np.repeat(p, 4, axis=0) for p in (keys, values)))
    for found, whole in zip((by_keys, by_values), expected, strict=True):
        np.testing.assert_allclose(found.sum(axis=0), whole.sum(axis=0), atol=1e-14)


def test_a_phase_is_retrieved_where_a_head_keeps_it_and_ties_count_against_it():
    context = geometry.symmetric_context(1_000, 4, 4, 1.0)
    one = np.eye(4)
    keys, values = one[[[0, 2]]], one[[[1, 3]]]  # two heads, on phases 0 and 2
    assert model.retrieved(context, SCALES, keys, values).tolist() == [True, False, True]
    uniform = np.full((1, 1, 4), 0.25)
    assert not model.retrieved(context, SCALES, uniform, uniform).any()


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 80), st.floats(0, 5), st.floats(0, 1), st.integers(2, 8), st.integers(0, 1000))
def test_geometry_errs_by_no_more_than_it_says(vocabulary, kappa, epsilon, dimensions, seed):
    embedded = geometry.embeddings(vocabulary, kappa, epsilon, dimensions, seed)
    error = geometry.geometry_error(embedded, kappa)
    assert error <= epsilon + 1e-12 * (1 + kappa)
    np.testing.assert_allclose(np.square(embedded).sum(axis=1), kappa + 1)


def test_perturbed_geometry_uses_up_its_error():
    assert geometry.geometry_error(geometry.embeddings(400, 1.0, 0.3), 1.0) > 0.99 * 0.3


def test_contexts_hold_distinct_tokens_and_balanced_ones_every_token_everywhere():
    for contexts in (
        geometry.all_contexts(7, 2, 3),
        geometry.sample_contexts(9, 2, 4, 50, seed=1),
        geometry.balanced_contexts(9, 2, 4, 3, seed=1),
    ):
        flat = np.sort(contexts.reshape(len(contexts), -1), axis=1)
        assert (np.diff(flat, axis=1) > 0).all()
    assert len(geometry.all_contexts(7, 2, 3)) == 5040
    places = geometry.balanced_contexts(9, 2, 4, 3, seed=1).reshape(-1, 8)
    assert all(np.bincount(column, minlength=9).tolist() == [3] * 9 for column in places.T)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: geometry.exact_context(6, 2, 3, 1.0), "vocabulary 6 leaves no token outside .* at least 7"),
        (lambda: geometry.symmetric_context(100, 1, 3, 1.0), "at least two of both"),
        (lambda: geometry.embeddings(5, 1.0, -0.1), "epsilon -0.1 must lie in"),
        (lambda: geometry.embeddings(5, -1.0), "kappa -1 must not be negative"),
        (lambda: geometry.all_contexts(40, 2, 4), "too many contexts .* sample them"),
    ],
)
def test_a_model_that_cannot_be_is_a_mistake_of_the_user(call, message):
    with pytest.raises(UserError, match=message):
        call()
