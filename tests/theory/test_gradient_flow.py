"""Theorem 2: the flow of scores is the flow of the parameters, and is solved to the accuracy it claims."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import softmax

from weakspots.errors import UserError
from weakspots.statistics import effective_number
from weakspots.theory import geometry, model
from weakspots.theory import gradient_flow as flow
from weakspots.theory.model import Scales

SCALES = Scales(gamma=4.0, beta=2.0)


def test_token_gradient_equals_finite_differences_and_the_flow_that_of_the_parameters():
    vocabulary, kappa, heads, positions = 9, 0.7, 2, 3
    exact = geometry.exact_context(vocabulary, 2, positions, kappa)
    contexts = geometry.sample_contexts(vocabulary, 2, positions, 30, seed=1)
    embeddings = geometry.embeddings(vocabulary, kappa)[:, : vocabulary + 1]
    parameters = np.random.default_rng(0).standard_normal((2, heads, positions, vocabulary + 1))
    scores = parameters @ embeddings.T
    losses, gradient = flow.token_loss_and_gradient(exact, SCALES, contexts, scores)

    direction, step = np.random.default_rng(1).standard_normal(scores.shape), 1e-6
    ends = [
        flow.token_loss_and_gradient(exact, SCALES, contexts, scores + sign * step * direction)[0].mean()
        for sign in (1, -1)
    ]
    assert (ends[0] - ends[1]) / (2 * step) == pytest.approx((gradient * direction).sum(), rel=1e-6)

    # autograd through the embeddings: dc/dt = -dL/dc moves the scores as the module says
    c, x, tokens = torch.tensor(parameters, requires_grad=True), torch.tensor(embeddings), torch.tensor(contexts)
    context = x[tokens]  # [M, L, S, d]
    gates = torch.einsum("bhrd,mlrd->bmlhr", c, context).softmax(-1)
    pooled = torch.einsum("bmlhr,mlrd->bmlhd", gates, context)
    attention = (SCALES.gamma * torch.einsum("mkqd,mlhd->mhkql", context[:, :, :-1], pooled[0])).softmax(-1)
    logits = SCALES.beta * torch.einsum("mhkql,mlhd,nd->mkqn", attention, pooled[1], x)
    loss = -logits.log_softmax(-1).gather(-1, tokens[:, :, 1:, None]).mean()
    loss.backward()
    assert losses.mean() == pytest.approx(loss.item(), rel=1e-12)
    moved = -(c.grad.numpy() @ embeddings.T)
    np.testing.assert_allclose(-gradient - kappa * gradient.sum(axis=-1, keepdims=True), moved, atol=1e-14)


def test_monte_carlo_agrees_with_the_enumeration_of_all_contexts():
    vocabulary, place = 8, (8, 2, 3)
    exact = geometry.exact_context(*place, 1.0)
    scores = 2 * np.random.default_rng(0).standard_normal((2, 2, 3, vocabulary))
    population, gradient = flow.token_loss_and_gradient(exact, SCALES, geometry.all_contexts(*place), scores)
    assert len(population) == 20_160
    for contexts in (geometry.sample_contexts(*place, 2_000, seed=1), geometry.balanced_contexts(*place, 250, seed=1)):
        sampled, estimate = flow.token_loss_and_gradient(exact, SCALES, contexts, scores)
        error = sampled.std(ddof=1) / np.sqrt(len(sampled))
        assert abs(sampled.mean() - population.mean()) < 4 * error
        assert np.abs(estimate - gradient).max() < 0.2 * np.abs(gradient).max()


def test_gates_equal_for_all_tokens_stay_so_and_follow_the_common_flow():
    vocabulary, kappa, place = 20, 1.0, (20, 2, 4)
    common = flow.initial_scores(1, 2, 4, vocabulary, kappa, 1.0, seed=3)
    times = np.geomspace(1, 400, 6)
    rate = kappa + 1 / vocabulary
    reduced = flow.common_flow(geometry.symmetric_context(*place, kappa), SCALES, rate, common, times, 1e-8)[:, 0]
    start = np.repeat(common[0, ..., None], vocabulary, axis=-1)
    contexts = geometry.balanced_contexts(*place, 1, seed=0)
    tokens = flow.token_flow(geometry.exact_context(*place, kappa), SCALES, kappa, contexts, start, times, 1e-8)
    assert np.ptp(tokens, axis=-1).max() < 1e-9
    np.testing.assert_allclose(tokens.mean(axis=-1), reduced, atol=1e-4)


def test_common_starts_are_distributed_as_those_of_the_whole_ball():
    heads, positions, vocabulary, kappa, rho = 1, 2, 3, 2.0, 0.5
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((4_000, 2 * heads * positions * (vocabulary + 1)))
    drawn *= (rho * rng.random(4_000) ** (1 / drawn.shape[1]) / np.linalg.norm(drawn, axis=1))[:, None]
    c = drawn.reshape(4_000, 2, heads, positions, vocabulary + 1)
    expected = np.sqrt(kappa) * c[..., 0] + c[..., 1:].mean(axis=-1)
    found = flow.initial_scores(4_000, heads, positions, vocabulary, kappa, rho, seed=1)
    for measure in (lambda s: s[:, 0, 0, 0], lambda s: np.linalg.norm(s.reshape(len(s), -1), axis=1)):
        assert stats.ks_2samp(measure(found), measure(expected)).pvalue > 1e-3
    one = np.concatenate([flow.initial_token_scores(1, 2, 3, kappa, rho, seed)[:, :, :, 0] for seed in range(2_000)])
    assert one.std() == pytest.approx((np.sqrt(kappa) * c[..., 0] + c[..., 1]).std(), rel=0.05)


def test_the_loss_falls_and_every_head_ends_on_one_position_with_the_value_on_the_next():
    context = geometry.symmetric_context(10**6, 4, 4, 1.0)
    start = flow.initial_scores(20, 2, 4, 10**6, 1.0, 0.01, seed=0)
    times = np.geomspace(1, 3_000, 40)
    scores = flow.common_flow(context, SCALES, 1.0, start, times)
    gates = softmax(scores, axis=-1)
    loss = model.loss(context, SCALES, gates[:, :, 0, None], gates[:, :, 1, None])
    assert (np.diff(loss, axis=0) < 1e-9).all()
    assert effective_number(gates[-1]).max() < 1.05
    np.testing.assert_array_equal(gates[-1, :, 1].argmax(axis=-1), gates[-1, :, 0].argmax(axis=-1) + 1)


def test_a_smaller_tolerance_and_a_run_of_its_own_give_the_same_choice():
    context = geometry.symmetric_context(10**6, 4, 8, 1.0)
    start = flow.initial_scores(20, 3, 8, 10**6, 1.0, 1e-4, seed=1)
    times = np.array([50.0, 40_000.0])
    batch = flow.common_flow(context, SCALES, 1.0, start, times)
    exact = flow.common_flow(context, SCALES, 1.0, start, times, tolerance=1e-9)
    np.testing.assert_array_equal(batch[-1, :, 0].argmax(axis=-1), exact[-1, :, 0].argmax(axis=-1))
    np.testing.assert_allclose(softmax(batch[-1], axis=-1), softmax(exact[-1], axis=-1), atol=1e-3)
    alone = flow.common_flow(context, SCALES, 1.0, start[4:5], times, tolerance=1e-9)
    np.testing.assert_allclose(softmax(alone[-1, 0], axis=-1), softmax(exact[-1, 4], axis=-1), atol=1e-5)


def test_the_tolerance_holds_for_a_run_among_many_that_rest():
    context, times = geometry.symmetric_context(10**6, 4, 4, 1.0), np.geomspace(10, 3_000, 30)
    start = flow.initial_scores(1, 2, 4, 10**6, 1.0, 0.01, seed=3)
    end = flow.common_flow(context, SCALES, 1.0, start, times)[-1]
    exact = flow.common_flow(context, SCALES, 1.0, start, times, tolerance=1e-11)[:, 0]
    many = np.concatenate([start, np.repeat(end, 99, axis=0)])
    alone, among = (
        np.abs(flow.common_flow(context, SCALES, 1.0, runs, times, tolerance=1e-4)[:, 0] - exact).max()
        for runs in (start, many)
    )
    assert among < 2 * alone


@pytest.mark.parametrize(("chunks", "positions"), [(2, 4), (4, 4), (4, 8)])
def test_the_escape_rate_is_the_growth_rate_of_a_small_difference(chunks, positions):
    context = geometry.symmetric_context(1e9, chunks, positions, 1.0)
    rate = flow.escape_rate(SCALES, chunks, positions, 1e9, 1.0)
    start = np.zeros((1, 2, 1, positions))
    start[0, 0, 0, -1] = start[0, 1, 0, 0] = -40  # nothing on the positions that are not asked for
    start[0, 0, 0, 0] = 1e-6
    scores = flow.common_flow(context, SCALES, 1.0, start, np.array([5.0, 6.0]) / rate, tolerance=1e-9)
    difference = scores[:, 0, 0, 0, 0] - scores[:, 0, 0, 0, 1]
    assert np.log(difference[1] / difference[0]) == pytest.approx(1, abs=2e-3)


def test_the_least_weight_is_that_of_the_worst_context():
    scores = np.random.default_rng(2).standard_normal((2, 1, 3, 7))
    gates = flow.token_gates(scores, geometry.all_contexts(7, 2, 3))  # [2, M, L, m, S]
    for position in range(3):
        bound = flow.least_weight(scores, np.full((2, 1), position))
        worst = gates[..., position].min(axis=(1, 2))
        assert (bound <= worst + 1e-12).all()
    # tight where the extreme tokens are distinct
    scores = np.zeros((2, 5))
    scores[0, 0], scores[1, 1] = -1, 1
    assert flow.least_weight(scores, np.array(0)) == pytest.approx(np.exp(-1) / (np.exp(-1) + np.exp(1)))


def test_a_flow_that_cannot_be_solved_says_so():
    with pytest.raises(UserError, match="could not be integrated .* lower gamma or beta"):
        flow.integrate(lambda time, y: y**2, np.ones(1), np.array([2.0]), 1e-6)
