"""Hand-written gradients equal torch's."""

import os

import pytest
import torch
import torch.nn.functional as F

from weakspots.model import elementwise
from weakspots.model.elementwise import rms_norm, rotate_halves, swiglu

DEVICE = "cuda" if os.environ["TRITON_INTERPRET"] == "0" else "cpu"


@pytest.mark.parametrize("shape", [(2, 5, 6), (3, 1, 7), (2, 4, 3, 8)])
@pytest.mark.parametrize("per_head", [False, True])
def test_rms_norm_equals_torchs_and_passes_gradcheck(shape, per_head):
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(shape[-2:] if per_head else shape[-1:], dtype=torch.float64, requires_grad=True)
    expected = F.rms_norm(x, shape[-1:], None, 1e-6) * weight
    torch.testing.assert_close(rms_norm(x, weight, 1e-6), expected)
    assert torch.autograd.gradcheck(lambda x, weight: rms_norm(x, weight, 1e-6), (x, weight))


def test_rms_norm_of_a_zero_row_is_zero_and_bfloat16_keeps_its_type():
    assert torch.equal(rms_norm(torch.zeros(2, 3), torch.ones(3), 1e-6), torch.zeros(2, 3))
    assert rms_norm(torch.ones(2, 4, dtype=torch.bfloat16), torch.ones(4), 1e-6).dtype == torch.bfloat16


def test_rotation_keeps_lengths_turns_back_and_passes_gradcheck():
    torch.manual_seed(0)
    angle = torch.rand(5, 3, dtype=torch.float64)
    cos, sin = (torch.cat([f(angle)] * 2, dim=-1) for f in (torch.cos, torch.sin))
    x = torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
    turned = rotate_halves(x, cos, sin)
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    torch.testing.assert_close(rotate_halves(turned, cos, -sin), x)
    complex_turned = torch.view_as_complex(x.unflatten(-1, (2, 3)).transpose(-1, -2).contiguous()) * torch.polar(
        torch.ones_like(angle), angle
    )
    torch.testing.assert_close(turned, torch.view_as_real(complex_turned).transpose(-1, -2).flatten(-2))
    assert torch.autograd.gradcheck(lambda x: rotate_halves(x, cos, sin), (x,))


def test_swiglu_equals_torchs_and_passes_gradcheck():
    torch.manual_seed(0)
    x = torch.randn(3, 5, 8, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(swiglu(x), F.silu(x[..., :4]) * x[..., 4:])
    assert torch.autograd.gradcheck(swiglu, (x,))


@pytest.mark.parametrize("name", ["norm", "swiglu"])
def test_liger_kernels_norm_and_swiglu_are_torchs(name, monkeypatch):
    """Where the extra `gpu` is installed; on a CPU in Triton's interpreter, which cannot run the norm."""
    ops = pytest.importorskip("liger_kernel.ops")
    if name == "norm" and DEVICE == "cpu":
        pytest.skip("liger-kernel's norm converts a number that the interpreter leaves to Python")
    torch.manual_seed(0)
    x, weight = torch.randn(3, 5, 32, device=DEVICE, requires_grad=True), torch.randn(32, device=DEVICE)
    tensors = (x, weight.requires_grad_()) if name == "norm" else (x,)

    def run():
        out = rms_norm(*tensors, 1e-6) if name == "norm" else swiglu(x)
        return [out, *torch.autograd.grad(out.square().sum(), tensors)]

    monkeypatch.setattr(elementwise, "liger_operations", lambda x: None)
    expected = run()
    monkeypatch.setattr(elementwise, "liger_operations", lambda x: ops)
    for ours, theirs in zip(run(), expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
