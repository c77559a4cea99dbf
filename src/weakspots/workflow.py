"""What the Snakefile and the command line agree on: where a file lies, and which part of the configuration made it.

A rule's `params:` are the settings below. Snakemake reruns a job when its settings change, so each function returns
what its stage depends on and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from weakspots import config as configuration
from weakspots.building import writing
from weakspots.config import Config, LocalSource
from weakspots.config.corpus import MACHINE_KEYS
from weakspots.config.deepseek import STAGES as DEEPSEEK
from weakspots.config.deepseek import DeepseekModel
from weakspots.data.corpora import source_files
from weakspots.errors import UserError
from weakspots.launch import gpus, processes
from weakspots.theory.columns import COLUMNS as THEORY


@dataclass(frozen=True)
class Layout:
    """Paths in the folder of one scale, `results/<scale>`; arguments may be Snakemake's wildcards."""

    root: str

    @classmethod
    def beside(cls, config: str | Path) -> Layout:
        """The layout of the folder that holds this `config.yaml`."""
        return cls(str(Path(config).parent))

    @property
    def config(self) -> str:
        return f"{self.root}/config.yaml"

    @property
    def tracking(self) -> str:
        return f"{self.root}/tracking.json"

    def data(self, corpus: str) -> str:
        return f"{self.root}/data/{corpus}"

    def model(self, corpus: str, model: str) -> str:
        return f"{self.root}/models/{corpus}/{model}"

    def gates(self, corpus: str, model: str) -> str:
        return f"{self.model(corpus, model)}/gates.parquet"

    def validation(self, corpus: str, model: str) -> str:
        return f"{self.model(corpus, model)}/validation.json"

    def lookup(self, model: str, padding: str) -> str:
        return f"{self.root}/lookup/{model}/{padding}.parquet"

    def knockout(self, model: str, padding: str) -> str:
        return f"{self.root}/knockout/{model}/{padding}.parquet"

    def cycling(self, model: str) -> str:
        return f"{self.root}/cycling/{model}.parquet"

    def deepseek(self, model: str, table: str) -> str:
        """`table` is needle, code_completion or layer_knockout."""
        return f"{self.root}/deepseek/{model}/{table}.parquet"

    def stand_in(self, model: str) -> str:
        """Folder of a trained stand-in."""
        return self.model("deepseek", model)

    def theory(self, name: str) -> str:
        return f"{self.root}/theory/{name}.parquet"

    def figure(self, name: str, suffix: str) -> str:
        return f"{self.root}/figures/{name}.{suffix}"

    def table(self, name: str, suffix: str) -> str:
        return f"{self.root}/tables/{name}.{suffix}"

    def claims(self, suffix: str) -> str:
        return f"{self.root}/claims.{suffix}"

    @property
    def explorer(self) -> str:
        return f"{self.root}/explorer.html"

    def log(self, *parts: str, suffix: str = "log") -> str:
        return f"{self.root}/logs/{'/'.join(parts)}.{suffix}"


