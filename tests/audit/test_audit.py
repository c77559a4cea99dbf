"""The whole audit on backends whose weak spots are planted."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from program_readers import Reader, serving, word_tokenizer

from weakspots.audit import Report, audit
from weakspots.cli import main
from weakspots.errors import UserError

TOKENIZER = word_tokenizer()
SETTING = {"records": 6, "demonstrations": 3}


def asked(backend: Reader, **question: object) -> Report:
    return audit(backend, TOKENIZER, **{"strides": (4,), "budget": 1200, **SETTING, **question})


def test_a_flat_model_is_flat_and_most_of_its_noise_is_not_taken_for_a_gap() -> None:
    report = asked(Reader(), strides=(8,), max_gap=2)
    judged = report.lengths[0].judged[0]
    assert judged.status in ("flat", "unsettled") and not any(finding.found for finding in judged.findings)
    assert judged.of("needle").gap > 2 and judged.of("needle").gap_low == 0  # noise alone is larger than the limit
    assert report.exit_status == 0 and "No periodic weak spot" in report.verdict


@pytest.mark.parametrize("period", [2, 4, 8])
@pytest.mark.parametrize("tail", [False, True], ids=["needle", "tail"])
def test_a_planted_period_is_found_and_told_from_its_multiples_and_from_the_other_phase(period, tail) -> None:
    backend = Reader(lambda at, length, luck: (length if tail else at) % period == 1 and luck < 0.9)
    report = asked(backend)
    judged = report.lengths[0].judged[0]
    kind, other = ("tail", "needle") if tail else ("needle", "tail")
    assert judged.of(kind).found and judged.of(kind).period == period and judged.of(kind).worst.phase == 1
    assert not judged.of(other).found
    assert f"modulo {period}" in report.verdict
    follows = "prompt's length, not the needle's" if tail else "needle's position, not the prompt's"
    assert follows in str(report)


def test_a_gap_is_settled_early_and_fails_the_limit_only_if_it_is_surely_larger() -> None:
    weak = Reader(lambda at, length, luck: at % 4 == 2)
    report = asked(weak, max_gap=5, budget=4000)
    assert report.exit_status == 3 and report.lengths[0].prompts < 2000
    assert report.lengths[0].judged[0].of("needle").gap_low > 5
    # the same weakness, and a limit that it keeps
    assert asked(weak, max_gap=60).exit_status == 0


def test_all_mappings_right_except_at_one_phase_has_no_variance_and_is_found() -> None:
    report = asked(Reader(lambda at, length, luck: at % 4 == 3, noise=0, constant=0))
    judged = report.lengths[0].judged[0]
    assert judged.of("needle").period == 4 and judged.worst == 0 and judged.of("needle").gap_low > 50


def test_long_strides_are_asked_in_an_approximate_design_that_reports_its_moments() -> None:
    report = asked(Reader(lambda at, length, luck: at % 32 < 8), strides=(32,), budget=1600)
    length = report.lengths[0]
    assert length.judged[0].of("needle").period == 32 and not length.exact_moments
    means = [row["mean"] for row in length.moments]
    error = max(row["deviation"] for row in length.moments) / (length.prompts / 16) ** 0.5  # of one phase's mean
    assert len(means) == 16 and max(means) - min(means) < 6 * error


def test_a_trend_over_the_length_is_no_period_of_it() -> None:
    """Worse by 40 points within the lengths of the design, 67 to 97 tokens; also with periods of up to 128 scanned."""

    def straight(at: int, length: int, luck: float) -> bool:
        return luck < 0.4 * (length - 60) / 30

    def bent(at: int, length: int, luck: float) -> bool:
        return luck < 0.5 * max(0, length - 82) / 15

    def long(at: int, length: int, luck: float) -> bool:
        return luck < 0.4 * (length - 300) / 300

    for fails, strides in ((straight, (8,)), (bent, (8,)), (long, "auto")):
        length = asked(Reader(fails), strides=strides, budget=3000).lengths[0]
        assert not any(one.found for one in length.judged[0].findings)


def test_naming_any_of_the_records_is_the_floor_and_no_flat_model() -> None:
    """Half of the answers right, with two records in a prompt, is what a model has that looks nothing up."""
    guessing = Reader(lambda at, length, luck: luck < 0.5, noise=0, constant=0)
    report = asked(guessing, records=2, demonstrations=1, max_gap=5)
    assert report.lengths[0].judged[0].status == "floor" and report.exit_status == 4
    assert "naming any of 2 records: 50 %" in report.verdict
    better = Reader(lambda at, length, luck: luck < 0.3, noise=0, constant=0)
    assert asked(better, records=2, demonstrations=1).lengths[0].judged[0].status != "floor"


def test_a_limit_is_judged_beside_another_backend_as_without_it() -> None:
    faulty, healthy = Reader(broken_lengths, name="faulty"), Reader(slightly_other, name="healthy")
    report = asked(faulty, compare=healthy, budget=4000, max_gap=5)
    assert report.exit_status == 3 and report.lengths[0].whose == "server"
    assert "follows the prompt's length" in str(report)
    assert asked(healthy, compare=Reader(slightly_other, name="twin"), max_gap=20).exit_status == 0


def test_a_backend_that_is_never_right_gives_no_verdict_about_either() -> None:
    dead, healthy = Reader(lambda at, length, luck: True, name="dead"), Reader(slightly_other, name="healthy")
    length = asked(dead, compare=healthy).lengths[0]
    assert length.whose == "unclear" and "too few answers of dead are right" in length.attribution


def test_a_confidence_that_no_test_could_reach_is_refused() -> None:
    with pytest.raises(UserError, match="confidence 0.999 leaves each"):
        asked(Reader(), confidence=0.999, lengths=tuple(range(100, 112)))


def test_several_lengths_share_the_budget_and_have_a_verdict_each() -> None:
    backend = Reader(lambda at, length, luck: length > 150 and at % 4 == 0)
    report = asked(backend, lengths=(90, 200), budget=2000)
    assert [length.setting.length for length in report.lengths] == [90, 200]
    assert "At 90 tokens: No periodic" in report.verdict and "At 200 tokens: Accuracy depends" in report.verdict
    assert backend.asked <= 2000


def test_no_more_prompts_are_asked_than_the_budget_holds_search_included() -> None:
    backend = Reader()
    report = audit(backend, TOKENIZER, strides=(4,), budget=300)
    assert backend.asked <= 300 and report.lengths[0].tried
    with pytest.raises(UserError, match="budget of 20 prompts.*give at least"):
        audit(backend, TOKENIZER, strides=(4,), budget=20)


def test_at_the_floor_there_is_no_verdict() -> None:
    report = asked(Reader(lambda at, length, luck: True), max_gap=5)
    assert report.lengths[0].judged[0].status == "floor" and report.exit_status == 4
    assert report.verdict.startswith("No verdict")


def broken_lengths(at: int, length: int, luck: float) -> bool:
    """What a server does that handles prompts of 4 k + 3 tokens wrongly; and one answer in fifty is another anyway."""
    return length % 4 == 3 or luck < 0.02


def slightly_other(at: int, length: int, luck: float) -> bool:
    """The same model with other arithmetic."""
    return luck < 0.02


def test_a_fault_of_one_backend_is_told_from_a_weakness_of_the_model() -> None:
    healthy, faulty = Reader(slightly_other, name="healthy"), Reader(broken_lengths, name="faulty")
    for pair, worse in (((faulty, healthy), 0), ((healthy, faulty), 1)):
        length = asked(pair[0], compare=pair[1]).lengths[0]
        assert length.whose == "server" and "fault of faulty alone" in length.attribution
        assert length.settled and length.prompts < length.prompts_planned  # nothing more is asked then
        assert (length.paired.worse, length.paired.kind, length.paired.period, length.paired.phase) == (
            worse,
            "tail",
            4,
            3,
        )

    weak = [Reader(lambda at, length, luck: at % 4 == 1 or luck < 0.02, name=name) for name in ("one", "other")]
    length = asked(weak[0], compare=weak[1]).lengths[0]
    assert length.whose == "model" and not length.paired.found and 0 < length.paired.disagreement < 10

    flat = [Reader(slightly_other, name=name) for name in ("one", "other")]
    assert asked(flat[0], compare=flat[1]).lengths[0].whose == "none"

    besides = Reader(lambda at, length, luck: at % 4 == 1 or length % 4 == 3, name="besides")
    assert asked(weak[0], compare=besides).lengths[0].whose == "both"


def test_the_command_names_a_server_that_corrupts_prompts_of_some_lengths(tmp_path: Path, capsys) -> None:
    TOKENIZER.save_pretrained(tmp_path / "tokenizer")
    with serving(Reader(broken_lengths), TOKENIZER) as faulty, serving(Reader(), TOKENIZER) as healthy:
        common = ["--model", "m", "--tokenizer", str(tmp_path / "tokenizer"), "--stride", "4", "--records", "6"]
        common += ["--demonstrations", "3", "--budget", "300", "--output", str(tmp_path / "out")]
        status = main.main(["audit", "--endpoint", faulty, "--compare", healthy, *common])
        shown = capsys.readouterr().out
        assert status == 0 and f"A fault of m at {faulty}/completions" in shown and "phase 3 modulo 4" in shown
        assert "follows the prompt's length, not the needle's position" in shown
        found = json.loads((tmp_path / "out/report.json").read_text())
        assert found["lengths"][0]["whose"] == "server" and found["verdict"] in shown
        page = (tmp_path / "out/report.html").read_text()
        assert "data:image/png;base64," in page and not re.search(r"(src|href)='http", page)
        assert (tmp_path / "out/accuracy.png").stat().st_size > 5000

        assert main.main(["audit", "--endpoint", faulty, *common, "--max-gap", "5"]) == 3
        assert main.main(["audit", "--endpoint", healthy, *common, "--max-gap", "5"]) == 0


@pytest.mark.parametrize(
    ("setting", "value"),
    [("MPLBACKEND", "module://ipympl.backend_nbagg"), ("MPLBACKEND", "pgf"), ("MATPLOTLIBRC", "text.usetex: True\n")],
)
def test_a_persons_settings_for_figures_cost_no_verdict(tmp_path: Path, setting: str, value: str) -> None:
    TOKENIZER.save_pretrained(tmp_path / "tokenizer")
    if setting == "MATPLOTLIBRC":
        (tmp_path / "matplotlibrc").write_text(value)
        value = str(tmp_path / "matplotlibrc")
    with serving(Reader(lambda at, length, luck: at % 4 == 1), TOKENIZER) as url:
        command = [sys.executable, "-m", "weakspots.cli", "audit", "--endpoint", url, "--model", "m", "--stride", "4"]
        command += ["--tokenizer", str(tmp_path / "tokenizer"), "--records", "6", "--demonstrations", "3"]
        command += ["--budget", "200", "--max-gap", "5", "--output", str(tmp_path / "out")]
        done = subprocess.run(command, env={**os.environ, setting: value}, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert "modulo 4" in done.stdout
    assert (tmp_path / "out/accuracy.png").stat().st_size > 5000


def test_a_figure_that_cannot_be_drawn_costs_a_warning(tmp_path: Path, capsys, monkeypatch) -> None:
    TOKENIZER.save_pretrained(tmp_path / "tokenizer")

    def broken(report: Report) -> None:
        raise RuntimeError("no pen")

    monkeypatch.setattr("weakspots.audit.figure.draw", broken)
    with serving(Reader(lambda at, length, luck: at % 4 == 1), TOKENIZER) as url:
        common = ["--model", "m", "--tokenizer", str(tmp_path / "tokenizer"), "--stride", "4", "--records", "6"]
        common += ["--demonstrations", "3", "--budget", "200", "--max-gap", "5", "--output", str(tmp_path / "out")]
        assert main.main(["audit", "--endpoint", url, *common]) == 3
    said = capsys.readouterr()
    assert "modulo 4" in said.out and "no pen" in said.err
    assert json.loads((tmp_path / "out/report.json").read_text())["verdict"] in said.out


def test_the_cost_is_told_before_anything_is_asked(tmp_path: Path, capsys) -> None:
    TOKENIZER.save_pretrained(tmp_path)
    status = main.main(
        ["audit", "--endpoint", "http://127.0.0.1:9/v1", "--model", "m", "--tokenizer", str(tmp_path), "--dry-run"]
    )
    shown = capsys.readouterr().out
    assert status == 0 and re.search(
        r"\d+ prompts of up to \d+ tokens \([\d,]+ tokens\) show a gap of 10 points", shown
    )


@pytest.mark.parametrize(
    "wrong, said",
    [
        ([], "name one thing to audit"),
        (["nowhere/at/all"], "is no folder with a model"),
        (["--endpoint", "http://127.0.0.1:9/v1"], "by --model"),
        (["--endpoint", "http://127.0.0.1:9/v1", "--model", "m"], "--tokenizer"),
        (["x", "--stride", "four"], "numbers of tokens, or auto alone"),
        (["x", "--max-gap", "500"], "percentage points"),
        (["x", "--confidence", "95"], "a probability"),
        (["--endpoint", "http://h/v1", "--model", "m", "--extra", "{"], "no JSON object"),
        (
            [
                "--endpoint",
                "http://h/v1",
                "--model",
                "m",
                "--tokenizer",
                "{tokenizer}",
                "--length",
                "12",
                "--stride",
                "4",
            ],
            "raise the length by 13",
        ),
        (["--endpoint", "http://h/v1", "--model", "m", "--tokenizer", "{tokenizer}", "--stride", "1"], "from 2 on"),
        (["--endpoint", "http://h/v1", "--model", "m", "--tokenizer", "{tokenizer}", "--budget", "9"], "give at least"),
    ],
)
def test_a_mistake_is_told_in_two_lines_at_most(tmp_path: Path, capsys, wrong: list[str], said: str) -> None:
    TOKENIZER.save_pretrained(tmp_path)
    status = main.main(
        ["audit", *(part.replace("{tokenizer}", str(tmp_path)) for part in wrong), "--output", str(tmp_path)]
    )
    error = capsys.readouterr().err
    lines = [line for line in error.splitlines() if "error" in line or "Traceback" in line]
    assert status == 1 and said in error and len(lines) == 1 and "Traceback" not in error
