"""The paper's claims as data, each with a function of the results that says whether it holds at the scale that ran.

A verdict is one of: holds, fails, not run (`files.statuses`). Where a claim is about several runs, its parts say the
same of each run, or "flat" where the run has nothing that could show it: a gap within the noise, no head of the kind in
question. No outcome is written down here: thresholds are constants that the claims' texts state, and what falls short
of them fails. One folder per subject: `deepseek`, `lookup`, `mechanism` and `theory`, joined in `catalogue`.
"""

from __future__ import annotations

from weakspots.analysis.results import Results
from weakspots.claims import learnt
from weakspots.claims.catalogue import CLAIMS
from weakspots.claims.report import to_frame, to_markdown
from weakspots.claims.verdicts import Claim, Verdict

__all__ = ["CLAIMS", "Claim", "Verdict", "judge", "to_frame", "to_markdown"]


def judge(results: Results) -> list[tuple[Claim, Verdict]]:
    """Every claim with its verdict, which rests on the models that have learnt."""
    evidence = results.evidence()
    return [(claim, learnt.judge(results, evidence, claim)) for claim in CLAIMS]
