"""Mistakes of a user of the audit: told in a line or two, before anything is loaded, asked or written if possible."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from program_readers import Reader, word_tokenizer
from rows import build
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from weakspots.audit import Question, audit, planned
from weakspots.audit.html import page
from weakspots.audit.words import vocabulary
from weakspots.cli import main
from weakspots.errors import UserError
from weakspots.machine import device as devices
from weakspots.model_table import model_row
from weakspots.serving.answers import Answer
from weakspots.serving.checks import check_length
from weakspots.serving.local import Local
from weakspots.serving.server import completions_url
from weakspots.serving.store import ask_all

TOKENIZER = word_tokenizer()
CONTEXT = 128
SERVER = "http://127.0.0.1:9/v1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 of one small layer with a table of positions, and its tokenizer."""
    return _saved(tmp_path_factory.mktemp("gpt2"), len(TOKENIZER))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with fewer tokens than its tokenizer has."""
    return _saved(tmp_path_factory.mktemp("small"), 50)


def _saved(folder: Path, vocabulary: int) -> Path:
    torch.manual_seed(0)
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    config = GPT2Config(vocab_size=vocabulary, n_positions=CONTEXT, n_embd=8, n_layer=1, n_head=1, **ends)
    GPT2LMHeadModel(config).save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return folder


def refused(capsys, *command: object) -> str:
    """What the command says as it refuses."""
    assert main.main(["audit", *map(str, command)]) == 1
    said = capsys.readouterr().err
    lines = [line for line in said.splitlines() if " error: " in line]
    assert len(lines) == 1 and "Traceback" not in said
    return lines[0]


@pytest.fixture
def nothing_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes loading a model or asking a server the failure of a test."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("went on in spite of the mistake")

    monkeypatch.setattr("weakspots.serving.local.Local.load", fail)
    monkeypatch.setattr("weakspots.serving.endpoint.Endpoint.ask", fail)


@pytest.mark.parametrize("device", ["tpu", "cpu:0:1", "cuda:x", "meta", ""])
def test_an_unknown_device_is_refused(folder, tmp_path, capsys, device) -> None:
    assert "neither cpu nor cuda" in refused(capsys, folder, "--device", device, "--output", tmp_path / "out")


def test_a_gpu_that_the_machine_lacks_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="device is cuda:0, and this machine has no GPU"):
        devices.check("cuda:0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    devices.check("cuda")
    devices.check("cuda:1")
    with pytest.raises(UserError, match="the last GPU of this machine is cuda:1"):
        devices.check("cuda:2")


@pytest.mark.parametrize("output", ["/etc/passwd/x", "/proc/nothing", "{file}"])
def test_an_output_that_cannot_be_made_is_refused_before_the_model_is_loaded(
    tmp_path, capsys, nothing_loads, output
) -> None:
    (tmp_path / "file").touch()
    output = output.replace("{file}", str(tmp_path / "file"))
    assert f"--output {output} cannot be made" in refused(capsys, "x", "--output", output)


def test_answers_that_cannot_be_kept_are_told_in_words(tmp_path) -> None:
    for path in (tmp_path, Path("/etc/passwd/x/answers.jsonl")):
        with pytest.raises(UserError, match="answers cannot be kept in .*: name another folder"):
            ask_all(Reader(), [("a", [1, 2, 1])], path)


@pytest.mark.parametrize(
    "url, said",
    [
        ("http://127.0.0.1:99999/v1", "no URL of a server.*range"),
        ("http://127.0.0.1:x/v1", "no URL of a server"),
        ("http://[::1/v1", "no URL of a server"),
        ("127.0.0.1:8000/v1", "http:// is missing"),
        ("localhost:8000", "http:// is missing"),
        ("ftp://127.0.0.1", "give one such as http://"),
    ],
)
def test_an_address_that_is_no_url_of_a_server_is_refused(tmp_path, capsys, nothing_loads, url, said) -> None:
    with pytest.raises(UserError, match=said):
        completions_url(url)
    short = said.partition(".*")[0]
    common = ["--model", "m", "--tokenizer", tmp_path, "--output", tmp_path / "out"]
    assert short in refused(capsys, "--endpoint", url, *common)
    if not url.startswith("ftp"):  # what has no host and port may be a folder or a name on the hub
        assert short in refused(capsys, "--endpoint", SERVER, "--compare", url, *common)
    assert not (tmp_path / "out").exists()


SETTING = ["--records", "6", "--demonstrations", "3", "--stride", "4", "--budget", "100"]


def test_a_tokenizer_larger_than_the_model_is_refused(folder, small, tmp_path, capsys) -> None:
    said = refused(capsys, small, *SETTING, "--output", tmp_path / "a")
    assert "knows 50 tokens, and a prompt has token" in said and "the tokenizer is another model's" in said
    said = refused(capsys, folder, "--compare", small, *SETTING, "--output", tmp_path / "b")
    assert f"{small} [" in said and "knows 50 tokens" in said


def test_a_prompt_longer_than_a_table_of_positions_is_refused(folder, tmp_path, capsys) -> None:
    assert f"{CONTEXT}" in refused(capsys, folder, *SETTING, "--length", "200", "--output", tmp_path / "a")
    backend = Local.load(folder)
    assert backend.context == CONTEXT and len([*backend.ask([("fits", [1] * CONTEXT)])]) == 1
    with pytest.raises(UserError, match=f"has positions for {CONTEXT} tokens, and a prompt has {CONTEXT + 1}"):
        next(backend.ask([("fits", [1]), ("too long", [1] * (CONTEXT + 1))]))


def test_the_cost_that_is_told_is_of_prompts_that_the_model_can_read(folder, capsys) -> None:
    assert main.main(["audit", str(folder), "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert int(re.search(r"prompts of up to (\d+) tokens", told)[1]) <= CONTEXT
    question = Question(strides="auto")
    assert told.strip() == planned(vocabulary(TOKENIZER), question, context=CONTEXT)[1]
    assert told.strip() != planned(vocabulary(TOKENIZER), question)[1]


def test_a_model_that_computes_positions_bears_more_than_it_states_and_states_it() -> None:
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=20, max_position_embeddings=16, **sizes))
    backend = Local(model, None, "llama", top=1)
    assert backend.context == 16 and len([*backend.ask([("long", [1] * 20)])]) == 1
    assert Local(build(model_row()), None, "states no limit").context is None


def test_a_server_that_counts_in_words_is_refused() -> None:
    with pytest.raises(UserError, match="reports 'twelve' as usage.prompt_tokens, which is no number"):
        check_length("m", 12, Answer("a", "b", None, prompt_tokens="twelve"))
    check_length("m", 12, Answer("a", "b", None, prompt_tokens=12))


@pytest.mark.parametrize(
    "question, said",
    [
        ({"strides": (1,)}, "strides is .*from 2 on"),
        ({"strides": 1}, "strides is .*from 2 on"),
        ({"strides": ()}, "strides is"),
        ({"strides": "four"}, "strides is 'four'"),
        ({"strides": (4.0,)}, "strides is"),
        ({"strides": None}, "strides is"),
        ({"lengths": 0}, "lengths is"),
        ({"lengths": ()}, "lengths is"),
        ({"lengths": "90"}, "lengths is '90'"),
        ({"lengths": (90, -1)}, "lengths is"),
        ({"confidence": 0}, "confidence is 0"),
        ({"confidence": 1.0}, "confidence is 1"),
        ({"confidence": 0.9999}, "at most 0.999"),
        ({"confidence": 95}, "a probability"),
        ({"confidence": "95 %"}, "a probability"),
        ({"max_gap": 0}, "max_gap is 0.*percentage points"),
        ({"max_gap": 101}, "max_gap is 101"),
        ({"max_gap": float("nan")}, "max_gap is nan"),
        ({"gap": 0.4}, "gap is 0.4.*millions of prompts"),
        ({"gap": -1}, "gap is -1"),
        ({"budget": 0}, "budget is 0"),
        ({"records": 1}, "records is 1.*from 2 on"),
        ({"records": True}, "records is True"),
        ({"demonstrations": -1}, "demonstrations is -1"),
        ({"records": 4, "demonstrations": 4}, "fewer demonstrations than records"),
        ({"seed": None}, "seed is None"),
    ],
)
def test_a_question_that_cannot_be_meant_is_refused(question, said) -> None:
    with pytest.raises(UserError, match=said) as caught:
        Question(**question)
    assert len(str(caught.value).splitlines()) == 1
    reader = Reader()
    with pytest.raises(UserError):
        audit(reader, TOKENIZER, **question)
    assert not reader.asked


def test_a_question_takes_one_stride_or_length_and_the_bounds_themselves() -> None:
    assert Question(strides=4, lengths=90) == Question(strides=(4,), lengths=[90])
    assert Question(lengths=None).lengths == (None,) and Question(strides="auto").strides == "auto"
    assert Question(strides=np.array([4, 8])).strides == (4, 8)
    asked = Question(max_gap=100, gap=0.5, confidence=0.999, budget=1, records=2, demonstrations=1)
    assert asked.limit == 100 and asked.wanted_gap == 0.5


@pytest.mark.parametrize(
    "options, said",
    [
        (["--records", "4", "--demonstrations", "10"], "fewer demonstrations than records"),
        (["--max-gap", "0"], "max_gap is 0"),
        (["--gap", "0.1"], "gap is 0.1"),
        (["--confidence", "1"], "confidence is 1"),
        (["--stride", "1"], "from 2 on"),
        (["--compare-model", "m"], "--compare-model names a model of the server"),
        (["--compare", "y", "--compare-model", "m"], "--compare-model names a model of the server"),
        (["--extra", '{"cache_prompt": false}'], "--extra is for requests to a server"),
        (["--compare", "x"], "--compare x is what is audited"),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_anything_is_loaded(
    tmp_path, capsys, nothing_loads, options, said
) -> None:
    assert said in refused(capsys, "x", *options, "--output", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_nothing_is_compared_with_itself(folder, tmp_path, capsys, nothing_loads) -> None:
    (tmp_path / "link").symlink_to(folder)
    for same in (folder, f"{folder}/", tmp_path / "link"):
        assert "is what is audited" in refused(capsys, folder, "--compare", same)
    common = ["--endpoint", SERVER, "--model", "m", "--tokenizer", folder, "--output", tmp_path / "out"]
    for same in (SERVER, f"{SERVER}/completions"):
        assert "is what is audited" in refused(capsys, *common, "--compare", same)
    other = ["--compare", SERVER, "--compare-model", "n", "--dry-run"]
    assert main.main(["audit", *map(str, common), *other]) == 0  # another model of the same server


def test_the_page_says_what_the_terminal_says_about_the_limit_and_the_difficulty() -> None:
    report = audit(Reader(), TOKENIZER, strides=(4,), records=6, demonstrations=3, budget=200, max_gap=60)
    report = replace(report, lengths=(replace(report.lengths[0], suitable=False),))
    for sentence in ("no setting had between 30 and 90 % right", "--max-gap 60: not larger with confidence (exit"):
        assert sentence in str(report) and sentence in page(report)
    report = replace(report, max_gap=None, lengths=(replace(report.lengths[0], suitable=True),))
    assert "--max-gap" not in page(report) and "no setting had" not in page(report)
