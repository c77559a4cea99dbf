"""docs/extending.md walked through on a copy of the package: a padding and a claim of one's own.

A row of one's own is added to a real run in tests/after_smoke.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PADDING_EDITS = {
    "config/measurements.py": [
        ('Padding = Literal["prefix", "in_sequence"]', 'Padding = Literal["prefix", "in_sequence", "pairs"]'),
    ],
    "lookup/prompts.py": [
        (
            "    else:\n        gaps = np.hstack(",
            "    elif padding == 'pairs':  # all filler around the target and its right neighbour\n"
            "        gaps = np.zeros((len(before), size + 1), dtype=np.int64)\n"
            "        gaps[:, target], gaps[:, target + 2] = before, after\n"
            "    else:\n        gaps = np.hstack(",
        )
    ],
    "figures/style.py": [
        ('"in_sequence": _PALETTE[1]', '"in_sequence": _PALETTE[1], "pairs": _PALETTE[3]'),
        (
            '"in_sequence": "in-sequence padding"',
            '"in_sequence": "in-sequence padding", "pairs": "padding around a pair"',
        ),
    ],
}
CLAIM_EDITS = {
    "claims/lookup/weak_positions.py": [
        (
            "CLAIMS: tuple[Claim, ...] = (\n",
            """
REACHED = 50


def _eight_heads_help(results: Results) -> Verdict:
    def measure(results: Results, model: str, padding: str) -> Verdict:
        mean = results.summary(model, padding).loc["mean", "estimate"]
        return finding(results, model, padding, Status.of(mean >= REACHED), f"mean {mean:.1f}")

    asked = runs(results, lambda row: row.compressed and row.kv_heads >= 8, measure)
    return together(asked, f"runs reach {REACHED} %", most_hold)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "eight-heads-help",
        "Eight heads help",
        SECTION,
        f"With 8 KV heads the mean is at least {REACHED} %.",
        _eight_heads_help,
        kinds.LOOKUP,
        lambda: "mean 59.4",
    ),
""",
        )
    ],
}
USE = """
import json, sys
import numpy as np
sys.path.insert(0, {tests!r})
from planted import answers, planted
from weakspots import claims
from weakspots.config import load
from weakspots.explorer import data as page
from weakspots.figures import figure_2
from weakspots.lookup.prompts import prompts, words_in_use
from weakspots.workflow.layout import Layout

config = load("config.yaml", "workflow/scales/smoke.yaml", {overlay!r})
asked = prompts(config.lookup, "pairs", *words_in_use(config.corpora["recall"]))
positions = asked.target_position.reshape(-1, config.lookup.modulus)
assert len(set(positions.mean(0))) == len(set(positions.var(0))) == 1, "moments differ"
results = planted()
profile = [90.0, 30, 75, 50, 85, 40, 60, 10]
for model in list(results.models):
    results.outcomes[model, "pairs"] = answers([70.0] if model.startswith("full") else profile)
table = figure_2.measure(results)
figure_2.draw(table)
frame = claims.to_frame(claims.judge(results))
shown = page.collect(results, Layout({folder!r}))
print(json.dumps({{
    "figure": sorted(set(table["padding"])),
    "verdict": frame[frame["claim"] == "eight-heads-help"].iloc[0]["status"],
    "flat": sorted(set(frame[frame["claim"] == "full-attention-is-flat"]["padding"].dropna())),
    "page": "w8s8-1kv/pairs" in shown["lookups"],
    "name": shown["paddings"]["pairs"],
}}))
"""


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """What the edited copy makes of planted results."""
    folder = tmp_path_factory.mktemp("extended")
    shutil.copytree(ROOT / "src/weakspots", folder / "weakspots", ignore=shutil.ignore_patterns("__pycache__"))
    for edits in (PADDING_EDITS, CLAIM_EDITS):
        for name, changes in edits.items():
            path = folder / "weakspots" / name
            text = path.read_text()
            for old, new in changes:
                assert old in text, f"docs/extending.md speaks of {old!r} in {name}"
                text = text.replace(old, new)
            path.write_text(text)
    overlay = folder / "mine.yaml"
    overlay.write_text("lookup: {paddings: [prefix, in_sequence, pairs]}\n")
    script = USE.format(tests=str(ROOT / "tests"), overlay=str(overlay), folder=str(folder))
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(folder), "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_new_padding_is_asked_with_equal_moments_and_shown_beside_the_others(walked):
    assert walked["figure"] == ["in_sequence", "pairs", "prefix"]
    assert walked["flat"] == ["in_sequence", "prefix"]  # a claim names the paddings it is about
    assert walked["page"] and walked["name"] == "padding around a pair"


def test_a_new_claim_gets_its_verdict(walked):
    assert walked["verdict"] == "holds"
