"""Prompts of an audit: records, prose or words around them, some records once more, and the question.

Everything of a mapping is fixed (words, their order, filler next to the records, demonstrations) but how much filler
stands before the records and after them. Prompts are token ids, so that positions are known and not measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weakspots.audit.design import Design
from weakspots.audit.words import Vocabulary
from weakspots.errors import UserError
from weakspots.serving.answers import Prompt


@dataclass(frozen=True)
class Setting:
    """How hard a prompt is: records in it, records repeated before the question, and tokens of the longest prompt."""

    records: int
    demonstrations: int
    length: int

    def __str__(self) -> str:
        return f"{self.records} records, {self.demonstrations} demonstrations, {self.length} tokens"


@dataclass(frozen=True)
class Batch:
    """n prompts. `mapping`, `needle` (the target key's token index), `length` (tokens) and `answer` (token) are [n]."""

    mapping: np.ndarray
    needle: np.ndarray
    length: np.ndarray
    answer: np.ndarray
    spelled: list[str]
    prompts: list[Prompt]


def fixed_tokens(vocabulary: Vocabulary, records: int, demonstrations: int) -> int:
    """Tokens of a prompt that are no filler: its start, records, demonstrations and the key asked for."""
    return len(vocabulary.start) + vocabulary.record * (records + demonstrations) + 1


def room(vocabulary: Vocabulary, setting: Setting) -> int:
    """Tokens of filler in the longest prompt of a setting."""
    return setting.length - fixed_tokens(vocabulary, setting.records, setting.demonstrations)


def make(
    vocabulary: Vocabulary, setting: Setting, design: Design, *, seed: int, first: int, count: int, label: str = ""
) -> Batch:
    """`count` mappings from number `first` on, each asked `design.size` times; the target is the middle record.

    The records stand as near the middle of the context as the design allows. `label` starts every prompt's key.
    Raises UserError where the design does not fit into the setting.
    """
    free = room(vocabulary, setting)
    if free < design.span:
        raise UserError(f"{setting} leave {free} tokens of filler and {design.span} are needed: raise the length")
    if setting.records > vocabulary.most_records:
        raise UserError(f"{setting.records} records are more than the tokenizer has words for: lower the records")
    if setting.demonstrations >= setting.records:
        raise UserError(f"{setting}: the target is never demonstrated, so demonstrations must be fewer than records")
    lead = (free - design.span) // 2
    before, cut = design.draw(seed, first, count)
    target = setting.records // 2
    ahead = len(vocabulary.start) + lead + vocabulary.record * target
    answers, spelled = [], []
    prompts: list[Prompt] = []
    for row in range(count):
        number = first + row
        text = _Mapping(vocabulary, setting, np.random.default_rng([seed, number]), lead + design.reach, free)
        answers.append(text.answer)
        spelled += [vocabulary.spelling[text.answer]] * design.size
        for column in range(design.size):
            ids = text.tokens(lead + int(before[row, column]), free - int(cut[row, column]))
            prompts.append((f"{label}{number}/{column}", ids))
    return Batch(
        mapping=np.repeat(np.arange(first, first + count), design.size),
        needle=(ahead + before).reshape(-1),
        length=(setting.length - cut).reshape(-1),
        answer=np.repeat(answers, design.size),
        spelled=spelled,
        prompts=prompts,
    )


class _Mapping:
    """What the prompts of one mapping share."""

    def __init__(
        self, vocabulary: Vocabulary, setting: Setting, rng: np.random.Generator, reach: int, free: int
    ) -> None:
        size, target = setting.records, setting.records // 2
        keys, values = rng.permutation(vocabulary.keys), rng.permutation(vocabulary.values)
        shown = rng.permutation(np.delete(np.arange(size), target))[: setting.demonstrations]
        self._vocabulary = vocabulary
        self._start = np.array(vocabulary.start, np.int64)
        self._records = self._written(keys[:size], values[:size])
        self._end = np.append(self._written(keys[shown], values[shown]), keys[target])
        self.answer = int(values[target])
        own, spare = np.concatenate([keys[:size], values[:size]]), (keys[size:], values[size:])
        self._before, self._after = (self._filler(rng, length, own, spare) for length in (reach, free))

    def tokens(self, before: int, filler: int) -> list[int]:
        """A prompt with `filler` tokens of filler, `before` of them before the records."""
        parts = (
            self._start,
            self._before[len(self._before) - before :],
            self._records,
            self._after[: filler - before],
            self._end,
        )
        return np.concatenate(parts).tolist()

    def _written(self, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
        columns = [keys, values]
        if self._vocabulary.separator is not None:
            columns.append(np.full(len(keys), self._vocabulary.separator))
        return np.stack(columns, axis=1).reshape(-1)

    def _filler(
        self, rng: np.random.Generator, length: int, own: np.ndarray, spare: tuple[np.ndarray, np.ndarray]
    ) -> np.ndarray:
        """[length] prose without the mapping's own words; or other words, values first and keys after them."""
        prose = self._vocabulary.prose
        if len(prose):
            cut = np.take(prose, np.arange(length + length // 4 + 64) + rng.integers(len(prose)), mode="wrap")
            return cut[~np.isin(cut, own)][:length]
        values = int(rng.integers(length + 1))
        return np.concatenate([rng.choice(spare[1], values), rng.choice(spare[0], length - values)])
