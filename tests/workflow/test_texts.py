"""A corpus of files under any names: no name is taken for anything else, and content decides what is prepared again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import yaml
from copies import SMOKE, Project

NAMES = ["O'Brien (1).txt", "my notes.txt", "a;touch PWNED;.txt", "$(touch PWNED).txt", "a{b}.txt", "-x.txt", "[1].TXT"]
TRAINING = {"steps": 6, "batch_tokens": 512, "learning_rate": 1e-3, "warmup_steps": 2, "decay_fraction": 0.5}
LETTERS = {
    "source": {"kind": "local", "paths": ["my letters"]},
    "tokenizer": {"kind": "bytes", "vocabulary": 300, "training_documents": 2},
    "stages": [{"length": 64, "sequences": 8}],
    "training": {**TRAINING, "weight_decay": 0.1, "loss_on": "all", "validation_sequences": 2},
    "models": ["w8s8-1kv"],
}
DATA = "results/smoke/data/letters"


@pytest.fixture
def written(project: Project, tmp_path: Path) -> tuple[Project, str]:
    """A project with letters that are prepared, and the overlay that names them."""
    (project.folder / "my letters").mkdir()
    for name in NAMES:
        (project.folder / "my letters" / name).write_text(f"The text of {name}.")
    overlay = tmp_path / "letters.yaml"
    overlay.write_text(yaml.safe_dump({"corpora": {"letters": LETTERS}}))
    done = project.snakemake(*SMOKE, str(overlay), "--cores", "1", "--", DATA)
    assert done.returncode == 0, done.stdout
    return project, str(overlay)


def data_jobs(project: Project, overlay: str) -> set[str]:
    """The jobs that would prepare a corpus."""
    return {job for job in project.jobs(*SMOKE, overlay) if job.startswith("data")}


def test_no_name_is_run_or_lost(written: tuple[Project, str]) -> None:
    project, overlay = written
    assert (project.folder / DATA / "content").exists()
    assert not list(project.folder.rglob("PWNED*"))
    assert data_jobs(project, overlay) == set()


def test_content_decides_whether_a_corpus_is_prepared_again(written: tuple[Project, str]) -> None:
    project, overlay = written
    for name in NAMES:
        os.utime(project.folder / "my letters" / name, (1, 1))
    assert data_jobs(project, overlay) == set()
    shutil.rmtree(project.folder / ".snakemake" / "weakspots-texts.json", ignore_errors=True)
    (project.folder / "my letters" / NAMES[0]).write_text("Another text.")
    assert data_jobs(project, overlay) == {"data letters"}


def test_a_text_more_is_noticed(written: tuple[Project, str]) -> None:
    project, overlay = written
    (project.folder / "my letters/one more.txt").write_text("A new text.")
    assert data_jobs(project, overlay) == {"data letters"}
