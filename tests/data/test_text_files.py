"""Text files as they are published: every name, layout and encoding is read right, or refused with file and row."""

from __future__ import annotations

import bz2
import gzip
import json
import os
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from datasets import Dataset

from weakspots.data.text_files import left_out, source_files, texts
from weakspots.errors import UserError

TEXTS = ["A first text.\nIt has two lines.", "Zweiter Text: ü, 漢字, 🙂", ""]
LINES = "".join(json.dumps({"id": number, "text": text}) + "\n" for number, text in enumerate(TEXTS)).encode()
TABLE = pa.table({"id": [0, 1, 2], "text": TEXTS})


def zstd(content: bytes) -> bytes:
    return pa.compress(content, "zstd", asbytes=True)


def lz4(path: Path) -> None:
    with pa.output_stream(str(path), compression="lz4") as stream:
        stream.write(LINES)


def spark(path: Path) -> None:
    """As Spark writes a folder: parts, a mark of success, hidden checksums, columns by folder."""
    part = path / "lang=en" / "text=7"
    part.mkdir(parents=True)
    parquet.write_table(TABLE, part / "part-00000-c000.snappy.parquet", compression="snappy")
    (path / "_SUCCESS").touch()
    (part / ".part-00000-c000.snappy.parquet.crc").write_bytes(b"crc\0")


def pandas_category(path: Path) -> None:
    pd.DataFrame({"text": pd.Categorical(TEXTS), "year": [1, 2, 3]}).to_parquet(path)


def arrow_file(path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)


PUBLISHED = {
    "jsonl": ("a.jsonl", lambda path: path.write_bytes(LINES)),
    "ndjson": ("a.ndjson", lambda path: path.write_bytes(LINES)),
    "Dolma (jsonl.gz)": ("c4-0001.jsonl.gz", lambda path: path.write_bytes(gzip.compress(LINES))),
    "jsonl.bz2": ("a.jsonl.bz2", lambda path: path.write_bytes(bz2.compress(LINES))),
    "jsonl.zst": ("a.jsonl.zst", lambda path: path.write_bytes(zstd(LINES))),
    "jsonl.lz4": ("a.jsonl.lz4", lz4),
    "Windows (mark, line ends)": (
        "A.JSONL",
        lambda path: path.write_bytes(b"\xef\xbb\xbf" + LINES.replace(b"\n", b"\r\n")),
    ),
    "UTF-16": ("a.jsonl", lambda path: path.write_bytes(LINES.decode().encode("utf-16"))),
    "Parquet": ("a.parquet", lambda path: parquet.write_table(TABLE, path)),
    "polars (large strings)": (
        "a.parquet",
        lambda path: parquet.write_table(
            TABLE.cast(pa.schema([("id", pa.int64()), ("text", pa.large_string())])), path
        ),
    ),
    "pandas (categories)": ("a.parquet", pandas_category),
    "row groups": ("a.parquet", lambda path: parquet.write_table(TABLE, path, row_group_size=1)),
    "Spark": ("folder", spark),
    "Arrow": ("a.arrow", arrow_file),
    "datasets.save_to_disk": ("folder", lambda path: Dataset.from_dict({"text": TEXTS}).save_to_disk(path)),
}


@pytest.mark.parametrize(("name", "write"), PUBLISHED.values(), ids=PUBLISHED)
def test_every_form_in_which_corpora_are_published_gives_the_same_texts(tmp_path, name, write):
    write(tmp_path / name)
    found = [text for file in source_files([str(tmp_path)]) for text in texts(file, "text")]
    assert found == TEXTS


@pytest.mark.parametrize(
    "name",
    [
        "O'Brien (1).txt",
        "my notes.txt",
        "a;echo hi>PWNED.txt",
        "a{b}.txt",
        "-x.txt",
        "$(touch x).txt",
        "LOUD.TXT",
        "[1].txt",
    ],
)
def test_any_name_is_a_name(tmp_path, name):
    (tmp_path / name).write_text("text")
    for path in (tmp_path, tmp_path / name, f"{tmp_path}/*"):
        (file,) = source_files([str(path)])
        assert list(texts(file, "text")) == ["text"]


