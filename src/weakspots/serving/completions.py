"""Answers of `/v1/completions` to one token-id prompt, in the shapes that servers use.

vLLM and SGLang write OpenAI's older shape, `logprobs: {tokens, token_logprobs, top_logprobs}`, where tokens are texts,
or `token_id:N` if vLLM is asked with `return_tokens_as_token_ids`. Some servers spell these tokens as their vocabulary
does, with a mark in place of the space before a word, or without it; `text` then says what was written. llama.cpp
writes `logprobs: {content: [{id, token, logprob, top_logprobs}]}`. Hosted servers may leave the log-probabilities out;
the text is then the greedy token.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from pydantic_core import from_json

from weakspots.serving.answers import Answer

_BY_ID = "token_id:"
_MARKS = ("\u0120", "\u2581")  # of a space before a word: in byte-level vocabularies, and in SentencePiece's
_LARGEST = 2**31


class Malformed(Exception):
    """A body that is no completion: cut off, no JSON, or without what every completion has."""


def parse(body: bytes, key: str) -> Answer:
    """The answer to prompt `key` in a response with status 200. Raises Malformed.

    Log-probabilities that are no finite numbers are left out.
    """
    try:
        response = from_json(body)
        choice = response["choices"][0]
        token, token_id = choice["text"], None
        if choice.get("token_ids"):  # vLLM, asked with `return_token_ids`
            token_id = _id(choice["token_ids"][0])
        logprobs, ids = {}, {}
        reported = choice.get("logprobs") or {}
        if "content" in reported:
            if reported["content"]:  # empty where the token ends the text
                first = reported["content"][0]
                token, token_id = first["token"], _id(first["id"])
                tops = [first, *first["top_logprobs"]]
                logprobs = _finite((top["token"], top["logprob"]) for top in reversed(tops))
                ids = _finite((_id(top["id"]), top["logprob"]) for top in tops)
        elif reported.get("tokens"):
            found = _older_shape(reported)
            first = reported["tokens"][0]
            if first.startswith(_BY_ID):
                token_id = _id(int(first.removeprefix(_BY_ID)))
                ids = {_id(int(name.removeprefix(_BY_ID))): logprob for name, logprob in found.items()}
            else:
                written = _spelling(first, token)
                token, logprobs = written(first), {written(name): logprob for name, logprob in found.items()}
        return Answer(key, token, token_id, logprobs, ids, (response.get("usage") or {}).get("prompt_tokens"))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        start = body[:80].decode(errors="replace")
        raise Malformed(f"what it answered is no completion ({start!r}...)") from error


def error_status(body: bytes) -> int | None:
    """The status that a body speaks of, where it holds an error and no completion: some servers send it with a 200."""
    try:
        response = from_json(body)
        error = response["error"]
        return None if "choices" in response or not isinstance(error, Mapping) else int(error.get("code") or 0) or None
    except (ValueError, KeyError, TypeError):
        return None


def error_message(body: bytes) -> str:
    """What a server says about a request it refused: one line of at most 200 characters."""
    text = body.decode(errors="replace")
    try:
        found = from_json(text)
        found = found.get("error", found)
        text = str(found["message"] if isinstance(found, Mapping) and "message" in found else found)
    except (ValueError, AttributeError):
        pass  # no JSON, or not an object: shown as it is
    return " ".join(text.split())[:200] or "no reason given"


def _id(value: object) -> int:
    """A token's id. Raises ValueError for what no vocabulary has."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _LARGEST:
        raise ValueError(f"token id {value!r}")
    return value


def _spelling(token: str, text: str) -> Callable[[str], str]:
    """How tokens are to be read where the written `token` is spelled otherwise than the `text` that it stands for."""

    def with_space(name: str) -> str:
        return " " + name[1:] if name[:1] in _MARKS else name

    def after_space(name: str) -> str:
        return name if name.startswith(" ") else f" {name}"

    for written in (with_space, after_space):
        if token != text and written(token) == text:
            return written
    return str


def _older_shape(reported: Mapping) -> dict[str, float]:
    """Log-probabilities by text. The written token is part of them, also where only that one is reported."""
    tops = reported.get("top_logprobs") or [None]
    return _finite([*zip(reported["tokens"][:1], (reported.get("token_logprobs") or [])[:1], strict=False)]) | _finite(
        (tops[0] or {}).items()
    )


def _finite(pairs: Iterable[tuple]) -> dict:
    return {name: float(value) for name, value in pairs if value is not None and math.isfinite(value)}
