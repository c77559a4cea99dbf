"""Claims about knockouts, gates and cycling hold where they are planted, and fail where something else is."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from planted import answers
from planted_mechanism import ROWS, knocked, planted_mechanism

from weakspots import config, published
from weakspots.claims import Verdict, mechanism, to_frame, to_markdown
from weakspots.config import Statistics
from weakspots.models import WHOLE_LAYER, ModelRow
from weakspots.results import Results

CLAIMS = {claim.id: claim for claim in mechanism.CLAIMS}
SMALL = {name: ROWS[name] for name in ("full-1kv", "full-8kv", "w8s8-1kv", "w8s8-4kv", "w12s12-1kv", "w8s8-1kv-tied")}
LAYERS = 16
KNOCKOUTS = list(CLAIMS)[:3]
CYCLES = list(CLAIMS)[6:]
SHIFTS = (-3, -2, -1, 1, 2, 3)


@pytest.fixture(scope="module")
def planting() -> Results:
    return planted_mechanism(SMALL, LAYERS)


@pytest.fixture
def results(planting) -> Results:
    """A copy of the planting that a test may change."""
    knockouts = {run: dict(heads) for run, heads in planting.knockouts.items()}
    own = {"outcomes": dict(planting.outcomes), "knockouts": knockouts, "gates": dict(planting.gates)}
    return replace(planting, **own, cycles=dict(planting.cycles), _measured={})


def verdict(claim: str, results: Results) -> Verdict:
    return CLAIMS[claim].measure(results)


def status_of(whole: Verdict) -> dict[str, str]:
    return {part.model: part.status for part in whole.parts}


def value_of(whole: Verdict, model: str) -> str:
    return next(part.value for part in whole.parts if part.model == model)


def knock(results: Results, model: str, at: tuple[int, int], percent: list[float]) -> None:
    """Plant what a model loses by phase with one head, and with its layer where that is the only head."""
    for padding in ("prefix", "in_sequence"):
        outcomes = knocked(results.outcomes[model, padding], percent, seed=5)
        results.knockouts[model, padding][at] = outcomes
        if results.models[model].kv_heads == 1:
            results.knockouts[model, padding][at[0], WHOLE_LAYER] = outcomes


def set_gates(results: Results, model: str, **columns: float) -> None:
    """Plant columns of a model's gate statistics at the last step."""
    table = results.gates[model] = results.gates[model].copy()
    table.loc[table["step"] == table["step"].max(), list(columns)] = list(columns.values())


def roll_gates(results: Results, branch: str, by: int) -> None:
    """Move the scores of one branch by some offsets in every window."""
    for model, table in results.gates.items():
        window = results.models[model].window
        scores = table["score"].to_numpy().reshape(-1, window)
        moved = np.where((table["branch"] == branch).to_numpy()[::window, None], np.roll(scores, by, axis=1), scores)
        results.gates[model] = table.assign(score=moved.ravel())


# All of them


def test_every_claim_holds_where_it_is_planted():
    results = planted_mechanism(layers=LAYERS)
    judged = {name: verdict(name, results) for name in CLAIMS}
    assert {name: whole.status for name, whole in judged.items()} == dict.fromkeys(CLAIMS, "holds")
    for whole in judged.values():
        assert whole.seeds.startswith("42") and whole.parts
        for part in whole.parts:
            assert part.value and part.seeds and (part.n is None) == (part.padding is None)


def test_what_has_not_been_run_is_not_judged_and_says_what_to_run(results):
    results.knockouts, results.cycles, results.gates = {}, {}, {}
    for name in CLAIMS:
        whole = verdict(name, results)
        assert whole.status == "not run" and "run `snakemake" in whole.value
        assert set(status_of(whole).values()) <= {"not run"}


@pytest.mark.parametrize("name", KNOCKOUTS + ["some-gates-static-most-input-dependent", "gates-line-up-with-losses"])
def test_a_run_that_is_missing_is_a_part_that_was_not_run(results, name):
    missing = "full-1kv" if name == KNOCKOUTS[0] else "w8s8-4kv"
    results.knockouts = {run: heads for run, heads in results.knockouts.items() if run[0] != missing}
    results.gates.pop(missing, None)
    whole = verdict(name, results)
    assert status_of(whole)[missing] == "not run"
    assert whole.status == ("not run" if name == KNOCKOUTS[2] else "holds")


