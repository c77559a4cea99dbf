"""The results of one scale in memory: what figures and claims are measured from."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from weakspots import statistics, tables
from weakspots.config import PADDINGS, Statistics, load
from weakspots.errors import UserError
from weakspots.models import ModelRow


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
    _periodicities: dict[tuple[str, str], statistics.Periodicity] = field(default_factory=dict, repr=False)

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
        """`statistics.summary` of one run."""
        return statistics.summary(
            self.outcomes[model, padding],
            replicates=self.statistics.bootstrap,
            confidence=self.statistics.confidence,
            seed=self.statistics.seed,
        )

    def periodicity(self, model: str, padding: str) -> statistics.Periodicity:
        """`statistics.periodicity` of one run, computed once: several claims ask for it."""
        if (model, padding) not in self._periodicities:
            self._periodicities[model, padding] = statistics.periodicity(
                self.outcomes[model, padding], replicates=self.statistics.bootstrap, seed=self.statistics.seed
            )
        return self._periodicities[model, padding]


def read(folder: str | Path) -> Results:
    """The results in `folder` (results/<scale>), as far as they have been written.

    Raises UserError if the folder holds no configuration, or a damaged table.
    """
    folder = Path(folder)
    config = load(folder / "config.yaml")
    outcomes = {
        (model, padding): statistics.outcomes(tables.read(path, "lookup"))
        for model in config.models
        for padding in PADDINGS
        if (path := folder / "lookup" / model / f"{padding}.parquet").exists()
    }
    losses = {
        corpus: {
            model: _validation_loss(path)
            for model in config.models
            if (path := folder / "models" / corpus / model / "validation.json").exists()
        }
        for corpus in config.corpora
    }
    return Results(config.scale, config.models, config.statistics, outcomes, losses)


def _validation_loss(path: Path) -> float:
    try:
        return float(json.loads(path.read_text())["loss"])
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path}: holds no validation loss; delete its folder and train the model again") from None
