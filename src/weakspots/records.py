"""Records of the animal-to-name lookup: the words, and how records and filler are laid out in a text.

A record is an animal directly followed by a name. Filler is made of the same words but never pairs an animal with a
name: inside one gap names come first and animals after them. So filler cannot be told from records by its words, and a
reader cannot answer by counting words.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

import numpy as np


@cache
def animals() -> tuple[str, ...]:
    """The key words: animals that are one token (with a leading space) in Qwen3's and DeepSeek's tokenizers."""
    return tuple((resources.files("weakspots") / "resources" / "animals.txt").read_text().split())


@cache
def names() -> tuple[str, ...]:
    """The value words: first names that are one token (with a leading space) in the same tokenizers."""
    return tuple((resources.files("weakspots") / "resources" / "names.txt").read_text().split())


def filler(rng: np.random.Generator, length: int, keys: np.ndarray, values: np.ndarray) -> list:
    """`length` words drawn from `values` and then from `keys`, split at random: no key is followed by a value."""
    from_values = int(rng.integers(0, length + 1))
    return [
        *rng.choice(values, from_values).tolist(),
        *rng.choice(keys, length - from_values).tolist(),
    ]


def lay_out(
    rng: np.random.Generator, pairs: list[tuple], gaps: np.ndarray, keys: np.ndarray, values: np.ndarray
) -> tuple[list, list[int]]:
    """Records with filler between them.

    `pairs` holds R (key, value) pairs, `gaps` R + 1 filler lengths: before the first record, between records, after the
    last one. Filler is drawn from `keys` and `values`, which the caller keeps free of words that would be ambiguous.
    Returns the words and the index of every record's key among them.
    """
    words: list = []
    starts: list[int] = []
    for (key, value), gap in zip(pairs, gaps[:-1], strict=True):
        words += filler(rng, int(gap), keys, values)
        starts.append(len(words))
        words += [key, value]
    words += filler(rng, int(gaps[-1]), keys, values)
    return words, starts


def random_gaps(rng: np.random.Generator, total: int, count: int) -> np.ndarray:
    """`count` non-negative integers that sum to `total`, every composition equally likely."""
    if count == 1:
        return np.array([total])
    bars = np.sort(rng.choice(total + count - 1, count - 1, replace=False))
    return np.diff(np.concatenate([[-1], bars, [total + count - 1]])) - 1
