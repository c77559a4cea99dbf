"""Figure 4 shows every key gate of the scalar runs in the plane, and the followed ones on their way."""

from __future__ import annotations

import numpy as np
import pytest
from drawn import overlapping, said
from planted_mechanism import ROWS, planted_mechanism

from weakspots.errors import UserError
from weakspots.figures import figure_4

SOME = {
    name: ROWS[name]
    for name in ("full-1kv", "w8s8-1kv-uniform", "w8s8-4kv", "w8s8-1kv", "w8s8-1kv-vector", "w12s12-1kv")
}


@pytest.fixture(scope="module")
def table():
    return figure_4.measure(planted_mechanism(SOME))


def points(axes) -> np.ndarray:
    return np.concatenate([np.asarray(drawn.get_offsets()) for drawn in axes.collections])


def test_there_is_a_row_per_key_gate_and_checkpoint_of_the_scalar_runs(table):
    assert table["model"].unique().tolist() == ["w8s8-4kv", "w8s8-1kv", "w12s12-1kv"]
    assert len(table) == 3 * 2 * (4 + 1 + 1)
    assert not table.duplicated(["model", "step", "layer", "head"]).any()
    assert table.groupby("last")["step"].unique().map(list).to_dict() == {False: [0, 200], True: [1000]}
    assert (table["static"] <= table["window"] + 1e-6).all() and (table["per_window"] >= 1).all()


def test_what_is_drawn_is_what_was_measured_at_the_last_checkpoint(table):
    figure = figure_4.draw(table)
    large, *small = figure.axes
    for axes, model in zip(small, ("w8s8-4kv", "w12s12-1kv"), strict=True):
        last = table[(table["model"] == model) & table["last"]]
        np.testing.assert_allclose(points(axes), last[["static", "per_window"]])
        assert axes.get_xlim() == axes.get_ylim() and axes.get_xticks().max() == last["window"].iloc[0]
    assert large.get_title() == "W8/S8 · 1 KV"


def test_the_followed_gates_go_from_an_open_to_a_filled_circle(table):
    axes = figure_4.draw(table).axes[0]
    for layer in (0, 1):
        way = table[(table["model"] == "w8s8-1kv") & (table["layer"] == layer)]
        (line,) = [line for line in axes.lines if np.array_equal(line.get_xdata(), way["static"])]
        np.testing.assert_array_equal(line.get_ydata(), way["per_window"])
        ends = {line.get_ydata()[0]: line for line in axes.lines if len(np.atleast_1d(line.get_ydata())) == 1}
        assert ends[way["per_window"].iloc[0]].get_markerfacecolor() == "white"
        assert ends[way["per_window"].iloc[-1]].get_markerfacecolor() != "white"


def test_the_papers_layers_are_followed_where_the_model_has_them(table):
    assert table.loc[table["traced"], "layer"].unique().tolist() == [0, 1]
    assert "layers 0 and 1 (the most concentrated; in the paper 9, 10 and 14)" in said(figure_4.draw(table))
    deep = figure_4.measure(planted_mechanism({"w8s8-1kv": SOME["w8s8-1kv"]}, layers=28))
    assert deep.loc[deep["traced"], "layer"].unique().tolist() == [9, 10, 14]
    words = said(figure_4.draw(deep))
    assert "Lines follow layers 9, 10 and 14 from step 0, open, to 1,000, filled" in words


def test_otherwise_the_most_concentrated_layers_are_followed():
    results = planted_mechanism({"w8s8-1kv": SOME["w8s8-1kv"]}, layers=6)
    for layer in (0, 3):
        results.gates["w8s8-1kv"].loc[results.gates["w8s8-1kv"]["layer"] == layer, "static"] = 1.5
    table = figure_4.measure(results)
    assert {0, 3} < set(table.loc[table["traced"], "layer"]) and table.loc[table["traced"], "layer"].nunique() == 3


@pytest.mark.parametrize("layers", [2, 28])
def test_labels_are_complete_and_nothing_overlaps(layers):
    figure = figure_4.draw(figure_4.measure(planted_mechanism(SOME, layers)))
    words = said(figure)
    assert f"n = {layers * 6} key gates of 3 runs after step 1,000" in words
    assert "static effective number of offsets" in words and "per-window effective number" in words
    assert ("layer 1" in words.splitlines()) == (layers == 2)
    assert not overlapping(figure)


def test_a_run_with_one_checkpoint_and_a_table_without_the_followed_run_are_drawn():
    results = planted_mechanism({name: SOME[name] for name in ("w8s8-1kv", "w8s8-4kv")})
    results.gates = {model: gates[gates["step"] == 1000] for model, gates in results.gates.items()}
    assert "Only step 1,000 was kept" in said(figure_4.draw(figure_4.measure(results)))
    del results.gates["w8s8-1kv"]
    figure = figure_4.draw(figure_4.measure(results))
    assert len(figure.axes) == 1 and "Lines follow" not in said(figure)


def test_a_scale_without_scalar_gates_says_what_to_run():
    without = planted_mechanism({"full-1kv": SOME["full-1kv"], "w8s8-1kv-vector": SOME["w8s8-1kv-vector"]})
    with pytest.raises(UserError, match="run `snakemake gates` first"):
        figure_4.measure(without)
