"""Every job is a run under its invocation, and tracking never costs a result."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weakspots.errors import UserError
from weakspots.workflow import mlflow_store, tracking

SETTINGS = Path("results/smoke/tracking.json")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder with an initialised store, and the invocation `one`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(tracking.INVOCATION, "one")
    tracking.initialise(SETTINGS, experiment="smoke")
    Path("results/smoke/config.yaml").write_text("scale: smoke\n")
    return tmp_path


def client(folder: Path | str = "."):
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=f"sqlite:///{Path(folder).resolve()}/results/mlflow.db")


def runs(folder: Path | str = ".") -> dict[str, object]:
    mlflow = client(folder)
    experiment = mlflow.get_experiment_by_name("smoke")
    return {run.info.run_name: run for run in mlflow.search_runs([experiment.experiment_id])}


def parents(found: dict[str, object]) -> list:
    return [run for run in found.values() if "mlflow.parentRunId" not in run.data.tags]


def test_a_job_is_a_child_with_parameters_metrics_data_and_files(folder: Path) -> None:
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / ".hidden").write_text("")
    table = pandas.DataFrame({"step": [0, 20], "loss": [4.5, 0.3], "stage": [0, None], "note": ["a", "b"]})
    tags = {"config_hash": "c0ffee", "source_digest": "5eed", "git_commit": "abc123"}
    with tracking.start_job(SETTINGS, "train w8s8-1kv", {"row": {"window": 8}, "steps": 20}, tags) as job:
        job.log_metrics(table)
        job.log_metrics({"validation_loss": 2.5})
        job.log_dataset("recall", "d16e57", "results/smoke/data/recall")
        job.log_artifacts(model)
    tracking.finish(SETTINGS, "FINISHED")

    found = runs()
    child = found["train w8s8-1kv"]
    (parent,) = parents(found)
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert child.data.tags | tags == child.data.tags
    assert child.data.params == {"row.window": "8", "steps": "20"}
    assert child.data.metrics == {"loss": 0.3, "stage": 0.0, "validation_loss": 2.5}
    history = client().get_metric_history(child.info.run_id, "loss")
    assert [(point.step, point.value) for point in history] == [(0, 4.5), (20, 0.3)]
    assert [(item.dataset.name, item.dataset.digest) for item in child.inputs.dataset_inputs] == [("recall", "d16e57")]
    assert [item.path for item in client().list_artifacts(child.info.run_id, "model")] == ["model/config.json"]
    assert [item.path for item in client().list_artifacts(parent.info.run_id)] == ["config.yaml"]
    assert child.info.status == parent.info.status == "FINISHED"


def test_tags_say_what_a_job_read_and_wrote_and_lead_from_one_job_to_the_other(folder: Path) -> None:
    model, table = Path("results/smoke/model"), Path("results/smoke/table.parquet")
    model.mkdir()
    (model / "weights").write_text("1")
    table.write_text("2")
    with tracking.start_job(SETTINGS, "train", {}) as job:
        job.log_artifacts(model)
    with tracking.start_job(SETTINGS, "lookup", {}) as job:
        job.log_inputs(model)
        job.log_artifacts(table)
    found = runs()
    wrote, read = found["train"].data.tags, found["lookup"].data.tags
    assert wrote["output/results/smoke/model"] == read["input/results/smoke/model"] == tracking.content_hash(model)
    assert read["output/results/smoke/table.parquet"] == hashlib.sha256(b"2").hexdigest()
    (model / ".hidden").write_text("")
    assert tracking.content_hash(model) == wrote["output/results/smoke/model"]
    (model / "weights").rename(model / "renamed")
    assert tracking.content_hash(model) != wrote["output/results/smoke/model"]


def test_a_curve_is_logged_over_tokens(folder: Path) -> None:
    with tracking.start_job(SETTINGS, "train", {}) as job:
        job.log_metrics(pandas.DataFrame({"step": [1, 2], "tokens": [512, 1024], "loss": [3.0, 2.0]}), over="tokens")
    history = client().get_metric_history(runs()["train"].info.run_id, "loss")
    assert [(point.step, point.value) for point in history] == [(512, 3.0), (1024, 2.0)]


def test_jobs_of_one_invocation_share_a_parent_and_the_next_has_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for invocation, name in (("one", "a"), ("one", "b"), ("two", "c")):
        monkeypatch.setenv(tracking.INVOCATION, invocation)
        with tracking.start_job(SETTINGS, name, {}):
            pass
    tag = {name: run.data.tags.get("mlflow.parentRunId") for name, run in runs().items()}
    assert tag["a"] == tag["b"] != tag["c"]
    assert len(client().search_runs(["1"])) == 5


def test_a_failed_job_is_marked_and_its_error_passes_through(folder: Path) -> None:
    with pytest.raises(ValueError, match="diverged"), tracking.start_job(SETTINGS, "train", {}):
        raise ValueError("diverged")
    assert runs()["train"].info.status == "FAILED"


def test_a_job_that_was_killed_is_closed_with_the_invocation(folder: Path) -> None:
    code = f"""
