"""Mistakes in the configuration are refused in one line that names the key, the row and the fix."""

import json
import re
from pathlib import Path

import pytest
import yaml

from weakspots import config
from weakspots.errors import UserError
from weakspots.model_table import model_row

ROOT = Path(__file__).parents[2]
LAPTOP = yaml.safe_load((ROOT / "config.yaml").read_text())


def refused(change: dict) -> str:
    with pytest.raises(UserError) as error:
        config.parse(config.merge(LAPTOP, change))
    message = str(error.value)
    assert len(message.splitlines()) <= 2
    return message


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"lokup": {}}, ["lokup", "unknown key", "remove"]),
        ({"models": {"w8s8-2kv": {"windw": 4}}}, ["models.w8s8-2kv.windw", "unknown key"]),
        ({"corpora": {"recall": {"training": {"learning_rat": 1}}}}, ["corpora.recall.training.learning_rat"]),
        ({"models": {"w4s4-1kv": {"stride": 5}}}, ["models.w4s4-1kv", "stride 5", "window 4", "at most 4"]),
        ({"cycling": {"models": ["w8s4-1kv"]}}, ["cycling.models", "w8s4-1kv", "window = stride"]),
        ({"cycling": {"models": ["w8s8-1kv-uniform"]}}, ["w8s8-1kv-uniform", "learned gate"]),
        ({"cycling": {"models": ["full-1kv"]}}, ["cycling.models", "full-1kv"]),
        ({"cycling": {"models": ["w9"]}}, ["cycling.models", "'w9'", "no row"]),
        ({"lookup": {"modulus": 16, "mappings": 256}}, ["lookup.modulus 16", "models.", "stride", "multiple"]),
        ({"lookup": {"mappings": 1000}}, ["lookup", "1000", "1152"]),
        ({"lookup": {"demonstrations": 12}}, ["demonstrations", "at most 11"]),
        ({"lookup": {"records": 90}}, ["lookup.records 90", "keys 80", "lower records"]),
        ({"corpora": {"recall": {"source": {"keys": 12}}}}, ["corpora.recall", "records 12", "keys 12"]),
        ({"models": {"w8s8-2kv": {"kv_heads": 3}}}, ["models.w8s8-2kv.kv_heads 3", "query_heads 8", "divisor"]),
        ({"models": {"full-1kv": {"window": 4}}}, ["models.full-1kv", "window", "remove"]),
        ({"models": {"w8s8-1kv": {"post_norm": True}}}, ["models.w8s8-1kv", "tied"]),
        ({"backbone": {"layers": "two"}}, ["backbone.layers", "'two'"]),
        ({"corpora": {"recall": {"stages": []}}}, ["corpora.recall.stages"]),
        ({"corpora": {"prose": {"training": {"loss_on": "answers"}}}}, ["corpora.prose", "loss_on", "all"]),
        ({"corpora": {"prose": {"tokenizer": {"kind": "words", "vocabulary": None}}}}, ["corpora.prose"]),
        ({"corpora": {"recall": None}}, ["lookup.corpus", "recall"]),
        ({"corpora": {"prose": {"training": {"batch_tokens": 100}}}}, ["corpora.prose", "batch_tokens 100", "256"]),
        ({"lookup": {"paddings": ["suffix"]}}, ["lookup.paddings", "suffix"]),
        ({"lookup": {"paddings": ["prefix", "prefix"]}}, ["lookup", "paddings", "twice"]),
        ({"models": {"my row": {}}}, ["models", "'my row'", "letters"]),
        ({"models": {"../up": {}}}, ["models", "'../up'"]),
        ({"corpora": {"recall": {"models": []}}}, ["corpora.recall.models", "empty"]),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else "",
)
def test_a_mistake_names_the_key_and_the_fix(change, parts):
    message = refused(change)
    for part in parts:
        assert part in message


def test_several_mistakes_are_all_told():
    with pytest.raises(UserError) as error:
        config.parse(config.merge(LAPTOP, {"lokup": 1, "backbone": {"widht": 3}}))
    assert {"lokup", "backbone.widht"} <= {line.split(":")[0] for line in str(error.value).splitlines()}


