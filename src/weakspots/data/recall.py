"""The recall corpus: documents that teach a model to look up what it has read.

A document holds R records (an animal, then its name) with filler around them, and then repeats of these records in
random order until it is full. The names of the repeats are its answers: they can be known only from the records.
Half of the documents have their filler before the first and after the last record only, half between all records, so
that both paddings of the evaluation look like something the model has read.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from weakspots.config import RecallSource, Stage
from weakspots.data.document import Document
from weakspots.records import animals, lay_out, names, random_gaps


def recall_words(
    rng: np.random.Generator, length: int, records: int, keys: int, values: int
) -> tuple[np.ndarray, np.ndarray]:
    """One document as word numbers `[length]` (keys from 0 on, values from `keys` on) and a mask of its answers.

    Filler never uses a record's key, so an animal that has a record is always followed by its name.
    """
    order = rng.permutation(keys)
    record_keys = order[:records].tolist()
    record_values = (keys + rng.permutation(values)[:records]).tolist()
    pairs = list(zip(record_keys, record_values, strict=True))
    room = length - 2 * records - 2 * records  # at least as many repeats as records
    padding = int(rng.integers(0, room + 1))
    padding += (length - padding) % 2  # the repeats fill what is left in pairs
    if rng.random() < 0.5:
        before = int(rng.integers(0, padding + 1))
        gaps = np.array([before, *[0] * (records - 1), padding - before])
    else:
        gaps = random_gaps(rng, padding, records + 1)
    words, _ = lay_out(rng, pairs, gaps, order[records:], np.arange(keys, keys + values))
    repeats = (length - len(words)) // 2
    chosen = np.concatenate([rng.permutation(records) for _ in range(-(-repeats // records))])[:repeats]
    answers = np.zeros(length, dtype=bool)
    answers[len(words) + 1 :: 2] = True
    for index in chosen:
        words += pairs[index]
    return np.array(words), answers


def recall_documents(source: RecallSource, stage: Stage, seed: tuple[int, ...], start: int) -> Iterator[Document]:
    """The endless stream of documents of `stage.length - 1` words, from document `start` on.

    Document i depends on `seed` and i alone.
    """
    vocabulary = animals()[: source.keys] + names()[: source.values]
    spelled = [f" {word}" for word in vocabulary]
    ends = np.array([len(word) for word in spelled])
    index = start
    while True:
        rng = np.random.default_rng((*seed, index))
        words, answers = recall_words(rng, stage.length - 1, stage.records, source.keys, source.values)
        stop = ends[words].cumsum()
        spans = tuple((int(stop[i] - ends[words[i]] + 1), int(stop[i])) for i in np.flatnonzero(answers))
        yield Document("".join(spelled[word] for word in words), spans)
        index += 1
