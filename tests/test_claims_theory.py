"""The claims about the idealised model hold, fail or were not run because of its tables."""

from __future__ import annotations

import pytest
from planted_theory import planted_theory, tables

from weakspots.claims import report, theory

CLAIMS = {claim.id: claim for claim in theory.CLAIMS}
TABLE = {
    "theorem-1-minimizers-are-concentrated": "minima",
    "theorem-1-distinct-positions": "minima",
    "theorem-1-margin": "exponent",
    "theorem-1-small-errors": "map",
    "theorem-2-flow-concentrates": "heads",
    "theorem-2-uniformly": "tokens",
    "theorem-2-heads-may-coincide": "coverage",
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
        ("theorem-2-flow-concentrates", lambda: _changed("heads", "run < 5", concentrated=False)),
        ("theorem-2-uniformly", lambda: _changed("tokens", "head == 1", key_weight=0.5)),
        ("theorem-2-heads-may-coincide", lambda: _changed("coverage", "heads == 3", p_value=1e-4)),
        ("theorem-2-heads-may-coincide", lambda: _changed("coverage", "covered < heads", share=0.0)),
        ("theory-unselected-phases-are-lost", lambda: _changed("retrieval", None, retrieved=True)),
    ],
)
def test_what_falls_short_fails(claim, results):
    assert CLAIMS[claim].measure(results()).status == "fails"


def test_small_vocabularies_are_told_and_do_not_decide():
    verdict = CLAIMS["theorem-1-minimizers-are-concentrated"].measure(
        _changed("minima", "vocabulary == 8", concentrated=0, best_concentrated=False)
    )
    assert verdict.status == "holds" and "another local minimum is 8" in verdict.value


def test_a_run_that_does_not_concentrate_at_small_vocabulary_is_told():
    verdict = CLAIMS["theorem-2-flow-concentrates"].measure(_changed("heads", "vocabulary == 20", concentrated=False))
    assert verdict.status == "holds" and "fewer at N = 20 (0%)" in verdict.value


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
    }.items():
        assert number in CLAIMS[claim].text
