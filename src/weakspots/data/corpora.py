"""The documents of a corpus: three sources behind `documents`.

recall  generated text; every stage, and the validation split, has a stream of its own that never ends.
local   files on disk, in an order drawn with the corpus seed: one stream that ends. The texts are held in memory.
hub     a Hugging Face data set, streamed in its own order: one stream that ends. A folder too large for memory can be
        read this way too: `path` may be a local folder.

The last two know nothing of splits: `weakspots.data.prepare` takes the first documents of the stream for validation,
as many as fill it, and the training stages go on from there.
"""

from __future__ import annotations

import glob
import json
from collections.abc import Iterator
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from weakspots.config import Corpus, HubSource, LocalSource, RecallSource
from weakspots.data.document import Document
from weakspots.data.recall import recall_documents
from weakspots.errors import UserError

Split = Literal["train", "validation"]

PACKAGE = "package:"
"""Paths that start with this lie in the package's own resources."""

_VALIDATION_STREAM = 1_000_000
"""Added to the stage in the seed of recall documents: no corpus has that many stages, so no stream is shared."""


def documents(corpus: Corpus, stage: int, split: Split, start: int = 0) -> Iterator[Document]:
    """The documents of `corpus` for stage number `stage`, from number `start` on; the same ones for the same seed.

    Recall documents depend on stage and split, and never end. Local and hub documents depend on neither. Documents
    without any text are left out, and not counted.

    Raises UserError, which names the key of the corpus or the file and line, for what cannot be read.
    """
    source = corpus.source
    if isinstance(source, RecallSource):
        stream = stage if split == "train" else _VALIDATION_STREAM + stage
        return recall_documents(source, corpus.stages[stage], (corpus.seed, stream), start)
    texts = _local_texts(source, corpus.seed) if isinstance(source, LocalSource) else _hub_texts(source)
    return (Document(text) for text in islice((text for text in texts if text.strip()), start, None))


def _local_texts(source: LocalSource, seed: int) -> Iterator[str]:
    """The texts of all files. They are shuffled, so that the first ones stand for the whole (validation needs that)."""
    texts = [text for path in source_files(source.paths) for text in _READERS[path.suffix](path, source.text_field)]
    return (texts[index] for index in np.random.default_rng(seed).permutation(len(texts)))


def source_files(paths: list[str]) -> list[Path]:
    """The files that `source.paths` names, in the order of the list and sorted inside a folder or glob.

    Raises UserError, which names the path, where there are none.
    """
    found: list[Path] = []
    for path in paths:
        if path.startswith(PACKAGE):
            place = Path(str(resources.files("weakspots") / "resources" / path.removeprefix(PACKAGE)))
        else:
            place = Path(path)
        if place.is_dir():
            files = sorted(file for file in place.rglob("*") if file.suffix in _READERS)
            if not files:
                raise UserError(f"source.paths: folder {path} holds no .txt, .jsonl or .parquet file: add one")
        elif place.is_file():
            if place.suffix not in _READERS:
                raise UserError(f"source.paths: {path} is no .txt, .jsonl or .parquet file: convert it to one of these")
            files = [place]
        else:
            matches = sorted(Path(match) for match in glob.glob(str(place), recursive=True))
            files = [file for file in matches if file.suffix in _READERS]
            if not files:
                raise UserError(f"source.paths: {path} does not exist (seen from {Path.cwd()}): correct the path")
        found += files
    return found


def _read_txt(path: Path, field: str) -> list[str]:
    try:
        return [path.read_text(encoding="utf-8")]
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start} is no UTF-8 text: convert the file to UTF-8") from None


def _read_jsonl(path: Path, field: str) -> list[str]:
    texts = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UserError(f"{path}:{number}: no JSON ({error}): correct or remove the line") from None
        if not isinstance(row, dict):
            raise UserError(f"{path}:{number}: no JSON object: every line must be one, with the key {field!r}")
        texts.append(_text_of(row, field, f"{path}:{number}"))
    return texts


def _read_parquet(path: Path, field: str) -> list[str]:
    import pyarrow.parquet as parquet
    from pyarrow import ArrowInvalid, types

    try:
        schema = parquet.read_schema(path)
        _must_have(schema.names, field, str(path))
        kind = schema.field(field).type
        if not (types.is_string(kind) or types.is_large_string(kind)):
            raise UserError(f"{path}: column {field!r} holds {kind}, not text: name another as source.text_field")
        return [text or "" for text in parquet.read_table(path, columns=[field])[field].to_pylist()]
    except (ArrowInvalid, OSError) as error:
        raise UserError(f"{path}: no readable Parquet file ({_first_line(error)}): write it again") from None


_READERS = {".txt": _read_txt, ".jsonl": _read_jsonl, ".parquet": _read_parquet}


def _hub_texts(source: HubSource) -> Iterator[str]:
    from datasets import load_dataset
    from datasets.exceptions import DatasetsError

    try:
        for row in load_dataset(source.path, source.name, split=source.split, revision=source.revision, streaming=True):
            yield _text_of(row, source.text_field, f"data set {source.path}")
    # no such data set, configuration or split, one that is a script, no network, a row it cannot read
    except (OSError, ValueError, RuntimeError, DatasetsError) as error:
        raise UserError(
            f"source.path {source.path!r} cannot be read ({_first_line(error)}): correct source.path, name, split or "
            f"revision, or see that the network is there"
        ) from None


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(":. ")


def _text_of(row: dict, field: str, place: str) -> str:
    _must_have(row, field, place)
    text = row[field]
    if text is None:
        return ""
    if not isinstance(text, str):
        raise UserError(f"{place}: {field!r} holds {type(text).__name__}, not text: name another as source.text_field")
    return text


def _must_have(columns: list[str] | dict, field: str, place: str) -> None:
    if field not in columns:
        raise UserError(f"{place}: no {field!r} among {', '.join(columns)}: name one of these as source.text_field")
