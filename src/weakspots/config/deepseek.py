"""The DeepSeek part: which models are asked and where, what they are asked, and how their stand-ins are trained."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from weakspots.config.corpus import Corpus, Training
from weakspots.config.section import Section, Seed, without_nulls

TESTS = ("needle", "code_completion", "layer_knockout")
"""What a model is asked: sections of the configuration, and the names of the tables."""


class Endpoint(Section):
    """A server with an OpenAI-style `/v1/completions` that takes token ids."""

    url: str = Field(pattern=r"^https?://", description="up to and with /v1")
    model: str = Field(description="the name under which the server knows the model")
    concurrency: int = Field(64, ge=1, description="requests in flight")
    timeout: float = Field(600, gt=0, description="seconds that one request may take")
    logprobs: int = Field(20, ge=0, description="top tokens asked for; 0: the greedy token only")
    key_variable: str = Field("OPENAI_API_KEY", description="environment variable with the API key, if one is needed")
    extra_body: dict[str, Any] = Field(default_factory=dict, description="added to every request")


class StandInShape(Section):
    """What tells one locally trained stand-in from another."""

    architecture: Literal["deepseek_v4", "deepseek_v3"] = Field("deepseek_v4", description="transformers' name")
    layers: list[
        Literal["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention", "full_attention"]
    ] = Field(min_length=1, description="the attention of each layer; full_attention: deepseek_v3 only")
    sliding_window: int = Field(16, ge=1, description="exact tokens that a query sees, itself included")
    seed: Seed = Field(42, description="of the initial weights and the order of the data")
    steps: int | None = Field(None, ge=1, description="optimiser steps, instead of stand_in.training.steps")

    @model_validator(mode="after")
    def _layers_exist(self) -> StandInShape:
        full = [layer == "full_attention" for layer in self.layers]
        if self.architecture == "deepseek_v3" and not all(full):
            raise ValueError("architecture deepseek_v3 has full_attention layers only: name no others")
        if self.architecture == "deepseek_v4" and any(full):
            raise ValueError("architecture deepseek_v4 has no full_attention layers: use architecture deepseek_v3")
        return self


class DeepseekModel(Section):
    """One model that is asked: through an endpoint, from a folder, or trained here as a stand-in; else not run."""

    label: str
    stride: int | None = Field(None, ge=1, description="S of its compressed sparse attention; null: no compression")
    tokenizer: str | None = Field(
        None, description="package:<Python package that holds it>, a folder or a hub id; null: the folder's own"
    )
    endpoint: Endpoint | None = None
    folder: str | None = Field(None, description="folder, .gguf file or hub id that transformers loads")
    dtype: Literal["float32", "bfloat16"] = Field("bfloat16", description="of the weights in folder")
    prompts_per_residue: int | None = Field(None, ge=1, description="instead of needle.prompts_per_residue")
    stand_in: StandInShape | None = Field(
        None, description="a tiny model of the same kind, trained here; DeepSeek's own models have none"
    )

    @property
    def is_run(self) -> bool:
        """Whether there is anything to ask."""
        return self.stand_in is not None or self.endpoint is not None or self.folder is not None

    @property
    def on_transformers(self) -> bool:
        """Whether its layers can be reached: it is loaded here and not served elsewhere."""
        return self.stand_in is not None or self.folder is not None

    @model_validator(mode="after")
    def _one_place(self) -> DeepseekModel:
        places = [name for name in ("stand_in", "endpoint", "folder") if getattr(self, name) is not None]
        if len(places) > 1:
            raise ValueError(f"has {' and '.join(places)}: keep the one that is to be asked")
        if self.endpoint is not None and self.tokenizer is None:
            raise ValueError("an endpoint needs a tokenizer, since prompts are sent as token ids: set tokenizer")
        return self


class Needle(Section):
    """The needle test: key-value records, one of which is asked for, the target key at every residue."""

    models: list[str] = Field(default_factory=list, description="which are asked; one without a backend is not run")
    length: int = Field(ge=8, description="tokens of every prompt, the first (beginning of text) included")
    record: list[str] = Field(
        min_length=2, description="the tokens of a record in order; {key} and {value} are words with a leading space"
    )
    records: int = Field(ge=2, description="in a prompt")
    target: int = Field(ge=1, description="which of them is asked for, counted from 1")
    introduction: str = Field("", description="text between records and question")
    demonstrations: int = Field(8, ge=0, description="records repeated with their values before the question")
    modulus: int = Field(8, ge=2, description="positions are grouped modulo this: a multiple of every stride")
    prompts_per_residue: int = Field(ge=1, description="a multiple of modulus squared")
    batch: int = Field(64, ge=1, description="prompts per forward pass, for models that are loaded here")
    seed: Seed = 0

    @model_validator(mode="after")
    def _exact(self) -> Needle:
        check_quota(self.prompts_per_residue, self.modulus, "prompts_per_residue")
        if sorted(piece for piece in self.record if piece in ("{key}", "{value}")) != ["{key}", "{value}"]:
            raise ValueError(f"record {self.record} must hold {{key}} once and {{value}} once: add what is missing")
        if self.record.index("{key}") > self.record.index("{value}"):
            raise ValueError(f"record {self.record} has its value before its key: put the key first")
        if self.target > self.records:
            raise ValueError(f"target {self.target} is not among {self.records} records: lower it")
        if self.demonstrations >= self.records:
            raise ValueError(f"demonstrations {self.demonstrations} must leave a target out of {self.records} records")
        return self


class CodeCompletion(Section):
    """The flipping completion: a docstring that grows by a token, before code that stays the same."""

    models: list[str] = Field(default_factory=list, description="which are asked; one without a backend is not run")
    equals: list[Annotated[int, Field(ge=1)]] = Field(
        default_factory=lambda: list(range(9, 25)), min_length=1, description="signs: n"
    )
    repository: str | None = Field(None, description="hub id of the model whose kernel is completed; null: our own")
    kernel: str = Field("inference/kernel.py", description="the file in that repository")
    revision: str | None = Field(None, description="of the repository; null: the newest")


class LayerKnockout(Section):
    """Knockouts of whole layers at the query tokens of the needle's prompts."""

    models: list[str] = Field(default_factory=list, description="models that transformers loads, or stand-ins")
    prompts_per_residue: int = Field(64, ge=1, description="a multiple of needle.modulus squared")
    calibration: int = Field(64, ge=1, description="other prompts, over which the mean output is taken")
    query_tokens: int = Field(1, ge=1, description="tokens at the end of the prompt whose outputs are replaced")
    chunk_tokens: int = Field(512, ge=1, description="tokens read at a time; the last chunk holds the query tokens")
    batch: int = Field(64, ge=1, description="prompts at a time")
    seed: Seed = Field(1_000, description="of the calibration prompts; another one than the needle's")

    @model_validator(mode="after")
    def _one_chunk(self) -> LayerKnockout:
        if self.query_tokens > self.chunk_tokens:
            raise ValueError(f"query_tokens {self.query_tokens} do not fit into chunk_tokens {self.chunk_tokens}")
        return self

    def calibration_quota(self, modulus: int) -> int:
        """Prompts per residue of a design that holds at least `calibration` prompts."""
        return -(-self.calibration // modulus**3) * modulus**2


class StandInTraining(Section):
    """What differs from the `training` of the corpus that stand-ins train on."""

    steps: int = Field(ge=1)
    batch_tokens: int = Field(ge=1, description="tokens per step")
    learning_rate: float = Field(gt=0, description="peak")
    warmup_steps: int = Field(ge=0)
    decay_fraction: float = Field(
        0.3, ge=0, le=1, description="share of the steps, at the end, over which the rate falls"
    )
    muon: None = Field(None, description="AdamW: Muon knows the project's own modules only")


class StandIn(Section):
    """Stand-ins: tiny models of DeepSeek's architecture, as transformers has it, trained by the project's own loop."""

    corpus: str = Field(description="the recall corpus they train on, with its tokenizer and stages")
    width: int = Field(64, ge=2, description="hidden size")
    heads: int = Field(2, ge=1, description="query heads")
    head_width: int = Field(64, ge=2, description="channels per head")
    compress_rates: dict[
        Literal["compressed_sparse_attention", "heavily_compressed_attention"], Annotated[int, Field(ge=1)]
    ] = Field(description="tokens per entry; the first is the stride")
    index_topk: int = Field(64, ge=1, description="entries that a query may choose: at least as many as there are")
    experts: int = Field(2, ge=1, description="routed experts of a layer")
    training: StandInTraining

    def trained_on(self, corpus: Corpus, steps: int | None = None) -> Corpus:
        """The corpus with what differs here: training takes `steps`, whatever the loss, and no gates are followed."""
        steps = steps or self.training.steps
        changed = self.training.model_dump() | {"steps": steps, "checkpoint_steps": [steps]}
        training = Training.model_validate(corpus.training.model_dump() | changed)
        last = corpus.stages[-1].model_copy(update={"until_loss": None})
        return corpus.model_copy(update={"training": training, "stages": [*corpus.stages[:-1], last]})


class Deepseek(Section):
    """The paper's first half: a deployed model family."""

    models: dict[str, DeepseekModel]
    needle: Needle
    code_completion: CodeCompletion
    layer_knockout: LayerKnockout
    stand_in: StandIn

    @model_validator(mode="before")
    @classmethod
    def _drop_removed(cls, data: Any) -> Any:
        """An overlay removes a model of the file below it by setting it to null."""
        return without_nulls(data, "models")

    @model_validator(mode="after")
    def _consistent(self) -> Deepseek:
        modulus = self.needle.modulus
        for test in TESTS:
            for model in getattr(self, test).models:
                if model not in self.models:
                    raise ValueError(f"{test}.models names {model!r}, which is not among models: add it there")
        for name, row in self.models.items():
            self._rate_is_the_stride(name, row)
            if row.stride is not None and modulus % row.stride:
                raise ValueError(f"needle.modulus {modulus} is no multiple of models.{name}.stride {row.stride}")
            if row.prompts_per_residue is not None:
                check_quota(row.prompts_per_residue, modulus, f"models.{name}.prompts_per_residue")
        check_quota(self.layer_knockout.prompts_per_residue, modulus, "layer_knockout.prompts_per_residue")
        if served := [name for name in self.layer_knockout.models if self.models[name].endpoint is not None]:
            raise ValueError(
                f"layer_knockout.models {', '.join(served)} are served elsewhere, where layers cannot be reached: "
                "give them a folder instead of an endpoint, or remove them"
            )
        if self.layer_knockout.seed == self.needle.seed:
            raise ValueError("layer_knockout.seed is needle.seed, so prompts would be calibrated and evaluated on")
        return self

    def _rate_is_the_stride(self, name: str, row: DeepseekModel) -> None:
        rate = self.stand_in.compress_rates.get("compressed_sparse_attention")
        sparse = row.stand_in is not None and "compressed_sparse_attention" in row.stand_in.layers
        if sparse and row.stride != rate:
            raise ValueError(
                f"models.{name}.stride {row.stride} is not stand_in.compress_rates.compressed_sparse_attention {rate}, "
                "with which it is trained: make the two equal"
            )

    def run(self, test: str) -> list[str]:
        """Ids of the models that `test` is put to and that there is a backend for, in the table's order."""
        return [name for name, row in self.models.items() if name in getattr(self, test).models and row.is_run]

    def prompts_per_residue(self, model: str) -> int:
        """How many needle prompts a residue has for `model`."""
        return self.models[model].prompts_per_residue or self.needle.prompts_per_residue

    @property
    def stand_ins(self) -> list[str]:
        """Ids of the models that are trained here."""
        return [name for name, row in self.models.items() if row.stand_in is not None]


def check_quota(count: int, modulus: int, key: str) -> None:
    """Raise ValueError unless `count` prompts per residue can have exactly equal moments."""
    if count % modulus**2:
        raise ValueError(
            f"{key} {count} is no multiple of modulus² = {modulus**2}, so the moments of the target position could not "
            f"be equal: use {-(-count // modulus**2) * modulus**2}"
        )
