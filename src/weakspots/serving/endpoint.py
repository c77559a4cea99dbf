"""Any server with an OpenAI-compatible `/v1/completions`: vLLM, SGLang, llama.cpp's.

One token-id prompt per request, one greedy token, with log-probabilities. Requests that fail for a passing reason are
repeated, with growing pauses. The API key comes from the environment and goes into a header, nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from pydantic_core import to_json

from weakspots import __version__
from weakspots.errors import UserError
from weakspots.files.hashes import config_hash
from weakspots.serving.answers import Answer, Prompt
from weakspots.serving.background import results_of
from weakspots.serving.completions import Malformed, error_message, error_status, parse
from weakspots.serving.http import Broken, Connection
from weakspots.serving.server import KEY_VARIABLE, api_key, completions_url, retry_after

_log = logging.getLogger(__name__)

LONGEST_PAUSE = 120.0
"""Seconds. A server that asks for a longer one is not waited for."""


class _Passing(Exception):
    """A failure that may be gone next time; `after` is the least pause in seconds."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


class _Run:
    """What the requests of one `ask` share: the first failure, which ends them all, and what was logged."""

    def __init__(self) -> None:
        self.failure: UserError | None = None
        self.failed = asyncio.Event()
        self.said: set[str] = set()

    def fail(self, error: UserError) -> None:
        self.failure = self.failure or error
        self.failed.set()

    async def wait(self, seconds: float) -> None:
        """A pause. Raises the failure if there is one meanwhile."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.failed.wait(), seconds)
        if self.failure:
            raise self.failure


class Endpoint:
    """A backend that asks a server, with up to `concurrency` requests at once.

    `url` is what clients call the base URL, such as http://127.0.0.1:8000/v1. `logprobs` is how many top tokens are
    asked for (0: the greedy token only), `extra` more keys of the request, such as llama.cpp's `cache_prompt: false`.
    A request may take `timeout` seconds and is made at most `tries` times; the first pause is about `pause` seconds,
    each later one twice as long, and never shorter than the server's Retry-After. `key_variable` names the environment
    variable with the API key; a server without keys needs none.

    Raises UserError where the URL or the key cannot be right.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        logprobs: int = 20,
        extra: Mapping[str, object] | None = None,
        concurrency: int = 64,
        timeout: float = 600.0,
        tries: int = 8,
        pause: float = 0.5,
        key_variable: str = KEY_VARIABLE,
    ) -> None:
        self._url = completions_url(url)
        self._key_variable = key_variable
        self._key = api_key(key_variable)
        self._body = {"model": model, "max_tokens": 1, "temperature": 0}
        self._body |= ({"logprobs": logprobs} if logprobs else {}) | dict(extra or {})
        self._concurrency, self._timeout, self._tries, self._pause = concurrency, timeout, tries, pause
        self.name = f"{model} at {self._url} [{config_hash([self._url, self._body])}]"

    def ask(self, prompts: Sequence[Prompt]) -> Iterator[Answer]:
        """One answer per prompt, each as soon as it is known.

        Raises UserError when a request is refused, or has failed `tries` times. No further prompts are then asked, but
        requests under way are waited for and their answers come first: what a server has computed is not lost.
        """
        return results_of(lambda put: self._ask(prompts, put))

    def close(self) -> None:
        """Nothing to give back: connections end with each `ask`."""

    async def _ask(self, prompts: Sequence[Prompt], put: Callable[[Answer], None]) -> None:
        waiting, run = iter(prompts), _Run()
        headers = {"User-Agent": f"weakspots/{__version__}"}  # without one, some networks in between refuse everything
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        tls = ssl.create_default_context() if self._url.startswith("https:") else None  # slow: once for all connections

        async def work() -> None:
            connection = Connection(self._url, headers, tls)
            try:
                for key, ids in waiting:
                    body = to_json(self._body | {"prompt": list(ids)}, fallback=int)  # int: for numpy's and torch's
                    put(await self._answer(connection, body, key, run))
                    if run.failed.is_set():
                        return
            except UserError as error:
                run.fail(error)
            finally:
                connection.close()

        await asyncio.gather(*(work() for _ in range(min(self._concurrency, len(prompts)))))
        if run.failure:
            raise run.failure

    async def _answer(self, connection: Connection, body: bytes, key: str, run: _Run) -> Answer:
        """One prompt's answer; requests are repeated as long as that may help. Raises UserError."""
        tried = 0
        while True:
            tried += 1
            try:
                return await self._once(connection, body, key)
            except _Passing as error:
                if run.failed.is_set() or tried >= self._tries or error.after > LONGEST_PAUSE:
                    pause = f", and a pause of {error.after:.0f} s is asked for" if error.after > LONGEST_PAUSE else ""
                    raise UserError(
                        f"{self._url}: {error} (try {tried} of {self._tries}{pause}); see to the server and run again: "
                        "finished prompts are kept"
                    ) from error
                if str(error) not in run.said:  # once: a busy server refuses many requests for one reason
                    run.said.add(str(error))
                    _log.warning("%s: %s; trying again", self.name, error)
                # The random part keeps requests that failed together from coming back together.
                await run.wait(max(error.after, min(self._pause * 2 ** (tried - 1), 60.0) * random.uniform(1, 2)))

    async def _once(self, connection: Connection, body: bytes, key: str) -> Answer:
        """One request. Raises _Passing or UserError."""
        try:
            async with asyncio.timeout(self._timeout):
                status, headers, answer = await connection.post(body)
            if status == 200:
                status = error_status(answer) or 200
            if status == 200:
                return parse(answer, key)
        except TimeoutError:
            raise _Passing(f"no answer within {self._timeout:g} s") from None
        except (Broken, Malformed) as error:
            raise _Passing(self._hidden(str(error))) from error
        reason = f"status {status}: {self._hidden(error_message(answer))}"
        if status in (408, 429) or status >= 500:
            raise _Passing(reason, retry_after(headers.get("retry-after", "")))
        raise UserError(f"{self._url} refused a request with {reason}; {self._advice(status)}")

    def _advice(self, status: int) -> str:
        if status in (401, 403):
            return f"{'check the API key in' if self._key else 'put the API key into'} {self._key_variable}"
        if status == 404 or status < 400:
            return f"check the URL, and that {self._body['model']!r} is a model of this server"
        return "change the request or the server as it says, and run again"

    def _hidden(self, text: str) -> str:
        """The text without the key: servers are known to repeat it."""
        return text.replace(self._key, "...") if self._key else text
