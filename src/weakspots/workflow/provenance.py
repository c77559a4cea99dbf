"""Where a result came from: hashes of its configuration and source, versions, seed."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import weakspots
from weakspots.files.hashes import config_hash
from weakspots.workflow.stage_dependencies import PACKAGE, stage_digest


def provenance(section: object, stage: str, seed: int | None = None) -> dict[str, str]:
    """What a result file says about its origin.

    `section` is the part of the configuration that determines the result, `stage` a key of
    `stage_dependencies.STAGES`.
    """
    packages = ("torch", "transformers", "tokenizers", "numpy")
    versions = {f"{name}_version": _version(name) for name in packages}
    return {
        "stage": stage,
        "config_hash": config_hash(section),
        "source_digest": stage_digest(stage),
        "git_commit": git_commit(),
        "weakspots_version": weakspots.__version__,
        **versions,
        "python_version": platform.python_version(),
        "seed": "none" if seed is None else str(seed),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@cache
def git_commit() -> str:
    """The commit of the source, with `-dirty` after it when tracked files differ from it; `unknown` outside git."""
    try:
        command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--match=NeverATag"]
        done = subprocess.run(command, cwd=PACKAGE, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip() or "unknown"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
