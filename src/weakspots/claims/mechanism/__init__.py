"""The claims about the mechanism: knockouts, gates, and gates that are moved."""

from __future__ import annotations

from weakspots.claims.mechanism import cycling, gates, knockouts
from weakspots.claims.verdicts import Claim

CLAIMS: tuple[Claim, ...] = knockouts.CLAIMS + gates.CLAIMS + cycling.CLAIMS
"""Every claim about the mechanism, in the paper's order."""
