"""A prepared corpus is the same to the byte for a seed, whatever the workers and interruptions."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from documents import document_starts
from transformers import PreTrainedTokenizerFast

from weakspots.config import Corpus
from weakspots.data.corpora import documents
from weakspots.data.prepare import MANIFEST, prepare
from weakspots.data.shards import INDEX, Sequences
from weakspots.errors import UserError

PREPARE = """
import sys
from pathlib import Path
from weakspots.config import Corpus
from weakspots.data.prepare import prepare
prepare(Corpus.model_validate_json(sys.argv[1]), "prose", Path(sys.argv[2]), int(sys.argv[3]))
"""


def start_process(corpus: Corpus, output: Path, workers: int) -> subprocess.Popen:
    """`prepare` in a process of its own: the threads of `tokenizers` are counted once per process."""
    return subprocess.Popen([sys.executable, "-c", PREPARE, corpus.model_dump_json(), str(output), str(workers)])


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def addresses(text_corpus) -> Corpus:
    """Some of the State of the Union addresses, nearly every one a shard of its own."""
    return text_corpus(
        ["package:state_of_the_union.parquet"],
        sequences=8_000,
        tokenizer={"kind": "bytes", "vocabulary": 600, "training_documents": 10},
    )


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, addresses) -> Path:
    """The addresses prepared by one worker, in one go."""
    output = tmp_path_factory.mktemp("uninterrupted")
    assert start_process(addresses, output, workers=1).wait() == 0
    return output


def test_more_workers_write_the_same_bytes(tmp_path, addresses, uninterrupted):
    assert start_process(addresses, tmp_path, workers=3).wait() == 0
    assert contents(tmp_path) == contents(uninterrupted)


def test_a_killed_run_goes_on_to_the_same_bytes(tmp_path, addresses, uninterrupted):
    process = start_process(addresses, tmp_path, workers=1)
    index = tmp_path / "train-0" / INDEX
    while process.poll() is None and not (index.exists() and index.read_text().count("\n") >= 3):
        time.sleep(0.001)
    process.kill()
    assert process.wait() == -signal.SIGKILL, "it was over before it could be killed"
    finished = index.read_text().count("\n")
    assert 3 <= finished < (uninterrupted / "train-0" / INDEX).read_text().count("\n")
    assert "files" not in json.loads((tmp_path / MANIFEST).read_text())
    first_shard = (tmp_path / "train-0" / "00000.tokens.npy").stat().st_mtime_ns
    assert start_process(addresses, tmp_path, workers=2).wait() == 0
    assert (tmp_path / "train-0" / "00000.tokens.npy").stat().st_mtime_ns == first_shard
    assert contents(tmp_path) == contents(uninterrupted)


def test_the_manifest_counts_and_hashes_every_file(tmp_path, text_corpus):
    corpus = text_corpus(lengths=(32, 64))
    manifest = prepare(corpus, "prose", tmp_path, workers=1)
    assert manifest == json.loads((tmp_path / MANIFEST).read_text())
    files = {name: content for name, content in contents(tmp_path).items() if name != MANIFEST}
    assert manifest["files"] == {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()} for name, content in files.items()
    }
    assert {name: part["tokens"] for name, part in manifest["parts"].items()} == {
        "validation": 4 * 64,
        "train-0": 20 * 32,
        "train-1": 20 * 64,
    }
    assert manifest["vocabulary"] == 400
    assert manifest["configuration"] == corpus.data_settings()


def test_a_second_call_changes_nothing(tmp_path, text_corpus):
    first = prepare(text_corpus(), "prose", tmp_path, workers=1)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npy")}
    assert prepare(text_corpus(), "prose", tmp_path, workers=1) == first
    assert times == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npy")}


def test_another_seed_gives_other_data(tmp_path, text_corpus):
    digests = {prepare(text_corpus(seed=seed), "prose", tmp_path / str(seed), 1)["digest"] for seed in (1, 2)}
    assert len(digests) == 2


def test_training_text_is_no_validation_text_and_stages_go_on_in_it(tmp_path, text_corpus):
    corpus = text_corpus(["package:state_of_the_union.parquet"], lengths=(64, 128), sequences=400, validation=100)
    prepare(corpus, "prose", tmp_path, workers=1)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(tmp_path / "tokenizer")
    seen = []
    for part in ("validation", "train-0", "train-1"):
        stream = Sequences(tmp_path / part, 1)
        starts = document_starts(tmp_path / part)
        tokens = stream.read(np.arange(len(stream)))[0].ravel()
        seen += [tokenizer.decode(piece[1:])[:80] for piece in np.split(tokens, starts[1:])]
    expected = [document.text[:80] for document in documents(corpus, 0, "train")]
    assert seen == expected[: len(seen)]
    assert len(seen) == len(set(seen))


def test_text_that_runs_out_gives_fewer_sequences_and_the_next_stage_starts_over(tmp_path, text_corpus):
    corpus = text_corpus(lengths=(64, 32), sequences=100_000)
    parts = prepare(corpus, "prose", tmp_path, workers=1)["parts"]
    assert parts["train-0"]["tokens"] == parts["train-1"]["tokens"] < 64 * 100_000
    assert parts["train-0"]["documents"] == 2
    first, second = (Sequences(tmp_path / part, 32).read([0])[0] for part in ("train-0", "train-1"))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, Sequences(tmp_path / "validation", 32).read([0])[0])


def test_a_recall_document_fills_one_sequence_and_marks_its_answers(tmp_path, recall_corpus):
    manifest = prepare(recall_corpus, "recall", tmp_path, workers=1)
    assert {name: (part["sequences"], part["documents"]) for name, part in manifest["parts"].items()} == {
        "validation": (8, 8),
        "train-0": (40, 40),
        "train-1": (50, 50),
    }
    for part, length, records in (("train-0", 32, 3), ("train-1", 49, 6), ("validation", 49, 6)):
        sequences = Sequences(tmp_path / part, length)
        tokens, answers = sequences.read(np.arange(len(sequences)))
        assert np.array_equal(document_starts(tmp_path / part), np.arange(len(sequences)) * length)
        assert (tokens[:, 0] == manifest["end_of_text"]).all()
        assert (tokens[:, 1:] != manifest["end_of_text"]).all()
        assert (answers.sum(axis=1) >= records).all()
        # An answer is a name (ids after the 20 animals), and an animal stands before it.
        assert (tokens[answers] > 20).all()
        rows, columns = np.nonzero(answers)
        assert (tokens[rows, columns - 1] <= 20).all()


def test_prose_marks_no_answers(tmp_path, text_corpus):
    prepare(text_corpus(), "prose", tmp_path, workers=1)
    assert not list(tmp_path.rglob("*.answers.npy"))
    assert not Sequences(tmp_path / "train-0", 64).read([0, 1])[1].any()


@pytest.mark.parametrize(
    ("validation", "explained"),
    [
        (100, "the text has .* too few for training.validation_sequences 100 of 64 tokens"),
        (7, r"the text has .* too few for one sequence of stages\[0\].length 64"),
    ],
)
def test_too_little_text_is_explained(tmp_path, text_corpus, validation, explained):
    text = tmp_path / "short.txt"
    text.write_text(" ".join(str(number) for number in range(500)))
    with pytest.raises(UserError, match=explained) as error:
        prepare(text_corpus([str(text)], validation=validation), "prose", tmp_path / "output", workers=1)
    assert str(error.value).startswith("corpora.prose: ")
    assert len(str(error.value).splitlines()) == 1


def test_a_mistake_in_the_source_names_the_corpus(tmp_path, text_corpus):
    with pytest.raises(UserError, match="corpora.prose: source.paths: absent.txt does not exist"):
        prepare(text_corpus(["absent.txt"]), "prose", tmp_path, workers=1)


def test_a_folder_of_another_configuration_is_refused(tmp_path, text_corpus):
    prepare(text_corpus(), "prose", tmp_path, workers=1)
    with pytest.raises(UserError, match="holds data of another corpus or configuration"):
        prepare(text_corpus(seed=1), "prose", tmp_path, workers=1)


def test_how_models_train_is_no_part_of_the_data(text_corpus):
    corpus = text_corpus()
    faster = corpus.model_copy(update={"training": corpus.training.model_copy(update={"learning_rate": 1.0})})
    assert faster.data_settings() == corpus.data_settings()
    assert text_corpus(seed=1).data_settings() != corpus.data_settings()
