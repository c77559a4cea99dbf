"""Theorem 1: minima are found, and are what the enumeration says."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import minimize

from weakspots.theory import geometry, minimizers, model
from weakspots.theory.model import Scales

SCALES = Scales(gamma=4.0, beta=2.0)


@settings(max_examples=80, deadline=None)
@given(hnp.arrays(float, (3, 5), elements=st.floats(-50, 50)), st.integers(0, 1000))
def test_projection_is_the_nearest_distribution(points, seed):
    found = minimizers.project(points)
    np.testing.assert_allclose(found.sum(axis=-1), 1)
    assert (found >= 0).all()
    np.testing.assert_allclose(minimizers.project(found), found, atol=1e-12)
    # the variational inequality: no distribution lies further in the direction of what was cut off
    others = np.random.default_rng(seed).dirichlet(np.ones(5), size=(20, 3))
    assert (((points - found) * (others - found)).sum(axis=-1) <= 1e-9 * (1 + np.abs(points).max())).all()


@pytest.mark.parametrize(("vocabulary", "positions", "heads"), [(1_000, 3, 2), (10**6, 4, 2), (10**5, 4, 3)])
def test_at_large_vocabulary_every_descent_ends_concentrated_and_the_best_on_distinct_positions(
    vocabulary, positions, heads
):
    context = geometry.exact_context(vocabulary, 2, positions, 1.0)
    starts = minimizers.random_starts(20, 2, heads, positions, seed=1)
    points, loss, converged = minimizers.descend(context, SCALES, starts)
    assert converged.all() and minimizers.concentrated(points).all()
    assert (loss <= model.loss(context, SCALES, starts[:, 0], starts[:, 1])).all()
    every = minimizers.assignments(2, heads, positions)
    one_hot = minimizers.one_hot_losses(context, SCALES, every)
    assert loss.min() >= one_hot.min() - 1e-12
    apart = minimizers.distinct(every)
    np.testing.assert_allclose(one_hot[apart], one_hot.min(), rtol=1e-14)
    assert one_hot[~apart].min() > one_hot.min() + 0.1 / vocabulary


def test_at_small_vocabulary_the_best_is_not_one_hot():
    context = geometry.exact_context(10, 2, 4, 1.0)
    points, loss, converged = minimizers.descend(context, SCALES, minimizers.random_starts(20, 2, 2, 4, seed=1))
    every = minimizers.one_hot_losses(context, SCALES, minimizers.assignments(2, 2, 4))
    assert converged.all() and loss.min() < every.min() - 1e-3
    assert not minimizers.concentrated(points[[loss.argmin()]])[0]


def test_descent_agrees_with_another_optimiser():
    context = geometry.exact_context(10, 2, 3, 1.0)  # where minima are inside the simplex
    starts = minimizers.random_starts(6, 2, 1, 3, seed=5)
    _, loss, _ = minimizers.descend(context, SCALES, starts)

    shape = starts.shape[1:]
    sums = {"type": "eq", "fun": lambda flat: flat.reshape(shape).sum(axis=-1).ravel() - 1}
    found = [
        minimize(
            lambda flat: float(model.loss(context, SCALES, *flat.reshape(shape))),
            start.ravel(),
            method="SLSQP",
            bounds=[(0, 1)] * start.size,
            constraints=sums,
            options={"ftol": 1e-12, "maxiter": 500},
        ).fun
        for start in starts
    ]
    assert loss.min() == pytest.approx(min(found), abs=1e-6)


def test_the_margin_shrinks_like_one_over_the_vocabulary():
    every = minimizers.assignments(2, 2, 3)
    apart = minimizers.distinct(every)
    products = []
    for vocabulary in (10**5, 10**6):
        one_hot = minimizers.one_hot_losses(geometry.exact_context(vocabulary, 2, 3, 1.0), SCALES, every)
        products.append(vocabulary * (one_hot[~apart].min() - one_hot[apart].max()))
    assert products[0] == pytest.approx(products[1], rel=1e-3)


def test_assignments_are_all_and_distinct_is_judged_in_every_chunk():
    every = minimizers.assignments(2, 2, 4)
    assert len(np.unique(every.reshape(len(every), -1), axis=0)) == 3**4
    expected = [len(set(a)) == 2 and len(set(b)) == 2 for a, b in every.tolist()]
    assert minimizers.distinct(every).tolist() == expected


def test_concentrated_means_one_hot_and_the_value_one_later():
    for key, value in product(range(3), repeat=2):
        points = np.eye(3)[[[[[key]], [[value]]]]]
        assert minimizers.concentrated(points)[0] == (value == key + 1)
    assert not minimizers.concentrated(np.full((1, 2, 1, 1, 3), 1 / 3))[0]
    assert minimizers.concentrated(minimizers.one_hot(minimizers.assignments(2, 2, 3), 3)).all()
