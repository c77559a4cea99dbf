"""The notebooks are thin and stripped, and every cell of them runs on a scale's results."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from planted import planted
from planted_deepseek import planted_deepseek
from planted_mechanism import ROWS, planted_mechanism

from weakspots.analysis import results

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_are_stripped_and_take_the_results_folder(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    assert notebook.metadata.kernelspec.name == "python3"
    (parameters,) = [cell for cell in code if "parameters" in cell.metadata.get("tags", [])]
    assert (
        parameters is code[0] and "results_folder = " in parameters.source and "output_folder = " in parameters.source
    )


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("figure_1", {"figure_1.png", "figure_1.svg"}),
        ("figure_2", {"figure_2.png", "figure_2.svg", "figure_2_headline.png", "figure_2_headline.svg"}),
        ("figure_3", {"figure_3.png", "figure_3.svg", "figure_3_positions.png", "figure_3_positions.svg"}),
        ("figure_4", {"figure_4.png", "figure_4.svg"}),
        ("figure_5", {"figure_5.png", "figure_5.svg", "figure_5_all.png", "figure_5_all.svg"}),
        ("figure_6", {"figure_6.png", "figure_6.svg"}),
        ("tables", {"selected_runs.csv", "selected_runs.md", "needle.csv", "needle.md"}),
    ],
)
def test_every_cell_runs_and_the_outputs_are_saved(tmp_path, monkeypatch, name, files):
    few = {row: ROWS[row] for row in ("full-1kv", "w8s8-1kv", "w8s8-4kv")}
    measured = planted() if name in ("figure_2", "tables") else planted_mechanism(few)
    asked = planted_deepseek()
    if name == "figure_1":
        measured = asked
    measured.deepseek, measured.needles = asked.deepseek, asked.needles
    monkeypatch.setattr(results, "read", lambda folder, *kinds: measured)
    names: dict = {}
    for cell in nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells:
        if cell.cell_type == "code":
            exec(cell.source, names)
            if "parameters" in cell.metadata.get("tags", []):
                assert names["output_folder"] is None, "a reader who opens the notebook writes nothing"
                names["output_folder"] = str(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == files
