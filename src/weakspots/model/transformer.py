"""The decoder: Qwen3's architecture with full or chunk-compressed attention, as a transformers model.

Importing this module registers it, so that `AutoModelForCausalLM` loads and saves its folders (safetensors only).
Where Qwen3 has separate projections for query, key and value and for the two halves of the MLP, one product computes
them here; the arithmetic is the same.

Shapes: B batch, T tokens, E width, H query heads, K KV heads, D channels per head, N entries, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    GenerationMixin,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.cache_utils import Cache
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import CausalLMOutputWithPast

from weakspots.attention import choose, naive
from weakspots.config import Backbone
from weakspots.model.cache import CompressedLayer, new_cache
from weakspots.model.compressor import Compressor
from weakspots.model.elementwise import RMSNorm, rms_norm, swiglu
from weakspots.model.linear_cross_entropy import linear_cross_entropy
from weakspots.model.rotary import Angles, Rotary
from weakspots.model_table import ModelRow, model_row


class WeakSpotsConfig(PreTrainedConfig):
    """Shape of a model: the backbone's fields under transformers' names, and `row`, its row of the model table.

    `max_position_embeddings` is the length in tokens of the longest text it was trained on, where that is known; the
    model reads longer ones too, and nothing says how well.
    """

    model_type = "weakspots"

    vocab_size: int = 256
    hidden_size: int = 64
    num_hidden_layers: int = 2
    num_attention_heads: int = 8
    num_key_value_heads: int = 1
    head_dim: int = 16
    intermediate_size: int = 192
    rms_norm_eps: float = 1e-6
    rope_base: float = 10_000.0
    initializer_range: float = 0.02
    tie_word_embeddings: bool = True
    use_cache: bool = True
    max_position_embeddings: int | None = None
    row: dict | None = None
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    pad_token_id: int | None = None

    @classmethod
    def of(
        cls,
        row: ModelRow,
        backbone: Backbone,
        vocabulary: int,
        end_of_text: int | None = None,
        context: int | None = None,
    ) -> WeakSpotsConfig:
        """The configuration of one row of the model table on `backbone`, trained on texts of `context` tokens."""
        return cls(
            vocab_size=vocabulary,
            hidden_size=backbone.width,
            num_hidden_layers=backbone.layers,
            num_attention_heads=backbone.query_heads,
            num_key_value_heads=row.kv_heads,
            head_dim=backbone.head_width,
            intermediate_size=backbone.mlp_width,
            rms_norm_eps=backbone.norm_epsilon,
            rope_base=backbone.rope_base,
            initializer_range=backbone.initial_std,
            max_position_embeddings=context,
            row={**row.model_dump(exclude_unset=not row.compressed), "compressor": row.compressor},
            bos_token_id=end_of_text,
            eos_token_id=end_of_text,
            pad_token_id=end_of_text,
        )

    def model_row(self) -> ModelRow:
        """The row of the model table this model was built from."""
        row = {"compressor": "none", "kv_heads": self.num_key_value_heads} if self.row is None else self.row
        return model_row(**row)


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


class WeakSpotsForCausalLM(PreTrainedModel, GenerationMixin):
    """The language model. Left padding is refused: it would move the window boundaries."""

    config_class = WeakSpotsConfig
    base_model_prefix = ""
    _tied_weights_keys = {"lm_head.weight": "embed.weight"}
    _no_split_modules = ["Block"]
    supports_gradient_checkpointing = True

    def __init__(self, config: WeakSpotsConfig):
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        # A ModuleList does not say of which modules, so its type is that of a sequence.
        blocks = [Block(config, layer) for layer in range(config.num_hidden_layers)]
        self.layers: Sequence[Block] = nn.ModuleList(blocks)  # type: ignore[assignment]
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Normal weights of the configured deviation; norms at 1, gate biases at 0."""
        std = self.config.initializer_range
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=std)
        elif isinstance(module, RMSNorm):
            nn.init.ones_(module.weight)
        elif isinstance(module, Compressor):
            module.reset_parameters(std)
        elif isinstance(module, Attention):
            for scale in (module.query_norm, module.key_norm, getattr(module, "entry_norm", None)):
                if scale is not None:
                    nn.init.ones_(scale)

    def get_input_embeddings(self) -> nn.Embedding:
        """For transformers: the embedding of tokens."""
        return self.embed

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """For transformers: replaces the embedding of tokens."""
        self.embed = value

    def get_output_embeddings(self) -> nn.Linear:
        """For transformers: the product that gives logits, tied to the embedding."""
        return self.lm_head

    def new_cache(self) -> Cache:
        """An empty cache for this model."""
        return new_cache(layer.attention.memory for layer in self.layers)

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # generate() leaves the cache to forward, which makes a compressed one

    def forward(
        self,
        input_ids: torch.LongTensor,
        attention_mask: torch.Tensor | None = None,
        cache: Cache | None = None,
        labels: torch.LongTensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
        past_key_values: Cache | None = None,
        return_dict: bool | None = None,
        num_items_in_batch: object = None,
        **unknown: object,
    ) -> CausalLMOutputWithPast:
        """Logits `[B, T, V]` after every token, or after the last `logits_to_keep` tokens only.

        With `labels` `[B, T]` (equal to `input_ids`, or -100 where a token is not to be learnt) the result holds the
        mean loss over the labelled tokens (0 where there are none), and no logits: they are computed at the labelled
        positions alone. `past_key_values` is the older name of `cache`; the result is the same with any `return_dict`,
        and with any `num_items_in_batch`, since the training loop weighs the loss itself.
        Raises ValueError where `attention_mask` hides a token before a visible one, TypeError for a `cache` that is not
        this model's and for any other argument of transformers that is set (positions are always 0, 1, 2 …).
        """
        if unsupported := sorted(name for name, value in unknown.items() if value is not None and value is not False):
            raise TypeError(f"this model takes no {', '.join(unsupported)}")
        cache = past_key_values if cache is None else cache
        if attention_mask is not None and bool((attention_mask[:, 1:] > attention_mask[:, :-1]).any()):
            raise ValueError("padding before a token would move the window boundaries: pad on the right, or not at all")
        compressed = self.layers[0].attention.memory is not None
        if cache is not None and compressed and {type(layer) for layer in cache.layers} != {CompressedLayer}:
            raise TypeError("this cache is for exact keys of every token: pass none, or the cache of the last result")
        start = cache.get_seq_length() if cache is not None else 0
        if cache is None and use_cache:
            cache = self.new_cache()
        positions = torch.arange(start, start + input_ids.shape[1], device=input_ids.device)
        x = self.embed(input_ids)
        angles = self.layers[0].attention.rotary.angles(positions, x.dtype)
        for layer in self.layers[:-1]:
            x = layer(x, angles, positions, cache, x.shape[1])
        # What nobody reads is not computed: the last layer serves the positions whose logits or losses are asked for.
        if labels is not None:
            targets = F.pad(labels[:, 1:], (0, 1), value=-100).flatten()
            learnt = (targets != -100).nonzero()[:, 0]
            x = self.norm(self.layers[-1](x, angles, positions, cache, x.shape[1], learnt))
            return CausalLMOutputWithPast(loss=linear_cross_entropy(x, self.lm_head.weight, targets[learnt]))
        x = self.norm(self.layers[-1](x, angles, positions, cache, min(logits_to_keep or x.shape[1], x.shape[1])))
        return CausalLMOutputWithPast(logits=self.lm_head(x), cache=cache)


AutoConfig.register(WeakSpotsConfig.model_type, WeakSpotsConfig)
AutoModelForCausalLM.register(WeakSpotsConfig, WeakSpotsForCausalLM)
