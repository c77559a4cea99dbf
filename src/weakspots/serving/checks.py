"""What must hold before the answers of a server are trusted."""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping, Sequence
from typing import Any

from weakspots.errors import UserError
from weakspots.serving.answers import Answer, Backend, Prompt

_log = logging.getLogger(__name__)

NOTHING = -9999.0
"""What servers report as a log-probability when they have none; so is 0 for every token."""

TWICE = 2
"""Prompts that are asked twice."""

TOLERANCE = 1e-3
"""Largest difference of a log-probability between two answers to one prompt. A healthy server that computes nothing
else meanwhile repeats itself to the bit; reused prompt caches were seen to move it by 0.05."""


def check(backend: Backend, sample: Sequence[Prompt]) -> None:
    """Asks the prompts of `sample` one by one, then the first ones with their tokens shuffled, twice each.

    `sample` should have prompts that differ; about four are enough. Raises UserError that names what to change on the
    server, where it counts other lengths than were sent, reports log-probabilities that say nothing, or does not
    repeat itself. Warns where there are no log-probabilities.
    """
    # Alone, since what else is in a batch changes the last digits of many servers.
    answers = [_alone(backend, prompt) for prompt in sample]
    for (_, ids), answer in zip(sample, answers, strict=True):
        check_length(backend.name, len(ids), answer)
    if any(answer.prompt_tokens is None for answer in answers):
        _log.warning("%s does not count prompts (usage.prompt_tokens): whether it adds a BOS is unknown", backend.name)
    _logprobs(backend, answers)
    for prompt in sample[:TWICE]:
        fresh = _shuffled(prompt)
        _same(backend, _alone(backend, fresh), _alone(backend, fresh))


def _alone(backend: Backend, prompt: Prompt) -> Answer:
    (answer,) = backend.ask([prompt])
    return answer


def _shuffled(prompt: Prompt) -> Prompt:
    """The prompt with its tokens after the first in an order that no earlier check has left in the server's caches."""
    key, ids = prompt
    return f"{key} shuffled", [*ids[:1], *random.sample(list(ids[1:]), len(ids) - 1)]


def check_length(name: str, length: int, answer: Answer) -> None:
    """Raises UserError where backend `name` counted another length than the prompt's: positions have then moved.

    So it does where the length that a server reports is no number.
    """
    if answer.prompt_tokens is None:
        return
    if not isinstance(answer.prompt_tokens, int | float):
        raise UserError(
            f"{name} reports {str(answer.prompt_tokens)[:40]!r} as usage.prompt_tokens, which is no number: update the "
            "server, or ask another one"
        )
    if answer.prompt_tokens == length:
        return
    more = answer.prompt_tokens - length
    if more == 1:
        why = (
            "adds a BOS, which moves every position by one. Switch that off (vLLM: extra add_special_tokens: false; "
            "llama.cpp: --override-kv tokenizer.ggml.add_bos_token=bool:false)"
        )
    elif more > 1:
        why = "adds text, such as a chat template. Ask for completions, not chats, and switch templates off"
    else:
        why = "cuts prompts off. Raise its context length (vLLM: --max-model-len; llama.cpp: --ctx-size)"
    raise UserError(f"{name} counted {answer.prompt_tokens} tokens in a prompt of {length}: the server {why}")


def _logprobs(backend: Backend, answers: Sequence[Answer]) -> None:
    found = [dict(answer.ids or answer.logprobs) for answer in answers]
    if not any(found):
        _log.warning("%s gives no log-probabilities: only greedy tokens will be used", backend.name)
        return
    values = {value for reported in found for value in reported.values()}
    if values <= {0.0, NOTHING}:
        raise UserError(
            f"{backend.name} reports only {' and '.join(f'{value:g}' for value in sorted(values))} as "
            "log-probabilities: it has none. Ask a server of your own, or set logprobs to 0 to use greedy tokens only"
        )
    if len(answers) > 1 and all(sorted(some.values()) == sorted(found[0].values()) for some in found[1:]):
        raise UserError(
            f"{backend.name} reports the same log-probabilities after every prompt: its logits are broken. Update the "
            "server or choose another attention backend or GPU, or set logprobs to 0 to use greedy tokens only"
        )


def _same(backend: Backend, first: Answer, second: Answer) -> None:
    one: Mapping[Any, float] = first.ids or first.logprobs
    two: Mapping[Any, float] = second.ids or second.logprobs
    difference = max((abs(one[token] - two[token]) for token in one.keys() & two.keys()), default=0.0)
    if first.token != second.token or first.token_id != second.token_id:
        what = f"{first.token!r}, then {second.token!r}"
    elif bool(one) != bool(two) or difference > TOLERANCE:
        what = f"log-probabilities that differ by {difference:.2g}" if one and two else "log-probabilities only once"
    else:
        return
    raise UserError(
        f"{backend.name} answered one prompt twice with {what}. Switch off prefix caching (vLLM: "
        "--no-enable-prefix-caching; SGLang: --disable-radix-cache; llama.cpp: extra cache_prompt: false) and "
        "speculative decoding"
    )