import os, signal
from weakspots.workflow.tracking import start_job
with start_job({str(SETTINGS)!r}, "train", {{}}):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    assert runs()["train"].info.status == "RUNNING"
    tracking.finish(SETTINGS, "FAILED")
    found = runs()
    assert found["train"].info.status == "KILLED"
    assert parents(found)[0].info.status == "FAILED"


def test_four_jobs_at_once_on_a_fresh_store_share_one_parent_and_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(tracking.INVOCATION, "one")
    SETTINGS.parent.mkdir(parents=True)
    SETTINGS.write_text('{"experiment": "smoke"}')
    code = f"""
import sys, pandas
from weakspots.workflow.tracking import start_job
with start_job({str(SETTINGS)!r}, sys.argv[1], {{"name": sys.argv[1]}}) as job:
    for part in range(3):
        job.log_metrics(pandas.DataFrame({{"step": range(part * 400, part * 400 + 400), "loss": 1.0, "rate": 0.1}}))
"""
    jobs = [
        subprocess.Popen([sys.executable, "-c", code, f"job {number}"], stderr=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    assert [(job.wait(), "could not" in job.stderr.read()) for job in jobs] == [(0, False)] * 4
    found = runs()
    assert len(parents(found)) == 1
    for number in range(4):
        run = found[f"job {number}"]
        assert run.info.status == "FINISHED"
        assert len(client().get_metric_history(run.info.run_id, "loss")) == 1200


@pytest.mark.parametrize("damage", ["locked", "garbage", "no settings", "deleted while running"])
def test_a_broken_store_costs_a_warning_and_no_result(
    folder: Path, damage: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mlflow_store, "WAIT_SECONDS", 1)
    store = folder / "results" / "mlflow.db"
    holder = None
    if damage == "locked":
        holder = sqlite3.connect(store)
        holder.execute("begin exclusive")
    elif damage == "garbage":
        store.write_bytes(b"this is no database" * 100)
    elif damage == "no settings":
        SETTINGS.unlink()
    with caplog.at_level(logging.WARNING), tracking.start_job(SETTINGS, "train", {"steps": 1}) as job:
        if damage == "deleted while running":
            shutil.rmtree(folder / "results")
        job.log_metrics({"loss": 1.0})
        job.log_artifacts(Path(__file__))
        (folder / "result").write_text("trained")
    tracking.finish(SETTINGS, "FINISHED")
    assert (folder / "result").read_text() == "trained"
    assert "going on without it" in caplog.text
    if holder:
        holder.close()


def test_a_deleted_store_is_made_anew(folder: Path) -> None:
    shutil.copytree("results", "elsewhere/results")
    os.chdir("elsewhere")  # this process still holds connections to the first store
    Path("results/mlflow.db").unlink()
    with tracking.start_job(SETTINGS, "train", {}):
        pass
    assert runs()["train"].info.status == "FINISHED"


def test_artifacts_are_found_after_the_folder_moved(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tracking.start_job(SETTINGS, "before", {}) as job:
        job.log_artifacts(SETTINGS)
    moved = folder.with_name(folder.name + "-moved")
    monkeypatch.chdir(folder.parent)
    folder.rename(moved)
    run = runs(moved)["before"]
    assert client(moved).list_artifacts(run.info.run_id) == []  # MLflow keeps the absolute path

    mlflow_store.repair(moved / "results" / "mlflow.db")
    assert [item.path for item in client(moved).list_artifacts(run.info.run_id)] == ["tracking.json"]

    monkeypatch.chdir(moved)
    with tracking.start_job(SETTINGS, "after", {}) as job:
        job.log_artifacts(SETTINGS)
    assert [item.path for item in client().list_artifacts(runs()["after"].info.run_id)] == ["tracking.json"]
    assert not folder.exists()


@given(st.text(min_size=1, max_size=400))
def test_any_path_has_a_name_that_mlflow_takes_and_two_paths_have_two(path: str) -> None:
    from mlflow.utils.validation import _validate_tag_name

    _validate_tag_name(name := tracking.tag_name(f"input/{path}"))
    assert len(name) <= 250
    assert name != tracking.tag_name(f"input/{path}+")


def test_a_name_that_mlflow_takes_stays_as_it_is() -> None:
    assert tracking.tag_name("input/results/smoke/data/recall 2") == "input/results/smoke/data/recall 2"


def test_a_tag_that_is_refused_costs_the_job_nothing_else(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "tag_name", lambda name: name)
    (folder / "lang=en").mkdir()
    (folder / "lang=en/c++,v2.txt").write_text("text")
    with tracking.start_job(SETTINGS, "data prose", {"a": 1}, reads=["lang=en/c++,v2.txt"]) as job:
        job.log_metrics({"tokens": 5})
        job.log_artifacts(SETTINGS)
    run = runs()["data prose"]
    assert run.data.metrics == {"tokens": 5} and run.info.status == "FINISHED"
    assert [item.path for item in client().list_artifacts(run.info.run_id)] == ["tracking.json"]


def test_many_texts_are_noted_together(folder: Path) -> None:
    digests = {f"letters/{number}.txt": f"{number:064}" for number in range(tracking.MANY + 1)}
    with tracking.start_job(SETTINGS, "data prose", {}) as job:
        job.log_corpus(["letters/*.txt"], digests)
    tags = {key: value for key, value in runs()["data prose"].data.tags.items() if key.startswith("input/")}
    assert len(tags) == 1 and next(iter(tags)).startswith("input/letters/_.txt")


def test_an_experiment_that_was_deleted_in_mlflows_page_comes_back(folder: Path) -> None:
    with tracking.start_job(SETTINGS, "before", {}):
        pass
    client().delete_experiment(client().get_experiment_by_name("smoke").experiment_id)
    with tracking.start_job(SETTINGS, "after", {}):
        pass
    assert {"before", "after"} <= set(runs())


def test_the_experiment_is_no_chat(folder: Path) -> None:
    """Else MLflow's page may show an empty overview of traces in place of the runs."""
    assert client().get_experiment_by_name("smoke").tags["mlflow.experimentKind"] == "custom_model_development"


def test_artifacts_are_found_in_a_folder_with_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "job%2Fx #1"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv(tracking.INVOCATION, "one")
    tracking.initialise(SETTINGS, experiment="smoke")
    for name in ("first", "second"):
        with tracking.start_job(SETTINGS, name, {}) as job:
            job.log_artifacts(SETTINGS)
        run = runs()[name]
        assert [item.path for item in client().list_artifacts(run.info.run_id)] == ["tracking.json"]
    assert len(list(folder.rglob("artifacts/tracking.json"))) == 2
    assert list(tmp_path.iterdir()) == [folder]


def test_the_settings_hold_no_absolute_path(folder: Path) -> None:
    assert json.loads(SETTINGS.read_text()) == {"experiment": "smoke", "store": "results/mlflow.db"}


def test_browsing_before_anything_was_tracked_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="make reproduce"):
        mlflow_store.serve()


def test_what_the_snakefile_and_the_command_line_import_is_light() -> None:
    heavy = {"mlflow", "torch", "transformers", "datasets"}
    modules = "weakspots.workflow.tracking, weakspots.workflow.targets, weakspots.cli.main"
    code = f"import sys, {modules}; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], env=os.environ, check=False).returncode == 0
