"""GPUs for one job: `weakspots claim` takes free ones for as long as its command runs, so that no two jobs share one.

Snakemake counts GPUs and assigns none: without this, two jobs side by side both compute on GPU 0. A device is taken by
a lock of the kernel on a file named after it. The lock belongs to an open file that the command inherits, so it lasts
exactly as long as the command's processes do, whatever ends them, SIGKILL included; there is nothing to clean up.
This also holds between workflows of one user; other users' jobs are not seen.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import NoReturn

from weakspots.errors import UserError

_log = logging.getLogger(__name__)

FOLDER = "WEAKSPOTS_GPU_LOCKS"
"""Environment variable: another folder for the lock files."""

_TAKEN = "WEAKSPOTS_GPU_LOCKS_TAKEN"  # lock files of the devices that a claim gave to this process
_POLL = 0.5  # seconds between two looks at the devices
_kept: list[int] = []  # open files whose locks last until this process ends


def devices() -> list[str]:
    """The GPUs that a job of this machine may use, by the names CUDA_VISIBLE_DEVICES has for them.

    They are those in CUDA_VISIBLE_DEVICES, or, where that is not set, all that `nvidia-smi -L` lists. torch is not
    asked: it would fix its view of the devices before there is a choice.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        names = [name.strip() for name in visible.split(",")]
        first_invalid = next((place for place, name in enumerate(names) if name in ("", "-1")), None)
        return names[:first_invalid]  # CUDA ignores what comes after an invalid name
    if shutil.which("nvidia-smi") is None:
        return []
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
    return re.findall(r"^GPU (\d+):", listed, flags=re.MULTILINE)


def claim(count: int, command: list[str]) -> NoReturn:
    """Become `command`, with `count` free GPUs of this machine in CUDA_VISIBLE_DEVICES; wait until that many are free.

    Inside a Slurm job the devices that Slurm assigned are used as they are, and so are those of a claim around this
    one. Raises UserError where there are fewer than `count` GPUs, and where `command` cannot be started.
    """
    there = devices()
    in_slurm = "SLURM_JOB_ID" in os.environ and "CUDA_VISIBLE_DEVICES" in os.environ
    in_claim = _TAKEN in os.environ  # its devices are this process's own: to wait for them would be to wait for ever
    if count > len(there):
        where = "this Slurm job" if in_slurm else "the claim around it" if in_claim else "this machine"
        raise UserError(
            f"the job needs {count} GPU{'s' * (count > 1)} and {where} has {len(there)} "
            "(CUDA_VISIBLE_DEVICES if set, otherwise nvidia-smi -L): lower gpu or launch, or set device to cpu"
        )
    if in_slurm and count < len(there):
        _log.warning(
            "Slurm assigned %d GPUs and the job uses %d: lower gpu of its rule in the profile", len(there), count
        )
    if not (in_slurm or in_claim):
        taken = _take(count, there)
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(taken)
        os.environ[_TAKEN] = os.pathsep.join(str(_lock_file(name)) for name in taken)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise UserError(f"{command[0]} cannot be started: {error.strerror}") from None


def keep() -> None:
    """Let this process, too, hold the GPUs that a claim above it took, to its own end.

    Launchers close inherited files in the processes they start. Without this, the processes of a killed launcher would
    compute on devices that are free to others.
    """
    for file in filter(None, os.environ.get(_TAKEN, "").split(os.pathsep)):
        descriptor = os.open(file, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        _kept.append(descriptor)


def _take(count: int, there: list[str]) -> list[str]:
    """Lock `count` of the devices `there` for this process and its children."""
    # All holders have a shared lock, so that `keep` can join them; who can have an exclusive one is the only one. That
    # is safe between claims because one claim at a time looks. It also makes them a queue: a claim of several devices
    # keeps those it has while it waits for the rest, and those that come later wait behind it.
    queue = _open(_folder() / "queue")
    said = False
    while not _locked(queue, fcntl.LOCK_EX):
        said = said or _say(count, there)
        time.sleep(_POLL)
    taken: dict[str, int] = {}
    while True:
        for name in there:
            if len(taken) < count and name not in taken:
                descriptor = _open(_lock_file(name))
                if _locked(descriptor, fcntl.LOCK_EX):
                    fcntl.flock(descriptor, fcntl.LOCK_SH)
                    taken[name] = descriptor
                else:
                    os.close(descriptor)
        if len(taken) == count:
            break
        said = said or _say(count, there)
        time.sleep(_POLL)
    for descriptor in taken.values():
        os.set_inheritable(descriptor, True)
    os.close(queue)
    return [name for name in there if name in taken]


def _say(count: int, there: list[str]) -> bool:
    _log.info("waiting for %d of this machine's %d GPUs: other jobs have them", count, len(there))
    return True


def _folder() -> Path:
    """The folder of the lock files.

    It is the same for all jobs of a user, whatever their environment: not XDG_RUNTIME_DIR, which ends with a session,
    and not TMPDIR, which a job may have of its own. What clears old files out of /tmp leaves locked ones alone.
    """
    folder = Path(os.environ.get(FOLDER) or f"/tmp/weakspots-gpus-{os.getuid()}")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise PermissionError(1, "it belongs to another user")
    except OSError as error:
        raise UserError(f"{folder} cannot hold lock files ({error.strerror}): name another in {FOLDER}") from None
    return folder


def _lock_file(name: str) -> Path:
    return _folder() / re.sub(r"[^\w.-]", "_", f"gpu-{name}")


def _open(file: Path) -> int:
    """An open file of this process alone; jobs inherit it only where they are told to."""
    return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _locked(descriptor: int, kind: int) -> bool:
    """Whether the lock was free."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