def test_thresholds_stand_in_the_texts():
    for claim, words in {
        KNOCKOUTS[0]: ["10 %", "20 points", "mod 8"],
        KNOCKOUTS[1]: ["three KV heads", "at most 3 adjacent", "30 %", "1/4", "more than half of it"],
        KNOCKOUTS[2]: ["one or two adjacent"],
        "some-gates-static-most-input-dependent": ["W/2", "0.8", "most gates"],
        "value-gates-peak-one-offset-later": ["S/2", "most"],
        "gates-line-up-with-losses": ["S/2", "30 %", "3 such heads"],
        CYCLES[0]: ["0.66", "median"],
        CYCLES[1]: ["10 points", "most cycles"],
        CYCLES[2]: ["most cycles", "3 to 18 points"],
    }.items():
        for word in words:
            assert word in CLAIMS[claim].text, (claim, word)
    assert round(min(map(min, published_cycling("r2_excluding_boundary").values())), 2) == 0.66
    changes = np.concatenate(list(published_cycling("mean_accuracy_change_pp").values()))
    assert round(-changes.max()) == 3 and round(-changes.min()) == 18


def published_cycling(figure: str) -> dict[str, list[float]]:
    return {name: values for name, values in published.figures()[f"gate_cycling_{figure}"].items() if name != "shifts"}


def test_the_page_names_heads_phases_and_shifts(results):
    page = to_markdown(to_frame([(claim, claim.measure(results)) for claim in mechanism.CLAIMS]))
    for claim in mechanism.CLAIMS:
        assert claim.text in page and f"## {claim.id}" in page
    assert "layer 9 at phases 4, 5, 6: " in page and "layer 10 head 3 at phase" in page
    assert "-3: " in page and "| w8s8-1kv | – |" in page and "nan" not in page


def test_all_models_are_judged_in_seconds():
    results = planted_mechanism(config.load("config.yaml").models, layers=8)
    results.statistics = Statistics(bootstrap=2_000)
    assert sum(len(heads) for (_, padding), heads in results.knockouts.items() if padding == "prefix") > 400
    start = time.process_time()
    for claim in mechanism.CLAIMS:
        claim.measure(results)
    assert time.process_time() - start < 25


# Knockouts


def test_one_uneven_knockout_of_full_attention_breaks_it(results):
    knock(results, "full-1kv", (2, 0), [60.0] * 4 + [20.0] * 4)
    whole = verdict(KNOCKOUTS[0], results)
    assert whole.status == "fails" and whole.value.endswith("not: full-1kv (prefix), full-1kv (in_sequence)")
    part = whole.parts[0]
    assert "uneven: layer 2 (" in part.value and part.low > 20 and part.low < part.high
    assert status_of(whole)["full-8kv"] == "holds"


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
    whole = verdict(KNOCKOUTS[1], planted_mechanism({"w8s8-1kv": ModelRow()}, 4, losses={"w8s8-1kv": losses}))
    assert whole.status == status and whole.value == f"{heads} such heads in 1 of 1 models: w8s8-1kv {heads}"
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
    rows = {"w8s8-4kv": ROWS["w8s8-4kv"], "w8s8-1kv": ModelRow()}
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
    whole = verdict(KNOCKOUTS[1], planted_mechanism({"w8s4-1kv": ROWS["w8s4-1kv"], "w8s8-1kv": ModelRow()}, LAYERS))
    assert whole.status == "holds" and status_of(whole) == {"w8s4-1kv": "flat", "w8s8-1kv": "holds"}


def test_the_papers_knockouts_make_their_claim_hold():
    """Layers 9, 10, 11 and 14 of W8/S8 with one KV head, as published."""
    percent = published.figures()["w8s8-1kv_knockout_percent_by_phase"]
    losses = {(layer, 0): -np.array(percent[str(layer)]) for layer in (9, 10, 11, 14)}
    clean = published.profile("w8s8-1kv", "prefix").reshape(-1, 8).mean(axis=0)
    rows = {"w8s8-1kv": ModelRow()}
    whole = verdict(KNOCKOUTS[1], planted_mechanism(rows, LAYERS, {"w8s8-1kv": clean}, {"w8s8-1kv": losses}))
    assert whole.status == "holds"
    for layer, phases in {9: "5, 6", 10: "3, 4"}.items():
        assert f"layer {layer} at phases {phases}: " in whole.parts[0].value
    assert "layer 14 at phases 1, 2" in whole.parts[0].value


# Gates


def test_gates_must_be_static_somewhere(results):
    for model in results.gates:
        set_gates(results, model, static=results.models[model].window, per_window=1.5)
    whole = verdict("some-gates-static-most-input-dependent", results)
    assert whole.status == "fails" and whole.value.endswith("static: none")


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
    results = planted_mechanism({"w8s8-1kv": ModelRow()}, 3)
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


