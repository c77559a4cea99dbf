"""A model with random weights, a tokenizer of whole words, and prompts for it."""

from __future__ import annotations

import pytest
from rows import BACKBONE, build
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from weakspots.config import Lookup
from weakspots.lookup.prompts import prompts
from weakspots.model_table import model_row
from weakspots.task import records

LOOKUP = Lookup(corpus="recall", paddings=["prefix"], modulus=4, mappings=16, records=4, demonstrations=2, seed=3)


@pytest.fixture
def asked():
    """Model, tokenizer and prompts."""
    keys, values = list(records.animals()[:12]), list(records.names()[:12])
    words = {word: index for index, word in enumerate(["<|endoftext|>", "<unk>", *keys, *values])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>", unk_token="<unk>")
    return build(model_row(kv_heads=2), BACKBONE), fast, prompts(LOOKUP, "prefix", keys, values)
