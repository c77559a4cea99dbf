"""The workflow is there, for every scale, and says what is wrong with a configuration before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from copies import ROOT, SMOKE, Project

from weakspots import config
from weakspots.config.deepseek import TESTS

SCALES = {
    "laptop": (),
    "smoke": SMOKE,
    "paper": ("--configfile", "workflow/scales/paper.yaml"),
}


def settings_of(scale: str) -> config.Config:
    overlays = () if scale == "laptop" else (ROOT / f"workflow/scales/{scale}.yaml",)
    return config.load(ROOT / "config.yaml", *overlays)


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_plans_every_model_and_its_lookups(untouched: Project, scale: str) -> None:
    settings = settings_of(scale)
    evaluated = settings.models_of(settings.lookup.corpus)
    expected = {f"lookup_model {model}" for model in evaluated}
    expected |= {f"train_model {corpus} {model}" for corpus in settings.corpora for model in settings.models_of(corpus)}
    expected |= {f"data {corpus}" for corpus in settings.corpora}
    expected |= {f"cycling_model {model}" for model in settings.cycling.models}
    expected |= {f"stand_in {model}" for model in settings.deepseek.stand_ins}
    expected |= {f"{test}_model {model}" for test in TESTS for model in settings.deepseek.run(test)}
    expected |= {f"figure_{number}" for number in range(1, 7)} | {"theory", "figure_theory", "tables", "claims"}
    expected |= {"explorer"}
    assert untouched.jobs(*SCALES[scale]) == expected


def test_the_laptop_and_the_paper_run_the_papers_models() -> None:
    assert len(settings_of("laptop").models) == 27
    assert settings_of("paper").models == settings_of("laptop").models
    assert settings_of("paper").models_of("web") == list(settings_of("laptop").models)


@pytest.mark.parametrize(
    ("target", "rules"),
    [
        ("train", {"data", "train_model"}),
        ("lookup", {"data", "train_model", "lookup_model"}),
        ("figure_2", {"data", "train_model", "lookup_model", "figure_2"}),
        ("knockout", {"data", "train_model", "lookup_model"}),
        ("gates", {"data", "train_model"}),
        ("cycling", {"data", "train_model", "cycling_model"}),
        ("figure_3", {"data", "train_model", "lookup_model", "figure_3"}),
        ("figure_4", {"data", "train_model", "figure_4"}),
        ("figure_5", {"data", "train_model", "lookup_model", "figure_5"}),
        ("figure_6", {"data", "train_model", "lookup_model", "cycling_model", "figure_6"}),
        ("deepseek", {"data", "stand_in", "needle_model", "layer_knockout_model"}),
        ("figure_1", {"data", "stand_in", "needle_model", "layer_knockout_model", "figure_1"}),
        ("theory", {"theory"}),
        ("figure_theory", {"data", "train_model", "theory", "figure_theory"}),
        ("tables", {"data", "train_model", "lookup_model", "stand_in", "needle_model", "tables"}),
        (
            "claims",
            {"data", "train_model", "lookup_model", "cycling_model", "theory", "claims"}
            | {"stand_in", "needle_model", "layer_knockout_model"},
        ),
        (
            "explorer",  # with the figures that it links to
            {"data", "train_model", "lookup_model", "cycling_model", "theory", "claims", "figure_theory", "explorer"}
            | {"stand_in", "needle_model", "layer_knockout_model"}
            | {f"figure_{number}" for number in range(1, 7)},
        ),
    ],
)
def test_stages_and_figures_are_targets(untouched: Project, target: str, rules: set[str]) -> None:
    assert {job.split()[0] for job in untouched.jobs(target)} == rules


def test_the_laptop_asks_the_stand_in_and_its_control_and_no_model_that_is_nowhere(untouched: Project) -> None:
    asked = {job for job in untouched.jobs("deepseek") if job.startswith("needle_model")}
    assert asked == {"needle_model stand-in", "needle_model stand-in-flat"}
    assert untouched.jobs("deepseek", "--configfile", "workflow/scales/paper.yaml") == set()


def test_a_model_with_an_endpoint_is_asked_and_needs_no_gpu_and_no_training(untouched: Project, tmp_path: Path) -> None:
    overlay = tmp_path / "mine.yaml"
    overlay.write_text(
        "deepseek: {models: {flash-base: {endpoint: {url: 'http://localhost:8000/v1', model: flash}}}}\n"
    )
    paper = ("--configfile", "workflow/scales/paper.yaml", str(overlay))
    assert untouched.jobs("deepseek", *paper) == {"needle_model flash-base", "code_completion_model flash-base"}
    done = untouched.snakemake("deepseek", "--dry-run", "--printshellcmds", *paper)
    commands = [line for line in done.stdout.splitlines() if line.startswith("Shell command: ") and "weakspots" in line]
    starts = sorted(line.removeprefix("Shell command: ").split(" flash-base ")[0] for line in commands)
    assert starts == ["weakspots code-completion", "weakspots needle"], "no GPU is claimed"


def test_one_model_is_a_target(untouched: Project) -> None:
    jobs = untouched.jobs("results/laptop/models/recall/w8s8-1kv")
    assert jobs == {"data recall", "train_model recall w8s8-1kv"}


def test_a_model_that_is_in_no_table_is_refused(untouched: Project) -> None:
    done = untouched.snakemake("--dry-run", "results/laptop/models/recall/w8s8-1kw")
    assert done.returncode == 1
    assert "No rule to produce results/laptop/models/recall/w8s8-1kw" in done.stdout
    assert "Traceback" not in done.stdout


def test_the_workflow_follows_snakemakes_own_advice(untouched: Project) -> None:
    done = untouched.snakemake("--lint")
    assert done.returncode == 0, done.stdout
    assert "Congratulations" in done.stdout


@pytest.mark.parametrize(
    ("overlay", "message"),
    [
        ({"modles": {}}, "modles: unknown key"),
        ({"models": {"w8s8-1kv": {"stride": 9}}}, "models.w8s8-1kv: stride 9 is larger than window 8"),
        ({"models": {"w8s8-1kv": {"kv_heads": 3}}}, "models.w8s8-1kv.kv_heads 3 does not divide"),
        ({"cycling": {"models": ["w8s4-1kv"]}}, "cycling.models w8s4-1kv cannot be cycled"),
        ({"lookup": {"modulus": 16, "mappings": 256}}, "lookup.modulus 16 is no multiple of models.w8s6-1kv.stride 6"),
        ({"corpora": {"recall": {"source": {"values": 3}}}}, "values 3): lower records or raise both"),
        ({"launch": "my/launch.yaml"}, "my/launch.yaml cannot be read (No such file or directory)"),
        (
            {"launch": "workflow/accelerate/gpu_8.yaml"},
            "gpu_8.yaml is for GPUs (use_cpu is not true) and device is cpu",
        ),
        ({"corpora": {"prose": {"source": {"paths": ["my/text.txt"]}}}}, "my/text.txt does not exist"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mistake_in_the_configuration_is_one_line_and_no_traceback(
    untouched: Project, tmp_path: Path, overlay: dict, message: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(overlay))
    done = untouched.snakemake("--dry-run", "--configfile", str(path))
    assert done.returncode == 1
    lines = done.stdout[done.stdout.index("Error in the configuration:") :].splitlines()
    assert len(lines) == 2
    assert message in lines[1]
    assert "Traceback" not in done.stdout
    assert 'File "' not in done.stdout


def test_the_schema_beside_the_scales_is_the_typed_configuration() -> None:
    stored = (ROOT / "workflow/schemas/config.schema.json").read_text()
    assert stored == config.schema(), "run `make schema`"


@pytest.mark.parametrize("scale", SCALES)
def test_the_resolved_configuration_reads_back_as_it_was(scale: str, tmp_path: Path) -> None:
    config.write(settings_of(scale), tmp_path / "config.yaml")
    assert config.load(tmp_path / "config.yaml") == settings_of(scale)


def test_the_files_of_a_local_corpus_are_in_no_command(untouched: Project) -> None:
    """Whatever their names are; `test_texts` has what decides in their place."""
    done = untouched.snakemake("--dry-run", "--printshellcmds", "results/laptop/data/prose")
    assert "weakspots data prose" in done.stdout
    assert "state_of_the_union" not in done.stdout
