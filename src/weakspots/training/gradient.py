"""The gradient of one batch, added up over the parts that one process computes at a time, and over processes."""

from __future__ import annotations

import math
from contextlib import nullcontext

import numpy as np
import torch
from accelerate import Accelerator

from weakspots.errors import UserError
from weakspots.training.batches import Batches
from weakspots.training.record import Record
from weakspots.training.validation import summed


def gradient(
    accelerator: Accelerator, model: torch.nn.Module, batches: Batches, record: Record, most: int | None
) -> float:
    """Adds up the gradient of one batch, over parts and processes; returns its mean loss.

    The average that data-parallel processes take of their gradients is made the sum by a factor.
    """
    number = accelerator.num_processes
    losses = []
    step = record.progress.stage_step
    parts = list(batches.parts(step, accelerator.process_index, number, most))
    for place, part in enumerate(parts):
        with nullcontext() if place + 1 == len(parts) else accelerator.no_sync(model):
            tokens, labels = part.tokens.to(accelerator.device), part.labels.to(accelerator.device)
            # transformers' models divide by this number; left to themselves, by 0 where no token is labelled
            counted = max(1, part.labelled)
            loss = model(tokens, labels=labels, num_items_in_batch=counted, use_cache=False).loss
            accelerator.backward(loss if part.weight == 1 else loss * (part.weight * number))
        losses.append(loss.detach())
    values = torch.stack(losses).tolist()  # once, since it waits for the device
    (total,) = summed(accelerator, sum(value * part.weight for value, part in zip(values, parts, strict=True)))
    if not math.isfinite(total):
        bad = [part.indices for value, part in zip(values, parts, strict=True) if not math.isfinite(value)]
        raise diverged("loss", total, record, batches, (bad or [batches.indices(step)])[0])
    return total


def diverged(what: str, value: float, record: Record, batches: Batches, indices: np.ndarray) -> UserError:
    """The error that names step, shard and offset of the sequences behind a value that is not finite."""
    listed = ", ".join(str(index) for index in indices[:8]) + (", ..." if len(indices) > 8 else "")
    return UserError(
        f"the {what} is {value} at step {record.step + 1}, on {len(indices)} sequences ({listed}) of "
        f"{batches.sequences.folder}, the first in {batches.sequences.place(indices[0])}: lower "
        "training.learning_rate; the last checkpoint is kept"
    )
