"""A knockout replaces one head's output at the final position, and the sweep gives all of them at once."""

import numpy as np
import pytest
import torch
from rows import TABLE, build

from weakspots.config import Knockout, Lookup
from weakspots.errors import UserError
from weakspots.lookup.prompts import prompts
from weakspots.lookup.score import score, tokenize
from weakspots.mechanism import all_knockouts
from weakspots.mechanism.all_knockouts import final_states, knockouts
from weakspots.mechanism.knockout import calibration_prompts, check_disjoint, columns, knocked_out, mean_outputs
from weakspots.model_table import WHOLE_LAYER, model_row

KEYS, VALUES = [f"k{i}" for i in range(12)], [f"v{i}" for i in range(12)]
LOOKUP = Lookup(corpus="recall", paddings=["prefix"], modulus=4, mappings=16, records=4, demonstrations=2, seed=3)


def texts(count: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 50, (count, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", TABLE)
def test_the_sweep_equals_the_hook_on_the_whole_prompt(name):
    model = build(TABLE[name]).eval()
    means = mean_outputs(model, texts(5, 29, seed=1))
    for length in range(
        23, 23 + TABLE[name].stride
    ):  # every remainder, so the last window closes, or is open by any part
        tokens = texts(3, length)
        with torch.inference_mode():
            found = model.lm_head(final_states(model, tokens, means))
            clean = model(tokens, logits_to_keep=1).logits[:, -1]
            torch.testing.assert_close(found[:, 0], clean, rtol=1e-4, atol=1e-5)
            for state, (layer, head) in enumerate(knockouts(model), start=1):
                with knocked_out(model, layer, head, means):
                    expected = model(tokens, logits_to_keep=1).logits[:, -1]
                torch.testing.assert_close(found[:, state], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [2, 3, 4, 5, 7, 8, 9])
@pytest.mark.parametrize(
    "row",
    [
        model_row(),
        model_row(stride=3),
        model_row(local="tail"),
        model_row(compressor="none"),
        TABLE["w8s4-1kv-deepseek"],  # whose first window begins before the text
    ],
)
def test_the_sweep_reads_texts_shorter_than_a_window(row, length):
    model = build(row).eval()
    means = mean_outputs(model, texts(2, 9, seed=1))
    tokens = texts(2, length)
    with torch.inference_mode():
        found = model.lm_head(final_states(model, tokens, means))[:, -1]
        with knocked_out(model, *knockouts(model)[-1], means):
            torch.testing.assert_close(found, model(tokens).logits[:, -1], rtol=1e-4, atol=1e-5)


def test_a_knockout_replaces_the_queries_of_one_head_at_the_final_position_only():
    model = build(model_row(kv_heads=2)).eval()
    means = torch.full((2, model.config.num_attention_heads * model.config.head_dim), 7.0)
    seen = []
    with knocked_out(model, 0, 1, means):
        hook = model.layers[0].attention.register_forward_hook(lambda _m, _i, out: seen.append(out))
        with torch.no_grad():
            model(texts(2, 20))
        hook.remove()
    with torch.no_grad():
        hook = model.layers[0].attention.register_forward_hook(lambda _m, _i, out: seen.append(out))
        model(texts(2, 20))
        hook.remove()
    replaced = seen[0] == 7.0
    half = replaced.shape[2] // 2
    assert replaced[:, -1, half:].all() and not replaced[:, -1, :half].any() and not replaced[:, :-1].any()
    assert torch.equal(seen[0][~replaced], seen[1][~replaced])


def test_the_model_is_as_before_after_a_knockout_even_when_the_block_fails():
    model = build(model_row()).eval()
    with torch.no_grad():
        before = model(texts(2, 20)).logits
        with pytest.raises(RuntimeError), knocked_out(model, 0, 0, torch.ones(2, 128)):
            raise RuntimeError
        assert torch.equal(model(texts(2, 20)).logits, before)


def test_replacing_an_output_by_itself_changes_nothing():
    model = build(model_row(kv_heads=2)).eval()
    tokens = texts(1, 21)
    own = mean_outputs(model, tokens)
    with torch.no_grad():
        before = model(tokens).logits[:, -1]
        for layer, head in knockouts(model):
            with knocked_out(model, layer, head, own):
                torch.testing.assert_close(model(tokens).logits[:, -1], before, rtol=1e-5, atol=1e-6)


def test_means_do_not_depend_on_the_batch():
    model = build(model_row(kv_heads=2)).eval()
    tokens = texts(7, 20)
    torch.testing.assert_close(mean_outputs(model, tokens, batch=3), mean_outputs(model, tokens, batch=7))


def test_heads_that_do_not_exist_are_refused():
    model = build(model_row(kv_heads=2)).eval()
    with pytest.raises(UserError, match="layer 5 does not exist: the model has layers 0 to 1"):
        columns(model, 5, 0)
    with pytest.raises(UserError, match="KV head 2 does not exist: the model has heads 0 to 1"):
        columns(model, 0, 2)
    assert columns(model, 0, WHOLE_LAYER) == slice(None)


def test_calibration_prompts_are_of_the_same_kind_and_none_is_evaluated():
    evaluated = prompts(LOOKUP, "prefix", KEYS, VALUES)
    calibration = calibration_prompts(LOOKUP, Knockout(calibration=20), "prefix", KEYS, VALUES)
    assert len(calibration) == 20 and calibration.length == evaluated.length
    check_disjoint(calibration.words, evaluated.words)


def test_calibration_prompts_that_are_evaluated_are_refused():
    evaluated = prompts(LOOKUP, "prefix", KEYS, VALUES).words
    with pytest.raises(UserError, match="2 of 3 calibration prompts are evaluated too.*knockout.seed"):
        check_disjoint(np.vstack([evaluated[[5, 9]], evaluated[:1, ::-1]]), evaluated)


def test_more_calibration_prompts_than_there_are_is_refused():
    with pytest.raises(UserError, match="knockout.calibration 65 is more than the 64 prompts"):
        calibration_prompts(LOOKUP, Knockout(calibration=65), "prefix", KEYS, VALUES)


def test_the_tables_hold_the_lookup_and_every_knockout_of_the_same_prompts(asked):
    model, tokenizer, evaluated = asked
    tokens = torch.from_numpy(tokenize(tokenizer, evaluated)[0])
    means = mean_outputs(model, tokens)
    clean, table = all_knockouts.score(model, tokenizer, evaluated, means, batch=7)
    expected = score(model, tokenizer, evaluated, batch=64)
    for column in ("mapping", "position", "target_position", "answer_rank", "correct"):
        assert (clean[column] == expected[column]).all()
    assert (
        set(table.groupby(["layer", "head"]).groups)
        == set(knockouts(model))
        == {(a, b) for a in (0, 1) for b in (-1, 0, 1)}
    )
    for (layer, head), part in table.groupby(["layer", "head"]):
        with knocked_out(model, layer, head, means):
            alone = score(model, tokenizer, evaluated, batch=64)
        assert (part["correct"].to_numpy() == alone["correct"].to_numpy()).all()
        assert (part["position"].to_numpy() == alone["position"].to_numpy()).all()


def test_the_only_head_of_a_layer_is_listed_as_the_whole_layer_too(asked):
    _, tokenizer, evaluated = asked
    model = build(model_row())
    _, table = all_knockouts.score(model, tokenizer, evaluated, torch.zeros(2, 64), batch=64)
    by_head = {at: part["correct"].to_numpy() for at, part in table.groupby(["layer", "head"])}
    assert set(by_head) == {(0, 0), (0, WHOLE_LAYER), (1, 0), (1, WHOLE_LAYER)}
    assert (by_head[1, 0] == by_head[1, WHOLE_LAYER]).all()
