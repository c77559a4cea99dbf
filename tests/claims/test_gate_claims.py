"""Claims about gates fail where planted gates are not what they say."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from mechanism_claims import (
    CLAIMS,
    LAYERS,
    roll_gates,
    set_gates,
    status_of,
    value_of,
    verdict,
)
from planted_mechanism import ROWS, planted_mechanism

from weakspots.analysis.results import Results
from weakspots.config import Statistics
from weakspots.model_table import ModelRow, model_row


def test_gates_must_be_static_somewhere(results):
    for model in results.gates:
        set_gates(results, model, static=results.models[model].window, per_window=1.5)
    whole = verdict("some-gates-static-most-input-dependent", results)
    assert whole.status == "fails" and whole.value.endswith("static in none")


def test_most_gates_must_depend_on_the_input(results):
    for model in results.gates:
        set_gates(results, model, static=2.0, per_window=1.9)
    whole = verdict("some-gates-static-most-input-dependent", results)
    assert whole.status == "fails" and "0 input-dependent" in whole.value


@pytest.mark.parametrize(
    ("static", "per_window", "holds"),
    [(3.335, 3.107, True), (3.795, 3.119, True), (4.1, 4.0, False), (3.9, 2.0, False), (8.0, 8.0, False)],
)
def test_a_static_gate_is_left_and_on_the_diagonal(static, per_window, holds):
    results = planted_mechanism({"w8s8-1kv": model_row()}, 3)
    table = results.gates["w8s8-1kv"]
    set_gates(results, "w8s8-1kv", static=8.0, per_window=3.0)
    table = results.gates["w8s8-1kv"]
    table.loc[(table["layer"] == 1) & (table["step"] == table["step"].max()), ["static", "per_window"]] = (
        static,
        per_window,
    )
    whole = verdict("some-gates-static-most-input-dependent", results)
    assert whole.status == ("holds" if holds else "fails")
    assert ("1 of 3 static: layer 1 (" in whole.parts[0].value) == holds


@pytest.mark.parametrize(("share", "static"), [(1.01, True), (0.99, False)])
def test_a_static_gate_scores_alike_to_the_share_in_the_text(share, static):
    least = float(
        re.search(r"per window at least (\S+) of that", CLAIMS["some-gates-static-most-input-dependent"].text)[1]
    )
    results = planted_mechanism({"w8s8-1kv": model_row()}, 3)
    set_gates(results, "w8s8-1kv", static=3.0, per_window=3.0 * least * share)
    whole = verdict("some-gates-static-most-input-dependent", results)
    assert (whole.value.startswith("3 static, ")) == static


def test_only_the_end_of_training_and_learned_scalar_gates_count():
    rows = {name: ROWS[name] for name in ("w8s8-1kv", "w8s8-1kv-vector", "w8s8-1kv-uniform", "w8s8-1kv-tied")}
    results = planted_mechanism(rows, LAYERS)
    for table in results.gates.values():
        table.loc[table["step"] < table["step"].max(), ["static", "per_window"]] = 1.0
    whole = verdict("some-gates-static-most-input-dependent", results)
    assert list(status_of(whole)) == ["w8s8-1kv", "w8s8-1kv-tied"]
    assert f" of {2 * LAYERS} key gates;" in whole.value
    assert list(status_of(verdict("value-gates-peak-one-offset-later", results))) == ["w8s8-1kv"]


@pytest.mark.parametrize(("by", "status"), [(0, "holds"), (-1, "fails"), (1, "fails"), (-2, "fails")])
def test_value_gates_must_peak_exactly_one_later(results, by, status):
    roll_gates(results, "value", by)
    whole = verdict("value-gates-peak-one-offset-later", results)
    assert whole.status == status
    assert status_of(whole)["w8s8-4kv"] == status and "layer 9 head 0 " in value_of(whole, "w8s8-4kv")
    assert "w8s8-1kv-tied" not in status_of(whole), "a tied model has no value gate"


def peaks(row: ModelRow, key: int, value: int) -> Results:
    """A model of one head whose key and value gate each take one offset."""
    offsets = np.arange(row.window)
    tables = [
        pd.DataFrame(
            {"step": 1, "layer": 0, "head": 0, "branch": branch, "offset": offsets, "score": 1.0 * (offsets == at),
             "static": 1.0, "per_window": 1.0}
        )
        for branch, at in (("key", key), ("value", value))
    ]  # fmt: skip
    return Results("one", {"m": row}, Statistics(), {}, gates={"m": pd.concat(tables, ignore_index=True)})


@pytest.mark.parametrize(
    ("row", "key", "value", "status"),
    [
        (model_row(), 3, 4, "holds"),
        (model_row(), 7, 0, "fails"),  # the next window's first offset is no successor
        (model_row(stride=4), 3, 4, "holds"),
        (model_row(stride=4), 5, 2, "holds"),  # offset 5 stands at the phase of offset 1
        (model_row(stride=4), 3, 3, "fails"),
    ],
)
def test_one_later_within_the_window(row, key, value, status):
    whole = verdict("value-gates-peak-one-offset-later", peaks(row, key, value))
    assert whole.status == status
    listed = f"key and value peak at layer 0 {key % row.stride} and {value % row.stride}"
    assert whole.parts[0].value == f"{int(status == 'holds')} of 1; {listed}"


def test_without_specialised_heads_there_is_no_peak_to_compare():
    results = planted_mechanism({"w8s8-1kv": model_row()}, 2)
    set_gates(results, "w8s8-1kv", score=1 / 8)
    whole = verdict("value-gates-peak-one-offset-later", results)
    assert whole.status == "fails" and status_of(whole) == {"w8s8-1kv": "flat"}
    whole = verdict("gates-line-up-with-losses", results)
    assert whole.status == "fails" and status_of(whole) == {"w8s8-1kv": "flat"} and whole.low is None


@pytest.mark.parametrize("branch", ["key", "value"])
def test_gates_away_from_the_losses_do_not_line_up(results, branch):
    assert verdict("gates-line-up-with-losses", results).low > 0
    roll_gates(results, branch, 4)
    whole = verdict("gates-line-up-with-losses", results)
    assert whole.status == "fails" and f"{branch} gates -" in whole.value
    assert status_of(whole)["w8s8-4kv"] == "fails"


def test_two_heads_are_too_few_for_an_interval():
    row = {"w8s8-4kv": ROWS["w8s8-4kv"]}
    heads = {(layer, head): [0.0] * 8 for layer in range(2) for head in range(4)}
    results = planted_mechanism(row, 2)
    assert verdict("gates-line-up-with-losses", results).status == "holds"
    few = planted_mechanism(row, 2, losses={"w8s8-4kv": {at: of for at, of in heads.items() if at[1] > 1}})
    whole = verdict("gates-line-up-with-losses", few)
    assert whole.status == "fails" and "2 heads" in whole.value
