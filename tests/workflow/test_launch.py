"""How stages start: the shell's words, and that the shipped configuration files of Accelerate start what they say."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from weakspots import config
from weakspots.errors import UserError
from weakspots.workflow import launch

ROOT = Path(__file__).parents[2]
FILES = ROOT / "workflow/accelerate"


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def settings(device: str = "cpu", file: str | None = None) -> config.Config:
    return config.load("config.yaml").model_copy(update={"device": device, "launch": file})


@pytest.mark.parametrize(
    ("device", "file", "training", "expected"),
    [
        ("cpu", None, True, "weakspots"),
        ("cpu", None, False, "weakspots"),
        (
            "cpu",
            "workflow/accelerate/cpu_2.yaml",
            True,
            "env OMP_NUM_THREADS=1 accelerate launch --config_file workflow/accelerate/cpu_2.yaml "
            "--main_process_port 0 -m weakspots.cli",
        ),
        ("cpu", "workflow/accelerate/cpu_2.yaml", False, "weakspots"),
        ("cuda", None, True, "weakspots claim --gpus 1 -- weakspots"),
        (
            "cuda",
            "workflow/accelerate/gpu_8.yaml",
            True,
            "weakspots claim --gpus 8 -- accelerate launch --config_file workflow/accelerate/gpu_8.yaml "
            "--main_process_port 0 --num_processes 8 -m weakspots.cli",
        ),
        ("cuda", "workflow/accelerate/gpu_8.yaml", False, "weakspots claim --gpus 1 -- weakspots"),
    ],
)
def test_a_stage_starts_through_what_its_device_and_launcher_need(
    device: str, file: str | None, training: bool, expected: str
) -> None:
    assert launch.command(settings(device, file), training=training) == expected


def test_a_file_whose_name_the_shell_would_split_stays_one_word(tmp_path: Path) -> None:
    file = tmp_path / "my file.yaml"
    file.write_text("{distributed_type: MULTI_GPU, use_cpu: true, num_processes: 2}")
    assert str(file) in shlex.split(launch.command(settings("cpu", str(file)), training=True))


@pytest.mark.parametrize(
    ("device", "file", "cores", "of_training", "of_others"),
    [
        ("cpu", None, 1, 0, 0),
        ("cpu", "workflow/accelerate/cpu_2.yaml", 2, 0, 0),
        ("cuda", None, 1, 1, 1),
        ("cuda", "workflow/accelerate/gpu_8.yaml", 1, 8, 1),
    ],
)
def test_a_training_takes_a_core_or_a_gpu_for_each_of_its_processes(
    device: str, file: str | None, cores: int, of_training: int, of_others: int
) -> None:
    chosen = settings(device, file)
    assert (launch.cores(chosen), launch.gpus_per_job(chosen, training=True), launch.gpus_per_job(chosen)) == (
        cores,
        of_training,
        of_others,
    )


@pytest.mark.parametrize(
    ("device", "content", "message"),
    [
        ("cpu", None, "mine.yaml cannot be read (No such file or directory)"),
        ("cpu", "num_processes: {", "mine.yaml is no valid YAML"),
        ("cpu", "- 2", "mine.yaml states no num_processes"),
        ("cpu", "num_processes: two", "mine.yaml states no num_processes"),
        ("cpu", "{use_cpu: true, num_processes: 0}", "mine.yaml states no num_processes"),
        (
            "cuda",
            "{num_processes: 16, num_machines: 2}",
            "mine.yaml is for several machines: train with workflow/launch_nodes.sh",
        ),
        ("cpu", "num_processes: 8", "mine.yaml is for GPUs (use_cpu is not true) and device is cpu"),
        ("cuda", "{use_cpu: true, num_processes: 2}", "mine.yaml is for CPU (use_cpu is true) and device is cuda"),
    ],
)
def test_a_launcher_that_does_not_fit_is_refused_in_one_line(
    tmp_path: Path, device: str, content: str | None, message: str
) -> None:
    file = tmp_path / "mine.yaml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UserError) as refused:
        launch.process_count(settings(device, str(file)))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_profile_that_sets_aside_another_number_of_gpus_decides_how_many_processes_there_are() -> None:
    words = launch.command(settings("cuda", "workflow/accelerate/gpu_8.yaml"), claimed=4, training=True).split()
    assert words[words.index("--gpus") + 1] == words[words.index("--num_processes") + 1] == "4"


def test_one_process_claims_one_gpu_however_many_are_set_aside() -> None:
    assert launch.command(settings("cuda"), claimed=8, training=True) == "weakspots claim --gpus 1 -- weakspots"


def test_a_job_that_computes_on_no_gpu_claims_none() -> None:
    assert launch.command(settings("cuda"), claimed=0) == "weakspots"


@pytest.mark.parametrize("file", sorted(FILES.glob("*.yaml")), ids=lambda file: file.stem)
def test_accelerate_reads_the_shipped_files_and_the_training_loop_chooses_the_precision(file: Path) -> None:
    from accelerate.commands.config.config_args import load_config_from_file

    read = load_config_from_file(str(file))  # refuses unknown keys
    assert read.mixed_precision is None
    assert read.num_processes == yaml.safe_load(file.read_text())["num_processes"]
    assert read.gpu_ids is None, "devices come from weakspots claim or from Slurm"


@pytest.mark.parametrize(("name", "count"), [("cpu", 1), ("cpu_2", 2)])
def test_the_files_for_a_cpu_start_processes_that_find_each_other(tmp_path: Path, name: str, count: int) -> None:
    script = tmp_path / "ranks.py"
    script.write_text(
        "import os, torch\nfrom accelerate import Accelerator\n"
        "accelerator = Accelerator(cpu=True, mixed_precision='bf16')\n"
        "total = accelerator.reduce(torch.tensor([1.0 + accelerator.process_index]))\n"
        "said = accelerator.num_processes, int(total), accelerator.mixed_precision, os.environ['OMP_NUM_THREADS']\n"
        "open(f'{__file__}-{accelerator.process_index}', 'w').write(' '.join(map(str, said)))\n"
        "accelerator.end_training()\n"  # none leaves while another still talks to it
    )
    file = f"workflow/accelerate/{name}.yaml"
    words = shlex.split(launch.command(settings("cpu", file), training=True))
    words = [*words[: words.index("-m")], str(script)]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "2"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = [file.read_text() for file in tmp_path.glob("ranks.py-*")]
    assert said == [f"{count} {sum(range(1, count + 1))} bf16 1"] * count