@dataclass(frozen=True)
class Plan(Layout):
    """The files of one scale that the workflow can make, and the settings behind each.

    `texts` holds, for every corpus, the files on disk that it is made of.
    """

    settings: Config
    texts: dict[str, list[str]]

    @classmethod
    def of(cls, data: dict) -> Plan:
        """The plan of Snakemake's merged configuration.

        Ends the process where the configuration is wrong: the message is then all that the terminal shows, while
        Snakemake adds lines of the traceback to every exception, its own included.
        """
        try:
            settings = configuration.parse(data)
            texts = {name: text_files(settings, name) for name in settings.corpora}
            processes(settings)  # refuses a launcher that does not fit
        except UserError as error:
            raise SystemExit(f"Error in the configuration:\n{error}") from None
        return cls(f"results/{settings.scale}", settings, texts)

    @property
    def models(self) -> list[str]:
        """Folders of all trained models."""
        settings = self.settings
        return [self.model(corpus, name) for corpus in settings.corpora for name in settings.models_of(corpus)]

    @property
    def lookups(self) -> list[str]:
        """All lookup tables."""
        return [self.lookup(*run) for run in self._runs]

    @property
    def knockouts(self) -> list[str]:
        """All knockout tables."""
        return [self.knockout(*run) for run in self._runs]

    @property
    def cycles(self) -> list[str]:
        """All tables of cycled models."""
        return [self.cycling(model) for model in self.settings.cycling.models]

    @property
    def theories(self) -> list[str]:
        """All tables of the theory."""
        return [self.theory(name) for name in THEORY]

    @property
    def stand_ins(self) -> list[str]:
        """Folders of all stand-ins of DeepSeek's models."""
        return [self.stand_in(name) for name in self.settings.deepseek.stand_ins]

    @property
    def deepseeks(self) -> list[str]:
        """All tables of DeepSeek's models and their stand-ins: of those that can be asked."""
        settings = self.settings.deepseek
        return [self.deepseek(model, stage) for stage in DEEPSEEK for model in settings.run(stage)]

    @property
    def needles(self) -> list[str]:
        """The needle tables among these."""
        return [self.deepseek(model, "needle") for model in self.settings.deepseek.run("needle")]

    def trained_for(self, model: str) -> list[str]:
        """The trained folder that asking this model of `deepseek.models` needs: none unless it is a stand-in."""
        return [self.stand_in(model)] if model in self.settings.deepseek.stand_ins else []

    def gpus_for(self, model: str) -> int:
        """GPUs of a job that asks this model of `deepseek.models`: none where a server answers."""
        return gpus(self.settings) if self.settings.deepseek.models[model].on_transformers else 0

    @property
    def looked_up(self) -> list[str]:
        """Folders of the models that are asked."""
        corpus = self.settings.lookup.corpus
        return [self.model(corpus, name) for name in self.settings.models_of(corpus)]

    @property
    def _runs(self) -> list[tuple[str, str]]:
        lookup = self.settings.lookup
        return [(name, padding) for name in self.settings.models_of(lookup.corpus) for padding in lookup.paddings]


def text_files(config: Config, corpus: str) -> list[str]:
    """Files on disk that a corpus is made of: none unless its source is local.

    Files in the working directory are named from there, so that a folder that moved still holds the same inputs.
    Raises UserError where there are none.
    """
    source = config.corpora[corpus].source
    if not isinstance(source, LocalSource):
        return []
    here = Path.cwd()
    files = [here / file for file in source_files(source.paths)]
    return [str(file.relative_to(here) if file.is_relative_to(here) else file) for file in files]


def train_settings(config: Config, corpus: str, model: str) -> dict:
    """What one training run depends on besides its data: the model's row, the backbone, and the optimisation."""
    chosen = config.corpora[corpus]
    return {
        "model": config.models[model].model_dump(mode="json"),
        "backbone": config.backbone.model_dump(mode="json"),
        "stages": [stage.model_dump(mode="json") for stage in chosen.stages],
        "training": chosen.training.model_dump(mode="json", exclude=MACHINE_KEYS),
    }


def lookup_settings(config: Config) -> dict:
    """What lookup and knockout tables depend on besides their model: the prompts, and not how many are read at once.

    Every padding has its own tables, so which others there are does not matter to them.
    """
    lookup = config.lookup.model_dump(mode="json", exclude={"batch", "paddings"})
    return lookup | {"knockout": config.knockout.model_dump(mode="json")}


def cycling_settings(config: Config) -> dict:
    """What the table of a cycled model depends on besides the model: prompts and shifts, not which models there are."""
    return {
        "lookup": config.lookup.model_dump(mode="json", exclude={"batch", "paddings"}),
        "cycling": config.cycling.model_dump(mode="json", exclude={"models"}),
    }


def stand_in_settings(config: Config, model: str) -> dict:
    """What the training of a stand-in depends on besides its data."""
    deepseek = config.deepseek
    corpus = config.corpora[deepseek.stand_in.corpus]
    shape = deepseek.models[model].stand_in
    training = deepseek.stand_in.optimisation(corpus.training, shape.steps)
    return {
        "shape": shape.model_dump(mode="json"),
        "stand_in": deepseek.stand_in.model_dump(mode="json", exclude={"corpus", "training"}),
        "stages": [stage.model_dump(mode="json") for stage in corpus.stages],
        "training": training.model_dump(mode="json", exclude=MACHINE_KEYS),
    }


