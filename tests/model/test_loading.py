"""A trained folder loads whole, or is refused in a line that says what to do."""

from __future__ import annotations

import pytest
import torch
from rows import build
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from weakspots.errors import UserError
from weakspots.model import loading
from weakspots.model_table import model_row


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "recall" / "w8s8-1kv"
    build(model_row()).save_pretrained(folder)
    words = {"<|endoftext|>": 0, " cat": 1}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<|endoftext|>"))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>").save_pretrained(folder)
    return folder


def test_a_whole_folder_gives_the_model_that_was_saved(folder):
    model, tokenizer = loading.load_trained(folder)
    expected = build(model_row())
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), expected.parameters(), strict=True))
    assert tokenizer.eos_token_id == 0 and not model.training


def test_a_folder_without_a_model_names_the_command_that_makes_one(tmp_path):
    with pytest.raises(UserError, match=r"holds no trained model: run `snakemake .*recall/w8s8-1kv` first"):
        loading.load_trained(tmp_path / "recall" / "w8s8-1kv")


def test_missing_weights_are_not_replaced_by_random_ones(folder):
    weights = load_file(folder / "model.safetensors")
    gate = next(name for name in weights if name.endswith("compressor.gate"))
    save_file(
        {name: value for name, value in weights.items() if name != gate}, folder / "model.safetensors", {"format": "pt"}
    )
    with pytest.raises(UserError, match=f"lacks weights that its configuration asks for .{gate}.*run `snakemake"):
        loading.load_trained(folder)


@pytest.mark.parametrize("damage", ["truncated", "gone"])
def test_damaged_weights_are_refused(folder, damage):
    file = folder / "model.safetensors"
    if damage == "truncated":
        file.write_bytes(file.read_bytes()[:1000])
    else:
        file.unlink()
    with pytest.raises(UserError, match="(does not load|has no weights).*run `snakemake") as caught:
        loading.load_trained(folder)
    assert "\n" not in str(caught.value)
