"""Scores are those of one prompt at a time, over the whole vocabulary, for any causal language model."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from weakspots.config import PADDINGS, Lookup
from weakspots.errors import UserError
from weakspots.files import tables
from weakspots.lookup.prompts import prompts
from weakspots.lookup.score import score, tokenize
from weakspots.task import records

KEYS, VALUES = list(records.animals()[:9]), list(records.names()[:8])
LOOKUP = Lookup(corpus="recall", paddings=PADDINGS, modulus=3, mappings=9, records=5, demonstrations=2)


def fast(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>")


def word_level(words: list[str]) -> PreTrainedTokenizerFast:
    vocabulary = {word: index for index, word in enumerate(["<|endoftext|>", "<unk>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = fast(tokenizer)
    made.unk_token = "<unk>"
    return made


def byte_level(words: list[str]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=4_000,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([f" {word}" for word in words for _ in range(3)], trainer)
    return fast(tokenizer)


def tiny_model(vocabulary: int) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        initializer_range=0.5,
    )
    return LlamaForCausalLM(config)


@pytest.mark.parametrize("build", [word_level, byte_level])
def test_text_goes_through_the_tokenizer_one_token_a_word(build):
    made = prompts(LOOKUP, "in_sequence", KEYS, VALUES)
    tokenizer = build([*KEYS, *VALUES])
    tokens, answers = tokenize(tokenizer, made)
    assert tokens.shape == (len(made), made.length)
    for index in (0, len(made) - 1):
        assert tokens[index].tolist() == tokenizer(f"<|endoftext|>{made.text(index)}").input_ids
        assert tokenizer.decode([answers[index]]).strip() == made.vocabulary[made.answer[index]]


@pytest.mark.parametrize("batch", [1, 7, 1_000])
def test_scores_equal_those_of_one_prompt_at_a_time(batch):
    made = prompts(LOOKUP, "prefix", KEYS, VALUES)
    tokenizer = word_level([*KEYS, *VALUES])
    model = tiny_model(len(tokenizer))
    table = score(model, tokenizer, made, batch)
    tokens, answers = tokenize(tokenizer, made)
    for index in range(0, len(made), 5):
        with torch.no_grad():
            probabilities = model(torch.tensor(tokens[[index]])).logits[0, -1].softmax(-1)
        row = table.iloc[index]
        assert row.answer_probability == pytest.approx(probabilities[answers[index]].item(), rel=1e-4)
        better = int((probabilities > probabilities[answers[index]]).sum())
        assert row.answer_rank == better + 1
        assert row.correct == (better == 0)
    assert table.answer_rank.nunique() > 3


def test_the_table_fits_its_schema(tmp_path):
    made = prompts(LOOKUP, "prefix", KEYS, VALUES)
    tokenizer = word_level([*KEYS, *VALUES])
    table = score(tiny_model(len(tokenizer)), tokenizer, made, 32)
    tables.write(table, tmp_path / "prefix.parquet", "lookup", {})
    assert tables.read(tmp_path / "prefix.parquet", "lookup").equals(table)
    np.testing.assert_array_equal(table.target_position % LOOKUP.modulus, table.position)


class Constant(torch.nn.Module):
    """Answers every prompt with the same logits."""

    device = torch.device("cpu")

    def __init__(self, value: float, vocabulary: int):
        super().__init__()
        self.value, self.vocabulary = value, vocabulary

    def forward(self, input_ids, logits_to_keep, use_cache):
        return SimpleNamespace(logits=torch.full((len(input_ids), logits_to_keep, self.vocabulary), self.value))


def test_ties_count_against_the_answer():
    made = prompts(LOOKUP, "prefix", KEYS, VALUES)
    table = score(Constant(0.0, 40), word_level([*KEYS, *VALUES]), made, 8)
    assert (table.answer_rank == 40).all() and not table.correct.any()
    np.testing.assert_allclose(table.answer_probability, 1 / 40, rtol=1e-6)


def test_a_diverged_model_is_not_scored():
    made = prompts(LOOKUP, "prefix", KEYS, VALUES)
    with pytest.raises(UserError, match="not finite"):
        score(Constant(float("nan"), 40), word_level([*KEYS, *VALUES]), made, 8)


@pytest.mark.parametrize(
    ("build", "words", "message"),
    [(word_level, [*KEYS[1:], *VALUES], f"{KEYS[0]!r} is unknown"), (byte_level, VALUES, "tokens for this tokenizer")],
)
def test_a_word_that_is_not_one_token_is_named(build, words, message):
    with pytest.raises(UserError, match=message):
        tokenize(build(words), prompts(LOOKUP, "prefix", KEYS, VALUES))


def test_a_tokenizer_without_end_of_text_is_refused():
    tokenizer = word_level([*KEYS, *VALUES])
    tokenizer.eos_token = None
    with pytest.raises(UserError, match="end-of-text"):
        tokenize(tokenizer, prompts(LOOKUP, "prefix", KEYS, VALUES))
