"""The claims about DeepSeek's models: the completion that flips, the needle, the layer knockouts."""

from __future__ import annotations

from weakspots.claims import deepseek_completion, deepseek_layers, deepseek_needle
from weakspots.claims.verdicts import Claim

CLAIMS: tuple[Claim, ...] = deepseek_completion.CLAIMS + deepseek_needle.CLAIMS + deepseek_layers.CLAIMS
"""Every claim about DeepSeek's models, in the paper's order."""
