"""Layers may have windows of their own: the network, its cache, its knockouts and its plan follow each layer's."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from rows import BACKBONE, VOCABULARY

from weakspots import compressors
from weakspots.attention.memory import Memory
from weakspots.compressors.gated import Gated
from weakspots.mechanism.all_knockouts import final_states, knockouts
from weakspots.mechanism.gate_statistics import gate_statistics
from weakspots.mechanism.knockout import knocked_out, mean_outputs
from weakspots.model.configuration import WeakSpotsConfig
from weakspots.model.transformer import WeakSpotsForCausalLM
from weakspots.planning import counts

MEMORIES = [Memory(8, 8, 0, "sliding", 5), Memory(6, 4, 2, "sliding", 16), Memory(12, 12, 7, "tail", 16)]


class ByLayer(Gated):
    """Windows, strides, leads and exact tokens that differ from layer to layer."""

    def geometry(self, layer: int) -> Memory:
        return MEMORIES[layer]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> WeakSpotsForCausalLM:
    monkeypatch.setattr(compressors, "find", lambda name: ByLayer)
    torch.manual_seed(0)
    shape = WeakSpotsConfig.of(ByLayer(kv_heads=2), BACKBONE.model_copy(update={"layers": 3}), VOCABULARY)
    model = WeakSpotsForCausalLM(shape).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@pytest.fixture
def tokens() -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (2, 43), generator=torch.Generator().manual_seed(1))


def test_every_layer_has_the_weights_and_windows_of_its_own_geometry(model):
    for layer, memory in zip(model.layers, MEMORIES, strict=True):
        assert layer.attention.memory == memory
        assert layer.attention.compressor.payload.shape[0] == memory.window


@torch.inference_mode()
def test_a_token_never_influences_an_earlier_logit(model, tokens):
    changed = tokens.clone()
    changed[:, 29] = (changed[:, 29] + 1) % VOCABULARY
    before, after = model(tokens).logits, model(changed).logits
    assert torch.equal(before[:, :29], after[:, :29]) and not torch.equal(before[:, 29:], after[:, 29:])


@pytest.mark.parametrize("piece", [1, 5, 17])
@torch.inference_mode()
def test_decoding_with_the_cache_equals_the_whole_text(model, tokens, piece):
    cache = model.new_cache()
    pieces = [model(part, cache=cache).logits for part in tokens.split(piece, dim=1)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), model(tokens).logits, atol=1e-5, rtol=1e-5)
    assert [layer.keys.shape[2] for layer in cache.layers] == [memory.entry_count(43) for memory in MEMORIES]


@pytest.mark.parametrize("length", range(32, 44))
@torch.inference_mode()
def test_all_knockouts_equal_the_hook_on_the_whole_prompt(model, tokens, length):
    text = tokens[:, :length]
    means = mean_outputs(model, text)
    swept = model.lm_head(final_states(model, text, means))
    for number, (layer, head) in enumerate(knockouts(model), 1):
        with knocked_out(model, layer, head, means):
            torch.testing.assert_close(swept[:, number], model(text).logits[:, -1], atol=1e-5, rtol=1e-5)


def test_gate_statistics_have_the_offsets_of_each_layer(model, tokens):
    table = gate_statistics(model, tokens)
    assert table.groupby("layer")["offset"].max().tolist() == [memory.window - 1 for memory in MEMORIES]
    scores = table.groupby(["layer", "head", "branch"])["score"].sum()
    assert scores.to_numpy() == pytest.approx(1, abs=1e-5)


def test_the_plan_counts_what_each_layer_learns_and_sees(model):
    row, backbone = ByLayer(kv_heads=2), BACKBONE.model_copy(update={"layers": 3})
    parts = counts.parameters_by_part(row, backbone, VOCABULARY)
    assert sum(parts.values()) == sum(parameter.numel() for parameter in model.parameters())
    same = [counts.keys_seen([replace(memory)], 43) for memory in MEMORIES]
    assert counts.keys_seen(counts.memories(row, backbone), 43) == pytest.approx(sum(same) / 3)
