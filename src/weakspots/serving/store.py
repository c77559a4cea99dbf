"""Answers on disk as they come, so that a run that ends early goes on where it was and asks nothing twice."""

from __future__ import annotations

import fcntl
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

import numpy as np
from pydantic_core import from_json, to_json

from weakspots.errors import UserError
from weakspots.files.hashes import sha256_of
from weakspots.serving.answers import Answer, Backend, Prompt
from weakspots.serving.checks import check_length

_log = logging.getLogger(__name__)

REPORT_EVERY = 5.0
"""Seconds between two lines about the progress."""


def ask_all(backend: Backend, prompts: Sequence[Prompt], path: str | Path) -> list[Answer]:
    """The answers to `prompts`, in their order; those that `path` holds already are not asked for.

    `path` is a file with one line of JSON per answer. A line belongs to a prompt's key, its tokens and the backend's
    name, so one file may hold answers of several models and settings. Asking in another order or a part of the prompts
    is fine. A line that a killed process left unfinished is dropped. The file is locked meanwhile.

    Raises UserError where the backend does, where it counts another length than a prompt has (the answers so far are
    kept), where the file cannot be written, and where another process writes it.
    """
    asked = {key: _asked(backend.name, ids) for key, ids in prompts}
    lengths = {key: len(ids) for key, ids in prompts}
    if len(asked) < len(prompts):
        raise ValueError("prompts asked together must have different keys")
    path = Path(path)
    with opened(path) as file:
        answers = _read(file, asked, path)
        todo = [prompt for prompt in prompts if prompt[0] not in answers]
        if answers:
            _log.info("%s: %d of %d answers are in %s", backend.name, len(answers), len(prompts), path)
        progress = _Progress(backend.name, len(prompts), len(answers))
        for answer in backend.ask(todo) if todo else ():
            check_length(backend.name, lengths[answer.key], answer)
            file.write(to_json({"asked": asked[answer.key], **vars(answer)}) + b"\n")
            file.flush()  # to the system: from here on it survives this process
            answers[answer.key] = answer
            progress.report(len(answers))
    if len(answers) < len(prompts):
        raise RuntimeError(f"{backend.name} left {len(prompts) - len(answers)} prompts without an answer")
    return [answers[key] for key, _ in prompts]


def _asked(name: str, ids: Sequence[int]) -> str:
    """Short hash of a prompt and of the model it is put to."""
    return sha256_of(f"{name}\0".encode() + np.asarray(ids, dtype="<i8").tobytes())[:16]


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The file of answers, open to read and to add to, and locked: nobody else can open it like this meanwhile.

    Raises UserError where it cannot be written, and where another process has it.
    """
    with ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(open(path, "a+b"))
        except OSError as error:
            raise UserError(f"answers cannot be kept in {path} ({error.strerror}): name another folder") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with the process, however that ends
        except BlockingIOError:
            raise UserError(f"another process writes {path}: wait for it, or end it") from None
        yield file


def _read(file: BinaryIO, asked: dict[str, str], path: Path) -> dict[str, Answer]:
    """The answers in `file` to what is asked; an unfinished last line is cut off."""
    answers, whole = {}, 0
    file.seek(0)
    for line in file:
        if not line.endswith(b"\n"):
            _log.info("%s: dropped an unfinished last line", path)
            file.truncate(whole)
            break
        whole += len(line)
        try:
            found = from_json(line)
            if asked.get(found["key"]) == found.pop("asked"):
                answers[found["key"]] = _answer(found)
        except (ValueError, KeyError, TypeError):
            _log.warning("%s: a line is damaged and ignored, its prompt is asked again", path)
    return answers


def _answer(found: dict) -> Answer:
    """An answer from what JSON made of it: its keys are text."""
    for name in ("ids", "ranks"):
        found[name] = {int(token): value for token, value in found[name].items()}
    return Answer(**found)


class _Progress:
    """A line every few seconds: how many are done, how fast, how long it will take."""

    def __init__(self, name: str, total: int, done: int) -> None:
        self._name, self._total, self._before = name, total, done
        self._began = self._reported = time.monotonic()

    def report(self, done: int) -> None:
        now = time.monotonic()
        if now - self._reported < REPORT_EVERY and done < self._total:
            return
        self._reported = now
        rate = (done - self._before) / max(now - self._began, 1e-9)
        left = timedelta(seconds=round((self._total - done) / rate))
        _log.info("%s: %d of %d answers, %.1f a second, %s left", self._name, done, self._total, rate, left)
