"""Any causal language model of transformers as a backend, on a CPU or a GPU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from weakspots.errors import UserError
from weakspots.files.hashes import config_hash
from weakspots.model.loading import load, version
from weakspots.serving.answers import Answer, Prompt
from weakspots.serving.prefill import next_token_logits

CHUNK = 2048
"""Tokens of a prompt that are read at a time; longer prompts go through the model's cache."""


class Local:
    """A backend that runs `model` where it is.

    Answers keep the `top` tokens and those of `candidates`, which are ids and get ranks over the whole vocabulary.
    Prompts go through the model in batches of equal length and at most `batch_tokens` tokens (one prompt at least).
    Nothing is padded: padding would move the windows of a compressed cache. `tokenizer` gives the texts of tokens; with
    None, answers have ids only. `label` is the model's name for people, `version` tells its weights from others of that
    name.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase | None,
        label: str,
        *,
        version: str = "",
        top: int = 20,
        candidates: Sequence[int] = (),
        batch_tokens: int = 8192,
    ) -> None:
        self._model, self.tokenizer = model.eval(), tokenizer
        self._texts: dict[int, str] = {}
        self._top, self._batch_tokens = top, batch_tokens
        self._candidates = sorted(set(map(int, candidates)))
        settings = [label, version, str(model.dtype), model.device.type, top, self._candidates]
        self.name = f"{label} [{config_hash(settings)}]"

    @classmethod
    def load(cls, source: str | Path, *, dtype: str = "float32", device: str = "cpu", **options: Any) -> Local:
        """The model at `source`, see `loading.load`, with the options above. Raises UserError as that does."""
        model, tokenizer = load(source, dtype=dtype, device=device)
        return cls(model, tokenizer, str(source), version=version(source, model), **options)

    @property
    def context(self) -> int | None:
        """Tokens of the longest prompt that the model states to be for; None where it states no limit."""
        return getattr(self._model.config.get_text_config(), "max_position_embeddings", None)

    def ask(self, prompts: Sequence[Prompt]) -> Iterator[Answer]:
        """One answer per prompt, shorter prompts first.

        Raises UserError where a prompt has tokens or positions that the model does not have, before anything is asked,
        and where the model's output is not a number.
        """
        by_length: dict[int, list[Prompt]] = defaultdict(list)
        for prompt in prompts:
            by_length[len(prompt[1])].append(prompt)
        self._check(prompts)
        for length, alike in sorted(by_length.items()):
            batch = max(1, self._batch_tokens // length)
            for start in range(0, len(alike), batch):
                yield from self._batch(alike[start : start + batch], length)

    def close(self) -> None:
        """Gives back the model's memory, unless somebody else holds the model."""
        del self._model
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _check(self, prompts: Sequence[Prompt]) -> None:
        """Raise UserError for what would be an index beyond a table: on a GPU that ends the whole process."""
        known = self._model.get_input_embeddings().weight.shape[0]
        largest = max((max(ids) for _, ids in prompts), default=0)
        if largest >= known:
            raise UserError(
                f"{self.name} knows {known} tokens, and a prompt has token {largest}: the tokenizer is another model's"
            )
        longest = max((len(ids) for _, ids in prompts), default=0)
        if self.context is not None and longest > self.context and not self._rotary():
            raise UserError(
                f"{self.name} has positions for {self.context} tokens, and a prompt has {longest}: ask shorter prompts"
            )

    def _rotary(self) -> bool:
        """Whether positions are computed, so that prompts may be longer than the model states, if it bears that."""
        config = self._model.config.get_text_config()
        # transformers' name, and that of this project's models
        return any(getattr(config, key, None) for key in ("rope_parameters", "rope_base"))

    @torch.inference_mode()
    def _batch(self, prompts: Sequence[Prompt], length: int) -> list[Answer]:
        tokens = torch.tensor([list(ids) for _, ids in prompts], device=self._model.device)  # [B, T]
        if length > CHUNK:  # one pass would need memory for all pairs of tokens
            logits = next_token_logits(self._model, tokens, CHUNK).float()
        else:
            logits = self._model(input_ids=tokens, logits_to_keep=1, use_cache=False).logits[:, -1].float()
        logprobs = logits.log_softmax(dim=-1)  # [B, vocabulary]
        if logprobs.isnan().any():
            raise UserError(f"{self.name} computes no numbers (NaN): its weights are damaged, or need dtype float32")
        greedy = logprobs.argmax(dim=1).tolist()
        values, tops = (found.tolist() for found in logprobs.topk(min(self._top, logprobs.shape[1])))
        wanted = logprobs[:, self._candidates]  # [B, candidates]
        # One candidate at a time: all at once would be a tensor of B x candidates x vocabulary.
        ranks = [(logprobs >= column[:, None]).sum(dim=1).tolist() for column in wanted.T]
        answers = []
        for row, (key, _) in enumerate(prompts):
            ids = dict(zip(tops[row], values[row], strict=True))
            ids |= dict(zip(self._candidates, wanted[row].tolist(), strict=True))
            rank_of = {token: rank[row] for token, rank in zip(self._candidates, ranks, strict=True)}
            answers.append(Answer(key, self._text(greedy[row]), greedy[row], self._by_text(ids), ids, length, rank_of))
        return answers

    def _by_text(self, ids: dict[int, float]) -> dict[str, float]:
        """Of tokens with one text, the likeliest."""
        if self.tokenizer is None:
            return {}
        by_logprob = sorted(ids.items(), key=lambda item: item[1])
        return {text: logprob for token, logprob in by_logprob if (text := self._text(token)) is not None}

    def _text(self, token: int) -> str | None:
        if self.tokenizer is None:
            return None
        if token not in self._texts:  # asking the tokenizer takes as long as a small model's answer
            self._texts[token] = self.tokenizer.decode([token], clean_up_tokenization_spaces=False)
        return self._texts[token]
