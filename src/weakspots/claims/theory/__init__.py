"""The claims of the paper's idealised model: Theorems 1 and 2, and what follows from them (tables of the theory)."""

from __future__ import annotations

from weakspots.claims.theory import theorem_1, theorem_2
from weakspots.claims.verdicts import Claim

CLAIMS: tuple[Claim, ...] = theorem_1.CLAIMS + theorem_2.CLAIMS
"""The claims of the idealised model, in the paper's order."""
