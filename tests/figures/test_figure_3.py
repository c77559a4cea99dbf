"""Figure 3 shows what was measured: a row per KV head, a column per phase, lost in red and gained in blue."""

from __future__ import annotations

import numpy as np
import pytest
from drawn import overlapping, said
from matplotlib.colors import to_rgb
from planted_mechanism import ROWS, planted_mechanism

from weakspots import statistics
from weakspots.errors import UserError
from weakspots.figures import figure_3, panels
from weakspots.model_table import WHOLE_LAYER

SOME = {name: ROWS[name] for name in ("full-1kv", "w8s8-1kv", "w8s4-1kv", "w8s8-4kv", "w8s8-1kv-uniform")}


@pytest.fixture(scope="module")
def results():
    return planted_mechanism(SOME)


@pytest.fixture(scope="module")
def table(results):
    return figure_3.measure(results)


def maps(figure) -> list[np.ndarray]:
    """The values of every map, filled with nan where they are undefined."""
    return [np.ma.filled(image.get_array().astype(float), np.nan) for axes in figure.axes for image in axes.images]


def test_there_is_a_row_per_run_kv_head_and_phase_and_one_per_position(table, results):
    folded, whole = table[table["folded"]], table[~table["folded"]]
    heads = {model: 2 * row.kv_heads for model, row in SOME.items()}
    assert len(whole) == sum(heads.values()) * 2 * 24
    assert len(folded) == 2 * sum(heads[model] * (row.period or 8) for model, row in SOME.items())
    assert not table.duplicated(["model", "padding", "layer", "head", "folded", "phase"]).any()
    assert WHOLE_LAYER not in set(table["head"])
    assert set(whole["n"]) == {250} and set(folded["n"]) == {250 * 24 // 8, 250 * 24 // 4}
    assert table["model"].unique().tolist() == list(SOME)


def test_changes_are_relative_to_the_clean_accuracy_of_the_same_phase(table, results):
    row = table.query("model == 'w8s8-4kv' and padding == 'in_sequence' and layer == 1 and head == 2 and folded")
    clean = statistics.fold(statistics.profile(results.outcomes["w8s8-4kv", "in_sequence"]), 8)
    knocked = statistics.fold(statistics.profile(results.knockouts["w8s8-4kv", "in_sequence"][1, 2]), 8)
    np.testing.assert_allclose(row["change"], 100 * (knocked - clean) / clean)


@pytest.mark.parametrize("folded", [True, False])
def test_what_is_drawn_is_what_was_measured(table, folded):
    figure = figure_3.draw(table, ["w8s8-4kv", "full-1kv"], folded=folded)
    shown = iter(maps(figure))
    for model, rows in (("w8s8-4kv", 8), ("full-1kv", 2)):
        for padding in ("prefix", "in_sequence"):
            measured = table[(table["model"] == model) & (table["padding"] == padding) & (table["folded"] == folded)]
            np.testing.assert_allclose(next(shown), measured["change"].to_numpy().reshape(rows, -1))
    assert next(shown, None) is None


def test_full_attention_loses_alike_and_a_compressed_head_at_a_few_phases(table):
    change = table[table["folded"] & (table["padding"] == "prefix")].set_index(["model", "layer"])["change"]
    assert np.ptp(change["full-1kv", 0]) < 15 and (change["full-1kv", 0] < -70).all()
    assert (change["w8s8-1kv", 1] < -30).sum() == 3


def test_lost_is_red_gained_is_blue_both_clipped_and_undefined_is_grey():
    def colour(value):
        return panels.CHANGE.colours(panels.CHANGE.norm(np.ma.masked_invalid([value])))[0, :3]

    (red, _, blue), (less_red, _, more_blue) = colour(-80), colour(80)
    assert red > blue and more_blue > less_red
    assert colour(-150).tolist() == colour(-100).tolist() and colour(150).tolist() == colour(100).tolist()
    np.testing.assert_allclose(colour(np.nan), to_rgb(panels.UNDEFINED_COLOUR), atol=0.01)


def test_a_phase_without_clean_answers_is_undefined():
    results = planted_mechanism({"w8s8-1kv": SOME["w8s8-1kv"]}, changes={"w8s8-1kv": [80.0] * 7 + [0.0]})
    table = figure_3.measure(results)
    assert table.loc[table["folded"], "change"].isna().to_numpy().reshape(-1, 8).tolist() == [[False] * 7 + [True]] * 4
    assert all(np.isnan(values[:, 7]).all() for values in maps(figure_3.draw(table)))


def test_one_padding_can_be_drawn_alone_and_what_was_not_run_is_left_out():
    results = planted_mechanism(SOME)
    del results.knockouts["w8s4-1kv", "prefix"], results.knockouts["w8s4-1kv", "in_sequence"]
    del results.knockouts["w8s8-1kv", "in_sequence"]
    table = figure_3.measure(results)
    assert "w8s4-1kv" not in set(table["model"])
    assert len(maps(figure_3.draw(table, ["w8s8-4kv"], padding="prefix"))) == 1
    one, missing = maps(figure_3.draw(table, ["w8s8-4kv", "w8s8-1kv"]))[2:]
    assert np.isfinite(one).all() and np.isnan(missing).all()


@pytest.mark.parametrize("folded", [True, False])
def test_labels_are_complete_and_nothing_overlaps(table, folded):
    figure = figure_3.draw(table, folded=folded)
    words = said(figure)
    assert "accuracy change, % of clean accuracy" in words and "prompts per cell" in words
    assert all(axes.get_xlabel().startswith("position mod") for axes in figure.axes if axes.images)
    assert all(axes.get_ylabel() == "layer" for axes in figure.axes if axes.images)
    assert all(name in words for name in ("Full attention · 1 KV", "W8/S8 · 4 KV", "prefix", "in-sequence"))
    assert not overlapping(figure)


def test_many_layers_keep_few_labels():
    results = planted_mechanism({name: SOME[name] for name in ("w8s8-1kv", "w8s8-4kv")}, layers=28)
    figure = figure_3.draw(figure_3.measure(results))
    drawn = [axes for axes in figure.axes if axes.images]
    for axes in drawn:
        labels = [label.get_text() for label in axes.get_yticklabels()]
        assert labels == ["0", "4", "8", "12", "16", "20", "24"]
    assert drawn[1].get_yticks()[1] == 4 * 4 + 1.5  # in the middle of the layer's four heads
    assert not overlapping(figure)


def test_a_scale_without_knockouts_says_what_to_run():
    results = planted_mechanism({"w8s8-1kv": SOME["w8s8-1kv"]})
    results.knockouts = {}
    with pytest.raises(UserError, match="no knockouts yet: run `snakemake knockout` first"):
        figure_3.measure(results)


@pytest.fixture(scope="module")
def with_a_silent_phase():
    """A model that answers 5 % at phase 3, where its knockouts seem to gain what they add to almost nothing."""
    results = planted_mechanism({"w8s8-4kv": ROWS["w8s8-4kv"]})
    silent = np.arange(24) % 8 == 3
    for outcomes in (results.outcomes["w8s8-4kv", "prefix"], *results.knockouts["w8s8-4kv", "prefix"].values()):
        outcomes[:, silent] = False
    results.outcomes["w8s8-4kv", "prefix"][:12, silent] = True
    for knocked in results.knockouts["w8s8-4kv", "prefix"].values():
        knocked[:24, silent] = True
    return results


def test_a_phase_that_the_model_answers_less_than_ten_percent_of_the_time_is_not_judged(with_a_silent_phase):
    table = figure_3.measure(with_a_silent_phase)
    prefix = table[(table["padding"] == "prefix") & table["folded"]]
    assert (prefix.loc[prefix["phase"] == 3, "change"] == 100).all()  # 4.8 % became 9.6 %: twice nothing is nothing
    assert not prefix.loc[prefix["phase"] == 3, "judged"].any()
    assert prefix.loc[prefix["phase"] != 3, "judged"].all()
    assert table.loc[(table["padding"] == "in_sequence") & table["folded"], "judged"].all()


def test_what_is_not_judged_is_covered_by_hatching_and_nothing_else_is(with_a_silent_phase):
    table = figure_3.measure(with_a_silent_phase)
    figure = figure_3.draw(table)
    hatched = [patch for axes in figure.axes for patch in axes.patches if patch.get_hatch()]
    assert len(hatched) == 1  # one column of one map, over all its rows
    assert hatched[0].get_xy() == (2.5, -0.5) and (hatched[0].get_width(), hatched[0].get_height()) == (1, 8)
    assert hatched[0].get_facecolor()[3] == 1  # what lies under it does not shine through
    assert any("less than 10 %" in text.get_text() for legend in figure.legends for text in legend.get_texts())
