"""The stages on a stand-in as it is before training: what they write agrees."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from weakspots import config
from weakspots.cli import main
from weakspots.data.tokenization import build_tokenizer
from weakspots.deepseek import standin
from weakspots.deepseek.needle import Prompts
from weakspots.files import tables
from weakspots.files.hashes import config_hash
from weakspots.model.loading import load
from weakspots.workflow import stage_dependencies
from weakspots.workflow.layout import Layout

ROOT = Path(__file__).parents[2]
CHANGED = {
    "models": {"stand-in": {"stand_in": {"layers": ["compressed_sparse_attention", "sliding_attention"]}}},
    "needle": {"prompts_per_residue": 64},
    "layer_knockout": {"prompts_per_residue": 64, "calibration": 20, "chunk_tokens": 50},
    "stand_in": {"width": 16, "heads": 1, "head_width": 16},
}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """The folder of a scale in which an untrained stand-in has been asked both."""
    below = yaml.safe_load((ROOT / "config.yaml").read_text())
    settings = config.parse(config.merge(below, {"deepseek": CHANGED}))
    path = tmp_path_factory.mktemp("asked") / "config.yaml"
    config.write(settings, path)
    layout = Layout.beside(path)
    tokenizer = build_tokenizer(settings.corpora["recall"])
    torch.manual_seed(0)
    shape = settings.deepseek.models["stand-in"].stand_in
    model = standin.build(settings.deepseek.stand_in, shape, len(tokenizer), tokenizer.eos_token_id)
    for saved in (model, tokenizer):
        saved.save_pretrained(layout.stand_in("stand-in"))
    for stage in ("needle", "layer-knockout"):
        assert main.main([stage, "stand-in", "--config", str(path), "--log", str(path.parent / "log")]) == 0
    return layout


def test_layer_knockouts_of_no_layer_are_the_needle_itself(asked: Layout) -> None:
    needle = tables.read(asked.deepseek("stand-in", "needle"), "needle")
    knockout = tables.read(asked.deepseek("stand-in", "layer_knockout"), "layer_knockout")
    assert sorted(knockout["layer"].unique()) == [-1, 0, 1]
    clean = knockout[knockout["layer"] == -1].reset_index(drop=True)
    for column in ("mapping", "position", "correct"):
        assert clean[column].equals(needle[column])
    np.testing.assert_allclose(clean["answer_logprob"], needle["answer_logprob"], atol=1e-4)
    changed = knockout[knockout["layer"] == 0]["answer_logprob"].to_numpy()
    assert np.abs(changed - clean["answer_logprob"].to_numpy()).max() > 1e-3


def test_every_row_is_the_answer_to_its_own_prompt(asked: Layout) -> None:
    """A few of them asked again by hand."""
    settings = config.load(asked.config).deepseek
    model, tokenizer = load(asked.stand_in("stand-in"))
    prompts = Prompts(settings.needle, tokenizer)
    table = tables.read(asked.deepseek("stand-in", "needle"), "needle")
    for index in (0, 100, 511):
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor(prompts[index].astype(np.int64))[None]).logits[0, -1]
        answer = prompts.answer(index)
        row = table.iloc[index]
        assert row["answer_logprob"] == pytest.approx(logits.log_softmax(0)[answer].item(), abs=1e-4)
        assert row["answer_rank"] == (logits >= logits[answer]).sum()
        assert (row["position"], row["mapping"]) == (index % 8, index // 8)
        assert row["target_position"] % 8 == row["position"]


def test_a_table_says_what_it_was_made_with(asked: Layout) -> None:
    settings = config.load(asked.config)
    origin = tables.provenance_of(asked.deepseek("stand-in", "needle"))
    assert origin["stage"] == "needle" and origin["seed"] == str(settings.deepseek.needle.seed)
    hashed = stage_dependencies.needle_settings(settings, "stand-in")
    assert origin["config_hash"] == config_hash(hashed)
