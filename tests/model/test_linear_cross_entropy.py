"""The loss of a linear layer, computed in chunks, is torch's."""

import pytest
import torch
import torch.nn.functional as F
from rows import TABLE, VOCABULARY, build

from weakspots.model import linear_cross_entropy as module
from weakspots.model.linear_cross_entropy import linear_cross_entropy


@pytest.fixture
def chunks_of_three(monkeypatch):
    """Logits of three tokens at a time."""
    monkeypatch.setattr(module, "BUDGET", 3 * 4 * VOCABULARY)


def inputs(tokens=20, kind=torch.float32):
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(tokens, 16, generator=generator).to(kind).requires_grad_()
    weight = torch.randn(VOCABULARY, 16, generator=generator).to(kind).requires_grad_()
    return hidden, weight, torch.randint(0, VOCABULARY, (tokens,), generator=generator)


def plain(hidden, weight, targets):
    return F.cross_entropy(F.linear(hidden, weight).float(), targets)


@pytest.mark.parametrize("tokens", [4, 20, 21])
@pytest.mark.parametrize("factor", [1.0, 1 / 8])
def test_loss_and_gradients_equal_torchs_also_of_a_scaled_loss(tokens, factor, chunks_of_three):
    hidden, weight, targets = inputs(tokens)
    found, expected = linear_cross_entropy(hidden, weight, targets), plain(hidden, weight, targets)
    torch.testing.assert_close(found, expected)
    ours = torch.autograd.grad(found * factor, (hidden, weight))
    theirs = torch.autograd.grad(expected * factor, (hidden, weight))
    for a, b in zip(ours, theirs, strict=True):
        assert (a - b).norm() < 1e-6 * b.norm()


def test_it_passes_gradcheck(chunks_of_three):
    hidden, weight, targets = inputs(7, torch.float64)
    assert torch.autograd.gradcheck(lambda *x: linear_cross_entropy(*x, targets), (hidden, weight))


def test_large_logits_overflow_nothing(chunks_of_three):
    hidden, weight, targets = (x * 1e3 if x.is_floating_point() else x for x in inputs())
    torch.testing.assert_close(linear_cross_entropy(hidden, weight, targets), plain(hidden, weight, targets))


def test_bfloat16_products_and_autocast_have_float32_losses(chunks_of_three):
    hidden, weight, targets = inputs()
    exact = torch.autograd.grad(plain(hidden, weight, targets), (hidden, weight))
    with torch.autocast("cpu", torch.bfloat16):
        loss = linear_cross_entropy(hidden, weight, targets)
        torch.testing.assert_close(loss, plain(hidden, weight, targets), atol=1e-5, rtol=1e-5)
    assert loss.dtype == torch.float32
    for gradient, expected in zip(torch.autograd.grad(loss, (hidden, weight)), exact, strict=True):
        assert gradient.dtype == torch.float32
        assert (gradient - expected).norm() < 0.01 * expected.norm()
    low = [x.detach().bfloat16().requires_grad_() for x in (hidden, weight)]
    loss = linear_cross_entropy(*low, targets)
    assert loss.dtype == torch.float32
    assert [x.dtype for x in torch.autograd.grad(loss, low)] == [torch.bfloat16] * 2


def test_no_more_logits_exist_than_the_budget_holds(chunks_of_three):
    sizes = []

    class Sizes(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, operation, types, arguments=(), options=None):
            result = operation(*arguments, **(options or {}))
            if torch.is_tensor(result) and result.dim() == 2 and result.shape[1] == VOCABULARY:
                sizes.append(result.shape[0])
            return result

    hidden, weight, targets = inputs()
    with Sizes():
        linear_cross_entropy(hidden, weight, targets).backward()
    assert 3 in sizes and max(size for size in sizes if size != 16) == 3  # 16: the weight, transposed


def test_without_gradients_none_are_computed(chunks_of_three):
    hidden, weight, targets = inputs()
    with torch.no_grad():
        loss = linear_cross_entropy(hidden, weight, targets)
    assert not loss.requires_grad
    torch.testing.assert_close(loss, plain(hidden, weight, targets))
    weight = weight.detach()
    found, expected = linear_cross_entropy(hidden, weight, targets), plain(hidden, weight, targets)
    torch.testing.assert_close(torch.autograd.grad(found, hidden), torch.autograd.grad(expected, hidden))


def test_small_logits_go_the_usual_way_to_the_bit():
    hidden, weight, targets = inputs()
    found, expected = linear_cross_entropy(hidden, weight, targets), plain(hidden, weight, targets)
    assert torch.equal(found, expected)
    ours, theirs = (torch.autograd.grad(loss, (hidden, weight)) for loss in (found, expected))
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("name", ["full-1kv", "w8s8-1kv"])
def test_a_tied_model_has_the_same_loss_and_gradients_in_chunks(name, monkeypatch):
    model, tokens = build(TABLE[name]), torch.randint(0, VOCABULARY, (2, 45))
    assert model.lm_head.weight is model.embed.weight

    def run():
        loss = model(tokens, labels=tokens.masked_fill(tokens % 3 == 0, -100)).loss
        return [loss, *torch.autograd.grad(loss, list(model.parameters()))]

    expected = run()
    monkeypatch.setattr(module, "BUDGET", 5 * 4 * VOCABULARY)
    for ours, theirs in zip(run(), expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("name", ["full-1kv", "w8s8-1kv", "w8s8-1kv-tail"])
def test_a_text_without_labels_has_loss_zero_and_zero_gradients(name):
    model, tokens = build(TABLE[name]), torch.randint(0, VOCABULARY, (2, 45))
    loss = model(tokens, labels=torch.full_like(tokens, -100)).loss
    assert loss.item() == 0
    loss.backward()
    assert all(parameter.grad is None or not parameter.grad.any() for parameter in model.parameters())
    assert not model.embed.weight.grad.any()