def test_only_the_end_of_training_and_learned_scalar_gates_count():
    rows = {name: ROWS[name] for name in ("w8s8-1kv", "w8s8-1kv-vector", "w8s8-1kv-uniform", "w8s8-1kv-tied")}
    results = planted_mechanism(rows, LAYERS)
    for table in results.gates.values():
        table.loc[table["step"] < table["step"].max(), ["static", "per_window"]] = 1.0
    whole = verdict("some-gates-static-most-input-dependent", results)
    assert list(status_of(whole)) == ["w8s8-1kv", "w8s8-1kv-tied"]
    assert whole.value.startswith(f"of {2 * LAYERS} key gates ")
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
        (ModelRow(), 3, 4, "holds"),
        (ModelRow(), 7, 0, "fails"),  # the next window's first offset is no successor
        (ModelRow(stride=4), 3, 4, "holds"),
        (ModelRow(stride=4), 5, 2, "holds"),  # offset 5 stands at the phase of offset 1
        (ModelRow(stride=4), 3, 3, "fails"),
    ],
)
def test_one_later_within_the_window(row, key, value, status):
    whole = verdict("value-gates-peak-one-offset-later", peaks(row, key, value))
    assert whole.status == status
    listed = f"key and value peak at layer 0 {key % row.stride} and {value % row.stride}"
    assert whole.parts[0].value == f"{int(status == 'holds')} of 1; {listed}"


def test_without_specialised_heads_there_is_no_peak_to_compare():
    results = planted_mechanism({"w8s8-1kv": ModelRow()}, 2)
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


# Cycling


def cycled(results: Results, accuracy) -> None:
    """Plant cycled answers: `accuracy` gives the percent by phase for the clean profile by phase and a shift."""
    for model in results.cycles:
        stride = results.models[model].stride
        clean = 100 * results.outcomes[model, "prefix"].mean(axis=0).reshape(-1, stride).mean(axis=0)
        results.cycles[model] = {shift: answers(accuracy(clean, shift), 24, 192, seed=shift + 9) for shift in SHIFTS}


def follow(clean: np.ndarray, shift: int) -> np.ndarray:
    return np.roll(clean, shift)


def stay(clean: np.ndarray, shift: int) -> np.ndarray:
    return clean


def level(clean: np.ndarray, shift: int) -> np.ndarray:
    return np.full_like(clean, clean.mean())


def against(clean: np.ndarray, shift: int) -> np.ndarray:
    return (2 * clean - np.roll(clean, shift)).clip(0, 100)


def better(clean: np.ndarray, shift: int) -> np.ndarray:
    return (1.1 * np.roll(clean, shift) + 3).clip(0, 100)


@pytest.mark.parametrize(
    ("accuracy", "statuses"),
    [
        (follow, {CYCLES[0]: "holds", CYCLES[1]: "fails"}),  # the boundary moves too
        (stay, {CYCLES[0]: "fails", CYCLES[1]: "holds"}),
        (level, {CYCLES[0]: "fails"}),
        (against, {CYCLES[0]: "fails", CYCLES[1]: "holds"}),
        (better, {CYCLES[0]: "holds", CYCLES[2]: "fails"}),
        (lambda clean, shift: clean / 2, {CYCLES[1]: "holds", CYCLES[2]: "holds"}),
    ],
)
def test_what_cycles_do_decides_about_each_claim(results, accuracy, statuses):
    cycled(results, accuracy)
    assert {name: verdict(name, results).status for name in statuses} == statuses


def test_cycles_are_compared_with_the_same_mappings(results):
    for name in CYCLES:
        whole = verdict(name, results)
        assert whole.n == 192 and {part.n for part in whole.parts} == {192}
        assert {part.padding for part in whole.parts} == {"prefix"}
    # identical answers: nothing changes, and nothing falls
    results.cycles = {model: dict.fromkeys(SHIFTS, results.outcomes[model, "prefix"][:192]) for model in results.cycles}
    assert "from +0.0 to +0.0" in verdict(CYCLES[2], results).value
    assert verdict(CYCLES[2], results).status == verdict(CYCLES[0], results).status == "fails"


def test_a_movement_against_the_prediction_counts_as_none(results):
    cycled(results, against)
    whole = verdict(CYCLES[0], results)
    assert "from 0.00 to" in whole.value and "against the prediction" in whole.parts[0].value


def test_a_boundary_like_its_neighbours_shows_nothing():
    even = {"w8s8-1kv": [60.0, 58, 60, 58, 60, 58, 60, 58]}
    whole = verdict(CYCLES[1], planted_mechanism({"w8s8-1kv": ModelRow()}, 2, changes=even))
    assert whole.status == "fails" and status_of(whole) == {"w8s8-1kv": "flat"}
    assert "no prediction lies 10 points from the uncycled" in whole.parts[0].value


def test_the_fall_has_an_interval_over_mappings(results):
    for part in verdict(CYCLES[2], results).parts:
        mean = float(part.value.split("mean ")[1].split(";")[0])
        assert part.low < mean < part.high < 0


def test_a_cycled_model_without_its_lookup_is_not_run(results):
    del results.outcomes["w8s8-1kv", "prefix"]
    for name in CYCLES:
        assert status_of(verdict(name, results)) == {"w8s8-1kv": "not run", "w12s12-1kv": "holds"}
