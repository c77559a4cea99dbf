"""What follows the gradient: AdamW for everything, or Muon for the matrices inside the layers and AdamW for the rest.

Muon (K. Jordan and others, 2024, https://kellerjordan.github.io/posts/muon) moves a matrix by the nearest
semi-orthogonal matrix to its averaged gradient, so all of its directions learn at one pace. `torch.optim.Muon` takes
two-dimensional parameters one at a time, in bfloat16; here equal shapes are one batched product in their own precision,
and the maps that a compressor has for its offsets are one parameter of three dimensions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from weakspots.config import Training
from weakspots.model.compressor import Compressor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""a, b and c of one Newton-Schulz iteration, X <- a X + (b A + c A²) X with A = X X', as in torch.optim.Muon."""

_ITERATIONS = 5
_MOMENTUM = 0.95


def optimizer_for(model: nn.Module, training: Training) -> torch.optim.Optimizer:
    """The optimiser of what learns in `model`. Each of its groups has a `factor`: its rate in learning rates.

    Matrices and gate biases are decayed, norms are not. With `training.muon` the matrices inside layers follow Muon;
    embeddings, norms, and the gates of a compressor (`ModelRow.gate_weights`) follow AdamW.
    """
    groups: dict[tuple[tuple[str, Any], ...], list[nn.Parameter]] = defaultdict(list)
    for parameter, options in _options(model, training):
        groups[tuple(options.items())].append(parameter)
    found = [{"params": parameters, **dict(options)} for options, parameters in groups.items()]
    kind = torch.optim.AdamW if training.muon is None else Muon
    return kind(found, lr=training.learning_rate, betas=training.betas, fused=True)


def _options(model: nn.Module, training: Training) -> Iterable[tuple[nn.Parameter, dict[str, Any]]]:
    """Every parameter that learns, with the options of its group."""
    seen = set()
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if not parameter.requires_grad or parameter in seen:
                continue
            seen.add(parameter)
            options = {"weight_decay": training.weight_decay if parameter.dim() >= 2 else 0.0, "factor": 1.0}
            if training.muon is not None:
                options |= _muon(module, name, parameter, training)
            yield parameter, options


def _muon(module: nn.Module, name: str, parameter: nn.Parameter, training: Training) -> dict[str, Any]:
    """What differs from AdamW's options."""
    muon, adamw = training.muon, {"muon": False}
    assert muon is not None
    if isinstance(module, Compressor):
        if name.endswith("_bias"):
            return {**adamw, "weight_decay": 0.0, "factor": muon.gate_bias_rate}
        gates = module.row.gate_weights
        if name in gates:
            return {**adamw, "factor": muon.gate_rate}
        apart = muon.offset_decay if gates else training.weight_decay
        return {"muon": True, "factor": muon.rate, "offset_decay": apart}
    if parameter.dim() != 2 or isinstance(module, nn.Embedding):
        return adamw
    return {"muon": True, "factor": muon.rate, "offset_decay": 0.0}


class Muon(torch.optim.AdamW):
    """Muon for groups with `muon`: True, AdamW for the others.

    A matrix `[rows, columns]` moves by rate · sqrt(max(1, rows / columns)) times its orthogonalised gradient, averaged
    with Nesterov's momentum of 0.95. A parameter of three dimensions holds one map `[rows, columns]` for each offset of
    a window, C_i = C + D_i. It is treated as two: what the maps have in common, C, is a matrix of its own, and they all
    together are one tall matrix, so that an offset moves as far as its gradient says. Orthogonalised one by one, the
    maps of offsets that no gate picks would be moved as far as those of the others, by noise. `weight_decay` acts on C
    and on matrices, `offset_decay` on D_i.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step. Parameters without a gradient stay."""
        matrices = [group for group in self.param_groups if group["muon"]]
        held = [(p, p.grad) for group in matrices for p in group["params"] if p.grad is not None]
        for parameter, _ in held:
            parameter.grad = None  # AdamW passes over what has none
        super().step(closure)
        for parameter, gradient in held:
            parameter.grad = gradient
        for group in matrices:
            self._move(group)

    def _move(self, group: dict[str, Any]) -> None:
        wanted: dict[torch.Size, list[tuple[nn.Parameter, torch.Tensor]]] = defaultdict(list)
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            state = self.state[parameter]
            if not state:  # AdamW, which loads the states of all groups, expects a count of steps in each
                state |= {"step": torch.zeros((), dtype=torch.float32), "momentum": torch.zeros_like(parameter)}
            state["step"] += 1
            average = state["momentum"]
            average.lerp_(parameter.grad, 1 - _MOMENTUM)
            gradient = parameter.grad.lerp(average, _MOMENTUM)
            if parameter.dim() == 3:
                common = parameter.mean(dim=0, keepdim=True)
                parameter.sub_(parameter - common, alpha=min(1.0, group["lr"] * group["offset_decay"]))
                wanted[gradient.shape[1:]].append((parameter, gradient.sum(dim=0)))
                gradient = gradient.flatten(0, 1)
                parameter.sub_(common, alpha=group["lr"] * group["weight_decay"])
            else:
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
            wanted[gradient.shape].append((parameter, gradient))
        for (rows, columns), pairs in wanted.items():
            moves = orthogonalised(torch.stack([gradient for _, gradient in pairs]))
            for (parameter, gradient), move in zip(pairs, moves, strict=True):
                if parameter.numel() == gradient.numel():
                    move = move.view_as(parameter)
                parameter.sub_(move, alpha=group["lr"] * max(1.0, rows / columns) ** 0.5)


def orthogonalised(matrices: torch.Tensor) -> torch.Tensor:
    """Nearly the nearest semi-orthogonal matrices to `matrices` `[n, rows, columns]`: singular values near 1.

    Five Newton-Schulz iterations with `COEFFICIENTS`. Matrices of zeros stay zeros.
    """
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)
    a, b, c = COEFFICIENTS
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
