"""How jobs start on machines with GPUs and on clusters: commands that are printed, and nothing that runs on a GPU."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from copies import ROOT, SMOKE, Project

PAPER = ("--configfile", "workflow/scales/paper.yaml")
MODEL = "results/paper/models/web/w8s8-1kv"
SCRIPT = ROOT / "workflow/launch_nodes.sh"


def commands(output: str) -> dict[str, str]:
    """The shell command of each stage in the output of a dry run with --printshellcmds."""
    found = re.findall(r"^Shell command: (.*?weakspots(?:\.cli)? ((?!claim )\w+) .*)$", output, re.MULTILINE)
    return {stage: command for command, stage in found}


def test_on_gpus_every_job_claims_as_many_as_it_computes_on(untouched: Project) -> None:
    done = untouched.snakemake("--dry-run", "--printshellcmds", "all", *PAPER)
    assert done.returncode == 0, done.stdout
    shown = commands(done.stdout)
    assert shown["train"].startswith(
        "weakspots claim --gpus 8 -- accelerate launch --config_file workflow/accelerate/gpu_8"
    )
    assert shown["lookup"].startswith("weakspots claim --gpus 1 -- weakspots lookup ")
    assert shown["cycling"].startswith("weakspots claim --gpus 1 -- weakspots cycling ")
    assert shown["claims"].startswith("weakspots claims ")


def test_on_a_cpu_nothing_is_claimed(untouched: Project) -> None:
    done = untouched.snakemake("--dry-run", "--printshellcmds", "all", *SMOKE)
    shown = commands(done.stdout)
    assert all(shown[stage].startswith(f"weakspots {stage} ") for stage in ("train", "lookup", "cycling"))


def test_a_training_of_two_processes_takes_two_cores(untouched: Project, tmp_path: Path) -> None:
    overlay = tmp_path / "mine.yaml"
    overlay.write_text("launch: workflow/accelerate/cpu_2.yaml\n")
    target = "results/smoke/models/recall/w8s8-1kv"
    done = untouched.snakemake("--dry-run", "--printshellcmds", "--cores", "4", target, *SMOKE, str(overlay))
    assert commands(done.stdout)["train"].startswith("env OMP_NUM_THREADS=1 accelerate launch --config_file ")
    body = re.search(r"^rule train_model:\n((?:    .*\n)*)", done.stdout, re.MULTILINE)[1]
    assert "threads: 2" in body


def test_a_profile_may_give_a_training_fewer_gpus_than_its_launcher_says(untouched: Project) -> None:
    arguments = ("--dry-run", "--printshellcmds", *PAPER, "--set-resources", "train_model:gpu=2", "--", MODEL)
    train = commands(untouched.snakemake(*arguments).stdout)["train"]
    assert train.startswith("weakspots claim --gpus 2 -- accelerate launch ")
    assert " --num_processes 2 " in train


def test_the_profile_of_one_machine_plans_the_paper(untouched: Project) -> None:
    done = untouched.snakemake("--dry-run", "--profile", "workflow/profiles/gpu", MODEL, *PAPER)
    assert done.returncode == 0, done.stdout
    body = re.search(r"^rule train_model:\n((?:    .*\n)*)", done.stdout, re.MULTILINE)[1]
    assert re.search(r"resources:.*\bgpu=8\b", body)
    assert re.search(r"resources:.*\bmem_mb=64000\b", body)


@pytest.mark.parametrize("name", ["gpu", "slurm"])
def test_a_profile_names_rules_that_exist(name: str) -> None:
    profile = yaml.safe_load((ROOT / f"workflow/profiles/{name}/profile.yaml").read_text())
    text = "".join(file.read_text() for file in (ROOT / "workflow/rules").glob("*.smk"))
    assert set(profile["set-resources"]) <= set(re.findall(r"^rule (\w+):", text, re.MULTILINE))


def test_the_slurm_profile_gives_a_training_of_the_paper_a_gpu_per_process() -> None:
    profile = yaml.safe_load((ROOT / "workflow/profiles/slurm/profile.yaml").read_text())
    file = yaml.safe_load((ROOT / "workflow/scales/paper.yaml").read_text())["launch"]
    assert profile["set-resources"]["train_model"]["gpu"] == yaml.safe_load((ROOT / file).read_text())["num_processes"]
    assert profile["default-resources"]["nodes"] == 1


def launch_nodes(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    return subprocess.run(
        [SCRIPT, *arguments], env={**kept, **environment}, capture_output=True, text=True, check=False
    )


def printed(output: str) -> dict[str, list[str]]:
    """The words of every command, by the comment above it."""
    lines = output.splitlines()
    return {name.strip("# :"): shlex.split(line) for name, line in zip(lines[::2], lines[1::2], strict=True)}


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def test_several_nodes_dry_form_submits_one_task_per_node(tmp_path: Path) -> None:
    done = launch_nodes("--dry-run", "web", "w8s8-1kv", "--partition=big", NODES="3", GPUS="4")
    assert done.returncode == 0, done.stderr
    shown = printed(done.stdout)
    submit = shown["here"]
    assert submit[0] == "sbatch"
    assert {"--nodes=3", "--ntasks-per-node=1", "--gpus-per-node=4", "--requeue", "--partition=big"} <= set(submit)
    assert submit[-3:] == ["workflow/launch_nodes.sh", "web", "w8s8-1kv"]
    start = shown["in the job, on its first node"]
    assert start[:4] == ["srun", "--nodes=3", "--ntasks=3", "--ntasks-per-node=1"]
    machines = [shown[f"which is, on machine {rank}"] for rank in range(3)]
    for rank, words in enumerate(machines):
        assert words[:2] == ["accelerate", "launch"]
        assert option(words, "--machine_rank") == str(rank)
        assert option(words, "--num_machines") == "3"
        assert option(words, "--num_processes") == "12"
        assert option(words, "--config_file") == "workflow/accelerate/nodes.yaml"
        assert words[words.index("-m") :][:5] == ["-m", "weakspots.cli", "train", "web", "w8s8-1kv"]
        assert option(words, "--config") == "results/paper/config.yaml"


def test_several_nodes_meet_on_the_first_one_at_a_port_of_the_job(tmp_path: Path) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text('#!/bin/sh\n[ "$3" = "n[7-8]" ] && printf "n7\\nn8\\n"\n')
    scontrol.chmod(0o755)
    allocated = {
        "SLURM_JOB_ID": "40123",
        "SLURM_JOB_NODELIST": "n[7-8]",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_GPUS_PER_NODE": "h100:4",
        "SLURM_CPUS_PER_TASK": "16",
        "SLURM_SUBMIT_DIR": str(ROOT),
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }
    done = launch_nodes("--dry-run", "web", "w8s8-1kv", **allocated)
    assert done.returncode == 0, done.stderr
    shown = printed(done.stdout)
    assert "here" not in shown
    for rank in range(2):
        words = shown[f"which is, on machine {rank}"]
        assert option(words, "--main_process_ip") == "n7"
        assert option(words, "--main_process_port") == "20123"
        assert option(words, "--num_processes") == "8"


def test_what_the_nodes_start_is_what_the_dry_form_says(tmp_path: Path) -> None:
    """The command of srun, run as srun would on the second node."""
    (tmp_path / "accelerate").write_text('#!/bin/sh\nprintf "%s\\n" accelerate "$@"\n')
    (tmp_path / "accelerate").chmod(0o755)
    shown = printed(launch_nodes("--dry-run", "web", "w8s8-1kv", NODES="2").stdout)
    start = shown["in the job, on its first node"]
    environment = {**os.environ, "SLURM_NODEID": "1", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(start[start.index("bash") :], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == shown["which is, on machine 1"]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["web"], 2, "usage: "),
        (["--dry-run", "--partition=big", "web"], 2, "usage: "),
        (["nothing", "w8s8-1kv"], 1, "is not there: prepare the corpus first"),
    ],
)
def test_several_nodes_mistakes_are_one_line(arguments: list[str], status: int, message: str) -> None:
    done = launch_nodes(*arguments, SCALE="none")
    assert done.returncode == status
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_model_trained_outside_of_snakemake_counts_as_done_and_is_watched_once_touched(
    project: Project, tmp_path: Path
) -> None:
    model = "results/smoke/models/recall/w8s4-1kv"
    shutil.rmtree(project.folder / model)
    assert project.snakemake("--cleanup-metadata", model, *SMOKE).returncode == 0
    (project.folder / model).mkdir()
    assert project.jobs("train", *SMOKE) == set()
    changed = tmp_path / "mine.yaml"
    changed.write_text("models: {w8s4-1kv: {seed: 7}}\n")
    assert project.jobs("train", *SMOKE, str(changed)) == set(), "Snakemake does not know what it was made with"
    done = project.snakemake("--touch", "--force", model, *SMOKE)
    assert done.returncode == 0, done.stdout
    assert project.jobs("train", *SMOKE, str(changed)) == {"train_model recall w8s4-1kv"}


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("script", ["workflow/launch_nodes.sh", "tests/slurm/run", ".ci/run"])
def test_shell_scripts_are_clean(script: str) -> None:
    done = subprocess.run(["shellcheck", ROOT / script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
