"""Cross-entropy of a linear layer without its logits in memory.

    loss = mean_n(logsumexp_v(w_v h_n) - w_(y_n) h_n)

With 151,669 words the logits are the largest tensor of a training step by far: 4 bytes each in float32 are 2.3 GiB for
4,096 tokens, and their gradient is as large. Here a chunk of tokens at a time has logits. Its gradients,

    dlogits = (softmax - onehot) / n,   dh = dlogits w,   dw = sum over chunks of dlogits^T h,

are computed in the forward pass, while the logits are there; the backward pass only scales them. So no logit is
computed twice, and what is kept has the size of the hidden states and of the weight.

Shapes: n tokens, E width, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable

BUDGET = 2**29
"""Bytes of float32 logits that may exist at a time: 884 tokens of 151,669 words. A chunk also reads the weight and adds
to its gradient, which costs a GPU as much as some hundred tokens do; a smaller budget would pay that more often."""


def linear_cross_entropy(hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy (a scalar, float32 at least) of `hidden` `[n, E]` through `weight` `[V, E]`.

    `targets` `[n]` are the right words; without any the loss is 0. Products are in the type of autocast where that is
    on, softmax and sums at least in float32. Logits within `BUDGET` go the usual way.
    """
    if not hidden.shape[0]:
        return F.linear(hidden, weight).float().sum()  # torch's mean of nothing would be NaN
    if not exceeds_budget(hidden, weight):
        return F.cross_entropy(F.linear(hidden, weight).float(), targets)
    wanted = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    return _LinearCrossEntropy.apply(hidden, weight, targets, wanted)


def exceeds_budget(hidden: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether the float32 logits of `hidden` `[n, E]` through `weight` `[V, E]` take more than `BUDGET`."""
    return 4 * hidden.shape[0] * weight.shape[0] > BUDGET


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, wanted: bool
    ) -> torch.Tensor:
        device = hidden.device.type
        kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
        exact = torch.promote_types(kind, torch.float32)
        tokens, words = hidden.shape[0], weight.shape[0]
        rows = max(1, BUDGET // (4 * words))
        loss = torch.zeros((), dtype=exact, device=hidden.device)
        for_hidden = torch.empty_like(hidden) if wanted else None
        for_weight = torch.zeros_like(weight, dtype=exact) if wanted else None
        with torch.autocast(device, enabled=False):
            states, matrix = hidden.to(kind), weight.to(kind)
            for start in range(0, tokens, rows):
                part = slice(start, start + rows)
                right = targets[part, None]
                logits = (states[part] @ matrix.t()).to(exact)
                normaliser = logits.logsumexp(dim=1, keepdim=True)
                loss += (normaliser - logits.gather(1, right)).sum()
                if for_hidden is None or for_weight is None:
                    continue
                gradient = logits.sub_(normaliser).exp_()
                gradient.scatter_add_(1, right, gradient.new_full(right.shape, -1.0))
                gradient = gradient.div_(tokens).to(kind)
                for_hidden[part] = gradient @ matrix
                if kind == exact:
                    for_weight.addmm_(gradient.t(), states[part])
                else:
                    for_weight += gradient.t() @ states[part]
        if for_hidden is not None and for_weight is not None:
            ctx.save_for_backward(for_hidden, for_weight.to(weight.dtype))
        return loss / tokens

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None, None, None]:
        for_hidden, for_weight = ctx.saved_tensors
        needs_hidden, needs_weight, *_ = ctx.needs_input_grad
        return (
            for_hidden * upstream.to(for_hidden.dtype) if needs_hidden else None,
            for_weight * upstream.to(for_weight.dtype) if needs_weight else None,
            None,
            None,
        )
