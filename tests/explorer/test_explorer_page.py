"""The page in a real browser, at three window sizes: every control does what it says, with the tables' numbers."""

from __future__ import annotations

import time

import numpy as np
import pytest
from planted_page import COMPLETED, NASTY, NOT_LOOKED_UP

from weakspots import statistics
from weakspots.analysis import cycling_prediction, gate_preferences, paper_numbers, phase_losses
from weakspots.claims.report import to_markdown
from weakspots.files import tables
from weakspots.model_table import WHOLE_LAYER

expect = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install -r envs/browser.txt").expect

VIEWS = ["accuracy", "knockouts", "concentration", "gates", "cycling", "window", "deepseek", "claims"]


def accuracy(page, model, padding="prefix"):
    return statistics.profile(page.results.outcomes[model, padding])


def test_every_view_fits_its_window(opened):
    for view in VIEWS:
        opened.open(view)
        assert opened.tab.locator("#view h2").first.is_visible()
        width, window = opened.tab.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width <= window, view


def test_tabs_are_moved_through_with_arrow_keys(opened):
    opened.tab.focus("#tab-accuracy")
    opened.tab.keyboard.press("ArrowRight")
    assert opened.tab.locator(":focus").get_attribute("id") == "tab-knockouts"
    assert opened.tab.locator("#tab-knockouts").get_attribute("aria-selected") == "true"
    opened.tab.keyboard.press("End")
    assert opened.tab.locator(":focus").get_attribute("id") == "tab-claims"


def test_every_control_and_chart_has_a_name(opened):
    for view in VIEWS:
        opened.open(view)
        unnamed = opened.tab.evaluate(
            "() => [...document.querySelectorAll('#view button, #view select, #view input, #view [role=img]')].filter("
            "one => !(one.getAttribute('aria-label') || one.textContent.trim() || one.labels?.[0]?.textContent.trim())"
            ").map(one => one.outerHTML)"
        )
        assert not unnamed, view


def test_any_run_and_padding_beside_full_attention_and_the_paper(opened, page):
    opened.choose("run", "w12s12-1kv")
    opened.check("in-sequence padding")
    label = page.results.models["w12s12-1kv"].label()
    measured = accuracy(page, "w12s12-1kv", "in_sequence")
    np.testing.assert_allclose(opened.column(label), measured, atol=0.006)
    np.testing.assert_allclose([y for _, y in opened.drawn(label)], measured, atol=1e-9)
    full = accuracy(page, "full-1kv", "in_sequence")
    np.testing.assert_allclose(opened.column("Full attention · 1 KV (in-sequence padding)"), full, atol=0.006)
    theirs = opened.column(f"published ({paper_numbers.CAPTION})")
    np.testing.assert_allclose(theirs, paper_numbers.profile("w12s12-1kv", "in_sequence"), atol=0.006)
    assert "model=w12s12-1kv&padding=in_sequence" in opened.tab.url


def test_another_run_can_be_compared_and_curves_taken_off(opened, page):
    opened.choose("compare with", "w8s4-1kv")
    label = page.results.models["w8s4-1kv"].label()
    np.testing.assert_allclose([y for _, y in opened.drawn(label)], accuracy(page, "w8s4-1kv"), atol=1e-9)
    name = f"published ({paper_numbers.CAPTION})"
    assert opened.drawn(name)
    opened.tab.get_by_label("published curve").uncheck()
    assert not opened.drawn(name)


def test_periods_fold(opened, page):
    label = page.results.models["w8s8-1kv"].label()
    opened.check("folded (mean)")
    np.testing.assert_allclose(opened.column(label), statistics.fold(accuracy(page, "w8s8-1kv"), 8), atol=0.006)
    opened.check("periods overlaid")
    for cycle in range(3):
        shown = opened.column(f"{label}, period {cycle + 1}")
        np.testing.assert_allclose(shown, accuracy(page, "w8s8-1kv")[8 * cycle : 8 * cycle + 8], atol=0.006)


