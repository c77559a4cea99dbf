"""Stand-ins: tiny models of DeepSeek's architectures, as transformers has them, trained on the recall corpus.

They show what the architecture does by itself; none of their numbers are DeepSeek's. The compressed one has the model
family's own layers at a small width: sliding, compressed sparse (CSA) and heavily compressed (HCA) attention, experts
and hyper-connections. The control has no compression, and therefore nothing that could repeat with a stride.

From random weights such a model had not left the plateau where it guesses among all names it has read. `_add_identity`
lets it begin with attention that compares and copies tokens as they are. Gates and their position bias stay as
transformers initialises them (small random projections, a bias of zero): no offset of a window is preferred before
training, so whatever phase there is afterwards is learnt.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import torch
from transformers import (
    AutoTokenizer,
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    DeepseekV4Config,
    DeepseekV4ForCausalLM,
    PreTrainedModel,
)

from weakspots.config import Corpus
from weakspots.config.deepseek import StandIn, StandInShape
from weakspots.training import loop
from weakspots.training.record import Publish

_ROTATING = 0.125
"""Share of a head's channels that rotate in the compressed stand-in, as in DeepSeek-V4 (64 of 512)."""
_SINKHORN = 4
"""Iterations that balance the hyper-connections' mixing matrices: enough for 4 streams, and a third quicker than 20."""


def train(
    stand_in: StandIn,
    shape: StandInShape,
    corpus: Corpus,
    data: Path,
    folder: Path,
    device: str = "cpu",
    publish: Publish = None,
) -> dict[str, pd.DataFrame]:
    """Trains one stand-in on the shards in `data` and saves it, with its tokenizer, to `folder`: see `loop.run`.

    `corpus` is the recall corpus, of which `stand_in.trained_on` says what holds.
    """
    tokenizer = AutoTokenizer.from_pretrained(data / "tokenizer")
    torch.manual_seed(shape.seed)
    model = build(stand_in, shape, len(tokenizer), tokenizer.eos_token_id)
    return loop.run(model, shape.seed, stand_in.trained_on(corpus, shape.steps), data, folder, device, publish=publish)


@torch.no_grad()
def build(stand_in: StandIn, shape: StandInShape, vocabulary: int, end_of_text: int) -> PreTrainedModel:
    """An untrained stand-in with a vocabulary of that size, its weights drawn from torch's generator."""
    width, layers = stand_in.width, len(shape.layers)
    common = {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": stand_in.heads,
        "q_lora_rank": width,
        "moe_intermediate_size": width,
        "n_routed_experts": stand_in.experts,
        "num_experts_per_tok": min(2, stand_in.experts),
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": end_of_text,
    }
    return (_compressed if shape.architecture == "deepseek_v4" else _latent)(stand_in, shape, common)


def _compressed(stand_in: StandIn, shape: StandInShape, common: dict) -> PreTrainedModel:
    """DeepSeek-V4: layers with a window, and with compressed entries besides."""
    config = DeepseekV4Config(
        **common,
        layer_types=shape.layers,
        head_dim=stand_in.head_width,
        o_lora_rank=stand_in.width,
        o_groups=1,
        sliding_window=shape.sliding_window,
        compress_rates=dict(stand_in.compress_rates),
        compress_rope_theta=10_000,  # as in the window: prompts are too short for the model family's 160,000
        partial_rotary_factor=_ROTATING,
        index_n_heads=1,
        index_head_dim=int(stand_in.head_width * _ROTATING),
        index_topk=stand_in.index_topk,
        mlp_layer_types=["moe"] * len(shape.layers),  # the first layers' default needs a table that checkpoints bring
        hc_sinkhorn_iters=_SINKHORN,
    )
    model = DeepseekV4ForCausalLM(config)
    for attention in (layer.self_attn for layer in model.model.layers):
        projections = [
            attention.q_a_proj,
            attention.q_b_proj,
            attention.kv_proj,
            attention.o_a_proj,
            attention.o_b_proj,
        ]
        if attention.compressor is not None:
            projections.append(attention.compressor.kv_proj)
        _add_identity(*(projection.weight for projection in projections))
    for name, parameter in model.named_parameters():
        if ".indexer." in name:  # it chooses entries, and a choice has no gradient; index_topk lets it choose all
            parameter.requires_grad_(False)
    return model


def _latent(stand_in: StandIn, shape: StandInShape, common: dict) -> PreTrainedModel:
    """DeepSeek-V3: multi-head latent attention to every token."""
    rotating = stand_in.head_width // 2
    config = DeepseekV3Config(
        **common,
        num_key_value_heads=stand_in.heads,
        kv_lora_rank=stand_in.width,
        qk_rope_head_dim=rotating,
        qk_nope_head_dim=stand_in.head_width - rotating,
        v_head_dim=stand_in.head_width,
        n_group=1,
        topk_group=1,
        first_k_dense_replace=0,
        num_mtp_layers=0,
    )
    model = DeepseekV3ForCausalLM(config)
    for attention in (layer.self_attn for layer in model.model.layers):
        latent = attention.kv_a_proj_with_mqa.weight[: stand_in.width]
        _add_identity(attention.q_a_proj.weight, attention.q_b_proj.weight, latent, attention.o_proj.weight)
        for head in attention.kv_b_proj.weight.view(stand_in.heads, -1, stand_in.width):
            _add_identity(head[: config.qk_nope_head_dim], head[config.qk_nope_head_dim :])
    return model


def _add_identity(*weights: torch.Tensor) -> None:
    """Adds an identity to weights; where they are not square, one beside the other along the longer side."""
    for weight in weights:
        rows, columns = weight.shape
        diagonal = torch.arange(max(rows, columns))
        weight[diagonal % rows, diagonal % columns] += 1
