"""What transformers' guide for causal models does with one works as for any model, or is refused in one sentence."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from rows import TABLE, VOCABULARY, build
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import nn
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    DynamicCache,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    Trainer,
    TrainingArguments,
    pipeline,
)

MODELS = pytest.mark.parametrize("name", ["full-1kv", "w8s8-1kv", "w8s4-1kv-deepseek", "w8s8-8kv-tail"])
LENGTHS = (5, 21, 8, 21, 30)
"""Of the texts of a batch: below one window, at its end, within the third, two alike."""


def texts(lengths=LENGTHS, seed=3):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(1, VOCABULARY, (1, length), generator=generator) for length in lengths]


def padded(alone, left=True):
    """One batch of texts `[B, T]` and its attention mask, with token 0 as the pad."""
    longest = max(text.shape[1] for text in alone)

    def pad(row, value):
        filling = row.new_full((1, longest - row.shape[1]), value)
        return torch.cat([filling, row] if left else [row, filling], dim=1)

    return torch.cat([pad(row, 0) for row in alone]), torch.cat([pad(torch.ones_like(row), 0) for row in alone])


def qwen3():
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 1}
    return Qwen3ForCausalLM(Qwen3Config(vocab_size=VOCABULARY, head_dim=8, intermediate_size=48, **sizes))


@MODELS
@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
def test_texts_of_a_padded_batch_have_the_logits_and_the_loss_that_they_have_alone(name, left):
    model, alone = build(TABLE[name]), texts()
    batch, mask = padded(alone, left)
    labels = batch.masked_fill(mask == 0, -100)
    with torch.no_grad():
        found = model(batch, attention_mask=mask, labels=labels)
        losses = [model(text, labels=text).loss * (text.shape[1] - 1) for text in alone]
        for row, text in enumerate(alone):
            shown = found.logits[row][mask[row].bool()]
            torch.testing.assert_close(shown, model(text).logits[0], atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(found.loss, sum(losses) / sum(length - 1 for length in LENGTHS))
        if left:
            last = model(batch, attention_mask=mask, logits_to_keep=1).logits
            torch.testing.assert_close(last[:, 0], found.logits[:, -1])


@MODELS
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_beams": 3},
        {"num_beams": 4, "num_return_sequences": 2},
        {"use_cache": False},
        {"suppress_tokens": [5, 6, 7], "min_new_tokens": 5},
        {"cache_implementation": "static"},  # transformers says that it ignores it
    ],
    ids=lambda options: "-".join(options) or "greedy",
)
def test_prompts_of_different_lengths_continue_in_one_batch_as_they_do_alone(name, options):
    model, alone = build(TABLE[name]), texts()
    batch, mask = padded(alone)
    settings = {"max_new_tokens": 13, "do_sample": False, "pad_token_id": 0, "eos_token_id": None, **options}
    together = model.generate(batch, attention_mask=mask, **settings)
    together = together.view(len(alone), -1, together.shape[1])
    for row, text in enumerate(alone):
        expected = model.generate(text, attention_mask=torch.ones_like(text), **settings)
        assert torch.equal(together[row, :, batch.shape[1] :], expected[:, text.shape[1] :])


@MODELS
def test_sampling_draws_from_the_distribution_of_each_text_alone(name):
    """Many samples of one token against the softmax that the text has alone."""
    model, alone = build(TABLE[name]), texts((9, 16))
    batch, mask = padded(alone)
    torch.manual_seed(0)
    drawn = model.generate(
        batch, attention_mask=mask, max_new_tokens=1, do_sample=True, top_k=0, num_return_sequences=4000, pad_token_id=0
    )[:, -1].view(2, -1)
    for row, text in enumerate(alone):
        expected = model(text).logits[0, -1].softmax(-1)
        seen = torch.bincount(drawn[row], minlength=VOCABULARY) / drawn.shape[1]
        assert (seen - expected).abs().max() < 0.03


def test_a_pipeline_answers_a_batch_as_it_answers_its_texts_alone():
    model = build(TABLE["w8s8-1kv"])
    words = Tokenizer(WordLevel({str(number): number for number in range(VOCABULARY)}, unk_token="0"))
    words.pre_tokenizer = Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="0", padding_side="left")
    asked = [" ".join(map(str, text[0].tolist())) for text in texts()]
    generate = pipeline("text-generation", model=model, tokenizer=tokenizer, device="cpu")
    settings = {"max_new_tokens": 9, "do_sample": False}
    together = generate(asked, batch_size=len(asked), **settings)
    assert together == [generate(prompt, **settings) for prompt in asked]


@pytest.mark.parametrize(
    ("mask", "named"),
    [([1, 1, 0, 1, 1], "between two tokens"), ([0, 1, 0, 1, 1], "between two tokens")],
)
def test_a_hole_in_a_text_is_refused(mask, named):
    with pytest.raises(ValueError, match=named):
        build(TABLE["w8s8-1kv"])(torch.ones(1, 5, dtype=torch.long), attention_mask=torch.tensor([mask]))


def test_generating_from_right_padded_prompts_says_where_to_pad():
    batch, mask = padded(texts(), left=False)
    with pytest.raises(ValueError, match="on the left to generate"):
        build(TABLE["w8s8-1kv"]).generate(batch, attention_mask=mask, max_new_tokens=3, pad_token_id=0)


def test_a_cache_without_padding_is_refused_for_a_padded_batch():
    model, (batch, mask) = build(TABLE["w8s8-1kv"]), padded(texts())
    with pytest.raises(TypeError, match="knows of no padding"):
        model(batch, attention_mask=mask, cache=model.new_cache())


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"prefill_chunk_size": 7}, "without a cache"),
        ({"output_hidden_states": True, "return_dict_in_generate": True}, "output_hidden_states"),
        ({"output_attentions": True, "return_dict_in_generate": True}, "output_attentions"),
        ({"past_key_values": DynamicCache()}, "exact keys"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_way_to_generate_that_this_model_cannot_is_refused_in_one_sentence(options, named):
    with pytest.raises((TypeError, ValueError), match=named) as refused:
        build(TABLE["w8s8-1kv"]).generate(texts((12,))[0], max_new_tokens=3, pad_token_id=0, **options)
    assert "\n" not in str(refused.value).strip()


class Rows(torch.utils.data.Dataset):
    """Sixteen texts with labels, every third token to be learnt."""

    def __len__(self):
        return 16

    def __getitem__(self, index):
        text = texts((20,), seed=index)[0][0]
        return {"input_ids": text, "labels": text.masked_fill(torch.arange(20) % (2 + index % 3) != 0, -100)}


def trainer(model, folder, **options):
    settings = {"max_steps": 2, "learning_rate": 0.0, "logging_steps": 1, "report_to": [], "use_cpu": True, **options}
    return Trainer(model, TrainingArguments(str(folder), disable_tqdm=True, **settings), train_dataset=Rows())


@pytest.mark.parametrize("name", ["qwen3", "w8s8-1kv", "full-1kv"])
def test_trainers_gradient_accumulation_is_one_large_batch(name, tmp_path):
    logged = []
    for size, steps in ((8, 1), (2, 4)):
        model = (qwen3() if name == "qwen3" else build(TABLE[name])).train()
        asked = trainer(model, tmp_path, per_device_train_batch_size=size, gradient_accumulation_steps=steps)
        asked.train()
        logged.append([(entry["loss"], entry["grad_norm"]) for entry in asked.state.log_history if "loss" in entry])
    np.testing.assert_allclose(logged[0], logged[1], rtol=2e-3)


def test_trainers_evaluation_sees_the_logits(tmp_path):
    model = build(TABLE["w8s8-1kv"])
    asked = trainer(model, tmp_path)
    seen = []
    asked.compute_metrics = lambda result: seen.append(result.predictions.shape) or {"n": len(result.predictions)}
    assert asked.evaluate(Rows())["eval_n"] == 16
    assert seen == [(16, 20, VOCABULARY)]


def test_in_training_logits_are_left_out_unless_they_are_asked_for():
    model, text = build(TABLE["w8s8-1kv"]), texts((21,))[0]
    assert model.train()(text, labels=text).logits is None
    asked = model(text, labels=text, skip_logits=False)
    torch.testing.assert_close(asked.logits, model(text).logits)
    torch.testing.assert_close(asked.loss, model(text, labels=text).loss)


@pytest.mark.parametrize("targets", [["lm_head"], ["qkv", "out"], ["lm_head", "down"]], ids="-".join)
def test_an_adapter_learns_wherever_it_is_put(targets):
    peft = pytest.importorskip("peft")
    model = build(TABLE["w8s8-1kv"])
    model.config.tie_word_embeddings = False
    settings = peft.LoraConfig(r=4, target_modules=targets, init_lora_weights=False)
    adapted, text = peft.get_peft_model(model, settings).train(), texts((30,))[0]
    loss = adapted(input_ids=text, labels=text).loss
    loss.backward()
    logits = adapted(input_ids=text).logits
    expected = nn.functional.cross_entropy(logits[0, :-1], text[0, 1:])
    torch.testing.assert_close(loss, expected)
    learnt = {key: p.grad for key, p in adapted.named_parameters() if p.requires_grad}
    assert learnt and all(gradient is not None and gradient.abs().max() > 0 for gradient in learnt.values())


@pytest.mark.parametrize(
    "options", [{}, {"dtype": torch.bfloat16}, {"device_map": "cpu"}, {"device_map": "auto"}], ids=str
)
def test_a_saved_model_loads_with_the_options_of_from_pretrained(options, tmp_path):
    model, text = build(TABLE["w8s8-1kv"]), texts((30,))[0]
    model.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, **options)
    tolerance = {"atol": 0.15, "rtol": 0.1} if options.get("dtype") else {"atol": 0, "rtol": 0}
    with torch.no_grad():
        torch.testing.assert_close(loaded(text).logits.float(), model(text).logits, **tolerance)
        hidden = AutoModel.from_pretrained(tmp_path)(text).last_hidden_state
        torch.testing.assert_close(model.lm_head(hidden), model(text).logits)


@pytest.mark.parametrize(
    ("auto", "order"),
    [
        ("AutoConfig", "import weakspots; from transformers import {0}"),
        ("AutoModel", "from transformers import {0}; import weakspots"),
        ("AutoModelForCausalLM", "import weakspots; from transformers import {0}"),
    ],
)
def test_importing_the_package_is_enough_for_every_auto_class(auto, order, tmp_path):
    build(TABLE["w8s8-1kv"]).save_pretrained(tmp_path)
    script = f"{order.format(auto)}; print(type({auto}.from_pretrained({str(tmp_path)!r})).__name__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.startswith("WeakSpots"), done.stderr
