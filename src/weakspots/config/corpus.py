"""Corpora: where text comes from, how it is tokenized and staged, and how models train on it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from weakspots.config.section import Section, Seed, without_nulls
from weakspots.task.records import animals, names

Share = Annotated[float, Field(ge=0, lt=1)]


class RecallSource(Section):
    """Documents of records (a key word, then its value), fillers and repeats of the records."""

    kind: Literal["recall"]
    keys: int = Field(ge=2, description="distinct animals in use")
    values: int = Field(ge=2, description="distinct names in use")


class LocalSource(Section):
    """Text files on disk: .txt (one document a file), or .jsonl, .ndjson, .parquet, .arrow (one document a row)."""

    kind: Literal["local"]
    paths: list[str] = Field(min_length=1, description="files, folders or globs, from the working directory")
    text_field: str = Field("text", description="the key or column that holds the text")


class HubSource(Section):
    """A Hugging Face data set by name or local folder, streamed."""

    kind: Literal["hub"]
    path: str
    name: str | None = Field(None, description="the data set's configuration")
    split: str = "train"
    revision: str | None = None
    text_field: str = "text"


class WordTokenizer(Section):
    """One token per word of the lookup vocabulary: for the generated corpus."""

    kind: Literal["words"]


class BytePairTokenizer(Section):
    """Byte-level BPE, trained on the corpus."""

    kind: Literal["bytes"]
    vocabulary: int = Field(ge=257)
    training_documents: int = Field(ge=1, description="how many of the first documents it is trained on")


class PretrainedTokenizer(Section):
    """Any tokenizer folder or hub id that transformers loads."""

    kind: Literal["pretrained"]
    path: str


class CurriculumStage(Section):
    """One stage of the training data: sequences of one length, until the loss is low enough or the steps are used up.

    `records` is for the recall source only. The last stage goes on to the end of training, which its loss may bring.
    """

    length: int = Field(ge=4, description="tokens per sequence")
    sequences: int = Field(ge=1, description="sequences prepared; training starts over when they are used up")
    records: int | None = Field(None, ge=1, description="recall: records in one document")
    until_loss: float | None = Field(
        None,
        gt=0,
        description="move on, or from the last stage to the decay of the rate, when the smoothed loss falls below this",
    )
    max_steps: int | None = Field(None, ge=1, description="move on after this many steps at the latest")


MACHINE_KEYS = {"resume_every", "micro_batch_tokens", "recompute", "compile"}
"""Keys of `training` that say how a machine computes a run, and change its result by rounding at most."""


class Muon(Section):
    """Muon for the matrices inside layers. Everything else, gates among it, follows AdamW."""

    rate: float = Field(gt=0, description="rate of the matrices, in learning rates")
    offset_decay: float = Field(
        ge=0,
        description="weight decay of what tells the payload maps of a window's offsets apart, where a gate chooses "
        "among them; what they have in common has weight_decay",
    )
    gate_rate: float = Field(1.0, gt=0, description="rate of the gates' maps Z, in learning rates")
    gate_bias_rate: float = Field(1.0, gt=0, description="rate of the gates' biases b, in learning rates")


class Training(Section):
    """Optimisation of one model on one corpus."""

    steps: int = Field(ge=1, description="the most; fewer where the last stage has an until_loss and reaches it")
    batch_tokens: int = Field(ge=1, description="tokens per step; a batch holds batch_tokens / length sequences")
    learning_rate: float = Field(gt=0)
    warmup_steps: int = Field(ge=0)
    decay_fraction: float = Field(ge=0, le=1, description="share of the steps, at the end, over which the rate falls")
    final_rate: float = Field(0.0, ge=0, le=1, description="learning rate at the end, as a share of the peak")
    weight_decay: float = Field(ge=0)
    betas: tuple[Share, Share] = Field((0.9, 0.95), description="of AdamW")
    muon: Muon | None = Field(None, description="null: AdamW for everything")
    clip_norm: float = Field(1.0, gt=0)
    loss_on: Literal["all", "answers"] = Field(description="all tokens, or only the values of repeated keys")
    precision: Literal["float32", "bfloat16"] = Field("float32", description="of the products; weights are float32")
    log_every: int = Field(20, ge=1, description="steps between two rows of training.parquet")
    checkpoint_steps: list[Annotated[int, Field(ge=0)]] = Field(
        default_factory=list, description="steps whose weights and gate statistics are kept; 0 is the start"
    )
    gate_windows: int = Field(2_048, ge=1, description="validation windows that gate statistics are taken over")
    resume_every: int = Field(200, ge=1, description="steps between two checkpoints to resume from")
    micro_batch_tokens: int | None = Field(
        None, ge=1, description="tokens one process computes at a time, the rest of its share after them; null: all"
    )
    recompute: bool = Field(
        False, description="keep no activations inside layers; compute them again in the backward pass"
    )
    compile: bool = Field(False, description="torch.compile every layer")
    validation_sequences: int = Field(ge=1, description="sequences of the last stage's length held out")
    learnt_below: float | None = Field(
        None,
        gt=0,
        description="validation loss of the plateau, nats per token with a loss: a model not below it has learnt "
        "nothing, and is no evidence; null: none is judged",
    )

    @model_validator(mode="after")
    def _steps_exist(self) -> Training:
        if self.warmup_steps >= self.steps:
            raise ValueError(f"warmup_steps {self.warmup_steps} must end before steps {self.steps}: lower it")
        if late := [step for step in self.checkpoint_steps if step > self.steps]:
            raise ValueError(f"checkpoint_steps {late} come after the last of {self.steps} steps: remove them")
        return self


class Corpus(Section):
    """A corpus, and how the models named in `models` train on it."""

    source: Annotated[RecallSource | LocalSource | HubSource, Field(discriminator="kind")]
    tokenizer: Annotated[WordTokenizer | BytePairTokenizer | PretrainedTokenizer, Field(discriminator="kind")]
    seed: Seed = 0
    shard_tokens: int = Field(2_000_000, ge=1024, description="tokens per shard file")
    stages: list[CurriculumStage] = Field(min_length=1)
    training: Training
    models: Literal["all"] | list[str] = "all"

    @model_validator(mode="before")
    @classmethod
    def _drop_removed(cls, data: Any) -> Any:
        """An overlay that names another kind removes the keys of the one below it by setting them to null."""
        return without_nulls(data, "source", "tokenizer")

    @model_validator(mode="after")
    def _words_exist(self) -> Corpus:
        if isinstance(self.source, RecallSource):
            for key, words in (("keys", animals()), ("values", names())):
                if getattr(self.source, key) > len(words):
                    raise ValueError(
                        f"source.{key} {getattr(self.source, key)} is more than the {len(words)} distinct words there "
                        "are: lower it"
                    )
        return self

    @model_validator(mode="after")
    def _stages_fit(self) -> Corpus:
        last = self.stages[-1]
        if last.max_steps is not None:
            raise ValueError(
                f"stages[{len(self.stages) - 1}] is the last and goes on to the end of training: "
                "remove its max_steps, and set training.steps"
            )
        for number, stage in enumerate(self.stages[:-1]):
            if stage.until_loss is None and stage.max_steps is None:
                raise ValueError(f"stages[{number}] would never end: give it until_loss, max_steps or both")
        for number, stage in enumerate(self.stages):
            if self.training.batch_tokens < stage.length:
                raise ValueError(
                    f"training.batch_tokens {self.training.batch_tokens} holds no sequence of stages[{number}].length "
                    f"{stage.length}: raise batch_tokens to at least {stage.length}"
                )
            if (self.training.micro_batch_tokens or stage.length) < stage.length:
                raise ValueError(
                    f"training.micro_batch_tokens {self.training.micro_batch_tokens} holds no sequence of "
                    f"stages[{number}].length {stage.length}: raise it to at least {stage.length}"
                )
            if isinstance(self.source, RecallSource):
                if stage.records is None:
                    raise ValueError(f"stages[{number}] needs records: the recall source must know how many to write")
                if stage.records >= min(self.source.keys, self.source.values):
                    raise ValueError(
                        f"stages[{number}].records {stage.records} leaves no distinct words for filler "
                        f"(source.keys {self.source.keys}, source.values {self.source.values}): lower records or "
                        f"raise both"
                    )
                if 1 + 4 * stage.records > stage.length:
                    raise ValueError(
                        f"stages[{number}].length {stage.length} is too short for {stage.records} records and one "
                        f"repeat of each: raise length to at least {1 + 4 * stage.records}"
                    )
            elif stage.records is not None:
                raise ValueError(f"stages[{number}].records is for the recall source: remove it")
        if isinstance(self.tokenizer, WordTokenizer) != isinstance(self.source, RecallSource):
            raise ValueError(
                "tokenizer kind words and source kind recall go together: use bytes or pretrained for text"
            )
        if self.training.loss_on == "answers" and not isinstance(self.source, RecallSource):
            raise ValueError("training.loss_on answers needs the recall source, which marks answers: use all")
        return self

    def data_settings(self) -> dict:
        """What the prepared data depend on: everything but how models train on them."""
        return {
            **self.model_dump(mode="json", include={"source", "tokenizer", "seed", "shard_tokens"}),
            "stages": [
                stage.model_dump(mode="json", include={"length", "sequences", "records"}) for stage in self.stages
            ],
            "validation_sequences": self.training.validation_sequences,
        }
