"""Prompts of the needle test: thousands of key-value records, and the question for one of them (the paper's Figure 1).

A prompt is the first token (beginning of text), filler, the records, filler, an introduction, demonstrations (records
written once more, the target not among them) and the target's record up to its value, which is the answer. It is made
of token ids: every word, and every other piece of a record, is exactly one token, so the length of a prompt and the
position of the target key are known and not measured. All prompts have one length, so the query position is constant.

How many words of filler stand before the records decides the target's position. It is chosen around the middle of the
context, and its mean and variance are exactly the same for every residue (`matched_positions.matched_quotas`). The
prompts of one mapping have the same words in the same order, and differ in how many words of filler stand
before the records and how many after them.

Filler is words that no record uses. Where a record is a key directly followed by its value, as in the recall corpus,
filler has values too, and in a stretch of it values come first and keys after them: so it never looks like a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from transformers import PreTrainedTokenizerBase

from weakspots.config.deepseek import Needle
from weakspots.deepseek.needle_words import Mapping, Wording
from weakspots.deepseek.tokenizer import encode
from weakspots.errors import UserError
from weakspots.serving.answers import Prompt
from weakspots.task.matched_positions import matched_quotas


class LazyIds(Sequence):
    """The tokens of one prompt, which are held by nobody: thousands of long prompts would not fit into memory."""

    def __init__(self, prompts: Prompts, index: int):
        self._prompts, self._index = prompts, index

    def __len__(self) -> int:
        return self._prompts.length

    def __getitem__(self, place: Any) -> Any:
        return self._prompts[self._index][place]

    def __iter__(self) -> Iterator[int]:
        return iter(self._prompts[self._index].tolist())

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return self._prompts[self._index].astype(dtype or np.uint32)


class Prompts:
    """N prompts of T tokens, made when they are asked for: `prompts[i]` is `[T]` uint32.

    `mapping`, `position` (target key's token index modulo the modulus) and `target_position` (the index itself; the
    first token of a prompt is 0) are [N], grouped by mapping. Prompt i's answer is the token `answer(i)`, spelled
    `answer_text(i)`.
    """

    def __init__(
        self, needle: Needle, tokenizer: PreTrainedTokenizerBase, count: int | None = None, seed: int | None = None
    ):
        """`count` prompts per residue and `seed` are the needle's unless given. A mapping has the same words whatever
        the count, and none of another seed.

        Raises UserError where the tokenizer has too few words or splits a piece of a record, where the prompt is too
        short for what is in it, and where the tokenizer reads the first prompt's text in another way.
        """
        self._needle, self._tokenizer, self.length = needle, tokenizer, needle.length
        self._seed = needle.seed if seed is None else seed
        self._wording = Wording(needle, tokenizer)
        self._filler, span = needle.length - self._wording.fixed, 3 * needle.modulus - 1
        if self._filler < span:
            raise UserError(
                f"deepseek.needle.length {needle.length} has no room for {needle.records} records of "
                f"{len(needle.record)} tokens, {needle.demonstrations} demonstrations and the filler that moves them: "
                f"raise it to at least {self._wording.fixed + span}"
            )
        ahead = 1 + (needle.target - 1) * len(needle.record) + self._wording.key_at  # of the key, filler aside
        least = int(np.clip(needle.length // 2 - ahead - span // 2, 0, self._filler - span))
        self._longest = least + span, self._filler - least  # filler before and after the records
        self._mapping = lru_cache(maxsize=2)(lambda number: self._wording.mapping(self._seed, number, *self._longest))
        self._arrange(needle.prompts_per_residue if count is None else count, ahead, least)
        self._read_back(0)

    def _arrange(self, count: int, ahead: int, least: int) -> None:
        """How much filler stands before every prompt's records, at least `least`, and so where its target stands."""
        modulus = self._needle.modulus
        rng = np.random.default_rng([self._seed, 0])  # apart from the words of every mapping
        turns = [rng.permutation(np.repeat(np.arange(3), row)) for row in matched_quotas(modulus, count).counts]
        before = least + np.arange(modulus) + modulus * np.stack(turns, axis=1)
        order = np.argsort((ahead + before) % modulus, axis=1)
        self._before = np.take_along_axis(before, order, axis=1).reshape(-1)
        self.target_position = ahead + self._before
        self.position = self.target_position % modulus
        self.mapping = np.repeat(np.arange(count), modulus)

    def __len__(self) -> int:
        return len(self.mapping)

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> np.ndarray:
        """Prompt `index`, proven to have its planned length, its key and its answer where they should be.

        Raises UserError where it has not.
        """
        if not 0 <= index < len(self):
            raise IndexError(index)
        shared, before = self._shared(index), int(self._before[index])
        parts = [shared.before[len(shared.before) - before :], shared.records, shared.after[: self._filler - before]]
        ids = np.concatenate([np.array([self._wording.first], np.uint32), *parts, shared.end])
        self._prove(ids, index, shared)
        return ids

    def asked(self) -> list[Prompt]:
        """All prompts with a name each, as a backend wants them; their tokens are made when they are read."""
        names = zip(self.mapping.tolist(), self.position.tolist(), strict=True)
        return [(f"{mapping}/{position}", LazyIds(self, index)) for index, (mapping, position) in enumerate(names)]

    @property
    def answers(self) -> np.ndarray:
        """`[N]` tokens that answer the prompts."""
        return np.array([self.answer(index) for index in range(len(self))], np.int64)

    def answer(self, index: int) -> int:
        """The token that answers prompt `index`."""
        return self._shared(index).answer

    def answer_text(self, index: int) -> str:
        """The answer as it is spelled, with the space before it."""
        return self._wording.spelled(self.answer(index))

    def text(self, index: int) -> str:
        """Prompt `index` as it is written, without the first token."""
        return self._wording.text(self[index], len(self._shared(index).end))

    def _shared(self, index: int) -> Mapping:
        return self._mapping(int(self.mapping[index]))

    def _prove(self, ids: np.ndarray, index: int, shared: Mapping) -> None:
        at, gap = int(self.target_position[index]), self._wording.value_at - self._wording.key_at
        keys = np.flatnonzero(ids == shared.key).tolist()  # in its record and in the question, nowhere else
        if len(ids) != self.length or keys != [at, len(ids) - gap] or ids[at + gap] != shared.answer:
            raise UserError(
                f"needle prompt {index} has {len(ids)} tokens and its key at {keys}, and should have {self.length} and "
                f"{[at, self.length - gap]}: the tokenizer's words are not one token each"
            )

    def _read_back(self, index: int) -> None:
        """Raise UserError unless the tokenizer makes of a prompt's text the very tokens that are asked."""
        read, planned = encode(self._tokenizer, self.text(index)), self[index][1:].tolist()
        if read != planned:
            pairs = enumerate(zip(read, planned, strict=False))
            place = next((number for number, (one, other) in pairs if one != other), min(len(read), len(planned)))
            raise UserError(
                f"the tokenizer reads the text of needle prompt {index} as {len(read)} tokens and not {len(planned)}, "
                f"or otherwise from token {place} on: it joins neighbouring pieces; change deepseek.needle.record or "
                "introduction"
            )
