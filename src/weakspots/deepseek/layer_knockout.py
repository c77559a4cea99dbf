"""Layer knockouts: a layer's attention output at the query tokens is replaced by its mean over other prompts.

    o~_{l,t} = mu_{l,t} = mean over calibration prompts of o_{l,t},   t = T - Q .. T - 1

The context manager `knocked_out` is the definition, and serves passes over whole prompts too. Tokens before the query
cannot see it, so `score` reads them once, in chunks, and repeats only the query tokens for every layer.

Shapes: B or N prompts, T tokens, Q query tokens at the end of a prompt, L layers, D channels of the hidden state.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn
from transformers import PreTrainedModel

from weakspots.config import Deepseek
from weakspots.deepseek.needle import Prompts
from weakspots.deepseek.tokenizer import tokenizer_of
from weakspots.errors import UserError
from weakspots.model.loading import load
from weakspots.model_table import CLEAN
from weakspots.serving.prefill import continued_logits, prefill


def attentions(model: PreTrainedModel) -> list[nn.Module]:
    """The attention modules of all layers, from the first on.

    Raises UserError for a model that does not keep them where most of transformers' decoders do.
    """
    try:
        return [layer.self_attn for layer in model.model.layers]
    except AttributeError:
        raise UserError(
            f"{type(model).__name__} has no model.layers[i].self_attn, whose output a layer knockout replaces: name "
            "models of transformers that have it in deepseek.layer_knockout.models"
        ) from None


@contextmanager
def knocked_out(model: PreTrainedModel, layer: int, means: torch.Tensor) -> Iterator[None]:
    """Within the block, the last Q tokens of every pass read the output `means` `[Q, D]` from the attention of `layer`.

    Raises UserError for a layer that is not there.
    """
    modules = attentions(model)
    if not 0 <= layer < len(modules):
        raise UserError(f"layer {layer} does not exist: the model has layers 0 to {len(modules) - 1}")

    def replace(_module: nn.Module, _inputs: tuple, outputs: tuple) -> tuple:
        output = outputs[0].clone()  # [B, T, D]
        assert output.shape[1] >= len(means), "a pass must hold all query tokens"
        output[:, -len(means) :] = means.to(output)
        return (output, *outputs[1:])

    handle = modules[layer].register_forward_hook(replace)
    try:
        yield
    finally:
        handle.remove()


def mean_outputs(
    model: PreTrainedModel, prompts: Sequence[np.ndarray], query_tokens: int, chunk: int, batch: int
) -> torch.Tensor:
    """Means `[L, Q, D]`, float32, of all layers' attention outputs at the query tokens of the `prompts`, each `[T]`."""
    modules = attentions(model)
    sums: list[Any] = [0.0] * len(modules)  # tensors from the first batch on

    def collect(number: int) -> Callable[[nn.Module, tuple, tuple], None]:
        def hook(_module: nn.Module, _inputs: tuple, outputs: tuple) -> None:
            sums[number] = sums[number] + outputs[0][:, -query_tokens:].double().sum(0).cpu()

        return hook

    for _, tokens in _batches(prompts, batch):
        cache = prefill(model, tokens[:, :-query_tokens], chunk)
        with ExitStack() as hooks:
            for number, module in enumerate(modules):
                hooks.callback(module.register_forward_hook(collect(number)).remove)
            continued_logits(model, tokens[:, -query_tokens:], cache)
    return (torch.stack(sums) / len(prompts)).float()


