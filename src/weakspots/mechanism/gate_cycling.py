"""Gate cycling: the gates of a model move by some offsets inside the window, and the payload maps stay (Figure 6).

    Z~_i = Z_{(i - d) mod W},  b~_i = b_{(i - d) mod W},  with d the shift in offsets

It needs a learned gate and windows that do not overlap (W = S), so that an offset has one phase.
`analysis.cycling_prediction` compares what the model then answers with the prediction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import torch
from transformers import PreTrainedTokenizerBase

from weakspots.config import Config
from weakspots.errors import UserError
from weakspots.lookup import score as lookup
from weakspots.lookup.prompts import PromptSet, prompts, words_in_use
from weakspots.model.loading import load_trained
from weakspots.model.transformer import WeakSpotsForCausalLM


@contextmanager
def cycled(model: WeakSpotsForCausalLM, shift: int) -> Iterator[WeakSpotsForCausalLM]:
    """Within the block, `model` has the gates of every layer moved by `shift` offsets; afterwards its old ones, to the
    bit, also if the block raises.

    The gate of offset i is then that of offset (i - shift) mod W. Raises UserError, naming the row, where the model
    cannot be cycled.
    """
    row = model.config.model_row()
    if reason := row.why_not_cycled():
        raise UserError(f"{row.label()} cannot be cycled: {reason}")
    compressors = [layer.attention.compressor for layer in model.layers]
    moved = [weight for part in compressors for name, weight in part.named_parameters() if name in row.gate_weights]
    before = [gate.detach().clone() for gate in moved]
    try:
        _write(moved, [gate.roll(shift, dims=0) for gate in before])
        yield model
    finally:
        _write(moved, before)


def measure(folder: str | Path, config: Config) -> pd.DataFrame:
    """The whole measurement of the trained model in `folder`: its table "cycling".

    The first `cycling.mappings` mappings of the lookup are asked. Raises UserError where the folder holds no sound
    model, and as `score` does.
    """
    model, tokenizer = load_trained(folder, config.device)
    asked = prompts(config.lookup, config.cycling.padding, *words_in_use(config.corpora[config.lookup.corpus]))
    asked = asked.take(asked.mapping < config.cycling.mappings)
    return score(model, tokenizer, asked, config.cycling.shifts, config.lookup.batch)


def score(
    model: WeakSpotsForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    prompts: PromptSet,
    shifts: Iterable[int],
    batch: int,
) -> pd.DataFrame:
    """The table "cycling" of `model`: every prompt with the gates moved by each of `shifts` offsets.

    Raises UserError where the model cannot be cycled, and as `lookup.score.score` does.
    """
    parts = []
    for shift in shifts:
        with cycled(model, shift):
            answered = lookup.score(model, tokenizer, prompts, batch)
        parts.append(answered[["mapping", "position", "correct"]].assign(shift=shift))
    return pd.concat(parts, ignore_index=True)


@torch.no_grad()
def _write(parameters: list[torch.nn.Parameter], values: list[torch.Tensor]) -> None:
    for parameter, value in zip(parameters, values, strict=True):
        parameter.copy_(value)
