"""Prompts of the animal-to-name lookup (the paper's "Controlled pretraining" and Figure 2).

A prompt is the end-of-text token, R records (an animal, then its name) with filler around or between them, the
demonstrations (records written once more) and the target animal; the answer is its name. The amount of filler is
constant, so the query position is constant; how much of it stands before the target record decides the target's
position. One mapping (words, their order, demonstrations) is asked at every position modulo `modulus`, and the mean and
the variance of the target position are exactly the same at all of them (`matched_positions.matched_quotas`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weakspots.config import PADDINGS, Corpus, Lookup, RecallSource
from weakspots.errors import UserError
from weakspots.task import records
from weakspots.task.matched_positions import matched_quotas


@dataclass(frozen=True)
class PromptSet:
    """N prompts of T tokens: one end-of-text token, then T - 1 words.

    `vocabulary` holds the key words, then the value words; `words` [N, T - 1] and `answer` [N] index it. `mapping`,
    `position` (target key's token index modulo the modulus) and `target_position` (the index itself) are [N].
    """

    vocabulary: tuple[str, ...]
    words: np.ndarray
    answer: np.ndarray
    mapping: np.ndarray
    position: np.ndarray
    target_position: np.ndarray

    def __len__(self) -> int:
        return len(self.words)

    @property
    def length(self) -> int:
        """T, tokens per prompt."""
        return self.words.shape[1] + 1

    def take(self, indices: np.ndarray) -> PromptSet:
        """The prompts with these numbers [n], in this order."""
        kept = {name: getattr(self, name)[indices] for name in ("words", "answer", "mapping", "position")}
        return PromptSet(self.vocabulary, **kept, target_position=self.target_position[indices])

    def text(self, index: int) -> str:
        """Prompt `index` as a reader would write it, without the end-of-text token; every word has a leading space."""
        return "".join(f" {self.vocabulary[word]}" for word in self.words[index])


def words_in_use(corpus: Corpus) -> tuple[list[str], list[str]]:
    """The key and the value words that a model trained on `corpus` is asked about.

    Those of the recall source, if that is what it trained on; all of them for text.
    """
    animals, names = list(records.animals()), list(records.names())
    if isinstance(corpus.source, RecallSource):
        return animals[: corpus.source.keys], names[: corpus.source.values]
    return animals, names


def prompts(lookup: Lookup, padding: str, keys: list[str], values: list[str]) -> PromptSet:
    """Every mapping of `lookup` at every position, grouped by mapping; N = mappings * modulus.

    `padding` "prefix" puts filler before and after one block of records, so that all records move with the target;
    "in_sequence" spreads it over the gaps between records, so that they do not. Both ask the same mappings. Filler
    follows the rule of `records` and never uses a word of the mapping's own records.
    Raises UserError where `keys` or `values` leave no word for filler.
    """
    for kind, words in (("keys", keys), ("values", values)):
        if len(words) <= lookup.records:
            raise UserError(
                f"lookup.records {lookup.records} leaves no filler among {len(words)} {kind}: lower lookup.records or "
                f"raise the corpus's {kind}"
            )
    size, modulus, target = lookup.records, lookup.modulus, lookup.records // 2

    # The words of the mappings do not depend on the padding: their generator is seeded apart from the filler's.
    rng = np.random.default_rng([lookup.seed, 0])
    shuffled_keys = records.shuffles(rng, lookup.mappings, len(keys))
    shuffled_values = records.shuffles(rng, lookup.mappings, len(values)) + len(keys)
    others = np.delete(np.arange(size), target)
    demonstrated = others[records.shuffles(rng, lookup.mappings, size - 1)[:, : lookup.demonstrations]]
    # Quotas over the mappings, at random which mapping gets which: [mappings, modulus] filler words before the target.
    quotas = matched_quotas(modulus, lookup.mappings).counts
    turns = [rng.permutation(np.repeat(np.arange(quotas.shape[1]), row)) for row in quotas]
    before = np.arange(modulus) + modulus * np.stack(turns, axis=1)
    target_position = 1 + 2 * target + before
    order = np.argsort(target_position % modulus, axis=1)
    before = np.take_along_axis(before, order, axis=1).reshape(-1)
    target_position = np.take_along_axis(target_position, order, axis=1).reshape(-1)

    rng = np.random.default_rng([lookup.seed, 1 + PADDINGS.index(padding)])
    after = _filler_words(lookup) - before
    if padding == "prefix":
        gaps = np.zeros((len(before), size + 1), dtype=np.int64)
        gaps[:, 0], gaps[:, -1] = before, after
    else:
        gaps = np.hstack(
            [records.compositions(rng, before, target + 1), records.compositions(rng, after, size - target)]
        )

    mapping = np.repeat(np.arange(lookup.mappings), modulus)
    body = records.lay_out(rng, gaps, shuffled_keys[mapping], shuffled_values[mapping])
    demonstrations = np.stack(
        [np.take_along_axis(words, demonstrated, axis=1) for words in (shuffled_keys, shuffled_values)], axis=2
    ).reshape(lookup.mappings, -1)
    question = np.hstack([demonstrations, shuffled_keys[:, [target]]])
    return PromptSet(
        vocabulary=(*keys, *values),
        words=np.hstack([body, question[mapping]]),
        answer=shuffled_values[mapping, target],
        mapping=mapping,
        position=target_position % modulus,
        target_position=target_position,
    )


def _filler_words(lookup: Lookup) -> int:
    """Filler words in a prompt: the fewest that let the target stand at r + modulus * k for k = 0, 1, 2 and every r."""
    return 3 * lookup.modulus - 1
