"""What every stage depends on: the part of the configuration, and the source, that its results come from.

Both are `params:` of the stage's rule, and Snakemake reruns a job when they change. So each `..._settings` returns what
its stage depends on and nothing else. Snakemake does not see edits inside an imported package, so every rule also
carries the digest of its stage's source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import weakspots
from weakspots.config import Config
from weakspots.config.corpus import MACHINE_KEYS
from weakspots.config.deepseek import DeepseekModel
from weakspots.files.hashes import DIGITS, sha256, sha256_of_files

PACKAGE = Path(weakspots.__file__).parent

_WORDS = ("resources/animals.txt", "resources/names.txt")

STAGES: dict[str, tuple[str, tuple[str, ...]]] = {
    "data": ("data", _WORDS),
    "train": ("training", ()),
    "lookup": ("mechanism.all_knockouts", _WORDS),
    "cycling": ("mechanism.gate_cycling", _WORDS),
    **{f"figure_{number}": (f"figures.figure_{number}", ("resources/published.json",)) for number in range(1, 7)},
    "stand_in": ("deepseek.standin", ()),
    "needle": ("deepseek.needle_score", _WORDS),
    "code_completion": ("deepseek.code_completion", ("resources/fp8_quantization.txt",)),
    "layer_knockout": ("deepseek.layer_knockout", _WORDS),
    "theory": ("theory", ()),
    "figure_theory": ("figures.figure_theory", ()),
    "tables": ("figures.selected_runs", ("figures/needle_table.py", "resources/published.json")),
    "claims": ("claims", ("resources/published.json",)),
    "explorer": ("explorer", ("explorer/page", "resources/published.json", "resources/echarts.min.js", *_WORDS)),
}
"""Every stage of the pipeline: the module that does its work, and what it uses that no import statement names."""


def stage_digest(stage: str) -> str:
    """Digest of everything in the package that the results of `stage` depend on."""
    return source_digest(*STAGES[stage])


@cache
def source_digest(module: str, also: tuple[str, ...] = ()) -> str:
    """Short SHA-256 over the `sources_of` of `weakspots.<module>`."""
    files = sorted(sources_of(module, also))
    return sha256_of_files((file.relative_to(PACKAGE).as_posix(), sha256(file)) for file in files)[:DIGITS]


def sources_of(module: str, also: Iterable[str] = ()) -> set[Path]:
    """The source of `weakspots.<module>` and of all it imports from `weakspots`, transitively.

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
    return files


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


def train_settings(config: Config, corpus: str, model: str) -> dict:
    """What one training run depends on besides its data: row and compressor, the backbone, the optimisation."""
    chosen = config.corpora[corpus]
    return {
        "model": config.models[model].model_dump(mode="json"),
        "compressor": source_digest(f"compressors.{config.models[model].compressor}"),  # found by its name
        "backbone": config.backbone.model_dump(mode="json"),
        "stages": [stage.model_dump(mode="json") for stage in chosen.stages],
        "training": chosen.training.model_dump(mode="json", exclude=MACHINE_KEYS),
    }


def lookup_settings(config: Config) -> dict:
    """What lookup and knockout tables depend on besides their model: the prompts, and not how many are read at once.

    Every padding has its own tables, so which others there are does not matter to them.
    """
    lookup = config.lookup.model_dump(mode="json", exclude={"batch", "paddings"})
    return lookup | {"knockout": config.knockout.model_dump(mode="json")}


def cycling_settings(config: Config) -> dict:
    """What the table of a cycled model depends on besides the model: prompts and shifts, not which models there are."""
    return {
        "lookup": config.lookup.model_dump(mode="json", exclude={"batch", "paddings"}),
        "cycling": config.cycling.model_dump(mode="json", exclude={"models"}),
    }


def stand_in_settings(config: Config, model: str) -> dict:
    """What the training of a stand-in depends on besides its data."""
    deepseek = config.deepseek
    shape = deepseek.models[model].stand_in
    assert shape is not None, f"{model} is no stand-in"
    corpus = deepseek.stand_in.trained_on(config.corpora[deepseek.stand_in.corpus], shape.steps)
    return {
        "shape": shape.model_dump(mode="json"),
        "stand_in": deepseek.stand_in.model_dump(mode="json", exclude={"corpus", "training"}),
        "stages": [stage.model_dump(mode="json") for stage in corpus.stages],
        "training": corpus.training.model_dump(mode="json", exclude=MACHINE_KEYS),
    }


def needle_settings(config: Config, model: str) -> dict:
    """What the needle table of a model depends on: the prompts and who is asked, not where that is."""
    row, needle = config.deepseek.models[model], config.deepseek.needle
    asked = needle.model_dump(mode="json", exclude={"models", "batch"})
    return {**asked, "prompts_per_residue": config.deepseek.prompts_per_residue(model), "model": _asked(row)}


def code_completion_settings(config: Config, model: str) -> dict:
    """What the code completion table of a model depends on."""
    asked = config.deepseek.code_completion.model_dump(mode="json", exclude={"models"})
    return {**asked, "model": _asked(config.deepseek.models[model])}


def layer_knockout_settings(config: Config, model: str) -> dict:
    """What the layer knockout table of a model depends on: the needle's prompts, not how many are read at once."""
    deepseek = config.deepseek
    return {
        "needle": deepseek.needle.model_dump(mode="json", exclude={"models", "batch", "prompts_per_residue"}),
        "knockout": deepseek.layer_knockout.model_dump(mode="json", exclude={"models", "batch", "chunk_tokens"}),
        "model": _asked(deepseek.models[model]),
    }


_DEEPSEEK_SETTINGS = {
    "needle": needle_settings,
    "code_completion": code_completion_settings,
    "layer_knockout": layer_knockout_settings,
}


def _asked(row: DeepseekModel) -> dict:
    """Which model answers, and how it is asked; not where it is, nor how much of it at once."""
    chosen = row.model_dump(mode="json", include={"tokenizer", "folder"})
    if row.folder is not None:
        chosen["dtype"] = row.dtype
    if row.endpoint is not None:
        chosen["endpoint"] = row.endpoint.model_dump(mode="json", include={"model", "extra_body", "logprobs"})
    return chosen


def theory_settings(config: Config) -> dict:
    """What the theory's tables depend on."""
    return config.theory.model_dump(mode="json")


def deepseek_settings(config: Config) -> dict:
    """What figures and claims about DeepSeek's models depend on besides their tables, by what the models are asked."""
    deepseek = config.deepseek
    models = {
        name: {**row.model_dump(mode="json", include={"label", "stride"}), "stand_in": row.stand_in is not None}
        for name, row in deepseek.models.items()
    }
    return {
        stage: {"models": models, "asked": {model: settings(config, model) for model in deepseek.run(stage)}}
        for stage, settings in _DEEPSEEK_SETTINGS.items()
    }


def shown_settings(config: Config, *measured: str) -> dict:
    """What a figure, table or claim depends on besides its result files: which models there are, how they are shown.

    `measured` names the kinds of results (`results.KINDS`) that are shown; all if none is named.
    """
    by_kind = {
        "lookup": {**lookup_settings(config), "paddings": config.lookup.paddings},
        "cycling": config.cycling.model_dump(mode="json"),
        "theory": theory_settings(config),
        **deepseek_settings(config),
    }
    shown = {kind: settings for kind, settings in by_kind.items() if kind in (measured or by_kind)}
    labels = {name: row.label() for name, row in config.models.items()}  # compressors name themselves
    return {"models": config.rows(), "labels": labels, "statistics": config.statistics.model_dump(mode="json"), **shown}
