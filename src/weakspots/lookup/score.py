"""Scores of lookup prompts: the answer's rank and probability over the whole vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from weakspots.config import Corpus
from weakspots.errors import UserError
from weakspots.lookup.prompts import PromptSet, words_in_use


def refuse_unknown_words(corpus: Corpus) -> Callable[[PreTrainedTokenizerBase], object]:
    """A check of a tokenizer of `corpus`: it raises UserError for a word that the lookup could not use.

    Without it the lookup itself would refuse the word, after all trainings.
    """
    keys, values = words_in_use(corpus)
    return lambda tokenizer: word_tokens(tokenizer, [*keys, *values])


def score(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, prompts: PromptSet, batch: int) -> pd.DataFrame:
    """The lookup table of `model`: one row per prompt, in their order; `batch` prompts per forward pass.

    Works with every causal language model of transformers. All prompts have one length, so nothing is ever padded:
    padding would move the positions that are being measured. Ties count against the answer.
    Raises UserError where the tokenizer splits or does not know a word, or the model's output is not finite.
    """
    tokens, answers = tokenize(tokenizer, prompts)
    model.eval()
    ranks, probabilities = [], []
    with torch.inference_mode():
        for inputs, answer in batches(tokens, answers, batch, model.device):
            logits = model(input_ids=inputs, logits_to_keep=1, use_cache=False).logits[:, -1]
            rank, probability = rank_and_probability(logits, answer)
            ranks.append(rank.cpu())
            probabilities.append(probability.cpu())
    return table(prompts, torch.cat(ranks).numpy(), torch.cat(probabilities).numpy())


def batches(
    tokens: np.ndarray, answers: np.ndarray, batch: int, device: torch.device
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """`batch` prompts [batch, T] and their answers [batch] at a time, on `device`."""
    for start in range(0, len(tokens), batch):
        part = slice(start, start + batch)
        yield torch.from_numpy(tokens[part]).to(device), torch.from_numpy(answers[part]).to(device)


def rank_and_probability(logits: torch.Tensor, answer: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rank (1: the top; ties count against it) and probability of token `answer` [N] under `logits` [N, vocabulary]."""
    logits = logits.float()
    chosen = logits.gather(1, answer[:, None])
    return (logits >= chosen).sum(dim=1), (chosen[:, 0] - logits.logsumexp(dim=1)).exp()


def table(prompts: PromptSet, rank: np.ndarray, probability: np.ndarray) -> pd.DataFrame:
    """The table "lookup" of the ranks and probabilities [N] of the prompts' answers.

    Raises UserError where a probability is not finite.
    """
    if not np.isfinite(probability).all():
        raise UserError("the model's output is not finite: its training diverged; lower training.learning_rate")
    return pd.DataFrame(
        {
            "mapping": prompts.mapping.astype(np.int32),
            "position": prompts.position.astype(np.int16),
            "target_position": prompts.target_position.astype(np.int32),
            "correct": rank == 1,
            "answer_rank": rank.astype(np.int32),
            "answer_probability": probability.astype(np.float32),
        }
    )


def tokenize(tokenizer: PreTrainedTokenizerBase, prompts: PromptSet) -> tuple[np.ndarray, np.ndarray]:
    """Token ids [N, T] of the prompts, the end-of-text token first, and of their answers [N], int64.

    Raises UserError naming the word where one is not exactly one token of its own.
    """
    table = np.array(word_tokens(tokenizer, prompts.vocabulary), dtype=np.int64)
    tokens = np.insert(table[prompts.words], 0, tokenizer.eos_token_id, axis=1)
    # What is scored must be what the tokenizer makes of the text, not only of its words one by one.
    if tokenizer(prompts.text(0), add_special_tokens=False).input_ids != tokens[0, 1:].tolist():
        raise UserError("the tokenizer joins neighbouring words of a prompt: use one that splits at spaces")
    return tokens, table[prompts.answer]


def word_tokens(tokenizer: PreTrainedTokenizerBase, words: Sequence[str]) -> list[int]:
    """The token of every word with a space before it.

    Raises UserError naming the word where one is not exactly one token of its own, and where no token can start a text.
    """
    if tokenizer.eos_token_id is None:
        raise UserError("the tokenizer has no end-of-text token, which starts every prompt: set its eos_token")
    ids = [_one_token(tokenizer, word) for word in words]
    if len(set(ids)) < len(ids):
        twice = next(word for word, token in zip(words, ids, strict=True) if ids.count(token) > 1)
        raise UserError(f"the tokenizer gives {twice!r} the token of another word: remove one of them")
    return ids


def _one_token(tokenizer: PreTrainedTokenizerBase, word: str) -> int:
    ids = tokenizer(f" {word}", add_special_tokens=False).input_ids
    if len(ids) != 1:
        raise UserError(f"{word!r} is {len(ids)} tokens for this tokenizer and must be one: remove it from the words")
    if ids[0] == tokenizer.unk_token_id:
        raise UserError(f"{word!r} is unknown to this tokenizer: remove it from the words")
    return ids[0]
