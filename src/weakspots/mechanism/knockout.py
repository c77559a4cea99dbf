"""Knockouts: a head's output at the final position is replaced by its mean over other prompts (the paper's Figure 3).

    z~_{l,a,T} = mu_{l,a} = mean over calibration prompts of z_{l,a,T},   for the query heads a that read one KV head

The context manager is the definition, and runs the whole prompt; `all_knockouts` gives the same for all heads at once.

Shapes: L layers, H query heads, K KV heads, D channels per head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from weakspots.config import Knockout, Lookup
from weakspots.errors import UserError
from weakspots.lookup.prompts import PromptSet, prompts
from weakspots.lookup.score import tokenize
from weakspots.model.transformer import WeakSpotsForCausalLM
from weakspots.model_table import WHOLE_LAYER


def columns(model: WeakSpotsForCausalLM, layer: int, head: int) -> slice:
    """Which of a layer's H * D outputs come from the query heads that read KV head `head`, or `WHOLE_LAYER`.

    Raises UserError where the model has no such layer or head.
    """
    if not 0 <= layer < len(model.layers):
        raise UserError(f"layer {layer} does not exist: the model has layers 0 to {len(model.layers) - 1}")
    attention = model.layers[layer].attention
    if head == WHOLE_LAYER:
        return slice(None)
    if not 0 <= head < attention.kv_heads:
        raise UserError(f"KV head {head} does not exist: the model has heads 0 to {attention.kv_heads - 1}")
    group = attention.heads // attention.kv_heads * attention.width
    return slice(head * group, (head + 1) * group)


@contextmanager
def knocked_out(model: WeakSpotsForCausalLM, layer: int, head: int, means: torch.Tensor) -> Iterator[None]:
    """Within the block, the final position of every text reads the mean output of `head` in `layer`, nothing else does.

    `means` `[L, H * D]` are those of `mean_outputs`; `head` may be `WHOLE_LAYER`. Meant for whole texts: when a text is
    decoded token by token, the last token of every call counts as final. Raises UserError for a head that is not there.
    """
    replaced = columns(model, layer, head)

    def replace(_module: nn.Module, _inputs: tuple, outputs: torch.Tensor) -> torch.Tensor:
        outputs = outputs.clone()
        outputs[:, -1, replaced] = means[layer, replaced].to(outputs)
        return outputs

    handle = model.layers[layer].attention.register_forward_hook(replace)
    try:
        yield
    finally:
        handle.remove()


def mean_outputs(model: WeakSpotsForCausalLM, tokens: torch.Tensor, batch: int = 64) -> torch.Tensor:
    """Means `[L, H * D]` of all heads' outputs at the final position of the texts `tokens` `[N, T]`."""
    sums: list[Any] = [0.0] * len(model.layers)  # tensors from the first batch on

    def collect(number: int) -> Callable[[nn.Module, tuple, torch.Tensor], None]:
        def hook(_module: nn.Module, _inputs: tuple, outputs: torch.Tensor) -> None:
            sums[number] = sums[number] + outputs[:, -1].double().sum(0)

        return hook

    with ExitStack() as hooks, torch.inference_mode():
        for number, layer in enumerate(model.layers):
            hooks.callback(layer.attention.register_forward_hook(collect(number)).remove)
        for part in tokens.split(batch):
            model(input_ids=part.to(model.device), logits_to_keep=1, use_cache=False)
    return (torch.stack(sums) / len(tokens)).float()


def calibrate(
    model: WeakSpotsForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    lookup: Lookup,
    knockout: Knockout,
    padding: str,
    words: tuple[list[str], list[str]],
    evaluated: PromptSet,
) -> torch.Tensor:
    """Means `[L, H * D]` over the calibration prompts. Raises UserError where one of them is among `evaluated`."""
    calibration = calibration_prompts(lookup, knockout, padding, *words)
    check_disjoint(calibration.words, evaluated.words)
    return mean_outputs(model, torch.from_numpy(tokenize(tokenizer, calibration)[0]), lookup.batch)


def calibration_prompts(
    lookup: Lookup, knockout: Knockout, padding: str, keys: list[str], values: list[str]
) -> PromptSet:
    """The prompts whose outputs are averaged: of the lookup's kind, drawn at random from mappings of another seed."""
    drawn = prompts(lookup.model_copy(update={"seed": knockout.seed}), padding, keys, values)
    rng = np.random.default_rng(knockout.seed)
    if knockout.calibration > len(drawn):
        raise UserError(
            f"knockout.calibration {knockout.calibration} is more than the {len(drawn)} prompts there are: lower it"
        )
    return drawn.take(np.sort(rng.permutation(len(drawn))[: knockout.calibration]))


def check_disjoint(calibration: np.ndarray, evaluated: np.ndarray) -> None:
    """Raises UserError where a text of `calibration` [n, T] is among those of `evaluated` [N, T]."""
    known = {text.tobytes() for text in np.ascontiguousarray(evaluated)}
    shared = sum(text.tobytes() in known for text in np.ascontiguousarray(calibration, dtype=evaluated.dtype))
    if shared:
        raise UserError(
            f"{shared} of {len(calibration)} calibration prompts are evaluated too: a head would be replaced by what "
            "it says itself: set another knockout.seed"
        )