def test_what_was_not_run_says_so_and_is_no_zero(opened, page):
    opened.choose("run", NOT_LOOKED_UP)
    assert "not run" in opened.tab.inner_text("#view .notrun")
    assert not opened.drawn(page.results.models[NOT_LOOKED_UP].label())
    assert opened.drawn(f"published ({paper_numbers.CAPTION})")


def test_an_address_leads_back(opened, page):
    opened.tab.goto(f"{page.file.as_uri()}#knockouts&model=w8s4-1kv&padding=in_sequence")
    assert opened.tab.locator("#tab-knockouts").get_attribute("aria-selected") == "true"
    assert opened.tab.get_by_label("run", exact=True).input_value() == "w8s4-1kv"


def changes(page, model, place, period, padding="prefix"):
    knocked = statistics.profile(page.results.knockouts[model, padding][place])
    clean = accuracy(page, model, padding)
    return np.where(phase_losses.retrievable(clean, period), phase_losses.change(clean, knocked, period), np.nan)


def shown_as(values, expected, atol):
    """Equal where both are numbers, and missing at the same places."""
    np.testing.assert_allclose(np.array(values, dtype=float), expected, atol=atol)


def test_a_row_of_the_knockout_map_shows_its_losses(opened, page):
    opened.open("knockouts")
    opened.choose("run", "w8s8-4kv")
    places = sorted(page.results.knockouts["w8s8-4kv", "prefix"])
    for place, row in zip(places, opened.cells(), strict=True):
        shown_as(row, changes(page, "w8s8-4kv", place, 8), 0.51)
    opened.tab.click("[data-key='1.2']")
    shown_as(opened.column("change (%)"), changes(page, "w8s8-4kv", (1, 2), 8), 0.006)
    knocked = statistics.profile(page.results.knockouts["w8s8-4kv", "prefix"][1, 2])
    shown_as(opened.column("without it"), statistics.fold(knocked, 8), 0.006)
    opened.tab.keyboard.press("ArrowUp")
    shown_as(opened.column("change (%)"), changes(page, "w8s8-4kv", (1, 1), 8), 0.006)
    opened.tab.click(f"[data-key='1.{WHOLE_LAYER}']")
    shown_as(opened.column("change (%)"), changes(page, "w8s8-4kv", (1, WHOLE_LAYER), 8), 0.006)


def test_knockouts_at_all_positions_and_the_published_layer(opened, page):
    opened.open("knockouts")
    opened.tab.click("[data-key='1.0']")
    opened.choose("lay over", "14")
    theirs = paper_numbers.by_model("knockout_percent_by_phase")["w8s8-1kv"]["14"]
    shown_as(opened.column("published"), theirs, 0.06)
    opened.tab.get_by_label("all", exact=True).check()
    shown_as(opened.column("change (%)"), changes(page, "w8s8-1kv", (1, 0), 24), 0.006)


def test_training_is_replayed_on_the_plane_of_concentration(opened, page):
    opened.open("concentration")
    table = page.results.gates["w8s8-1kv"]
    slider = opened.tab.get_by_role("slider")
    for index, step in enumerate(sorted(table["step"].unique())):
        slider.fill(str(index))
        expected = table[(table["step"] == step) & (table["branch"] == "key") & (table["offset"] == 0)]
        expected = expected.sort_values(["layer", "head"])[["static", "per_window"]]
        np.testing.assert_allclose(opened.drawn("gates"), expected, atol=1e-3)
    opened.tab.get_by_role("button", name="Replay training").click()
    assert slider.input_value() == "0"
    expect(slider).to_have_value("2", timeout=10_000)
    published_points = paper_numbers.by_model("effective_offsets_static_and_per_window")["w8s8-1kv"]
    np.testing.assert_allclose(opened.drawn("published"), list(published_points.values()))


