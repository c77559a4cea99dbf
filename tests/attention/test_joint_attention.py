"""The blocked kernel computes what the definition says, forward and backward."""

from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from weakspots.attention import blocked, naive
from weakspots.attention.memory import Memory


def tensors(memory, length, heads, kv_heads, width, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    entries = memory.entry_count(length)
    shapes = [(heads, length), (kv_heads, length), (kv_heads, length), (kv_heads, entries), (kv_heads, entries)]
    return [torch.randn(2, *shape, width, dtype=dtype, generator=generator, requires_grad=True) for shape in shapes]


def definition(memory, queries, *rest):
    positions = torch.arange(queries.shape[2])
    return naive.attend(queries, positions, rest[0], rest[1], positions, rest[2], rest[3], memory)


@settings(max_examples=40, deadline=None)
@given(
    stride=st.integers(1, 13),
    overlap=st.integers(0, 9),
    lead=st.booleans(),
    local=st.sampled_from(["sliding", "tail"]),
    local_window=st.integers(1, 20),
    length=st.integers(1, 75),
    kv_heads=st.sampled_from([1, 2, 4]),
    few=st.sampled_from([0, 64]),
)
def test_equals_the_definition_in_output_and_every_gradient(
    stride, overlap, lead, local, local_window, length, kv_heads, few
):
    memory = Memory(stride + overlap, stride, overlap if lead else 0, local, local_window)
    inputs = tensors(memory, length, heads=4, kv_heads=kv_heads, width=8, dtype=torch.float64)
    expected = definition(memory, *inputs)
    with mock.patch.object(blocked, "_FEW", few):  # two passes, or one
        found = blocked.attend(*inputs, memory)
    torch.testing.assert_close(found, expected, atol=1e-10, rtol=1e-8)
    upstream = torch.randn_like(expected)
    used = inputs if memory.entry_count(length) else inputs[:3]
    for ours, theirs in zip(
        torch.autograd.grad(found, used, upstream), torch.autograd.grad(expected, used, upstream), strict=True
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize("length", [101, 701])
@pytest.mark.parametrize("width", [16, 32, 64, 128])
def test_float32_is_as_exact_as_float32_can_be(width, length):
    memory = Memory(8, 8, 0, "sliding", 16)
    inputs = tensors(memory, length, heads=4, kv_heads=2, width=width, dtype=torch.float32)
    torch.testing.assert_close(blocked.attend(*inputs, memory), definition(memory, *inputs), atol=1e-5, rtol=1e-4)


def test_the_definition_passes_gradcheck():
    memory = Memory(4, 3, 0, "tail", 1)
    inputs = tensors(memory, 11, heads=2, kv_heads=1, width=4, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda *x: definition(memory, *x), inputs)


@pytest.mark.parametrize(("window", "stride", "lead"), [(8, 8, 0), (8, 4, 0), (8, 6, 0), (12, 12, 0), (8, 4, 4)])
def test_an_entry_is_visible_from_the_last_token_of_its_window_on(window, stride, lead):
    memory = Memory(window, stride, lead, "sliding", 16)
    seen = memory.entries_seen(torch.arange(60)).tolist()
    for query, count in enumerate(seen):
        closed = [j for j in range(60) if j * stride - lead + window - 1 <= query]
        assert count == len(closed) == memory.entry_count(query + 1)


@pytest.mark.parametrize(("window", "stride"), [(8, 8), (8, 6), (4, 4)])
def test_the_tail_is_exactly_what_no_closed_window_holds(window, stride):
    memory = Memory(window, stride, 0, "tail", 16)
    for query in range(40):
        closed = {j * stride + i for j in range(40) for i in range(window) if j * stride + window - 1 <= query}
        visible = memory.local_visible(torch.tensor(query), torch.arange(40)).nonzero().flatten().tolist()
        assert visible == [token for token in range(query + 1) if token not in closed]
