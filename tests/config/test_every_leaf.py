"""Every leaf of every scale, set to what it must not be: refused in one line that names its key, or accepted."""

from __future__ import annotations

import math
import os
import random
import time
from pathlib import Path

import pytest
import yaml

from weakspots.config import merge, parse
from weakspots.errors import UserError

ROOT = Path(__file__).parents[2]
CASES = int(os.environ.get("WEAKSPOTS_CASES", "200"))
"""Mutations of a scale; 1,300 and more make a campaign."""

FILES = {"laptop": (), "smoke": ("smoke",), "paper": ("paper",), "first_gpu": ("paper", "first_gpu")}
WRONG = [
    -1,
    0,
    -6,
    10**9,
    10**30,
    1e308,
    math.inf,
    -math.inf,
    math.nan,
    True,
    False,
    "many",
    "",
    None,
    [],
    {},
    [True],
    [-1],
]


def scale(name):
    data = yaml.safe_load((ROOT / "config.yaml").read_text())
    for overlay in FILES[name]:
        data = merge(data, yaml.safe_load((ROOT / f"workflow/scales/{overlay}.yaml").read_text()))
    return data


def leaves(data, path=()):
    if isinstance(data, dict):
        for key, value in data.items():
            yield from leaves(value, (*path, key))
    elif isinstance(data, list) and data and isinstance(data[0], dict):
        for number, value in enumerate(data):
            yield from leaves(value, (*path, number))
    else:
        yield path


def changed(data, path, value):
    if not path:
        return value
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[path[0]] = changed(copy[path[0]], path[1:], value)
    return copy


def judged(data, path, value):
    began = time.monotonic()
    try:
        parse(changed(data, path, value))
    except UserError as error:
        said = str(error)
        assert any(str(part) in said for part in reversed(path) if isinstance(part, str)), (path, value, said)
        assert all(len(line) < 600 for line in said.splitlines()), said
    assert time.monotonic() - began < 5, (path, value)


@pytest.mark.parametrize("name", FILES)
def test_a_leaf_with_a_wrong_value_is_refused_by_its_key_or_runs(name):
    data = scale(name)
    cases = [(path, value) for path in leaves(data) for value in WRONG]
    for path, value in random.Random(0).sample(cases, min(len(cases), CASES)):
        judged(data, path, value)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("theory", "minimizers", "chunks"), 10**9, "theory.minimizers.chunks"),
        (("lookup", "seed"), -1, "lookup.seed"),
        (("knockout", "seed"), -1, "knockout.seed"),
        (("statistics", "seed"), -1, "statistics.seed"),
        (("corpora", "recall", "seed"), -1, "corpora.recall.seed"),
        (("deepseek", "needle", "seed"), -1, "deepseek.needle.seed"),
        (("corpora", "recall", "training", "betas"), [-0.9, 1], "betas"),
        (("corpora", "recall", "training", "checkpoint_steps"), [-6], "checkpoint_steps"),
        (("corpora", "recall", "training", "checkpoint_steps"), [5, 5], "checkpoint_steps: names 5 twice"),
        (("corpora", "recall", "training", "learning_rate"), math.inf, "learning_rate"),
        (("deepseek", "stand_in", "compress_rates", "compressed_sparse_attention"), 2, "compress_rates"),
        (("models", "w8s4-1kv", "stride"), True, "stride: True is no number"),
        (("models", "w8s4-1kv", "stride"), 5, "lookup.modulus to 120 and lookup.mappings to 14400"),
        (("models", "w8s4-1kv", "tied"), 1, "tied: 1 is neither true nor false"),
        (("lookup", "paddings"), ["prefix", "prefix"], "paddings"),
        (("cycling", "models"), ["w8s8-1kv", "w8s8-1kv"], "cycling"),
    ],
)
def test_what_passed_once_is_refused(path, value, said):
    data = scale("laptop")
    if path[0] == "models":
        data["models"][path[1]] = {"stride": 4}
    if path[-1] == "tied":
        data["models"][path[1]]["tied"] = False
    with pytest.raises(UserError) as refused:
        parse(changed(data, path[:-1], {**_at(data, path[:-1]), path[-1]: value}))
    assert said in str(refused.value), refused.value


def _at(data, path):
    for part in path:
        data = data[part]
    return data
