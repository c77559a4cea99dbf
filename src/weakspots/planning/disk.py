"""Bytes on disk: token shards, weights kept, checkpoints to resume from, result tables.

Numbers that compression makes smaller (Parquet) are upper bounds; logs, tokenizers and small tables are left out.
"""

from __future__ import annotations

from weakspots.config import Config, Corpus, RecallSource
from weakspots.files.tables import SCHEMAS

WEIGHT = 4
"""Bytes of one stored weight: float32."""
KEPT_TO_RESUME = 2
"""Complete checkpoints to resume from; a third is written before the older one is removed."""


def shard_bytes(corpus: Corpus, vocabulary: int) -> int:
    """Token shards: 2 bytes per token (4 where the vocabulary exceeds 65,536), for every stage and for validation.

    The recall corpus marks every token as answer or not in one byte more.
    """
    held_out = corpus.training.validation_sequences * corpus.stages[-1].length
    tokens = held_out + sum(stage.sequences * stage.length for stage in corpus.stages)
    return tokens * ((2 if vocabulary <= 1 << 16 else 4) + isinstance(corpus.source, RecallSource))


def kept_bytes(corpus: Corpus, parameters: int) -> int:
    """The trained model and the weights kept on the way: 4 bytes per parameter at every step of `checkpoint_steps`."""
    training = corpus.training
    return WEIGHT * parameters * len({*training.checkpoint_steps, training.steps})


def resume_bytes(parameters: int) -> int:
    """While a model trains, at most: three checkpoints of weights and AdamW's two moments, 12 bytes per parameter."""
    return (KEPT_TO_RESUME + 1) * 3 * WEIGHT * parameters


def table_rows(config: Config, corpus: str, model: str) -> dict[str, int]:
    """Rows of a model's result tables, all paddings and shifts together; empty where its corpus is not looked up.

    lookup    mappings x modulus prompts per padding
    knockout  the same for every layer, times its KV heads and the whole layer: L (K + 1)
    cycling   cycling.mappings x modulus prompts per shift, if the model is cycled
    """
    lookup, cycling = config.lookup, config.cycling
    if corpus != lookup.corpus:
        return {}
    prompts = lookup.mappings * lookup.modulus * len(lookup.paddings)
    rows = {"lookup": prompts}
    rows["knockout"] = prompts * config.backbone.layers * (config.models[model].kv_heads + 1)
    if model in cycling.models:
        rows["cycling"] = cycling.mappings * lookup.modulus * len(cycling.shifts)
    return rows


def table_bytes(rows: dict[str, int]) -> int:
    """Bytes of result tables with this number of `rows` by kind, at the width of their columns."""
    return sum(count * sum(field.type.bit_width for field in SCHEMAS[kind]) // 8 for kind, count in rows.items())
