"""Backends that read a lookup prompt as a program: they look the key up, and fail where they are told to.

`Reader` is one in this process, `serving` a completions server on loopback that answers with it.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from weakspots.serving.answers import Answer, Prompt
from weakspots.task.records import animals, names

END = "<|endoftext|>"
Fails = Callable[[int, int, float], bool]
"""From the target's position, the prompt's length and a number from 0 to 1 that is random by prompt."""


def word_tokenizer(keys: int = 80, values: int = 80) -> PreTrainedTokenizerFast:
    """One token per word, as the models of the recall corpus have."""
    words = {word: number for number, word in enumerate([END, *animals()[:keys], *names()[:values]])}
    tokenizer = Tokenizer(models.WordLevel(words))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END)


def chance(*parts: object) -> float:
    """A number from 0 to 1 that depends on the parts alone."""
    return zlib.crc32(json.dumps(parts).encode()) / 2**32


class Reader:
    """Answers with what first follows the prompt's last token, unless it fails; then with token 0.

    Of the lookups a share `constant` is known or unknown whatever the position; `noise` of the rest fail anyway.
    """

    def __init__(
        self, fails: Fails = lambda position, length, luck: False, *, noise: float = 0.3, constant: float = 0.5, name=""
    ) -> None:
        self.name, self._fails, self._noise, self._constant, self.asked = name or "reader", fails, noise, constant, 0

    def token(self, ids: Sequence[int]) -> int:
        """The next token."""
        at = ids.index(ids[-1])
        if at == len(ids) - 1:
            return 0  # no lookup: something else was tried
        wanted = ids[at + 1]
        kind = chance("kind", ids[-1], wanted)
        if kind < self._constant / 2 or (kind >= self._constant and chance("noise", *ids) < self._noise):
            return 0
        return 0 if self._fails(at, len(ids), chance("luck", self.name, *ids)) else wanted

    def ask(self, prompts: Sequence[Prompt]) -> Iterator[Answer]:
        for key, ids in prompts:
            self.asked += 1
            token = self.token(ids)
            yield Answer(key, None, token, {}, {token: -0.5}, len(ids))

    def close(self) -> None: ...


@contextmanager
def serving(reader: Reader, tokenizer: PreTrainedTokenizerFast) -> Iterator[str]:
    """The URL of a server in vLLM's response shape that answers as `reader` does."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            ids = json.loads(self.rfile.read(int(self.headers["content-length"])))["prompt"]
            reader.asked += 1
            text = f" {tokenizer.convert_ids_to_tokens(reader.token(ids))}"
            logprob = -0.1 - chance(*ids)
            shown = {"tokens": [text], "token_logprobs": [logprob], "top_logprobs": [{text: logprob}]}
            body = json.dumps(
                {"choices": [{"text": text, "logprobs": shown}], "usage": {"prompt_tokens": len(ids)}}
            ).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
