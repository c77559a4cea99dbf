"""The layers of the decoder: attention over exact tokens and compressed entries, and Qwen3's MLP.

Where Qwen3 has separate projections for query, key and value and for the two halves of the MLP, one product computes
them here; the arithmetic is the same.

Shapes: B batch, T tokens, E width, H query heads, K KV heads, D channels per head, N entries.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from transformers.cache_utils import Cache
from transformers.modeling_layers import GradientCheckpointingLayer

from weakspots.attention import choose, naive
from weakspots.model.cache import CompressedLayer
from weakspots.model.compressor import Compressor
from weakspots.model.configuration import WeakSpotsConfig
from weakspots.model.elementwise import RMSNorm, rms_norm, swiglu
from weakspots.model.rotary import Angles, Rotary


class Attention(nn.Module):
    """Grouped-query attention over exact tokens, and over compressed entries where the row says so."""

    def __init__(self, config: WeakSpotsConfig, layer: int):
        super().__init__()
        self.row, self.layer = config.model_row(), layer
        self.heads, self.kv_heads, self.width = config.num_attention_heads, self.row.kv_heads, config.head_dim
        self.epsilon = config.rms_norm_eps
        self.qkv = nn.Linear(config.hidden_size, (self.heads + 2 * self.kv_heads) * self.width, bias=False)
        self.out = nn.Linear(self.heads * self.width, config.hidden_size, bias=False)
        self.query_norm = nn.Parameter(torch.ones(self.width)) if self.row.qk_norm else None
        self.key_norm = nn.Parameter(torch.ones(self.width)) if self.row.qk_norm else None
        self.rotary = Rotary(self.width, self.row.rope_fraction, config.rope_base, self.row.rope_last)
        self.memory = None
        if self.row.compressed:
            self.compressor = Compressor(self.row, layer, config.hidden_size, self.width)
            self.memory = self.compressor.memory
            normalised = self.row.qk_norm or self.row.post_norm
            self.entry_norm = nn.Parameter(torch.ones(self.width)) if normalised else None

    def entries(
        self, hidden: torch.Tensor, lead: int | None = None, first: int = 0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Finished entries (normalised, rotated) of the windows in `hidden` `[B, T, E]`: key and value `[B, K, N, D]`.

        Entry j is rotated by position j * S.
        """
        assert self.memory is not None
        key, value = self.compressor(hidden, lead)
        if self.entry_norm is not None:
            key = rms_norm(key, self.entry_norm, self.epsilon)
            if self.row.post_norm:
                value = key
        positions = (first + torch.arange(key.shape[2], device=key.device)) * self.memory.stride
        return self.rotary(key, self.rotary.angles(positions, key.dtype)), value

    def forward(
        self, hidden: torch.Tensor, angles: Angles, positions: torch.Tensor, cache: Cache | None, last: int
    ) -> torch.Tensor:
        """`hidden` `[B, T, E]` at `positions` `[T]`, whose `angles` the rotary module gave.

        Returns what the heads read at the last `last` positions, `[B, last, H * D]`, for `out` to project.
        """
        batch, length, _ = hidden.shape
        query, key, value = self.project(hidden, angles)
        query, positions = query[:, :, length - last :], positions[length - last :]
        attended = self._attend(query, key, value, hidden, positions, cache)
        return attended.transpose(1, 2).reshape(batch, last, -1)

    def project(self, hidden: torch.Tensor, angles: Angles) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Query `[B, H, T, D]`, key and value `[B, K, T, D]` of every token; query and key normalised and rotated."""
        batch, length, _ = hidden.shape
        heads = self.qkv(hidden).view(batch, length, -1, self.width)
        query_key, value = heads.split([self.heads + self.kv_heads, self.kv_heads], dim=2)
        if self.query_norm is not None and self.key_norm is not None:
            scale = torch.cat(
                [self.query_norm.expand(self.heads, -1), self.key_norm.expand(self.kv_heads, -1)],
            )
            query_key = rms_norm(query_key, scale, self.epsilon)
        query_key = self.rotary(query_key.transpose(1, 2), angles)
        # norm and rotation may have been computed in a wider type than the projections
        query, key = query_key.to(value.dtype).split([self.heads, self.kv_heads], dim=1)
        return query, key, value.transpose(1, 2)

    def _attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        hidden: torch.Tensor,
        positions: torch.Tensor,
        cache: Cache | None,
    ) -> torch.Tensor:
        """Outputs `[B, H, Q, D]` of `query` at `positions`, the last of the tokens that `hidden` holds."""
        if self.memory is None:
            if cache is not None:
                key, value = cache.update(key, value, self.layer)
            grouped = self.heads != self.kv_heads
            whole = key.shape[2] == query.shape[2]
            seen = None if whole else torch.arange(key.shape[2], device=key.device) <= positions[:, None]
            return F.scaled_dot_product_attention(query, key, value, seen, is_causal=whole, enable_gqa=grouped)
        from_start = cache is None or cache.layers[self.layer].seen == 0
        if cache is None:
            key_positions, entries = torch.arange(key.shape[2], device=key.device), self.entries(hidden)
        else:
            layer: CompressedLayer = cache.layers[self.layer]
            (key, value), key_positions, entries = layer.extend(key, value, hidden, self.entries)
        entry_key, entry_value = (entry.to(value.dtype) for entry in entries)
        if from_start and query.shape[2] == key.shape[2]:
            return choose.attend(query, key, value, entry_key, entry_value, self.memory)
        return naive.attend(query, positions, key, value, key_positions, entry_key, entry_value, self.memory)


class MLP(nn.Module):
    """Qwen3's SwiGLU."""

    def __init__(self, config: WeakSpotsConfig):
        super().__init__()
        self.gate_up = nn.Linear(config.hidden_size, 2 * config.intermediate_size, bias=False)
        self.down = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[..., E]` to the same shape."""
        return self.down(swiglu(self.gate_up(x)))


class Block(GradientCheckpointingLayer):
    """One pre-norm layer."""

    def __init__(self, config: WeakSpotsConfig, layer: int):
        super().__init__()
        self.attention_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.attention = Attention(config, layer)
        self.mlp_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = MLP(config)

    def forward(
        self,
        x: torch.Tensor,
        angles: Angles,
        positions: torch.Tensor,
        cache: Cache | None,
        last: int,
        chosen: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """`[B, T, E]` to `[B, last, E]`, the last `last` positions.

        With `chosen` `[n]`, numbers of tokens among the B * last, to these tokens only, `[n, E]`.
        """
        attended = self.attention(self.attention_norm(x), angles, positions, cache, last)
        x = x[:, x.shape[1] - last :]
        if chosen is not None:
            attended, x = (tensor.flatten(0, 1).index_select(0, chosen) for tensor in (attended, x))
        x = x + self.attention.out(attended)
        return x + self.mlp(self.mlp_norm(x))
