"""The loop of an audit: ask some more mappings, look, stop when the verdict is settled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from weakspots.audit.compare import Paired, paired
from weakspots.audit.decide import PHASE_KINDS, Finding, finding, settled
from weakspots.audit.design import Design
from weakspots.audit.prompts import Batch
from weakspots.audit.sequential import Look

Ask = Callable[[int, int], tuple[Batch, list[np.ndarray]]]
"""From the first mapping and a count to their prompts and, per backend, which answers [n] are right."""


@dataclass(frozen=True)
class Seen:
    """After the last look: all prompts, what was right and what was found per backend, and the paired test of two."""

    batch: Batch
    correct: list[np.ndarray]
    findings: list[list[Finding]]
    test: Paired | None
    mappings: int
    looks: int
    settled: bool


def follow(
    ask: Ask,
    design: Design,
    looks: Sequence[Look],
    limit: float,
    *,
    confidence: float = 0.95,
    seed: int = 0,
) -> Seen:
    """Asks and looks until the verdict is settled (`decide.settled`), at the last look at the latest.

    With two backends it is settled when the paired test finds a fault of one of them and some gap is surely above
    `limit`, or when neither shows anything and gaps of `limit` points are ruled out for both.
    """
    batch: Batch | None = None
    correct: list[np.ndarray] = []
    findings: list[list[Finding]] = []
    test: Paired | None = None
    before = 0
    for look in looks:
        more, right = ask(before, look.mappings - before)
        batch, before = more if batch is None else joined(batch, more), look.mappings
        correct = [np.append(*both) for both in zip(correct, right, strict=True)] if correct else right
        latest = [
            [finding(batch, seen, design, kind, look.level, confidence, seed) for kind in PHASE_KINDS]
            for seen in correct
        ]
        findings = [
            [_kept(new, old) for new, old in zip(*both, strict=True)]
            for both in zip(latest, findings or latest, strict=True)
        ]
        done = all(settled(some, limit) for some in findings)
        if len(correct) > 1:
            first, second = correct
            compared = paired(batch, first, second, design, look.level)
            test = test if test and test.found and not compared.found else compared
            every = [one for some in findings for one in some]
            large = any(one.gap_low > limit for one in every)
            done = (test.found and large) or (done and not any(one.found for one in every))
        if done:
            break
    assert batch is not None  # there is a look at least
    return Seen(batch, correct, findings, test, before, looks.index(look) + 1, done)


def _kept(latest: Finding, earlier: Finding) -> Finding:
    """A finding stays one, with its period and p-value, and so does what was ruled out.

    Each look had its own share of the error rate, so nothing that one found is lost by a later one that does not.
    """
    low = max(latest.gap_low, earlier.gap_low)
    high = max(low, min(latest.gap_high, earlier.gap_high))
    return replace(earlier if earlier.found and not latest.found else latest, gap_low=low, gap_high=high)


def joined(one: Batch, other: Batch) -> Batch:
    """The prompts of both."""
    values: dict[str, Any] = {}
    for field in fields(Batch):
        a, b = getattr(one, field.name), getattr(other, field.name)
        values[field.name] = a + b if isinstance(a, list) else np.concatenate([a, b])
    return Batch(**values)
