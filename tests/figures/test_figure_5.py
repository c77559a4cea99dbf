"""Figure 5 lays gates beside knockouts: the same rows, the same phases."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from drawn import overlapping, said
from planted_mechanism import ROWS, planted_mechanism, specialised

from weakspots.analysis import alignment
from weakspots.errors import UserError
from weakspots.figures import figure_5

SOME = {
    name: ROWS[name]
    for name in ("full-1kv", "w8s8-1kv-uniform", "w8s8-1kv", "w8s4-1kv", "w8s8-4kv", "w8s8-1kv-tied", "w8s8-1kv-vector")
}
LEARNED = ["w8s8-1kv", "w8s4-1kv", "w8s8-4kv", "w8s8-1kv-tied", "w8s8-1kv-vector"]


@pytest.fixture(scope="module")
def table():
    return figure_5.measure(planted_mechanism(SOME))


def test_there_is_a_row_per_kv_head_and_phase_of_the_runs_with_a_learned_gate(table):
    assert table["model"].unique().tolist() == LEARNED
    assert len(table) == 2 * (8 + 4 + 4 * 8 + 8 + 8)
    assert not table.duplicated(["model", "layer", "head", "phase"]).any()
    assert (table["static"] <= table["stride"] + 1e-6).all() and (table["static"] >= 1).all()
    assert table["value"].isna().groupby(table["model"]).all().to_dict() == {
        model: model == "w8s8-1kv-tied" for model in LEARNED
    }


@pytest.mark.parametrize("model", LEARNED)
def test_key_value_and_loss_peak_at_the_same_phase(table, model):
    for (layer, head), phase in specialised(SOME[model], 2).items():
        of_head = (table["model"] == model) & (table["layer"] == layer) & (table["head"] == head)
        rows = table[of_head].set_index("phase")
        assert rows["key"].idxmax() == phase and rows["change"].idxmin() == phase
        if model != "w8s8-1kv-tied":
            assert rows["value"].idxmax() == phase


def test_what_is_drawn_is_what_was_measured(table):
    figure = figure_5.draw(table, ["w8s8-4kv", "w8s8-1kv-tied"])
    maps = [image.get_array() for axes in figure.axes for image in axes.images]
    expected = [("w8s8-4kv", name) for name in ("key", "value", "change")]
    expected += [("w8s8-1kv-tied", name) for name in ("key", "change")]
    for drawn, (model, name) in zip(maps, expected, strict=True):
        np.testing.assert_allclose(drawn, table.loc[table["model"] == model, name].to_numpy().reshape(-1, 8))
    static = table.query("model == 'w8s8-4kv' and phase == 0")["static"]
    (bars,) = figure.axes[-2].containers
    one, eight = figure.axes[-2].get_xticks()[:2]
    lengths = [bar.get_width() for bar in bars]
    np.testing.assert_allclose(lengths, (static - 1) / 7 * (eight - one))
    assert {bar.get_x() for bar in bars} == {one}


def test_the_compact_figure_shows_its_runs_or_the_first_ones(table):
    words = said(figure_5.headline(table))
    assert "W8/S8 · 4 KV" in words and "vector gate" not in words
    others = table[table["model"] == "w8s8-1kv-vector"]
    assert "vector gate" in said(figure_5.headline(others))


def test_what_was_not_run_is_left_out():
    results = planted_mechanism(SOME)
    del results.gates["w8s8-4kv"], results.knockouts["w8s4-1kv", "prefix"]
    assert figure_5.measure(results)["model"].unique().tolist() == ["w8s8-1kv", "w8s8-1kv-tied", "w8s8-1kv-vector"]


@pytest.mark.parametrize("layers", [2, 28])
def test_labels_are_complete_and_nothing_overlaps(layers):
    figure = figure_5.draw(figure_5.measure(planted_mechanism(SOME, layers)))
    words = said(figure)
    assert "n = 750 to 1,500 prompts per cell" in words and "prefix padding" in words
    assert "mean gate score, 1 = uniform share" in words and "accuracy change, % of clean accuracy" in words
    assert all(word in words for word in ("static", "key gate", "value gate", "knockout", "layer", "position mod 8"))
    assert not overlapping(figure)


def test_a_scale_without_gates_or_knockouts_says_what_to_run():
    results = planted_mechanism({"w8s8-1kv": SOME["w8s8-1kv"]})
    gates, results.gates = results.gates, {}
    with pytest.raises(UserError, match="run `snakemake gates knockout` first, with prefix"):
        figure_5.measure(results)
    results.gates, results.knockouts = gates, {}
    with pytest.raises(UserError, match="run `snakemake knockout` first"):
        figure_5.measure(results)


def test_the_alignment_lists_every_gate_of_every_run_with_knockouts():
    results = planted_mechanism()
    table = figure_5.aligned(results)
    assert set(table["model"]) == {model for model in results.gates if (model, "prefix") in results.knockouts}
    one = table[table["model"] == "w8s8-1kv"].drop(columns="model").reset_index(drop=True)
    pd.testing.assert_frame_equal(one, alignment.by_head(results, "w8s8-1kv"))
