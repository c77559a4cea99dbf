"""RMSNorm, rotation, SwiGLU and their gradients in few passes over memory.

On a CPU torch composes these from many small operations, which costs a narrow model a fifth of its training step.
The arithmetic is torch's; so are the gradients, which the tests check against it. On a GPU, liger-kernel computes
RMSNorm and SwiGLU where it is installed (the extra `gpu`), and torch otherwise.
"""

from __future__ import annotations

from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

_LIGER = find_spec("liger_kernel") is not None


def liger_operations(x: torch.Tensor) -> ModuleType | None:
    """liger-kernel's operations where they can serve `x`."""
    if not (_LIGER and x.is_cuda and x.numel()):
        return None
    from liger_kernel import ops

    return ops


class _RMSNorm(torch.autograd.Function):
    """y = x / sqrt(mean(x^2) + epsilon) * weight, over the last dimension.

    Means and sums over rows are matrix-vector products, which are far quicker than torch's reductions of short rows.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
        width = x.shape[-1]
        mean = torch.mv((x * x).view(-1, width), x.new_full((width,), 1 / width))
        inverse = mean.add_(epsilon).rsqrt_().view(*x.shape[:-1], 1)
        normalised = x * inverse
        ctx.save_for_backward(normalised, inverse, weight)
        return normalised * weight

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        normalised, inverse, weight = ctx.saved_tensors
        width = normalised.shape[-1]
        gradient = gradient.contiguous()
        product = gradient * normalised
        rows = product.view(-1, weight.numel())
        for_weight = torch.mv(rows.t(), rows.new_ones(rows.shape[0])).view(weight.shape)
        mean = torch.mv(product.mul_(weight).view(-1, width), weight.new_full((width,), 1 / width))
        for_x = (gradient * weight).addcmul_(normalised, mean.view(inverse.shape), value=-1).mul_(inverse)
        return for_x, for_weight, None


def rms_norm(x: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """RMSNorm of `x` `[..., D]` with `weight` `[D]` or, for heads with weights of their own, `[H, D]`."""
    if weight.dim() == 1 and (liger := liger_operations(x)):
        return liger.LigerRMSNormFunction.apply(x, weight, epsilon, 0.0, "llama", False)
    if x.device.type == "cpu" and x.dtype == weight.dtype and x.dtype in (torch.float32, torch.float64):
        return _RMSNorm.apply(x.contiguous(), weight, epsilon)
    return F.rms_norm(x, x.shape[-1:], None, epsilon) * weight.to(x.dtype)


class RMSNorm(nn.Module):
    """Root mean square normalisation of the last dimension, of size `width`, as Qwen3 has it."""

    def __init__(self, width: int, epsilon: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[..., width]`, normalised and scaled."""
        return rms_norm(x, self.weight, self.epsilon)


class _HalfRotation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(cos, sin)
        return _turn(x, cos, sin)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _turn(gradient, cos, -sin), None, None


def _turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    turned = x * cos
    turned[..., :half].addcmul_(x[..., half:], sin[..., :half], value=-1)
    turned[..., half:].addcmul_(x[..., :half], sin[..., half:])
    return turned


def rotate_halves(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turns channel i of `x` `[..., D]` with channel i + D / 2 by the angle of both; cosines and sines broadcast."""
    return _HalfRotation.apply(x, cos, sin)


class _SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate_up: torch.Tensor) -> torch.Tensor:
        gate, up = gate_up.chunk(2, dim=-1)
        activated = F.silu(gate)
        ctx.save_for_backward(gate_up, activated)
        return activated * up

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        gate_up, activated = ctx.saved_tensors
        gate, up = gate_up.chunk(2, dim=-1)
        result = torch.empty_like(gate_up)
        for_gate, for_up = result.chunk(2, dim=-1)
        torch.mul(gradient, activated, out=for_up)
        torch.ops.aten.silu_backward(gradient * up, gate, grad_input=for_gate)
        return result


def swiglu(gate_up: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up, for the halves of `gate_up` `[..., 2M]`; both gradients go into one tensor."""
    if liger := liger_operations(gate_up):
        rows = gate_up.reshape(-1, gate_up.shape[-1])  # its gradient has two dimensions, whatever the input has
        return liger.LigerFusedGateUpSiLUMulFunction.apply(rows).view(*gate_up.shape[:-1], -1)
    return _SwiGLU.apply(gate_up)
