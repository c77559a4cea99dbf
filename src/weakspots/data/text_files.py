"""Texts in files, as corpora are published: plain text, JSON lines, Parquet and Arrow, compressed or not.

A file is read right, or refused in one line that names it, the row and the reason. What no reader knows, and what is
hidden (`.ipynb_checkpoints`, `._notes.txt`), is left out; `left_out` says what.
"""

from __future__ import annotations

import codecs
import glob
import json
import os
from collections.abc import Callable, Iterable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

from weakspots.errors import UserError, in_brackets

PACKAGE = "package:"
"""Paths that start with this lie in the package's own resources."""

FORMATS = ".txt, .jsonl, .ndjson, .parquet and .arrow, the first three also as .gz, .zst, .bz2 or .lz4"
_COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_NAMED = 5  # of the files that are left out


def source_files(paths: Iterable[str]) -> list[Path]:
    """The files that `paths` names, in the order of the list and sorted inside a folder or glob; links are followed.

    Raises UserError, which names the path, where there are none that can be read.
    """
    return [file for path in paths for file in _split(path)[0]]


def left_out(paths: Iterable[str]) -> str:
    """A sentence about the files that `paths` names and no reader knows; empty where there are none."""
    others = [str(file) for path in paths for file in _split(path)[1]]
    if not others:
        return ""
    more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    return f"left out, since only {FORMATS} are read: {', '.join(others[:_NAMED])}{more}"


def is_readable(path: Path) -> bool:
    """Whether there is such a file, and a reader for it."""
    return path.is_file() and _reader(path) is not None


def texts(path: Path, field: str) -> Iterator[str]:
    """The texts of a file: a plain text file is one, the others have one per row, in the column or key `field`.

    Raises UserError, which names the file and the row, for what cannot be read.
    """
    reader = _reader(path)
    assert reader is not None, f"{path} is not among source_files"
    for number, text in reader(path, field):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            place = f"{path}:{number}" if number else str(path)
            raise UserError(
                f"{place}: character {error.start} is half a surrogate pair ({text[error.start]!r}), which is no text: "
                "correct or remove it"
            ) from None
        yield text


def text_of(row: Any, field: str, place: str) -> str:
    """The text in `field` of a row, empty where there is none. Raises UserError, which begins with `place`."""
    if field not in row:
        raise UserError(f"{place}: no {field!r} among {', '.join(row)}: name one of these as source.text_field")
    text = row[field]
    if text is None:
        return ""
    if not isinstance(text, str):
        raise UserError(f"{place}: {field!r} holds {type(text).__name__}, not text: name another as source.text_field")
    return text


def _split(path: str) -> tuple[list[Path], list[Path]]:
    """The files of one entry of `source.paths`: those that are read, and those that no reader knows."""
    place = Path(str(resources.files("weakspots") / "resources" / path.removeprefix(PACKAGE)))
    if not path.startswith(PACKAGE):
        place = Path(path)
    if place.is_file():
        if _reader(place) is None:
            raise UserError(f"source.paths: {path} is none of {FORMATS}: convert it to one of these")
        return [place], []
    if place.is_dir():
        found = list(_walk(place))
    else:
        matches = [Path(match) for match in glob.glob(str(place), recursive=True)]
        if not matches:
            raise UserError(f"source.paths: {path} does not exist (seen from {Path.cwd()}): correct the path")
        found = [file for match in matches for file in (_walk(match) if match.is_dir() else [match])]
    found = sorted(set(found))
    read = [file for file in found if _reader(file) is not None]
    if not read:
        kind = "folder" if place.is_dir() else "pattern"
        raise UserError(f"source.paths: {kind} {path} holds none of {FORMATS}: add one")
    return read, [file for file in found if _reader(file) is None]


