"""Long prompts read in chunks: the same logits as one pass, in memory that hardly grows with the prompt.

One pass over T tokens holds T * T attention scores. A chunk of C tokens holds C * T, in DeepSeek-V4's compressed layers
C * (window + T / stride), and the cache carries everything else from chunk to chunk, unfinished windows included.
Works with every causal language model of transformers. Prompts have one length and are never padded: padding would move
the window boundaries.
"""

from __future__ import annotations

import torch
from transformers import Cache, PreTrainedModel
from transformers.utils import ModelOutput


def prefill(model: PreTrainedModel, tokens: torch.Tensor, chunk: int) -> Cache | None:
    """The cache after `tokens` `[B, T]`, read `chunk` tokens at a time; None for no tokens (T = 0)."""
    cache = None
    for part in tokens.split(chunk, dim=1):
        if part.shape[1]:
            cache = _forward(model, part, cache).cache
    return cache


def next_token_logits(model: PreTrainedModel, tokens: torch.Tensor, chunk: int) -> torch.Tensor:
    """Logits `[B, V]` of the token that follows `tokens` `[B, T]`, T at least 1, read `chunk` tokens at a time."""
    last = (tokens.shape[1] - 1) // chunk * chunk
    return continued_logits(model, tokens[:, last:], prefill(model, tokens[:, :last], chunk))


def continued_logits(model: PreTrainedModel, tokens: torch.Tensor, cache: Cache | None) -> torch.Tensor:
    """Logits `[B, V]` of the token that follows `tokens` `[B, T]` after those that `cache` holds, which it changes."""
    return _forward(model, tokens, cache).logits[:, -1]


def _forward(model: PreTrainedModel, tokens: torch.Tensor, cache: Cache | None) -> ModelOutput:
    with torch.inference_mode():  # without a cache, the model makes one of the kind that its layers need
        return model(input_ids=tokens.to(model.device), cache=cache, use_cache=True, logits_to_keep=1)