def test_gates_stand_beside_knockouts(opened, page):
    opened.open("gates")
    opened.choose("run", "w8s4-1kv")
    row = page.results.models["w8s4-1kv"]
    preferences = gate_preferences.by_phase(gate_preferences.final(page.results.gates["w8s4-1kv"]), row)
    for branch in ("key", "value"):
        opened.check(branch)
        of_branch = preferences[preferences["branch"] == branch]
        for layer, shown in enumerate(opened.cells()):
            expected = of_branch[of_branch["layer"] == layer].sort_values("phase")["preference"]
            np.testing.assert_allclose(shown[:4], expected, atol=0.051)
            shown_as(shown[4:], changes(page, "w8s4-1kv", (layer, 0), 4), 0.51)
    opened.tab.click("[data-key='0.0']")
    shown_as(opened.column("knockout (%)"), changes(page, "w8s4-1kv", (0, 0), 4), 0.006)


def test_the_slider_cycles_the_gates(opened, page):
    opened.open("cycling")
    opened.choose("run", "w12s12-1kv")
    slider = opened.tab.get_by_role("slider")
    for index, shift in enumerate((-3, -2, -1, 0, 1, 2, 3)):
        slider.fill(str(index))
        if shift == 0:
            assert "not cycled" in opened.tab.inner_text("#view [role=status]")
            continue
        cycled = page.results.cycles["w12s12-1kv"][shift]
        compared = cycling_prediction.compare(
            page.results.outcomes["w12s12-1kv", "prefix"][: len(cycled)], cycled, shift, 12
        )
        for name, column in (("observed", "observed"), ("predicted", "predicted"), ("not cycled", "clean")):
            np.testing.assert_allclose(opened.column(name), compared[column], atol=0.006)
        np.testing.assert_allclose(
            opened.drawn("phases", 1), compared[["predicted_change", "observed_change"]], atol=2e-4
        )
    opened.tab.click("[data-cycle='w8s8-1kv/-1']")
    cycled = page.results.cycles["w8s8-1kv"][-1]
    compared = cycling_prediction.compare(page.results.outcomes["w8s8-1kv", "prefix"][: len(cycled)], cycled, -1, 8)
    np.testing.assert_allclose(opened.column("observed"), compared["observed"], atol=0.006)
    assert opened.tab.get_by_label("run", exact=True).input_value() == "w8s8-1kv"


def test_prepended_tokens_move_offsets_and_scores(opened, page):
    opened.open("window")
    table = gate_preferences.final(page.results.gates["w8s8-1kv"])
    scores = table[(table["layer"] == 1) & (table["branch"] == "value")].sort_values("offset")["score"].to_numpy()
    gate = next(
        at
        for at, one in enumerate(page.data["gates"]["w8s8-1kv"]["gates"])
        if (one["layer"], one["branch"]) == (1, "value")
    )
    opened.choose("gate", str(gate))
    assert opened.table()[0][1:] == [f"{score:.4f}" for score in scores]
    for prepended in range(8):
        opened.tab.click(f"[data-shift='{prepended}']")
        offset, window = (2 + prepended) % 8, (2 + prepended) // 8
        says = opened.tab.inner_text("#view [role=status]")
        assert f"position {2 + prepended}, phase {offset}: offset {offset} of window {window}" in says
        assert f"mean score {scores[offset]:.3f}" in says
        assert opened.tab.locator(":focus").get_attribute("data-shift") == str(prepended)
    opened.tab.click("[data-token='0.0']")
    assert opened.tab.locator("[data-token='0.0']").get_attribute("aria-pressed") == "true"
    assert f"position 7, phase 7: offset 7 of window 0, mean score {scores[7]:.3f}" in opened.tab.inner_text(
        "#view [role=status]"
    )


def test_windows_that_overlap_hold_a_token_twice(opened, page):
    opened.open("window")
    opened.choose("run", "w8s4-1kv-deepseek-scalar")  # its first window begins four tokens before the text
    assert "offset 6 of window 0" in opened.tab.inner_text("#view [role=status]")
    assert "offset 2 of window 1" in opened.tab.inner_text("#view [role=status]")


