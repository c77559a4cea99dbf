"""A corpus and a model that train in a second, and what the tests of training compare."""

from pathlib import Path

import pandas as pd
from safetensors.torch import load_file

from weakspots.config import Corpus

MEASURED = ["tokens_per_second", "flop_utilisation", "peak_memory_gib"]
"""Columns of training.parquet that differ between machines and moments."""

CORPUS = Corpus.model_validate(
    {
        "source": {"kind": "recall", "keys": 20, "values": 20},
        "tokenizer": {"kind": "words"},
        "stages": [
            {"length": 16, "records": 2, "sequences": 200, "max_steps": 7},
            {"length": 28, "records": 4, "sequences": 60},
        ],
        "training": {
            "steps": 19,
            "batch_tokens": 256,
            "learning_rate": 3e-3,
            "warmup_steps": 3,
            "decay_fraction": 0.5,
            "weight_decay": 0.1,
            "loss_on": "answers",
            "log_every": 4,
            "checkpoint_steps": [0, 9, 19],
            "resume_every": 5,
            "validation_sequences": 20,
        },
    }
)


def changed(**training) -> Corpus:
    """The corpus, trained on with other values of these keys."""
    return CORPUS.model_copy(update={"training": CORPUS.training.model_copy(update=training)})


def weights(folder: Path) -> dict:
    """The tensors of a trained model."""
    return load_file(folder / "model.safetensors")


def curve(table: pd.DataFrame) -> pd.DataFrame:
    """training.parquet without what differs between moments."""
    return table.drop(columns=MEASURED)
