"""Asynchronous work in a thread of its own, so that callers need no event loop and may have one (notebooks do)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")


def results_of(work: Callable[[Callable[[T], None]], Coroutine]) -> Iterator[T]:
    """What the coroutine `work(put)` puts, as it comes. Its exception is raised here, after what it had put before.

    When the caller stops iterating, the coroutine is cancelled and waited for.
    """
    results: SimpleQueue[tuple[list[T], BaseException | None, bool]] = SimpleQueue()
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task | None]] = []
    started = threading.Event()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        batch: list[T] = []
        running.append((loop, asyncio.current_task()))
        started.set()

        def put(result: T) -> None:
            if not batch:
                loop.call_soon(hand_over)  # one wake-up of the caller for all that comes in one turn of the loop
            batch.append(result)

        def hand_over() -> None:
            if batch:
                results.put((batch.copy(), None, False))
                batch.clear()

        try:
            await work(put)
        finally:
            hand_over()

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            results.put(([], error, True))
        else:
            results.put(([], None, True))

    thread = threading.Thread(target=run, name="weakspots-requests", daemon=True)
    thread.start()
    started.wait()
    try:
        ended = False
        while not ended:
            batch, error, ended = results.get()
            yield from batch
        if error is not None:
            raise error
    finally:
        with suppress(RuntimeError):  # the loop is closed: it has ended by itself
            loop, task = running[0]
            assert task is not None  # `main` runs as a task
            loop.call_soon_threadsafe(task.cancel)
        thread.join()
