"""Which sequences a step trains on: a function of the seed, the stage and the step in the stage alone.

How many processes share a batch, and how much of it each computes at a time, changes neither its sequences nor its
loss: the weights of its parts make their sum the mean over all labelled tokens of the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from weakspots.data.shards import Sequences
from weakspots.errors import UserError

IGNORED = -100
"""The label of a token whose loss does not count, as in torch's cross entropy."""


@dataclass(frozen=True)
class Part:
    """What one process computes at a time: tokens and labels `[b, T]`, int64, of the sequences `indices` `[b]`.

    `weight` is the share of the batch's labelled tokens that lies in this part.
    """

    indices: np.ndarray
    tokens: torch.Tensor
    labels: torch.Tensor
    weight: float

    @property
    def labelled(self) -> int:
        """Labelled tokens of this part; the first of a sequence is predicted by nothing."""
        return int((self.labels[:, 1:] != IGNORED).sum())


class Batches:
    """Batches of `sequences`, those of stage `number`, in a seeded order that is new in every epoch."""

    def __init__(self, sequences: Sequences, number: int, batch_tokens: int, seed: int, answers_only: bool):
        self.sequences = sequences
        self.size = min(batch_tokens // sequences.length, len(sequences))
        self.seed, self.number, self.answers_only = seed, number, answers_only
        self._epoch, self._order = -1, np.empty(0, dtype=np.int64)

    @property
    def tokens(self) -> int:
        """Tokens of a batch, all processes together."""
        return self.size * self.sequences.length

    def indices(self, step: int) -> np.ndarray:
        """The sequences of the batch at `step` (from 0 in this stage), `[batch]`; a rest of an epoch is skipped."""
        per_epoch = len(self.sequences) // self.size
        epoch, place = divmod(step, per_epoch)
        if epoch != self._epoch:
            rng = np.random.default_rng((self.seed, self.number, epoch))
            self._epoch, self._order = epoch, rng.permutation(len(self.sequences))
        return self._order[place * self.size : (place + 1) * self.size]

    def parts(self, step: int, process: int = 0, processes: int = 1, most: int | None = None) -> Iterator[Part]:
        """The parts of the batch at `step` that `process` of `processes` computes, each of about `most` tokens at most.

        Every process has the same number of parts, none of them empty: where sequences do not divide evenly, a part may
        hold one more.
        Raises UserError where a batch has fewer sequences than there are processes.
        """
        if self.size < processes:
            raise UserError(
                f"a batch of {self.size} sequences is too small for {processes} processes: raise training.batch_tokens "
                f"to {processes * self.sequences.length} or start fewer"
            )
        at_once = max(1, (most or self.tokens) // self.sequences.length)
        rounds = min(-(-self.size // (processes * at_once)), self.size // processes)
        indices = self.indices(step)
        shares = np.array_split(indices, processes * rounds)[process * rounds : (process + 1) * rounds]
        if processes * rounds == 1:
            tokens, labels = labelled(*self.sequences.read(indices), self.answers_only)
            yield Part(indices, tokens, labels, 1.0)
            return
        total = self._counted(indices)
        for share in shares:
            part = Part(share, *labelled(*self.sequences.read(share), self.answers_only), 1.0)
            yield replace(part, weight=part.labelled / total)

    def _counted(self, indices: np.ndarray) -> int:
        """Labelled tokens of a whole batch; the first of a sequence is predicted by nothing."""
        if not self.answers_only:
            return len(indices) * (self.sequences.length - 1)
        return max(1, int(self.sequences.read(indices)[1][:, 1:].sum()))


def labelled(tokens: np.ndarray, answers: np.ndarray, answers_only: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and labels as tensors; labels are `IGNORED` where the loss does not count."""
    inputs = torch.from_numpy(tokens)
    labels = inputs.masked_fill(~torch.from_numpy(answers), IGNORED) if answers_only else inputs
    return inputs, labels
