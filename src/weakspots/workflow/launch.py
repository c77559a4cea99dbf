"""How the workflow starts a stage on this machine: the words before its name, the processes, cores and GPUs it takes.

None of it changes a result by more than rounding, so none of it makes Snakemake repeat a job.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import yaml

from weakspots.config import Config
from weakspots.errors import UserError


def process_count(config: Config) -> int:
    """Processes of one training: `num_processes` of the Accelerate file in `launch`, 1 without one.

    Raises UserError where the file is missing, cannot be read, or does not fit `device` or a single machine.
    """
    file = config.launch
    if file is None:
        return 1
    try:
        content = yaml.safe_load(Path(file).read_text())
    except OSError as error:
        raise UserError(f"launch: {file} cannot be read ({error.strerror}): see workflow/accelerate/") from None
    except yaml.YAMLError as error:
        raise UserError(f"launch: {file} is no valid YAML: {' '.join(str(error).split())}") from None
    count = content.get("num_processes") if isinstance(content, dict) else None
    if not isinstance(count, int) or count < 1:
        raise UserError(f"launch: {file} states no num_processes: it must be a configuration file of Accelerate")
    if content.get("num_machines", 1) != 1:
        raise UserError(
            f"launch: {file} is for several machines: train with workflow/launch_nodes.sh, or set launch: null"
        )
    on_cpu = bool(content.get("use_cpu"))
    if on_cpu != (config.device == "cpu"):
        says = "CPU (use_cpu is true)" if on_cpu else "GPUs (use_cpu is not true)"
        raise UserError(f"launch: {file} is for {says} and device is {config.device}: change one, or set launch: null")
    return count


def cores(config: Config) -> int:
    """Cores of one training: one for each of its processes on a CPU; on a GPU one in all, since they wait for it."""
    return process_count(config) if config.device == "cpu" else 1


def gpus_per_job(config: Config, training: bool = False) -> int:
    """GPUs of one training, or of one job of another stage."""
    if config.device == "cpu":
        return 0
    return process_count(config) if training else 1


def command(config: Config, claimed: int | None = None, training: bool = False) -> str:
    """The words before the name of a stage in a shell command: `weakspots`, and what it is started through.

    `claimed` is the job's resource `gpu`, `gpus_per_job` if not given. A profile may have set it to another number than
    the file in `launch` says, and a training then has that many processes.
    """
    claimed = gpus_per_job(config, training) if claimed is None else claimed
    words = ["weakspots"]
    if training and config.launch is not None:
        # No file of the user's home decides, and trainings side by side do not share a port.
        words = ["accelerate", "launch", "--config_file", config.launch, "--main_process_port", "0"]
        if config.device == "cuda":
            words += ["--num_processes", str(claimed)]
        else:  # Snakemake exports as many threads as the job has cores, which is for all processes together
            words = ["env", "OMP_NUM_THREADS=1", *words]
        words += ["-m", "weakspots.cli"]
    elif training:
        claimed = min(claimed, 1)  # one process uses one device, however many a profile sets aside
    if config.device == "cuda" and claimed:
        words = ["weakspots", "claim", "--gpus", str(claimed), "--", *words]
    return shlex.join(words)
