"""What a needle prompt is made of: the tokens of filler, records and question, for one mapping of keys to values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedTokenizerBase

from weakspots.config.deepseek import Needle
from weakspots.deepseek.tokenizer import Words, encode, first_token, words
from weakspots.errors import UserError

KEY, VALUE = "{key}", "{value}"


@dataclass(frozen=True)
class Mapping:
    """What the prompts of one mapping share, uint32 token ids.

    `records` [R * P] with P tokens per record, `before` and `after` the longest filler on either side, `end` from the
    introduction to the last token. `key` and `answer` are the target's.
    """

    before: np.ndarray
    records: np.ndarray
    after: np.ndarray
    end: np.ndarray
    key: int
    answer: int


class Wording:
    """The tokenizer's side of the needle test: words, the other pieces of a record, the introduction.

    `first` is the token that begins every prompt, `fixed` how many tokens of a prompt are no filler, `key_at` and
    `value_at` where in a record key and value stand.
    Raises UserError where the tokenizer has too few words or splits a piece of a record.
    """

    def __init__(self, needle: Needle, tokenizer: PreTrainedTokenizerBase):
        self._needle = needle
        self._pieces = {piece: _piece(tokenizer, piece) for piece in needle.record if piece not in (KEY, VALUE)}
        self._introduction = np.array(encode(tokenizer, needle.introduction), np.uint32)
        taken = [*self._introduction.tolist(), *self._pieces.values()]
        self._words: Words = words(tokenizer, needle.records, taken)
        self.first = first_token(tokenizer)
        self.key_at, self.value_at = needle.record.index(KEY), needle.record.index(VALUE)
        shown = len(needle.record) * (needle.records + needle.demonstrations)
        self.fixed = 1 + shown + len(self._introduction) + self.value_at

    def mapping(self, seed: int, number: int, before: int, after: int) -> Mapping:
        """Mapping `number`, with `before` and `after` tokens of filler at most; depends on these alone."""
        size, target = self._needle.records, self._needle.target - 1
        rng = np.random.default_rng([seed, 1, number])
        keys, values = rng.permutation(self._words.keys), rng.permutation(self._words.values)
        # more records than value words: every word is the value of equally many records, give or take one
        enough = len(values) > size
        chosen = values[:size] if enough else rng.permutation(np.resize(values, size))
        spare = keys[size:], values[size:] if enough else values
        shown = rng.permutation(np.delete(np.arange(size), target))[: self._needle.demonstrations]
        question = self._records(keys[[target]], chosen[[target]])[: self.value_at]
        return Mapping(
            before=self._stretch(rng, before, *spare),
            records=self._records(keys[:size], chosen),
            after=self._stretch(rng, after, *spare),
            end=np.concatenate([self._introduction, self._records(keys[shown], chosen[shown]), question]),
            key=int(keys[target]),
            answer=int(chosen[target]),
        )

    def text(self, ids: np.ndarray, end: int) -> str:
        """The text of a prompt `[T]` without its first token; its last `end` tokens begin with the introduction."""
        start = len(ids) - end
        body, rest = ids[1:start].tolist(), ids[start + len(self._introduction) :].tolist()
        spelling = self._words.spelling | {token: piece for piece, token in self._pieces.items()}
        written = ["".join(spelling[token] for token in part) for part in (body, rest)]
        return written[0] + self._needle.introduction + written[1]

    def spelled(self, word: int) -> str:
        """The text of one key or value token, with the space before it."""
        return self._words.spelling[word]

    def _records(self, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
        """`[n * P]` tokens of n records."""
        columns = {KEY: keys, VALUE: values}
        columns |= {piece: np.full(len(keys), token, np.uint32) for piece, token in self._pieces.items()}
        return np.stack([columns[piece] for piece in self._needle.record], axis=1).reshape(-1)

    def _stretch(self, rng: np.random.Generator, length: int, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
        """`[length]` words of filler: values first and keys after them where records have nothing but these two."""
        filler = rng.choice(keys, length)
        if len(self._needle.record) == 2:
            first = int(rng.integers(0, length + 1))
            filler[:first] = rng.choice(values, first)
        return filler


def _piece(tokenizer: PreTrainedTokenizerBase, piece: str) -> int:
    ids = encode(tokenizer, piece)
    if len(ids) != 1:
        raise UserError(
            f"deepseek.needle.record: {piece!r} is {len(ids)} tokens for this tokenizer and must be one: change it"
        )
    return ids[0]