def needle_settings(config: Config, model: str) -> dict:
    """What the needle table of a model depends on: the prompts and who is asked, not where that is."""
    row, needle = config.deepseek.models[model], config.deepseek.needle
    asked = needle.model_dump(mode="json", exclude={"models", "batch"})
    return {**asked, "prompts_per_residue": config.deepseek.prompts_per_residue(model), "model": _asked(row)}


def code_completion_settings(config: Config, model: str) -> dict:
    """What the code completion table of a model depends on."""
    asked = config.deepseek.code_completion.model_dump(mode="json", exclude={"models"})
    return {**asked, "model": _asked(config.deepseek.models[model])}


def layer_knockout_settings(config: Config, model: str) -> dict:
    """What the layer knockout table of a model depends on: the needle's prompts, not how many are read at once."""
    deepseek = config.deepseek
    return {
        "needle": deepseek.needle.model_dump(mode="json", exclude={"models", "batch", "prompts_per_residue"}),
        "knockout": deepseek.layer_knockout.model_dump(mode="json", exclude={"models", "batch", "chunk_tokens"}),
        "model": _asked(deepseek.models[model]),
    }


_DEEPSEEK_SETTINGS = {
    "needle": needle_settings,
    "code_completion": code_completion_settings,
    "layer_knockout": layer_knockout_settings,
}


def _asked(row: DeepseekModel) -> dict:
    """Which model answers, and how it is asked; not where it is, nor how much of it at once."""
    chosen = row.model_dump(mode="json", include={"tokenizer", "folder"})
    if row.folder is not None:
        chosen["dtype"] = row.dtype
    if row.endpoint is not None:
        chosen["endpoint"] = row.endpoint.model_dump(mode="json", include={"model", "extra_body", "logprobs"})
    return chosen


def theory_settings(config: Config) -> dict:
    """What the theory's tables depend on."""
    return config.theory.model_dump(mode="json")


def deepseek_settings(config: Config) -> dict:
    """What figures and claims about DeepSeek's models depend on besides their tables, by what the models are asked."""
    deepseek = config.deepseek
    models = {
        name: {**row.model_dump(mode="json", include={"label", "stride"}), "stand_in": row.stand_in is not None}
        for name, row in deepseek.models.items()
    }
    return {
        stage: {"models": models, "asked": {model: settings(config, model) for model in deepseek.run(stage)}}
        for stage, settings in _DEEPSEEK_SETTINGS.items()
    }


def shown_settings(config: Config, *measured: str) -> dict:
    """What a figure, table or claim depends on besides its result files: which models there are, how they are shown.

    `measured` names the kinds of results (`results.KINDS`) that are shown; all if none is named.
    """
    of = {
        "lookup": {**lookup_settings(config), "paddings": config.lookup.paddings},
        "cycling": config.cycling.model_dump(mode="json"),
        "theory": theory_settings(config),
        **deepseek_settings(config),
    }
    shown = {kind: settings for kind, settings in of.items() if kind in (measured or of)}
    return {"models": rows(config), "statistics": config.statistics.model_dump(mode="json"), **shown}


def one_of(names: Iterable[str]) -> str:
    """The regular expression of a wildcard that stands for one of `names`, so that no other name is taken for one."""
    return "|".join(map(re.escape, names))


def rows(config: Config) -> dict:
    """The model table as it is written in a file: only what differs from the default row."""
    return {name: row.model_dump(mode="json", exclude_unset=True) for name, row in config.models.items()}


def resolved(config: Config) -> dict:
    """The whole configuration with every default spelled out; `config.parse` reads it back as it was."""
    return {**config.model_dump(mode="json"), "models": rows(config)}


def write_configuration(config: Config, output: str | Path) -> None:
    """Write the whole configuration to `output`, every default spelled out, for the jobs and for the reader."""
    header = (
        "# The configuration of these results: all files merged, all defaults spelled out. Written by the workflow.\n"
    )
    with writing(output) as path:
        path.write_text(header + yaml.safe_dump(resolved(config), sort_keys=False, allow_unicode=True, width=120))
