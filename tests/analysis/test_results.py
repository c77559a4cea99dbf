"""Results are read as far as they have been written."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import yaml
from planted import answers

from weakspots.analysis import results
from weakspots.config import load
from weakspots.errors import UserError
from weakspots.files import tables
from weakspots.files.hashes import config_hash
from weakspots.files.validation import Validation
from weakspots.workflow.stage_dependencies import (
    code_completion_settings,
    layer_knockout_settings,
    lookup_settings,
    needle_settings,
    train_settings,
)


@pytest.fixture
def folder(tmp_path):
    """A scale of three models: one has both lookups and a loss, one has one lookup, one has not been run."""
    training = {
        "steps": 1, "batch_tokens": 64, "learning_rate": 1e-3, "warmup_steps": 0, "decay_fraction": 0,
        "weight_decay": 0, "loss_on": "answers", "validation_sequences": 1,
    }  # fmt: skip
    recall = {
        "source": {"kind": "recall", "keys": 12, "values": 12},
        "tokenizer": {"kind": "words"},
        "stages": [{"length": 32, "sequences": 8, "records": 4}],
        "training": training,
    }
    config = {
        "scale": "tiny",
        "backbone": {"layers": 1, "width": 8, "query_heads": 1, "head_width": 8, "mlp_width": 8, "rope_base": 1e4,
                     "initial_std": 0.02},
        "models": {"full-1kv": {"compressor": "none"}, "w8s4-1kv": {"stride": 4}, "w8s8-1kv": {}},
        "corpora": {"recall": recall},
        "lookup": {"corpus": "recall", "paddings": ["prefix", "in_sequence"], "modulus": 8, "mappings": 64,
                   "records": 6, "demonstrations": 2},
        "cycling": {"models": [], "mappings": 64},
        "deepseek": {
            "models": {
                "served": {"label": "a", "stride": 4, "folder": "somewhere"},
                "nowhere": {"label": "b", "stride": 4},
                "stand-in": {"label": "c", "stride": 4, "stand_in": {"layers": ["compressed_sparse_attention"]}},
            },
            "needle": {
                "models": ["served", "nowhere", "stand-in"], "length": 64, "record": ["{key}", "{value}"], "records": 6,
                "target": 3, "demonstrations": 2, "prompts_per_residue": 64,
            },
            "code_completion": {"models": ["served"]},
            "layer_knockout": {"models": ["stand-in"]},
            "stand_in": {
                "corpus": "recall", "compress_rates": {"compressed_sparse_attention": 4},
                "training": {"steps": 1, "batch_tokens": 64, "learning_rate": 1e-3, "warmup_steps": 0},
            },
        },
        "statistics": {"bootstrap": 150},
    }  # fmt: skip
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    made_with = {"config_hash": config_hash(lookup_settings(load(tmp_path / "config.yaml")))}
    for number, (model, padding) in enumerate(
        [("full-1kv", "prefix"), ("full-1kv", "in_sequence"), ("w8s4-1kv", "prefix")]
    ):
        correct = answers([90.0, 20, 60, 40], modulus=8, mappings=64, seed=number)
        table = pd.DataFrame(
            {
                "mapping": np.repeat(range(64), 8),
                "position": np.tile(range(8), 64),
                "target_position": 0,
                "correct": correct.ravel(),
                "answer_rank": 1,
                "answer_probability": 0.5,
            }
        )
        tables.write(table, tmp_path / "lookup" / model / f"{padding}.parquet", "lookup", made_with)
        if padding == "prefix":
            knocked_out = pd.concat(
                table[["mapping", "position", "correct"]].assign(layer=layer, head=head)
                for layer, head in [(0, 0), (0, -1), (1, 0), (1, -1)]
            )
            tables.write(knocked_out, tmp_path / "knockout" / model / "prefix.parquet", "knockout", made_with)
    loss = tmp_path / "models" / "recall" / "full-1kv" / "validation.json"
    loss.parent.mkdir(parents=True)
    loss.write_text(json.dumps({"loss": 0.5, "tokens": 1_000}))
    return tmp_path


def test_what_has_been_run_is_read_and_the_rest_is_absent(folder):
    read = results.read(folder)
    assert read.runs() == [("full-1kv", "prefix"), ("full-1kv", "in_sequence"), ("w8s4-1kv", "prefix")]
    np.testing.assert_array_equal(
        read.outcomes["w8s4-1kv", "prefix"], answers([90.0, 20, 60, 40], modulus=8, mappings=64, seed=2)
    )
    assert read.losses == {"recall": {"full-1kv": 0.5}}
    assert read.statistics.bootstrap == 150 and read.scale == "tiny"
    assert read.full_attention_like("w8s8-1kv") == "full-1kv"


def test_measures_are_the_same_when_asked_again(folder):
    read = results.read(folder)
    assert read.summary("w8s4-1kv", "prefix") is read.summary("w8s4-1kv", "prefix")
    pd.testing.assert_frame_equal(
        read.summary("w8s4-1kv", "prefix"), results.read(folder).summary("w8s4-1kv", "prefix")
    )
    assert read.periodicity("w8s4-1kv", "prefix").period == 4


def test_knockouts_are_read_by_layer_and_head(folder):
    read = results.read(folder)
    assert set(read.knockouts) == {("full-1kv", "prefix"), ("w8s4-1kv", "prefix")}
    assert set(read.knockouts["w8s4-1kv", "prefix"]) == {(0, 0), (0, -1), (1, 0), (1, -1)}
    for outcomes in read.knockouts["w8s4-1kv", "prefix"].values():
        np.testing.assert_array_equal(outcomes, read.outcomes["w8s4-1kv", "prefix"])


def test_a_table_of_another_configuration_is_refused_by_name(folder):
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["knockout"] = {"calibration": 7}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(UserError, match=r"prefix\.parquet: was made with another configuration .*run its rule again"):
        results.read(folder)


def test_only_the_kinds_that_are_asked_for_are_read(folder):
    (folder / "lookup" / "full-1kv" / "prefix.parquet").write_text("damaged")
    read = results.read(folder, "knockout", "losses")
    assert not read.outcomes and read.losses == {"recall": {"full-1kv": 0.5}}
    assert set(read.knockouts) == {("full-1kv", "prefix"), ("w8s4-1kv", "prefix")}
    with pytest.raises(UserError, match="not a readable Parquet file"):
        results.read(folder, "lookup")


def test_gates_of_a_model_that_was_trained_otherwise_are_refused(folder):
    columns = {"step": 1, "layer": 0, "head": 0, "branch": "key", "offset": range(8), "score": 0.125}
    gates = pd.DataFrame({**columns, "static": 8.0, "per_window": 8.0})
    path = folder / "models" / "recall" / "w8s8-1kv" / "gates.parquet"
    config = load(folder / "config.yaml")
    tables.write(gates, path, "gates", {"config_hash": config_hash(train_settings(config, "recall", "w8s8-1kv"))})
    assert len(results.read(folder).gates["w8s8-1kv"]) == 8
    tables.write(gates, path, "gates", {"config_hash": "another"})
    with pytest.raises(UserError, match=r"gates\.parquet: was made with another configuration"):
        results.read(folder, "gates")


def test_a_damaged_loss_is_named(folder):
    (folder / "models" / "recall" / "full-1kv" / "validation.json").write_text("{}")
    with pytest.raises(UserError, match=r"validation\.json: holds no validation loss"):
        results.read(folder)


def test_tables_left_from_an_earlier_configuration_are_not_results(folder):
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["lookup"]["paddings"] = ["prefix"]
    config["corpora"]["recall"]["models"] = ["full-1kv"]
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    assert results.read(folder).runs() == [("full-1kv", "prefix")]


def write_needle(folder, model):
    """A needle table of `model`, made with the folder's configuration."""
    prompts = {"mapping": np.repeat(range(64), 8), "position": np.tile(range(8), 64), "target_position": 0}
    table = pd.DataFrame({**prompts, "correct": True, "answer_rank": None, "answer_logprob": None})
    made_with = {"config_hash": config_hash(needle_settings(load(folder / "config.yaml"), model))}
    tables.write(table, folder / "deepseek" / model / "needle.parquet", "needle", made_with)


