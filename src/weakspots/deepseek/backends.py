"""From a row of `deepseek.models` to something that can be asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weakspots.config.deepseek import DeepseekModel
from weakspots.serving.answers import Answer, Backend, Prompt
from weakspots.serving.checks import check
from weakspots.serving.endpoint import Endpoint
from weakspots.serving.local import Local
from weakspots.serving.store import ask_all

SAMPLE = 4
"""Prompts that a server is tried with before it is trusted."""


def backend_of(row: DeepseekModel, trained: str, device: str, candidates: Sequence[int], batch_tokens: int) -> Backend:
    """What answers for the model: its server, or the model loaded here.

    `trained` is the folder of a stand-in. `candidates` are tokens whose log-probabilities are wanted besides the top
    ones; a server reports its top ones only. `batch_tokens` is what a model loaded here reads at once.
    Raises UserError where there is no such model.
    """
    if row.endpoint is not None:
        server = row.endpoint
        return Endpoint(
            server.url,
            server.model,
            logprobs=server.logprobs,
            extra=server.extra_body,
            concurrency=server.concurrency,
            timeout=server.timeout,
            key_variable=server.key_variable,
        )
    place, dtype = (trained, "float32") if row.folder is None else (row.folder, row.dtype)
    return Local.load(place, dtype=dtype, device=device, candidates=candidates, batch_tokens=batch_tokens)


def ask(backend: Backend, prompts: Sequence[Prompt], answers: Path) -> list[Answer]:
    """The answers to `prompts`, in their order; a server is tried first. What is in the file `answers` is not asked.

    Raises UserError where the server cannot be trusted or stops answering; the answers so far are in the file.
    """
    if isinstance(backend, Endpoint):
        apart = range(0, len(prompts), max(1, len(prompts) // SAMPLE))
        check(backend, [prompts[number] for number in apart][:SAMPLE])
    return ask_all(backend, prompts, answers)
