"""A completions server in vLLM's response shape that fails as it is told to, on loopback.

Its model is a hash: the next token after some ids is always the same, and another after other ids. Used inside a test
as a context manager, or as a process of its own (`python scripted.py --port-file F`), which the benchmark does; that
one prints, when it is terminated, how many requests it had at once (the median of samples while it had any).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import statistics
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

HOST = "127.0.0.1"
WORDS = [f" w{number}" for number in range(50)]
Fault = Callable[[tuple[int, ...], int], str | None]
"""From a prompt and how often it was asked before to what goes wrong, or None."""


def token_after(ids: Sequence[int]) -> str:
    """What this server's model says."""
    return WORDS[zlib.crc32(json.dumps(list(ids)).encode()) % len(WORDS)]


def completion(ids: Sequence[int], model: str, logprobs: int, fault: str | None = None) -> dict:
    """A response as vLLM writes it."""
    token = token_after(ids)
    first = WORDS.index(token)
    top = {WORDS[(first + place) % len(WORDS)]: -0.1 - 2 * place - first / 1000 for place in range(logprobs)}
    if fault == "constant":
        top = dict.fromkeys(top, -1.5)
    elif fault == "zeros":
        top = {word: (0.0 if place == 0 else -9999.0) for place, word in enumerate(top)}
    reported = {"text_offset": [0], "token_logprobs": [top.get(token)], "tokens": [token], "top_logprobs": [top]}
    choice = {"index": 0, "text": token, "logprobs": reported, "finish_reason": "length", "stop_reason": None}
    if fault == "no logprobs" or not logprobs:
        choice["logprobs"] = None
    length = len(ids) + {"bos": 1, "cut prompt": -2, "no usage": 0}.get(fault or "", 0)
    usage = {"prompt_tokens": length, "total_tokens": length + 1, "completion_tokens": 1}
    return {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 1,
        "model": model,
        "choices": [choice],
        "usage": None if fault == "no usage" else usage,
    }


class Scripted:
    """The server in a thread. `requests` and `answered` count, by prompt, what came and what was answered whole."""

    def __init__(self, fault: Fault = lambda ids, before: None, delay: float = 0.0) -> None:
        self.fault, self.delay = fault, delay
        self.requests: Counter = Counter()
        self.answered: Counter = Counter()
        self.keys: set[str] = set()
        self.agents: set[str] = set()
        self.at_once = self.most_at_once = 0

    def __enter__(self) -> Scripted:
        self._loop, started = asyncio.new_event_loop(), threading.Event()

        async def start() -> None:
            self._server = await asyncio.start_server(self._connection, HOST, 0)
            self.url = f"http://{HOST}:{self._server.sockets[0].getsockname()[1]}/v1"
            started.set()

        self._loop.create_task(start())
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        started.wait()
        return self

    def __exit__(self, *_: object) -> None:
        async def stop() -> None:
            self._server.close()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.sleep(0)
            self._loop.stop()

        asyncio.run_coroutine_threadsafe(stop(), self._loop)
        self._thread.join()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                headers = dict(line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:-2])
                body = json.loads(await reader.readexactly(int(headers["content-length"])))
                self.keys.add(headers.get("authorization", ""))
                self.agents.add(headers.get("user-agent", ""))
                self.at_once += 1
                self.most_at_once = max(self.at_once, self.most_at_once)
                try:
                    await self._answer(body, headers, reader, writer)
                finally:
                    self.at_once -= 1
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client has gone, or the test is over
        finally:
            writer.close()

    async def _answer(
        self, body: dict, headers: dict, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        ids = tuple(body["prompt"])
        fault = self.fault(ids, self.requests[ids])
        self.requests[ids] += 1
        await asyncio.sleep(self.delay)
        if fault == "timeout":
            await reader.read(1)  # nothing until the client hangs up
            raise ConnectionResetError
        if fault and fault.startswith("inside "):  # an error in a response that says it is none
            code = int(fault.removeprefix("inside "))
            self._write(writer, json.dumps({"error": {"message": f"scripted {code}", "code": code}}).encode())
            return
        if fault and fault.isdecimal():
            message = f"scripted {fault}, your key is {headers.get('authorization', 'missing')}"
            self._write(writer, json.dumps({"error": {"message": message, "code": int(fault)}}).encode(), fault)
            return
        answer = completion(ids, body["model"], body.get("logprobs", 0), fault)
        whole = json.dumps(answer | {"id": f"cmpl-{self.requests.total()}"}).encode()  # as every server numbers them
        if fault == "truncated":
            self._write(writer, whole[: len(whole) // 2])
        elif fault == "cut":
            self._write(writer, whole[: len(whole) // 2], length=len(whole))
            raise ConnectionResetError
        else:
            self.answered[ids] += 1
            self._write(writer, whole)
            if fault == "twice":
                self._write(writer, whole)
        await writer.drain()

    def _write(self, writer: asyncio.StreamWriter, body: bytes, status: str = "200", length: int | None = None) -> None:
        more = "Retry-After: 1\r\n" if status == "429" else ""
        head = f"HTTP/1.1 {status} Scripted\r\nContent-Type: application/json\r\n{more}"
        writer.write(f"{head}Content-Length: {length or len(body)}\r\n\r\n".encode() + body)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port-file", type=Path, required=True, help="where the server's URL is written")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before each answer")
    arguments = parser.parse_args()
    with Scripted(delay=arguments.delay) as server:
        partial = arguments.port_file.with_suffix(".partial")
        partial.write_text(server.url)
        partial.rename(arguments.port_file)
        samples: list[int] = []
        ended = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: ended.set())
        while not ended.wait(0.02):
            samples.append(server.at_once)
    print(statistics.median([number for number in samples if number] or [0]))