def test_a_folder_and_a_pattern_find_the_same_files(tmp_path):
    for name in ("b.txt", "a.jsonl.gz", "sub/c.TXT", ".ipynb_checkpoints/b.txt", "sub/._c.txt", "notes.md", "d.jsonl~"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    folder, pattern = (source_files([path]) for path in (str(tmp_path), f"{tmp_path}/**/*"))
    assert folder == pattern
    assert [file.name for file in folder] == ["a.jsonl.gz", "b.txt", "c.TXT"]
    for path in (str(tmp_path), f"{tmp_path}/**/*"):
        assert "notes.md" in left_out([path]) and "d.jsonl~" in left_out([path])
        assert "checkpoints" not in left_out([path])


def test_folders_that_are_linked_are_read_and_a_loop_ends(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "there/a.txt").write_text("a")
    (tmp_path / "here/linked").symlink_to(tmp_path / "there")
    (tmp_path / "here/loop").symlink_to(tmp_path / "here")
    assert [file.name for file in source_files([str(tmp_path / "here")])] == ["a.txt"]


def test_what_is_left_out_is_counted_beyond_five(tmp_path):
    for number in range(9):
        (tmp_path / f"{number}.md").touch()
    (tmp_path / "a.txt").touch()
    assert "and 4 more" in left_out([str(tmp_path)])
    assert left_out([str(tmp_path / "a.txt")]) == ""


def written(name, content):
    return lambda folder: (folder / name).write_bytes(content)


REFUSED = {
    "half a surrogate pair": (
        written("a.jsonl", b'{"text": "ok"}\n{"text": "cut here \\ud83d"}\n'),
        r"a.jsonl:2: .*half a surrogate",
    ),
    "no UTF-8": (written("a.txt", "naïve".encode("latin-1")), r"a.txt: byte 2 is no UTF-8"),
    "no JSON": (written("a.jsonl", b'{"text": "a"}\n{"text": '), r"a.jsonl:2: no JSON"),
    "nested too deeply": (written("a.jsonl", b"[" * 100_000), r"a.jsonl:1: no JSON"),
    "a list": (written("a.jsonl", b"[1]"), r"a.jsonl:1: no JSON object"),
    "another key": (written("a.jsonl", b'{"content": "a"}'), r"a.jsonl:1: no 'text' among content"),
    "a number": (written("a.jsonl", b'{"text": 3}'), r"a.jsonl:1: 'text' holds int"),
    "a torn gzip": (written("a.jsonl.gz", gzip.compress(LINES)[:-9]), r"a.jsonl.gz"),
    "no gzip": (written("a.txt.gz", b"plain"), r"a.txt.gz: cannot be read"),
    "a torn Parquet file": (written("a.parquet", b"PAR1 and then nothing"), r"a.parquet: no readable Parquet"),
    "no Arrow": (written("a.arrow", b"nothing"), r"a.arrow: no readable Arrow"),
    "nothing known": (written("a.docx", b""), r"holds none of"),
}


@pytest.mark.parametrize(("make", "explained"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_is_refused_in_one_line_with_file_and_row(tmp_path, make, explained):
    make(tmp_path)
    with pytest.raises(UserError, match=explained) as refused:
        [text for file in source_files([str(tmp_path)]) for text in texts(file, "text")]
    assert "\n" not in str(refused.value)


def test_a_path_that_does_not_exist_is_refused(tmp_path):
    for path in (tmp_path / "none", tmp_path / "*.txt"):
        with pytest.raises(UserError, match="does not exist"):
            source_files([str(path)])


def test_ten_thousand_files_are_found_in_a_second(tmp_path):
    for number in range(10_000):
        os.close(os.open(tmp_path / f"{number}.txt", os.O_CREAT))
    assert len(source_files([str(tmp_path)])) == 10_000
