"""The recall corpus: documents that teach a model to look up what it has read.

A document holds R records (an animal, then its name) with filler around them, and then repeats of these records in
random order until it is full. The names of the repeats are its answers: they can be known only from the records.
Half of the documents have their filler before the first and after the last record only, half between all records, so
that both paddings of the evaluation look like something the model has read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np

from weakspots.config import CurriculumStage, RecallSource
from weakspots.data.document import Document
from weakspots.task.records import animals, compositions, lay_out, names, shuffles

BLOCK = 64
"""Documents that are drawn together: they have the same amount of filler, and everything else of their own."""


def recall_block(
    rng: np.random.Generator, length: int, records: int, keys: int, values: int
) -> tuple[np.ndarray, np.ndarray]:
    """`BLOCK` documents as word numbers `[BLOCK, length]` (keys from 0 on, values from `keys` on), and where in them
    the answers stand, `[length]` booleans.

    Filler never uses a record's words, so an animal that has a record is always followed by its name. A document has
    at least as many repeats as records.
    """
    shuffled_keys, shuffled_values = shuffles(rng, BLOCK, keys), shuffles(rng, BLOCK, values) + keys
    filler = int(rng.integers(0, length - 4 * records + 1))
    filler -= (length - filler) % 2 if filler else -((length - filler) % 2)  # the repeats fill what is left, in pairs
    outside = np.zeros((BLOCK, records + 1), dtype=np.int64)
    outside[:, 0] = rng.integers(0, filler + 1, BLOCK)
    outside[:, -1] = filler - outside[:, 0]
    between = compositions(rng, np.full(BLOCK, filler), records + 1)
    gaps = np.where(rng.random(BLOCK)[:, None] < 0.5, outside, between)
    body = lay_out(rng, gaps, shuffled_keys, shuffled_values)

    repeats = (length - body.shape[1]) // 2
    rounds = -(-repeats // records)
    chosen = np.hstack([shuffles(rng, BLOCK, records) for _ in range(rounds)])[:, :repeats]
    pairs = [np.take_along_axis(words, chosen, axis=1) for words in (shuffled_keys, shuffled_values)]
    answers = np.zeros(length, dtype=bool)
    answers[body.shape[1] + 1 :: 2] = True
    return np.hstack([body, np.stack(pairs, axis=2).reshape(BLOCK, -1)]), answers


def recall_documents(
    source: RecallSource, stage: CurriculumStage, seed: tuple[int, ...], start: int
) -> Iterator[Document]:
    """The endless stream of documents of `stage.length - 1` words, from document `start` on.

    Document i depends on `seed` and i alone.
    """
    spelled = np.array([f" {word}" for word in animals()[: source.keys] + names()[: source.values]])
    lengths = np.strings.str_len(spelled)
    assert stage.records is not None  # the configuration refuses a recall stage without
    for block in count(start // BLOCK):
        rng = np.random.default_rng((*seed, block))
        words, answers = recall_block(rng, stage.length - 1, stage.records, source.keys, source.values)
        ends = lengths[words].cumsum(axis=1)
        firsts = ends - lengths[words] + 1
        for row in range(start % BLOCK if block == start // BLOCK else 0, BLOCK):
            spans = tuple(zip(firsts[row, answers].tolist(), ends[row, answers].tolist(), strict=True))
            yield Document("".join(spelled[words[row]]), spans)
