"""Planted results that a test may change."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mechanism_claims import LAYERS, SMALL
from planted_mechanism import planted_mechanism

from weakspots.analysis.results import Results


@pytest.fixture(scope="module")
def planting() -> Results:
    return planted_mechanism(SMALL, LAYERS)


@pytest.fixture
def results(planting) -> Results:
    """A copy of the planting that a test may change."""
    knockouts = {run: dict(heads) for run, heads in planting.knockouts.items()}
    own = {"outcomes": dict(planting.outcomes), "knockouts": knockouts, "gates": dict(planting.gates)}
    return replace(planting, **own, cycles=dict(planting.cycles), _measured={})
