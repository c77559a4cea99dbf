"""docs/extending.md walked through: a new compressor is one file and one row, and no other file changes."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

from weakspots import config
from weakspots.workflow.layout import Layout

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/extending.md").read_text().partition("## A row: a new compressor")[2].partition("\n## ")[0]
SOURCE = re.search(r"```python\n(.*?)```", GUIDE, re.S)[1]
ROW = yaml.safe_load(re.search(r"```yaml\n(.*?)```", GUIDE, re.S)[1])["models"]
MODEL = "w8s8-1kv-ends"

DECODES = """
import sys
import torch
from weakspots.mechanism.all_knockouts import final_states, knockouts
from weakspots.mechanism.knockout import knocked_out, mean_outputs
from weakspots.model.loading import load_trained

model, _ = load_trained(sys.argv[1])
tokens = torch.randint(0, model.config.vocab_size, (3, 45), generator=torch.Generator().manual_seed(0))
with torch.inference_mode():
    whole, cache, pieces = model(tokens).logits, model.new_cache(), []
    for piece in tokens.split(7, dim=1):
        pieces.append(model(piece, cache=cache).logits)
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-5, rtol=1e-5)
    assert {layer.keys.shape[2] for layer in cache.layers} == {45 // 8}

    for length in range(38, 46):  # every remainder modulo the stride
        means = mean_outputs(model, tokens[:, :length])
        swept = model.lm_head(final_states(model, tokens[:, :length], means))
        for number, (layer, head) in enumerate(knockouts(model), 1):
            with knocked_out(model, layer, head, means):
                naive = model(tokens[:, :length]).logits[:, -1]
            torch.testing.assert_close(swept[:, number], naive, atol=1e-5, rtol=1e-5)

    entry = model.layers[0].attention.compressor(torch.eye(64)[None, :8, :].clone())[0]
    changed = torch.eye(64)[None, :8, :].clone()
    changed[:, 1:7] = 7  # only the ends of the window count
    assert torch.equal(model.layers[0].attention.compressor(changed)[0], entry)
print("decodes")
"""


def digests(package: Path) -> dict[str, str]:
    files = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {str(path.relative_to(package)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


class Walk:
    """A copy of the package with the guide's file in it, and a scale with the guide's row."""

    def __init__(self, folder: Path):
        self.folder = folder
        shutil.copytree(ROOT / "src/weakspots", folder / "weakspots", ignore=shutil.ignore_patterns("__pycache__"))
        self.before = digests(folder / "weakspots")
        (folder / "weakspots/compressors/ends.py").write_text(SOURCE)
        (folder / "mine.yaml").write_text(yaml.safe_dump({"models": ROW}))
        data = yaml.safe_load((ROOT / "config.yaml").read_text())
        data = config.merge(data, yaml.safe_load((ROOT / "workflow/scales/smoke.yaml").read_text()))
        data["backbone"] |= {"layers": 2, "width": 64}
        data["corpora"]["recall"]["stages"][-1]["length"] = 96  # an audit asks no longer texts than were trained on
        data["corpora"]["recall"]["models"] = [MODEL]
        data["corpora"]["recall"]["training"]["checkpoint_steps"] = [6]
        data["corpora"]["prose"] = None
        data["cycling"]["models"] = []
        data["models"] = ROW
        self.layout = Layout(str(folder / "results/mine"))
        Path(self.layout.root).mkdir(parents=True)
        Path(self.layout.config).write_text(yaml.safe_dump(data))

    def python(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(self.folder), "MLFLOW_TRACKING_URI": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
        return done.stdout

    def stage(self, name: str, *arguments: str) -> str:
        return self.python("-m", "weakspots.cli", name, *arguments, "--config", self.layout.config)


@pytest.fixture(scope="module")
def walk(tmp_path_factory) -> Walk:
    walk = Walk(tmp_path_factory.mktemp("new"))
    walk.stage("data", "recall")
    walk.stage("train", "recall", MODEL)
    walk.stage("lookup", MODEL)
    return walk


def test_it_is_one_short_file_and_no_other_changes(walk):
    assert len(SOURCE.splitlines()) <= 60
    after = digests(walk.folder / "weakspots")
    assert after.keys() - walk.before.keys() == {"compressors/ends.py"}
    assert walk.before.items() <= after.items()


def test_it_is_trained_looked_up_and_knocked_out(walk):
    for padding in ("prefix", "in_sequence"):
        lookup = pd.read_parquet(walk.layout.lookup(MODEL, padding))
        knockout = pd.read_parquet(walk.layout.knockout(MODEL, padding))
        assert len(lookup) == 64 * 8 and lookup["answer_rank"].notna().all()
        assert set(knockout["layer"]) == {0, 1}
    assert pd.read_parquet(walk.layout.gates("recall", MODEL)).empty  # its offsets have no scores


def test_decoding_and_knockouts_equal_the_whole_text(walk):
    assert "decodes" in walk.python("-c", DECODES, walk.layout.model("recall", MODEL))


def test_it_is_planned_with_what_it_learns(walk):
    text = walk.python(
        "-m", "weakspots.cli", "plan", "--configfile", str(walk.folder / "mine.yaml"), "--models", MODEL, "--markdown"
    )
    assert "W8/S8 · 1 KV · ends" in text
    # 2 layers, width 64, one map of 64 x 2 vectors of 16 channels instead of 8 of them and their gates
    program = (
        "from weakspots.config import load; from weakspots.planning.counts import parameters_by_part as parts;"
        f"c = load('config.yaml', {str(walk.folder / 'mine.yaml')!r});"
        f"print(parts(c.models[{MODEL!r}], c.backbone, 161)['compressor'])"
    )
    assert int(walk.python("-c", program)) == 2 * 64 * 2 * 16


def test_it_is_audited(walk):
    asked = ("--stride", "8", "--records", "2", "--demonstrations", "1", "--gap", "60", "--budget", "300")
    folder = walk.folder / "audit"
    text = walk.python(
        "-m", "weakspots.cli", "audit", walk.layout.model("recall", MODEL), *asked, "--output", str(folder)
    )
    assert "needle phase modulo 8" in text and "W8/S8" not in text  # by its prompts alone
    assert any(folder.rglob("*.html"))
    program = "from weakspots.model_table import model_row; print(model_row(compressor='ends').label())"
    assert walk.python("-c", program).strip() == "W8/S8 · 1 KV · ends"


def test_only_its_own_rows_depend_on_its_file(walk):
    program = (
        "import sys; from weakspots.config import load; from weakspots.workflow.stage_dependencies import *;"
        f"c = load('config.yaml', {str(walk.folder / 'mine.yaml')!r});"
        f"print(*(train_settings(c, 'recall', name)['compressor'] for name in ({MODEL!r}, 'w8s8-1kv')),"
        "stage_digest('train'), stage_digest('lookup'))"
    )
    before = walk.python("-c", program).split()
    file = walk.folder / "weakspots/compressors/ends.py"
    try:
        file.write_text(SOURCE + "\n# an edit\n")
        after = walk.python("-c", program).split()
    finally:
        file.write_text(SOURCE)
    assert before[0] != after[0] and before[1:] == after[1:]
