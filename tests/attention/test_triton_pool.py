"""The pooling kernel computes what equations 1 and 2 say, forward and backward."""

import pytest
import torch
from kernels import DEVICE, TYPES, agree, error, poison

from weakspots.attention import pooling, triton_pool


@pytest.fixture(autouse=True)
def poisoned(monkeypatch):
    poison(monkeypatch)


def inputs(window, batch, entries, heads, width, gate, biased, kind=torch.float32):
    torch.manual_seed(0)
    scores = width if gate == "vector" else 1
    product = torch.randn(window, batch, entries, heads * (width + scores), dtype=torch.float64).to(DEVICE, kind)
    bias = torch.randn(window, heads * scores, dtype=torch.float64).to(DEVICE, kind) if biased else None
    return [x.requires_grad_() for x in (product, bias) if x is not None]


def both(tensors, heads, width, lead):
    """Entries and gradients, by the kernel and by the definition in float64."""

    def run(pool, tensors):
        entries = pool(*tensors, *[None] * (2 - len(tensors)), heads, width, lead)
        return [entries, *torch.autograd.grad(entries, tensors, upstream.to(entries.dtype))]

    kernel = triton_pool.pool(*tensors, *[None] * (2 - len(tensors)), heads, width, lead)
    upstream = torch.randn(kernel.shape, dtype=torch.float64, device=DEVICE).to(kernel.dtype)
    exact = [x.detach().double().requires_grad_() for x in tensors]
    return run(triton_pool.pool, tensors), run(pooling.pool, exact)


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("gate", ["scalar", "vector"])
@pytest.mark.parametrize(
    ("window", "batch", "entries", "heads", "width", "biased", "lead"),
    [
        (8, 2, 5, 2, 16, True, 0),
        (8, 1, 1, 1, 32, False, 0),  # a text of one window
        (8, 2, 11, 3, 24, True, 4),  # DeepSeek's first window; a width that is no power of 2; several blocks
        (12, 2, 9, 1, 64, True, 0),
        (4, 1, 33, 2, 128, False, 3),
        (1, 1, 17, 2, 16, True, 0),
        (13, 2, 8, 3, 20, True, 12),
    ],
)
def test_entries_and_every_gradient_are_the_definitions(window, batch, entries, heads, width, biased, lead, gate, kind):
    tensors = inputs(window, batch, entries, heads, width, gate, biased, kind)
    found, expected = both(tensors, heads, width, lead)
    agree(found, expected, kind)


@pytest.mark.parametrize("gate", ["scalar", "vector"])
def test_large_gate_logits_give_a_hard_choice_and_no_nan(gate):
    tensors = inputs(8, 1, 5, 2, 16, gate, True)
    with torch.no_grad():
        tensors[0] *= 300  # differences far beyond what float32's exponential holds
    found, expected = both(tensors, 2, 16, 4)
    agree(found[:1], expected[:1], torch.float32)
    for ours, theirs in zip(found, expected, strict=True):
        assert error(ours, theirs) < 1e-3  # float32 holds a logit of 1,000 to 6e-5, and so its exponential


def test_a_missing_token_has_weight_zero_and_no_gradient_whatever_it_holds():
    tensors = inputs(8, 2, 3, 1, 16, "scalar", True)
    entries = triton_pool.pool(*tensors, 1, 16, 4)
    with torch.no_grad():
        changed = tensors[0].clone()
        changed[:4, :, 0] = 1e4
        assert torch.equal(triton_pool.pool(changed, tensors[1], 1, 16, 4), entries)
    gradient = torch.autograd.grad(entries.sum(), tensors[0])[0]
    assert not gradient[:4, :, 0].any() and gradient[:4, :, 1].any() and gradient[4:, :, 0].any()


def test_the_same_inputs_give_the_same_bits():
    tensors = inputs(8, 3, 11, 1, 16, "vector", True)

    def run():
        entries = triton_pool.pool(*tensors, 1, 16, 0)
        return [entries, *torch.autograd.grad(entries.square().sum(), tensors)]

    assert all(torch.equal(once, again) for once, again in zip(run(), run(), strict=True))


@pytest.mark.parametrize(("gate", "lead"), [("scalar", 0), ("vector", 2)])
def test_the_definition_passes_gradcheck(gate, lead):
    product, bias = (x.detach().double().requires_grad_() for x in inputs(4, 1, 2, 2, 3, gate, True))
    assert torch.autograd.gradcheck(lambda *x: pooling.pool(*x, 2, 3, lead), (product, bias))
