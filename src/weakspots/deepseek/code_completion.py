"""The completion that flips: a docstring grows by one token at a time, before code that stays the same (Figure 1).

A prompt is the first token, a docstring with n filler signs, and a kernel file up to `T.Cast(compute_dtype,
T.Cast(FP`. The next token is `8` or `32`; `8` is right, since the value has just been cast to 32 bits. Every sign is
one token, so n moves the code and changes nothing in it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import pandas as pd
from transformers import PreTrainedTokenizerBase

from weakspots.config.deepseek import CodeCompletion, Deepseek
from weakspots.deepseek.backends import ask, backend_of
from weakspots.deepseek.tokenizer import encode, first_token, tokenizer_of
from weakspots.errors import UserError, first_line
from weakspots.serving.answers import Backend, rank_and_logprob

SENTENCE = "This module contains optimized tensor kernels used by the model inference runtime."
FAMILIES = {"equals": "=", "dashes": "-", "asterisks": "*", "dots": "."}
"""The sign that fills a docstring. `equals` is the paper's; the other three are this project's own choice."""

ENDING = "T.Cast(compute_dtype, T.Cast(FP"
CONTINUATIONS = ("8", "32")
REPOSITORY, STAND_IN = "model repository", "stand-in module"

_log = logging.getLogger("weakspots.code_completion")


@dataclass(frozen=True)
class Completions:
    """N prompts, `tokens` one list of ids for each; `rows` [N] has the columns family, length, equals and source.

    `continuations` are the token ids of `8` and `32`.
    """

    tokens: list[list[int]]
    rows: pd.DataFrame
    continuations: tuple[int, int]


def kernel(settings: CodeCompletion) -> tuple[str, str]:
    """The code up to the cursor, and where it is from: "model repository" or "stand-in module".

    Without a repository, or where it cannot be reached, this is the project's own module with the same ending.
    Raises UserError where the repository's file does not hold the ending.
    """
    text, source = None, REPOSITORY
    if settings.repository is not None:
        text = _fetched(settings)
    if text is None:
        text, source = (resources.files("weakspots") / "resources" / "fp8_quantization.txt").read_text(), STAND_IN
    code, found, _ = text.lstrip().partition(ENDING)
    if not found:
        raise UserError(
            f"{settings.kernel} of {settings.repository} does not hold {ENDING!r}, which is to be completed: set "
            "deepseek.code_completion.kernel or revision"
        )
    return code + ENDING, source


def docstring(sign: str, count: int) -> str:
    """The docstring with a line of `count` signs, up to and with the line break after it."""
    return f'"""{SENTENCE}\n{" ".join([sign] * count)}\n"""\n'


def completions(settings: CodeCompletion, tokenizer: PreTrainedTokenizerBase) -> Completions:
    """Every filler family at every length.

    The length is that of the docstring in tokens, the first token of the text not counted: n + 15 for DeepSeek's
    tokenizer. Raises UserError where the tokenizer joins docstring and code, gives a sign no token of its own, or
    splits `8` or `32` or reads the code otherwise when they follow.
    """
    code, source = kernel(settings)
    start, of_code = first_token(tokenizer), encode(tokenizer, code)
    first, second = (_continuation(tokenizer, code, of_code, text) for text in CONTINUATIONS)
    tokens, rows = [], []
    for family, sign in FAMILIES.items():
        lengths = []
        for count in settings.equals:
            text = docstring(sign, count)
            ahead = encode(tokenizer, text)
            if encode(tokenizer, text + code) != ahead + of_code:
                raise UserError(
                    f"the tokenizer joins the docstring of {count} {sign!r} with the code after it, so that the code "
                    "does not stay the same: this model cannot be asked"
                )
            tokens.append([start, *ahead, *of_code])
            lengths.append(len(ahead))
            rows.append((family, len(ahead), count, source))
        grown = {length - count for length, count in zip(lengths, settings.equals, strict=True)}
        if len(grown) > 1:
            raise UserError(
                f"the tokenizer does not give every {sign!r} of a docstring one token ({settings.equals[0]} to "
                f"{settings.equals[-1]} signs are {lengths[0]} to {lengths[-1]} tokens): this model cannot be asked"
            )
    return Completions(tokens, pd.DataFrame(rows, columns=["family", "length", "equals", "source"]), (first, second))


def measure(deepseek: Deepseek, model: str, trained: str, device: str, answers: Path) -> pd.DataFrame:
    """The whole test of the row `model`: its table "code_completion".

    `trained` is the folder of a stand-in; `answers` as in `score`. Raises UserError where there is no such model,
    and as `score` does.
    """
    row = deepseek.models[model]
    asked = completions(deepseek.code_completion, tokenizer_of(row, trained))
    longest = max(map(len, asked.tokens))
    return score(backend_of(row, trained, device, asked.continuations, batch_tokens=4 * longest), asked, answers)


def score(backend: Backend, asked: Completions, answers: Path) -> pd.DataFrame:
    """The table "code_completion": one row per prompt, with the log-probabilities of the two continuations.

    A log-probability is missing where the server reports its top tokens only and this is none of them. The file
    `answers` keeps what has been answered. Raises UserError as `backends.ask` does, and where neither continuation has
    a log-probability.
    """
    names = asked.rows["family"] + "/" + asked.rows["equals"].astype(str)
    found = ask(backend, list(zip(names, asked.tokens, strict=True)), answers)
    columns = {}
    for column, token, text in zip(
        ("first_logprob", "second_logprob"), asked.continuations, CONTINUATIONS, strict=True
    ):
        known = [rank_and_logprob(answer, token, text)[1] for answer in found]
        columns[column] = pd.array(known, dtype="Float32")
    table = asked.rows.assign(**columns)
    silent = table["first_logprob"].isna() & table["second_logprob"].isna()
    if silent.any():
        raise UserError(
            f"{backend.name} reports a log-probability of neither {' nor '.join(CONTINUATIONS)} after {silent.sum()} "
            f"of {len(table)} prompts, so they cannot be compared: raise the endpoint's logprobs"
        )
    return table


def _continuation(tokenizer: PreTrainedTokenizerBase, code: str, of_code: list[int], text: str) -> int:
    """The token id of `text` after `code`."""
    read = encode(tokenizer, code + text)
    if read[: len(of_code)] != of_code:
        raise UserError(
            f"the tokenizer reads the code otherwise when {text!r} follows: there is no next token to compare, and "
            "this model cannot be asked"
        )
    if len(read) != len(of_code) + 1:
        raise UserError(
            f"the tokenizer splits {text!r} into {len(read) - len(of_code)} tokens, as Qwen's does with digits, and it "
            "must be one: this model cannot be asked"
        )
    return read[-1]


def _fetched(settings: CodeCompletion) -> str | None:
    """The file in the model's repository, or None where the repository cannot be reached.

    Raises UserError where it can be, and has no such file.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import RemoteEntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        assert settings.repository is not None  # `kernel` looks
        path = hf_hub_download(settings.repository, settings.kernel, revision=settings.revision)
    except (RemoteEntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError) as error:
        raise UserError(
            f"{settings.kernel} of {settings.repository} cannot be fetched ({first_line(error)}): correct "
            "deepseek.code_completion, or set its repository to null for the stand-in module"
        ) from None
    except OSError as error:
        _log.warning(
            "%s cannot be reached (%s): a stand-in module of this project is completed instead",
            settings.repository,
            first_line(error),
        )
        return None
    return Path(path).read_text()
