"""Gate statistics while a model trains: what every gate prefers, on average and window by window (Figure 4).

    static = exp(H(E[alpha])),   per window = E[exp(H(alpha))]

with H the Shannon entropy in nats and the mean over validation windows; both run from 1 (one offset) to W (uniform).
"""

from __future__ import annotations

import pandas as pd
import torch

from weakspots.compressors.base import BRANCHES
from weakspots.model.compressor import Compressor
from weakspots.model.transformer import WeakSpotsForCausalLM

COLUMNS = ["layer", "head", "branch", "offset", "score", "static", "per_window"]
"""The columns of the gate statistics at one step."""


def effective_number(scores: torch.Tensor, dim: int = 0) -> torch.Tensor:
    """exp of the Shannon entropy of distributions along `dim`."""
    return torch.special.entr(scores).sum(dim).exp()


def gate_statistics(model: WeakSpotsForCausalLM, tokens: torch.Tensor) -> pd.DataFrame:
    """Scores of every gate on the windows of `tokens` `[B, T]`: layer, head, branch, offset, score, static, per_window.

    `score` is the mean over windows. With one score per channel, channels are averaged after the effective numbers
    are taken, so that they measure how concentrated a channel is. Empty where offsets have no
    scores, as with full attention. Tied branches have one
    gate, listed as the key's. Entries whose window starts before the text are left out.
    """
    seen: dict[int, torch.Tensor] = {}
    hooks = []
    for number, layer in enumerate(model.layers):
        compressor: Compressor | None = getattr(layer.attention, "compressor", None)
        if compressor is None:
            continue

        def record(module: Compressor, inputs: tuple, number: int = number) -> None:
            scores = module.scores(inputs[0])  # [W, B, N, R, K, g]
            if scores is None:
                return
            whole = -(-module.memory.lead // module.memory.stride)
            seen[number] = scores[:, :, whole:].flatten(1, 2)

        hooks.append(compressor.register_forward_pre_hook(record))
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            model(tokens, logits_to_keep=1)
    finally:
        for hook in hooks:
            hook.remove()
        model.train(training)
    rows = []
    for number, scores in seen.items():
        mean = scores.mean(1)  # [W, R, K, g]
        static = effective_number(mean).mean(-1)
        per_window = effective_number(scores).mean((0, 3))
        profile = mean.mean(-1)
        for branch in range(mean.shape[1]):
            for head in range(mean.shape[2]):
                for offset in range(mean.shape[0]):
                    rows.append(
                        {
                            "layer": number,
                            "head": head,
                            "branch": BRANCHES[branch],
                            "offset": offset,
                            "score": profile[offset, branch, head].item(),
                            "static": static[branch, head].item(),
                            "per_window": per_window[branch, head].item(),
                        }
                    )
    return pd.DataFrame(rows, columns=COLUMNS)
