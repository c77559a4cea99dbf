"""The claims about the idealised model hold, fail or were not run because of its tables."""

from __future__ import annotations

import re

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


# The numbers in the texts are those that decide


def in_text(claim: str, pattern: str) -> list[float]:
    """The numbers that a pattern finds in the text of a claim."""
    found = re.search(pattern, CLAIMS[claim].text).groups()
    return [float(number.replace(",", "")) for number in found]


@pytest.mark.parametrize(("claim", "table"), [("theorem-1-margin", "exponent"), ("theory-time-to-choose", "escape")])
@pytest.mark.parametrize(("low", "high", "status"), [(0, 0, "holds"), (-0.01, 0, "fails"), (0, 0.01, "fails")])
def test_intervals_lie_between_the_numbers_in_the_text(claim, table, low, high, status):
    least, most = in_text(claim, r"interval between (\S+) and (\S+\d)")
    assert CLAIMS[claim].measure(_changed(table, None, low=least + low, high=most + high)).status == status


@pytest.mark.parametrize("claim", ["theorem-1-minimizers-are-concentrated", "theorem-1-distinct-positions"])
def test_vocabularies_are_large_from_the_number_in_the_text(claim):
    (large,) = in_text(claim, r"N of at least ([\d,]+)")
    minima = tables()["minima"].query("vocabulary == 1024")
    for vocabulary, status in ((large, "holds"), (large - 1, "not run")):
        changed = minima.assign(vocabulary=int(vocabulary))
        assert CLAIMS[claim].measure(planted_theory(minima=changed)).status == status


def test_runs_concentrate_to_the_percentage_in_the_text():
    (percent,) = in_text("theorem-2-flow-concentrates", r"at least (\d+) % of the runs")
    may_fail = round(20 * (1 - percent / 100))  # of the 20 runs of each ensemble
    for failing, status in ((may_fail, "holds"), (may_fail + 1, "fails")):
        condition = f"vocabulary == 1000000 and heads == 2 and run < {failing}"
        results = _changed("heads", condition, concentrated=False)
        assert CLAIMS["theorem-2-flow-concentrates"].measure(results).status == status


@pytest.mark.parametrize(("more", "status"), [(0.001, "holds"), (-0.001, "fails")])
def test_weights_are_close_to_one_from_the_number_in_the_text(more, status):
    (weight,) = in_text("theorem-2-uniformly", r"at least (\S+) in any context")
    results = _changed("tokens", "head == 1 and run == 1", key_weight=weight + more)
    assert CLAIMS["theorem-2-uniformly"].measure(results).status == status


@pytest.mark.parametrize(("more", "status"), [(1.01, "holds"), (0.99, "fails")])
def test_coverage_differs_below_the_level_in_the_text(more, status):
    (level,) = in_text("theorem-2-heads-may-coincide", r"p of at least (\S+),")
    where = "vocabulary == 1000000"
    ensembles = len(tables()["coverage"].query(f"{where} and heads > 1").drop_duplicates(["positions", "heads"]))
    results = _changed("coverage", where, p_value=level * more / ensembles)
    assert CLAIMS["theorem-2-heads-may-coincide"].measure(results).status == status
