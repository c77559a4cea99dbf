"""The paper's claims as data, each with a function of the results that says whether it holds at the scale that ran.

A verdict is one of: holds, fails, not run. Where a claim is about several runs, its parts say the same of each run, or
"flat" where the run's gap does not exceed the noise, so that there is nothing that could repeat. No outcome is written
down here: thresholds stand in the claims' texts, and what falls short of them fails. One module per stage of the paper.
"""

from __future__ import annotations

from weakspots.claims import lookup
from weakspots.claims.report import to_frame, to_markdown
from weakspots.claims.verdicts import Claim, Verdict
from weakspots.results import Results

__all__ = ["CLAIMS", "Claim", "Verdict", "judge", "to_frame", "to_markdown"]

CLAIMS: tuple[Claim, ...] = lookup.CLAIMS
"""Every claim, in the paper's order."""


def judge(results: Results) -> list[tuple[Claim, Verdict]]:
    """Every claim with its verdict."""
    return [(claim, claim.measure(results)) for claim in CLAIMS]
