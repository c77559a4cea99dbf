"""The kernel of the joint attention computes what the definition says, forward and backward."""

import pytest
import torch
from kernels import DEVICE, TYPES, agree, poison

from weakspots.attention import naive, triton_attend
from weakspots.attention.memory import Memory

SLIDING, TAIL = ("sliding", 16), ("tail", 16)


@pytest.fixture(autouse=True)
def poisoned(monkeypatch):
    poison(monkeypatch)


@pytest.fixture
def small_blocks(monkeypatch):
    """Short texts then have several blocks of every kind, and split rows."""
    monkeypatch.setattr(triton_attend, "TILE", {2: 16, 4: 16})


def inputs(memory, length, heads, kv_heads, width, kind=torch.float32, batch=1):
    torch.manual_seed(0)
    entries = memory.entry_count(length)
    shapes = [(heads, length), (kv_heads, length), (kv_heads, length), (kv_heads, entries), (kv_heads, entries)]
    return [torch.randn(batch, *shape, width).to(DEVICE, kind).requires_grad_() for shape in shapes]


def definition(memory, queries, *rest):
    positions = torch.arange(queries.shape[2], device=queries.device)
    return naive.attend(queries, positions, rest[0], rest[1], positions, rest[2], rest[3], memory)


def both(memory, tensors):
    """Outputs and the gradients of all five tensors, by the kernel and by the definition in float64."""
    out = triton_attend.attend(*tensors, memory)
    upstream = torch.randn(out.shape, device=DEVICE).to(out.dtype)
    exact = [x.detach().double().requires_grad_() for x in tensors]
    expected = definition(memory, *exact)
    gradients = torch.autograd.grad(expected, exact, upstream.double(), materialize_grads=True)
    return [out, *torch.autograd.grad(out, tensors, upstream)], [expected, *gradients]


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize(
    ("window", "stride", "lead", "local", "length", "heads", "kv_heads", "width"),
    [
        (8, 8, 0, SLIDING, 77, 4, 1, 16),
        (8, 8, 0, SLIDING, 5, 2, 1, 16),  # T < W: no entry at all
        (8, 8, 0, SLIDING, 8, 2, 2, 16),  # one entry, seen by the last query only
        (8, 6, 0, SLIDING, 61, 4, 2, 64),
        (8, 4, 4, SLIDING, 45, 8, 4, 32),
        (12, 12, 0, SLIDING, 83, 3, 1, 24),
        (4, 4, 0, ("sliding", 1), 37, 2, 1, 16),
        (8, 8, 0, ("sliding", 200), 51, 2, 1, 16),
        (8, 8, 0, TAIL, 77, 4, 2, 128),
        (8, 6, 0, TAIL, 61, 4, 1, 16),
        (12, 12, 0, TAIL, 83, 2, 1, 32),
        (13, 3, 0, TAIL, 41, 2, 1, 16),
        (1, 1, 0, TAIL, 19, 2, 1, 16),  # every token is in an entry, none is seen exactly
        (8, 8, 0, SLIDING, 1, 2, 1, 8),
    ],
)
def test_outputs_and_every_gradient_are_the_definitions(
    window, stride, lead, local, length, heads, kv_heads, width, kind
):
    memory = Memory(window, stride, lead, *local)
    found, expected = both(memory, inputs(memory, length, heads, kv_heads, width, kind))
    agree(found, expected, kind)


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize(
    ("memory", "length", "heads", "kv_heads"),
    [
        (Memory(4, 4, 0, "sliding", 16), 75, 2, 1),
        (Memory(8, 3, 0, "tail", 16), 55, 3, 1),
        (Memory(2, 2, 0, "sliding", 40), 47, 2, 2),
    ],
)
def test_blocks_fit_together(memory, length, heads, kv_heads, kind, small_blocks):
    found, expected = both(memory, inputs(memory, length, heads, kv_heads, 16, kind, batch=2))
    agree(found, expected, kind)


@pytest.mark.parametrize("programs", [1, 512])
def test_rows_in_parts_give_the_gradients_of_the_whole(programs, small_blocks, monkeypatch):
    monkeypatch.setattr(triton_attend, "PROGRAMS", programs)
    launched, program = [], triton_attend.kernels.backward_keys

    class Recorded:
        def __getitem__(self, grid):
            launched.append(grid)
            return program[grid]

    monkeypatch.setattr(triton_attend.kernels, "backward_keys", Recorded())
    memory = Memory(4, 4, 0, "sliding", 8)
    found, expected = both(memory, inputs(memory, 61, 2, 1, 16))
    agree(found, expected, torch.float32)
    assert max(grid[2] for grid in launched) == (1 if programs == 1 else 2)


def test_large_scores_give_a_hard_choice_and_no_nan():
    memory = Memory(8, 8, 0, "sliding", 16)
    tensors = inputs(memory, 45, 2, 1, 16)
    with torch.no_grad():
        tensors[0] *= 100
    found, expected = both(memory, tensors)
    agree(found[:1], expected[:1], torch.float32)
    assert all(torch.isfinite(gradient).all() for gradient in found)


def test_any_layout_is_read_where_it_lies():
    """As the model has them: heads of one projection side by side, transposed; gradients expanded."""
    memory = Memory(8, 8, 0, "sliding", 16)
    torch.manual_seed(0)
    heads = torch.randn(2, 45, 6, 16, device=DEVICE, requires_grad=True)
    entries = torch.randn(2, 5, 2, 2, 16, device=DEVICE, requires_grad=True)

    def run(attend):
        query, key, value = heads.transpose(1, 2).split([2, 2, 2], dim=1)
        pooled = entries.permute(2, 0, 3, 1, 4)
        out = attend(query, key, value, *pooled)
        return [out, *torch.autograd.grad(out.sum(), (heads, entries))]

    agree(run(lambda *x: triton_attend.attend(*x, memory)), run(lambda *x: definition(memory, *x)), torch.float32)


def test_the_same_inputs_give_the_same_bits(small_blocks):
    memory = Memory(2, 2, 0, "tail", 16)
    tensors = inputs(memory, 45, 2, 1, 16)

    def run():
        out = triton_attend.attend(*tensors, memory)
        return [out, *torch.autograd.grad(out.square().sum(), tensors)]

    assert all(torch.equal(once, again) for once, again in zip(run(), run(), strict=True))


def test_a_later_token_or_an_open_window_changes_nothing_to_the_bit():
    memory = Memory(8, 8, 0, "sliding", 16)
    tensors = inputs(memory, 45, 2, 1, 16)
    with torch.no_grad():
        before = triton_attend.attend(*tensors, memory)
        for tensor in tensors[1:3]:
            tensor[:, :, 30:] = 1e3
        for tensor in tensors[3:]:
            tensor[:, :, 3:] = 1e3  # the window of entry 3 closes at token 31
        after = triton_attend.attend(*tensors, memory)
    assert torch.equal(before[:, :, :30], after[:, :, :30])
    assert not torch.equal(before[:, :, 30], after[:, :, 30])