def test_a_row_is_removed_by_null_and_overlays_merge():
    changed = config.parse(config.merge(LAPTOP, {"models": {"w8s8-1kv-tail": None, "w8s8-2kv": {"seed": 7}}}))
    assert "w8s8-1kv-tail" not in changed.models
    assert changed.models["w8s8-2kv"] == model_row(kv_heads=2, seed=7)


def test_an_overlay_changes_the_kind_of_a_source_by_setting_the_old_keys_to_null():
    other = {
        "source": {"kind": "hub", "path": "some/set", "paths": None},
        "tokenizer": {"kind": "pretrained", "path": "some/tokenizer", "vocabulary": None, "training_documents": None},
    }
    changed = config.parse(config.merge(LAPTOP, {"corpora": {"prose": other}})).corpora["prose"]
    assert (changed.source.kind, changed.tokenizer.kind) == ("hub", "pretrained")


def test_a_file_that_is_missing_or_no_yaml_is_named(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        config.load(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("models: [unclosed")
    with pytest.raises(UserError, match="bad.yaml is no valid YAML"):
        config.load(tmp_path / "bad.yaml")


def test_the_table_has_the_papers_26_runs_and_one_more():
    from weakspots.analysis.paper_numbers import models

    table = config.parse(LAPTOP).models
    paper = models()
    assert set(table) == set(paper) and len(paper) == 27
    assert [name for name, run in paper.items() if run["prefix"] is None] == ["w12s12-4kv"]  # cycled, and no more
    for name, run in paper.items():
        row = table[name]
        assert row.kv_heads == run["kv_heads"]
        if row.compressed:
            assert (row.window, row.stride) == (run["window"], run["stride"])


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("full-8kv", "Full attention · 8 KV"),
        ("w8s8-1kv", "W8/S8 · 1 KV"),
        ("w8s8-1kv-seed43", "W8/S8 · 1 KV · seed 43"),
        ("w8s8-1kv-no-rope", "W8/S8 · 1 KV · no RoPE"),
        ("w8s8-1kv-uniform", "W8/S8 · 1 KV · uniform averaging"),
        ("w8s8-1kv-rope16", "W8/S8 · 1 KV · RoPE on 16 dims"),
        ("w8s4-1kv-deepseek-scalar", "W8/S4 · 1 KV · DeepSeek-style kernel · scalar gate"),
        ("w12s12-4kv", "W12/S12 · 4 KV"),
    ],
)
def test_labels_are_the_papers(name, label):
    assert config.parse(LAPTOP).models[name].label() == label


def test_every_key_of_the_schema_stands_in_config_yaml():
    """The file is the manual: a reader finds every key there, as a setting or in a comment."""
    words = set(re.findall(r"([a-z_]+):", (ROOT / "config.yaml").read_text()))
    for name, section in json.loads(config.schema())["$defs"].items():
        missing = set(section["properties"]) - words
        assert not missing, f"{name} has {missing}, which config.yaml does not show"


def test_every_setting_of_the_first_corpus_and_of_all_sections_is_explained():
    """A comment on its line, or on the line that opens its section or list."""
    text = (ROOT / "config.yaml").read_text()
    begin, end = text.index("\nmodels:"), text.index("# What models train on")  # the rows have a table of their own
    shown = text[:begin] + text[end : text.index("  # Real prose:")] + text[text.index("# The animal-to-name lookup") :]
    lines = shown.splitlines()
    for number, line in enumerate(lines):
        setting = re.match(r" *([a-z_0-9-]+): *[^{ #]", line)
        if setting and "#" not in line:
            before = next(above for above in reversed(lines[:number]) if not re.match(r" *[a-z_0-9-]+: *[^{ #]", above))
            assert "#" in before, f"{line.strip()} has no comment"


def test_the_last_stage_may_end_by_its_loss_and_not_by_its_steps():
    data = yaml.safe_load((ROOT / "config.yaml").read_text())
    last = data["corpora"]["recall"]["stages"][-1]
    last["until_loss"] = 0.4
    assert config.parse(data).corpora["recall"].stages[-1].until_loss == 0.4
    last["max_steps"] = 300
    with pytest.raises(UserError, match=r"stages\[2\] is the last .*: remove its max_steps, and set training.steps"):
        config.parse(data)