def _walk(folder: Path) -> Iterator[Path]:
    """The files below a folder, hidden ones and those of hidden folders left out. A folder that is linked in is read
    like another; one that contains itself, once.
    """
    seen = set()
    for root, folders, files in os.walk(folder, followlinks=True):
        real = os.path.realpath(root)
        folders[:] = [] if real in seen else [name for name in folders if not name.startswith((".", "_"))]
        if real not in seen:
            yield from (Path(root, name) for name in files if not name.startswith((".", "_")))
        seen.add(real)


def _reader(path: Path) -> Callable[[Path, str], Iterator[tuple[int, str]]] | None:
    """By the name's ending, in any case; that of a compressed file stands before the ending that says so."""
    if path.name.startswith((".", "_")):
        return None
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes and suffixes[-1] in _COMPRESSED:
        return _READERS.get(suffixes[0]) if len(suffixes) == 2 and suffixes[0] in _LINES else None
    return _READERS.get(suffixes[-1]) if suffixes else None


def _content(path: Path) -> str:
    """A file's text: UTF-8, or UTF-16 where its first bytes say so, with one kind of line end."""
    import pyarrow

    compression = _COMPRESSED.get(path.suffix.lower())
    try:
        with pyarrow.input_stream(str(path), compression=compression) as stream:
            content = stream.read()
    except (OSError, pyarrow.ArrowException) as error:
        raise UserError(f"{path}: cannot be read ({in_brackets(error)}): write or fetch it again") from None
    encoding = next((name for mark, name in _MARKS.items() if content.startswith(mark)), "utf-8")
    try:
        return content.decode(encoding).replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start} is no UTF-8 text: convert the file to UTF-8") from None


def _read_txt(path: Path, field: str) -> Iterator[tuple[int, str]]:
    yield 0, _content(path)


def _read_jsonl(path: Path, field: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(_content(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}:{number}: no JSON ({in_brackets(error)}): correct or remove the line") from None
        if not isinstance(row, dict):
            raise UserError(f"{path}:{number}: no JSON object: every line must be one, with the key {field!r}")
        yield number, text_of(row, field, f"{path}:{number}")


def _read_parquet(path: Path, field: str) -> Iterator[tuple[int, str]]:
    import pyarrow
    from pyarrow.parquet import ParquetFile

    # not read_table, which takes folders called lang=en for another column
    try:
        with ParquetFile(path) as file:
            _must_hold_text(path, file.schema_arrow, field)
            yield from _rows(batch.column(0) for batch in file.iter_batches(columns=[field]))
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path}: no readable Parquet file ({in_brackets(error)}): write it again") from None


def _read_arrow(path: Path, field: str) -> Iterator[tuple[int, str]]:
    import pyarrow

    try:
        with pyarrow.memory_map(str(path)) as source:
            try:
                reader: Any = pyarrow.ipc.open_file(source)
                batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
            except pyarrow.ArrowInvalid:  # as `datasets` writes them: a stream
                source.seek(0)
                reader = batches = pyarrow.ipc.open_stream(source)
            _must_hold_text(path, reader.schema, field)
            yield from _rows(batch.column(batch.schema.get_field_index(field)) for batch in batches)
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path}: no readable Arrow file ({in_brackets(error)}): write it again") from None


def _rows(columns: Iterable[Any]) -> Iterator[tuple[int, str]]:
    number = 0
    for column in columns:
        for text in column.to_pylist():
            number += 1
            yield number, text or ""


def _must_hold_text(path: Path, schema: Any, field: str) -> None:
    from pyarrow import types

    text_of(dict.fromkeys(schema.names), field, str(path))
    kind = schema.field(field).type
    held = kind.value_type if types.is_dictionary(kind) else kind
    if not (types.is_string(held) or types.is_large_string(held) or types.is_string_view(held) or types.is_null(held)):
        raise UserError(f"{path}: column {field!r} holds {kind}, not text: name another as source.text_field")


_READERS = {
    ".txt": _read_txt,
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".parquet": _read_parquet,
    ".arrow": _read_arrow,
}
_LINES = (".txt", ".jsonl", ".ndjson")
