"""Layer knockouts: replaced where they should be and nowhere else, and the same as in passes over whole prompts."""

import numpy as np
import pytest
import torch
from rows import TABLE, build
from toys import MODELS, VOCABULARY, mixed, texts

from weakspots.deepseek import layer_knockout
from weakspots.deepseek.layer_knockout import knocked_out, mean_outputs, score
from weakspots.errors import UserError
from weakspots.files import tables

PROMPTS, CALIBRATION = texts(7, 38, seed=1).numpy().astype(np.uint32), texts(5, 38, seed=2).numpy().astype(np.uint32)
ANSWERS = np.arange(7) * 3 % VOCABULARY
MAPPING, POSITION = np.arange(7) // 2, np.arange(7) % 8


def table(model, prompts=PROMPTS, query_tokens=1, chunk=9, batch=3, calibration=CALIBRATION):
    return score(model, prompts, ANSWERS, MAPPING, POSITION, calibration, query_tokens, chunk, batch)


def whole_pass(model, prompts):
    """Log-probabilities `[N, V]` after one pass over whole prompts, without a cache."""
    with torch.no_grad():
        tokens = torch.from_numpy(prompts.astype(np.int64))
        return model(input_ids=tokens, use_cache=False).logits[:, -1].log_softmax(-1)


def naive_means(model, query_tokens):
    """Mean outputs `[L, Q, D]` at the query tokens of single, whole calibration prompts."""
    outputs = [[] for _ in model.model.layers]
    hooks = [
        layer.self_attn.register_forward_hook(lambda _m, _i, out, kept=kept: kept.append(out[0][0, -query_tokens:]))
        for layer, kept in zip(model.model.layers, outputs, strict=True)
    ]
    for prompt in CALIBRATION:
        whole_pass(model, prompt[None])
    for hook in hooks:
        hook.remove()
    return torch.stack([torch.stack(kept).mean(0) for kept in outputs])


@pytest.mark.parametrize("query_tokens", [1, 2, 5])
@pytest.mark.parametrize("name", MODELS)
def test_repeating_the_query_tokens_only_gives_what_hooks_on_whole_prompts_give(name, query_tokens):
    model = MODELS[name]()
    means = naive_means(model, query_tokens)
    found = table(model, query_tokens=query_tokens)
    clean = whole_pass(model, PROMPTS)
    differences = []
    for layer in range(-1, len(means)):
        if layer == -1:
            expected = clean
        else:
            with knocked_out(model, layer, means[layer]):
                expected = whole_pass(model, PROMPTS)
            differences.append((expected - clean).abs().max().item())
        rows = found[found["layer"] == layer]
        logprob = expected[torch.arange(7), torch.from_numpy(ANSWERS)]
        assert rows["answer_logprob"].to_numpy() == pytest.approx(logprob.numpy(), abs=2e-5)
        assert rows["correct"].tolist() == (expected.argmax(-1).numpy() == ANSWERS).tolist()
    assert min(differences) > 1e-2  # every layer matters, so a hook on another one would be seen


def test_a_right_answer_counts_and_a_tie_does_not():
    model = mixed()
    best = whole_pass(model, PROMPTS).argmax(-1).numpy()
    arguments = (MAPPING, POSITION, CALIBRATION, 1, 9, 3)
    assert score(model, PROMPTS, best, *arguments).query("layer == -1")["correct"].all()
    with torch.no_grad():
        model.lm_head.weight.zero_()
    assert not score(model, PROMPTS, best, *arguments)["correct"].any()


