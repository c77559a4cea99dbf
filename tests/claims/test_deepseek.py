"""Claims about DeepSeek's models hold on the paper's own figures and fail where something else is planted."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest
from planted_deepseek import LOST, ROWS, STAND_INS, THEIRS, completion, counted, knockouts, needles, planted_deepseek

from weakspots.analysis.phase_losses import RETRIEVABLE
from weakspots.claims import deepseek, to_frame, to_markdown
from weakspots.claims.deepseek import layers
from weakspots.claims.deepseek.stand_ins import ONLY_STAND_IN
from weakspots.claims.lookup.repetition import FLAT_GAP

CLAIMS = {claim.id: claim for claim in deepseek.CLAIMS}
FLIPS, STEADY, PERIOD, POST_TRAINING, CONTROL, LAYERS = CLAIMS
OF_STAND_INS = {PERIOD: "stand-in", CONTROL: "stand-in-flat", LAYERS: "stand-in"}


def verdict(claim: str, **planting):
    return CLAIMS[claim].measure(planted_deepseek(**planting))


def status_of(whole) -> dict[str, str]:
    return {part.model: part.status for part in whole.parts}


def value_of(whole, model: str) -> str:
    return next(part.value for part in whole.parts if part.model == model)


def test_every_claim_holds_on_the_papers_own_figures():
    results = planted_deepseek()
    judged = {name: claim.measure(results) for name, claim in CLAIMS.items()}
    assert {name: whole.status for name, whole in judged.items()} == dict.fromkeys(CLAIMS, "holds")
    assert not any(ONLY_STAND_IN in whole.value for whole in judged.values())


def test_nothing_is_judged_where_nothing_was_run_and_the_published_figures_stand_there():
    for name in CLAIMS:
        whole = verdict(name, run=())
        assert whole.status == "not run" and set(status_of(whole).values()) == {"not run"}
        assert "endpoint or a folder" in whole.value and whole.n is None
    assert value_of(verdict(FLIPS, run=()), "flash-base").endswith("(paper: 60 of 64)")
    assert "paper: gap 40.2" in value_of(verdict(PERIOD, run=()), "flash-base")
    assert "paper: mean 72.1 to 84.4, gap 34.8 to 14.8" in value_of(verdict(POST_TRAINING, run=()), "pro-0813")


def test_a_laptop_judges_what_a_stand_in_can_say_and_says_that_it_is_one():
    results = planted_deepseek(run=tuple(STAND_INS))
    for name, claim in CLAIMS.items():
        whole = claim.measure(results)
        assert whole.status == ("holds" if name in OF_STAND_INS else "not run")
        if name in OF_STAND_INS:
            assert whole.value.startswith(f"{ONLY_STAND_IN}: 1 of 1 ") and whole.seeds == "42"
        for part in whole.parts:
            if part.model in THEIRS:
                assert part.status == "not run" and "stand-in" not in part.value
            else:
                assert part.value.startswith("stand-in: ") and "paper" not in part.value


@pytest.mark.parametrize("claim", [FLIPS, STEADY, POST_TRAINING])
def test_no_stand_in_takes_part_in_a_claim_about_trained_checkpoints(claim):
    results = planted_deepseek(completions={name: completion() for name in STAND_INS})
    results.completions |= {name: completion() for name in STAND_INS}
    for model in ("flash-base", "flash-0731", "v3.1-base"):
        results.deepseek[model] = STAND_INS["stand-in"]
    parts = status_of(CLAIMS[claim].measure(results))
    assert not set(parts) & {"flash-base", "flash-0731", "v3.1-base", *STAND_INS}


def test_verdicts_are_about_deepseeks_models_as_soon_as_one_has_been_run():
    whole = verdict(PERIOD, run=("flash-base", *STAND_INS), changes={"stand-in": [50.0]})
    assert whole.status == "holds" and status_of(whole)["stand-in"] == "flat" and whole.seeds is None
    assert whole.value == "1 of 1 models repeat with their stride; stand-ins, not counted: stand-in flat"
    whole = verdict(PERIOD, run=("flash-base", *STAND_INS), changes={"flash-base": [50.0]})
    assert whole.status == "fails" and "flat: flash-base" in whole.value


# Needle


@pytest.mark.parametrize(
    ("profile", "status", "part", "words"),
    [
        ([14.0, 14, 91, 70], "holds", "holds", "period 4"),
        ([50.0], "fails", "flat", "within the noise"),
        ([20.0, 90], "fails", "fails", "period 2"),
        (list(np.linspace(20, 80, 8)), "fails", "fails", "no period is significant"),
        ([14.0, 14, 91, 70, 70, 91, 14, 14], "fails", "fails", "no period is significant"),
    ],
    ids=["stride", "flat", "half the stride", "drift", "mirrored"],
)
def test_a_stand_in_must_repeat_with_its_stride(profile, status, part, words):
    whole = verdict(PERIOD, run=("stand-in",), changes={"stand-in": profile})
    assert whole.status == status and status_of(whole)["stand-in"] == part
    assert words in value_of(whole, "stand-in")


def test_one_model_with_another_period_breaks_the_claim_and_a_flat_one_among_others_does_not():
    assert verdict(PERIOD, changes={"v4.1-flash": [20.0, 30, 80, 70]}).status == "fails"
    assert verdict(PERIOD, changes={"pro-0813": [85.0]}).status == "holds"
    most_flat = {key: [85.0] for key in ["flash-base", "flash-0731", "pro-base"]}
    assert verdict(PERIOD, changes=most_flat).status == "fails"


def test_a_modulus_of_one_stride_cannot_show_a_repetition():
    results = planted_deepseek(run=("stand-in",))
    results.needles["stand-in"] = results.needles["stand-in"][:, :4]
    whole = CLAIMS[PERIOD].measure(results)
    assert whole.status == "not run" and "does not show the period 4 twice" in value_of(whole, "stand-in")


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ([44.0, 70, 66, 30], "mean 52.6 to 52.5"),  # no better
        ([99.0, 99, 99, 40], "gap 40.2 to 59.0"),  # better, and more uneven
        ([90.0], "period none: flat"),
        ([85.0, 95], "period 2"),
    ],
)
def test_post_training_must_raise_narrow_and_keep(after, words):
    whole = verdict(POST_TRAINING, changes={"flash-0731": after})
    assert whole.status == "fails" and status_of(whole) == {"flash-0731": "fails", "pro-0813": "holds"}
    assert words in value_of(whole, "flash-0731")


def test_a_post_trained_model_without_its_base_is_not_judged():
    whole = verdict(POST_TRAINING, run=("flash-0731", "pro-base", "pro-0813"))
    assert whole.status == "holds" and status_of(whole) == {"flash-0731": "not run", "pro-0813": "holds"}
    assert "no needle table of flash-base" in value_of(whole, "flash-0731")


@pytest.mark.parametrize(
    ("profile", "status", "part"),
    [
        ([98.0], "holds", "holds"),
        ([98.0, 96, 98, 97, 98, 95, 97, 98], "holds", "holds"),  # a small gap with no period
        ([95.0, 60, 90, 40], "fails", "fails"),  # a control that is weak somewhere
        ([95.0] * 7 + [40.0], "fails", "fails"),
        ([96.0, 91], "fails", "fails"),  # a small gap that repeats is no flat control
        ([1.0], "fails", "flat"),  # one that answers nothing shows nothing
    ],
)
def test_a_control_must_be_flat_and_answer(profile, status, part):
    for model in ("stand-in-flat", "v3.1-base"):
        results = planted_deepseek(run=(model,))
        results.needles[model] = counted(profile, 2560)
        whole = CLAIMS[CONTROL].measure(results)
        assert (whole.status, status_of(whole)[model]) == (status, part), (model, value_of(whole, model))


# Completion


@pytest.mark.parametrize(
    ("table", "status", "words"),
    [
        (completion(against=4), "holds", "60 of 64 rankings follow the period 4"),
        (completion(first_phases=(0, 3)), "holds", "length mod 4 is 0 or 3"),  # other code before the cursor
        (completion(against=8), "holds", "56 of 64"),
        (completion(against=9), "fails", "55 of 64"),
        (completion(first_phases=range(4)), "fails", "32 of 64"),
        (completion(2, (0,)), "fails", "32 of 64"),
        (completion(8, range(4)), "fails", "32 of 64"),
    ],
)
def test_a_completion_must_flip_with_period_four(table, status, words):
    whole = verdict(FLIPS, completions={"flash-base": table})
    assert whole.status == status and words in value_of(whole, "flash-base") and whole.n == 64


def test_a_log_probability_that_the_server_left_out_is_the_smaller_one():
    table = completion()
    for name, other in (("first_logprob", "second_logprob"), ("second_logprob", "first_logprob")):
        table.loc[table[name] < table[other], name] = np.nan
    assert verdict(FLIPS, completions={"flash-base": table}).status == "holds"


@pytest.mark.parametrize(("against", "status"), [(0, "holds"), (8, "holds"), (9, "fails")])
def test_the_control_of_the_completion_keeps_to_its_answer(against, status):
    whole = verdict(STEADY, completions={"v3.1-base": completion(first_phases=range(4), against=against)})
    assert whole.status == status and f"`32` on top after {against} of 64" in value_of(whole, "v3.1-base")


@pytest.mark.parametrize(("claim", "model"), [(FLIPS, "flash-base"), (STEADY, "v3.1-base")])
def test_so_many_of_the_rankings_as_the_text_says(claim, model):
    share = Fraction(re.search(r"at (?:least|most) (\d/\d) of", CLAIMS[claim].text)[1])
    may_differ = int(64 * (1 - share if claim == FLIPS else share))
    for against, status in ((may_differ, "holds"), (may_differ + 1, "fails")):
        phases = (2, 3) if claim == FLIPS else range(4)
        table = completion(first_phases=phases, against=against)
        assert verdict(claim, completions={model: table}).status == status


# Layers


@pytest.mark.parametrize(
    ("lost", "status", "part"),
    [
        (LOST, "holds", "holds"),
        ({0: [90.0], 1: [30.0]}, "fails", "flat"),  # layers that cost every residue alike
        ({0: [90.0], 1: [0.0, 80] * 4}, "fails", "fails"),  # half the stride
        ({0: [0.0, 10, 80, 50], 1: [80.0] * 2 + [0.0] * 6}, "fails", "fails"),  # one of two with no period
        ({0: [0.0]}, "fails", "flat"),
    ],
    ids=["stride", "alike", "half", "no period", "nothing"],
)
def test_layer_losses_must_repeat_with_the_stride(lost, status, part):
    for model in ("stand-in", "flash-base"):
        results = planted_deepseek(run=(model,), lost={model: lost})
        clean = counted([80.0], 128)  # the clean accuracy has no period that losses could take over
        results.layer_knockouts[model] = knockouts(clean, lost)
        whole = CLAIMS[LAYERS].measure(results)
        assert (whole.status, status_of(whole)[model]) == (status, part), value_of(whole, model)


def test_a_layer_that_takes_everything_is_not_uneven_because_the_model_is():
    """Points lost repeat with the stride where accuracy does; in percent of it they are alike."""
    whole = verdict(LAYERS, run=("stand-in",), lost={"stand-in": {0: [100.0], 1: [97.0]}})
    assert status_of(whole)["stand-in"] == "flat"


# The page


def test_the_page_says_stand_in_and_never_gives_its_numbers_to_deepseek():
    results = planted_deepseek(run=tuple(STAND_INS))
    frame = to_frame([(claim, claim.measure(results)) for claim in deepseek.CLAIMS])
    page = to_markdown(frame)
    assert page.count(ONLY_STAND_IN) == 3 and "A stand-in is a tiny model trained here" in page
    for line in page.splitlines():
        if line.startswith("| flash") or line.startswith("| pro") or line.startswith("| v"):
            assert "| not run |" in line
        if line.startswith("| stand-in"):
            assert "stand-in: " in line
    assert "nan |" not in page and "nan," not in page


def test_thresholds_stand_in_the_texts():
    for claim, words in {
        FLIPS: ["period of four"],
        POST_TRAINING: ["narrows the gap", "interval"],
        CONTROL: [f"{RETRIEVABLE:.0f} %", f"{FLAT_GAP} points", "no period"],
        LAYERS: [f"{layers.UNEVEN} %", f"{RETRIEVABLE:.0f} %", "none another one"],
    }.items():
        for word in words:
            assert word in CLAIMS[claim].text, (claim, word)
    assert set(needles()) == set(ROWS)
