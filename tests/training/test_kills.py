"""Runs that are killed for real, at any moment, and disks that are full for real."""

import os
import random
import signal
import subprocess
import time

import pandas as pd
import pytest
import torch
from rows import BACKBONE, TABLE, build
from small import CORPUS, changed, curve, weights

from weakspots.data.prepare import prepare
from weakspots.errors import UserError
from weakspots.training import checkpoint, loop

ROW = TABLE["w8s8-1kv"]
SETTINGS = changed(steps=70, resume_every=3, log_every=5, checkpoint_steps=[0, 30, 70])
STAGES = [*CORPUS.stages[:-1], CORPUS.stages[-1].model_copy(update={"until_loss": 9.0})]
LONG = SETTINGS.model_copy(update={"stages": STAGES})
"""Its loss counts after 28 steps and is low then, so the decay of 35 steps begins, and step 63 is the last."""


def start(run, *arguments) -> int:
    """A process of its own that calls `run`; its number."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            torch.set_num_threads(1)
            run(*arguments)
            status = 0
        finally:
            os._exit(status)
    return child


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "recall"
    prepare(LONG, "recall", folder, workers=1)
    return folder


def train(data, folder):
    result = loop.train(ROW, BACKBONE, LONG, data, folder)
    result["training"].to_parquet(folder / "training.parquet")
    result["gates"].to_parquet(folder / "gates.parquet")


def test_a_run_killed_at_twenty_random_moments_ends_like_an_undisturbed_one(data, tmp_path):
    """SIGKILL between, during and after checkpoints: the loss curve, the gates and the weights are the same bits."""
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    began = time.monotonic()
    assert os.waitpid(start(train, data, undisturbed), 0)[1] == 0
    whole = time.monotonic() - began
    rng, kills, checkpoints = random.Random(5), 0, set()
    while kills < 20:
        child = start(train, data, killed)
        # Short lives: a process needs some of it to start, so most die before their second checkpoint.
        time.sleep(whole * rng.uniform(0.05, 0.6))
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            kills += 1
            checkpoints |= {path.name for path in killed.glob("checkpoint-*")}
        else:  # it was done before: begin again
            assert status == 0
            assert curve(pd.read_parquet(killed / "training.parquet")).equals(
                curve(pd.read_parquet(undisturbed / "training.parquet"))
            )
            subprocess.run(["rm", "-rf", killed], check=True)
    assert len(checkpoints) > 3, "the kills came too early to test anything"
    assert os.waitpid(start(train, data, killed), 0)[1] == 0
    left, right = (pd.read_parquet(folder / "training.parquet") for folder in (undisturbed, killed))
    pd.testing.assert_frame_equal(curve(left), curve(right), check_exact=True)
    left, right = (pd.read_parquet(folder / "gates.parquet") for folder in (undisturbed, killed))
    pd.testing.assert_frame_equal(left, right, check_exact=True)
    assert right["step"].max() == 63
    one, two = weights(undisturbed), weights(killed)
    assert one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)
    assert not list(killed.glob("checkpoint*.partial")) and not list(killed.glob("checkpoint-*"))


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"mounting needs more rights: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_stops_the_run_in_words_and_keeps_the_last_checkpoint(data, small_disk):
    model, optimizer = build(ROW), None
    optimizer = loop.optimizer_for(model, CORPUS.training)
    model(torch.arange(20)[None], labels=torch.arange(20)[None]).loss.backward()
    optimizer.step()
    checkpoint.save(small_disk, 7, model, optimizer, {"step": 7})
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    used = sum(path.stat().st_size for path in small_disk.rglob("*") if path.is_file())
    (small_disk / "other").write_bytes(b"x" * (free - used // 2))
    with pytest.raises(UserError, match=r"disk of .* is full: the checkpoint of step 9 .*the one of step 7 is kept"):
        checkpoint.save(small_disk, 9, model, optimizer, {"step": 9})
    assert not (small_disk / checkpoint.PARTIAL).exists()
    assert checkpoint.restore(small_disk, model, optimizer) == {"step": 7}
    (small_disk / "other").unlink()
    checkpoint.save(small_disk, 9, model, optimizer, {"step": 9})
    assert checkpoint.restore(small_disk, model, optimizer) == {"step": 9}
