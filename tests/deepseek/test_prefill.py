"""Reading a prompt in chunks gives what one pass over it gives."""

import pytest
import torch
from rows import TABLE, build
from toys import MODELS, mixed, texts

from weakspots.serving.prefill import continued_logits, next_token_logits, prefill


def in_one_pass(model, tokens):
    """Logits `[B, V]` after the last token of one pass over everything."""
    with torch.no_grad():
        return model(input_ids=tokens, use_cache=False).logits[:, -1]


@pytest.mark.parametrize("chunk", [1, 4, 11, 52, 53, 200])
@pytest.mark.parametrize("name", MODELS)
def test_chunks_of_any_size_give_the_logits_of_one_pass(name, chunk):
    model, tokens = MODELS[name](), texts(3, 53)
    expected = in_one_pass(model, tokens)
    assert expected.std() > 0.3  # there is something to get wrong
    torch.testing.assert_close(next_token_logits(model, tokens, chunk), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("row", ["w8s6-1kv", "full-4kv"])
def test_the_projects_own_models_are_read_in_chunks_too(row):
    model, tokens = build(TABLE[row]), texts(2, 41)
    torch.testing.assert_close(next_token_logits(model, tokens, 9), in_one_pass(model, tokens), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("length", [1, 2, 12, 37])
def test_every_length_is_read_whether_or_not_it_fills_its_chunks_and_windows(length):
    model, tokens = mixed(), texts(2, length)
    torch.testing.assert_close(next_token_logits(model, tokens, 12), in_one_pass(model, tokens), rtol=1e-5, atol=1e-5)


def test_a_prompt_goes_on_where_its_cache_ends():
    model, tokens = mixed(), texts(2, 40)
    cache = prefill(model, tokens[:, :31], 8)
    expected = in_one_pass(model, tokens)
    torch.testing.assert_close(continued_logits(model, tokens[:, 31:], cache), expected, rtol=1e-5, atol=1e-5)
    assert prefill(model, tokens[:, :0], 8) is None


def test_no_pass_is_longer_than_a_chunk_and_none_asks_for_more_than_one_position():
    model, seen = mixed(), []
    hook = model.register_forward_pre_hook(
        lambda _module, _inputs, named: seen.append((named["input_ids"].shape[1], named["logits_to_keep"])),
        with_kwargs=True,
    )
    next_token_logits(model, texts(1, 70), 16)
    hook.remove()
    assert seen == [(16, 1)] * 4 + [(6, 1)]


def test_the_cache_of_a_compressed_layer_holds_its_window_and_one_entry_per_stride():
    cache = prefill(mixed(), texts(1, 50), 16)
    sliding, sparse, heavy, _ = cache.layers
    assert {layer.keys.shape[2] for layer in cache.layers} == {7 - 1}
    assert sparse.compressed_kv["compressor"].shape[1] == 50 // 3
    assert heavy.compressed_kv["compressor"].shape[1] == 50 // 5
    assert not hasattr(sliding, "compressed_kv")
