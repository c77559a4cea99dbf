"""Figure 6 shows every cycle as observed and as predicted, and how far they agree, beside the paper's R²."""

from __future__ import annotations

import numpy as np
import pytest
from drawn import overlapping, said
from planted_mechanism import CYCLED_MAPPINGS, ROWS, SHIFTS, planted_mechanism

from weakspots import statistics
from weakspots.analysis import paper_numbers
from weakspots.errors import UserError
from weakspots.figures import figure_6, figure_6_grid

SOME = {name: ROWS[name] for name in ("full-1kv", "w8s8-1kv", "w8s8-1kv-seed43", "w12s12-1kv")}
CYCLED = ["w8s8-1kv", "w8s8-1kv-seed43", "w12s12-1kv"]


@pytest.fixture(scope="module")
def results():
    return planted_mechanism(SOME)


@pytest.fixture(scope="module")
def table(results):
    return figure_6.measure(results)


@pytest.fixture(scope="module")
def agreed(results):
    return figure_6_grid.measure(results)


@pytest.fixture(scope="module")
def figure(table, agreed):
    return figure_6.draw(table, agreed)


def test_there_is_a_row_per_cycled_run_shift_and_phase(table):
    assert table["model"].unique().tolist() == CYCLED
    assert len(table) == len(SHIFTS) * (8 + 8 + 12)
    assert (table["low"] <= table["observed"]).all() and (table["observed"] <= table["high"]).all()
    assert (table["n"] == CYCLED_MAPPINGS * 24 // table["stride"]).all()
    np.testing.assert_allclose(table["observed_change"], table["observed"] - table["clean"])
    assert (table["boundary"] == (table["phase"] == table["stride"] - 1)).all()


def test_the_clean_model_is_judged_on_the_prompts_that_the_cycled_one_was_asked(table, results):
    clean = results.outcomes["w8s8-1kv", "prefix"][:CYCLED_MAPPINGS]
    expected = statistics.fold(statistics.profile(clean), 8)
    rows = table.query("model == 'w8s8-1kv' and shift == 2")
    np.testing.assert_allclose(rows["clean"], expected)
    np.testing.assert_allclose(rows["predicted"], np.roll(expected, 2))


def test_agreement_is_high_without_the_boundary_phase_and_stands_beside_the_papers(agreed):
    assert len(agreed) == len(CYCLED) * len(SHIFTS)
    assert (agreed["r_squared"] > 0.9).all()
    assert (agreed["low"] <= agreed["high"]).all() and (agreed["low"] > 0.5).all()
    row = agreed.query("model == 'w8s8-1kv-seed43' and shift == 3").iloc[0]
    assert row["published_r_squared"] == 0.802 and row["published_mean_change"] == -7.8


@pytest.mark.parametrize("model", CYCLED)
def test_what_is_drawn_is_what_was_measured(figure, table, model):
    profiles = [axes for axes in figure.axes if axes.get_title().startswith("δ")]
    own = profiles[CYCLED.index(model) * len(SHIFTS) :][: len(SHIFTS)]
    for axes, shift in zip(own, SHIFTS, strict=True):
        run = table[(table["model"] == model) & (table["shift"] == shift)]
        by_style = {line.get_linestyle(): line.get_ydata() for line in axes.lines if len(line.get_ydata()) > 1}
        np.testing.assert_array_equal(by_style["--"], run["predicted"])
        solid = [line.get_ydata() for line in axes.lines if line.get_linestyle() == "-"]
        np.testing.assert_array_equal(solid, [run["clean"], run["observed"]])
        band = axes.collections[0].get_paths()[0].vertices[:, 1]
        assert band.min() == run["low"].min() and band.max() == run["high"].max()


def test_boundary_phases_are_hollow_among_the_changes(figure, table):
    changes = next(axes for axes in figure.axes if axes.get_ylabel() == "observed change (pp)")
    run = table[table["model"] == "w8s8-1kv"]
    for boundary in (True, False):
        drawn = [part for part in changes.collections if bool(len(part.get_facecolor())) != boundary]
        shown = np.concatenate([np.asarray(part.get_offsets()) for part in drawn])
        part = run[run["boundary"] == boundary]
        np.testing.assert_allclose(
            np.sort(shown, axis=0), np.sort(part[["predicted_change", "observed_change"]], axis=0)
        )


def test_every_cell_of_the_grid_has_our_r_squared_and_the_papers(figure, agreed):
    words = said(figure)
    for row in agreed.itertuples():
        assert f"{row.r_squared:.2f}" in words
        assert f"[{row.low:.2f}, {row.high:.2f}]\npaper {row.published_r_squared:.2f}\nflat {row.flat:.2f}" in words


def test_labels_are_complete_and_nothing_overlaps(figure):
    words = said(figure)
    assert f"n = {CYCLED_MAPPINGS} mappings at every position, prefix padding" in words
    assert "95% bootstrap intervals" in words and "accuracy (%)" in words and "predicted change (pp)" in words
    assert all(name in words for name in ("W8/S8 · 1 KV · seed 43", "W12/S12 · 1 KV", "δ = −3", "δ = +3", "Qwen3-0.6B"))
    assert not overlapping(figure)


def test_runs_and_shifts_that_the_paper_does_not_have_are_drawn_without_its_numbers():
    results = planted_mechanism({name: ROWS[name] for name in ("w8s8-1kv", "w8s8-1kv-seed45")})
    results.cycles = {
        "w8s8-1kv-seed45": {4: results.cycles["w8s8-1kv"][3]},
        "w8s8-1kv": {1: results.cycles["w8s8-1kv"][1]},
    }
    table, agreed = figure_6.measure(results), figure_6_grid.measure(results)
    assert agreed["published_r_squared"].isna().tolist() == [False, True]
    words = said(figure_6.draw(table, agreed))
    assert words.count("paper 1.00") == 1 and "δ = +4" in words


def test_a_flat_model_has_no_agreement_to_show():
    results = planted_mechanism({"w8s8-1kv": ROWS["w8s8-1kv"]})
    results.outcomes["w8s8-1kv", "prefix"][:] = True
    results.cycles["w8s8-1kv"] = {1: np.ones((CYCLED_MAPPINGS, 24), bool)}
    agreed = figure_6_grid.measure(results)
    assert agreed["r_squared"].isna().all()
    assert "undefined" in said(figure_6.draw(figure_6.measure(results), agreed))


def test_paper_numbers_of_cycling_are_found_by_run_and_shift():
    assert paper_numbers.gate_cycling_r_squared("w12s12-4kv", -3) == 0.989
    assert paper_numbers.gate_cycling_mean_change("w8s8-1kv", -3) == -17.0
    assert paper_numbers.gate_cycling_r_squared("w8s8-1kv", 4) is None
    assert paper_numbers.gate_cycling_r_squared("w4s4-1kv", 1) is None


def test_a_scale_without_cycles_says_what_to_run():
    without = planted_mechanism({"full-1kv": ROWS["full-1kv"]})
    for measure in (figure_6.measure, figure_6_grid.measure):
        with pytest.raises(UserError, match="no cycled gates yet: run `snakemake cycling` first"):
            measure(without)