def test_the_completion_strip_is_measured_or_labelled_as_published(opened, page):
    opened.open("deepseek")
    assert "measured here" in opened.tab.inner_text("#completion-source")
    table = page.results.completions[COMPLETED]
    shown = np.exp(table["first_logprob"])
    np.testing.assert_allclose(opened.column("P(8)"), shown, atol=6e-4)
    assert opened.column("P(32)")[1] is None
    opened.choose("model and filler", "flash-base/")
    assert "published; not run here" in opened.tab.inner_text("#completion-source")
    theirs = paper_numbers.code_completion("flash-base")
    np.testing.assert_allclose(opened.column("P(8)"), theirs["first"], atol=6e-4)
    opened.tab.get_by_label("docstring length L").fill("3")
    assert opened.tab.inner_text("#p8") == f"{theirs['first'][3]:.3f}"
    opened.tab.click("[data-length='30']")
    assert opened.tab.inner_text("#p8") == f"{theirs['first'][6]:.3f}"
    opened.tab.keyboard.press("ArrowRight")
    assert opened.tab.inner_text("#p8") == f"{theirs['first'][7]:.3f}"


def test_the_needle_is_shown_by_residue(opened, page):
    opened.open("deepseek")
    outcomes = page.results.needles["stand-in"]
    opened.choose("model", "stand-in")
    np.testing.assert_allclose(opened.column("accuracy", 1), statistics.profile(outcomes), atol=0.006)
    correct, n = paper_numbers.needle("pro-base")
    opened.choose("model", "pro-base/published")
    np.testing.assert_allclose(opened.column("accuracy", 1), 100 * correct / n, atol=0.006)


def test_all_claims_stand_in_one_table_first_each_with_the_words_of_claims_md(opened, page):
    opened.open("claims")
    rows = opened.tab.locator("#view table.screen tbody tr:has(td)")
    assert rows.count() == len(page.data["claims"])
    shown = [rows.nth(at).locator("td").all_inner_texts() for at in range(rows.count())]
    report = to_markdown(tables.read(page.layout.claims("parquet"), "claims"))
    for verdict, *words in shown:
        status = verdict.split(maxsplit=1)[1]
        assert f"| {words[0]} | {status} | {words[1]} | {words[2]} |" in report


def test_claims_show_verdict_figure_and_links(opened, page):
    opened.open("claims")
    articles = opened.tab.locator("#view article")
    assert articles.count() == len(page.data["claims"])
    claim = next(claim for claim in page.data["claims"] if claim["id"] == "full-attention-is-flat")
    article = opened.tab.locator(f"#claim-{claim['id']}")
    for text in ("✓ holds", claim["text"], claim["value"], claim["published"], "figures/figure_2.png"):
        assert text in article.inner_text()
    assert article.locator("a").first.get_attribute("href") == "figures/figure_2.png"
    article.locator("summary").click()
    article.locator("table.data").wait_for()  # drawn when it is unfolded
    assert [row[0] for row in opened.table()] == [part["label"] for part in claim["parts"]]
    fails = [claim for claim in page.data["claims"] if claim["status"] == "fails"]
    opened.tab.get_by_label(f"✗ fails ({len(fails)})").check()
    assert articles.count() == len(fails)


def test_text_of_the_data_stays_text(opened):
    opened.open("claims")
    assert NASTY in opened.tab.text_content("#claim-seeds-agree")
    assert opened.tab.evaluate("window.broken") is None


def test_the_first_view_is_there_within_a_second(opened, page):
    def seconds() -> float:
        opened.tab.goto("about:blank")
        begun = time.perf_counter()
        opened.tab.goto(page.file.as_uri())
        opened.tab.wait_for_selector("#view .chart svg path", state="attached")
        return time.perf_counter() - begun

    quickest = min(seconds() for _ in range(5))  # of several, since other programs run beside the tests
    opened.requests[:] = (
        [page.file.as_uri()] if set(opened.requests) <= {page.file.as_uri(), "about:blank"} else opened.requests
    )
    assert quickest < 1


def test_charts_follow_the_systems_light_or_dark(opened):
    opened.tab.emulate_media(color_scheme="dark")
    background = opened.tab.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert background == "rgb(20, 23, 27)"
    # the chart is drawn again when the browser has told the page
    opened.tab.wait_for_function(
        "echarts.getInstanceByDom(document.querySelector('#view .chart'))"
        ".getOption().xAxis[0].axisLabel.color === '#a0a9b3'"
    )
