"""No two jobs of a machine compute on one GPU, whatever ends a job. Real processes; nvidia-smi is made up."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from weakspots.errors import UserError
from weakspots.machine import gpus

CLAIM = [sys.executable, "-m", "weakspots.cli", "claim"]
RECORD = """
import json, os, sys, time
begin = time.monotonic()
time.sleep(float(sys.argv[2]))
record = {"devices": os.environ["CUDA_VISIBLE_DEVICES"], "begin": begin, "end": time.monotonic()}
open(sys.argv[1], "w").write(json.dumps(record))
"""
OF_A_CLAIM = ("SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES", "WEAKSPOTS_GPU_LOCKS_TAKEN")


class Machine:
    """A machine with `count` GPUs, on which claims run."""

    def __init__(self, folder: Path, count: int) -> None:
        listed = "\n".join(
            f"GPU {index}: Made-up (UUID: GPU-{index}{index})\n  MIG 1g: (UUID: M)" for index in range(count)
        )
        command = folder / "bin/nvidia-smi"
        command.parent.mkdir()
        command.write_text(f"#!/bin/sh\necho '{listed}'\n")
        command.chmod(0o755)
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items() if name not in OF_A_CLAIM}
        self.environment |= {
            "PATH": f"{command.parent}:{os.environ['PATH']}",
            gpus.FOLDER: str(folder / "locks"),
        }
        self.started: list[subprocess.Popen] = []

    def claim(self, count: int, *command: str, **environment: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [*CLAIM, "--gpus", str(count), "--", *command],
            env=self.environment | environment,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def record(self, name: str, count: int = 1, seconds: float = 0, **environment: str) -> subprocess.Popen:
        return self.claim(count, sys.executable, "-c", RECORD, str(self.folder / name), str(seconds), **environment)

    def recorded(self, name: str) -> dict:
        return json.loads((self.folder / name).read_text())

    def hold(self, *command: str) -> subprocess.Popen:
        """A claim of one GPU, once its command has said that it runs."""
        process = self.claim(1, *command)
        assert process.stdout.readline() == "running\n"
        return process


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Callable[[int], Machine]]:
    made: list[Machine] = []

    def make(count: int) -> Machine:
        made.append(Machine(tmp_path, count))
        return made[-1]

    yield make
    for process in (process for one in made for process in one.started):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_four_jobs_on_two_gpus_never_share_one(machine: Callable) -> None:
    two = machine(2)
    jobs = [two.record(f"job-{number}", seconds=0.7) for number in range(4)]
    assert [job.wait(60) for job in jobs] == [0, 0, 0, 0]
    records = sorted((two.recorded(f"job-{number}") for number in range(4)), key=lambda record: record["begin"])
    assert {record["devices"] for record in records} == {"0", "1"}
    for device in ("0", "1"):
        alone = [record for record in records if record["devices"] == device]
        assert all(first["end"] <= second["begin"] for first, second in itertools.pairwise(alone))
    both = [(a, b) for a in records for b in records if a["begin"] < b["begin"] < a["end"]]
    assert both, "the two devices were never in use at once"


def test_a_job_waits_with_one_line_until_a_device_is_free(machine: Callable) -> None:
    one = machine(1)
    first = one.hold("sh", "-c", "echo running; exec sleep 60")
    second = one.record("second")
    assert "waiting for 1 of this machine's 1 GPUs" in second.stderr.readline()
    time.sleep(3 * gpus._POLL)
    assert second.poll() is None
    first.kill()
    assert second.wait(30) == 0
    assert second.stderr.read() == ""
    assert one.recorded("second")["devices"] == "0"


def test_a_device_is_free_once_its_job_is_killed_and_not_while_a_child_of_it_lives(machine: Callable) -> None:
    one = machine(1)
    # the child keeps the inherited lock when its parent, which is what claim became, is killed
    first = one.hold("sh", "-c", "sleep 4 & echo running; wait")
    first.send_signal(signal.SIGKILL)
    killed = time.monotonic()
    second = one.record("second")
    assert second.wait(30) == 0
    assert one.recorded("second")["begin"] - killed > 3


def test_the_processes_of_a_launcher_hold_its_devices_after_it_is_killed(machine: Callable) -> None:
    one = machine(1)
    rank = "from weakspots.machine import gpus; gpus.keep(); print('running', flush=True); import time; time.sleep(4)"
    launcher = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {rank!r}])"  # closes inherited files
    first = one.hold(sys.executable, "-c", launcher)
    first.send_signal(signal.SIGKILL)
    killed = time.monotonic()
    second = one.record("second")
    assert second.wait(30) == 0
    assert one.recorded("second")["begin"] - killed > 3


def test_a_job_of_several_gpus_is_not_starved_by_jobs_of_one(machine: Callable) -> None:
    two = machine(2)
    first = two.hold("sh", "-c", "echo running; exec sleep 60")
    both = two.record("both", count=2)
    assert "waiting for 2 of this machine's 2 GPUs" in both.stderr.readline()
    late = two.record("late")  # one GPU is free, and the job before it in the queue has it
    assert "waiting for 1" in late.stderr.readline()
    assert (late.poll(), both.poll()) == (None, None)
    first.kill()
    assert both.wait(30) == late.wait(30) == 0
    assert two.recorded("both")["devices"] == "0,1"
    assert two.recorded("both")["end"] <= two.recorded("late")["begin"]


def test_devices_named_in_the_environment_are_the_ones_to_choose_from(machine: Callable) -> None:
    eight = machine(8)
    jobs = [eight.record(f"job-{number}", seconds=0.3, CUDA_VISIBLE_DEVICES="3,GPU-55") for number in range(2)]
    assert [job.wait(60) for job in jobs] == [0, 0]
    assert {eight.recorded(f"job-{number}")["devices"] for number in range(2)} == {"3", "GPU-55"}


def test_what_slurm_assigned_stays_as_it_is(machine: Callable) -> None:
    one = machine(1)
    one.hold("sh", "-c", "echo running; exec sleep 60")  # has device 0, and does not matter to Slurm's jobs
    job = one.record("job", SLURM_JOB_ID="7", CUDA_VISIBLE_DEVICES="0")
    assert job.wait(30) == 0
    assert one.recorded("job")["devices"] == "0"


def test_devices_that_slurm_assigned_for_nothing_are_pointed_out(machine: Callable) -> None:
    job = machine(1).record("job", SLURM_JOB_ID="7", CUDA_VISIBLE_DEVICES="0,1")
    assert job.wait(30) == 0
    assert "Slurm assigned 2 GPUs and the job uses 1" in job.stderr.read()


def test_a_claim_inside_a_claim_uses_its_devices(machine: Callable) -> None:
    one = machine(1)
    nested = one.claim(1, *CLAIM, "--", sys.executable, "-c", RECORD, str(one.folder / "job"), "0")
    assert nested.wait(30) == 0
    assert one.recorded("job")["devices"] == "0"


@pytest.mark.parametrize(
    ("environment", "where"),
    [
        ({}, "this machine has 2 "),
        ({"CUDA_VISIBLE_DEVICES": ""}, "this machine has 0 "),
        ({"CUDA_VISIBLE_DEVICES": "0,-1,1"}, "this machine has 1 "),
        ({"CUDA_VISIBLE_DEVICES": "0", "SLURM_JOB_ID": "7"}, "this Slurm job has 1 "),
    ],
    ids=["too few", "none visible", "an invalid name ends the list", "slurm"],
)
def test_more_gpus_than_there_are_is_an_error_of_one_line(
    machine: Callable, environment: dict[str, str], where: str
) -> None:
    job = machine(2).record("job", count=3, **environment)
    assert job.wait(30) == 1
    lines = job.stderr.read().splitlines()
    assert len(lines) == 1
    assert "needs 3 GPUs and " + where in lines[0]


def test_a_command_that_does_not_exist_is_an_error_of_one_line(machine: Callable) -> None:
    job = machine(1).claim(1, "no-such-command")
    assert job.wait(30) == 1
    assert job.stderr.read() == "[claim] error: no-such-command cannot be started: No such file or directory\n"


def test_the_status_of_the_command_is_the_status_of_the_claim(machine: Callable) -> None:
    assert machine(1).claim(1, "sh", "-c", "exit 7").wait(30) == 7


def test_a_folder_that_cannot_hold_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    for name in OF_A_CLAIM:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv(gpus.FOLDER, str(tmp_path / "file"))
    with pytest.raises(UserError, match="cannot hold lock files"):
        gpus.claim(1, ["no-such-command"])


def test_a_machine_without_nvidia_smi_has_no_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus.devices() == []
