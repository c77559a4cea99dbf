"""A claim holds, fails or was not run because of the results, and of nothing else."""

from __future__ import annotations

import re

import numpy as np
import pytest
from planted import ROWS, WEAK_BOUNDARY, answers, planted
from planted_deepseek import planted_deepseek
from planted_mechanism import planted_mechanism
from planted_theory import tables as theory_tables

from weakspots import claims
from weakspots.analysis import paper_numbers
from weakspots.analysis.results import Results
from weakspots.claims import Verdict, deepseek, lookup, theory
from weakspots.config import PADDINGS, Statistics
from weakspots.files import tables
from weakspots.model_table import model_row

CLAIMS = {claim.id: claim for claim in claims.CLAIMS}
COMPRESSED = [model for model, row in ROWS.items() if row.compressed]
DRIFT = np.linspace(20, 80, 24)  # depends on position and repeats with nothing


def verdict(claim: str, results: Results) -> Verdict:
    return CLAIMS[claim].measure(results)


def status_of(whole: Verdict) -> dict[str, str]:
    return {part.model: part.status for part in whole.parts}


def everything(changes):
    """Planted results of every stage."""
    results = planted_mechanism(ROWS, layers=16, changes=changes)
    results.theory = dict(theory_tables())
    for name, found in vars(planted_deepseek()).items():
        if name in ("deepseek", "needles", "completions", "layer_knockouts"):
            setattr(results, name, found)
    return results


def test_every_claim_holds_in_results_planted_to_make_it_hold():
    # W8/S8 with 8 KV heads: a good mean, one very weak position.
    results = everything(changes={"w8s8-8kv": [90, 85, 90, 85, 90, 85, 50, 5]})
    judged = {claim.id: verdict.status for claim, verdict in claims.judge(results)}
    assert judged == dict.fromkeys(CLAIMS, "holds")


def test_no_claim_is_judged_without_results():
    empty = planted(dict.fromkeys(ROWS))
    assert {verdict.status for _, verdict in claims.judge(empty)} == {"not run"}


def test_every_claim_fails_somewhere():
    flat, uneven = {key: [50.0] for key in COMPRESSED}, [70.0] * 12 + [30.0] * 12
    nothing_lost = {(layer, head): [0.0] for layer in range(2) for head in range(8)}
    losses = {**dict.fromkeys(COMPRESSED, nothing_lost), "full-1kv": {(0, 0): [90.0] * 4 + [10.0] * 4}}
    results = planted_mechanism(ROWS, changes={**flat, "full-1kv": uneven}, losses=losses)
    for model, gates in results.gates.items():
        results.gates[model] = gates.assign(score=1 / ROWS[model].window, static=ROWS[model].window, per_window=2.0)
    for model, cycles in results.cycles.items():  # and a little better than before
        results.cycles[model] = dict.fromkeys(cycles, answers([60.0], mappings=192))
    judged = {claim.id: verdict.status for claim, verdict in claims.judge(results)}
    elsewhere = {claim.id for claim in theory.CLAIMS + deepseek.CLAIMS}  # each fails in a test of its own
    assert judged == {claim: "not run" if claim in elsewhere else "fails" for claim in CLAIMS}


# One claim at a time


def test_one_full_attention_run_that_depends_on_position_breaks_flatness():
    whole = verdict("full-attention-is-flat", planted({"full-8kv": WEAK_BOUNDARY[8]}))
    assert whole.status == "fails"
    assert status_of(whole) == {"full-1kv": "holds", "full-8kv": "fails"}
    assert whole.value == "2 of 4 runs are flat; not: full-8kv"


def test_a_small_gap_is_flat_even_where_many_prompts_tell_it_from_noise():
    results = planted(rows={"full-1kv": ROWS["full-1kv"]})
    results.outcomes = {("full-1kv", "prefix"): answers([51.5] * 4 + [48.5] * 4, mappings=8_000)}
    part = verdict("full-attention-is-flat", results).parts[0]
    assert part.status == "holds" and "p = 0.001" in part.value


@pytest.mark.parametrize(
    ("claim", "padding", "models"),
    [
        ("accuracy-repeats-with-the-stride", "prefix", COMPRESSED),
        ("under-in-sequence-padding", "in_sequence", COMPRESSED),
        ("without-rope", "prefix", ["w8s8-1kv-no-rope"]),
        ("with-uniform-averaging", "prefix", ["w8s8-1kv-uniform"]),
        ("with-overlapping-windows", "prefix", ["w8s4-1kv"]),
    ],
)
def test_repetition_claims_are_about_their_own_runs_and_padding(claim, padding, models):
    whole = verdict(claim, planted())
    assert list(status_of(whole)) == models
    assert {part.padding for part in whole.parts} == {padding}
    wrong = {models[-1]: DRIFT}
    assert verdict(claim, planted(wrong)).status == "fails"
    in_sequence = verdict(claim, planted(in_sequence=wrong)).status
    assert in_sequence == ("fails" if padding == "in_sequence" else "holds")
    absent = verdict(claim, planted(dict.fromkeys(models)))
    assert absent.status == "not run" and set(status_of(absent).values()) == {"not run"}


