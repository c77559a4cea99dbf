"""Figure 2 shows what was measured: every run, its intervals, its periods, and the paper's curve beside it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex
from planted import ROWS, WEAK_BOUNDARY, planted

from weakspots import statistics
from weakspots.analysis import paper_numbers
from weakspots.errors import UserError
from weakspots.figures import figure_2, style
from weakspots.files.validation import Validation


@pytest.fixture(scope="module")
def results():
    return planted()


@pytest.fixture(scope="module")
def table(results):
    return figure_2.measure(results)


@pytest.fixture(scope="module")
def panels(table):
    return dict(zip(table["model"].unique(), figure_2.draw(table).axes, strict=True))


def lines(axes, style_name: str) -> list[np.ndarray]:
    return [line.get_ydata() for line in axes.lines if line.get_linestyle() == style_name]


def test_there_is_a_row_per_run_padding_and_position(table):
    assert len(table) == len(ROWS) * 2 * 24
    assert not table.duplicated(["model", "padding", "position"]).any()
    assert table["model"].unique().tolist() == list(ROWS)
    assert (table["low"] <= table["accuracy"]).all() and (table["accuracy"] <= table["high"]).all()


def test_intervals_are_wilsons_for_full_attention_and_bootstraps_for_compressed_runs(table, results):
    for model, expected in (("full-1kv", "wilson"), ("w8s8-1kv", "bootstrap")):
        rows = table.query("model == @model and padding == 'prefix'")
        low, _ = statistics.wilson(results.outcomes[model, "prefix"].sum(axis=0), 250)
        assert np.allclose(rows["low"], low) == (expected == "wilson")


def test_each_compressed_run_is_compared_with_full_attention_of_as_many_heads(table):
    beside = table.groupby("model")["full_attention"].first()
    assert beside["w8s8-1kv"] == "full-1kv" and beside["w8s8-8kv"] == "full-8kv"
    assert beside[["full-1kv", "full-8kv"]].isna().all()


@pytest.mark.parametrize("model", ["w8s8-1kv", "w8s4-1kv", "w12s12-1kv"])
def test_a_line_is_solid_within_a_period_and_dotted_across_the_boundary(panels, table, model):
    axes, stride = panels[model], ROWS[model].stride
    accuracy = table.query("model == @model and padding == 'prefix'")["accuracy"].to_numpy()
    solid = [values for values in lines(axes, "-") if len(values) == stride]
    assert len(solid) == 2 * 24 // stride
    np.testing.assert_array_equal(np.concatenate(solid[: 24 // stride]), accuracy)
    dotted = [values for values in lines(axes, ":") if len(values) == 2]
    np.testing.assert_array_equal(dotted[0], accuracy[stride - 1 : stride + 1])
    assert len(dotted) == 2 * (24 // stride - 1)


def test_periods_and_boundary_phases_are_marked(panels):
    marks = [line.get_xdata() for line in panels["w8s8-1kv"].lines if line.get_marker() == "^"]
    np.testing.assert_array_equal(marks, [[7, 15, 23]])
    boundaries = [x[0] for line in panels["w8s8-1kv"].lines if (x := line.get_xdata())[0] == x[-1]]
    assert boundaries == [7.5, 15.5]
    assert not [line for line in panels["full-1kv"].lines if line.get_marker() == "^"]


def test_the_papers_curve_is_drawn_beside_ours_in_its_paddings_colour(panels):
    theirs = paper_numbers.profile("w8s8-1kv", "in_sequence")
    found = [line for line in panels["w8s8-1kv"].lines if np.array_equal(line.get_ydata(), theirs)]
    assert [to_hex(line.get_color()).upper() for line in found] == [style.PADDING_COLOURS["in_sequence"].upper()]


def test_the_legend_names_the_source_and_the_subtitle_the_number_of_prompts(table):
    figure = figure_2.draw(table)
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert any("paper, Qwen3-0.6B, 100B tokens" in name for name in legend)
    assert "n = 250 prompts per point" in figure.texts[0].get_text()


def test_the_compact_figure_shows_its_runs_or_the_first_ones(table):
    titles = [axes.get_title() for axes in figure_2.headline(table).axes]
    assert titles == [ROWS[model].label() for model in figure_2.HEADLINE]
    others = table[~table["model"].isin(figure_2.HEADLINE)]
    assert len(figure_2.headline(others).axes) == others["model"].nunique()


def test_another_modulus_than_the_papers_leaves_its_curve_out():
    rows = {"w8s4-1kv": ROWS["w8s4-1kv"]}
    results = planted({"w8s4-1kv": WEAK_BOUNDARY[4]}, rows=rows, modulus=8)
    (axes,) = figure_2.draw(figure_2.measure(results)).axes
    assert max(len(line.get_ydata()) for line in axes.lines) <= 8


def test_a_scale_without_results_says_what_to_run():
    with pytest.raises(UserError, match="no lookup results yet: run `snakemake lookup`"):
        figure_2.measure(planted(dict.fromkeys(ROWS)))


def test_the_same_figure_is_the_same_file(tmp_path, table):
    few = table[table["model"] == "full-1kv"]
    for name in ("one", "two"):
        style.save(figure_2.draw(few), tmp_path / f"{name}.svg", tmp_path / f"{name}.png")
    for suffix in ("svg", "png"):
        assert (tmp_path / f"one.{suffix}").read_bytes() == (tmp_path / f"two.{suffix}").read_bytes()


def test_a_model_that_has_not_learnt_is_drawn_and_its_panel_says_so(results, table):
    marked = figure_2.measure(replace(results, not_learnt={"w8s8-1kv-uniform": Validation(2.41, 2.2)}))
    unmarked = [name for name in marked.columns if name != "label"]
    assert marked[unmarked].equals(table[unmarked])
    titles = {
        model: axes.get_title()
        for model, axes in zip(ROWS, figure_2.draw(marked).axes, strict=True)
        if "not learnt" in axes.get_title()
    }
    assert list(titles) == ["w8s8-1kv-uniform"]
