"""The figures of the theory show its tables."""

from __future__ import annotations

from pathlib import Path

import nbformat
import numpy as np
import pytest
from planted import planted
from planted_theory import planted_theory

from weakspots.analysis import results
from weakspots.errors import UserError
from weakspots.figures import figure_theory, style

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "figure_theory.ipynb"


@pytest.fixture(scope="module")
def found():
    return figure_theory.measure(planted_theory())


def test_a_scale_without_the_theory_says_what_to_run():
    with pytest.raises(UserError, match=r"lacks theory tables \(landscape, .*: run `snakemake theory`"):
        figure_theory.measure(planted())
    with pytest.raises(UserError, match=r"lacks theory tables \(map\)"):
        figure_theory.measure(planted_theory(map=None))


def test_theorem_1_shows_the_minima_the_exponents_and_the_map(found):
    figure = figure_theory.draw_theorem_1(found["landscape"], found["minima"], found["exponent"], found["map"])
    landscape, margin, cases = figure.axes[:3]
    stars = next(line.get_xydata() for line in landscape.lines if line.get_marker() == "*")
    np.testing.assert_allclose(stars, [[0, 0], [1, 1]])
    (name, _) = [text.get_text() for text in margin.get_legend().get_texts()]
    assert name.startswith("S = 3, m = 2") and f"{found['exponent']['exponent'].iloc[0]:.3f}" in name
    positive = found["minima"].query("margin > 0")
    points = margin.lines[0].get_xydata()
    np.testing.assert_allclose(points, positive[["vocabulary", "margin"]])
    assert "no noise" in margin.get_legend().get_title().get_text()
    assert [text.get_text() for text in cases.texts] == ["0", "0", "0", "100", "0", "100"]


def test_margins_that_are_not_positive_are_ticks_and_are_counted(found):
    minima = found["minima"].assign(margin=[-0.1, 0.01, 0.001, 1e-4])
    figure = figure_theory.draw_theorem_1(found["landscape"], minima, found["exponent"], found["map"])
    margin = figure.axes[1]
    ticks = [line.get_xdata() for line in margin.lines if line.get_marker() == "|" and len(line.get_xdata())]
    assert [list(at) for at in ticks] == [[8]]
    assert "1 not above 0" in [text.get_text() for text in margin.get_legend().get_texts()]


def test_theorem_2_shows_trajectories_escape_times_and_repulsion(found):
    figure = figure_theory.draw_theorem_2(found["trajectories"], found["heads"], found["escape"], found["coverage"])
    plane, escape, apart = figure.axes
    starts = [line for line in plane.lines if line.get_markerfacecolor() == "white"]
    assert len(starts) == found["tokens"].shape[0]
    assert [text.get_text() for text in plane.get_legend().get_texts()] == ["N = 32", "ρ = 30", "ρ = 0.01"]
    assert len({line.get_linestyle() for line in plane.get_legend().get_lines()[1:]}) == 2
    last = found["escape"].iloc[-1]
    expected = f"N = 1,024: slope {last['slope']:.2f} ({last['low']:.2f} to {last['high']:.2f})"
    assert escape.get_legend().get_texts()[-1].get_text() == expected
    assert "S = 4, m = 3" in apart.get_title() and apart.get_xlabel() == "log(e/ρ) / N"


def test_coverage_is_drawn_beside_independent_choice(found):
    axes = figure_theory.draw_coverage(found["coverage"]).axes
    assert [panel.get_title().split(" (")[0] for panel in axes] == [f"S = 4, m = {heads}" for heads in (1, 2, 3)]
    last = found["coverage"].query("heads == 3 and vocabulary == 1000000")
    np.testing.assert_allclose([bar.get_height() for bar in axes[2].patches], last["share"])
    assert any(np.array_equal(line.get_ydata(), last["independent"]) for line in axes[2].lines)


def test_retrieval_is_drawn_by_phase_with_the_boundary_left_open(found):
    (axes,) = figure_theory.draw_retrieval(found["retrieval"], 0.95).axes
    shown = found["retrieval"].query("heads == 2").groupby("phase")["retrieved"].mean() * 100
    assert any(np.array_equal(line.get_ydata(), shown) for line in axes.lines)
    assert [line.get_xdata() for line in axes.lines if line.get_marker() == "^"] == [[3]]


def test_every_cell_of_the_notebook_runs_and_the_figures_are_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "read", lambda folder, *kinds: planted_theory())
    names: dict = {}
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        if cell.cell_type == "code":
            exec(cell.source, names)
            if "parameters" in cell.metadata.get("tags", []):
                names["output_folder"] = str(tmp_path)
    parts = ("theorem_1", "theorem_2", "coverage", "retrieval")
    expected = {f"figure_theory_{part}.{suffix}" for part in parts for suffix in ("png", "svg")}
    assert {path.name for path in tmp_path.iterdir()} == expected


def test_the_same_figure_is_the_same_file(found, tmp_path):
    for name in ("one.svg", "two.svg"):
        style.save(figure_theory.draw_retrieval(found["retrieval"], 0.95), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_single_runs_are_named_by_what_they_retrieve(found):
    figure = figure_theory.draw_retrieval(found["retrieval"], 0.9)
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "a run that retrieves fewest" in names and "a run that retrieves most" in names
    assert any("flat by symmetry" in text.get_text() and "90%" in text.get_text() for text in figure.texts)