def test_another_period_than_the_stride_fails():
    whole = verdict("with-overlapping-windows", planted({"w8s4-1kv": WEAK_BOUNDARY[8]}))
    assert whole.status == "fails" and "period 8" in whole.parts[0].value
    whole = verdict("without-rope", planted({"w8s8-1kv-no-rope": DRIFT}))
    assert whole.status == "fails" and "no period is significant" in whole.parts[0].value


def test_flat_runs_are_listed_and_do_not_fail_while_most_runs_repeat():
    whole = verdict("accuracy-repeats-with-the-stride", planted({"w8s4-1kv": [50.0], "w8s8-8kv": [90.0]}))
    assert whole.status == "holds"
    assert whole.value == f"{len(COMPRESSED) - 2} of {len(COMPRESSED)} runs repeat with their stride; flat: " + (
        "w8s4-1kv, w8s8-8kv"
    )
    assert status_of(whole)["w8s4-1kv"] == "flat"
    assert verdict("without-rope", planted({"w8s8-1kv-no-rope": [50.0]})).status == "fails"


def test_a_modulus_of_one_stride_cannot_show_a_repetition():
    rows = {"w8s8-1kv": ROWS["w8s8-1kv"]}
    whole = verdict("accuracy-repeats-with-the-stride", planted(rows=rows, modulus=8))
    assert whole.status == "not run" and "does not show the period 8 twice" in whole.parts[0].value


@pytest.mark.parametrize(
    ("profile", "status"),
    [
        ([90, 85, 90, 85, 90, 85, 50, 5], "holds"),  # mean 72.5 beside 70, worst 5 beside about 65
        ([70, 75, 70, 75, 70, 75, 70, 50], "fails"),  # a good mean without a hole
        ([40, 20, 40, 20, 40, 20, 40, 5], "fails"),  # a hole, and a poor mean
    ],
)
def test_a_mean_hides_a_weak_position_only_if_it_is_good_and_the_position_weak(profile, status):
    rows = {model: ROWS[model] for model in ("full-8kv", "w8s8-8kv", "w8s8-1kv")}
    whole = verdict("a-good-mean-hides-a-weak-position", planted({"w8s8-8kv": profile}, rows=rows))
    assert whole.status == status
    assert "w8s8-1kv" not in status_of(whole), "there is no full attention with one KV head to compare with"


def test_means_are_compared_with_full_attention_of_as_many_heads():
    rows = {model: ROWS[model] for model in ("full-8kv", "w8s8-1kv")}
    assert verdict("a-good-mean-hides-a-weak-position", planted(rows=rows)).status == "not run"


def test_interior_phases_must_spread_on_their_own():
    only_boundary = {model: [70.0] * (ROWS[model].stride - 1) + [10] for model in COMPRESSED}
    whole = verdict("interior-phases-differ-too", planted(only_boundary))
    assert whole.status == "fails" and set(status_of(whole).values()) == {"fails"}
    assert "within the noise" in whole.parts[0].value
    assert verdict("the-boundary-phase-is-usually-weakest", planted(only_boundary)).status == "holds"


