"""Training: the same curve for a seed, undisturbed or resumed; gate statistics that mean what they say."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rows import BACKBONE, TABLE, build
from small import CORPUS, MEASURED, changed, curve, weights
from transformers import AutoModelForCausalLM

from weakspots.config import Corpus, CurriculumStage, Muon
from weakspots.data.prepare import prepare
from weakspots.data.shards import Sequences
from weakspots.errors import UserError
from weakspots.files import validation
from weakspots.mechanism.gate_statistics import effective_number, gate_statistics
from weakspots.model_table import ModelRow
from weakspots.training import checkpoint, loop
from weakspots.training.batches import IGNORED, Batches
from weakspots.training.schedule import Progress, learning_rate, step_count


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "recall"
    prepare(CORPUS, "recall", folder, workers=1)
    return folder


class Text:
    """Stands in for shards: sequence i is the numbers from i on, every third is an answer."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return 97

    def read(self, indices):
        tokens = np.asarray(indices)[:, None] + np.arange(self.length)
        return tokens, tokens % 3 == 0


class Stopped(BaseException):
    """Stands in for a kill: nothing of the program handles it."""


def test_a_seed_gives_the_same_run_to_the_bit_and_another_seed_another(data, tmp_path):
    results = [
        loop.train(TABLE[name], BACKBONE, CORPUS, data, tmp_path / str(number))
        for number, name in enumerate(["w8s8-1kv", "w8s8-1kv", "w8s8-1kv-seed43"])
    ]
    first, again, other = (curve(result["training"]) for result in results)
    pd.testing.assert_frame_equal(first, again, check_exact=True)
    assert not first["loss"].equals(other["loss"])
    one, two, three = (weights(tmp_path / str(number)) for number in range(3))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert any(not torch.equal(one[name], three[name]) for name in one)
    assert first["step"].tolist() == [4, 8, 12, 16, 19]
    assert sorted(results[0]["gates"]["step"].unique()) == [0, 9, 19]


MUON = {"rate": 3, "offset_decay": 10, "gate_bias_rate": 6}


@pytest.mark.parametrize(("name", "muon"), [("w8s4-1kv", None), ("full-4kv", None), ("w8s4-1kv", MUON)])
@pytest.mark.parametrize("stop", [1, 7, 11, 18])
def test_a_stopped_run_resumes_to_the_same_curve_and_weights(data, tmp_path, monkeypatch, name, muon, stop):
    corpus = changed(muon=muon and Muon.model_validate(muon))
    undisturbed = loop.train(TABLE[name], BACKBONE, corpus, data, tmp_path / "undisturbed")
    count = loop.Record.count

    def stopping(self, loss, tokens):
        if self.step == stop:
            raise Stopped
        count(self, loss, tokens)

    with monkeypatch.context() as patched:
        patched.setattr(loop.Record, "count", stopping)
        with pytest.raises(Stopped):
            loop.train(TABLE[name], BACKBONE, corpus, data, tmp_path / "resumed")
    kept = sorted(path.name for path in (tmp_path / "resumed").glob("checkpoint-*"))
    assert kept == [f"checkpoint-{step:08d}" for step in (5, 10, 15) if step <= stop][-2:]
    resumed = loop.train(TABLE[name], BACKBONE, corpus, data, tmp_path / "resumed")
    for table in ("training", "gates", "validation"):
        left, right = (result[table].drop(columns=MEASURED, errors="ignore") for result in (undisturbed, resumed))
        pd.testing.assert_frame_equal(left, right, check_exact=True)
    one, two = weights(tmp_path / "undisturbed"), weights(tmp_path / "resumed")
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert not list((tmp_path / "resumed").glob("checkpoint-*"))


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors", "state.json", "hashes.json"])
@pytest.mark.parametrize("damage", ["truncated", "flipped", "gone"])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path, file, damage):
    model = build(TABLE["w8s8-1kv"])
    optimizer = loop.optimizer_for(model, CORPUS.training)
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
    assert checkpoint.restore(tmp_path, model, loop.optimizer_for(model, CORPUS.training)) is None


