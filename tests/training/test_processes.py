"""One training in two connected processes (gloo on a CPU), started through the launcher as the workflow starts it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from small import curve, weights

from weakspots import config
from weakspots.errors import UserError
from weakspots.machine import processes
from weakspots.training import loop

REPOSITORY = Path(__file__).parents[2]
TWO = ["accelerate", "launch", "--config_file", f"{REPOSITORY}/workflow/accelerate/cpu_2.yaml"]
MODEL = "w8s4-1kv"


def run(folder: Path, *command: str, launcher: tuple[str, ...] = ()) -> subprocess.Popen:
    """`weakspots` with this command, in a session of its own."""
    program = [*launcher, "-m", "weakspots.cli"] if launcher else [sys.executable, "-m", "weakspots.cli"]
    return subprocess.Popen(
        [*program, *command, "--config", "results/config.yaml", "--log", "log"],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def launched(folder: Path) -> subprocess.Popen:
    """The training in two processes."""
    return run(folder, "train", "recall", MODEL, launcher=(*TWO, "--main_process_port", "0"))


def finished(process: subprocess.Popen) -> str:
    """What it printed; it must have succeeded."""
    output = process.communicate(timeout=300)[0]
    assert process.returncode == 0, output
    return output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A corpus and a configuration of 60 steps, in accumulated parts and with an odd number of sequences."""
    folder = tmp_path_factory.mktemp("two")
    training = {"steps": 60, "log_every": 6, "resume_every": 10, "checkpoint_steps": [0, 60]}
    training |= {"batch_tokens": 48 * 15, "micro_batch_tokens": 48 * 4}
    (folder / "overlay.yaml").write_text(json.dumps({"corpora": {"recall": {"training": training}}}))
    scale = config.load(REPOSITORY / "config.yaml", REPOSITORY / "workflow/scales/smoke.yaml", folder / "overlay.yaml")
    config.write(scale, folder / "results/config.yaml")
    finished(run(folder, "data", "recall"))
    return folder


@pytest.fixture(scope="module")
def single(folder):
    """The same run in one process, undisturbed."""
    finished(run(folder, "train", "recall", MODEL))
    output = folder / "results/models/recall" / MODEL
    return output.rename(folder / "single")


def compare(single: Path, double: Path) -> None:
    """Two runs that differ by the rounding of float32."""
    left, right = (curve(pd.read_parquet(run / "training.parquet")) for run in (single, double))
    assert left.drop(columns="loss").equals(right.drop(columns="loss"))
    assert right["loss"].to_numpy() == pytest.approx(left["loss"].to_numpy(), rel=2e-5)
    losses = [json.loads((run / "validation.json").read_text()) for run in (single, double)]
    assert losses[1]["loss"] == pytest.approx(losses[0]["loss"], rel=2e-4)
    assert losses[1]["tokens"] == losses[0]["tokens"]
    one, two = weights(single), weights(double)
    assert max((one[name] - two[name]).abs().max().item() for name in one) < 2e-3


def test_two_processes_give_the_curve_of_one_and_so_does_a_killed_one_that_went_on(folder, single):
    """One of the two is killed with SIGKILL after a checkpoint: the other stops too, and the rerun continues."""
    output = folder / "results/models/recall" / MODEL
    process = launched(folder)
    deadline = time.monotonic() + 120
    while not (saved := list(output.parent.glob(f".{MODEL}.*.partial/checkpoint-0*"))):
        assert process.poll() is None and time.monotonic() < deadline, "no checkpoint was written"
        time.sleep(0.02)
    ranks = children_of(process.pid)
    assert len(ranks) == 2
    os.kill(ranks[-1], signal.SIGKILL)
    process.communicate(timeout=120)
    assert process.returncode != 0 and not output.exists()
    again = finished(launched(folder))
    assert "resuming after step" in again and saved
    assert again.count("done: validation loss") == 1  # one of them speaks
    assert "2 process(es)" in again
    compare(single, output)


def children_of(process: int) -> list[int]:
    """Its child processes, in the order they were started."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in children]


def test_processes_that_are_not_connected_are_refused(monkeypatch):
    """Each would train the model alone and write over the other's files."""
    monkeypatch.setattr(processes, "count", lambda: 2)
    with pytest.raises(UserError, match="started 2 processes, and Accelerate connects 1: launch with"):
        loop.accelerator_for("cpu", "float32")
