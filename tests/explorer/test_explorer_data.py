"""The page's data are the results, and what was not run is absent."""

from __future__ import annotations

import re

import numpy as np
import pytest
from planted_page import NOT_LOOKED_UP

from weakspots import statistics
from weakspots.analysis import cycling_prediction, gate_preferences, paper_numbers
from weakspots.explorer.build import SCRIPTS, embedded
from weakspots.figures import style
from weakspots.files import tables
from weakspots.workflow.stage_dependencies import PACKAGE


def test_counts_of_correct_answers_are_those_of_the_lookups(page):
    for (model, padding), outcomes in page.results.outcomes.items():
        run = page.data["lookups"][f"{model}/{padding}"]
        assert run["n"] == len(outcomes)
        assert run["correct"] == outcomes.sum(axis=0).tolist()
        measured = page.results.by_position(model, padding)
        np.testing.assert_allclose(run["low"], measured["low"], atol=1e-4)
        np.testing.assert_allclose(run["high"], measured["high"], atol=1e-4)


def test_folded_intervals_hold_the_folded_accuracy(page):
    for (model, padding), outcomes in page.results.outcomes.items():
        run = page.data["lookups"][f"{model}/{padding}"]
        folded = statistics.fold(statistics.profile(outcomes), run["period"])
        assert (np.array(run["folded"]["low"]) <= folded + 1e-4).all()
        assert (np.array(run["folded"]["high"]) >= folded - 1e-4).all()


def test_counts_of_knockouts_are_those_of_their_tables(page):
    for (model, padding), places in page.results.knockouts.items():
        run = page.data["knockouts"][f"{model}/{padding}"]
        for place, correct in zip(run["places"], run["correct"], strict=True):
            assert correct == places[tuple(place)].sum(axis=0).tolist()


def test_scores_are_the_last_checkpoints_mean_scores(page):
    for model, table in page.results.gates.items():
        found, last = page.data["gates"][model], gate_preferences.final(table)
        for gate, scores in zip(found["gates"], found["scores"], strict=True):
            of_gate = last[
                (last["layer"] == gate["layer"]) & (last["head"] == gate["head"]) & (last["branch"] == gate["branch"])
            ]
            np.testing.assert_allclose(scores, of_gate.sort_values("offset")["score"], atol=1e-4)
            assert gate["static"][-1] == pytest.approx(of_gate["static"].iloc[0], abs=1e-4)
            assert gate["perWindow"][-1] == pytest.approx(of_gate["per_window"].iloc[0], abs=1e-4)
        assert found["steps"] == sorted(table["step"].unique())


def test_cycles_are_those_of_the_comparison(page):
    for model, run in page.data["cycling"]["models"].items():
        stride = page.results.models[model].stride
        for shift, cycle in run["shifts"].items():
            cycled = page.results.cycles[model][int(shift)]
            clean = page.results.outcomes[model, "prefix"][: len(cycled)]
            compared = cycling_prediction.compare(clean, cycled, int(shift), stride)
            np.testing.assert_allclose(cycle["observed"], compared["observed"], atol=1e-4)
            np.testing.assert_allclose(cycle["predicted"], compared["predicted"], atol=1e-4)
            theirs = paper_numbers.gate_cycling_r_squared(model, int(shift))
            assert cycle["publishedRSquared"] == theirs


def test_what_was_not_run_is_absent(page):
    assert not [key for key in page.data["lookups"] if key.startswith(f"{NOT_LOOKED_UP}/")]
    assert NOT_LOOKED_UP in page.data["models"]
    assert page.data["deepseek"]["flash-base"]["completion"] is None
    assert page.data["deepseek"]["flash-base"]["needle"] is None


def test_a_stand_in_has_no_paper_numbers(page):
    for row in page.data["deepseek"].values():
        if row["standIn"]:
            assert row["published"] == {"completion": None, "needle": None}


def test_published_curves_are_the_published_ones(page):
    for model, profiles in page.data["published"]["profiles"].items():
        for padding, profile in profiles.items():
            assert profile == paper_numbers.profile(model, padding).tolist()


def test_colours_are_those_of_the_figures(page):
    assert page.data["colours"]["padding"] == style.PADDING_COLOURS


def test_claims_come_in_the_tables_order_with_links_that_lead_to_files(page):
    frame = tables.read(page.layout.claims("parquet"), "claims")
    assert [claim["id"] for claim in page.data["claims"]] == list(frame["claim"].unique())
    links = [link for claim in page.data["claims"] for link in claim["figures"] + claim["tables"]]
    links += [part["table"] for claim in page.data["claims"] for part in claim["parts"] if part["table"]]
    assert "figures/figure_2.png" in links
    assert "lookup/w8s8-1kv/prefix.parquet" in links
    assert all((page.file.parent / link).exists() for link in links)


def test_every_claim_of_the_paper_has_its_published_figure(page):
    ours = {"theory-time-to-choose", "theory-unselected-phases-are-lost"}
    ours |= {"single-heads-of-several-lose-one-or-two-phases", "needle-without-compression-is-flat"}
    missing = {claim["id"] for claim in page.data["claims"] if claim["published"] is None}
    assert missing <= ours


def test_nothing_in_the_data_ends_its_element():
    text = embedded({"text": "</script><!--\u2028", "scale": "x"})
    assert "<" not in text and "\u2028" not in text


def test_the_page_names_no_host_but_in_namespaces_and_licences(page):
    hosts = set(re.findall(r"https?://([\w.-]+)", page.file.read_text()))
    assert hosts <= {"www.w3.org", "www.apache.org", "github.com"}


def test_every_script_is_read():
    assert sorted(SCRIPTS) == sorted(path.name for path in (PACKAGE / "explorer" / "page").glob("*.js"))


def test_the_file_is_small(page):
    assert page.file.stat().st_size < 5e6
