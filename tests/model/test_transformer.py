"""The decoder: Qwen3's arithmetic, causality, decoding with the compressed cache, saving and loading."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import BACKBONE, OVERLAPPING_TAIL, TABLE, VOCABULARY, build
from transformers import AutoModelForCausalLM, DynamicCache, Qwen3Config, Qwen3ForCausalLM

from weakspots.model_table import model_row

EVERY_ROW = pytest.mark.parametrize(
    "row", [*TABLE.values(), OVERLAPPING_TAIL], ids=[*TABLE, "w8s6-2kv-tail (not of the paper)"]
)


def text(length, batch=2, seed=0):
    return torch.randint(0, VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kv_heads", [1, 4, 8])
def test_full_attention_equals_transformers_qwen3_with_the_same_weights(kv_heads):
    ours = build(model_row(compressor="none", kv_heads=kv_heads))
    theirs = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=BACKBONE.width,
            intermediate_size=BACKBONE.mlp_width,
            num_hidden_layers=BACKBONE.layers,
            num_attention_heads=BACKBONE.query_heads,
            num_key_value_heads=kv_heads,
            head_dim=BACKBONE.head_width,
            rope_parameters={"rope_type": "default", "rope_theta": BACKBONE.rope_base},
            rms_norm_eps=BACKBONE.norm_epsilon,
            tie_word_embeddings=True,
        )
    ).eval()
    heads = BACKBONE.query_heads * BACKBONE.head_width, kv_heads * BACKBONE.head_width, kv_heads * BACKBONE.head_width
    with torch.no_grad():
        theirs.model.embed_tokens.weight.copy_(ours.embed.weight)
        theirs.model.norm.weight.copy_(ours.norm.weight)
        for mine, other in zip(ours.layers, theirs.model.layers, strict=True):
            attention = other.self_attn
            for projection, weight in zip(
                (attention.q_proj, attention.k_proj, attention.v_proj),
                mine.attention.qkv.weight.split(heads),
                strict=True,
            ):
                projection.weight.copy_(weight)
            attention.o_proj.weight.copy_(mine.attention.out.weight)
            attention.q_norm.weight.copy_(mine.attention.query_norm)
            attention.k_norm.weight.copy_(mine.attention.key_norm)
            other.input_layernorm.weight.copy_(mine.attention_norm.weight)
            other.post_attention_layernorm.weight.copy_(mine.mlp_norm.weight)
            for projection, weight in zip(
                (other.mlp.gate_proj, other.mlp.up_proj), mine.mlp.gate_up.weight.chunk(2), strict=True
            ):
                projection.weight.copy_(weight)
            other.mlp.down_proj.weight.copy_(mine.mlp.down.weight)
        inputs = text(53)
        torch.testing.assert_close(ours(inputs).logits, theirs(inputs).logits, atol=1e-5, rtol=1e-5)


@EVERY_ROW
@settings(max_examples=5, deadline=None)
@given(length=st.integers(2, 61), data=st.data())
def test_a_token_never_influences_an_earlier_logit(row, length, data):
    changed = data.draw(st.integers(0, length - 1))
    model, inputs = build(row), text(length, batch=1)
    other = inputs.clone()
    other[0, changed] = (other[0, changed] + 1) % VOCABULARY
    with torch.no_grad():
        before, after = model(inputs).logits, model(other).logits
    torch.testing.assert_close(before[:, :changed], after[:, :changed], atol=1e-6, rtol=0)
    assert not torch.allclose(before[:, changed], after[:, changed], atol=1e-4)


@EVERY_ROW
def test_a_token_reaches_the_last_logit_through_the_compressed_memory(row):
    """Far behind the local window, only an entry (or full attention) can carry it."""
    model, inputs = build(row), text(64, batch=1)
    other = inputs.clone()
    other[0, 3] = (other[0, 3] + 1) % VOCABULARY
    with torch.no_grad():
        assert not torch.equal(model(inputs).logits[0, -1], model(other).logits[0, -1])


@EVERY_ROW
def test_decoding_with_the_cache_equals_the_full_forward_at_every_position(row):
    model, inputs = build(row), text(47)
    with torch.no_grad():
        expected = model(inputs).logits
        for chunks in ([1] * 47, [7, 1, 1, 13, 1, 9, 15], [30, 17]):
            cache, parts, start = None, [], 0
            for size in chunks:
                output = model(inputs[:, start : start + size], cache=cache, use_cache=True)
                cache, start = output.cache, start + size
                parts.append(output.logits)
            torch.testing.assert_close(torch.cat(parts, dim=1), expected, atol=2e-5, rtol=1e-4)


@EVERY_ROW
def test_the_cache_holds_about_one_entry_per_stride_and_a_constant(row):
    model, length = build(row), 96
    with torch.no_grad():
        layer = model(text(length), use_cache=True).cache.layers[0]
    if not row.compressed:
        assert layer.keys.shape[2] == length
        return
    assert layer.keys.shape == (2, row.kv_heads, row.geometry(0).entry_count(length), BACKBONE.head_width)
    assert abs(layer.keys.shape[2] - length / row.stride) <= row.window / row.stride
    assert layer.local_keys.shape[2] <= (row.local_window if row.local == "sliding" else row.window)
    assert layer.open_hidden.shape[1] < row.window


@EVERY_ROW
@pytest.mark.parametrize("chunks", [[96], [60, 35, 1]])
def test_one_texts_cache_holds_no_more_memory_than_its_shapes_say(row, chunks):
    model, cache = build(row), None
    with torch.no_grad():
        for chunk in chunks:
            cache = model(text(chunk, batch=1), cache=cache, use_cache=True).cache
    for layer in cache.layers:
        held = [x for x in vars(layer).values() if isinstance(x, torch.Tensor)]
        memory = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in held}
        assert sum(memory.values()) <= sum(x.numel() * x.element_size() for x in held)


@EVERY_ROW
@pytest.mark.parametrize("kept", [1, 3])
def test_keeping_the_last_logits_only_does_not_change_them(row, kept):
    model, inputs = build(row), text(45)
    with torch.no_grad():
        expected = model(inputs).logits[:, -kept:]
        torch.testing.assert_close(model(inputs, logits_to_keep=kept).logits, expected, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(
            model(inputs, logits_to_keep=kept, use_cache=True).logits, expected, atol=1e-5, rtol=1e-4
        )


GENERATING = pytest.mark.parametrize("name", ["full-1kv", "w8s8-1kv", "w8s4-1kv-deepseek", "w8s8-8kv-tail"])


@GENERATING
def test_generate_continues_a_text_as_repeated_full_forwards_do(name):
    model, inputs = build(TABLE[name]), text(21, batch=1)
    generated = model.generate(inputs, max_new_tokens=20, do_sample=False)
    expected = inputs
    with torch.no_grad():
        for _ in range(20):
            expected = torch.cat([expected, model(expected).logits[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(generated, expected)


@GENERATING
def test_generate_reads_one_token_at_a_time_from_a_compressed_cache(name, monkeypatch):
    model, inputs, row = build(TABLE[name]), text(21, batch=1), TABLE[name]
    lengths, forward = [], model.forward
    monkeypatch.setattr(
        model, "forward", lambda input_ids, **rest: lengths.append(input_ids.shape[1]) or forward(input_ids, **rest)
    )
    result = model.generate(inputs, max_new_tokens=20, do_sample=False, return_dict_in_generate=True)
    assert lengths == [21] + 19 * [1]
    held = {layer.keys.shape[2] for layer in result.cache.layers}
    assert held == {row.geometry(0).entry_count(40) if row.compressed else 40}


@GENERATING
def test_beam_search_finds_what_an_uncached_beam_search_finds(name):
    model, inputs = build(TABLE[name]), text(21, batch=2)
    settings = {"max_new_tokens": 12, "num_beams": 3, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    cached = model.generate(inputs, attention_mask=torch.ones_like(inputs), use_cache=True, **settings)
    uncached = model.generate(inputs, attention_mask=torch.ones_like(inputs), use_cache=False, **settings)
    assert torch.equal(cached, uncached)


def test_an_argument_or_a_cache_that_the_model_would_ignore_is_refused():
    model, inputs = build(TABLE["w8s8-1kv"]), text(21, batch=1)
    for name, value in {"position_ids": torch.arange(21)[None], "output_hidden_states": True}.items():
        with pytest.raises(TypeError, match=name):
            model(inputs, **{name: value})
    with pytest.raises(TypeError, match="exact keys"):
        model(inputs, cache=DynamicCache())
    with torch.no_grad():
        model(inputs, position_ids=None, output_attentions=False)
        first = model(inputs, use_cache=True).cache
        old_name = model(inputs[:, :1], past_key_values=first).logits
        torch.testing.assert_close(old_name, model(torch.cat([inputs, inputs[:, :1]], 1)).logits[:, -1:])


@EVERY_ROW
def test_a_saved_model_loads_with_the_auto_class_to_the_same_logits(row, tmp_path):
    model, inputs = build(row), text(33)
    model.save_pretrained(tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} <= {".json", ".safetensors"}
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert loaded.config.model_row() == row
    with torch.no_grad():
        assert torch.equal(loaded(inputs).logits, model(inputs).logits)


def test_the_loss_is_the_cross_entropy_of_the_labelled_next_tokens():
    model, inputs = build(TABLE["w8s8-1kv"]), text(40)
    labels = inputs.masked_fill(torch.arange(40) % 3 != 0, -100)
    with torch.no_grad():
        logits = model(inputs).logits
        expected = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        torch.testing.assert_close(model(inputs, labels=labels).loss, expected)


@EVERY_ROW
def test_computing_only_what_is_learnt_gives_the_gradients_of_the_whole(row):
    model, inputs = build(row), text(45)
    labels = inputs.masked_fill(torch.rand(2, 45, generator=torch.Generator().manual_seed(1)) < 0.7, -100)
    parameters = dict(model.named_parameters())
    whole = torch.nn.functional.cross_entropy(model(inputs).logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
    expected = torch.autograd.grad(whole, list(parameters.values()))
    found = torch.autograd.grad(model(inputs, labels=labels).loss, list(parameters.values()))
    for name, ours, theirs in zip(parameters, found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-3, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("name", ["full-4kv", "w8s8-1kv", "w8s4-1kv-deepseek"])
@pytest.mark.parametrize("length", [45, 700])
def test_bfloat16_products_stay_close_to_float32(name, length):
    model, inputs = build(TABLE[name]), text(length)
    exact = model(inputs, labels=inputs).loss
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model(inputs, labels=inputs).loss
    rounded.backward()
    torch.testing.assert_close(rounded, exact, rtol=0.02, atol=0)
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())
