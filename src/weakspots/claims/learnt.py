"""Models that have not learnt are evidence of nothing: their part in every claim is not run, and says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weakspots.analysis.results import Results
from weakspots.claims import kinds
from weakspots.claims.verdicts import Claim, Verdict
from weakspots.config.deepseek import TESTS
from weakspots.files.statuses import Status
from weakspots.files.validation import NOT_LEARNT, Validation


def judge(results: Results, evidence: Results, claim: Claim) -> Verdict:
    """The verdict of one claim on `evidence`, the results of the models that have learnt.

    It names the others that it is about, as far as they have a part in it.
    """
    verdict = claim.measure(evidence)
    left_out = _left_out(results, claim)
    named = list(
        dict.fromkeys(
            part.model
            for part in verdict.parts
            if part.status == Status.NOT_RUN and part.model is not None and part.model in left_out
        )
    )
    parts = tuple(
        replace(part, value=str(left_out[part.model]))
        if part.status == Status.NOT_RUN and part.model in named
        else part
        for part in verdict.parts
    )
    value = f"{verdict.value}; {NOT_LEARNT}: {', '.join(named)}" if named else verdict.value
    return replace(verdict, value=value, parts=parts)


def _left_out(results: Results, claim: Claim) -> Mapping[str, Validation]:
    """By the names that the parts of this claim have."""
    if claim.kind.name in TESTS:
        return results.stand_ins_not_learnt
    return {} if claim.kind == kinds.THEORY else results.not_learnt
