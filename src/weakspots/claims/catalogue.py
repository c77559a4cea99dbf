"""Every claim, in the paper's order."""

from __future__ import annotations

from weakspots.claims import deepseek, lookup, mechanism, theory
from weakspots.claims.verdicts import Claim

CLAIMS: tuple[Claim, ...] = deepseek.CLAIMS + lookup.CLAIMS + mechanism.CLAIMS + theory.CLAIMS
"""The folders of this room, one after another."""


def find(claim: str) -> Claim | None:
    """The claim with this id; None for one that a table of another version knows."""
    return next((one for one in CLAIMS if one.id == claim), None)
