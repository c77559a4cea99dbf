"""What every run of a scale costs: its configuration put through `counts`, `memory` and `disk`."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

from weakspots.config import Config
from weakspots.errors import UserError
from weakspots.planning import counts, disk, memory
from weakspots.planning.vocabulary import vocabulary as known_vocabulary


@dataclass(frozen=True)
class Assumptions:
    """What the configuration does not say.

    `days` one run may take; `mfu`, the share of `peak_tflops` (10^12 operations per second of one GPU) that the model's
    own operations reach; `vocabulary` of every corpus, or None to find out. Raises UserError for what cannot be.
    """

    days: float = 7.0
    mfu: float = 0.4
    peak_tflops: float = 989.0
    vocabulary: int | None = None

    def __post_init__(self) -> None:
        for flag, value in (("--days", self.days), ("--mfu", self.mfu), ("--peak-tflops", self.peak_tflops)):
            if not (math.isfinite(value) and value > 0):
                raise UserError(f"{flag} {value:g} must be a number above 0")
        if self.mfu > 1:
            raise UserError(f"--mfu {self.mfu:g} is a share of the peak: use at most 1")
        if self.vocabulary is not None and self.vocabulary < 2:
            raise UserError(f"--vocabulary {self.vocabulary} must be at least 2 tokens")

    @property
    def flops_per_second(self) -> float:
        """Operations of the model that one GPU does in a second."""
        return self.mfu * self.peak_tflops * 1e12


@dataclass(frozen=True)
class Cost:
    """One run. `memory` and `disk` are in bytes; `rows` are those of its result tables, by kind.

    `memory` has state, activations (all kept), recomputed (with activation checkpointing instead) and logits; `disk`
    has kept, resume (only while it trains) and tables.
    """

    model: str
    label: str
    parameters: int
    compressor: int
    flops_per_token: float
    gpu_hours: float
    memory: dict[str, float]
    disk: dict[str, int]
    rows: dict[str, int]


@dataclass(frozen=True)
class CorpusPlan:
    """All runs on one corpus; lengths and batches in tokens, shards in bytes.

    Tokens are those of training, with every stage counted like the last: when the ones before it end depends on the
    loss.
    """

    corpus: str
    vocabulary: int
    length: int
    steps: int
    batch: int
    micro_batch: int
    recompute: bool
    precision: str
    shards: int
    costs: tuple[Cost, ...]

    @property
    def tokens(self) -> int:
        """Tokens that one run trains on."""
        return self.steps * self.batch


def plan(config: Config, assumptions: Assumptions, models: Collection[str] = ()) -> list[CorpusPlan]:
    """What every corpus that trains one of `models` costs; all models if none is named.

    Raises UserError for a name that is no row of the model table, and for a vocabulary that is not known.
    """
    if unknown := [name for name in models if name not in config.models]:
        raise UserError(f"--models {', '.join(unknown)}: no such row of models ({', '.join(config.models)})")
    plans = [_plan(config, name, assumptions, models) for name in config.corpora]
    plans = [each for each in plans if each.costs]
    if not plans:
        raise UserError(f"no corpus trains {', '.join(models) or 'any model'}: name others, or add them to its models")
    return plans


def _plan(config: Config, name: str, assumptions: Assumptions, models: Collection[str]) -> CorpusPlan:
    corpus = config.corpora[name]
    training, length = corpus.training, corpus.stages[-1].length
    chosen = [model for model in config.models_of(name) if not models or model in models]
    size = 0
    if chosen:
        size = known_vocabulary(corpus, name) if assumptions.vocabulary is None else assumptions.vocabulary
    batch = training.batch_tokens // length * length
    micro_batch = min(batch, training.micro_batch_tokens or batch)
    found = CorpusPlan(
        corpus=name,
        vocabulary=size,
        length=length,
        steps=training.steps,
        batch=batch,
        micro_batch=max(length, micro_batch // length * length),
        recompute=training.recompute,
        precision=training.precision,
        shards=disk.shard_bytes(corpus, size),
        costs=(),
    )
    return replace(found, costs=tuple(_cost(config, found, model, assumptions) for model in chosen))


def _cost(config: Config, plan: CorpusPlan, model: str, assumptions: Assumptions) -> Cost:
    row, backbone, precision = config.models[model], config.backbone, plan.precision
    parts = counts.parameters_by_part(row, backbone, plan.vocabulary)
    parameters = sum(parts.values())
    flops = counts.flops_per_token(row, backbone, plan.vocabulary, plan.length)
    activations = {
        name: memory.activation_bytes(row, backbone, plan.length, plan.micro_batch, precision, recompute)
        for name, recompute in (("activations", False), ("recomputed", True))
    }
    rows = disk.table_rows(config, plan.corpus, model)
    return Cost(
        model=model,
        label=row.label(),
        parameters=parameters,
        compressor=parts["compressor"],
        flops_per_token=flops,
        gpu_hours=flops * plan.tokens / assumptions.flops_per_second / 3600,
        memory={
            "state": sum(memory.state_bytes(row, backbone, plan.vocabulary, precision).values()),
            **activations,
            "logits": memory.logits_bytes(backbone, plan.vocabulary, plan.micro_batch, precision),
        },
        disk={
            "kept": disk.kept_bytes(config.corpora[plan.corpus], parameters),
            "resume": disk.resume_bytes(parameters),
            "tables": disk.table_bytes(rows),
        },
        rows=rows,
    )
