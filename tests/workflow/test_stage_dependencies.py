"""A digest changes with every source file that a stage depends on, and with no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import weakspots
from weakspots.files import hashes
from weakspots.model_table import model_row
from weakspots.workflow import provenance, stage_dependencies

SOURCES = {
    "__init__.py": "import weakspots.transformer",
    "transformer.py": "",
    "config.py": "import os",
    "records.py": "",
    "training/__init__.py": "",
    "training/loop.py": "from weakspots.config import parse\nfrom ..data import shards",
    "data/__init__.py": "",
    "data/shards.py": "def f():\n    from weakspots.records import animals",
    "data/corpora.py": "",
    "lookup/__init__.py": "from .score import score",
    "lookup/score.py": "import weakspots",
    "lookup/prompts.py": "",
    "resources/animals.txt": "cat",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "weakspots"
    for name, text in SOURCES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr(stage_dependencies, "PACKAGE", folder)
    return folder


def changed_by(package: Path, name: str, module: str, also: tuple[str, ...] = ()) -> bool:
    stage_dependencies.source_digest.cache_clear()
    before = stage_dependencies.source_digest(module, also)
    (package / name).write_text((package / name).read_text() + "\n# edited")
    stage_dependencies.source_digest.cache_clear()
    return stage_dependencies.source_digest(module, also) != before


@pytest.mark.parametrize(
    ("edited", "module", "expected"),
    [
        ("training/loop.py", "training", True),
        ("config.py", "training", True),
        ("records.py", "training", True),  # through data/shards.py, inside a function
        ("data/__init__.py", "training", True),
        ("data/corpora.py", "training", False),  # not imported by it
        ("lookup/score.py", "training", False),
        ("transformer.py", "training", False),  # only `import weakspots` asks for it
        ("transformer.py", "lookup", True),
        ("lookup/prompts.py", "lookup", True),  # a package named as a stage counts with all of its modules
        ("training/loop.py", "lookup", False),
        ("config.py", "lookup.prompts", False),
    ],
)
def test_an_edit_changes_the_digests_of_the_stages_that_import_the_file(
    package: Path, edited: str, module: str, expected: bool
) -> None:
    assert changed_by(package, edited, module) is expected


def test_resources_count_where_they_are_named(package: Path) -> None:
    assert changed_by(package, "resources/animals.txt", "lookup", ("resources/animals.txt",))
    assert changed_by(package, "resources/animals.txt", "lookup", ("resources",))
    assert not changed_by(package, "resources/animals.txt", "lookup")


def test_a_module_named_beside_the_stage_counts_with_its_imports(package: Path) -> None:
    assert changed_by(package, "records.py", "config", ("data/shards.py",))
    assert not changed_by(package, "records.py", "config")


def test_a_module_that_does_not_exist_is_an_error(package: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match="weakspots.trainign"):
        stage_dependencies.source_digest("trainign")


def test_every_stage_has_a_digest_of_its_own() -> None:
    digests = {stage: stage_dependencies.stage_digest(stage) for stage in stage_dependencies.STAGES}
    assert all(len(digest) == hashes.DIGITS for digest in digests.values())
    assert len(set(digests.values())) == len(digests)


def test_a_configuration_hash_ignores_the_order_and_spelled_out_defaults() -> None:
    assert hashes.config_hash({"a": 1, "b": 2}) == hashes.config_hash({"b": 2, "a": 1})
    assert hashes.config_hash(model_row()) == hashes.config_hash(model_row(window=8, seed=42))
    assert hashes.config_hash(model_row()) != hashes.config_hash(model_row(seed=43))
    assert hashes.config_hash({"row": model_row()}) == hashes.config_hash({"row": model_row().model_dump()})


def test_provenance_is_text_that_json_holds() -> None:
    origin = provenance.provenance(model_row(), "train", seed=42)
    assert json.loads(json.dumps(origin)) == origin
    assert origin["seed"] == "42"
    assert origin["torch_version"].startswith("2.")
    assert origin["weakspots_version"] == weakspots.__version__
    assert provenance.provenance(model_row(), "train")["seed"] == "none"
