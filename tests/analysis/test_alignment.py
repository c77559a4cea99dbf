"""Gates that prefer the phases at which their heads matter correlate with the losses, and random ones do not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from weakspots.analysis import alignment, paper_numbers
from weakspots.analysis.results import Results
from weakspots.config import Statistics
from weakspots.errors import UserError
from weakspots.model_table import WHOLE_LAYER, model_row

ROWS = {
    "full-1kv": model_row(compressor="none"),
    "w8s8-1kv": model_row(),
    "w8s8-4kv": model_row(kv_heads=4),
    "w8s8-1kv-tied": model_row(tied=True),
    "w12s12-1kv": model_row(window=12, stride=12),
}
LOST = np.array([[80, 60, 40, 20, 10, 5, 2, 1], [1, 2, 5, 90, 60, 30, 20, 10], [0, 1, 2, 3, 20, 40, 60, 90]], float)


def exact(percent, mappings: int = 1_000) -> np.ndarray:
    """[mappings, 24] outcomes that have exactly these accuracies by phase."""
    needed = np.tile(np.asarray(percent, float) / 100 * mappings, 24 // len(percent)).round()
    return np.arange(mappings)[:, None] < needed


def gates(preferences: dict[tuple[int, int, str], np.ndarray], step: int) -> pd.DataFrame:
    parts = [
        pd.DataFrame({"step": step, "layer": layer, "head": head, "branch": branch, "offset": range(len(score)),
                      "score": score / score.sum(), "static": 1.0, "per_window": 1.0})
        for (layer, head, branch), score in preferences.items()
    ]  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def planted(
    losses: dict[str, dict[tuple[int, int], np.ndarray]],
    preferences: dict[str, dict[tuple[int, int, str], np.ndarray]],
    clean: float | list[float] = 50.0,
    mappings: int = 1_000,
) -> Results:
    """Results in which knockouts lose these percentages by phase, and gates score like this by offset."""
    results = Results("planted", ROWS, Statistics(bootstrap=400), {})
    for model, heads in losses.items():
        period = ROWS[model].stride
        before = np.broadcast_to(clean, period)
        results.outcomes[model, "prefix"] = exact(before, mappings)
        results.knockouts[model, "prefix"] = {
            head: exact(before * (1 - lost / 100), mappings) for head, lost in heads.items()
        }
        results.knockouts[model, "prefix"] |= {(layer, WHOLE_LAYER): exact(0 * before, mappings) for layer, _ in heads}
    for model, scores in preferences.items():
        first = {gate: np.ones_like(score) for gate, score in scores.items()}
        results.gates[model] = pd.concat([gates(scores, 100), gates(first, 0)], ignore_index=True)
    return results


def test_a_planted_match_correlates_perfectly_and_its_reverse_the_other_way():
    losses = {(0, 0): LOST[0], (1, 0): LOST[1]}
    scores = {(0, 0, "key"): LOST[0] ** 2, (0, 0, "value"): np.roll(LOST[0], 1),
              (1, 0, "key"): 100 - LOST[1], (1, 0, "value"): LOST[1]}  # fmt: skip
    results = planted({"w8s8-1kv": losses}, {"w8s8-1kv": scores})
    found = alignment.by_head(results, "w8s8-1kv").set_index(["layer", "head", "branch"])
    assert found.columns.tolist() == alignment.COLUMNS[3:]
    assert found.loc[(0, 0, "key"), "correlation"] == pytest.approx(1)
    assert found.loc[(0, 0, "value"), "correlation"] == pytest.approx(1)  # its successor is kept
    assert found.loc[(1, 0, "key"), "correlation"] == pytest.approx(-1)
    assert found.loc[(1, 0, "value"), "correlation"] == pytest.approx(
        stats.spearmanr(np.roll(LOST[1], -1), LOST[1]).statistic
    )
    assert found["lost"].to_dict() == pytest.approx({gate: 80.0 if gate[0] == 0 else 90.0 for gate in found.index})
    assert (found["n_phases"] == 8).all()
    share = LOST[0] ** 2 / (LOST[0] ** 2).sum()
    assert found.loc[(0, 0, "key"), "static"] == pytest.approx(np.exp(stats.entropy(share)))


def test_the_papers_specialised_layers_line_up():
    shown = paper_numbers.models()["w8s8-1kv"]
    keys, lost = shown["key_gate_share_of_uniform"], shown["knockout_percent_by_phase"]
    values = shown["value_gate_share_rolled_back_one"]
    losses, scores = {}, {}
    for layer in ("9", "10", "14"):
        losses[int(layer), 0] = -np.array(lost[layer], float)
        scores[int(layer), 0, "key"] = np.array(keys[layer], float)
        scores[int(layer), 0, "value"] = np.roll(np.array(values[layer], float), 1)
    results = planted({"w8s8-1kv": losses}, {"w8s8-1kv": scores}, mappings=10_000)
    found = alignment.by_head(results, "w8s8-1kv")
    for row in found.itertuples():
        published_score = (keys if row.branch == "key" else values)[str(row.layer)]
        expected = stats.spearmanr(published_score, losses[row.layer, 0]).statistic
        assert row.correlation == pytest.approx(expected) and row.correlation > 0.3
    statics = found[found["branch"] == "key"].set_index("layer")["static"]
    for layer, (static, _) in shown["effective_offsets_static_and_per_window"].items():
        if int(layer) in statics.index:
            assert statics[int(layer)] == pytest.approx(static, rel=0.01)


def test_gates_that_know_nothing_of_the_losses_do_not_correlate():
    rng = np.random.default_rng(0)
    heads = [(layer, head) for layer in range(50) for head in range(4)]
    losses = {head: rng.permutation(LOST[0]) for head in heads}
    scores = {(*head, branch): rng.permutation(LOST[1] ** 2) for head in heads for branch in ("key", "value")}
    results = planted({"w8s8-4kv": losses}, {"w8s8-4kv": scores}, mappings=200)
    error = 1 / np.sqrt(7 * len(heads))  # the variance of Spearman's correlation of n values is 1 / (n - 1)
    found = alignment.by_head(results, "w8s8-4kv").groupby("branch")["correlation"].mean()
    assert found.abs().max() < 4 * error
    pooled = alignment.pooled(results)
    np.testing.assert_allclose(pooled["correlation"], found)
    np.testing.assert_allclose(pooled["high"] - pooled["low"], 2 * 1.96 * error, rtol=0.25)


def test_phases_that_are_hardly_retrieved_do_not_count():
    clean = [50.0, 50, 50, 50, 50, 50, 50, 5]
    lost = np.array([70.0, 60, 50, 40, 30, 20, 10, 100])
    scores = {(0, 0, "key"): np.array([8.0, 7, 6, 5, 4, 3, 2, 1])}
    results = planted({"w8s8-1kv-tied": {(0, 0): lost}}, {"w8s8-1kv-tied": scores}, clean)
    (row,) = alignment.by_head(results, "w8s8-1kv-tied").itertuples()
    assert (row.correlation, row.n_phases, row.branch) == (pytest.approx(1), 7, "key")
    assert row.lost == pytest.approx(70)
    nothing = planted({"w8s8-1kv-tied": {(0, 0): lost}}, {"w8s8-1kv-tied": scores}, 5.0)
    (row,) = alignment.by_head(nothing, "w8s8-1kv-tied").itertuples()
    assert np.isnan([row.correlation, row.lost]).all() and row.n_phases == 0


def test_pooled_takes_concentrated_heads_of_all_models_and_the_key_decides_for_both_branches():
    narrow, wide = np.eye(8)[0] + 0.01, np.ones(8) + 0.001 * np.arange(8)
    mine = {(0, 0): LOST[0], (0, 1): LOST[2], (1, 0): LOST[0] / 4, (1, 1): LOST[0]}
    gate = {(0, 0): narrow, (0, 1): narrow, (1, 0): narrow, (1, 1): wide}  # one loses little, one has a wide key gate
    scores = {(*head, "key"): score for head, score in gate.items()}
    scores |= {(*head, "value"): narrow[::-1] for head in gate}
    tied = {(0, 0): LOST[2]}
    results = planted(
        {"w8s8-4kv": mine, "w8s8-1kv-tied": tied},
        {"w8s8-4kv": scores, "w8s8-1kv-tied": {(0, 0, "key"): np.roll(narrow, 7)}},
    )
    chosen = alignment.concentrated(results)
    assert list(chosen.columns) == ["model", *alignment.COLUMNS]
    assert [tuple(gate) for gate in chosen[["model", "layer", "head", "branch"]].itertuples(index=False)] == [
        ("w8s8-4kv", 0, 0, "key"), ("w8s8-4kv", 0, 0, "value"), ("w8s8-4kv", 0, 1, "key"),
        ("w8s8-4kv", 0, 1, "value"), ("w8s8-1kv-tied", 0, 0, "key"),
    ]  # fmt: skip
    found = alignment.pooled(results)
    assert found["heads"].to_dict() == {"key": 3, "value": 2}
    keys = [stats.spearmanr(narrow, lost).statistic for lost in (LOST[0], LOST[2])]
    keys.append(stats.spearmanr(np.roll(narrow, 7), LOST[2]).statistic)
    assert found.loc["key", "correlation"] == pytest.approx(np.mean(keys))
    assert (found["low"] <= found["correlation"]).all() and (found["correlation"] <= found["high"]).all()
    assert found.loc["key", "low"] == pytest.approx(min(keys)) and found.loc["key", "high"] == pytest.approx(max(keys))


def test_without_concentrated_heads_there_is_no_mean():
    wide = planted({"w8s8-1kv": {(0, 0): LOST[0]}}, {"w8s8-1kv": {(0, 0, "key"): np.ones(8)}})
    for results in (wide, planted({}, {})):
        found = alignment.pooled(results)
        assert found["heads"].to_list() == [0, 0] and found[["correlation", "low", "high"]].isna().all(axis=None)
        assert list(alignment.concentrated(results).columns) == ["model", *alignment.COLUMNS]


@given(st.integers(3, 12).flatmap(lambda n: st.tuples(*[st.lists(st.integers(0, 6), min_size=n, max_size=n)] * 2)))
def test_spearman_is_scipys(pair):
    left, right = (np.array(side, dtype=float) for side in pair)
    found = alignment.spearman(np.stack([left, right]), np.stack([right, right]))
    if np.ptp(left) and np.ptp(right):
        assert found == pytest.approx([stats.spearmanr(left, right).statistic, 1])
    else:
        assert np.isnan(found[0])


def test_rounding_is_no_preference():
    uniform = 1 / 12 * (1 + 1e-15 * np.random.default_rng(0).normal(size=12))
    assert np.isnan(alignment.spearman(uniform, np.arange(12.0)))
    assert np.isnan(alignment.spearman(np.array([1.0, 2]), np.array([1.0, 2])))


def test_what_has_not_been_run_is_named():
    with pytest.raises(UserError, match=r"full-1kv \(Full attention · 1 KV\) has no gates.*choose a compressed row"):
        alignment.by_head(planted({}, {}), "full-1kv")
    results = planted({"w8s8-1kv": {(0, 0): LOST[0]}}, {})
    with pytest.raises(UserError, match="w8s8-1kv has no gate statistics or knockouts under prefix padding"):
        alignment.by_head(results, "w8s8-1kv")
