"""Training: the same curve for a seed, undisturbed or resumed; gate statistics that mean what they say."""

import numpy as np
import pandas as pd
import pytest
import torch
from rows import BACKBONE, TABLE, build
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from weakspots.config import Corpus, Stage
from weakspots.data.prepare import prepare
from weakspots.errors import UserError
from weakspots.models import ModelRow
from weakspots.training import checkpoint, loop
from weakspots.training.batches import IGNORED, Batches
from weakspots.training.schedule import Progress, learning_rate
from weakspots.training.trajectory import effective_number, gate_statistics

CORPUS = Corpus.model_validate(
    {
        "source": {"kind": "recall", "keys": 20, "values": 20},
        "tokenizer": {"kind": "words"},
        "stages": [
            {"length": 16, "records": 2, "sequences": 200, "max_steps": 7},
            {"length": 28, "records": 4, "sequences": 60},
        ],
        "training": {
            "steps": 19,
            "batch_tokens": 256,
            "learning_rate": 3e-3,
            "warmup_steps": 3,
            "decay_fraction": 0.5,
            "weight_decay": 0.1,
            "loss_on": "answers",
            "log_every": 4,
            "checkpoint_steps": [0, 9, 19],
            "resume_every": 5,
            "validation_sequences": 20,
        },
    }
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "recall"
    prepare(CORPUS, "recall", folder, workers=1)
    return folder


def weights(folder):
    return load_file(folder / "model.safetensors")


class Stopped(BaseException):
    """Stands in for a kill: nothing of the program handles it."""


def test_a_seed_gives_the_same_run_to_the_bit_and_another_seed_another(data, tmp_path):
    results = [
        loop.train(TABLE[name], BACKBONE, CORPUS, data, tmp_path / str(number))
        for number, name in enumerate(["w8s8-1kv", "w8s8-1kv", "w8s8-1kv-seed43"])
    ]
    first, again, other = (result["training"].drop(columns="tokens_per_second") for result in results)
    pd.testing.assert_frame_equal(first, again, check_exact=True)
    assert not first["loss"].equals(other["loss"])
    one, two, three = (weights(tmp_path / str(number)) for number in range(3))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert any(not torch.equal(one[name], three[name]) for name in one)
    assert first["step"].tolist() == [4, 8, 12, 16, 19]
    assert sorted(results[0]["gates"]["step"].unique()) == [0, 9, 19]


@pytest.mark.parametrize("name", ["w8s4-1kv", "full-4kv"])
@pytest.mark.parametrize("stop", [1, 7, 11, 18])
def test_a_stopped_run_resumes_to_the_same_curve_and_weights(data, tmp_path, monkeypatch, name, stop):
    undisturbed = loop.train(TABLE[name], BACKBONE, CORPUS, data, tmp_path / "undisturbed")
    count = loop._Run.count

    def stopping(self, loss, tokens):
        if self.step == stop:
            raise Stopped
        count(self, loss, tokens)

    with monkeypatch.context() as patched:
        patched.setattr(loop._Run, "count", stopping)
        with pytest.raises(Stopped):
            loop.train(TABLE[name], BACKBONE, CORPUS, data, tmp_path / "resumed")
    kept = sorted(path.name for path in (tmp_path / "resumed").glob("checkpoint-*"))
    assert kept == [f"checkpoint-{step:08d}" for step in (5, 10, 15) if step <= stop][-2:]
    resumed = loop.train(TABLE[name], BACKBONE, CORPUS, data, tmp_path / "resumed")
    for table in ("training", "gates", "validation"):
        left, right = (
            result[table].drop(columns="tokens_per_second", errors="ignore") for result in (undisturbed, resumed)
        )
        pd.testing.assert_frame_equal(left, right, check_exact=True)
    one, two = weights(tmp_path / "undisturbed"), weights(tmp_path / "resumed")
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert not list((tmp_path / "resumed").glob("checkpoint-*"))


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors", "state.json", "hashes.json"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "gone"])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path, file, damage):
    model = build(TABLE["w8s8-1kv"])
    optimizer = loop._optimizer(model, CORPUS)
    for step in (1, 2):
        model(torch.arange(20)[None], labels=torch.arange(20)[None]).loss.backward()
        optimizer.step()
        checkpoint.save(tmp_path, step, model, optimizer, {"step": step})
    path = tmp_path / "checkpoint-00000002" / file
    content = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    else:
        content[len(content) // 2] ^= 1
        path.write_bytes(content if damage == "flipped" else content[: len(content) // 2])
    state = checkpoint.restore(tmp_path, model, optimizer)
    assert state == {"step": 1}


def test_without_a_checkpoint_there_is_nothing_to_restore(tmp_path):
    model = build(TABLE["w8s8-1kv"])
    assert checkpoint.restore(tmp_path, model, loop._optimizer(model, CORPUS)) is None


def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_batch(data, tmp_path):
    broken = CORPUS.model_copy(update={"training": CORPUS.training.model_copy(update={"learning_rate": 1e30})})
    with pytest.raises(UserError, match=r"the loss is nan at step \d+, on sequences \[.*train-0.*learning_rate"):
        loop.train(TABLE["full-1kv"], BACKBONE, broken, data, tmp_path)
    assert not (tmp_path / "model.safetensors").exists()


def test_the_batches_of_an_epoch_are_all_sequences_once(data):
    batches = Batches(data / "train-0", CORPUS.stages[0], 0, 256, seed=1, answers_only=True)
    per_epoch = 200 // 16
    epoch = np.concatenate([batches.indices(step) for step in range(per_epoch)])
    assert len(set(epoch.tolist())) == len(epoch) == per_epoch * 16
    assert not np.array_equal(batches.indices(0), batches.indices(per_epoch))
    whole, labels = batches.read(3)
    learnt = labels != IGNORED
    assert torch.equal(labels[learnt], whole[learnt]) and 0 < learnt.float().mean() < 0.5


def test_the_learning_rate_rises_holds_and_falls():
    training = CORPUS.training.model_copy(update={"steps": 100, "final_rate": 0.1})
    rates = [learning_rate(step, training) / training.learning_rate for step in range(101)]
    assert rates[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert rates[3:51] == pytest.approx([1.0] * 48)
    assert rates[75] == pytest.approx(0.55) and rates[100] == pytest.approx(0.1)


def test_a_stage_ends_when_its_loss_is_low_or_its_steps_are_used_up():
    stages = [Stage(length=8, sequences=1, until_loss=0.5, max_steps=50), Stage(length=8, sequences=1)]
    steps = {}
    for name, loss in (("low", 0.4), ("high", 0.9)):
        progress = Progress()
        steps[name] = next(step for step in range(1, 99) if progress.advance(loss, stages))
        assert progress == Progress(stage=1)
        assert not any(progress.advance(0.0, stages) for _ in range(99))  # the last stage has no end
    assert steps == {"low": 21, "high": 50}


def with_scores(scores: torch.Tensor, row: ModelRow = TABLE["w8s8-1kv"]) -> pd.DataFrame:
    """Gate statistics of a model whose compressors report `scores` `[W, windows]` for every gate."""
    model = build(row)
    for layer in model.layers:
        layer.attention.compressor.scores = lambda hidden: scores[:, None, :, None, None, None].expand(
            -1, -1, -1, 2, 1, 1
        )
    return gate_statistics(model, torch.zeros(1, 8, dtype=torch.long))


def test_effective_numbers_of_gates_in_closed_form():
    width, windows = 8, 400
    uniform = torch.full((width, windows), 1 / width)
    fixed = torch.eye(width)[:, [5] * windows]
    drawn = torch.eye(width)[:, torch.arange(windows) % width]
    for scores, static, per_window in ((uniform, width, width), (fixed, 1, 1), (drawn, width, 1)):
        table = with_scores(scores)
        assert table["static"].to_numpy() == pytest.approx(static, rel=1e-5)
        assert table["per_window"].to_numpy() == pytest.approx(per_window, rel=1e-5)
    assert effective_number(torch.tensor([0.5, 0.5, 0.0])).item() == pytest.approx(2)


def test_a_uniform_gate_scores_one_over_w_and_full_attention_has_no_gate():
    tokens = torch.zeros(2, 40, dtype=torch.long)
    table = gate_statistics(build(TABLE["w8s8-1kv-uniform"]), tokens)
    assert (table["score"] == 1 / 8).all() and table["static"].to_numpy() == pytest.approx(8)
    assert gate_statistics(build(TABLE["full-1kv"]), tokens).empty


def test_the_saved_folder_is_complete(data, tmp_path):
    loop.train(TABLE["w8s8-1kv"], BACKBONE, CORPUS, data, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= names


def test_the_weights_of_chosen_steps_are_kept_and_load(data, tmp_path):
    loop.train(TABLE["w8s8-1kv"], BACKBONE, CORPUS, data, tmp_path)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step-000000", "step-000009"]
    first, middle, last = (
        AutoModelForCausalLM.from_pretrained(folder).embed.weight
        for folder in (tmp_path / "checkpoints/step-000000", tmp_path / "checkpoints/step-000009", tmp_path)
    )
    assert not torch.equal(first, middle) and not torch.equal(middle, last)
