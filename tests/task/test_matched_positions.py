"""Every residue gets target positions with the same two moments, exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weakspots.errors import UserError
from weakspots.task.matched_positions import matched_quotas


@given(modulus=st.sampled_from([2, 3, 4, 5, 6, 7, 8, 9, 12, 24, 48]), times=st.integers(1, 3))
def test_quotas_give_every_residue_the_same_two_moments_exactly(modulus, times):
    count = times * modulus**2
    quotas = matched_quotas(modulus, count)
    assert quotas.counts.shape == (modulus, 3) and quotas.counts.dtype == np.int64
    assert (quotas.counts >= 0).all() and (quotas.counts.sum(axis=1) == count).all()
    for r, row in enumerate(quotas.counts.tolist()):
        lengths = [r, r + modulus, r + 2 * modulus]
        mean = Fraction(sum(n * x for n, x in zip(row, lengths, strict=True)), count)
        variance = Fraction(sum(n * x * x for n, x in zip(row, lengths, strict=True)), count) - mean**2
        assert (mean, variance) == (quotas.mean, quotas.variance)


@pytest.mark.parametrize(("count", "use"), [(1_000, 1_152), (575, 576), (0, 576), (-576, 576)])
def test_quotas_that_would_round_are_refused_with_a_number_that_does_not(count, use):
    with pytest.raises(UserError, match=rf"no multiple of modulus² = 576.* use {use}$"):
        matched_quotas(24, count)
