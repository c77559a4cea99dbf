"""The needle table: published and measured, by residue, folded, and what was not run."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from planted_deepseek import ROWS, STAND_INS, THEIRS, planted_deepseek

from weakspots.figures import needle_table


@pytest.fixture(scope="module")
def table():
    return needle_table.measure(planted_deepseek(run=("flash-base", *STAND_INS)))


def of(table: pd.DataFrame, model: str, source: str) -> pd.Series:
    (found,) = [row for _, row in table.iterrows() if (row["model"], row["source"]) == (model, source)]
    return found


def test_published_rows_give_the_papers_own_summary(table):
    """Mean |A(r) - A(r+4)| is 1.1 to 2.0 points and gaps are 15 to 40 for the four models with S = 4."""
    rows = [of(table, model, "paper") for model in ("flash-base", "flash-0731", "pro-base", "pro-0813")]
    assert sorted(round(row["apart"], 1) for row in rows) == [1.1, 1.1, 1.6, 2.0]
    assert round(min(row["gap"] for row in rows)) == 15 and round(max(row["gap"] for row in rows)) == 40


def test_a_period_is_folded_to_the_models_own_stride(table):
    two = of(table, "v4.1-flash", "paper")
    correct = np.array([2432, 2284, 2435, 2296, 2424, 2312, 2440, 2297])
    np.testing.assert_allclose([two["fold_0"], two["fold_1"]], 100 * correct.reshape(4, 2).mean(axis=0) / 2560)
    assert pd.isna(two["fold_2"])
    stand_in = of(table, "stand-in", "here")
    assert stand_in["apart"] == 0 and stand_in["fold_2"] == stand_in["accuracy_6"]
    assert of(table, "stand-in-flat", "here")[["apart", "fold_0", "stride"]].isna().all()


def test_every_model_has_a_row_here_and_what_was_not_run_has_no_number(table):
    assert table[table["source"] == "here"]["model"].tolist() == list(ROWS)
    missing = of(table, "pro-base", "here")
    assert missing[["n", "mean", "gap", "accuracy_0", "low_0"]].isna().all()
    text = needle_table.readable(table)
    not_run = text[text["from"] == "not run"]
    assert not_run["model"].tolist() == [THEIRS[model].label for model in THEIRS if model != "flash-base"]
    assert (not_run.drop(columns=["model", "S", "from"]) == "–").all().all()


def test_a_stand_in_is_called_one_for_a_reader(table):
    text = needle_table.readable(table[table["stand_in"].astype(bool)])
    assert text["model"].str.startswith("stand-in ").all() and len(text) == 2
    assert not text["model"].str.contains("DeepSeek").any()


def test_saved_tables_hold_the_same_rows(tmp_path, table):
    needle_table.save(table, tmp_path / "deeper" / "needle.csv", tmp_path / "deeper" / "needle.md")
    read = pd.read_csv(tmp_path / "deeper" / "needle.csv")
    assert read["gap"].dropna().tolist() == pytest.approx(table["gap"].dropna().tolist())
    lines = (tmp_path / "deeper" / "needle.md").read_text().splitlines()
    assert len(lines) == 2 + len(table) and "| mean \\|A(r) − A(r+S)\\| |" in lines[0]
    assert lines[2].startswith("| DeepSeek-V4-Flash-Base | 4 | paper | 256 | 43.8 | 69.5 |")
