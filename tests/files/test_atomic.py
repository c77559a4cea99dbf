"""A result is there whole or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from weakspots.files.atomic import building, writing


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_folder_appears_only_on_success(tmp_path: Path) -> None:
    output = tmp_path / "models" / "w8s8-1kv"
    with building(output, "a1") as folder:
        (folder / "config.json").write_text("{}")
        assert not output.exists()
    assert content(output) == {"config.json": "{}"}
    assert [path.name for path in output.parent.iterdir()] == ["w8s8-1kv"]


def test_a_failed_job_resumes_from_what_it_left(tmp_path: Path) -> None:
    output = tmp_path / "model"
    with pytest.raises(RuntimeError), building(output, "a1") as folder:
        (folder / "checkpoint").write_text("step 100")
        raise RuntimeError("disk full")
    assert not output.exists()
    with building(output, "a1") as folder:
        assert content(folder) == {"checkpoint": "step 100"}


def test_another_key_starts_afresh_and_clears_the_old_checkpoint_on_success(tmp_path: Path) -> None:
    output = tmp_path / "model"
    with pytest.raises(RuntimeError), building(output, "a1") as folder:
        raise RuntimeError
    with building(output, "b2") as folder:
        assert content(folder) == {}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_new_result_replaces_all_of_the_old_one(tmp_path: Path) -> None:
    output = tmp_path / "model"
    for key, name in (("a1", "old"), ("b2", "new")):
        with building(output, key) as folder:
            (folder / name).write_text(name)
    assert content(output) == {"new": "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_models_whose_names_begin_alike_do_not_clear_each_other(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), building(tmp_path / "w8s8-1kv-tied", "a1"):
        raise RuntimeError
    with building(tmp_path / "w8s8-1kv", "a1"):
        pass
    assert (tmp_path / ".w8s8-1kv-tied.a1.partial").is_dir()


def test_a_killed_process_leaves_its_checkpoint_and_no_output(tmp_path: Path) -> None:
    script = f"""
import os, signal
from weakspots.files.atomic import building
with building({str(tmp_path / "model")!r}, "a1") as folder:
    (folder / "checkpoint").write_text("step 100")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "model").exists()
    with building(tmp_path / "model", "a1") as folder:
        assert content(folder) == {"checkpoint": "step 100"}


def test_a_file_keeps_its_old_content_when_writing_fails(tmp_path: Path) -> None:
    output = tmp_path / "table.parquet"
    with writing(output) as path:
        assert path.suffix == ".parquet"
        path.write_text("first")
    with pytest.raises(RuntimeError), writing(output) as path:
        path.write_text("half of the sec")
        raise RuntimeError
    assert output.read_text() == "first"
    assert os.listdir(tmp_path) == ["table.parquet"]
