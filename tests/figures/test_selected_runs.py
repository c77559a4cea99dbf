"""The table of runs: ours, its intervals and period, and the paper's beside it."""

from __future__ import annotations

import pandas as pd
import pytest
from planted import ROWS, planted

from weakspots.analysis import paper_numbers
from weakspots.figures import selected_runs
from weakspots.files.validation import Validation


@pytest.fixture(scope="module")
def table():
    results = planted({"w8s8-1kv-uniform": [50.0]})
    results.losses = {"recall": dict.fromkeys(ROWS, 0.25), "prose": {"full-1kv": 3.5}}
    return selected_runs.measure(results)


def test_there_is_a_row_per_run_and_padding(table):
    assert list(table[["model", "padding"]].itertuples(index=False, name=None)) == [
        (model, padding) for model in ROWS for padding in ("prefix", "in_sequence")
    ]
    assert (table["mean_low"] <= table["mean"]).all() and (table["mean"] <= table["mean_high"]).all()
    assert (table["n"] == 250).all()


def test_validation_losses_are_of_the_runs_that_trained_on_the_corpus(table):
    by_model = table.drop_duplicates("model").set_index("model")
    assert (by_model["validation_loss_recall"] == 0.25).all()
    assert by_model["validation_loss_prose"].dropna().to_dict() == {"full-1kv": 3.5}


def test_the_papers_figures_stand_beside_ours(table):
    row = table.query("model == 'w8s8-1kv' and padding == 'prefix'").iloc[0]
    shown = paper_numbers.models()["w8s8-1kv"]["prefix"]
    assert row["published_mean"] == pytest.approx(shown["mean"][0], abs=0.05)
    assert row["published_gap"] == pytest.approx(shown["gap"][0], abs=0.05)
    assert row["published_worst"] == 5.7
    assert table.query("model == 'full-1kv' and padding == 'in_sequence'")["published_mean"].isna().all()


def test_selected_runs_are_the_papers_in_its_order(table):
    chosen = selected_runs.selected(table)
    assert chosen["model"].unique().tolist() == [model for model in selected_runs.SELECTED if model in ROWS]
    assert chosen["padding"].tolist()[:2] == ["prefix", "in_sequence"]


def test_a_reader_sees_periods_in_words_and_dashes_for_what_is_missing(table):
    text = selected_runs.readable(table).set_index(["run", "padding"])
    assert text.loc[("W8/S8 · 1 KV", "prefix padding"), "period"] == "8"
    assert text.loc[("W8/S4 · 1 KV", "in-sequence padding"), "period"] == "4"
    assert text.loc[("W8/S8 · 1 KV · uniform averaging", "prefix padding"), "period"] == "flat"
    assert text.loc[("W8/S8 · 1 KV", "prefix padding"), "val. loss, prose"] == "–"
    assert text.loc[("Full attention · 1 KV", "prefix padding"), "val. loss, prose"] == "3.500"


def test_a_gap_within_the_noise_is_called_so_and_has_no_interval(table):
    text = selected_runs.readable(table).set_index(["run", "padding"])
    assert text.loc[("Full attention · 1 KV", "prefix padding"), "gap"].endswith(" (noise)")
    row = table.query("model == 'w8s8-1kv' and padding == 'prefix'").iloc[0]
    expected = f"{row['gap']:.1f} [{row['gap_low']:.1f}, {row['gap_high']:.1f}]"
    assert text.loc[("W8/S8 · 1 KV", "prefix padding"), "gap"] == expected


def test_saved_tables_hold_the_same_runs(tmp_path, table):
    chosen = selected_runs.selected(table)
    selected_runs.save(chosen, tmp_path / "deeper" / "runs.csv", tmp_path / "deeper" / "runs.md")
    read = pd.read_csv(tmp_path / "deeper" / "runs.csv")
    assert read["gap"].tolist() == pytest.approx(chosen["gap"].tolist())
    lines = (tmp_path / "deeper" / "runs.md").read_text().splitlines()
    assert len(lines) == 2 + len(chosen)
    assert len({line.count("|") for line in lines}) == 1


def test_the_table_names_a_run_that_has_not_learnt():
    results = planted()
    results.not_learnt = {"w8s8-1kv": Validation(2.41, 2.2)}
    runs = selected_runs.readable(selected_runs.measure(results))["run"]
    assert runs[runs.str.contains("not learnt")].unique().tolist() == ["W8/S8 · 1 KV · not learnt"]
