"""The whole configuration of one scale: reading, merging, checking, writing, and what is wrong when it does not fit.

`load` merges `config.yaml` with an overlay; Snakemake does the same merge itself and hands the result to `parse`.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from weakspots.config.corpus import Corpus, RecallSource
from weakspots.config.deepseek import Deepseek
from weakspots.config.measurements import Cycling, Knockout, Lookup, Statistics
from weakspots.config.section import Section, without_nulls
from weakspots.config.theory import Theory
from weakspots.errors import UserError
from weakspots.files.atomic import writing
from weakspots.files.written_values import NotAsWritten
from weakspots.model_table import TableRow
from weakspots.task.records import animals

Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
"""Name of a row or a corpus: it becomes a folder, a job and a word of a command."""


class Backbone(Section):
    """Shape of the decoder shared by every model (Qwen3-style)."""

    layers: int = Field(ge=1)
    width: int = Field(ge=2, description="hidden size")
    query_heads: int = Field(ge=1)
    head_width: int = Field(ge=2, multiple_of=2, description="channels per head")
    mlp_width: int = Field(ge=1)
    rope_base: float = Field(gt=0)
    norm_epsilon: float = Field(1e-6, gt=0)
    initial_std: float = Field(gt=0, description="standard deviation of the initial weights; 0.02 is Qwen's at 1,024")


class Config(Section):
    """The whole configuration of one scale."""

    scale: str = Field(pattern=r"^[a-z0-9_-]+$", description="name of the scale; results go to results/<scale>/")
    backbone: Backbone
    models: dict[Id, TableRow]
    corpora: dict[Id, Corpus]
    lookup: Lookup
    knockout: Knockout = Knockout()
    cycling: Cycling
    theory: Theory = Theory()
    deepseek: Deepseek
    statistics: Statistics = Statistics()
    device: Literal["cpu", "cuda"] = Field("cpu", description="where models train and are asked; cpu is bit-identical")
    backend: Literal["auto", "torch", "triton"] = Field(
        "auto", description="what computes attention and pooling; auto: Triton's kernels on a GPU, torch on a CPU"
    )
    launch: str | None = Field(
        None,
        min_length=1,
        description="Accelerate configuration file that training is launched with; null: one process, no launcher",
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_removed(cls, data: Any) -> Any:
        """An overlay removes a row or a corpus of the file below it by setting it to null."""
        return without_nulls(data, "models", "corpora")

    @model_validator(mode="after")
    def _consistent(self) -> Config:
        for name, row in self.models.items():
            if self.backbone.query_heads % row.kv_heads:
                raise ValueError(
                    f"models.{name}.kv_heads {row.kv_heads} does not divide backbone.query_heads "
                    f"{self.backbone.query_heads}: use a divisor of it"
                )
            if row.compressed and self.lookup.modulus % row.stride:
                modulus = math.lcm(self.lookup.modulus, row.stride)
                raise ValueError(
                    f"lookup.modulus {self.lookup.modulus} is no multiple of models.{name}.stride {row.stride}: set "
                    f"lookup.modulus to {modulus} and lookup.mappings to {modulus**2}, which makes every lookup "
                    f"{modulus**3 / (self.lookup.modulus * self.lookup.mappings):.3g} times as long, or use a stride "
                    f"that divides {self.lookup.modulus}"
                )
        for name, corpus in self.corpora.items():
            if corpus.models != "all":
                for model in corpus.models:
                    self._must_exist(model, f"corpora.{name}.models")
        if self.lookup.corpus not in self.corpora:
            raise ValueError(
                f"lookup.corpus {self.lookup.corpus!r} is not among corpora ({', '.join(self.corpora)}): name one"
            )
        if not self.models_of(self.lookup.corpus):
            raise ValueError(f"corpora.{self.lookup.corpus}.models is empty, and its models are looked up: name some")
        source = self.corpora[self.lookup.corpus].source
        if not isinstance(source, RecallSource) and self.lookup.records >= len(animals()):
            raise ValueError(
                f"lookup.records {self.lookup.records} needs more distinct words than that, and there are "
                f"{len(animals())} animals: lower records"
            )
        if isinstance(source, RecallSource) and self.lookup.records >= min(source.keys, source.values):
            raise ValueError(
                f"lookup.records {self.lookup.records} needs more distinct words than that, and corpora."
                f"{self.lookup.corpus}.source has keys {source.keys} and values {source.values}: lower records or "
                f"raise both"
            )
        if self.knockout.seed == self.lookup.seed:
            raise ValueError(
                f"knockout.seed {self.knockout.seed} is lookup.seed, so prompts would be calibrated and evaluated on: "
                "set another seed"
            )
        self._cycling_fits()
        self._stand_ins_fit()
        return self

    def _cycling_fits(self) -> None:
        cycling = self.cycling
        if cycling.padding not in self.lookup.paddings:
            raise ValueError(f"cycling.padding {cycling.padding} is not among lookup.paddings: add it there")
        if cycling.mappings > self.lookup.mappings:
            raise ValueError(
                f"cycling.mappings {cycling.mappings} is more than lookup.mappings {self.lookup.mappings}: lower it"
            )
        for model in cycling.models:
            self._must_exist(model, "cycling.models")
            if model not in self.models_of(self.lookup.corpus):
                raise ValueError(
                    f"cycling.models names {model!r}, which does not train on {self.lookup.corpus}: add it to "
                    f"corpora.{self.lookup.corpus}.models or remove the name"
                )
            row = self.models[model]
            if reason := row.why_not_cycled():
                raise ValueError(f"cycling.models {model} cannot be cycled: {reason}")
            if unmoved := [shift for shift in cycling.shifts if shift % row.window == 0]:
                raise ValueError(f"cycling.shifts {unmoved} leave {model} (window {row.window}) as it is: remove them")

    def _stand_ins_fit(self) -> None:
        if "deepseek" in self.corpora:
            raise ValueError("corpora.deepseek has the name of the folder with DeepSeek's stand-ins: rename it")
        corpus = self.deepseek.stand_in.corpus
        if self.deepseek.stand_ins and not isinstance(getattr(self.corpora.get(corpus), "source", None), RecallSource):
            raise ValueError(
                f"deepseek.stand_in.corpus {corpus!r} is no corpus with the recall source: name one, or set the "
                f"stand-ins ({', '.join(self.deepseek.stand_ins)}) to null"
            )

    def _must_exist(self, model: str, key: str) -> None:
        if model not in self.models:
            raise ValueError(f"{key} names {model!r}, which is no row of models: add the row or remove the name")

    def models_of(self, corpus: str) -> list[str]:
        """Ids of the models that train on `corpus`, in the table's order."""
        chosen = self.corpora[corpus].models
        return list(self.models) if chosen == "all" else [name for name in self.models if name in chosen]

    def rows(self) -> dict[str, dict]:
        """The model table as it is written in a file: only what differs from the default row."""
        return {name: row.model_dump(mode="json", exclude_unset=True) for name, row in self.models.items()}


