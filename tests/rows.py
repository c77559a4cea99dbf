"""The model table of the paper on a small backbone, for tests that must hold for every row."""

from __future__ import annotations

from pathlib import Path

import torch

from weakspots.config import Backbone, load
from weakspots.model.configuration import WeakSpotsConfig
from weakspots.model.transformer import WeakSpotsForCausalLM
from weakspots.model_table import ModelRow, model_row

ROOT = Path(__file__).parent.parent
TABLE = load(ROOT / "config.yaml").models
VOCABULARY = 61
BACKBONE = Backbone(layers=2, width=32, query_heads=8, head_width=8, mlp_width=48, rope_base=10_000.0, initial_std=0.15)
OVERLAPPING_TAIL = model_row(window=8, stride=6, kv_heads=2, local="tail")
"""No row of the table, but one that a designer of a compressor would write."""


def build(row: ModelRow, backbone: Backbone = BACKBONE, seed: int = 0) -> WeakSpotsForCausalLM:
    """A model with random weights, norms and biases included, so that nothing is hidden by a 0 or a 1."""
    torch.manual_seed(seed)
    model = WeakSpotsForCausalLM(WeakSpotsConfig.of(row, backbone, VOCABULARY)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model
