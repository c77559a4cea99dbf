"""What is done is not done again, and what changed is."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from copies import SMOKE, Project

OF_LOOKUPS = {"figure_2", "figure_3", "figure_5", "figure_6", "tables", "claims", "explorer"}
OF_NEEDLES = {"figure_1", "tables", "claims", "explorer"}
OF_STAND_INS = {"needle_model", "layer_knockout_model", *OF_NEEDLES}
OF_MODELS = {*OF_LOOKUPS, "figure_4", "figure_theory"}


def jobs_with(project: Project, tmp_path: Path, overlay: dict) -> set[str]:
    """The jobs of the smoke scale with one more overlay on top."""
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(overlay))
    return project.jobs(*SMOKE, str(path))


def rules(jobs: set[str]) -> set[str]:
    return {job.split()[0] for job in jobs}


def test_a_second_run_does_nothing(finished: Project) -> None:
    done = finished.snakemake(*SMOKE)
    assert done.returncode == 0
    assert "Nothing to be done" in done.stdout


def test_jobs_speak_while_they_run_and_use_the_cores_they_were_given(finished: Project) -> None:
    assert "[train recall w8s8-1kv] done" in (finished.folder / "output.txt").read_text()
    assert (finished.folder / "results/smoke/models/recall/w8s8-1kv/content").read_text() == "1"


def test_a_changed_row_retrains_that_model_only(finished: Project, tmp_path: Path) -> None:
    jobs = jobs_with(finished, tmp_path, {"models": {"w8s4-1kv": {"seed": 7}}})
    again = {"train_model recall w8s4-1kv", "lookup_model w8s4-1kv"}
    assert jobs == {*again, *OF_MODELS}


def test_a_changed_row_that_is_cycled_is_cycled_again(finished: Project, tmp_path: Path) -> None:
    assert "cycling_model w8s8-1kv" in jobs_with(finished, tmp_path, {"models": {"w8s8-1kv": {"seed": 7}}})


def test_a_row_that_trains_on_two_corpora_is_retrained_on_both(finished: Project, tmp_path: Path) -> None:
    jobs = jobs_with(finished, tmp_path, {"models": {"w8s8-1kv": {"seed": 7}}})
    trained = {job for job in jobs if job.startswith("train_model")}
    assert trained == {"train_model recall w8s8-1kv", "train_model prose w8s8-1kv"}


def test_a_new_row_trains_only_itself(finished: Project, tmp_path: Path) -> None:
    names = ["full-1kv", "w8s8-1kv", "w8s4-1kv", "w8s8-1kv-uniform", "mine"]
    overlay = {"models": {"mine": {"kv_heads": 2}}, "corpora": {"recall": {"models": names}}}
    jobs = jobs_with(finished, tmp_path, overlay)
    again = {"train_model recall mine", "lookup_model mine"}
    assert jobs == {*again, *OF_MODELS}


def test_training_settings_of_one_corpus_leave_the_other_alone(finished: Project, tmp_path: Path) -> None:
    jobs = jobs_with(finished, tmp_path, {"corpora": {"prose": {"training": {"steps": 7}}}})
    assert {job for job in jobs if "recall" in job} == set()
    assert rules(jobs) == {"train_model", "tables", "explorer"}


@pytest.mark.parametrize(
    ("overlay", "expected"),
    [
        ({"lookup": {"seed": 5}}, {"lookup_model", "cycling_model", *OF_LOOKUPS}),
        ({"lookup": {"batch": 5}}, set()),
        ({"launch": "workflow/accelerate/cpu_2.yaml"}, set()),
        ({"device": "cuda", "launch": "workflow/accelerate/gpu_8.yaml"}, set()),
        ({"statistics": {"bootstrap": 200}}, OF_MODELS),
        ({"knockout": {"calibration": 5}}, {"lookup_model", *OF_LOOKUPS}),
        ({"theory": {"beta": 3.0}}, {"theory", "figure_theory", "claims", "explorer"}),
        ({"deepseek": {"stand_in": {"width": 32}}}, {"stand_in", *OF_STAND_INS}),
        ({"deepseek": {"needle": {"seed": 5}}}, OF_STAND_INS),
        ({"deepseek": {"needle": {"batch": 5}, "layer_knockout": {"chunk_tokens": 5}}}, set()),
        ({"deepseek": {"layer_knockout": {"calibration": 5}}}, {"layer_knockout_model", *OF_NEEDLES} - {"tables"}),
        ({"cycling": {"shifts": [1]}}, {"cycling_model", "figure_6", "claims", "explorer"}),
    ],
    ids=[
        "prompts",
        "batch",
        "launch",
        "device",
        "statistics",
        "knockout",
        "theory",
        "stand-in",
        "needle",
        "chunk",
        "layer",
        "cycling",
    ],
)
def test_a_section_reruns_the_stages_that_read_it(
    finished: Project, tmp_path: Path, overlay: dict, expected: set[str]
) -> None:
    assert rules(jobs_with(finished, tmp_path, overlay)) == expected


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("lookup/prompts.py", {"lookup_model", "cycling_model", *OF_LOOKUPS}),
        ("mechanism/all_knockouts.py", {"lookup_model", *OF_LOOKUPS}),
        ("model/loading.py", {"lookup_model", "cycling_model", *OF_LOOKUPS, *OF_STAND_INS}),
        ("deepseek/standin.py", {"stand_in", *OF_STAND_INS}),
        ("deepseek/needle.py", OF_STAND_INS),
        ("serving/store.py", {"needle_model", *OF_NEEDLES}),
        ("theory/coverage.py", {"theory", "figure_theory", "claims", "explorer"}),
        ("claims/report.py", {"claims", "explorer"}),
        ("explorer/page/accuracy.js", {"explorer"}),
        ("figures/figure_2.py", {"figure_2", "explorer"}),
        ("figures/figure_1_layers.py", {"figure_1", "explorer"}),
        ("figures/needle_table.py", {"tables"}),
        ("workflow/tracking.py", set()),
        ("cli/main.py", set()),
        ("training/loop.py", {"train_model", "lookup_model", "cycling_model", "stand_in", *OF_STAND_INS, *OF_MODELS}),
        (
            "model/transformer.py",
            {"train_model", "lookup_model", "cycling_model", "stand_in", *OF_STAND_INS, *OF_MODELS},
        ),
    ],
)
def test_an_edit_reruns_the_stages_that_import_the_file(project: Project, file: str, expected: set[str]) -> None:
    path = project.folder / "src/weakspots" / file
    path.write_text(path.read_text() + "\n# edited\n")
    assert rules(project.jobs(*SMOKE)) == expected


@pytest.mark.parametrize(
    "file",
    [
        "statistics.py",
        "files/tables.py",
        "analysis/results.py",
        "files/theory_columns.py",
        "workflow/stage_dependencies.py",
    ],
)
def test_what_only_readers_of_results_import_repeats_no_model_and_no_lookup(project: Project, file: str) -> None:
    path = project.folder / "src/weakspots" / file
    path.write_text(path.read_text() + "\n# edited\n")
    assert not rules(project.jobs(*SMOKE)) & {"data", "train_model", "lookup_model", "cycling_model"}


def test_an_edit_of_a_notebook_redraws_its_figure_and_the_page_that_links_to_it(project: Project) -> None:
    path = project.folder / "notebooks/figure_2.ipynb"
    path.write_text(path.read_text() + "\n")
    assert project.jobs(*SMOKE) == {"figure_2", "explorer"}


def test_bookkeeping_that_is_deleted_repeats_nothing(project: Project) -> None:
    for name in ("smoke/config.yaml", "smoke/tracking.json", "mlflow.db"):
        (project.folder / "results" / name).unlink()
    assert project.jobs(*SMOKE) == set()


def test_the_configuration_on_disk_is_the_one_that_ran(project: Project, tmp_path: Path) -> None:
    overlay = tmp_path / "mine.yaml"
    overlay.write_text("statistics: {bootstrap: 200}\n")
    done = project.snakemake(*SMOKE, str(overlay))
    assert done.returncode == 0, done.stdout
    assert "bootstrap: 200" in (project.folder / "results/smoke/config.yaml").read_text()
    assert project.jobs(*SMOKE, str(overlay)) == set()


def test_a_deleted_model_is_trained_again_with_what_follows(project: Project) -> None:
    model = project.folder / "results/smoke/models/recall/w8s8-1kv"
    model.rename(project.folder / "gone")
    assert project.jobs("train", *SMOKE) == {"train_model recall w8s8-1kv"}