def test_deepseeks_tables_are_read_of_the_models_that_were_asked(folder):
    config = load(folder / "config.yaml")
    for model in ("stand-in", "nowhere"):  # one is a leftover of a configuration in which it was somewhere
        write_needle(folder, model)
    columns = {"family": "equals", "length": 24, "equals": range(16), "source": "x", "first_logprob": -0.1}
    path = folder / "deepseek" / "served" / "code_completion.parquet"
    made_with = {"config_hash": config_hash(code_completion_settings(config, "served"))}
    tables.write(pd.DataFrame({**columns, "second_logprob": None}), path, "code_completion", made_with)
    read = results.read(folder)
    assert set(read.deepseek) == {"served", "nowhere", "stand-in"}
    assert list(read.needles) == ["stand-in"] and read.needles["stand-in"].shape == (64, 8)
    assert list(read.completions) == ["served"] and read.completions["served"]["second_logprob"].isna().all()
    assert read.layer_knockouts == {}
    assert not results.read(folder, "lookup").needles and results.read(folder, "lookup").deepseek


def test_layer_knockouts_are_read_by_layer_with_the_model_as_it_is(folder):
    made_with = layer_knockout_settings(load(folder / "config.yaml"), "stand-in")
    parts = [{"layer": layer, "correct": layer != 1, "answer_logprob": -0.5} for layer in (-1, 0, 1)]
    prompts = {"mapping": np.repeat(range(64), 8), "position": np.tile(range(8), 64)}
    table = pd.concat(pd.DataFrame({**prompts, **part}) for part in parts)
    path = folder / "deepseek" / "stand-in" / "layer_knockout.parquet"
    tables.write(table, path, "layer_knockout", {"config_hash": config_hash(made_with)})
    found = results.read(folder, "layer_knockout").layer_knockouts["stand-in"]
    assert {layer: bool(outcomes.all()) for layer, outcomes in found.items()} == {-1: True, 0: True, 1: False}


