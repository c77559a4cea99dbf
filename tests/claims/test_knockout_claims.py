"""Claims about knockouts fail where a planted loss is not what they say."""

from __future__ import annotations

import numpy as np
import pytest
from mechanism_claims import (
    KNOCKOUTS,
    LAYERS,
    knock,
    status_of,
    value_of,
    verdict,
)
from planted_mechanism import ROWS, knocked, planted_mechanism

from weakspots.analysis import paper_numbers
from weakspots.model_table import WHOLE_LAYER, model_row


def test_one_uneven_knockout_of_full_attention_breaks_it(results):
    knock(results, "full-1kv", (2, 0), [60.0] * 4 + [20.0] * 4)
    whole = verdict(KNOCKOUTS[0], results)
    assert whole.status == "fails" and whole.value.endswith("not: full-1kv (prefix), full-1kv (in_sequence)")
    part = whole.parts[0]
    assert "uneven: layer 2 (" in part.value and part.low > 20 and part.low < part.high
    assert status_of(whole)["full-8kv"] == "holds"


def test_a_small_loss_at_half_of_the_phases_is_not_alike(results):
    knock(results, "full-1kv", (2, 0), [2.0] * 4 + [19.0] * 4)  # within 20 points, and further apart than the mean
    assert verdict(KNOCKOUTS[0], results).status == "fails"


def test_uneven_whole_layers_count_in_full_attention(results):
    for padding in ("prefix", "in_sequence"):
        clean = results.outcomes["full-8kv", padding]
        results.knockouts["full-8kv", padding][3, WHOLE_LAYER] = knocked(clean, [95.0] * 6 + [10.0, 10], seed=1)
    whole = verdict(KNOCKOUTS[0], results)
    assert whole.status == "fails" and "uneven: layer 3 (" in value_of(whole, "full-8kv")


@pytest.mark.parametrize("percent", [[0, 9, 0, 30, 0, 9, 0, 9], [25, 25, 25, 25, 30, 30, 30, 30]])
def test_cheap_or_nearly_even_knockouts_do_not_break_it(results, percent):
    knock(results, "full-1kv", (2, 0), percent)
    assert verdict(KNOCKOUTS[0], results).status == "holds"


def test_a_wide_spread_within_the_noise_does_not_break_it():
    results = planted_mechanism({"full-1kv": ROWS["full-1kv"]}, 3, losses={"full-1kv": {(2, 0): [50.0]}})
    results.outcomes = {run: clean[:8] for run, clean in results.outcomes.items()}
    results.knockouts = {run: {at: of[:8] for at, of in heads.items()} for run, heads in results.knockouts.items()}
    whole = verdict(KNOCKOUTS[0], results)
    assert whole.status == "holds" and whole.n == 8
    assert float(whole.parts[0].value.split("spread ")[1].split(",")[0]) > 20


def test_without_a_costly_knockout_full_attention_shows_nothing(results):
    for run in [run for run in results.knockouts if run[0].startswith("full")]:
        results.knockouts[run] = dict.fromkeys(results.knockouts[run], results.outcomes[run])
    whole = verdict(KNOCKOUTS[0], results)
    assert whole.status == "fails" and set(status_of(whole).values()) == {"flat"}


@pytest.mark.parametrize(("heads", "status"), [(2, "fails"), (3, "holds")])
def test_three_heads_must_lose_few_phases(heads, status):
    losses = {(layer, 0): [40.0] * 8 for layer in range(4)}
    losses |= {(layer, 0): [0.0, 0, 80, 60, 0, 0, 0, 0] for layer in range(heads)}
    whole = verdict(KNOCKOUTS[1], planted_mechanism({"w8s8-1kv": model_row()}, 4, losses={"w8s8-1kv": losses}))
    assert whole.status == status and whole.value == f"{heads} such heads in 1 of 1 models; in w8s8-1kv {heads}"
    assert whole.parts[0].value.count("phases 2, 3: ") == heads
    assert 30 < whole.parts[0].low < whole.parts[0].high


@pytest.mark.parametrize(
    ("percent", "narrow", "local"),
    [
        ([90, 0, 0, 0, 0, 0, 0, 0], True, True),
        ([90, 0, 0, 0, 70, 0, 0, 0], False, False),  # two phases that are not adjacent
        ([90, 0, 0, 70, 0, 0, 70, 0], False, False),
        ([0, 70, 80, 70, 0, 0, 0, 0], False, True),  # three: local, but not one or two
        ([20, 0, 0, 0, 0, 0, 0, 0], False, False),
        ([60, 60, 20, 20, 20, 20, 20, 20], False, False),
    ],
)
def test_one_head_of_several_decides(percent, narrow, local):
    rows = {"w8s8-4kv": ROWS["w8s8-4kv"], "w8s8-1kv": model_row()}
    losses = {(layer, head): [0.0] * 8 for layer in range(2) for head in range(4)}
    results = planted_mechanism(rows, 2, losses={"w8s8-4kv": losses | {(1, 2): percent}})
    whole = verdict(KNOCKOUTS[2], results)
    assert whole.status == ("holds" if narrow else "fails")
    assert list(status_of(whole)) == ["w8s8-4kv"], "a model with one KV head says nothing about single heads"
    assert status_of(verdict(KNOCKOUTS[1], results))["w8s8-4kv"] == ("holds" if local else "fails")


def test_layers_of_several_heads_do_not_count_as_heads():
    row = {"w8s8-4kv": ROWS["w8s8-4kv"]}
    losses = {(layer, head): [0.0] * 8 for layer in range(3) for head in range(4)}
    results = planted_mechanism(row, 3, losses={"w8s8-4kv": losses})
    clean = results.outcomes["w8s8-4kv", "prefix"]
    for layer in range(3):
        results.knockouts["w8s8-4kv", "prefix"][layer, WHOLE_LAYER] = knocked(clean, [90.0] + [0.0] * 7, seed=layer)
    assert verdict(KNOCKOUTS[1], results).status == verdict(KNOCKOUTS[2], results).status == "fails"


def test_strides_with_too_few_phases_to_compare_are_flat():
    whole = verdict(KNOCKOUTS[1], planted_mechanism({"w8s4-1kv": ROWS["w8s4-1kv"], "w8s8-1kv": model_row()}, LAYERS))
    assert whole.status == "holds" and status_of(whole) == {"w8s4-1kv": "flat", "w8s8-1kv": "holds"}


def test_the_papers_knockouts_make_their_claim_hold():
    """Layers 9, 10, 11 and 14 of W8/S8 with one KV head, as published."""
    percent = paper_numbers.by_model("knockout_percent_by_phase")["w8s8-1kv"]
    losses = {(layer, 0): -np.array(percent[str(layer)]) for layer in (9, 10, 11, 14)}
    clean = paper_numbers.profile("w8s8-1kv", "prefix").reshape(-1, 8).mean(axis=0)
    rows = {"w8s8-1kv": model_row()}
    whole = verdict(KNOCKOUTS[1], planted_mechanism(rows, LAYERS, {"w8s8-1kv": clean}, {"w8s8-1kv": losses}))
    assert whole.status == "holds"
    for layer, phases in {9: "5, 6", 10: "3, 4"}.items():
        assert f"layer {layer} at phases {phases}: " in whole.parts[0].value
    assert "layer 14 at phases 1, 2" in whole.parts[0].value
