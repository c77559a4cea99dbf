"""docs/paper_scale.md shows the plans of the configuration as it is, arithmetic that adds up, and every unknown."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import yaml
from documented import BLOCK, PAGE, output
from rows import ROOT

from weakspots.config import load
from weakspots.planning import counts, disk, memory

PAPER = ROOT / "workflow/scales/paper.yaml"
FIRST = ROOT / "workflow/scales/first_gpu.yaml"
PLANS = [(found[2], found[3]) for found in BLOCK.finditer(PAGE.read_text())]
SHOWN = re.search(r"```\n(embedding .*?)```", PAGE.read_text(), re.DOTALL)[1].splitlines()
ARITHMETIC = [re.fullmatch(r"(\S.*?)  +(.+) = (\S+)", line).groups() for line in SHOWN if line]
UNKNOWN = re.findall(r"^\| [^|]+ \| `([^`]+)` \| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("command", "shown"), PLANS, ids=[command for command, _ in PLANS])
def test_a_plan_is_what_its_command_prints(command: str, shown: str) -> None:
    assert shown.strip() == output(command), "write the page again: python tests/planning/documented.py"


def test_both_plans_are_there() -> None:
    paper = "weakspots plan --configfile workflow/scales/paper.yaml"
    assert [command for command, _ in PLANS] == [
        f"{paper} --markdown",
        f"{paper} workflow/scales/first_gpu.yaml --markdown",
    ]


@pytest.mark.parametrize(("name", "terms", "result"), ARITHMETIC, ids=[name for name, *_ in ARITHMETIC])
def test_the_arithmetic_adds_up(name: str, terms: str, result: str) -> None:
    computed = eval(terms.replace(",", "").replace("×", "*").replace("^", "**"))
    shown = float(result.replace(",", ""))
    exact = "." not in result and computed == int(computed)
    assert shown == (computed if exact else pytest.approx(computed, rel=5e-3))


def test_the_arithmetic_ends_where_the_plan_does() -> None:
    config = load(ROOT / "config.yaml", PAPER)
    row, backbone = config.models["w8s8-1kv"], config.backbone
    shown = {name: float(result.replace(",", "")) for name, _, result in ARITHMETIC}
    parts = counts.parameters_by_part(row, backbone, 151_669)
    assert {name: shown[name] for name in parts} == parts
    assert shown["parameters"] == sum(counts.parameters_by_part(row, backbone, 151_669).values())
    flops = counts.flops_per_token(row, backbone, 151_669, 4_096)
    assert shown["FLOP per token"] == pytest.approx(flops, rel=1e-6)
    state = memory.state_bytes(row, backbone, 151_669, "bfloat16")
    assert shown["state GiB"] == pytest.approx(sum(state.values()) / 2**30, rel=1e-3)
    layer = memory.layer_bytes(row, backbone, 4_096, "bfloat16")
    assert shown["layer, per token"] == sum(layer.values())
    for name, recompute in (("activations GiB", False), ("recomputed GiB", True)):
        size = memory.activation_bytes(row, backbone, 4_096, 16_384, "bfloat16", recompute)
        assert shown[name] == pytest.approx(size / 2**30, rel=2e-3)
    corpus = config.corpora["web"]
    assert shown["weights GB"] == pytest.approx(disk.kept_bytes(corpus, shown["parameters"]) / 1e9, rel=2e-3)
    assert shown["to resume GB"] == pytest.approx(disk.resume_bytes(shown["parameters"]) / 1e9, rel=2e-3)
    assert shown["knockout rows"] == disk.table_rows(config, "web", "w8s8-1kv")["knockout"]


def lines_of(path, node=None, prefix="") -> dict[str, str]:
    """The line of the file that every key stands on, by its dotted name."""
    text = path.read_text().splitlines()
    node = yaml.compose(path.read_text()) if node is None else node
    found = {}
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    for key, value in pairs:
        name = f"{prefix}{key.value}"
        found[name] = text[key.start_mark.line]
        found |= lines_of(path, value, f"{name}.")
        if isinstance(value, yaml.SequenceNode):
            for number, item in enumerate(value.value):
                found |= lines_of(path, item, f"{name}.{number}.")
    return found


@pytest.mark.parametrize(("key", "value"), UNKNOWN, ids=[key for key, _ in UNKNOWN])
def test_an_unknown_is_a_key_of_the_paper_scale_marked_as_our_choice(key: str, value: str) -> None:
    found = yaml.safe_load(PAPER.read_text())
    for part in key.split("."):
        found = found[int(part) if isinstance(found, list) else part]
    assert str(found) == value.strip()
    lines = lines_of(PAPER)
    above = key.rsplit(".", 1)[0]  # the comment of a section stands for the keys in it
    marked = [line for line in (lines[key], lines.get(above, "")) if re.search(r"#.*\bC\b", line)]
    assert marked, f"{key} carries no C: {lines[key]!r}"


def test_every_choice_of_the_paper_scale_is_in_the_table() -> None:
    """But for how the machine is used, which changes no result, and for DeepSeek, which has a page of its own."""
    chosen = {key for key, line in lines_of(PAPER).items() if re.search(r"#.*\bC\b", line)}
    chosen = {key for key in chosen if not key.startswith("deepseek.")}
    sections = {"corpora.web.source", "corpora.web.tokenizer"}
    assert chosen - sections - {"launch"} <= {key for key, _ in UNKNOWN}


def test_the_first_run_trains_two_rows_on_500m_tokens_on_one_gpu() -> None:
    config = load(ROOT / "config.yaml", PAPER, FIRST)
    training = config.corpora["web"].training
    assert config.models_of("web") == ["full-1kv", "w8s8-1kv"]
    assert training.steps * training.batch_tokens == pytest.approx(500e6, rel=0.001)
    assert config.corpora["web"].stages[-1].length == 2_048
    assert config.launch is None and config.device == "cuda"


def test_the_first_run_reads_no_sequence_twice() -> None:
    corpus = load(ROOT / "config.yaml", PAPER, FIRST).corpora["web"]
    stage = corpus.stages[-1]
    assert stage.sequences * stage.length == corpus.training.steps * corpus.training.batch_tokens


def test_snakemake_plans_the_first_run() -> None:
    overlays = [str(path.relative_to(ROOT)) for path in (PAPER, FIRST)]
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "figure_2", "--dry-run", "--configfile", *overlays],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    for model in ("full-1kv", "w8s8-1kv"):
        assert f"results/first_gpu/models/web/{model}\n" in done.stdout
    assert "w8s8-1kv-seed43" not in done.stdout
