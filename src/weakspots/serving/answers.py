"""What a served model says after a prompt: the one interface of all backends, and how an answer is read.

A prompt is its key and its token ids, never text: the position of every token is then known exactly, whatever the
server's tokenizer or chat template would have made of the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

Prompt = tuple[str, Sequence[int]]
"""A name that is unique among the prompts asked together, and the token ids."""


@dataclass(frozen=True)
class Answer:
    """The next token after one prompt. Log-probabilities are natural, over the whole vocabulary.

    `key` is the prompt's. `token` and `token_id` are the greedy token; None where the backend does not tell.
    `logprobs` has the tokens that the backend reported by their text, `ids` the same by id where ids are known (texts
    are not unique: two tokens may share one). Both are empty where the server gives no log-probabilities. `ranks` has
    the rank (1: the top, ties count against it) of tokens that were asked for by id and need not be among the top.
    `prompt_tokens` is the length of the prompt as the backend counted it.
    """

    key: str
    token: str | None
    token_id: int | None
    logprobs: Mapping[str, float] = field(default_factory=dict)
    ids: Mapping[int, float] = field(default_factory=dict)
    prompt_tokens: int | None = None
    ranks: Mapping[int, int] = field(default_factory=dict)


class Backend(Protocol):
    """Something that answers prompts.

    `name` is for people and for the store: it names the model and ends with a hash of every setting that the answers
    depend on, so two backends of one name give the same answers. It never holds a secret.
    """

    name: str

    def ask(self, prompts: Sequence[Prompt]) -> Iterator[Answer]:
        """One answer per prompt, in any order, each as soon as it is known.

        Raises UserError where the backend cannot go on; what was yielded before stays valid.
        """
        ...

    def close(self) -> None:
        """Gives back memory and connections. The backend is not used afterwards."""
        ...


def is_correct(answer: Answer, wanted_id: int, wanted_text: str) -> bool:
    """Whether the greedy token is the wanted one: by id where the backend gives ids, else by its exact text.

    This is what the model would have written. Where two tokens tie for the top it can differ from `rank == 1`.
    """
    if answer.token_id is not None:
        return answer.token_id == wanted_id
    return answer.token == wanted_text


def rank_and_logprob(answer: Answer, wanted_id: int, wanted_text: str) -> tuple[int | None, float | None]:
    """Rank (1: the top; ties count against it) and log-probability of the wanted token, None for what is not known.

    By id where the backend gives ids, else by exact text. A server reports its top tokens only: a token that is not
    among them has neither. Without log-probabilities the greedy token still has rank 1.
    """
    known: Mapping[int, float] | Mapping[str, float] = answer.ids or answer.logprobs
    logprob = answer.ids.get(wanted_id) if answer.ids else answer.logprobs.get(wanted_text)
    if logprob is None:
        return (1 if not known and is_correct(answer, wanted_id, wanted_text) else None), None
    rank = answer.ranks.get(wanted_id) if answer.ids else None
    return (sum(other >= logprob for other in known.values()) if rank is None else rank), logprob
