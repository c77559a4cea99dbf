"""The results of one scale in memory: what figures and claims are measured from."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from weakspots import statistics, tables
from weakspots.config import PADDINGS, Statistics, load
from weakspots.errors import UserError
from weakspots.models import ModelRow
from weakspots.provenance import config_hash
from weakspots.theory.columns import COLUMNS as THEORY
from weakspots.workflow import Layout, cycling_settings, lookup_settings, theory_settings

WHOLE_LAYER = -1
"""The "head" whose knockout replaces the output of all heads of a layer."""


@dataclass
class Results:
    """What has been measured of the models that have been run; what has not been run is absent.

    `models` is the model table. Outcomes are booleans [mappings, modulus]: `outcomes` of the lookup by model and
    padding, `knockouts` by model and padding, then by layer and KV head (or `WHOLE_LAYER`), `cycles` by model, then by
    shift (of the first mappings of the lookup under `cycling_padding`). `gates` holds the gate statistics of training
    by model, `losses` nats per token by corpus and model, `theory` the tables of the theory by name.
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
    _measured: dict[tuple[str, str, str], Any] = field(default_factory=dict, repr=False)

    def runs(self) -> list[tuple[str, str]]:
        """Model and padding of every run that has outcomes, in the model table's order.

        Raises UserError if there are none.
        """
        found = [(model, padding) for model in self.models for padding in PADDINGS if (model, padding) in self.outcomes]
        if not found:
            raise UserError(f"the scale {self.scale} has no lookup results yet: run `snakemake lookup` first")
        return found

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

    def periodicity(self, model: str, padding: str) -> statistics.Periodicity:
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


def read(folder: str | Path) -> Results:
    """The results in `folder` (results/<scale>), as far as they have been written.

    Raises UserError if the folder holds no configuration, a damaged table, or one of another configuration.
    """
    places = Layout(str(folder))
    config = load(places.config)
    asked, cycled = config_hash(lookup_settings(config)), config_hash(cycling_settings(config))
    models = config.models_of(config.lookup.corpus)
    runs = [(model, padding) for model in models for padding in config.lookup.paddings]
    outcomes = {
        run: statistics.outcomes(tables.read(path, "lookup", asked))
        for run in runs
        if (path := Path(places.lookup(*run))).exists()
    }
    knockouts = {
        run: _by(tables.read(path, "knockout", asked), ["layer", "head"])
        for run in runs
        if (path := Path(places.knockout(*run))).exists()
    }
    cycles = {
        model: _by(tables.read(path, "cycling", cycled), "shift")
        for model in config.cycling.models
        if (path := Path(places.cycling(model))).exists()
    }
    gates = {
        model: tables.read(path, "gates")
        for model in models
        if (path := Path(places.model(config.lookup.corpus, model), "gates.parquet")).exists()
    }
    losses = {
        corpus: {
            model: _validation_loss(path)
            for model in config.models_of(corpus)
            if (path := Path(places.model(corpus, model), "validation.json")).exists()
        }
        for corpus in config.corpora
    }
    of_theory = config_hash(theory_settings(config))
    theory = {
        name: tables.read(path, f"theory_{name}", of_theory)
        for name in THEORY
        if (path := Path(places.theory(name))).exists()
    }
    return Results(
        config.scale,
        config.models,
        config.statistics,
        outcomes,
        losses,
        knockouts,
        cycles,
        config.cycling.padding,
        {model: table for model, table in gates.items() if len(table)},
        theory,
    )


def _by(table: pd.DataFrame, key: str | list[str]) -> dict[Any, np.ndarray]:
    """Outcomes by the values of `key`, one column or several."""
    return {values: statistics.outcomes(part) for values, part in table.groupby(key)}


def _validation_loss(path: Path) -> float:
    try:
        return float(json.loads(path.read_text())["loss"])
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path}: holds no validation loss; delete its folder and train the model again") from None
