"""Copies of the project: untouched, finished, and one of a test's own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from copies import SMOKE, Project, copy_project


@pytest.fixture(scope="session")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy in which nothing has run; for tests that change nothing."""
    return copy_project(tmp_path_factory.mktemp("untouched") / "project")


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy in which the smoke scale has run to its end with the stand-in; for tests that change nothing."""
    project = copy_project(tmp_path_factory.mktemp("finished") / "project")
    done = project.snakemake(*SMOKE, "--cores", "2")
    assert done.returncode == 0, done.stdout
    (project.folder / "output.txt").write_text(done.stdout)
    return project


@pytest.fixture
def project(finished: Project, tmp_path: Path) -> Project:
    """A finished copy of the test's own, to edit."""
    return Project(Path(shutil.copytree(finished.folder, tmp_path / "project")))
