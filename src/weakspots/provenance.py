"""Where a result came from: hashes of its configuration and source, versions, seed.

Snakemake does not see edits inside an imported package, so every rule carries the digest of its stage's source in
`params:`. Snakemake reruns a rule whose digest changed, and only that.
"""

from __future__ import annotations

import ast
import hashlib
import json
import platform
import subprocess
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import BaseModel

import weakspots

PACKAGE = Path(__file__).parent
DIGITS = 12
"""Hexadecimal digits of every hash shown: short enough to read, too many to meet by accident."""

_WORDS = ("resources/animals.txt", "resources/names.txt")

STAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "data": ("data", _WORDS),
    "train": ("training", ("transformer.py",)),  # registered by name, so no import statement leads to it
    "lookup": ("mechanism.sweep", (*_WORDS, "mechanism/knockout.py", "trained.py")),
    "cycling": ("mechanism.gate_shift", (*_WORDS, "trained.py")),
    **{f"figure_{number}": (f"figures.figure_{number}", ("resources/published.json",)) for number in range(1, 7)},
    "stand_in": ("deepseek.standin", ()),
    "needle": ("deepseek.needle_score", _WORDS),
    "code_completion": ("deepseek.code_completion", ("resources/fp8_quantization.txt",)),
    "layer_knockout": ("deepseek.layer_knockout", ("deepseek/needle.py", "serving/loading.py", *_WORDS)),
    "theory": ("theory", ()),
    "figure_theory": ("figures.theory", ()),
    "tables": ("figures.tables", ("figures/needle_table.py", "resources/published.json")),
    "claims": ("claims", ("resources/published.json",)),
    "explorer": ("explorer", ("explorer/page", "resources/published.json", "resources/echarts.min.js", *_WORDS)),
}
"""Every stage of the pipeline: the module that does its work, and the package's resources it reads."""


def stage_digest(stage: str) -> str:
    """Digest of everything in the package that the results of `stage` depend on."""
    return source_digest(*STAGES[stage])


@cache
def source_digest(module: str, also: tuple[str, ...] = ()) -> str:
    """Short SHA-256 over the source of `weakspots.<module>` and of all it imports from `weakspots`, transitively.

    A package counts with all of its modules when it is named here, and otherwise with those that are imported. Imports
    are read from the syntax tree, those inside functions included; nothing is executed. `also` names more files or
    folders of the package: resources, or modules that no import statement names.
    """
    root = _file_of(module)
    if root is None:
        raise ModuleNotFoundError(f"weakspots.{module} does not exist")
    todo = sorted(root.parent.rglob("*.py")) if root.name == "__init__.py" else [root]
    todo += [PACKAGE / name for name in also if name.endswith(".py")]
    files: set[Path] = set()
    while todo:
        file = todo.pop()
        if file not in files:
            files.add(file)
            todo += _imported_by(file)
    for name in also:
        path = PACKAGE / name
        files |= {path} if path.is_file() else {part for part in path.rglob("*") if part.is_file()}
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{file.relative_to(PACKAGE).as_posix()}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:DIGITS]


def config_hash(section: object) -> str:
    """Short SHA-256 of a part of the configuration: typed sections, or plain data that JSON can hold."""
    plain = json.dumps(section, sort_keys=True, default=_plain)
    return hashlib.sha256(plain.encode()).hexdigest()[:DIGITS]


def provenance(section: object, stage: str, seed: int | None = None) -> dict[str, str]:
    """What a result file says about its origin.

    `section` is the part of the configuration that determines the result, `stage` a key of `STAGES`.
    """
    packages = {"weakspots": "periodic-weak-spots"} | {
        name: name for name in ("torch", "transformers", "tokenizers", "numpy")
    }
    versions = {f"{name}_version": _version(package) for name, package in packages.items()}
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


def _imported_by(file: Path) -> Iterator[Path]:
    """Files of the package that one file imports."""
    inside = file.relative_to(PACKAGE.parent).with_suffix("").parts
    package = inside[:-1]  # of __init__.py and of a plain module alike: the folder
    for node in ast.walk(ast.parse(file.read_bytes(), filename=str(file))):
        if isinstance(node, ast.Import):
            yield from _files_of(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            name = ".".join([*base, *filter(None, [node.module])])
            yield from _files_of(f"{name}.{alias.name}" for alias in node.names)


def _files_of(names: Iterable[str]) -> Iterator[Path]:
    """Files that importing these dotted names runs: the module and the packages above it.

    The top package's `__init__.py` runs with every import, but a module depends on what that one imports only where it
    says `import weakspots`: it is there that models are registered with transformers.
    """
    for name in names:
        top, *parts = name.split(".")
        if top != "weakspots":
            continue
        if not parts:
            yield PACKAGE / "__init__.py"
        for depth in range(1, len(parts) + 1):
            found = _file_of(".".join(parts[:depth]))
            if found is not None:  # the last part may be a name inside the module
                yield found


def _file_of(module: str) -> Path | None:
    path = PACKAGE.joinpath(*module.split("."))
    for candidate in (path / "__init__.py", path.with_suffix(".py")):
        if candidate.is_file():
            return candidate
    return None


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is no part of a configuration")
