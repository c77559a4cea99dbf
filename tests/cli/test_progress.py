"""Jobs as the workflow runs them: progress on the terminal and in the log, mistakes before the work, not after it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from weakspots.config import load, merge, parse, resolved, write
from weakspots.workflow import tracking
from weakspots.workflow.mlflow_store import connect

ROOT = Path(__file__).parents[2]


@pytest.fixture
def stage(tmp_path):
    """Runs one stage of the smoke scale, with `changes`, in an empty folder; returns the process and its log."""

    def run(*arguments: str, **changes: dict) -> tuple[subprocess.CompletedProcess, str]:
        smoke = resolved(load(ROOT / "config.yaml", ROOT / "workflow/scales/smoke.yaml"))
        write(parse(merge(smoke, changes)), tmp_path / "results/smoke/config.yaml")
        command = [sys.executable, "-m", "weakspots.cli", *arguments, "--config", "results/smoke/config.yaml"]
        done = subprocess.run(
            [*command, "--log", "job.log"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
        return done, (tmp_path / "job.log").read_text()

    return run


def test_a_training_shows_its_progress_and_its_log_says_the_same(stage):
    assert stage("data", "recall")[0].returncode == 0
    done, log = stage("train", "recall", "w8s8-1kv")
    assert done.returncode == 0, done.stderr
    line = r"step (\d+)/12  loss \d+\.\d{3}  \d+\.\dk tokens/s.*  \d+:\d\d left"
    shown = [found for found in done.stderr.splitlines() if re.search(line, found)]
    assert [re.search(line, found)[1] for found in shown] == ["4", "8", "12"]  # every log_every steps
    for found in shown:
        mark, told = found.split("] ", 1)
        assert mark == "[train/recall/w8s8-1kv"  # jobs run side by side
        assert told in log
    assert "0:00 left" in shown[-1]
    assert "step 4: stage 1 begins" in log
    assert "never seen" not in log


def test_a_training_that_ends_before_the_last_stage_says_so(stage):
    stages = [
        {"length": 32, "sequences": 256, "records": 3, "max_steps": 40},
        {"length": 48, "sequences": 256, "records": 6},
    ]
    recall = {"corpora": {"recall": {"stages": stages}}}
    assert stage("data", "recall", **recall)[0].returncode == 0
    done, _ = stage("train", "recall", "full-1kv", **recall)
    assert done.returncode == 0
    assert "training ended in stage 0 of 0..1: the last one was never seen; raise steps" in done.stderr


def test_the_curve_of_a_training_that_fails_is_tracked_up_to_the_failure(stage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(tracking.INVOCATION, "one")
    tracking.initialise("results/smoke/tracking.json", "smoke")
    wild = {"learning_rate": 1e30, "log_every": 1, "warmup_steps": 0}
    recall = {"corpora": {"recall": {"training": wild}}}
    assert stage("data", "recall", **recall)[0].returncode == 0
    done, _ = stage("train", "recall", "full-1kv", **recall)
    assert done.returncode == 1
    assert "step 2" in done.stderr
    client, experiment = connect(tracking.Settings("smoke"))
    (run,) = client.search_runs([experiment], "tags.`mlflow.runName` = 'train recall/full-1kv'")
    assert run.info.status == "FAILED"
    (point,) = client.get_metric_history(run.info.run_id, "loss")
    assert point.step == 768  # tokens: one step
    assert 2 < point.value < 5  # about ln 49, the size of the vocabulary


def test_words_that_the_tokenizer_splits_are_named_before_any_model_is_trained(stage, tmp_path):
    done, log = stage(
        "data", "prose", lookup={"corpus": "prose"}, cycling={"models": []}, deepseek={"needle": {"models": []}}
    )
    assert done.returncode == 1
    assert re.search(r"error: corpora\.prose: '\w+' is \d tokens for this tokenizer and must be one", done.stderr)
    assert "Traceback" not in done.stderr
    assert "Traceback" in log
    assert not (tmp_path / "results/smoke/data/prose").exists()
