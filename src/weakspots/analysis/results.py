"""The results of one scale in memory: what figures and claims are measured from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from weakspots import statistics
from weakspots.config import PADDINGS, Statistics, load
from weakspots.config.deepseek import DeepseekModel
from weakspots.errors import UserError
from weakspots.files import tables, validation
from weakspots.files.hashes import config_hash
from weakspots.files.theory_columns import THEORY_TABLES
from weakspots.files.validation import NOT_LEARNT, Validation
from weakspots.model_table import ModelRow
from weakspots.statistics import Periodicity
from weakspots.workflow.layout import Layout
from weakspots.workflow.stage_dependencies import (
    code_completion_settings,
    cycling_settings,
    layer_knockout_settings,
    lookup_settings,
    needle_settings,
    theory_settings,
    train_settings,
)


@dataclass
class Results:
    """What has been measured of the models that have been run; what has not been run is absent.

    `models` is the model table. Outcomes are booleans [mappings, modulus]: `outcomes` of the lookup by model and
    padding, `knockouts` by model and padding, then by layer and KV head (or `WHOLE_LAYER`), `cycles` by model, then by
    shift (of the first mappings of the lookup under `cycling_padding`). `gates` holds the gate statistics of training
    by model, `losses` nats per token by corpus and model, `theory` the tables of the theory by name. `not_learnt` holds
    the models of the table that are still on the plateau of guessing: they are shown, and are evidence of nothing.

    `deepseek` is the table of DeepSeek's models and their stand-ins, run or not. By its models there are `needles`
    (outcomes by residue), `completions` (tables) and `layer_knockouts` (outcomes by layer; -1: the model as it is);
    `stand_ins_not_learnt` is the same for stand-ins as `not_learnt`.
    """

    scale: str
    models: dict[str, ModelRow]
    statistics: Statistics
    outcomes: dict[tuple[str, str], np.ndarray]
    losses: dict[str, dict[str, float]] = field(default_factory=dict)
    knockouts: dict[tuple[str, str], dict[tuple[int, int], np.ndarray]] = field(default_factory=dict)
    cycles: dict[str, dict[int, np.ndarray]] = field(default_factory=dict)
    cycling_padding: str = "prefix"
    gates: dict[str, pd.DataFrame] = field(default_factory=dict)
    theory: dict[str, pd.DataFrame] = field(default_factory=dict)
    deepseek: dict[str, DeepseekModel] = field(default_factory=dict)
    needles: dict[str, np.ndarray] = field(default_factory=dict)
    completions: dict[str, pd.DataFrame] = field(default_factory=dict)
    layer_knockouts: dict[str, dict[int, np.ndarray]] = field(default_factory=dict)
    not_learnt: dict[str, Validation] = field(default_factory=dict)
    stand_ins_not_learnt: dict[str, Validation] = field(default_factory=dict)
    _measured: dict[tuple[str, str, str], Any] = field(default_factory=dict, repr=False)

    def runs(self) -> list[tuple[str, str]]:
        """Model and padding of every run that has outcomes, in the model table's order.

        Raises UserError if there are none.
        """
        found = [(model, padding) for model in self.models for padding in PADDINGS if (model, padding) in self.outcomes]
        if not found:
            raise UserError(f"the scale {self.scale} has no lookup results yet: run `snakemake lookup` first")
        return found

    def label(self, model: str) -> str:
        """The name of a run for a reader, which says where it has not learnt."""
        label = self.models[model].label()
        return f"{label} · {NOT_LEARNT}" if model in self.not_learnt else label

    def evidence(self) -> Results:
        """The same without what was measured of models that have not learnt; that they were cycled is kept."""
        left_out, stand_ins = self.not_learnt, self.stand_ins_not_learnt
        return replace(
            self,
            outcomes={run: found for run, found in self.outcomes.items() if run[0] not in left_out},
            knockouts={run: found for run, found in self.knockouts.items() if run[0] not in left_out},
            cycles={model: {} if model in left_out else found for model, found in self.cycles.items()},
            gates={model: found for model, found in self.gates.items() if model not in left_out},
            needles={model: found for model, found in self.needles.items() if model not in stand_ins},
            completions={model: found for model, found in self.completions.items() if model not in stand_ins},
            layer_knockouts={model: found for model, found in self.layer_knockouts.items() if model not in stand_ins},
        )

    def full_attention_like(self, model: str) -> str | None:
        """The full-attention model with the same number of KV heads, if the table has one."""
        heads = self.models[model].kv_heads
        found = [name for name, row in self.models.items() if not row.compressed and row.kv_heads == heads]
        return found[0] if found else None

    def by_position(self, model: str, padding: str) -> pd.DataFrame:
        """`statistics.by_position` of one run."""
        return statistics.by_position(
            self.outcomes[model, padding],
            compressed=self.models[model].compressed,
            replicates=self.statistics.bootstrap,
            confidence=self.statistics.confidence,
            seed=self.statistics.seed,
        )

    def summary(self, model: str, padding: str) -> pd.DataFrame:
        """`statistics.summary` of one run; computed once, since several claims ask for it."""
        return self.once(
            "summary",
            model,
            padding,
            lambda outcomes: statistics.summary(
                outcomes,
                replicates=self.statistics.bootstrap,
                confidence=self.statistics.confidence,
                seed=self.statistics.seed,
            ),
        )

    def periodicity(self, model: str, padding: str) -> Periodicity:
        """`statistics.periodicity` of one run; computed once."""
        return self.once(
            "periodicity",
            model,
            padding,
            lambda outcomes: statistics.periodicity(
                outcomes, replicates=self.statistics.bootstrap, seed=self.statistics.seed
            ),
        )

    def once(self, name: str, model: str, padding: str, measure: Callable[[np.ndarray], Any]) -> Any:
        """What `measure` makes of the outcomes of one run, computed once under this name."""
        key = (name, model, padding)
        if key not in self._measured:
            self._measured[key] = measure(self.outcomes[model, padding])
        return self._measured[key]


KINDS = ("lookup", "knockout", "cycling", "gates", "losses", "theory", "needle", "code_completion", "layer_knockout")
"""What results are made of; a figure reads those it shows."""
_OF_TRAINED = {"lookup", "knockout", "cycling", "gates", "losses"}
_OF_DEEPSEEK = {"needle", "code_completion", "layer_knockout"}


def read(folder: str | Path, *kinds: str) -> Results:
    """The results in `folder` (results/<scale>) of these `KINDS`, or of all, as far as they have been written.

    A caller that names its kinds is not stopped by what else lies there, such as tables that are about to be replaced.
    Which of the models behind these kinds have learnt is read with them.
    Raises UserError if the folder holds no configuration, a damaged table, or one of another configuration, and
    ValueError for a kind that there is not.
    """
    if unknown := set(kinds) - set(KINDS):
        raise ValueError(f"no kind of results: {', '.join(sorted(unknown))}")
    places = Layout(str(folder))
    config = load(places.config)
    models = config.models_of(config.lookup.corpus)
    runs = [(model, padding) for model in models for padding in config.lookup.paddings]
    asked, cycled = config_hash(lookup_settings(config)), config_hash(cycling_settings(config))
    of_theory = config_hash(theory_settings(config))

    def there(kind: str, paths: Mapping[Any, str]) -> Iterator[tuple[Any, Path]]:
        """What is to be read of a kind and has been written."""
        if kind in (kinds or KINDS):
            yield from ((key, Path(path)) for key, path in paths.items() if Path(path).exists())

    found = Results(config.scale, config.models, config.statistics, {}, cycling_padding=config.cycling.padding)
    for run, path in there("lookup", {run: places.lookup(*run) for run in runs}):
        found.outcomes[run] = statistics.outcomes(tables.read(path, "lookup", asked))
    for run, path in there("knockout", {run: places.knockout(*run) for run in runs}):
        found.knockouts[run] = _by(tables.read(path, "knockout", asked), ["layer", "head"])
    for model, path in there("cycling", {model: places.cycling(model) for model in config.cycling.models}):
        found.cycles[model] = _by(tables.read(path, "cycling", cycled), "shift")
    for model, path in there("gates", {model: places.gates(config.lookup.corpus, model) for model in models}):
        trained = config_hash(train_settings(config, config.lookup.corpus, model))
        if len(table := tables.read(path, "gates", trained)):
            found.gates[model] = table
    for corpus in config.corpora:
        paths = {model: places.validation(corpus, model) for model in config.models_of(corpus)}
        found.losses[corpus] = {model: validation.read(path).loss for model, path in there("losses", paths)}
    if not kinds or _OF_TRAINED & set(kinds):
        found.not_learnt = _not_learnt({model: places.validation(config.lookup.corpus, model) for model in models})
    for name, path in there("theory", {name: places.theory(name) for name in THEORY_TABLES}):
        found.theory[name] = tables.read(path, f"theory_{name}", of_theory)

    found.deepseek = dict(config.deepseek.models)
    if not kinds or _OF_DEEPSEEK & set(kinds):
        stand_ins = {model: places.stand_in_validation(model) for model in config.deepseek.stand_ins}
        found.stand_ins_not_learnt = _not_learnt(stand_ins)
    for model in found.stand_ins_not_learnt:
        row = found.deepseek[model]
        found.deepseek[model] = row.model_copy(update={"label": f"{row.label}, {NOT_LEARNT}"})

    def asked_of(kind: str, settings: Callable[..., dict]) -> Iterator[tuple[str, pd.DataFrame]]:
        """The tables of one kind, of the models of `deepseek` that have been asked."""
        paths = {model: places.deepseek(model, kind) for model in config.deepseek.run(kind)}
        for model, path in there(kind, paths):
            yield model, tables.read(path, kind, config_hash(settings(config, model)))

    found.needles = {model: statistics.outcomes(table) for model, table in asked_of("needle", needle_settings)}
    found.completions = dict(asked_of("code_completion", code_completion_settings))
    for model, table in asked_of("layer_knockout", layer_knockout_settings):
        found.layer_knockouts[model] = _by(table, "layer")
    return found


def _by(table: pd.DataFrame, key: str | list[str]) -> dict[Any, np.ndarray]:
    """Outcomes by the values of `key`, one column or several."""
    return {values: statistics.outcomes(part) for values, part in table.groupby(key)}


def _not_learnt(paths: Mapping[str, str]) -> dict[str, Validation]:
    """The models among those that have been trained that have not learnt, by the files of their validation."""
    found = {model: validation.read(path) for model, path in paths.items() if Path(path).exists()}
    return {model: judged for model, judged in found.items() if judged.learnt is False}