def test_boundary_phase_is_usually_weakest_only_if_most_runs_say_so():
    elsewhere = {model: WEAK_BOUNDARY[ROWS[model].stride][::-1] for model in COMPRESSED}
    some = dict(list(elsewhere.items())[: len(elsewhere) // 2])
    assert verdict("the-boundary-phase-is-usually-weakest", planted(some)).status == "holds"
    assert verdict("the-boundary-phase-is-usually-weakest", planted(elsewhere)).status == "fails"
    # Flat runs count on neither side.
    flat = {key: [50.0] for key in COMPRESSED[1:]}
    assert verdict("the-boundary-phase-is-usually-weakest", planted(flat)).status == "holds"


@pytest.mark.parametrize(
    ("flat", "missing", "status"), [(1, 0, "holds"), (2, 0, "fails"), (0, 1, "not run"), (0, 3, "not run")]
)
def test_three_of_four_seeds_must_show_the_gap(flat, missing, status):
    seeds = ["w8s8-1kv", "w8s8-1kv-seed43", "w8s8-1kv-seed44", "w8s8-1kv-seed45"]
    changes = {**{key: [50.0, 55] for key in seeds[:flat]}, **dict.fromkeys(seeds[len(seeds) - missing :])}
    whole = verdict("seeds-agree", planted(changes))
    assert whole.status == status
    if status != "not run":
        assert whole.seeds == "42, 43, 44, 45"


# The paper's own figures, and what a reader gets


def test_the_papers_figures_make_the_first_claims_hold():
    rows, outcomes = {}, {}
    for model, run in paper_numbers.models().items():
        attributes = (
            {"rope_fraction": 0}
            if model.endswith("no-rope")
            else {"compressor": "uniform"}
            if "uniform" in model
            else {}
        )
        attributes |= {"seed": int(model[-2:])} if "seed" in model else {}
        if not attributes and model.count("-") > 1:
            continue  # runs that no claim singles out
        shape = {"window": run["window"], "stride": run["stride"]} if run["window"] else {"compressor": "none"}
        rows[model] = model_row(kv_heads=run["kv_heads"], **shape, **attributes)
        for padding in PADDINGS:
            if (percent := paper_numbers.profile(model, padding)) is not None:
                outcomes[model, padding] = answers(percent, mappings=1_000)
    results = Results("paper", rows, Statistics(bootstrap=100), outcomes)
    judged = {claim.id: claim.measure(results).status for claim in lookup.CLAIMS}
    assert judged == dict.fromkeys(judged, "holds")


def test_the_table_fits_its_schema_and_reads_back_to_the_same_page(tmp_path):
    changes = {"w8s4-1kv": None, "w8s8-1kv-uniform": [50.0]}
    frame = claims.to_frame(claims.judge(everything(changes=changes)))
    tables.write(frame, tmp_path / "claims.parquet", "claims", {})
    page = claims.to_markdown(tables.read(tmp_path / "claims.parquet", "claims"))
    assert page == claims.to_markdown(frame)
    # every verdict has the paper's figure beside it, in the table for one minute too, and then what it rests on
    short, full = (row for row in page.splitlines() if row.startswith("| Full attention is flat"))
    assert "gaps 3.1 to 6.1" in short
    assert "full-8kv 4.3" in full and "[figure_2](figures/figure_2.png), [tables](lookup/)" in full
    assert "2 fail, 1 not run" in page  # uniform averaging, no good mean; overlap
    for claim in claims.CLAIMS:
        assert claim.text in page
    assert "| w8s8-1kv-uniform | prefix | flat |" in page
    assert "| w8s8-1kv | prefix | holds | period 8 " in page and "| 250 | 42 |" in page


# The numbers in the texts are those that decide


def in_text(claim: str, pattern: str) -> list[float]:
    """The numbers that a pattern finds in the text of a claim."""
    return [float(number) for number in re.search(pattern, CLAIMS[claim].text).groups()]


def exact(percent, mappings: int = 1_000) -> np.ndarray:
    """[mappings, 24] answers of which exactly so many percent are right, by phase."""
    right = np.tile(np.array(percent, float), 24 // len(percent)) * mappings / 100
    return np.arange(mappings)[:, None] < np.round(right)


@pytest.mark.parametrize(("more", "status"), [(-0.1, "holds"), (0.1, "fails")])
def test_full_attention_is_flat_up_to_the_gap_in_the_text(more, status):
    (gap,) = in_text("full-attention-is-flat", r"at most (\S+) points")
    results = planted(rows={"full-1kv": ROWS["full-1kv"]})
    results.outcomes = {("full-1kv", "prefix"): exact([50.0] * 4 + [50 + gap + more] * 4)}
    assert verdict("full-attention-is-flat", results).status == status
    full = paper_numbers.summary().query("model.str.startswith('full')")
    assert full["gap"].max() == pytest.approx(gap)


@pytest.mark.parametrize(
    ("mean", "worst", "status"), [(-0.1, 0.1, "holds"), (0.1, 0.1, "fails"), (-0.1, -0.1, "fails")]
)
def test_a_good_mean_and_a_weak_position_are_so_many_points_below(mean, worst, status):
    close, far = in_text("a-good-mean-hides-a-weak-position", r"no more than (\d+) points .* at least (\d+) points")
    below = np.zeros(8)
    below[7] = far + worst
    below[:4] = (8 * (close + mean) - below[7]) / 4
    results = planted(rows={model: ROWS[model] for model in ("full-8kv", "w8s8-8kv")})
    results.outcomes = {("full-8kv", "prefix"): exact([80.0]), ("w8s8-8kv", "prefix"): exact(80 - below, 10_000)}
    assert verdict("a-good-mean-hides-a-weak-position", results).status == status


@pytest.mark.parametrize(("more", "status"), [(0.1, "holds"), (-0.1, "fails")])
def test_interior_phases_spread_by_the_share_in_the_text(more, status):
    assert "at least half of the whole gap" in CLAIMS["interior-phases-differ-too"].text
    results = planted(rows={"w8s8-1kv": ROWS["w8s8-1kv"]})
    results.outcomes = {("w8s8-1kv", "prefix"): exact([60.0 - more] + [80.0] * 6 + [40.0])}
    assert verdict("interior-phases-differ-too", results).status == status


@pytest.mark.parametrize(("more", "status"), [(0.1, "holds"), (-0.1, "fails")])
def test_seeds_have_the_gap_in_the_text(more, status):
    (gap,) = in_text("seeds-agree", r"gap of at least (\d+) points")
    seeds = [model for model in ROWS if model == "w8s8-1kv" or "seed" in model]
    results = planted(rows={model: ROWS[model] for model in seeds})
    results.outcomes = {(model, "prefix"): exact([80.0] * 7 + [80 - gap - more]) for model in seeds}
    assert verdict("seeds-agree", results).status == status
