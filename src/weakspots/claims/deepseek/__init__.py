"""The claims about DeepSeek's models: the completion that flips, the needle, the layer knockouts."""

from __future__ import annotations

from weakspots.claims.deepseek import completion, layers, needle
from weakspots.claims.verdicts import Claim

CLAIMS: tuple[Claim, ...] = completion.CLAIMS + needle.CLAIMS + layers.CLAIMS
"""Every claim about DeepSeek's models, in the paper's order."""