def test_a_hook_that_puts_back_what_it_found_is_a_no_op_to_the_bit():
    model = mixed()
    tokens = torch.from_numpy(PROMPTS.astype(np.int64))
    with torch.no_grad():
        clean = model(input_ids=tokens).logits
        for layer in range(len(model.model.layers)):
            hook = model.model.layers[layer].self_attn.register_forward_hook(
                lambda _m, _i, out: (out[0].clone(), *out[1:])
            )
            assert torch.equal(model(input_ids=tokens).logits, clean)
            hook.remove()
        one = model(input_ids=tokens[:1]).logits
        for layer in range(len(model.model.layers)):
            own = mean_outputs(model, PROMPTS[:1], 3, 38, 1)
            with knocked_out(model, layer, own[layer]):  # its own mean: nothing but the rounding of chunks
                torch.testing.assert_close(model(input_ids=tokens[:1]).logits, one, rtol=1e-4, atol=1e-4)


def test_a_knockout_changes_nothing_before_the_query_tokens_and_leaves_no_hook():
    model = mixed()
    tokens = torch.from_numpy(PROMPTS.astype(np.int64))
    means = mean_outputs(model, CALIBRATION, 4, 9, 2)
    with torch.no_grad():
        clean = model(input_ids=tokens).logits
        for layer in range(len(means)):
            with knocked_out(model, layer, means[layer]):
                changed = model(input_ids=tokens).logits
            assert torch.equal(changed[:, :-4], clean[:, :-4])
            assert (changed[:, -4:] != clean[:, -4:]).any(-1).all()
        assert torch.equal(model(input_ids=tokens).logits, clean)


@pytest.mark.parametrize(("chunk", "batch"), [(3, 7), (16, 2), (38, 1)])
def test_neither_chunks_nor_batches_change_the_table(chunk, batch):
    model = mixed()
    one, other = table(model, query_tokens=2), table(model, query_tokens=2, chunk=chunk, batch=batch)
    assert one.drop(columns="answer_logprob").equals(other.drop(columns="answer_logprob"))
    assert one["answer_logprob"].to_numpy() == pytest.approx(other["answer_logprob"].to_numpy(), abs=2e-5)


def test_a_layer_costs_the_query_tokens_and_not_the_prompt(monkeypatch):
    model, read = mixed(), []
    model.register_forward_pre_hook(
        lambda _module, _inputs, named: read.append(named["input_ids"].numel()), with_kwargs=True
    )
    table(model, query_tokens=2)
    layers = len(model.model.layers)
    assert sum(read) == len(CALIBRATION) * 38 + len(PROMPTS) * (36 + 2 * (1 + layers))


def test_a_prompt_may_be_nothing_but_its_query():
    found = table(mixed(), query_tokens=38)
    assert found["layer"].tolist() == np.repeat(np.arange(-1, 4), 7).tolist()


def test_the_result_is_a_layer_knockout_table(tmp_path):
    found = table(mixed())
    tables.write(found, tmp_path / "layer_knockout.parquet", "layer_knockout", {})
    read = tables.read(tmp_path / "layer_knockout.parquet", "layer_knockout")
    assert len(read) == 7 * 5
    assert read.query("layer == 2")["mapping"].tolist() == MAPPING.tolist()
    assert read.query("layer == -1")["position"].tolist() == POSITION.tolist()


def test_mistakes_are_named():
    with pytest.raises(UserError, match="calibration prompt is among prompts 3 to 5.*another .*seed"):
        table(mixed(), calibration=PROMPTS[4:])
    with pytest.raises(UserError, match="query_tokens 39 must lie between 1 and the 38 tokens"):
        table(mixed(), query_tokens=39)
    with pytest.raises(UserError, match=r"WeakSpotsForCausalLM has no model.layers\[i\].self_attn"):
        layer_knockout.attentions(build(TABLE["w8s8-1kv"]))
    with (
        pytest.raises(UserError, match="layer 4 does not exist: the model has layers 0 to 3"),
        knocked_out(mixed(), 4, torch.zeros(1, 24)),
    ):
        pass
    broken = mixed()
    with torch.no_grad():
        broken.model.layers[1].self_attn.o_b_proj.weight[0, 0] = torch.nan
    with pytest.raises(UserError, match="not finite on prompts 0 to 2"):
        table(broken)
