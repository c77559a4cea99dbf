"""The completion's prompts move the code by one token at a time and leave it as it is."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import readers as made

from weakspots.analysis import paper_numbers
from weakspots.config.deepseek import CodeCompletion
from weakspots.deepseek import code_completion
from weakspots.deepseek.code_completion import completions, kernel
from weakspots.deepseek.rankings import first_on_top, follows
from weakspots.errors import UserError

SETTINGS = CodeCompletion()


@pytest.fixture(scope="module")
def asked() -> code_completion.Completions:
    return completions(SETTINGS, made.deepseek())


def test_there_are_four_families_of_the_papers_sixteen_lengths(asked: code_completion.Completions) -> None:
    assert len(asked.tokens) == len(asked.rows) == 64
    for _, rows in asked.rows.groupby("family"):
        assert rows["equals"].tolist() == list(range(9, 25))
        assert rows["length"].tolist() == list(range(24, 40)), "n + 15"


def test_every_sign_moves_the_same_code_by_one_token(asked: code_completion.Completions) -> None:
    code = kernel(SETTINGS)[0]
    of_code = made.deepseek().backend_tokenizer.encode(code, add_special_tokens=False).ids
    for ids, length in zip(asked.tokens, asked.rows["length"], strict=True):
        assert ids[0] == 0, "the beginning of text, which DeepSeek's tokenizer does not add"
        assert ids[1 + length :] == of_code
    assert of_code[-4:] == [3533, 648, 10, 20199], ".Cast(FP"
    assert asked.continuations == (26, 2111)


def test_the_published_docstring_is_the_papers(asked: code_completion.Completions) -> None:
    row = asked.rows.index[(asked.rows["family"] == "equals") & (asked.rows["equals"] == 9)][0]
    text = made.deepseek().decode(asked.tokens[row][1:])
    sentence = "This module contains optimized tensor kernels used by the model inference runtime."
    assert text.startswith(f'"""{sentence}\n= = = = = = = = =\n"""\n')
    assert text.endswith("T.Cast(compute_dtype, T.Cast(FP")


def test_the_stand_in_module_says_so_and_its_own_continuation_is_8(asked: code_completion.Completions) -> None:
    assert set(asked.rows["source"]) == {"stand-in module"}
    whole = (resources.files("weakspots") / "resources" / "fp8_quantization.txt").read_text()
    assert whole.count(code_completion.ENDING) == 1
    assert whole.partition(code_completion.ENDING)[2].startswith("8,")
    compile(whole, "fp8_quantization", "exec")


def test_the_models_own_file_is_used_where_its_repository_can_be_reached(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "kernel.py").write_text("\nx = T.Cast(compute_dtype, T.Cast(FP8, y))\nmore\n")
    calls = []

    def download(repository: str, file: str, revision: str | None) -> str:
        calls.append((repository, file, revision))
        return str(tmp_path / "kernel.py")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    code, source = kernel(CodeCompletion(repository="some/model", revision="v1"))
    assert code == "x = T.Cast(compute_dtype, T.Cast(FP"
    assert source == "model repository"
    assert calls == [("some/model", "inference/kernel.py", "v1")]


def test_without_a_network_the_stand_in_module_is_completed_and_a_warning_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def download(*_: object, **__: object) -> str:
        raise OSError("no network")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    assert kernel(CodeCompletion(repository="some/model")) == kernel(SETTINGS)
    assert "some/model cannot be reached (no network): a stand-in module" in caplog.text


def test_a_kernel_without_the_ending_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text("import torch\n")
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda *_, **__: str(tmp_path / "kernel.py"))
    with pytest.raises(UserError, match="of some/model does not hold 'T.Cast"):
        kernel(CodeCompletion(repository="some/model"))


def test_a_tokenizer_that_splits_digits_is_refused_as_such() -> None:
    with pytest.raises(UserError, match="splits '32' into 2 tokens, as Qwen's does"):
        completions(SETTINGS, made.characters())


def test_a_tokenizer_that_joins_the_cursor_with_what_follows_is_refused() -> None:
    """`FP8` is one token, so a prompt that ends in `FP` is one that the model has never read."""
    ending = " T.Cast(FP8"
    spelled = ending.replace(" ", "Ġ")
    with pytest.raises(UserError, match="reads the code otherwise when '8' follows"):
        completions(SETTINGS, made.characters((spelled,)))


def test_a_tokenizer_that_joins_the_signs_is_refused() -> None:
    """Numbers and pairs of signs that are one token: another sign then moves the code by one, or by none."""
    joined = made.characters(("32",))
    with pytest.raises(UserError, match="does not give every '=' of a docstring one token"):
        completions(SETTINGS, joined)


def test_the_papers_own_rankings_follow_the_period_of_four() -> None:
    curve = paper_numbers.code_completion("flash-base")
    logprobs = {"first_logprob": np.log(curve["first"]), "second_logprob": np.log(curve["second"])}
    table = curve[["length"]].assign(**logprobs)
    assert follows(table).all()
    assert first_on_top(table).sum() == 8
    assert follows(table.assign(length=table["length"] + 2)).sum() == 0


def test_a_continuation_that_the_server_did_not_report_is_below_the_other() -> None:
    table = pd.DataFrame({"length": [26, 24], "first_logprob": [-0.1, np.nan], "second_logprob": [np.nan, -0.1]})
    assert first_on_top(table).tolist() == [True, False]
