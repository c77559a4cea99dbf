"""The claims about the idealised model hold, fail or were not run because of its tables."""

from __future__ import annotations

import pytest
from planted_theory import planted_theory, tables

from weakspots.claims import report, theory

CLAIMS = {claim.id: claim for claim in theory.CLAIMS}
ONE_ENSEMBLE = "vocabulary == 1000000 and heads == 2 and run < 2"  # 2 of 20 runs there, 2 of 60 altogether
TABLE = {
    "theorem-1-minimizers-are-concentrated": "minima",
    "theorem-1-distinct-positions": "minima",
    "theorem-1-margin": "exponent",
    "theorem-1-small-errors": "map",
    "theorem-2-flow-concentrates": "heads",
    "theorem-2-uniformly": "tokens",
    "theorem-2-heads-may-coincide": "coverage",
    "theory-time-to-choose": "escape",
    "theory-unselected-phases-are-lost": "retrieval",
}


def test_every_claim_holds_at_the_tiny_scale():
    judged = {name: claim.measure(planted_theory()) for name, claim in CLAIMS.items()}
    assert {name: verdict.status for name, verdict in judged.items()} == dict.fromkeys(TABLE, "holds")
    assert "fails up to N = 10" in judged["theorem-1-small-errors"].value
    assert "first fails at ε = 0.4" in judged["theorem-1-small-errors"].value


@pytest.mark.parametrize(("claim", "table"), TABLE.items())
def test_a_claim_without_its_table_is_not_run(claim, table):
    assert CLAIMS[claim].measure(planted_theory(**{table: None})).status == "not run"
    assert CLAIMS[claim].measure(planted_theory(**{table: tables()[table].iloc[:0]})).status == "not run"
    if table == "minima":
        small = tables()["minima"].query("vocabulary < 1000")
        assert "no N of at least 1,000" in CLAIMS[claim].measure(planted_theory(minima=small)).value


def _changed(table: str, condition: str | None, **values):
    found = tables()[table].copy()
    rows = found.index if condition is None else found.query(condition).index
    for column, value in values.items():
        found.loc[rows, column] = value
    return planted_theory(**{table: found})


@pytest.mark.parametrize(
    ("claim", "results"),
    [
        ("theorem-1-minimizers-are-concentrated", lambda: _changed("minima", "vocabulary == 1024", concentrated=5)),
        ("theorem-1-minimizers-are-concentrated", lambda: _changed("minima", None, best_concentrated=False)),
        ("theorem-1-distinct-positions", lambda: _changed("minima", "vocabulary == 4096", distinct_optimal=False)),
        ("theorem-1-margin", lambda: _changed("exponent", None, exponent=-0.5, low=-0.6, high=-0.4)),
        ("theorem-1-margin", lambda: _changed("exponent", None, low=-1.4, high=-0.6)),
        ("theorem-1-small-errors", lambda: _changed("map", "vocabulary == 64 and context == 1", concentrated=False)),
        ("theorem-2-flow-concentrates", lambda: _changed("heads", ONE_ENSEMBLE, concentrated=False)),
        ("theorem-2-uniformly", lambda: _changed("tokens", "head == 1 and run == 1", key_weight=0.5)),
        ("theorem-2-heads-may-coincide", lambda: _changed("coverage", "heads == 3", p_value=1e-4)),
        ("theorem-2-heads-may-coincide", lambda: _changed("coverage", None, coincident=0)),
        ("theorem-2-heads-may-coincide", lambda: _changed("coverage", "heads == 2", p_value=float("nan"))),
        ("theory-time-to-choose", lambda: _changed("escape", None, slope=0.8, low=0.75, high=0.85)),
        ("theory-time-to-choose", lambda: _changed("escape", None, low=0.8, high=1.2)),
        ("theory-time-to-choose", lambda: _changed("escape", None, slope=float("nan"), low=float("nan"))),
        ("theory-unselected-phases-are-lost", lambda: _changed("retrieval", None, retrieved=True)),
    ],
)
def test_what_falls_short_fails(claim, results):
    assert CLAIMS[claim].measure(results()).status == "fails"


def test_small_vocabularies_are_told_and_do_not_decide():
    verdict = CLAIMS["theorem-1-minimizers-are-concentrated"].measure(
        _changed("minima", "vocabulary == 8", concentrated=0, best_concentrated=False)
    )
    assert verdict.status == "holds" and "a descent that did not end one-hot is 8" in verdict.value


def test_a_run_that_does_not_concentrate_at_small_vocabulary_is_told():
    verdict = CLAIMS["theorem-2-flow-concentrates"].measure(_changed("heads", "vocabulary == 20", concentrated=False))
    assert verdict.status == "holds" and "fewer at N = 20 (0%)" in verdict.value


def test_heads_that_keep_apart_at_small_vocabulary_are_told():
    claim, small = CLAIMS["theorem-2-heads-may-coincide"], "vocabulary == 20"
    apart = claim.measure(_changed("coverage", small, p_value=1e-4, mean=2.9))
    assert apart.status == "holds" and "keep apart more often in 2 of 4 ensembles, up to N = 20" in apart.value
    together = claim.measure(_changed("coverage", small, p_value=1e-4, mean=1.1))
    corrected = claim.measure(_changed("coverage", small, p_value=0.004, mean=2.9))  # times four ensembles
    assert "up to N" not in together.value + corrected.value


def test_time_to_choose_is_judged_at_the_largest_vocabulary():
    verdict = CLAIMS["theory-time-to-choose"].measure(
        _changed("escape", "vocabulary == 20", slope=2, low=1.9, high=2.1)
    )
    assert verdict.status == "holds" and "2.00 at N = 20" in verdict.value


def test_tokens_are_counted_by_run_and_compared_with_the_common_flow():
    verdict = CLAIMS["theorem-2-uniformly"].measure(planted_theory())
    assert verdict.n == 2 and "2 of 2 runs" in verdict.value
    assert "at that ρ 4 of 4 heads" in verdict.value
    other = CLAIMS["theorem-2-uniformly"].measure(_changed("tokens", "head == 1 and run == 1", predicted_position=9))
    assert "at that ρ 3 of 4 heads" in other.value


def test_intervals_have_the_confidence_of_the_theory():
    claim = CLAIMS["theory-unselected-phases-are-lost"]
    usual, low = (
        claim.measure(planted_theory(settings=tables()["settings"].assign(confidence=confidence))).low
        for confidence in (0.95, 0.6)
    )
    assert low > usual


def test_verdicts_fit_the_report():
    judged = [(claim, claim.measure(planted_theory())) for claim in theory.CLAIMS]
    page = report.to_markdown(report.to_frame(judged))
    assert all(claim.text in page for claim in theory.CLAIMS) and "S = 3, m = 2" in page


def test_thresholds_stand_in_the_texts():
    for claim, number in {
        "theorem-1-minimizers-are-concentrated": "1,000",
        "theorem-1-margin": "between -1.1 and -0.9",
        "theorem-2-flow-concentrates": "95 %",
        "theorem-2-uniformly": "0.95",
        "theorem-2-heads-may-coincide": "0.01",
        "theory-time-to-choose": "between 0.9 and 1.1",
    }.items():
        assert number in CLAIMS[claim].text
