"""The tables of the theory: what they hold, that they are repeatable, and which settings are refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from planted_theory import TINY, tables
from pydantic import ValidationError

from weakspots.config.theory import Flow, Map, Minimizers, Shape, Theory, Tokens
from weakspots.files.theory_columns import THEORY_TABLES
from weakspots.theory import theorem_1, theorem_2
from weakspots.theory.cases import streams


@pytest.fixture(scope="module")
def found() -> dict[str, pd.DataFrame]:
    return tables()


def test_no_value_is_missing_that_need_not_be(found):
    for name, table in found.items():
        may_lack = {"minima": ["margin"], "heads": ["escape"]}.get(name, [])
        assert set(table) == {*THEORY_TABLES[name][0], *THEORY_TABLES[name][1]}, name
        assert len(table) and not table.drop(columns=may_lack).isna().any().any(), name


def test_every_case_is_there_once(found):
    for name, keys in {
        "landscape": ["u", "w"],
        "minima": ["positions", "heads", "vocabulary"],
        "exponent": ["positions", "heads"],
        "map": ["vocabulary", "epsilon", "context"],
        "heads": ["positions", "heads", "vocabulary", "rho", "run", "head"],
        "escape": ["positions", "heads", "vocabulary"],
        "coverage": ["positions", "heads", "vocabulary", "rho", "covered"],
        "retrieval": ["positions", "heads", "vocabulary", "rho", "run", "phase"],
        "trajectories": ["vocabulary", "rho", "run", "head", "branch", "time"],
        "tokens": ["vocabulary", "rho", "run", "head"],
    }.items():
        assert not found[name].duplicated(keys).any(), name
    assert len(found["landscape"]) == TINY.grid**2
    assert found["minima"]["vocabulary"].tolist() == [8, 1024, 4096, 16384]
    assert set(found["retrieval"]["heads"]) == {1, 2, 3} and set(found["retrieval"]["phase"]) == {0, 1, 2}
    assert len(found["heads"]) == 20 * (1 + 2 + 3) + 20 * 3 * 4


def test_a_case_has_the_same_numbers_whatever_else_is_computed(found):
    sweep = TINY.flow.model_copy(update={"positions": [5], "sweep_vocabularies": [1024], "sweep_rhos": [1e-6]})
    heads, _ = theorem_2.common_flows(TINY.model_copy(update={"flow": sweep}))
    case = "positions == 4 and heads == 3 and vocabulary == 1024 and rho == 1e-6"
    mine, theirs = heads.query(case), found["heads"].query(case)
    pd.testing.assert_frame_equal(mine.reset_index(drop=True), theirs.reset_index(drop=True))
    other, _ = theorem_2.common_flows(TINY.model_copy(update={"flow": sweep, "seed": 1}))
    assert not np.array_equal(other.query(case)["key_position"], mine["key_position"])


def test_the_map_shows_where_the_theorem_stops(found):
    share = found["map"].pivot_table(index="epsilon", columns="vocabulary", values="concentrated")
    assert share.loc[0.0, 64] == 1 and share.loc[0.0, 10] == 0 and share.loc[0.4, 64] == 0
    assert (found["map"]["geometry_error"] <= found["map"]["epsilon"] + 1e-12).all()


def test_the_landscape_is_lowest_where_key_and_value_agree(found):
    surface = found["landscape"].pivot(index="u", columns="w", values="loss")
    assert surface.loc[1, 1] == pytest.approx(surface.loc[0, 0], rel=1e-12)
    assert surface.min().min() == pytest.approx(surface.loc[1, 1], rel=1e-12)
    assert surface.loc[1, 0] == pytest.approx(surface.max().max(), rel=1e-12)


def test_the_exponent_of_a_planted_power_is_found():
    sizes = np.array([10, 100, 1_000, 10_000])
    minima = pd.DataFrame({"positions": 4, "heads": 2, "vocabulary": sizes, "margin": 3.0 * sizes**-1.5})
    fit = theorem_1.exponent(minima, fit_from=100, confidence=0.95).iloc[0]
    assert fit["exponent"] == pytest.approx(-1.5) and fit["count"] == 3
    assert theorem_1.exponent(minima, fit_from=1_000, confidence=0.95).empty, "two points make no interval"


def test_gates_of_a_small_ball_end_where_the_common_flow_says(found):
    small = found["tokens"].query("rho == 0.01")
    assert (small["key_position"] == small["predicted_position"]).all()
    assert (small[["key_weight", "value_weight"]] > 0.9).all().all()
    assert (found["tokens"]["standard_error"] > 0).all()
    assert found["tokens"].groupby("rho")["run"].nunique().to_dict() == {0.01: 2, 30.0: 1}, "judged where rho is least"


def test_draws_of_one_case_share_no_random_numbers():
    states = [tuple(stream.generate_state(4)) for stream in [*streams(7, 3), *streams(8, 3)]]
    assert len(set(states)) == 6
    assert states[:3] == [tuple(stream.generate_state(4)) for stream in streams(7, 3)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Shape(positions=4, heads=4), "heads 4 must be fewer than positions 4: set heads to at most 3"),
        (lambda: Minimizers(chunks=5), "lower chunks, or raise that"),
        (lambda: Minimizers(vocabularies=[5]), "vocabularies: 5 leaves no token outside"),
        (lambda: Map(epsilons=[-0.1]), "epsilons: every value must lie between 0 and 1"),
        (lambda: Map(vocabularies=[8]), "vocabularies: 8 leaves no token outside .* use more than 8"),
        (lambda: Map(vocabularies=[10_000]), "use at most 4096"),
        (lambda: Flow(vocabulary=40), "vocabulary: 40 leaves no token outside"),
        (lambda: Flow(rho=1e-12), "between 1e-8"),
        (lambda: Flow(positions=[2]), "nothing to choose from; use at least 3"),
        (lambda: Flow(sweep=Shape(positions=2, heads=1)), "sweep.positions"),
        (lambda: Tokens(vocabularies=[1_000]), "use at most 512 tokens"),
        (lambda: Tokens(rhos=[1_000]), "rhos: every value"),
        (lambda: Tokens(shape=Shape(positions=2, heads=1)), "shape.positions"),
        (lambda: Theory(gamma=-1), "gamma"),
        (lambda: Theory(seeds=1), "seeds"),
    ],
)
def test_settings_that_cannot_be_name_the_key_and_the_fix(make, message):
    with pytest.raises(ValidationError, match=message):
        make()