def test_a_needle_of_other_prompts_is_refused_by_name(folder):
    config = yaml.safe_load((folder / "config.yaml").read_text())
    write_needle(folder, "stand-in")
    config["deepseek"]["needle"]["seed"] = 5
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(UserError, match=r"needle\.parquet: was made with another configuration"):
        results.read(folder, "needle")


def test_a_model_on_the_plateau_has_not_learnt_and_one_below_or_not_judged_has(folder):
    def judged(*kinds, **content):
        path = folder / "models" / "recall" / "full-1kv" / "validation.json"
        path.write_text(json.dumps({"loss": 2.41, "tokens": 1_000, **content}))
        return results.read(folder, *kinds)

    stuck = judged(learnt_below=2.2, learnt=False)
    assert stuck.not_learnt == {"full-1kv": Validation(2.41, 2.2)}
    assert stuck.label("full-1kv") == stuck.models["full-1kv"].label() + " · not learnt"
    assert stuck.label("w8s4-1kv") == stuck.models["w8s4-1kv"].label()
    assert {run[0] for run in stuck.outcomes} == {"full-1kv", "w8s4-1kv"}  # it is still shown
    evidence = stuck.evidence()
    assert set(evidence.outcomes) == set(evidence.knockouts) == {("w8s4-1kv", "prefix")}
    assert judged("lookup", learnt_below=2.2).not_learnt and not judged("theory", learnt_below=2.2).not_learnt
    for content in ({}, {"learnt_below": None, "learnt": None}, {"learnt_below": 3.0, "learnt": True}):
        assert judged(**content).not_learnt == {}


def test_a_stand_in_that_has_not_learnt_says_so_in_its_name_and_is_no_evidence(folder):
    path = folder / "models" / "deepseek" / "stand-in" / "validation.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"loss": 2.41, "learnt_below": 2.2}))
    read = results.read(folder)
    assert read.deepseek["stand-in"].label.endswith(", not learnt")
    read.needles["stand-in"] = np.ones((4, 4), bool)
    assert "stand-in" not in read.evidence().needles
