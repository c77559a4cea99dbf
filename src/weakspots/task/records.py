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


def shuffles(rng: np.random.Generator, count: int, size: int) -> np.ndarray:
    """`[count, size]` independent random orders of 0 .. size - 1."""
    return rng.permuted(np.tile(np.arange(size), (count, 1)), axis=1)


def compositions(rng: np.random.Generator, totals: np.ndarray, parts: int) -> np.ndarray:
    """`[N, parts]` non-negative integers with row sums `totals` `[N]`, every composition equally likely.

    Bars among totals + parts - 1 places; the parts are what lies between.
    """
    places = totals + parts - 1
    lots = rng.random((len(totals), places.max() + 1))
    lots[np.arange(lots.shape[1]) >= places[:, None]] = np.inf
    bars = np.sort(np.argsort(lots, axis=1)[:, : parts - 1], axis=1)
    edges = np.hstack([np.full((len(totals), 1), -1), bars, places[:, None]])
    return np.diff(edges, axis=1) - 1


def lay_out(rng: np.random.Generator, gaps: np.ndarray, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`[N, 2R + filler]` words: R records with `gaps` `[N, R + 1]` words of filler before, between and after them.

    All rows of `gaps` have one sum. Row n's records are the first R of `keys` `[N, K]` with the first R of `values`
    `[N, V]`; its filler is drawn from the others, so K and V must be larger than R.
    """
    count, size = gaps.shape[0], gaps.shape[1] - 1
    places = np.arange(2 * size + int(gaps[0].sum()))
    key_at = np.cumsum(gaps[:, :-1], axis=1) + 2 * np.arange(size)
    is_key = np.zeros((count, len(places)), dtype=np.int64)
    np.put_along_axis(is_key, key_at, 1, axis=1)

    # Inside a gap, values come first and keys after them, so that no key of the filler is followed by a value.
    gap = np.cumsum(is_key, axis=1)
    gap_start = np.hstack([np.zeros((count, 1), dtype=np.int64), key_at + 2])
    from_values = rng.integers(0, gaps + 1)
    inside = places - np.take_along_axis(gap_start, gap, axis=1)
    spare_keys = np.take_along_axis(keys, rng.integers(size, keys.shape[1], inside.shape), axis=1)
    spare_values = np.take_along_axis(values, rng.integers(size, values.shape[1], inside.shape), axis=1)
    words = np.where(inside < np.take_along_axis(from_values, gap, axis=1), spare_values, spare_keys)

    np.put_along_axis(words, key_at, keys[:, :size], axis=1)
    np.put_along_axis(words, key_at + 1, values[:, :size], axis=1)
    return words