def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_batch(data, tmp_path):
    broken = changed(learning_rate=1e30)
    expected = r"is nan at step 2, on 16 sequences \((\d+, )+.*train-0/00000.tokens.npy at token \d+: .*learning_rate"
    with pytest.raises(UserError, match=expected):
        loop.train(TABLE["full-1kv"], BACKBONE, broken, data, tmp_path)
    assert not (tmp_path / "model.safetensors").exists()


def test_the_batches_of_an_epoch_are_all_sequences_once(data):
    batches = Batches(Sequences(data / "train-0", CORPUS.stages[0].length), 0, 256, seed=1, answers_only=True)
    per_epoch = 200 // 16
    epoch = np.concatenate([batches.indices(step) for step in range(per_epoch)])
    assert len(set(epoch.tolist())) == len(epoch) == per_epoch * 16
    assert not np.array_equal(batches.indices(0), batches.indices(per_epoch))
    (part,) = batches.parts(3)
    whole, labels = part.tokens, part.labels
    learnt = labels != IGNORED
    assert torch.equal(labels[learnt], whole[learnt]) and 0 < learnt.float().mean() < 0.5


@given(
    length=st.integers(2, 40),
    size=st.integers(1, 30),
    processes=st.integers(1, 5),
    most=st.none() | st.integers(1, 400),
    answers=st.booleans(),
)
def test_processes_and_parts_share_a_batch_without_loss_overlap_or_idle_process(length, size, processes, most, answers):
    batches = Batches(Text(length), 0, size * length, seed=3, answers_only=answers)
    if size < processes:
        with pytest.raises(UserError, match="too small for"):
            list(batches.parts(1, 0, processes, most))
        return
    shares = [list(batches.parts(1, process, processes, most)) for process in range(processes)]
    assert len({len(share) for share in shares}) == 1
    parts = [part for share in shares for part in share]
    assert np.concatenate([part.indices for part in parts]).tolist() == batches.indices(1).tolist()
    assert all(len(part.indices) for part in parts)
    if most is not None and size >= processes * -(-size * length // max(length, most)):
        assert max(part.tokens.numel() for part in parts) <= max(length, most)
    labelled = [int((part.labels[:, 1:] != IGNORED).sum()) for part in parts]
    if sum(labelled):
        assert [part.weight for part in parts] == pytest.approx([count / sum(labelled) for count in labelled])


def test_accumulating_and_recomputing_change_a_run_by_rounding_only(data, tmp_path):
    """One part or five for every batch, activations kept or computed again: the same losses and weights."""
    row = TABLE["w8s4-1kv"]
    plain = loop.train(row, BACKBONE, CORPUS, data, tmp_path / "plain")
    for number, how in enumerate(({"micro_batch_tokens": 60}, {"recompute": True})):
        other = loop.train(row, BACKBONE, changed(**how), data, tmp_path / str(number))
        assert other["training"]["loss"].to_numpy() == pytest.approx(plain["training"]["loss"].to_numpy(), rel=1e-5)
        assert other["validation"]["loss"][0] == pytest.approx(plain["validation"]["loss"][0], rel=1e-4)
        one, two = weights(tmp_path / "plain"), weights(tmp_path / str(number))
        assert max((one[name] - two[name]).abs().max().item() for name in one) < 1e-3


def test_recomputing_keeps_no_activations_inside_a_layer():
    """What the backward pass needs is saved through autograd's hooks; with `recompute` it is a fraction."""
    saved = {}
    for recompute in (False, True):
        model = build(TABLE["w8s8-1kv"]).train()
        if recompute:
            model.activation_checkpointing_enable({"use_reentrant": False})
        kept = saved.setdefault(recompute, [])
        tokens = torch.arange(64)[None] % model.config.vocab_size
        with torch.autograd.graph.saved_tensors_hooks(lambda x, kept=kept: kept.append(x.numel()) or x, lambda x: x):
            model(tokens, labels=tokens)
    assert sum(saved[True]) < 0.5 * sum(saved[False])


def test_the_rows_of_a_run_say_how_much_of_the_machine_it_used(data, tmp_path):
    rows = loop.train(TABLE["full-1kv"], BACKBONE, CORPUS, data, tmp_path, flops_per_token=1e6)["training"]
    assert rows["flop_utilisation"].between(1e-6, 1).all()
    rate = rows["tokens_per_second"] * 1e6 / rows["flop_utilisation"]
    assert rate.to_numpy() == pytest.approx(rate[0], rel=1e-6)  # the one rate that was measured
    assert rows["peak_memory_gib"].between(0.1, 8).all()


def test_the_learning_rate_rises_holds_and_falls():
    training = CORPUS.training.model_copy(update={"steps": 100, "final_rate": 0.1})
    rates = [learning_rate(step, training) / training.learning_rate for step in range(101)]
    assert rates[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert rates[3:51] == pytest.approx([1.0] * 48)
    assert rates[75] == pytest.approx(0.55) and rates[100] == pytest.approx(0.1)


def test_a_stage_ends_when_its_loss_is_low_or_its_steps_are_used_up():
    stages = [
        CurriculumStage(length=8, sequences=1, until_loss=0.5, max_steps=50),
        CurriculumStage(length=8, sequences=1),
    ]
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
    config = AutoModelForCausalLM.from_pretrained(tmp_path).config
    assert config.max_position_embeddings == max(stage.length for stage in CORPUS.stages)  # what it was trained on


def test_the_weights_of_chosen_steps_are_kept_and_load(data, tmp_path):
    loop.train(TABLE["w8s8-1kv"], BACKBONE, CORPUS, data, tmp_path)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step-000000", "step-000009"]
    first, middle, last = (
        AutoModelForCausalLM.from_pretrained(folder).embed.weight
        for folder in (tmp_path / "checkpoints/step-000000", tmp_path / "checkpoints/step-000009", tmp_path)
    )
    assert not torch.equal(first, middle) and not torch.equal(middle, last)


def test_the_rate_falls_at_once_when_the_last_loss_is_low_and_is_as_before_where_it_never_is():
    training = CORPUS.training.model_copy(update={"steps": 100, "decay_fraction": 0.3, "final_rate": 0.1})
    assert step_count(training) == 100 and step_count(training, low_at=40) == 70
    rates = [learning_rate(step, training, low_at=40) / training.learning_rate for step in range(71)]
    assert rates[3:41] == pytest.approx([1.0] * 38)
    assert rates[40:] == pytest.approx([1 - 0.9 * done / 30 for done in range(31)])
    usual = [learning_rate(step, training) for step in range(100)]
    for late in (70, 85, 100):  # the decay is due, or has begun: it is not drawn out
        assert step_count(training, late) == 100
        assert [learning_rate(step, training, late) for step in range(100)] == usual
    at_once = training.model_copy(update={"decay_fraction": 0.0})
    assert step_count(at_once, low_at=40) == 40 and learning_rate(39, at_once, 40) == training.learning_rate


def test_training_is_over_only_by_the_loss_of_the_last_stage():
    stages = [
        CurriculumStage(length=8, sequences=1, until_loss=0.5),
        CurriculumStage(length=8, sequences=1, until_loss=0.5),
    ]
    progress, over = Progress(), []
    for step in range(1, 60):
        progress.advance(0.4, stages)
        if progress.is_over(stages):
            over.append(step)
    assert over[0] == 2 * 21  # as many steps as a stage needs before its loss counts, in both of them
    unlimited = [stages[0], CurriculumStage(length=8, sequences=1)]
    assert not progress.is_over(unlimited)


def until(loss: float, **training) -> Corpus:
    """The corpus with a limit of the last stage, trained on for as many steps as that loss needs to count."""
    first, last = CORPUS.stages
    stages = [first.model_copy(update={"max_steps": 3}), last.model_copy(update={"until_loss": loss})]
    longer = {"steps": 60, "decay_fraction": 0.2, "checkpoint_steps": [0, 9, 50, 60], **training}
    return changed(**longer).model_copy(update={"stages": stages})


@pytest.mark.parametrize("stop", [22, 26, 31, 35])
def test_a_run_ends_early_and_resumes_to_the_same_bits_wherever_its_decay_was_stopped(
    data, tmp_path, monkeypatch, stop
):
    corpus = until(9.0)
    whole = loop.train(TABLE["w8s8-1kv"], BACKBONE, corpus, data, tmp_path / "whole")
    ended = 3 + 21 + 12  # the first stage, the steps before a loss counts, the decay
    assert whole["training"]["step"].tolist() == [*range(4, ended + 1, 4)]
    assert whole["training"]["learning_rate"].iloc[-1] == pytest.approx(corpus.training.learning_rate / 12)
    assert sorted(whole["gates"]["step"].unique()) == [0, 9, ended]  # 50 is never reached
    kept = sorted(path.name for path in (tmp_path / "whole" / "checkpoints").iterdir())
    assert kept == ["step-000000", "step-000009"]

    count = loop.Record.count

    def stopping(self, loss, tokens):
        if self.step == stop:
            raise Stopped
        count(self, loss, tokens)

    with monkeypatch.context() as patched:
        patched.setattr(loop.Record, "count", stopping)
        with pytest.raises(Stopped):
            loop.train(TABLE["w8s8-1kv"], BACKBONE, corpus, data, tmp_path / "resumed")
    resumed = loop.train(TABLE["w8s8-1kv"], BACKBONE, corpus, data, tmp_path / "resumed")
    for table in ("training", "gates", "validation"):
        left, right = (result[table].drop(columns=MEASURED, errors="ignore") for result in (whole, resumed))
        pd.testing.assert_frame_equal(left, right, check_exact=True)
    one, two = weights(tmp_path / "whole"), weights(tmp_path / "resumed")
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_limit_that_is_never_reached_changes_no_bit(data, tmp_path):
    limited = until(1e-9)
    free = limited.model_copy(
        update={"stages": [limited.stages[0], limited.stages[1].model_copy(update={"until_loss": None})]}
    )
    results = [
        loop.train(TABLE["w8s4-1kv"], BACKBONE, corpus, data, tmp_path / name)
        for name, corpus in (("limited", limited), ("free", free))
    ]
    pd.testing.assert_frame_equal(*(curve(result["training"]) for result in results), check_exact=True)
    assert results[0]["training"]["step"].iloc[-1] == 60
    one, two = weights(tmp_path / "limited"), weights(tmp_path / "free")
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize(
    ("below", "learnt", "said"),
    [
        (None, None, r"done: validation loss \d\.\d{4}$"),
        (9.0, True, r"\(learnt: below 9\)$"),
        (0.5, False, r"\(not learnt: its loss is \d\.\d\d, and a model has left the plateau below 0\.5\)$"),
    ],
)
def test_a_run_says_whether_it_has_learnt(data, tmp_path, caplog, below, learnt, said):
    caplog.set_level("INFO")
    table = loop.train(TABLE["full-1kv"], BACKBONE, changed(learnt_below=below), data, tmp_path)["validation"]
    assert re.search(said, next(message for message in caplog.messages if message.startswith("done")))
    validation.write(tmp_path / "validation.json", table.to_dict("records")[0])
    written = json.loads((tmp_path / "validation.json").read_text())
    assert written["learnt"] is learnt and written["learnt_below"] == below and written["tokens"] > 0
    assert validation.read(tmp_path / "validation.json").learnt is learnt
