"""Models of transformers as a backend: their own numbers, and clear words where there is no model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from rows import build
from tokenizers import Tokenizer, models
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from weakspots.errors import UserError
from weakspots.model.loading import load
from weakspots.model_table import model_row
from weakspots.serving import local
from weakspots.serving.answers import is_correct, rank_and_logprob
from weakspots.serving.checks import check
from weakspots.serving.local import Local
from weakspots.serving.store import ask_all

VOCABULARY = 40
LENGTHS = [9, 12, 9, 5, 12, 9, 9]


def tokenizer() -> PreTrainedTokenizerFast:
    words = {f"w{number}": number for number in range(VOCABULARY)}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="w0")), eos_token="w0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("llama")
    size = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(vocab_size=VOCABULARY, num_key_value_heads=2, initializer_range=0.3, **size)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def prompts() -> list[tuple[str, list[int]]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (f"p{number}", torch.randint(VOCABULARY, (length,), generator=generator).tolist())
        for number, length in enumerate(LENGTHS)
    ]


@pytest.mark.parametrize("batch_tokens", [1, 24, 8192])
def test_answers_are_the_models_own_whatever_the_batch(folder, prompts, batch_tokens):
    backend = Local.load(folder, top=5, candidates=[39, 3], batch_tokens=batch_tokens)
    model = AutoModelForCausalLM.from_pretrained(folder)
    answers = {answer.key: answer for answer in backend.ask(prompts)}
    assert set(answers) == {key for key, _ in prompts}
    for key, ids in prompts:
        with torch.no_grad():
            expected = model(torch.tensor([ids])).logits[0, -1].log_softmax(0)
        order = expected.argsort(descending=True).tolist()
        answer = answers[key]
        assert answer.token_id == order[0] and answer.token == f"w{order[0]}" and answer.prompt_tokens == len(ids)
        assert set(answer.ids) == {*order[:5], 39, 3}
        for token, logprob in answer.ids.items():
            assert logprob == pytest.approx(expected[token].item(), abs=1e-5)
            assert answer.logprobs[f"w{token}"] == logprob
        assert rank_and_logprob(answer, 39, "w39")[0] == order.index(39) + 1
        assert is_correct(answer, order[0], "")


def test_a_long_prompt_is_read_in_chunks_with_the_same_answer(folder, prompts, monkeypatch):
    whole = {answer.key: answer for answer in Local.load(folder, top=VOCABULARY).ask(prompts)}
    monkeypatch.setattr(local, "CHUNK", 4)
    chunks = []
    read = local.next_token_logits
    monkeypatch.setattr(local, "next_token_logits", lambda *arguments: chunks.append(1) or read(*arguments))
    for answer in Local.load(folder, top=VOCABULARY).ask(prompts):
        assert answer.ids == pytest.approx(whole[answer.key].ids, abs=1e-5)
    assert chunks


def test_a_local_model_passes_the_checks_and_is_stored(folder, prompts, tmp_path):
    backend = Local.load(folder, candidates=[3])
    check(backend, prompts[:3])
    answers = ask_all(backend, prompts, tmp_path / "answers.jsonl")
    backend.close()
    assert ask_all(backend, prompts, tmp_path / "answers.jsonl") == answers  # from disk: the model is gone


def test_names_tell_apart_what_gives_other_answers(folder, tmp_path):
    names = {Local.load(folder, dtype=dtype).name for dtype in ("float32", "bfloat16")}
    names |= {Local.load(folder, top=3).name, Local.load(folder, candidates=[3]).name}
    retrained = tmp_path / "llama"
    retrained.mkdir()
    for file in folder.iterdir():
        (retrained / file.name).write_bytes(file.read_bytes())
    version = Local.load(retrained).name
    (retrained / "model.safetensors").touch()
    assert len(names) == 4 and Local.load(retrained).name != version
    assert Local.load(folder, batch_tokens=7).name == Local.load(folder).name


def test_a_model_of_the_project_in_bfloat16_and_without_a_tokenizer(prompts, tmp_path):
    build(model_row()).save_pretrained(tmp_path)
    (answer, *_) = Local.load(tmp_path, dtype="bfloat16", top=3).ask(prompts)
    assert answer.token is None and not answer.logprobs and len(answer.ids) == 3
    assert load(tmp_path, dtype="bfloat16")[0].dtype == torch.bfloat16


def test_output_that_is_no_number_is_refused(folder, prompts):
    model, _ = load(folder)
    with torch.no_grad():
        model.lm_head.weight[7, 0] = float("nan")
    with pytest.raises(UserError, match="computes no numbers"):
        list(Local(model, None, "broken").ask(prompts))


def without(folder: Path, to: Path, *names: str) -> Path:
    to.mkdir()
    for file in folder.iterdir():
        if file.name not in names:
            (to / file.name).write_bytes(file.read_bytes())
    return to


def changed(folder: Path, to: Path, **keys: object) -> Path:
    without(folder, to, "config.json")
    (to / "config.json").write_text(json.dumps(json.loads((folder / "config.json").read_text()) | keys))
    return to


def refused(source: str | Path, **options: str) -> str:
    with pytest.raises(UserError) as caught:
        load(source, **options)
    assert len(str(caught.value).splitlines()) <= 2
    return str(caught.value)


def test_mistakes_are_named_in_a_line(folder, tmp_path):
    assert "is no folder with a model" in refused(tmp_path / "nowhere")
    assert "it has no config.json" in refused(tmp_path)
    assert "*.safetensors is missing" in refused(without(folder, tmp_path / "a", "model.safetensors"))
    assert "does not exist: give the path of a GGUF file" in refused(tmp_path / "model.gguf")
    assert "does not load" in refused(changed(folder, tmp_path / "b", model_type="nobody-knows", architectures=["No"]))
    assert "lacks weights" in refused(changed(folder, tmp_path / "c", num_hidden_layers=3))
    assert "dtype 'int3' is not one of float32, bfloat16" in refused(folder, dtype="int3")
    (tmp_path / "d.gguf").write_bytes(b"GGUF" + bytes(100))
    assert "d.gguf" in refused(tmp_path / "d.gguf")


def test_a_name_that_the_hub_does_not_give_is_refused(monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "nobody/no-such-model does not load" in refused("nobody/no-such-model")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt"])
def test_pickled_weights_are_never_read(folder, tmp_path, name):
    class Trap:
        def __reduce__(self):
            return open, (str(tmp_path / "sprung"), "w")

    trap = without(folder, tmp_path / "pickled", "model.safetensors")
    torch.save({"model.embed_tokens.weight": Trap()}, trap / name)
    assert "pickled weights, which can run code" in refused(trap)
    assert not (tmp_path / "sprung").exists()


def test_code_that_comes_with_a_model_is_never_run(folder, tmp_path):
    mapped = {"AutoConfig": "trap.Config", "AutoModelForCausalLM": "trap.Model"}
    trap = changed(folder, tmp_path / "code", model_type="trap", architectures=["Model"], auto_map=mapped)
    (trap / "trap.py").write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')\n")
    assert "does not load" in refused(trap)
    assert not (tmp_path / "sprung").exists()