def merge(below: dict, above: dict) -> dict:
    """`below` with the values of `above`: mappings merge, everything else is replaced (Snakemake's rule)."""
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def parse(data: dict) -> Config:
    """The typed configuration of a merged mapping.

    Raises UserError of one line per mistake, naming the key, the row and the fix.
    """
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise UserError("\n".join(_explain(item) for item in error.errors(include_url=False))) from None


def load(*paths: str | Path) -> Config:
    """The configuration in `paths`, later files over earlier ones."""
    data: dict = {}
    for path in paths:
        try:
            layer = yaml.safe_load(Path(path).read_text())
        except FileNotFoundError:
            raise UserError(f"configuration file {path} does not exist") from None
        except yaml.YAMLError as error:
            raise UserError(f"configuration file {path} is no valid YAML: {' '.join(str(error).split())}") from None
        if not isinstance(layer, dict):
            raise UserError(f"configuration file {path} holds no keys: it must be a YAML mapping")
        data = merge(data, layer)
    return parse(data)


def resolved(config: Config) -> dict:
    """The whole configuration with every default spelled out; `parse` reads it back as it was."""
    return {**config.model_dump(mode="json"), "models": config.rows()}


def write(config: Config, output: str | Path) -> None:
    """Write the whole configuration to `output`, every default spelled out, for the jobs and for the reader."""
    header = (
        "# The configuration of these results: all files merged, all defaults spelled out. Written by the workflow.\n"
    )
    with writing(output) as path:
        path.write_text(header + yaml.safe_dump(resolved(config), sort_keys=False, allow_unicode=True, width=120))


def schema() -> str:
    """The JSON schema of the configuration, as `workflow/schemas/config.schema.json` holds it."""
    return json.dumps(Config.model_json_schema(), indent=2) + "\n"


def _explain(item: ErrorDetails) -> str:
    """One pydantic error as a line for the person who edits the file."""
    # after the key of a tagged union, pydantic names the tag, which is no key of the file
    location = [
        part
        for before, part in zip(("", *item["loc"]), item["loc"], strict=False)
        if before not in ("source", "tokenizer")
    ]
    place = ".".join(map(str, location)) or "the configuration"
    message = item["msg"].removeprefix("Value error, ")
    if isinstance(written := item.get("ctx", {}).get("error"), NotAsWritten):
        return f"{'.'.join(map(str, (*location, written.key)))}: {written.reason}"
    if item["type"] == "extra_forbidden":
        return f"{place}: unknown key; remove it or correct its spelling"
    if item["type"] == "string_pattern_mismatch":
        return f"{place}: {item['input']!r} is used in paths and commands; letters, digits and . _ - may stand in it"
    if item["type"] == "missing":
        return f"{place}: missing; add it"
    if item["type"] == "value_error":
        return f"{place}: {message}" if item["loc"] else message
    return f"{place}: {message[0].lower()}{message[1:]}, got {item['input']!r}; correct the value"
