"""The configuration of the paper scale, run for a few steps: all as it is there but width, lengths and sources."""

import json
import os
import signal
import subprocess
import sys
import time
from math import log
from pathlib import Path

import pandas as pd
import pytest
import torch
from small import curve, weights
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from weakspots import config
from weakspots.task.records import animals, names

REPOSITORY = Path(__file__).parents[2]
PROSE = REPOSITORY / "tests/data/prose"
MODEL = "w8s8-1kv"
STEPS = 4


def text() -> list[str]:
    return [path.read_text() for path in sorted(PROSE.glob("*.txt"))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A data set folder as `datasets` loads it, a tokenizer folder as the hub has it, and the merged configuration."""
    folder = tmp_path_factory.mktemp("paper")
    paragraphs = [paragraph for document in text() for paragraph in document.split("\n\n") if paragraph.strip()]
    (folder / "dataset").mkdir()
    (folder / "dataset/train.jsonl").write_text("".join(json.dumps({"text": line}) + "\n" for line in paragraphs))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(paragraphs, trainer)
    tokenizer.add_tokens([f" {word}" for word in (*animals(), *names())])  # as one token each, as lookups need them
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>")
    wrapped.save_pretrained(folder / "tokenizer")
    overlay = {
        "device": "cpu",
        "launch": None,
        "backbone": {"width": 32, "head_width": 8, "mlp_width": 48},
        "corpora": {
            "web": {
                "source": {"path": str(folder / "dataset"), "name": None},
                "tokenizer": {"path": str(folder / "tokenizer")},
                "shard_tokens": 5000,
                "stages": [{"length": 64, "sequences": 40}],
                "training": {
                    "steps": STEPS,
                    "batch_tokens": 64 * 4,
                    "micro_batch_tokens": 64 * 2,
                    "warmup_steps": 2,
                    "log_every": 1,
                    "resume_every": 1,
                    "checkpoint_steps": [2, STEPS],
                    "gate_windows": 16,
                    "validation_sequences": 4,
                },
            }
        },
    }
    (folder / "overlay.yaml").write_text(json.dumps(overlay))
    scale = config.load(REPOSITORY / "config.yaml", REPOSITORY / "workflow/scales/paper.yaml", folder / "overlay.yaml")
    assert scale.backbone.layers == 28 and scale.corpora["web"].training.precision == "bfloat16"
    config.write(scale, folder / "results/config.yaml")
    process = start(folder, "data", "web")
    output = process.communicate(timeout=300)[0]
    assert process.returncode == 0, output
    return folder


def start(folder: Path, *command: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "weakspots.cli", *command, "--config", "results/config.yaml"],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_the_chain_of_the_paper_scale_trains_in_bfloat16_in_parts_and_resumes(folder):
    """Hub data set, pretrained tokenizer, loss on all tokens, 28 layers, two parts a step, killed and continued."""
    output = folder / "results/models/web" / MODEL
    undisturbed = start(folder, "train", "web", MODEL)
    said = undisturbed.communicate(timeout=300)[0]
    assert undisturbed.returncode == 0, said
    assert "MFU" in said
    output.rename(folder / "undisturbed")

    process = start(folder, "train", "web", MODEL)
    deadline = time.monotonic() + 120
    while not list(output.parent.glob(f".{MODEL}.*.partial/checkpoint-0*")):
        assert process.poll() is None and time.monotonic() < deadline, "no checkpoint was written"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    again = start(folder, "train", "web", MODEL)
    said = again.communicate(timeout=300)[0]
    assert again.returncode == 0 and "resuming after step" in said, said

    left, right = (pd.read_parquet(run / "training.parquet") for run in (folder / "undisturbed", output))
    pd.testing.assert_frame_equal(curve(left), curve(right), check_exact=True)
    assert left["tokens"].tolist() == [64 * 4 * step for step in range(1, STEPS + 1)]
    one, two = weights(folder / "undisturbed"), weights(output)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert {tensor.dtype for tensor in one.values()} == {torch.float32}  # only the products are in bfloat16
    assert (output / "checkpoints/step-000002/model.safetensors").exists()

    model = AutoModelForCausalLM.from_pretrained(output)
    vocabulary = len(AutoTokenizer.from_pretrained(folder / "tokenizer"))
    assert model.config.num_hidden_layers == 28 and model.config.vocab_size == vocabulary
    validation = json.loads((output / "validation.json").read_text())
    # it has seen 1,024 tokens, and is hardly better than a guess
    assert validation["tokens"] == 4 * 63 and validation["loss"] < log(vocabulary) + 0.05
