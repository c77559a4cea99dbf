"""The needle test's table: every prompt's answer, as the model gives it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from weakspots.config import Deepseek
from weakspots.deepseek.backends import ask, backend_of
from weakspots.deepseek.needle import Prompts
from weakspots.deepseek.tokenizer import tokenizer_of
from weakspots.serving.answers import Backend, is_correct, rank_and_logprob


def measure(deepseek: Deepseek, model: str, trained: str, device: str, answers: Path) -> pd.DataFrame:
    """The whole needle test of the row `model`: its table "needle".

    `trained` is the folder of a stand-in; `answers` as in `score`. Raises UserError where there is no such model,
    and as `score` does.
    """
    row, needle = deepseek.models[model], deepseek.needle
    prompts = Prompts(needle, tokenizer_of(row, trained), deepseek.prompts_per_residue(model))
    candidates = sorted(set(prompts.answers.tolist()))
    return score(backend_of(row, trained, device, candidates, needle.batch * needle.length), prompts, answers)


def score(backend: Backend, prompts: Prompts, answers: Path) -> pd.DataFrame:
    """The table "needle": one row per prompt, in their order. Correct is the greedy token, over the whole vocabulary.

    The file `answers` keeps what has been answered, for a run that goes on after this one was stopped. Raises UserError
    as `backends.ask` does.
    """
    found = ask(backend, prompts.asked(), answers)
    rows = []
    for index, answer in enumerate(found):
        wanted = prompts.answer(index), prompts.answer_text(index)
        rows.append((is_correct(answer, *wanted), *rank_and_logprob(answer, *wanted)))
    correct, rank, logprob = zip(*rows, strict=True)
    return pd.DataFrame(
        {
            "mapping": prompts.mapping.astype(np.int32),
            "position": prompts.position.astype(np.int16),
            "target_position": prompts.target_position.astype(np.int32),
            "correct": np.array(correct, bool),
            "answer_rank": pd.array(rank, dtype="Int32"),
            "answer_logprob": pd.array(logprob, dtype="Float32"),
        }
    )