def measure(deepseek: Deepseek, model: str, trained: str, device: str) -> pd.DataFrame:
    """The whole measurement of the row `model`: its table "layer_knockout".

    `trained` is the folder of a stand-in. The means are taken over prompts with other words, and over whole mappings,
    so that every residue is in them. Raises UserError where there is no such model, and as `score` does.
    """
    row, knockout, needle = deepseek.models[model], deepseek.layer_knockout, deepseek.needle
    tokenizer = tokenizer_of(row, trained)
    prompts = Prompts(needle, tokenizer, knockout.prompts_per_residue)
    others = Prompts(needle, tokenizer, knockout.calibration_quota(needle.modulus), knockout.seed)
    loaded, _ = load(row.folder or trained, dtype=row.dtype if row.folder else "float32", device=device)
    return score(
        loaded,
        prompts,
        prompts.answers,
        prompts.mapping,
        prompts.position,
        [others[number] for number in range(knockout.calibration)],
        knockout.query_tokens,
        knockout.chunk_tokens,
        knockout.batch,
    )


def score(
    model: PreTrainedModel,
    prompts: Sequence[np.ndarray] | Prompts,
    answers: np.ndarray,
    mapping: np.ndarray,
    position: np.ndarray,
    calibration: Sequence[np.ndarray],
    query_tokens: int,
    chunk: int,
    batch: int,
) -> pd.DataFrame:
    """The table "layer_knockout": every prompt with the model as it is (layer -1), then without each of its layers.

    `prompts` are N token arrays of one length T, or anything that gives them by number; `answers`, `mapping` and
    `position` are `[N]`. The means are taken over `calibration`, other prompts of the same length. `batch` prompts are
    read at once, `chunk` tokens at a time. Ties count against the answer.
    Raises UserError where prompts are shorter than the query, where a calibration prompt is evaluated too, and where
    the model's output is not finite.
    """
    if not 0 < query_tokens <= len(prompts[0]):
        raise UserError(
            f"deepseek.layer_knockout.query_tokens {query_tokens} must lie between 1 and the {len(prompts[0])} tokens "
            "of a prompt"
        )
    known = {tokens.numpy().tobytes() for _, tokens in _batches(calibration, 1)}
    model.eval()
    means = mean_outputs(model, calibration, query_tokens, chunk, batch)
    rows = []
    for numbers, tokens in _batches(prompts, batch):
        if any(row[None].numpy().tobytes() in known for row in tokens):
            raise UserError(
                f"a calibration prompt is among prompts {numbers[0]} to {numbers[-1]}, which are evaluated: set "
                "another deepseek.layer_knockout.seed"
            )
        answer = torch.from_numpy(answers[numbers].astype(np.int64)).to(model.device)
        cache = prefill(model, tokens[:, :-query_tokens], chunk)
        for layer in range(CLEAN, len(means)):
            # reading the query changes the cache, which the next layer needs as it was
            kept = cache if layer + 1 == len(means) else copy.deepcopy(cache)
            with knocked_out(model, layer, means[layer]) if layer != CLEAN else ExitStack():
                logits = continued_logits(model, tokens[:, -query_tokens:], kept).float()
            chosen = logits.gather(1, answer[:, None])
            logprob = (chosen[:, 0] - logits.logsumexp(dim=1)).cpu().numpy()
            if not np.isfinite(logprob).all():
                raise UserError(f"the model's output is not finite on prompts {numbers[0]} to {numbers[-1]}")
            rows.append(
                pd.DataFrame(
                    {
                        "mapping": mapping[numbers].astype(np.int32),
                        "position": position[numbers].astype(np.int16),
                        "layer": np.int16(layer),
                        "correct": ((logits >= chosen).sum(dim=1) == 1).cpu().numpy(),
                        "answer_logprob": logprob.astype(np.float32),
                    }
                )
            )
    return pd.concat(rows, ignore_index=True).sort_values("layer", kind="stable", ignore_index=True)


def _batches(prompts: Sequence[np.ndarray] | Prompts, batch: int) -> Iterator[tuple[np.ndarray, torch.Tensor]]:
    """Numbers `[B]` and tokens `[B, T]`, int64, of `batch` prompts at a time."""
    for start in range(0, len(prompts), batch):
        numbers = np.arange(start, min(start + batch, len(prompts)))
        yield numbers, torch.from_numpy(np.stack([prompts[number] for number in numbers.tolist()]).astype(np.int64))
