"""Shards hold one stream of tokens, however they are cut, and a reader refuses what is damaged."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from documents import document_starts
from hypothesis import given, settings
from hypothesis import strategies as st

from weakspots.data.document import Document
from weakspots.data.packing import write_shards
from weakspots.data.shards import INDEX, Sequences
from weakspots.data.tokenization import Encoder, build_tokenizer
from weakspots.errors import UserError
from weakspots.task.records import animals


@pytest.fixture
def encoder(recall_corpus) -> Encoder:
    """Animal number i is token i + 1; end of text is token 0."""
    return Encoder(build_tokenizer(recall_corpus))


def write(folder, encoder, numbers: list[list[int]], limit: int, shard_tokens: int, start: int = 0) -> list[dict]:
    """Documents given by the numbers of their words; the first word of each is marked as an answer."""
    texts = [" ".join(animals()[number] for number in document) for document in numbers]
    made = [Document(text, ((0, text.find(" ") if " " in text else len(text)),)) for text in texts]
    return write_shards(
        Path(folder),
        lambda first: islice(made, first, None),
        encoder,
        start=start,
        token_limit=limit,
        shard_tokens=shard_tokens,
        with_answers=True,
    )


@settings(max_examples=40, deadline=None)
@given(
    numbers=st.lists(st.lists(st.integers(0, 19), min_size=1, max_size=12), min_size=1, max_size=15),
    limit=st.integers(1, 120),
    shard_tokens=st.integers(1, 30),
    length=st.integers(1, 9),
)
def test_sequences_are_the_documents_one_after_the_other(recall_corpus, numbers, limit, shard_tokens, length):
    stream = [token for document in numbers for token in [0, *(number + 1 for number in document)]][:limit]
    marks = [mark for document in numbers for mark in [0, 1, *[0] * (len(document) - 1)]][:limit]
    with TemporaryDirectory() as folder:
        lines = write(folder, Encoder(build_tokenizer(recall_corpus)), numbers, limit, shard_tokens)
        sequences = Sequences(folder, length)
        tokens, answers = sequences.read(np.arange(len(sequences)))
        starts = document_starts(Path(folder))
    assert len(sequences) == len(stream) // length
    assert tokens.ravel().tolist() == stream[: tokens.size]
    assert answers.ravel().tolist() == [bool(mark) for mark in marks[: answers.size]]
    assert starts.tolist() == [place for place, token in enumerate(stream) if token == 0]
    assert sum(line["tokens"] for line in lines) == len(stream)
    assert all(line["tokens"] >= shard_tokens for line in lines[:-1])


def test_the_index_says_where_the_next_part_goes_on(tmp_path, encoder):
    numbers = [[1, 2, 3], [4, 5], [6]]
    cut = write(tmp_path / "cut", encoder, numbers, limit=6, shard_tokens=100)[-1]
    assert (cut["next_document"], cut["exhausted"]) == (2, False)
    exact = write(tmp_path / "exact", encoder, numbers, limit=9, shard_tokens=100)[-1]
    assert (exact["next_document"], exact["exhausted"]) == (3, True)
    later = write(tmp_path / "later", encoder, numbers, limit=100, shard_tokens=100, start=2)
    assert [line["tokens"] for line in later] == [2]


def test_sequences_are_read_in_any_order_from_mapped_files(tmp_path, encoder):
    write(tmp_path, encoder, [[number, number] for number in range(20)], limit=60, shard_tokens=7)
    sequences = Sequences(tmp_path, 3)
    tokens, _ = sequences.read([19, 0, 7, 7])
    assert tokens.tolist() == [[0, 20, 20], [0, 1, 1], [0, 8, 8], [0, 8, 8]]
    assert tokens.dtype == np.int64
    assert str(tmp_path / "00000.tokens.npy") in Path("/proc/self/maps").read_text()
    for index in (20, -1):
        with pytest.raises(IndexError):
            sequences.read([index])


def test_a_writer_goes_on_after_the_last_complete_shard(tmp_path, encoder):
    numbers = [[number] * 5 for number in range(20)]
    write(tmp_path / "whole", encoder, numbers, limit=110, shard_tokens=12)
    write(tmp_path / "torn", encoder, numbers, limit=110, shard_tokens=12)
    index = tmp_path / "torn" / INDEX
    lines = index.read_text().splitlines(keepends=True)
    index.write_text("".join(lines[:4]) + lines[4][:30])  # the writer died while it wrote the fifth line
    for shard in range(5, len(lines)):
        for file in (tmp_path / "torn").glob(f"{shard:05}.*"):
            file.unlink()
    kept = tmp_path / "torn" / "00003.tokens.npy"
    before = kept.stat().st_mtime_ns
    write(tmp_path / "torn", encoder, numbers, limit=110, shard_tokens=12)
    assert kept.stat().st_mtime_ns == before
    assert contents(tmp_path / "torn") == contents(tmp_path / "whole")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def flip_last_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "explained"),
    [
        (lambda folder: (folder / "00001.tokens.npy").unlink(), "00001.tokens.npy is missing"),
        (lambda folder: (folder / "00001.tokens.npy").write_bytes(b"short"), "00001.tokens.npy is damaged .bytes 5 "),
        (lambda folder: flip_last_byte(folder / "00001.tokens.npy"), "00001.tokens.npy is damaged .sha256 "),
        (lambda folder: flip_last_byte(folder / "00001.answers.npy"), "00001.answers.npy is damaged .sha256 "),
        (lambda folder: (folder / INDEX).unlink(), "holds no complete token shards"),
        (lambda folder: (folder / INDEX).write_text('{"last": false}\n'), "holds no complete token shards"),
    ],
)
def test_a_damaged_shard_is_refused_by_name(tmp_path, encoder, damage, explained):
    write(tmp_path, encoder, [[number] for number in range(20)], limit=40, shard_tokens=10)
    damage(tmp_path)
    with pytest.raises(UserError, match=explained):
        Sequences(tmp_path, 4).read(range(10))
