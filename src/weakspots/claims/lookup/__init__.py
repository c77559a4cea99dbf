"""The claims about lookup accuracy by position (the paper's Figure 2 and table of selected runs)."""

from __future__ import annotations

from weakspots.claims.lookup import repetition, weak_positions
from weakspots.claims.verdicts import Claim

CLAIMS: tuple[Claim, ...] = repetition.CLAIMS + weak_positions.CLAIMS
"""Every claim about lookup accuracy, in the paper's order."""
