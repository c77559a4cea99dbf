"""Documents come from three sources, in a fixed order; what cannot be read is explained."""

from __future__ import annotations

import json
from itertools import islice

import pyarrow
import pyarrow.parquet
import pytest

from weakspots.config import Corpus
from weakspots.data.corpora import documents
from weakspots.errors import UserError

TEXTS = [f"text number {number}" for number in range(12)]


def texts_of(corpus: Corpus, start: int = 0) -> list[str]:
    return [document.text for document in documents(corpus, 0, "train", start)]


def write_texts(folder, form: str):
    """TEXTS as a folder of .txt files, one .jsonl or one .parquet file; returns what the configuration would name."""
    if form == "txt":
        for number, text in enumerate(TEXTS):
            (folder / f"{number:02}.txt").write_text(text)
        return folder
    path = folder / f"texts.{form}"
    if form == "jsonl":
        path.write_text("".join(json.dumps({"text": text, "n": 1}) + "\n\n" for text in TEXTS))
    else:
        pyarrow.parquet.write_table(pyarrow.table({"n": range(12), "text": TEXTS}), path)
    return path


@pytest.mark.parametrize("form", ["txt", "jsonl", "parquet"])
def test_every_local_format_gives_each_text_once_in_an_order_that_the_seed_decides(tmp_path, text_corpus, form):
    path = str(write_texts(tmp_path, form))
    first, again, other = (texts_of(text_corpus([path], seed=seed)) for seed in (1, 1, 2))
    assert sorted(first) == sorted(TEXTS)
    assert first == again
    assert first != other
    assert first != TEXTS


def test_all_local_formats_give_the_same_stream(tmp_path, text_corpus):
    streams = []
    for form in ("txt", "jsonl", "parquet"):
        folder = tmp_path / form
        folder.mkdir()
        streams.append(texts_of(text_corpus([str(write_texts(folder, form))])))
    assert streams[0] == streams[1] == streams[2]


def test_start_skips_documents(tmp_path, text_corpus):
    corpus = text_corpus([str(write_texts(tmp_path, "jsonl"))])
    assert texts_of(corpus, start=7) == texts_of(corpus)[7:]
    assert texts_of(corpus, start=12) == []


def test_a_glob_and_a_folder_find_the_same_files(tmp_path, text_corpus):
    write_texts(tmp_path, "txt")
    assert texts_of(text_corpus([str(tmp_path / "*.txt")])) == texts_of(text_corpus([str(tmp_path)]))


def test_texts_without_a_word_are_left_out(tmp_path, text_corpus):
    path = tmp_path / "gaps.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a", None, "", " \n", "b"]}), path)
    assert sorted(texts_of(text_corpus([str(path)]))) == ["a", "b"]


def test_the_package_ships_the_state_of_the_union_addresses(text_corpus, prose):
    texts = texts_of(text_corpus(["package:state_of_the_union.parquet"]))
    assert len(texts) == 233
    assert (prose / "1790_george_washington_n.txt").read_text().strip() in texts


def test_a_hub_data_set_streams_from_a_local_folder_in_its_own_order(tmp_path, text_corpus):
    write_texts(tmp_path, "jsonl")
    corpus = text_corpus(source={"kind": "hub", "path": str(tmp_path)})
    assert texts_of(corpus) == TEXTS
    assert texts_of(corpus, start=5) == TEXTS[5:]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_the_other_columns_of_a_hub_data_set_may_differ_from_file_to_file(tmp_path, text_corpus, form):
    columns = [{"meta": [None, None]}, {"meta": [{"a": 1}, {"a": 2}], "more": [1.5, 2.5]}, {"meta": ["x", "y"]}]
    for number, others in enumerate(columns):
        table = pyarrow.table({"text": TEXTS[2 * number : 2 * number + 2], **others})
        if form == "parquet":
            pyarrow.parquet.write_table(table, tmp_path / f"{number}.parquet")
        else:
            (tmp_path / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    for source in ({"kind": "hub", "path": str(tmp_path)}, {"kind": "local", "paths": [str(tmp_path)]}):
        assert sorted(texts_of(text_corpus(source=source))) == sorted(TEXTS[:6])


def test_a_hub_data_set_in_a_form_that_only_datasets_reads_is_left_to_it(tmp_path, text_corpus):
    (tmp_path / "texts.csv").write_text("n,text\n" + "".join(f"{n},{text}\n" for n, text in enumerate(TEXTS)))
    assert texts_of(text_corpus(source={"kind": "hub", "path": str(tmp_path)})) == TEXTS


def test_recall_documents_differ_by_stage_split_and_seed_and_repeat_for_the_same(recall_corpus):
    def first(corpus, stage, split, start=0):
        return [document.text for document in islice(documents(corpus, stage, split, start), 5)]

    streams = [first(recall_corpus, stage, split) for stage in (0, 1) for split in ("train", "validation")]
    streams.append(first(recall_corpus.model_copy(update={"seed": 6}), 0, "train"))
    assert len({text for stream in streams for text in stream}) == 25
    assert first(recall_corpus, 1, "train") == streams[2]
    assert first(recall_corpus, 1, "train", start=2)[:3] == streams[2][2:]


def written(name: str, content: bytes | str):
    def write(folder):
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def parquet(**columns):
    def write(folder):
        path = folder / "table.parquet"
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
        return path

    return write


@pytest.mark.parametrize(
    ("make", "explained"),
    [
        (lambda folder: folder / "absent.txt", ["absent.txt does not exist", "correct the path"]),
        (lambda folder: folder, ["holds none of .txt, .jsonl"]),
        (written("text.csv", "a,b"), ["text.csv is none of .txt, .jsonl"]),
        (written("latin.txt", "na\u00efve".encode("latin-1")), ["latin.txt", "byte 2", "UTF-8"]),
        (written("rows.jsonl", '{"text": "a"}\n\n{"text": \n'), ["rows.jsonl:3", "no JSON"]),
        (written("rows.jsonl", "[1]\n"), ["rows.jsonl:1", "no JSON object"]),
        (written("rows.jsonl", '{"body": "a", "id": 1}\n'), ["rows.jsonl:1", "'text'", "body, id", "text_field"]),
        (written("rows.jsonl", '{"text": 3}\n'), ["rows.jsonl:1", "holds int, not text"]),
        (parquet(body=["a"], year=[1]), ["table.parquet", "'text'", "body, year", "text_field"]),
        (parquet(text=[1, 2]), ["table.parquet", "holds int64, not text"]),
        (written("broken.parquet", "PAR1 and no more"), ["broken.parquet", "no readable Parquet file"]),
    ],
)
def test_a_local_source_that_cannot_be_read_is_explained(tmp_path, text_corpus, make, explained):
    with pytest.raises(UserError) as error:
        texts_of(text_corpus([str(make(tmp_path))]))
    assert all(part in str(error.value) for part in explained), error.value
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("changes", "explained"),
    [
        ({"path": "/no/such/folder"}, ["/no/such/folder", "source.path"]),
        ({"name": "absent"}, ["absent"]),
        ({"split": "test"}, ["test", "train"]),
        ({"text_field": "body"}, ["'body'", "text, n", "text_field"]),
    ],
)
def test_a_hub_source_that_cannot_be_read_is_explained(tmp_path, text_corpus, changes, explained):
    write_texts(tmp_path, "jsonl")
    with pytest.raises(UserError) as error:
        texts_of(text_corpus(source={"kind": "hub", "path": str(tmp_path)} | changes))
    assert all(part in str(error.value) for part in explained), error.value
