"""Corpora for the tests of this folder. Nothing here may reach the network."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weakspots.config import Corpus

os.environ.setdefault("HF_HUB_OFFLINE", "1")

PROSE = Path(__file__).parent / "prose"
TRAINING = {
    "steps": 1,
    "batch_tokens": 4096,
    "learning_rate": 1e-3,
    "warmup_steps": 0,
    "decay_fraction": 0.0,
    "weight_decay": 0.0,
}


@pytest.fixture(scope="session")
def prose() -> Path:
    """A folder with three real addresses as .txt files."""
    return PROSE


@pytest.fixture(scope="session")
def text_corpus():
    """A corpus of local text: by default the real prose, in sequences of 64 tokens."""

    def build(paths=(str(PROSE),), lengths=(64,), sequences=20, validation=4, **changes) -> Corpus:
        return Corpus.model_validate(
            {
                "source": {"kind": "local", "paths": list(paths)},
                "tokenizer": {"kind": "bytes", "vocabulary": 400, "training_documents": 3},
                "stages": [
                    {"length": length, "sequences": sequences} | ({"max_steps": 5} if length != lengths[-1] else {})
                    for length in lengths
                ],
                "shard_tokens": 1024,
                "training": {**TRAINING, "loss_on": "all", "validation_sequences": validation},
            }
            | changes
        )

    return build


@pytest.fixture(scope="session")
def recall_corpus() -> Corpus:
    """Two stages of recall documents."""
    return Corpus.model_validate(
        {
            "source": {"kind": "recall", "keys": 20, "values": 30},
            "tokenizer": {"kind": "words"},
            "seed": 5,
            "stages": [
                {"length": 32, "sequences": 40, "records": 3, "until_loss": 1.0},
                {"length": 49, "sequences": 50, "records": 6},
            ],
            "shard_tokens": 1024,
            "training": {**TRAINING, "loss_on": "answers", "validation_sequences": 8},
        }
    )
