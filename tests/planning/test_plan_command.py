"""`weakspots plan` says what a scale costs, or in one or two lines why it cannot."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from rows import ROOT

from weakspots.cli.main import main
from weakspots.config import load
from weakspots.planning import counts

PAPER = "workflow/scales/paper.yaml"


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def plan(capsys: pytest.CaptureFixture, *arguments: str) -> str:
    assert main(["plan", *arguments]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def cells(text: str, run: str) -> list[list[str]]:
    """The lines of the tables that belong to `run`, by column."""
    return [re.split(r"  +", line) for line in text.splitlines() if line.split("  ")[0] == run]


def refused(capsys: pytest.CaptureFixture, *arguments: str) -> str:
    assert main(["plan", *arguments]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and "Traceback" not in printed.err
    assert 1 <= len(printed.err.splitlines()) <= 2
    return printed.err


def test_every_run_of_the_paper_has_its_label_and_parameters(capsys) -> None:
    text, config = plan(capsys, "--configfile", PAPER), load("config.yaml", PAPER)
    assert len(config.models) == 27
    for name, row in config.models.items():
        compute, memory, disk = cells(text, name)
        assert compute[1] == row.label()
        assert compute[2] == f"{sum(counts.parameters_by_part(row, config.backbone, 151_669).values()):,}"
        assert len(memory) == len(disk) == 7
    assert "47,518 steps of 2,097,152 tokens = 99,652,468,736 tokens" in text
    assert "All 27 runs: 2,691B tokens" in text


def test_without_an_overlay_the_laptop_scale_is_planned(capsys) -> None:
    text, config = plan(capsys), load("config.yaml")
    assert text.startswith("Scale laptop: 2 layers, width 64")
    assert [line.split(",")[0] for line in text.splitlines() if line.startswith("Corpus")] == [
        "Corpus recall",
        "Corpus prose",
    ]
    recall, prose = (compute for compute in cells(text, "w8s8-1kv") if compute[1] == "W8/S8 · 1 KV")
    assert recall[2] == f"{sum(counts.parameters_by_part(config.models['w8s8-1kv'], config.backbone, 161).values()):,}"
    assert prose[2] == f"{sum(counts.parameters_by_part(config.models['w8s8-1kv'], config.backbone, 2_048).values()):,}"


def test_overlays_lie_over_each_other_as_in_snakemake(capsys, tmp_path: Path) -> None:
    above = tmp_path / "mine.yaml"
    above.write_text("backbone: {layers: 4}\nscale: mine\n")
    text = plan(capsys, "--configfile", PAPER, str(above))
    assert text.startswith("Scale mine: 4 layers, width 1,024")


def test_only_named_models_are_planned(capsys) -> None:
    text = plan(capsys, "--configfile", PAPER, "--models", "full-1kv", "w12s12-4kv")
    assert "All 2 runs" in text and len(cells(text, "full-1kv")) == 3 and cells(text, "w8s8-1kv") == []


def test_gpu_hours_follow_from_operations_and_what_is_assumed(capsys) -> None:
    config = load("config.yaml", PAPER)
    row = config.models["w8s8-1kv"]
    flops = 99_652_468_736 * counts.flops_per_token(row, config.backbone, 151_669, 4_096)

    def hours(*arguments: str) -> list[str]:
        return cells(plan(capsys, "--configfile", PAPER, "--models", "w8s8-1kv", *arguments), "w8s8-1kv")[0][-2:]

    assert hours() == [f"{flops / (0.4 * 989e12) / 3600:,.0f}", f"{flops / (0.4 * 989e12) / 3600 / 168:.2f}"]
    slower = flops / (0.2 * 312e12) / 3600
    assert hours("--mfu", "0.2", "--peak-tflops", "312", "--days", "2") == [f"{slower:,.0f}", f"{slower / 48:.1f}"]


def test_tokens_per_second_are_those_that_the_days_need(capsys) -> None:
    text = plan(capsys, "--configfile", PAPER, "--models", "full-1kv", "--days", "10")
    assert f"To finish in 10 days, one run needs {99_652_468_736 / 864_000:,.0f} tokens/s" in " ".join(text.split())


def test_what_is_assumed_is_called_so(capsys) -> None:
    text = " ".join(plan(capsys, "--configfile", PAPER, "--mfu", "0.3").split())
    assert "Assumed, not measured: mfu 0.3 (--mfu) of a peak of 989 TFLOP/s (--peak-tflops" in text
    assert "of one micro-batch on one GPU, 16,384 tokens (web, all kept as configured)" in text


def test_markdown_has_the_same_numbers(capsys) -> None:
    arguments = ("--configfile", PAPER, "--models", "w8s8-8kv")
    text, markdown = plan(capsys, *arguments), plan(capsys, *arguments, "--markdown")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in markdown.splitlines() if "w8s8-8kv" in line
    ]
    assert rows == cells(text, "w8s8-8kv") and len(rows) == 3


def test_the_vocabulary_of_a_tokenizer_folder_is_counted(capsys, tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = {"<|endoftext|>": 0, **{f"word{number}": number + 1 for number in range(41)}}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(words)), eos_token="<|endoftext|>")
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    text = plan(capsys, "--configfile", PAPER, tokenizer_overlay(tmp_path, tmp_path / "tokenizer"))
    assert "vocabulary 42," in " ".join(text.split())


def test_the_vocabulary_of_another_hub_tokenizer_must_be_given(capsys, tmp_path: Path) -> None:
    overlay = tokenizer_overlay(tmp_path, "someone/else")
    message = refused(capsys, "--configfile", PAPER, overlay)
    assert "corpora.web.tokenizer.path 'someone/else'" in message and "--vocabulary" in message
    assert "50,257" in plan(capsys, "--configfile", PAPER, overlay, "--vocabulary", "50257")


def tokenizer_overlay(folder: Path, path: object) -> str:
    overlay = folder / "tokenizer.yaml"
    overlay.write_text(json.dumps({"corpora": {"web": {"tokenizer": {"kind": "pretrained", "path": str(path)}}}}))
    return str(overlay)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--configfile", "workflow/scales/papers.yaml"), "workflow/scales/papers.yaml does not exist"),
        (("--configfile", "README.md"), "README.md"),
        (("--models", "w9s9"), "w9s9"),
        (("--days", "-1"), "--days -1"),
        (("--days", "nan"), "--days nan"),
        (("--mfu", "0"), "--mfu 0"),
        (("--mfu", "40"), "--mfu 40"),
        (("--peak-tflops", "-989"), "--peak-tflops -989"),
        (("--vocabulary", "1"), "--vocabulary 1"),
    ],
)
def test_a_mistake_is_named_in_one_or_two_lines(capsys, arguments: tuple[str, ...], named: str) -> None:
    assert named in refused(capsys, *arguments)


def test_outside_the_project_the_missing_configuration_is_named(capsys, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "config.yaml does not exist" in refused(capsys)
