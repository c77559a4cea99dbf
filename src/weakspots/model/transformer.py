"""The decoder: Qwen3's architecture with full or chunk-compressed attention, as a transformers model.

Importing this module registers it, so that transformers' auto classes load and save its folders (safetensors only).

Shapes: B batch, T tokens, E width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import nn
from transformers import AutoModel, AutoModelForCausalLM, GenerationMixin, PreTrainedModel
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast

from weakspots.model.cache import CompressedLayer, new_cache
from weakspots.model.compressor import Compressor
from weakspots.model.configuration import WeakSpotsConfig
from weakspots.model.elementwise import RMSNorm
from weakspots.model.layers import Attention, Block
from weakspots.model.linear_cross_entropy import linear_cross_entropy
from weakspots.model.padding import PaddedCache, groups, pads_before


class WeakSpotsForCausalLM(PreTrainedModel, GenerationMixin):
    """The language model."""

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
        num_items_in_batch: torch.Tensor | int | None = None,
        skip_logits: bool | None = None,
        **unknown: object,
    ) -> CausalLMOutputWithPast:
        """Logits `[B, T, V]` after every token, or after the last `logits_to_keep` tokens only.

        With `labels` `[B, T]` (equal to `input_ids`, or -100 where a token is not to be learnt) the result holds the
        loss: the sum over the labelled tokens by `num_items_in_batch`, or else by their number (0 where there are
        none). It then has logits unless `skip_logits`, by default in training: they are computed at the labelled
        positions alone. A batch may be padded on either side (`padding`); logits of pads are 0 on the left.
        `past_key_values` is the older name of `cache`; the result is the same with any `return_dict`.
        Raises ValueError where `attention_mask` hides a token between visible ones, TypeError for a `cache` that is not
        this model's and for any other argument of transformers that is set (positions are always 0, 1, 2 …).
        """
        if unsupported := sorted(name for name, value in unknown.items() if value is not None and value is not False):
            raise TypeError(f"this model takes no {', '.join(unsupported)}")
        cache = past_key_values if cache is None else cache
        pads = cache.pads if isinstance(cache, PaddedCache) else pads_before(attention_mask)
        skip_logits = labels is not None and (self.training if skip_logits is None else skip_logits)
        if pads is None:
            if cache is None and use_cache:
                cache = self.new_cache()
            keep = logits_to_keep or input_ids.shape[1]
            total, count, logits = self._read(input_ids, cache, labels, None if skip_logits else keep)
        else:
            if cache is not None and not isinstance(cache, PaddedCache):
                raise TypeError("this cache knows of no padding: pass none, or the cache of the last result")
            if cache is None and use_cache:
                cache = PaddedCache(pads, self.new_cache)
            total, count, logits = self._read_padded(input_ids, pads, cache, labels, logits_to_keep, skip_logits)
        loss = None
        if total is not None:
            loss = total if num_items_in_batch is None else total * (count / num_items_in_batch)
        return CausalLMOutputWithPast(loss=loss, logits=logits, cache=cache)

    def final_states(
        self, input_ids: torch.Tensor, cache: Cache | None, last: int, chosen: torch.Tensor | None = None
    ) -> torch.Tensor:
        """What the output layer reads, `[B, last, E]` at the last `last` tokens, or `[n, E]` at the `chosen` ones."""
        compressed = self.layers[0].attention.memory is not None
        if cache is not None and compressed and {type(layer) for layer in cache.layers} != {CompressedLayer}:
            raise TypeError("this cache is for exact keys of every token: pass none, or the cache of the last result")
        start = cache.get_seq_length() if cache is not None else 0
        positions = torch.arange(start, start + input_ids.shape[1], device=input_ids.device)
        x = self.embed(input_ids)
        angles = self.layers[0].attention.rotary.angles(positions, x.dtype)
        for layer in self.layers[:-1]:
            x = layer(x, angles, positions, cache, x.shape[1])
        # What nobody reads is not computed: the last layer serves the positions whose logits or losses are asked for.
        return self.norm(self.layers[-1](x, angles, positions, cache, last, chosen))

    def _read(
        self, input_ids: torch.Tensor, cache: Cache | None, labels: torch.Tensor | None, keep: int | None
    ) -> tuple[torch.Tensor | None, int, torch.Tensor | None]:
        """Mean loss at the labelled tokens, their number, and the logits of the last `keep` tokens (none for None)."""
        length = input_ids.shape[1]
        if labels is None:
            assert keep is not None  # whoever asks for no loss asks for logits
            return None, 0, self.lm_head(self.final_states(input_ids, cache, min(keep, length)))
        targets = F.pad(labels[:, 1:], (0, 1), value=-100).flatten()
        learnt = (targets != -100).nonzero()[:, 0]
        if keep is None:
            x = self.final_states(input_ids, cache, length, learnt)
            return self._loss(x, targets[learnt]), len(learnt), None
        x = self.final_states(input_ids, cache, length)
        loss = self._loss(x.flatten(0, 1)[learnt], targets[learnt])
        return loss, len(learnt), self.lm_head(x[:, length - min(keep, length) :])

    def _read_padded(
        self,
        input_ids: torch.LongTensor,
        pads: torch.Tensor,
        cache: PaddedCache | None,
        labels: torch.Tensor | None,
        logits_to_keep: int,
        skip_logits: bool,
    ) -> tuple[torch.Tensor | None, int, torch.Tensor | None]:
        """As `_read`, for texts of which each begins after its `pads` `[B]`."""
        batch, length = input_ids.shape
        start = cache.columns if cache is not None else 0
        keep = min(logits_to_keep or length, length)
        losses: list[torch.Tensor] = []
        counts: list[int] = []
        whole = None if skip_logits else self.embed.weight.new_zeros(batch, keep, self.config.vocab_size)
        for pad, texts, first in groups(pads, start, length):
            own = labels[texts, first:] if labels is not None else None
            inner = cache.caches[pad] if cache is not None else None
            loss, count, logits = self._read(input_ids[texts, first:], inner, own, None if skip_logits else keep)
            if loss is not None:
                losses.append(loss * count)
                counts.append(count)
            if whole is not None and logits is not None:
                whole = whole.to(logits.dtype)
                whole[texts, keep - logits.shape[1] :] = logits
        if cache is not None:
            cache.columns += length
        if labels is None:
            return None, 0, whole
        return torch.stack(losses).sum() / max(1, sum(counts)), sum(counts), whole

    def _loss(self, states: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Mean loss of `states` `[n, E]`. An output layer that is more than a product, as an adapter makes it, is asked
        for its logits.
        """
        if type(self.lm_head) is nn.Linear or not len(targets):
            return linear_cross_entropy(states, self.lm_head.weight, targets)
        return F.cross_entropy(self.lm_head(states).float(), targets)


class WeakSpotsModel(WeakSpotsForCausalLM):
    """The same decoder for `AutoModel`: it gives hidden states in place of logits."""

    def forward(  # type: ignore[override]
        self,
        input_ids: torch.LongTensor,
        attention_mask: torch.Tensor | None = None,
        cache: Cache | None = None,
        use_cache: bool | None = None,
    ) -> BaseModelOutputWithPast:
        """`last_hidden_state` `[B, T, E]`, normalised. Raises ValueError for a batch that is padded on the left."""
        if pads_before(attention_mask) is not None:
            raise ValueError("hidden states of a batch are read without padding, or with padding on the right")
        if cache is None and use_cache:
            cache = self.new_cache()
        states = self.final_states(input_ids, cache, input_ids.shape[1])
        return BaseModelOutputWithPast(last_hidden_state=states, cache=cache)


AutoModel.register(WeakSpotsConfig, WeakSpotsModel)
AutoModelForCausalLM.register(WeakSpotsConfig, WeakSpotsForCausalLM)
