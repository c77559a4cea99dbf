"""Checkpoints to resume from: written whole or not at all, checked when they are read, the last two kept.

Weights and optimiser moments are safetensors, everything else JSON. A checkpoint whose files do not match their hashes
(a full disk, a torn write) is passed over for the one before it.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from weakspots.errors import UserError, is_disk_full
from weakspots.files.hashes import sha256

_log = logging.getLogger(__name__)
PARTIAL = "checkpoint.partial"
_KEPT = 2
_FILES = ("model.safetensors", "optimizer.safetensors", "state.json")


def save(folder: Path, step: int, model: torch.nn.Module, optimizer: torch.optim.Optimizer, state: dict) -> None:
    """Writes `folder/checkpoint-<step>` and removes all but the last two. `state` must be JSON.

    Raises UserError where the disk is full; the checkpoints before it stay as they are.
    """
    partial = folder / PARTIAL
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        save_file(dict(model.named_parameters()), partial / _FILES[0])
        save_file(_moments(optimizer), partial / _FILES[1])
        (partial / _FILES[2]).write_text(json.dumps(state))
        (partial / "hashes.json").write_text(json.dumps({name: sha256(partial / name) for name in _FILES}))
        for path in (*partial.iterdir(), partial):
            _to_disk(path)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        if not is_disk_full(error):
            raise
        kept = f"the one of step {_step(_all(folder)[-1])} is kept" if _all(folder) else "there is none before it"
        raise UserError(
            f"the disk of {folder} is full: the checkpoint of step {step} was not written, {kept}. Free some space and "
            "run the same command again"
        ) from error
    final = folder / f"checkpoint-{step:08d}"
    shutil.rmtree(final, ignore_errors=True)
    partial.rename(final)
    _to_disk(folder)
    for old in _all(folder)[:-_KEPT]:
        shutil.rmtree(old)


def restore(folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict | None:
    """Loads the newest sound checkpoint into `model` and `optimizer`; returns its state, or None without one."""
    for checkpoint in reversed(_all(folder)):
        try:
            hashes = json.loads((checkpoint / "hashes.json").read_text())
            damaged = [name for name in _FILES if sha256(checkpoint / name) != hashes[name]]
        except (OSError, ValueError, KeyError):
            damaged = ["hashes.json"]
        if damaged:
            _log.warning("%s is damaged (%s): going back to the checkpoint before it", checkpoint, ", ".join(damaged))
            continue
        weights = load_file(checkpoint / _FILES[0])
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(weights[name])
        current = optimizer.state_dict()
        current["state"] = {}
        for key, value in load_file(checkpoint / _FILES[1]).items():
            index, name = key.split(".", 1)
            current["state"].setdefault(int(index), {})[name] = value
        optimizer.load_state_dict(current)
        return json.loads((checkpoint / _FILES[2]).read_text())
    return None


def clear(folder: Path) -> None:
    """Removes all checkpoints."""
    for checkpoint in [*_all(folder), folder / PARTIAL]:
        shutil.rmtree(checkpoint, ignore_errors=True)


def _all(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("checkpoint-*") if path.is_dir())


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix("checkpoint-"))


def _moments(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    moments = optimizer.state_dict()["state"]
    return {f"{number}.{name}": value.contiguous() for number in moments for name, value in moments[number].items()}


def _to_disk(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk: a machine that stops must not leave a torn one."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
