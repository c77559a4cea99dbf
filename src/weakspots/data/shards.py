"""Packed token shards on disk.

A part of a corpus (one training stage, or validation) is a folder with one stream of tokens, cut into shards at
document boundaries:

    00000.tokens.npy     uint16 or uint32 [n]: every document starts with the end-of-text token
    00000.answers.npy    bool [n]: tokens of answers; only when the source marks answers
    00000.documents.npy  int64 [d]: where the documents start in this shard
    shards.jsonl         one line per shard, written after its files: counts, sizes and hashes

A line in shards.jsonl says that its shard is complete, so a killed writer goes on after the last one. What is written
depends on the documents and the tokenizer only, not on batches, threads or interruptions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from weakspots.errors import UserError
from weakspots.files.hashes import sha256

INDEX = "shards.jsonl"


def read_index(folder: Path) -> list[dict]:
    """The lines of shards.jsonl, without one that a killed writer left unfinished."""
    path = folder / INDEX
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


class Sequences:
    """The sequences of `length` tokens in a folder of shards, read from the memory-mapped files.

    Sequence i is tokens i * length to (i + 1) * length of the stream; a rest shorter than that is not read. The hash of
    a shard is checked when it is first read, the sizes of all files at once. Raises UserError for a missing, unfinished
    or damaged shard.
    """

    def __init__(self, folder: Path | str, length: int):
        self.folder, self.length = Path(folder), length
        self._lines = read_index(self.folder)
        if not self._lines or not self._lines[-1]["last"]:
            raise UserError(f"{self.folder} holds no complete token shards: prepare the corpus again")
        for line in self._lines:
            for name, file in line["files"].items():
                self._check(name, "bytes", file["bytes"], _size)
        self._ends = np.cumsum([line["tokens"] for line in self._lines])
        self._open: dict[int, dict[str, np.ndarray]] = {}

    def __len__(self) -> int:
        return int(self._ends[-1]) // self.length

    def read(self, indices: np.ndarray | Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """The sequences `indices` [n]: tokens int64 [n, length] and answers bool [n, length], all False without marks.

        Raises IndexError for an index that is not in 0 .. len(self) - 1.
        """
        tokens = np.empty((len(indices), self.length), np.int64)
        answers = np.zeros((len(indices), self.length), bool)
        for row, index in enumerate(indices):
            if not 0 <= index < len(self):
                raise IndexError(f"sequence {index} of {len(self)} in {self.folder}")
            begin, end = int(index) * self.length, (int(index) + 1) * self.length
            shard = int(np.searchsorted(self._ends, begin, side="right"))
            filled = 0
            while filled < self.length:
                first = begin + filled - (int(self._ends[shard - 1]) if shard else 0)
                stop = first + min(end, int(self._ends[shard])) - begin - filled
                arrays = self._shard(shard)
                tokens[row, filled : filled + stop - first] = arrays["tokens"][first:stop]
                if "answers" in arrays:
                    answers[row, filled : filled + stop - first] = arrays["answers"][first:stop]
                filled += stop - first
                shard += 1
        return tokens, answers

    def place(self, index: int) -> str:
        """Where sequence `index` begins, in words: the shard's file and the token in it."""
        begin = int(index) * self.length
        shard = int(np.searchsorted(self._ends, begin, side="right"))
        offset = begin - (int(self._ends[shard - 1]) if shard else 0)
        name = next(name for name in self._lines[shard]["files"] if name.split(".")[1] == "tokens")
        return f"{self.folder / name} at token {offset}"

    def _shard(self, number: int) -> dict[str, np.ndarray]:
        if number not in self._open:
            arrays = {}
            for name, file in self._lines[number]["files"].items():
                self._check(name, "sha256", file["sha256"], sha256)
                arrays[name.split(".")[1]] = np.load(self.folder / name, mmap_mode="r")
            self._open[number] = arrays
        return self._open[number]

    def _check(self, name: str, what: str, expected: object, measure: Callable[[Path], object]) -> None:
        path = self.folder / name
        if not path.is_file():
            raise UserError(f"{path} is missing: prepare the corpus again")
        found = measure(path)
        if found != expected:
            raise UserError(f"{path} is damaged ({what} {found} instead of {expected}): prepare the corpus again")


def _size(path: Path) -> int:
    return path.stat().st_size
