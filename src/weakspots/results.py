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
from weakspots.workflow import Layout


@dataclass
class Results:
    """Lookup outcomes and validation losses of the models that have been run.

    `models` is the model table; `outcomes` holds [mappings, modulus] booleans by model and padding, `losses` nats per
    token by corpus and model. What has not been run is absent.
    """

    scale: str
    models: dict[str, ModelRow]
    statistics: Statistics
    outcomes: dict[tuple[str, str], np.ndarray]
    losses: dict[str, dict[str, float]] = field(default_factory=dict)
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
        return self._once(
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
        return self._once(
            "periodicity",
            model,
            padding,
            lambda outcomes: statistics.periodicity(
                outcomes, replicates=self.statistics.bootstrap, seed=self.statistics.seed
            ),
        )

    def _once(self, name: str, model: str, padding: str, measure: Callable[[np.ndarray], Any]) -> Any:
        key = (name, model, padding)
        if key not in self._measured:
            self._measured[key] = measure(self.outcomes[model, padding])
        return self._measured[key]


def read(folder: str | Path) -> Results:
    """The results in `folder` (results/<scale>), as far as they have been written.

    Raises UserError if the folder holds no configuration, or a damaged table.
    """
    places = Layout(str(folder))
    config = load(places.config)
    outcomes = {
        (model, padding): statistics.outcomes(tables.read(path, "lookup"))
        for model in config.models_of(config.lookup.corpus)
        for padding in config.lookup.paddings
        if (path := Path(places.lookup(model, padding))).exists()
    }
    losses = {
        corpus: {
            model: _validation_loss(path)
            for model in config.models_of(corpus)
            if (path := Path(places.model(corpus, model), "validation.json")).exists()
        }
        for corpus in config.corpora
    }
    return Results(config.scale, config.models, config.statistics, outcomes, losses)


def _validation_loss(path: Path) -> float:
    try:
        return float(json.loads(path.read_text())["loss"])
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path}: holds no validation loss; delete its folder and train the model again") from None
