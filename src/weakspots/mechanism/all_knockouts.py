"""Every knockout of a model at the cost of one token each, instead of one prompt each.

A knockout changes the final position only, from its own layer up. So the clean prompt is read once, without its last
token, into a cache; then the last token goes through the layers alone. In every layer the clean state spawns one state
per knocked-out head, and all states so far go on together: they share the cached keys and values, and differ in their
own token's. The entry whose window closes at the final position holds that token too, and is computed for each.

Shapes: B prompts, T tokens, V states (the clean one first), E width, H query heads, K KV heads, G = H / K, D channels
per head, P cached keys, c own keys (the token, the entry that closes with it, or both).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from transformers import PreTrainedTokenizerBase
from transformers.cache_utils import Cache

from weakspots.config import Config
from weakspots.lookup.prompts import PromptSet, prompts, words_in_use
from weakspots.lookup.score import batches, rank_and_probability, table, tokenize
from weakspots.mechanism.knockout import calibrate, columns
from weakspots.model.cache import CompressedLayer, Pair
from weakspots.model.layers import Attention
from weakspots.model.loading import load_trained
from weakspots.model.rotary import Angles
from weakspots.model.transformer import WeakSpotsForCausalLM
from weakspots.model_table import WHOLE_LAYER

_LOGITS = 2**26  # computed at a time: 256 MiB in float32, whatever the vocabulary


def measure(
    folder: str | Path, config: Config, paddings: Iterable[str]
) -> Iterator[tuple[str, PromptSet, pd.DataFrame, pd.DataFrame]]:
    """The whole measurement of the trained model in `folder`: each padding with its prompts and two tables.

    The tables are "lookup" and "knockout". Raises UserError where the folder holds no sound model, and as `score` and
    `knockout.calibrate` do.
    """
    model, tokenizer = load_trained(folder, config.device)
    words = words_in_use(config.corpora[config.lookup.corpus])
    for padding in paddings:
        asked = prompts(config.lookup, padding, *words)
        means = calibrate(model, tokenizer, config.lookup, config.knockout, padding, words, asked)
        yield padding, asked, *score(model, tokenizer, asked, means, config.lookup.batch)


def knockouts(model: WeakSpotsForCausalLM) -> list[tuple[int, int]]:
    """Layer and KV head of every knockout; `WHOLE_LAYER` too where a layer has several heads."""
    heads = model.config.num_key_value_heads
    chosen = [*range(heads), *([WHOLE_LAYER] if heads > 1 else [])]
    return [(layer, head) for layer in range(len(model.layers)) for head in chosen]


def final_states(model: WeakSpotsForCausalLM, tokens: torch.Tensor, means: torch.Tensor) -> torch.Tensor:
    """States `[B, V, E]` that the output layer reads at the end of `tokens` `[B, T]`, T at least 2.

    The first is that of the model as it is, the others of its `knockouts`, in that order, with `means` `[L, H * D]`.
    """
    length = tokens.shape[1]
    cache = model.new_cache()
    model(input_ids=tokens[:, :-1], cache=cache, logits_to_keep=1)
    position = torch.tensor([length - 1], device=tokens.device)
    x = model.embed(tokens[:, -1:])
    angles = model.layers[0].attention.rotary.angles(position, x.dtype)
    todo = knockouts(model)
    for number, layer in enumerate(model.layers):
        attended = _attend(layer.attention, layer.attention_norm(x), angles, cache, length)
        heads = [head for where, head in todo if where == number]
        spawned = attended[:, :1].repeat(1, len(heads), 1)
        for state, head in enumerate(heads):
            replaced = columns(model, number, head)
            spawned[:, state, replaced] = means[number, replaced].to(spawned)
        x = torch.cat([x, x[:, :1].expand(-1, len(heads), -1)], dim=1)
        x = x + layer.attention.out(torch.cat([attended, spawned], dim=1))
        x = x + layer.mlp(layer.mlp_norm(x))
    return model.norm(x)


def score(
    model: WeakSpotsForCausalLM, tokenizer: PreTrainedTokenizerBase, prompts: PromptSet, means: torch.Tensor, batch: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables "lookup" and "knockout" of `model`, `batch` prompts at a time.

    Raises UserError as `lookup.score.score` does.
    """
    tokens, answers = tokenize(tokenizer, prompts)
    model.eval()
    ranks, probabilities = [], []
    with torch.inference_mode():
        for inputs, answer in batches(tokens, answers, batch, model.device):
            states = final_states(model, inputs, means)
            answer = answer[:, None].expand(states.shape[:2]).flatten()
            rows = max(1, _LOGITS // model.config.vocab_size)
            parts = zip(states.flatten(0, 1).split(rows), answer.split(rows), strict=True)
            scored = [rank_and_probability(model.lm_head(state), right) for state, right in parts]
            rank, probability = (torch.cat(column).view(states.shape[:2]).cpu() for column in zip(*scored, strict=True))
            ranks.append(rank)
            probabilities.append(probability[:, 0])
    ranked = torch.cat(ranks).numpy()
    clean = table(prompts, ranked[:, 0], torch.cat(probabilities).numpy())
    return clean, _knockout_table(prompts, ranked[:, 1:] == 1, knockouts(model))


def _attend(attention: Attention, hidden: torch.Tensor, angles: Angles, cache: Cache, length: int) -> torch.Tensor:
    """What the heads read `[B, V, H * D]` in the V states `hidden` `[B, V, E]` of the final token."""
    batch, states, _ = hidden.shape
    query, key, value = attention.project(hidden, angles)
    past = cache.layers[attention.layer]
    past_keys, past_values, own = past.keys, past.values, [(key, value)]
    if attention.memory:
        past_keys, past_values, own = _compressed(attention, past, hidden, (key, value), length)
    keys, values = (torch.stack(tensors, dim=3) for tensors in zip(*own, strict=True))  # [B, K, V, c, D]
    query = query.unflatten(1, (attention.kv_heads, -1)) * attention.width**-0.5  # [B, K, G, V, D]
    scores = torch.cat(
        [
            (query.flatten(2, 3) @ past_keys.transpose(2, 3)).unflatten(2, query.shape[2:4]),
            torch.einsum("bkgvd,bkvcd->bkgvc", query, keys),
        ],
        dim=-1,
    )
    weights = scores.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(past_values.dtype)
    of_past, of_own = weights.split([past_keys.shape[2], keys.shape[3]], dim=-1)
    read = (of_past.flatten(2, 3) @ past_values).unflatten(2, query.shape[2:4])
    read = read + torch.einsum("bkgvc,bkvcd->bkgvd", of_own, values)
    return read.permute(0, 3, 1, 2, 4).reshape(batch, states, -1)


def _compressed(
    attention: Attention, past: CompressedLayer, hidden: torch.Tensor, own: Pair, length: int
) -> tuple[torch.Tensor, torch.Tensor, list[Pair]]:
    """Cached keys and values that the final token sees, local ones and entries, and those it adds in every state."""
    memory = attention.memory
    assert memory is not None
    first = memory.entry_count(length - 1)
    last = torch.tensor(length - 1)
    added = [own] if bool(memory.local_visible(last, last)) else []
    if memory.entry_count(length) > first:  # a window closes with this token
        batch, states, width = hidden.shape
        before = past.open_hidden[:, None].expand(-1, states, -1, -1)
        window = torch.cat([before, hidden[:, :, None]], dim=2).flatten(0, 1)
        entry = attention.entries(window, max(0, memory.lead - first * memory.stride), first)
        key, value = (x.to(own[1].dtype).view(batch, states, *x.shape[1:]).squeeze(3).transpose(1, 2) for x in entry)
        added.append((key, value))
    keys, values = (
        torch.cat([x, e.to(x.dtype)], dim=2)
        for x, e in ((past.local_keys, past.keys), (past.local_values, past.values))
    )
    return keys, values, added


def _knockout_table(prompts: PromptSet, correct: np.ndarray, done: list[tuple[int, int]]) -> pd.DataFrame:
    """The table "knockout" of `correct` [N, knockouts]. The only head of a layer is the whole layer too."""
    parts = []
    for (layer, head), outcome in zip(done, correct.T, strict=True):
        only = head != WHOLE_LAYER and (layer, WHOLE_LAYER) not in done
        for name in (head, WHOLE_LAYER) if only else (head,):
            columns = {"mapping": prompts.mapping, "position": prompts.position}
            parts.append(pd.DataFrame({**columns, "layer": layer, "head": name, "correct": outcome}))
    return pd.concat(parts, ignore_index=True)
