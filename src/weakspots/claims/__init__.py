"""The paper's claims as data, each with a function of the results that says whether it holds at the scale that ran.

A verdict is one of: holds, fails, not run. Where a claim is about several runs, its parts say the same of each run, or
"flat" where the run has nothing that could show it: a gap within the noise, no head of the kind in question. No outcome
is written down here: thresholds stand in the claims' texts, and what falls short of them fails. One module per subject;
`mechanism` joins those of knockouts, gates and cycling, `deepseek` those of its tests.
"""

from __future__ import annotations

from weakspots.analysis.results import Results
from weakspots.claims import deepseek, lookup, mechanism, theory
from weakspots.claims.report import to_frame, to_markdown
from weakspots.claims.verdicts import Claim, Verdict

__all__ = ["CLAIMS", "Claim", "Verdict", "judge", "to_frame", "to_markdown"]

CLAIMS: tuple[Claim, ...] = deepseek.CLAIMS + lookup.CLAIMS + mechanism.CLAIMS + theory.CLAIMS
"""Every claim, in the paper's order."""


def judge(results: Results) -> list[tuple[Claim, Verdict]]:
    """Every claim with its verdict."""
    return [(claim, claim.measure(results)) for claim in CLAIMS]
