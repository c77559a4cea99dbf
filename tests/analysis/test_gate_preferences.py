"""Gate preferences by phase: closed forms, pooled by hand where windows overlap, values laid over their keys."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from rows import OVERLAPPING_TAIL, TABLE, build

from weakspots.analysis import gate_preferences
from weakspots.errors import UserError
from weakspots.mechanism.gate_statistics import gate_statistics
from weakspots.model_table import model_row

DEEPSEEK = TABLE["w8s4-1kv-deepseek"]


def table(scores: dict[tuple[int, int, str], list[float]], step: int = 0) -> pd.DataFrame:
    """A table "gates" of one step with these scores by layer, head and branch."""
    rows = [
        {"step": step, "layer": layer, "head": head, "branch": branch, "offset": offset, "score": np.float32(score)}
        for (layer, head, branch), profile in scores.items()
        for offset, score in enumerate(profile)
    ]
    return pd.DataFrame(rows).assign(static=1.0, per_window=1.0)


def preference(scores, row, branch="key", layer=0) -> list[float]:
    return gate_preferences.by_phase(table({(layer, 0, branch): scores}), row)["preference"].tolist()


def one_hot(offset: int, width: int = 8) -> list[float]:
    return np.eye(width)[offset].tolist()


@pytest.mark.parametrize(
    "row", [row for row in TABLE.values() if row.compressed] + [OVERLAPPING_TAIL], ids=lambda row: row.label()
)
@pytest.mark.parametrize("branch", ["key", "value"])
def test_a_uniform_gate_prefers_no_phase(row, branch):
    found = gate_preferences.by_phase(table({(0, 0, branch): [1 / row.window] * row.window}), row)
    assert found["phase"].tolist() == list(range(row.stride))
    np.testing.assert_allclose(found["preference"], 1)
    if row.window % row.stride == 0:
        np.testing.assert_allclose(found["static"], row.stride)


def test_where_the_stride_does_not_divide_the_window_uniform_means_two_shares_at_some_phases():
    found = gate_preferences.by_phase(table({(0, 0, "key"): [1 / 8] * 8}), model_row(stride=6))
    np.testing.assert_allclose(found["static"], 2**2.5)  # shares 1/4, 1/4, and 1/8 four times: 5/2 bits
    assert preference(one_hot(7), model_row(stride=6)) == [0, 4, 0, 0, 0, 0]


@pytest.mark.parametrize("offset", range(8))
def test_one_fixed_offset_is_one_effective_phase(offset):
    found = gate_preferences.by_phase(table({(0, 0, "key"): one_hot(offset)}), model_row())
    np.testing.assert_allclose(found["static"], 1)
    assert found["preference"].tolist() == (8 * np.eye(8)[offset]).tolist()


def test_overlapping_windows_pool_the_two_offsets_of_a_phase():
    scores = [0.05, 0.1, 0.0, 0.2, 0.15, 0.3, 0.1, 0.1]
    pooled = np.array([0.05 + 0.15, 0.1 + 0.3, 0.0 + 0.1, 0.2 + 0.1])
    found = gate_preferences.by_phase(table({(0, 0, "key"): scores}), model_row(stride=4))
    np.testing.assert_allclose(found["preference"], 4 * pooled, rtol=1e-6)
    np.testing.assert_allclose(found["static"], np.exp(-(pooled * np.log(pooled)).sum()), rtol=1e-6)


def test_the_two_halves_of_a_deepseek_window_pool_at_one_phase():
    # Window j reads tokens 4j - 4 .. 4j + 3: its offsets 1 and 5 are the tokens 4j - 3 and 4j + 1.
    assert preference(one_hot(5), DEEPSEEK) == preference(one_hot(1), DEEPSEEK) == [0, 4, 0, 0]
    assert preference(one_hot(5), DEEPSEEK, "value") == [4, 0, 0, 0]


def test_a_window_that_begins_before_the_text_is_counted_from_the_text_in_every_layer():
    class Staggered(type(model_row())):
        """Windows of layer l begin 3 l tokens before the text."""

        def geometry(self, layer):
            return replace(super().geometry(layer), lead=3 * layer)

    row = Staggered()
    assert preference(one_hot(5), row, layer=0) == [0, 0, 0, 0, 0, 8, 0, 0]
    assert preference(one_hot(5), row, layer=1) == [0, 0, 8, 0, 0, 0, 0, 0]
    assert preference(one_hot(1), row, layer=1) == [0, 0, 0, 0, 0, 0, 8, 0]


def test_the_offsets_of_a_window_that_begins_before_the_text_are_counted_from_the_text():
    # Window j of the DeepSeek-style rows reads the W tokens from j * S - (W - S) on. In the table W = 2 S, where that
    # shifts nothing: offset 5 of tokens 4j - 4 .. 4j + 3 is token 4j + 1. With S = 6 it is token 6j + 3 of 6j - 2 ...,
    # and offset 1 is token 6j - 1, whose phase the last offset meets as well.
    assert preference(one_hot(5), DEEPSEEK) == [0, 4, 0, 0]
    assert preference(one_hot(5), DEEPSEEK.model_copy(update={"stride": 6})) == [0, 0, 0, 8, 0, 0]
    assert preference(one_hot(1), DEEPSEEK.model_copy(update={"stride": 6})) == [0, 0, 0, 0, 0, 4]


def test_the_preference_of_a_value_stands_one_phase_earlier():
    assert preference(one_hot(5), DEEPSEEK, "value") == [4, 0, 0, 0]


def test_a_value_gate_that_keeps_the_successor_peaks_with_its_key():
    found = gate_preferences.by_phase(table({(1, 0, "key"): one_hot(6), (1, 0, "value"): one_hot(7)}), model_row())
    peaks = found.sort_values("preference").groupby("branch")["phase"].last()
    assert peaks.to_dict() == {"key": 6, "value": 6}
    assert preference(one_hot(0), model_row(), "value") == (8 * np.eye(8)[7]).tolist()  # phase 0 succeeds phase S - 1
    # with two offsets at a phase, the successor's own share counts
    assert preference([0, 0, 0.4, 0, 0, 0, 0, 0.6], model_row(stride=6), "value") == pytest.approx(
        [2.4, 3.2, 0, 0, 0, 0]
    )


def test_every_gate_is_listed_once_in_order_whatever_the_order_of_the_rows():
    scores = {(layer, head, branch): np.roll([0.65, *[0.05] * 7], 3 * layer + head).tolist()
              for layer in (0, 1) for head in (0, 1) for branch in ("key", "value")}  # fmt: skip
    found = gate_preferences.by_phase(table(scores).sample(frac=1, random_state=0), model_row(kv_heads=2))
    assert list(found.columns) == gate_preferences.COLUMNS
    expected = [(*gate, phase) for gate in sorted(scores) for phase in range(8)]
    assert list(found[["layer", "head", "branch", "phase"]].itertuples(index=False, name=None)) == expected
    keys = found[found["branch"] == "key"].sort_values("preference").groupby(["layer", "head"])["phase"].last()
    assert keys.to_dict() == {(0, 0): 0, (0, 1): 1, (1, 0): 3, (1, 1): 4}


def test_the_last_step_is_what_is_meant_by_final():
    steps = pd.concat([table({(0, 0, "key"): one_hot(step)}, step) for step in (0, 7, 3)])
    assert set(gate_preferences.final(steps)["step"]) == {7} and len(gate_preferences.final(steps)) == 8
    with pytest.raises(UserError, match=r"W8/S8 · 1 KV need every offset from 0 to 7 once: take one step"):
        gate_preferences.by_phase(steps, model_row())
    with pytest.raises(UserError, match="offset from 0 to 11"):
        gate_preferences.by_phase(gate_preferences.final(steps), model_row(window=12, stride=12))
    with pytest.raises(UserError, match="Full attention · 1 KV has no gates"):
        gate_preferences.by_phase(steps, model_row(compressor="none"))
    assert gate_preferences.by_phase(gate_preferences.final(steps).iloc[:0], model_row()).empty


@pytest.mark.parametrize("name", ["w8s8-4kv", "w8s8-1kv-tied", "w8s4-1kv-deepseek", "w12s12-1kv"])
def test_the_statistics_of_a_model_can_be_read(name):
    row = TABLE[name]
    tokens = torch.randint(61, (4, 48), generator=torch.Generator().manual_seed(0))
    statistics = gate_statistics(build(row), tokens)
    found = gate_preferences.by_phase(statistics, row)
    assert len(found) == 2 * row.kv_heads * (1 if row.tied else 2) * row.stride
    assert found["static"].between(1, row.stride + 1e-9).all()
    np.testing.assert_allclose(found.groupby(["layer", "head", "branch"])["preference"].mean(), 1, rtol=1e-6)
    if row.window == row.stride:
        gate = ["layer", "head", "branch"]
        one, other = (of.groupby(gate)["static"].first() for of in (found, statistics))
        np.testing.assert_allclose(one, other, rtol=1e-5)
