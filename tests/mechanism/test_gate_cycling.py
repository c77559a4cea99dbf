"""Cycling moves the gates and nothing else, and comes back to the bit."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import TABLE, build

from weakspots.errors import UserError
from weakspots.lookup import score as lookup
from weakspots.mechanism import gate_cycling
from weakspots.mechanism.gate_statistics import gate_statistics
from weakspots.model_table import model_row

CYCLED = [name for name, row in TABLE.items() if not row.why_not_cycled()]


def bits(model) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in model.state_dict().items()}


def same(one, other) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("name", CYCLED)
def test_the_gates_move_and_every_other_weight_stays(name):
    model, row = build(TABLE[name]), TABLE[name]
    before = bits(model)
    with gate_cycling.cycled(model, 3) as same_model:
        assert same_model is model
        inside = bits(model)
    for weight in before:
        if weight.endswith(("compressor.gate", "compressor.gate_bias")):
            for offset in range(row.window):
                assert torch.equal(inside[weight][offset], before[weight][(offset - 3) % row.window])
            assert not torch.equal(inside[weight], before[weight])
        else:
            assert torch.equal(inside[weight], before[weight])
    assert sum(weight.endswith("compressor.gate") for weight in before) == 2
    assert same(before, bits(model))


@given(shift=st.integers(-30, 30))
@settings(max_examples=15, deadline=None)
def test_there_and_back_and_once_around_change_no_bit(shift):
    model = build(TABLE["w8s8-2kv"])
    before = bits(model)
    with gate_cycling.cycled(model, shift):
        with gate_cycling.cycled(model, -shift):
            assert same(before, bits(model))
        with gate_cycling.cycled(model, 8):
            moved = bits(model)
        assert same(moved, bits(model)) and same(before, moved) == (shift % 8 == 0)
    with gate_cycling.cycled(model, 8):
        assert same(before, bits(model))
    assert same(before, bits(model))


def test_the_weights_come_back_when_the_block_raises_or_writes_to_them():
    model = build(TABLE["w8s8-1kv"])
    before, parameters = bits(model), dict(model.named_parameters())
    with pytest.raises(KeyError), gate_cycling.cycled(model, 1):
        model.layers[0].attention.compressor.gate.data.zero_()
        raise KeyError
    assert same(before, bits(model))
    assert all(parameter is parameters[name] for name, parameter in model.named_parameters())
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_it_works_without_gradients_too():
    model = build(TABLE["w8s8-1kv"])
    before = bits(model)
    with torch.inference_mode(), gate_cycling.cycled(model, 1):
        model(torch.arange(20)[None])
    assert same(before, bits(model))
    model(torch.arange(20)[None], labels=torch.arange(20)[None]).loss.backward()


@pytest.mark.parametrize("shift", [-3, -1, 2])
@pytest.mark.parametrize(
    "row", [model_row(window=4, stride=4, kv_heads=2), model_row(gate="vector"), model_row(tied=True)]
)
def test_a_cycled_entry_has_the_gates_of_other_offsets_and_its_own_payloads(row, shift):
    model = build(row)
    part, hidden = model.layers[1].attention.compressor, torch.randn(1, 3 * row.window, 32)
    width, channels = row.gate_scores(part.head_width), part.head_width
    with torch.no_grad(), gate_cycling.cycled(model, shift):
        found = part(hidden)
    for branch in range(row.branches):
        for head in range(row.kv_heads):
            first = branch * row.kv_heads + head
            gate, payload = (slice(first * size, (first + 1) * size) for size in (width, channels))
            for entry, window in enumerate(hidden[0].split(row.window)):
                source = [(i - shift) % row.window for i in range(row.window)]
                logits = torch.stack(
                    [h @ part.gate[i][:, gate] + part.gate_bias[i, gate] for h, i in zip(window, source, strict=True)]
                )
                payloads = torch.stack([h @ part.payload[i][:, payload] for i, h in enumerate(window)])
                expected = (logits.softmax(0) * payloads).sum(0)
                torch.testing.assert_close(found[branch][0, head, entry], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shift", [-2, 1, 3])
def test_a_static_preference_moves_by_the_shift(shift):
    model = build(TABLE["w8s8-1kv"])
    for layer in model.layers:
        layer.attention.compressor.gate_bias.data[2] += 20
    tokens = torch.randint(61, (2, 40), generator=torch.Generator().manual_seed(1))
    with gate_cycling.cycled(model, shift):
        table = gate_statistics(model, tokens)
    peaks = table.loc[table.groupby(["layer", "head", "branch"])["score"].idxmax(), "offset"]
    assert set(peaks) == {(2 + shift) % 8}


def test_a_model_whose_offsets_share_one_gate_does_not_notice():
    model, tokens = build(TABLE["w8s8-1kv"]), torch.arange(40)[None]
    different = model(tokens).logits
    with torch.no_grad(), gate_cycling.cycled(model, 2):
        assert not torch.allclose(model(tokens).logits, different)
        for layer in model.layers:
            part = layer.attention.compressor
            part.gate.copy_(part.gate[:1].expand_as(part.gate))
            part.gate_bias.zero_()
        alike = model(tokens).logits
        with gate_cycling.cycled(model, 3):
            torch.testing.assert_close(model(tokens).logits, alike, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("w8s4-1kv", r"W8/S4 · 1 KV cannot be cycled: its windows overlap \(W = 8, S = 4\)"),
        ("w8s4-1kv-deepseek", "W8/S4 · 1 KV · DeepSeek-style kernel cannot be cycled: its windows overlap"),
        ("w8s8-1kv-uniform", "W8/S8 · 1 KV · uniform averaging cannot be cycled: it learns no gate"),
        ("full-1kv", "Full attention · 1 KV cannot be cycled: full attention has no gates"),
    ],
)
def test_models_that_cannot_be_cycled_are_refused_with_the_reason(name, reason):
    model = build(TABLE[name])
    before = bits(model)
    with (
        pytest.raises(UserError, match=reason + ".*choose a row with window = stride and a learned gate"),
        gate_cycling.cycled(model, 1),
    ):
        pytest.fail("the block must not run")
    assert same(before, bits(model))


def test_every_prompt_is_asked_at_every_shift_and_the_model_stays_as_it_was(asked):
    model, tokenizer, prompts = asked
    before = bits(model)
    table = gate_cycling.score(model, tokenizer, prompts, [-1, 2], batch=7)
    assert table.groupby("shift").size().to_dict() == {-1: len(prompts), 2: len(prompts)}
    for shift, part in table.groupby("shift"):
        with gate_cycling.cycled(model, shift):
            expected = lookup.score(model, tokenizer, prompts, batch=64)
        for column in ("mapping", "position", "correct"):
            assert (part[column].to_numpy() == expected[column].to_numpy()).all()
    assert same(before, bits(model))
