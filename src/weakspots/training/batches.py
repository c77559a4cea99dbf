"""Which sequences a step trains on: a function of the seed, the stage and the step in the stage alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from weakspots.config import Stage
from weakspots.data.shards import Sequences

IGNORED = -100
"""The label of a token whose loss does not count, as in torch's cross entropy."""


class Batches:
    """Batches of one stage in a seeded order that is new in every epoch."""

    def __init__(self, folder: Path, stage: Stage, number: int, batch_tokens: int, seed: int, answers_only: bool):
        self.sequences = Sequences(folder, stage.length)
        self.size = min(batch_tokens // stage.length, len(self.sequences))
        self.seed, self.number, self.answers_only = seed, number, answers_only
        self._epoch, self._order = -1, np.empty(0, dtype=np.int64)

    def indices(self, step: int) -> np.ndarray:
        """The sequences of the batch at `step` (from 0 in this stage), `[batch]`; a rest of an epoch is skipped."""
        per_epoch = len(self.sequences) // self.size
        epoch, place = divmod(step, per_epoch)
        if epoch != self._epoch:
            rng = np.random.default_rng((self.seed, self.number, epoch))
            self._epoch, self._order = epoch, rng.permutation(len(self.sequences))
        return self._order[place * self.size : (place + 1) * self.size]

    def read(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens and labels `[batch, T]`, int64; labels are `IGNORED` where the loss does not count."""
        return labelled(*self.sequences.read(self.indices(step)), self.answers_only)


def labelled(tokens: np.ndarray, answers: np.ndarray, answers_only: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and labels as tensors."""
    inputs = torch.from_numpy(tokens)
    labels = inputs.masked_fill(~torch.from_numpy(answers), IGNORED) if answers_only else inputs
    return inputs, labels
