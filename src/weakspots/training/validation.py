"""The loss on held-out sequences."""

from __future__ import annotations

import torch
from accelerate import Accelerator
from transformers import PreTrainedModel

from weakspots.data.shards import Sequences
from weakspots.model.transformer import WeakSpotsForCausalLM
from weakspots.training.batches import IGNORED, labelled


def validation_loss(
    accelerator: Accelerator, model: PreTrainedModel, held_out: Sequences, tokens: int, answers_only: bool
) -> dict[str, float]:
    """`loss`, the mean over all labelled tokens of `held_out`, and `tokens`, their number; the same in every process.

    Each process reads its share of the sequences, at most `tokens` tokens at a time.
    """
    size = max(1, tokens // held_out.length)
    mine = range(accelerator.process_index, len(held_out), accelerator.num_processes)
    total, count = 0.0, 0
    # what is asked for is the loss alone: the logits of a batch would not fit beside it
    options = {"skip_logits": True} if isinstance(model, WeakSpotsForCausalLM) else {}
    model.eval()
    with torch.no_grad(), accelerator.autocast():
        for start in range(0, len(mine), size):
            inputs, labels = labelled(*held_out.read(mine[start : start + size]), answers_only)
            if counted := int((labels[:, 1:] != IGNORED).sum()):
                inputs, labels = inputs.to(accelerator.device), labels.to(accelerator.device)
                total += model(inputs, labels=labels, use_cache=False, **options).loss.item() * counted
                count += counted
    of_all, labels_of_all = summed(accelerator, total, count)
    return {"loss": of_all / labels_of_all, "tokens": int(labels_of_all)}


def summed(accelerator: Accelerator, *values: float) -> list[float]:
    """The sums of `values` over all processes."""
    if accelerator.num_processes == 1:
        return list(values)
    return accelerator.reduce(torch.tensor(values, dtype=torch.float64, device=accelerator.device), "sum").tolist()
