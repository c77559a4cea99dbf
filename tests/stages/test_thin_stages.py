"""Stages and commands only read, write and report: what decides a number is in a module that a digest reaches."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import weakspots
from weakspots.workflow import stage_dependencies

PACKAGE = Path(weakspots.__file__).parent
THIN = sorted(file for room in ("stages", "cli") for file in (PACKAGE / room).rglob("*.py"))
STAGES = {file.stem: file for file in THIN if "stages" in file.parts and file.stem not in ("__init__", "shared")}
ARRAYS = {"numpy", "pandas", "torch", "scipy", "transformers"}
GLUE = {"config", "errors", "files", "machine", "stages", "workflow"}
DECIDES_NO_RESULT = {
    "code_completion": {"weakspots.deepseek.rankings"},  # a count for the log
    "data": {"weakspots.lookup.score"},  # refuses a tokenizer, and changes none
    "lookup": {"weakspots.statistics"},  # means for the log
    "train": {"weakspots.planning.counts"},  # the operations that the logged speed is compared with
}
"""What a stage may use although no edit of it repeats the stage."""


def imports(node: ast.AST) -> Iterator[str]:
    """What a source imports, by its full name; not what only type checkers read."""
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.If) and ast.unparse(part.test).split(".")[-1] == "TYPE_CHECKING":
            part = ast.Module(part.orelse, [])
        if isinstance(part, ast.Import):
            yield from (alias.name for alias in part.names)
        elif isinstance(part, ast.ImportFrom):
            yield from (f"{part.module}.{alias.name}" for alias in part.names)
        elif isinstance(part, ast.Call) and ast.unparse(part.func).split(".")[-1] in ("import_module", "__import__"):
            yield from (ast.literal_eval(name) for name in part.args[:1] if isinstance(name, ast.Constant))
        yield from imports(part)


def arrays_in(source: str) -> set[str]:
    """Libraries that compute with arrays, as far as `source` imports them."""
    return {name.split(".")[0] for name in imports(ast.parse(source))} & ARRAYS


def beyond_digest(source: str, stage: str) -> set[str]:
    """Modules of the package that `source` imports, and that the digest of `stage` does not reach; glue left out."""
    reached = stage_dependencies.sources_of(*stage_dependencies.STAGES[stage])
    found = set()
    for name in imports(ast.parse(source)):
        room = name.split(".")[1:2]
        if name.split(".")[0] == "weakspots" and room and room[0] not in GLUE:
            module = name if file_of(name) else name.rpartition(".")[0]
            found |= {module} if file_of(module) not in reached else set()
    return found


def file_of(module: str) -> Path | None:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)


@pytest.mark.parametrize("file", THIN, ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_no_stage_and_no_command_computes_with_arrays(file: Path) -> None:
    assert arrays_in(file.read_text()) == set()


@pytest.mark.parametrize(
    "planted",
    [
        "import numpy as np",
        "import torch.nn.functional as F",
        "from scipy import stats",
        "def run():\n    from pandas import concat",
        "def run():\n    import importlib\n    importlib.import_module('torch')",
        "if TYPE_CHECKING:\n    pass\nelse:\n    import transformers",
        "class A:\n    try:\n        import numpy\n    except ImportError:\n        pass",
    ],
)
def test_a_planted_import_is_found(planted: str) -> None:
    assert len(arrays_in(planted)) == 1


@pytest.mark.parametrize(
    "planted",
    [
        "if TYPE_CHECKING:\n    import numpy as np\n    from pandas import DataFrame",
        "import typing\nif typing.TYPE_CHECKING:\n    import torch",
        "from weakspots.files import tables\nimport json",
        "'import numpy'",
    ],
)
def test_types_and_words_are_no_imports(planted: str) -> None:
    assert arrays_in(planted) == set()


def test_every_stage_has_a_digest_and_every_digest_a_stage_or_a_notebook() -> None:
    notebooks = {path.stem for path in (Path(__file__).parents[2] / "notebooks").glob("*.ipynb")}
    assert {*STAGES} - {"figure"} == {*stage_dependencies.STAGES} - notebooks
    assert notebooks <= {*stage_dependencies.STAGES}


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != "figure"])
def test_what_a_stage_calls_to_get_its_results_is_in_its_digest(stage: str) -> None:
    """So an edit there repeats the stage. Figures are drawn by notebooks, which are inputs of their rules."""
    found = beyond_digest(STAGES[stage].read_text(), stage)
    assert found == DECIDES_NO_RESULT.get(stage, set())


def test_a_planted_call_beyond_the_digest_is_found() -> None:
    planted = "def run():\n    from weakspots.mechanism import gate_cycling\n    from weakspots.data import packing"
    assert beyond_digest(planted, "cycling") == {"weakspots.data.packing"}
