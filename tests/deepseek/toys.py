"""Untrained models of a few kinds, small enough for a test of arithmetic."""

from __future__ import annotations

import torch
from transformers import (
    DeepseekV4ForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from weakspots.config.deepseek import StandIn, StandInShape
from weakspots.deepseek import standin

VOCABULARY = 43
SLIDING, SPARSE, HEAVY = "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"
STAND_IN = StandIn.model_validate(
    {
        "corpus": "recall",
        "width": 24,
        "heads": 2,
        "head_width": 16,
        "compress_rates": {SPARSE: 3, HEAVY: 5},
        "index_topk": 64,
        "training": {"steps": 13, "batch_tokens": 256, "learning_rate": 3e-3, "warmup_steps": 3},
    }
)
LATENT = StandInShape(architecture="deepseek_v3", layers=["full_attention"] * 2, seed=5)
MIXED = StandInShape(layers=[SLIDING, SPARSE, HEAVY, SPARSE], sliding_window=7, seed=5)


def stand_in(shape: StandInShape = MIXED, **changed) -> PreTrainedModel:
    """A stand-in as it is before training."""
    torch.manual_seed(shape.seed)
    return standin.build(STAND_IN.model_copy(update=changed), shape, VOCABULARY, 0)


def noisy(model: PreTrainedModel, seed: int = 0) -> PreTrainedModel:
    """`model` with all parameters disturbed, gates, biases and norms included, so that nothing is hidden by a 0."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def mixed() -> PreTrainedModel:
    """DeepSeek-V4 with every kind of layer; windows, strides and chunks of tests share no divisor."""
    return noisy(stand_in())


def selective() -> PreTrainedModel:
    """The same, where a query reads only the two entries of a sparse layer that the indexer scores highest.

    Its indexer is larger, since in a small one many scores are 0, and which of equals comes first is chance.
    """
    config = stand_in(index_topk=2).config
    config.index_n_heads, config.index_head_dim = 8, 16
    return noisy(DeepseekV4ForCausalLM(config))


def latent() -> PreTrainedModel:
    """DeepSeek-V3: multi-head latent attention, nothing compressed along the sequence."""
    return noisy(stand_in(LATENT))


def qwen() -> PreTrainedModel:
    """A model of another family, without a window and with one (the second of its layers)."""
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=24,
        intermediate_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=6,
        use_sliding_window=True,
        sliding_window=9,
        layer_types=["full_attention", SLIDING, "full_attention"],
    )
    return noisy(Qwen3ForCausalLM(config))


MODELS = {"mixed": mixed, "selective": selective, "latent": latent, "qwen": qwen}


def texts(count: int, length: int, seed: int = 0) -> torch.Tensor:
    """Random tokens `[count, length]`."""
    return torch.randint(VOCABULARY, (count, length), generator=torch.Generator().manual_seed(seed))
