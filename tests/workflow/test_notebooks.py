"""A figure's notebook is kept, also when a cell fails."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from weakspots.errors import UserError
from weakspots.workflow import notebooks
from weakspots.workflow.layout import Layout


def notebook(name: str, *cells: str) -> None:
    parameters = nbformat.v4.new_code_cell("results_folder = output_folder = None", metadata={"tags": ["parameters"]})
    written = nbformat.v4.new_notebook(cells=[parameters, *map(nbformat.v4.new_code_cell, cells)])
    written.metadata["language_info"] = {"name": "python"}
    Path("notebooks").mkdir(exist_ok=True)
    nbformat.write(written, f"notebooks/{name}.ipynb")


def outputs(path: str) -> str:
    return str([cell.get("outputs") for cell in nbformat.read(path, as_version=4).cells])


@pytest.mark.parametrize(("name", "folder"), [("figure_2", "figures"), ("tables", "tables")])
def test_a_notebook_knows_its_folders_and_lies_beside_the_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, folder: str
) -> None:
    monkeypatch.chdir(tmp_path)
    notebook(name, "print('from', results_folder, 'to', output_folder)")
    notebooks.execute(name, Layout("results/laptop"))
    assert f"from results/laptop to results/laptop/{folder}" in outputs(f"results/laptop/figures/{name}.ipynb")


def test_a_failing_cell_is_named_and_the_cells_before_it_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    notebook("figure_2", "print('measured')", "raise ValueError('no lookup tables')")
    with pytest.raises(UserError) as caught:
        notebooks.execute("figure_2", Layout("results/laptop"))
    assert "ValueError: no lookup tables" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 2
    assert "measured" in outputs("results/laptop/logs/figure_2.ipynb")
    assert not Path("results/laptop/figures/figure_2.ipynb").exists()
