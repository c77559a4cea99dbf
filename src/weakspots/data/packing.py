"""Documents to packed token shards (the format is described in `weakspots.data.shards`)."""

from __future__ import annotations

import io
import json
import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
from tokenizers import Encoding

from weakspots.data.document import Document
from weakspots.data.shards import INDEX, read_index
from weakspots.data.tokenization import Encoder, Tokens
from weakspots.files.atomic import writing
from weakspots.files.hashes import sha256_of

_BATCH_CHARACTERS = 1 << 19
"""Characters encoded at a time, per thread: enough for all to be busy, little enough to hold in memory."""

_log = logging.getLogger(__name__)


def write_shards(
    folder: Path,
    documents: Callable[[int], Iterator[Document]],
    encoder: Encoder,
    *,
    start: int,
    token_limit: int,
    shard_tokens: int,
    with_answers: bool,
    workers: int = 1,
) -> list[dict]:
    """Write the first `token_limit` tokens of the documents from number `start` on, or all if there are fewer.

    `documents(n)` are the documents from number n on. A shard is closed at the first document boundary after
    `shard_tokens` tokens; the last document is cut at `token_limit`. The Rust threads encode a batch while the one
    before is packed, hashed and written; `workers`, their number, sets how much text that is. Shards that are there
    already are kept. Returns the lines of shards.jsonl.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shards = _Shards(folder, encoder, start, token_limit, shard_tokens, with_answers)
    if shards.finished:
        return shards.lines
    encoded = sum(line["tokens"] for line in shards.lines)
    read = shards.next_document
    stream = documents(read)
    with ThreadPoolExecutor(1) as packer:
        packing: Future | None = None
        while encoded < token_limit and (batch := _batch(stream, workers * _BATCH_CHARACTERS)):
            encodings = encoder.encode(batch)
            encoded += len(batch) + sum(map(len, encodings))
            read += len(batch)
            if packing:
                packing.result()
            packing = packer.submit(shards.add, batch, encodings)
        if packing:
            packing.result()
    shards.close(exhausted=read == shards.next_document and next(stream, None) is None)
    return shards.lines


def _batch(stream: Iterator[Document], size: int) -> list[Document]:
    """The next documents of the stream, up to `size` characters and at least one, unless the stream has ended."""
    batch, characters = [], 0
    while characters < size and (document := next(stream, None)):
        batch.append(document)
        characters += len(document.text)
    return batch


class _Shards:
    """The shards of one folder: those that exist, and the one that fills up."""

    def __init__(
        self, folder: Path, encoder: Encoder, start: int, token_limit: int, shard_tokens: int, with_answers: bool
    ):
        self.folder, self.encoder, self.shard_tokens, self.with_answers = folder, encoder, shard_tokens, with_answers
        self.lines = read_index(folder)
        _drop_unfinished_line(folder / INDEX)
        self.next_document = self.lines[-1]["next_document"] if self.lines else start
        self.room = token_limit - sum(line["tokens"] for line in self.lines)
        self.pending: list[Tokens] = []
        self.pending_tokens = 0

    @property
    def finished(self) -> bool:
        return bool(self.lines) and self.lines[-1]["last"]

    def add(self, batch: list[Document], encodings: list[Encoding]) -> None:
        """Pack a batch, up to the token limit."""
        for document, encoding in zip(batch, encodings, strict=True):
            if not self.room:
                return
            if self.pending_tokens >= self.shard_tokens:
                self._write(last=False, exhausted=False)
            tokens = self.encoder.tokens(document, encoding)
            if len(tokens.ids) > self.room:
                tokens = Tokens(tokens.ids[: self.room], tokens.answers[: self.room])
            self.pending.append(tokens)
            self.pending_tokens += len(tokens.ids)
            self.room -= len(tokens.ids)
            self.next_document += 1

    def close(self, exhausted: bool) -> None:
        """Write the last shard; `exhausted`: no document is left after it."""
        if self.pending:
            self._write(last=True, exhausted=exhausted)

    def _write(self, last: bool, exhausted: bool) -> None:
        arrays = {"tokens": np.concatenate([tokens.ids for tokens in self.pending])}
        if self.with_answers:
            arrays["answers"] = np.concatenate([tokens.answers for tokens in self.pending])
        arrays["documents"] = np.cumsum([0, *(len(tokens.ids) for tokens in self.pending[:-1])], dtype=np.int64)
        number = len(self.lines)
        named = {f"{number:05}.{kind}.npy": array for kind, array in arrays.items()}
        line = {
            "tokens": self.pending_tokens,
            "documents": len(self.pending),
            "next_document": self.next_document,
            "files": {name: _write_array(self.folder / name, array) for name, array in named.items()},
            "last": last,
            "exhausted": exhausted,
        }
        with open(self.folder / INDEX, "a") as index:
            index.write(json.dumps(line) + "\n")
        self.lines.append(line)
        self.pending, self.pending_tokens = [], 0
        _log.info("%s: shard %d, %d tokens", self.folder.name, number, line["tokens"])


def _drop_unfinished_line(index: Path) -> None:
    """Cut off what a killed writer wrote of a line, so that the next line starts where it should."""
    if index.exists():
        content = index.read_bytes()
        complete = content.rfind(b"\n") + 1
        if complete != len(content):
            os.truncate(index, complete)


def _write_array(path: Path, array: np.ndarray) -> dict:
    """Write a .npy file, whole or not at all; returns its size and hash."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    content = buffer.getbuffer()
    with writing(path) as unfinished:
        unfinished.write_bytes(content)
    return {"bytes": len(content), "sha256": sha256_of(content)}
