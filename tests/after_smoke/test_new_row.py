"""A compressor of one's own, as docs/extending.md adds it: one row in an overlay, one command, nothing else.

Needs the results of the smoke scale: `make test` runs this after it has made them.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from weakspots.config import load

ROOT = Path(__file__).parents[2]
SMOKE = Path("workflow/scales/smoke.yaml")
RESULTS = ROOT / "results/smoke"
MINE = "w6s4-1kv"


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """The output of the one command, after a row was added to the results of the smoke scale."""
    if not (RESULTS / "SUMMARY.md").exists():
        pytest.skip("the smoke scale has not been run here: snakemake --configfile workflow/scales/smoke.yaml")
    trained = load(ROOT / "config.yaml", ROOT / SMOKE).corpora["recall"].models
    overlay = tmp_path_factory.mktemp("mine") / "mine.yaml"
    row = {"models": {MINE: {"window": 6, "stride": 4}}, "corpora": {"recall": {"models": [*trained, MINE]}}}
    overlay.write_text(yaml.safe_dump(row))
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--configfile", SMOKE, overlay],
        cwd=ROOT,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr + done.stdout


def test_only_the_new_row_is_trained_and_asked(log):
    for rule in ("train_model", "lookup_model"):
        assert log.count(f"rule {rule}:") == 1
    assert not re.search(r"rule (data|stand_in|needle_model|theory|cycling_model):", log)
    assert (RESULTS / "models/recall" / MINE / "model.safetensors").exists()


def test_it_appears_in_claims_figures_and_explorer(log):
    verdicts = pd.read_parquet(RESULTS / "claims.parquet")
    about_it = verdicts[verdicts["model"] == MINE]
    assert {"accuracy-repeats-with-the-stride", "with-overlapping-windows"} <= set(about_it["claim"])
    assert "W6/S4" in (RESULTS / "figures/figure_2.svg").read_text()
    assert f'"{MINE}"' in (RESULTS / "explorer.html").read_text()
