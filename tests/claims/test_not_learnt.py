"""A model that has not learnt is evidence of nothing: verdicts change by its absence alone, and its parts say so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weakspots import claims
from weakspots.claims import kinds
from weakspots.files.statuses import Status
from weakspots.files.validation import Validation

STUCK = "w8s8-1kv"
"""One that has a part in claims about lookups, knockouts, gates and cycling."""
SAID = "not learnt: its loss is 2.41, and a model has left the plateau below 2.2"
NOT_LEARNT = {STUCK: Validation(2.41, 2.2)}


def without(results, model):
    """The same results of which this model was never run."""
    runs = {
        name: {run: found for run, found in getattr(results, name).items() if run[0] != model}
        for name in ("outcomes", "knockouts")
    }
    gates = {name: found for name, found in results.gates.items() if name != model}
    return replace(results, **runs, gates=gates, cycles={**results.cycles, model: {}}, _measured={})


@pytest.fixture
def judged(results):
    return claims.judge(replace(results, not_learnt=NOT_LEARNT))


def test_no_part_of_any_claim_is_a_finding_about_it(judged):
    found = [(claim, part) for claim, verdict in judged for part in verdict.parts if part.model == STUCK]
    assert {claim.kind for claim, _ in found} == {kinds.LOOKUP, kinds.KNOCKOUT, kinds.GATES, kinds.CYCLING}
    assert {(part.status, part.value) for _, part in found} == {(Status.NOT_RUN, SAID)}
    assert all((part.n, part.low, part.high) == (None, None, None) for _, part in found)


def test_verdicts_are_those_of_the_other_models_and_name_it(results, judged):
    others = claims.judge(without(results, STUCK))
    for (claim, verdict), (_, expected) in zip(judged, others, strict=True):
        has_part = any(part.model == STUCK for part in verdict.parts)
        assert verdict.value == expected.value + (f"; not learnt: {STUCK}" if has_part else ""), claim.id
        assert verdict.status == expected.status, claim.id


def test_a_model_that_would_refute_a_claim_does_not_if_it_has_not_learnt(results):
    """Its answers repeat with half of its stride, beyond the noise."""
    half = np.random.default_rng(5).random((250, 24)) < np.tile([0.9, 0.2, 0.5, 0.1], 6)
    refuted = replace(results, outcomes={**results.outcomes, (STUCK, "prefix"): half}, _measured={})
    name = "accuracy-repeats-with-the-stride"

    def status(results):
        return next(verdict.status for claim, verdict in claims.judge(results) if claim.id == name)

    assert status(refuted) == Status.FAILS
    assert status(replace(refuted, not_learnt=NOT_LEARNT)) == Status.HOLDS


def test_where_no_model_has_learnt_no_claim_about_them_is_judged(results):
    stuck = {model: Validation(2.41, 2.2) for model in results.models}
    about_models = (kinds.LOOKUP, kinds.KNOCKOUT, kinds.GATES, kinds.CYCLING)
    judged = claims.judge(replace(results, not_learnt=stuck))
    assert {verdict.status for claim, verdict in judged if claim.kind in about_models} == {Status.NOT_RUN}
    assert {part.value for claim, verdict in judged if claim.kind in about_models for part in verdict.parts} == {SAID}
