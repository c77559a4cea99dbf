"""The claims about the mechanism as a whole: they hold where they are planted, and say what has not been run."""

from __future__ import annotations

import time

import numpy as np
import pytest
from mechanism_claims import (
    CLAIMS,
    CYCLES,
    KNOCKOUTS,
    LAYERS,
    status_of,
    verdict,
)
from planted_mechanism import planted_mechanism

from weakspots import config
from weakspots.analysis import paper_numbers, phase_losses
from weakspots.claims import mechanism, to_frame, to_markdown
from weakspots.claims.mechanism import cycling, gates, knockouts
from weakspots.claims.wording import spelled
from weakspots.config import Statistics


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


@pytest.mark.parametrize("name", [*KNOCKOUTS, "some-gates-static-most-input-dependent", "gates-line-up-with-losses"])
def test_a_run_that_is_missing_is_a_part_that_was_not_run(results, name):
    missing = "full-1kv" if name == KNOCKOUTS[0] else "w8s8-4kv"
    results.knockouts = {run: heads for run, heads in results.knockouts.items() if run[0] != missing}
    results.gates.pop(missing, None)
    whole = verdict(name, results)
    assert status_of(whole)[missing] == "not run"
    assert whole.status == ("not run" if name == KNOCKOUTS[2] else "holds")


def test_thresholds_stand_in_the_texts():
    for claim, words in {
        KNOCKOUTS[0]: [
            f"{knockouts.COSTLY} %",
            f"{knockouts.ALIKE} points",
            f"mod {phase_losses.FULL_ATTENTION_PERIOD}",
        ],
        KNOCKOUTS[1]: [
            f"{spelled(knockouts.HEADS)} KV heads",
            f"at most {phase_losses.ADJACENT} adjacent",
            f"{phase_losses.CONCENTRATED:.0f} %",
            f"1/{phase_losses.CONTRAST:.0f}",
            "more than half of it",
        ],
        KNOCKOUTS[2]: [f"one or {spelled(knockouts.NARROW)} adjacent"],
        "some-gates-static-most-input-dependent": ["W/2", f"{gates.DIAGONAL}", "most gates"],
        "value-gates-peak-one-offset-later": ["S/2", "most"],
        "gates-line-up-with-losses": ["S/2", f"{phase_losses.CONCENTRATED:.0f} %", f"{gates.ENOUGH} such heads"],
        CYCLES[0]: [f"{cycling.LOWEST}", "median"],
        CYCLES[1]: [f"{cycling.APART} points", "most cycles"],
        CYCLES[2]: ["most cycles", "3 to 18 points"],
    }.items():
        for word in words:
            assert word in CLAIMS[claim].text, (claim, word)
    published = paper_numbers.by_model("gate_cycling").values()
    assert round(min(min(shown["r2_excluding_boundary"]) for shown in published), 2) == cycling.LOWEST
    changes = np.concatenate([shown["mean_accuracy_change_pp"] for shown in published])
    assert round(-changes.max()) == 3 and round(-changes.min()) == 18


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
