"""What was answered stays answered: through kills, torn lines and other settings."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from scripted import Scripted

from weakspots.errors import UserError
from weakspots.serving import store
from weakspots.serving.answers import Answer, Prompt
from weakspots.serving.store import ask_all

PROMPTS = [(f"prompt {number}", list(range(number, number + 6))) for number in range(20)]


class Counting:
    """A backend that answers in reverse order, and remembers what it was asked."""

    def __init__(self, name: str = "counting", stop_after: int | None = None) -> None:
        self.name, self.asked, self.stop_after = name, [], stop_after

    def ask(self, prompts: Sequence[Prompt]) -> Iterator[Answer]:
        for key, ids in reversed(prompts):
            if len(self.asked) == self.stop_after:
                raise UserError("the server is away")
            self.asked.append(key)
            yield Answer(key, " ä\n", ids[0], {" ä\n": -0.5}, {ids[0]: -0.5, 9: float("-inf")}, len(ids), {9: 3})

    def close(self) -> None: ...


def keys(prompts: Sequence[Prompt]) -> list[str]:
    return [key for key, _ in prompts]


def test_answers_come_in_the_order_of_the_prompts_and_from_disk_the_same(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "answers.jsonl"
    fresh = ask_all(Counting(), PROMPTS, path)
    assert keys([(answer.key, ()) for answer in fresh]) == keys(PROMPTS)
    again = Counting()
    assert ask_all(again, PROMPTS, path) == fresh and again.asked == []
    assert ask_all(again, PROMPTS[10:3:-1], path) == fresh[10:3:-1] and again.asked == []
    arrays = [(key, np.array(ids)) for key, ids in PROMPTS]
    assert ask_all(again, arrays, path) == fresh and again.asked == []


def test_what_was_answered_before_a_failure_is_not_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    first, second = Counting(stop_after=7), Counting()
    with pytest.raises(UserError, match="away"):
        ask_all(first, PROMPTS, path)
    ask_all(second, PROMPTS, path)
    assert sorted(first.asked + second.asked) == sorted(keys(PROMPTS))


def test_every_torn_end_of_the_file_costs_its_last_line_at_most(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    fresh = ask_all(Counting(), PROMPTS, path)
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rindex(b"\n") + 1
    for end in [last, last + 1, last + 30, len(whole) - 1]:
        path.write_bytes(whole[:end])
        again = Counting()
        assert ask_all(again, PROMPTS, path) == fresh
        assert len(again.asked) == 1 and path.read_bytes() == whole


def test_a_damaged_line_is_asked_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "answers.jsonl"
    fresh = ask_all(Counting(), PROMPTS, path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], b"\0" * 40 + b"\n", *lines[4:]]))
    again = Counting()
    assert ask_all(again, PROMPTS, path) == fresh
    assert len(again.asked) == 1 and "a line is damaged" in caplog.text


def test_other_settings_and_other_tokens_never_mix(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    ask_all(Counting("a"), PROMPTS, path)
    other = Counting("b")
    ask_all(other, PROMPTS, path)
    assert len(other.asked) == len(PROMPTS)
    changed = Counting("a")
    ask_all(changed, [(PROMPTS[0][0], [7, 7, 7]), *PROMPTS[1:]], path)
    assert changed.asked == keys(PROMPTS[:1])
    first = Counting("a")
    ask_all(first, PROMPTS, path)
    assert first.asked == []


def test_keys_must_differ_and_every_prompt_must_be_answered(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="different keys"):
        ask_all(Counting(), [PROMPTS[0], PROMPTS[0]], tmp_path / "answers.jsonl")
    silent = Counting()
    silent.ask = lambda prompts: iter(())
    with pytest.raises(RuntimeError, match="20 prompts without an answer"):
        ask_all(silent, PROMPTS, tmp_path / "answers.jsonl")


def test_two_processes_do_not_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with store.opened(path), pytest.raises(UserError, match="another process writes"):
        ask_all(Counting(), PROMPTS, path)
    ask_all(Counting(), PROMPTS, path)


def test_progress_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(store, "REPORT_EVERY", 0.0)
    ask_all(Counting(), PROMPTS[:5], tmp_path / "answers.jsonl")
    ask_all(Counting(), PROMPTS, tmp_path / "answers.jsonl")
    assert "5 of 20 answers are in" in caplog.text
    assert "counting: 10 of 20 answers, " in caplog.text and "a second, 0:00:00 left" in caplog.text


ASK = """
import sys
from weakspots.serving.endpoint import Endpoint
from weakspots.serving.store import ask_all
url, path = sys.argv[1:]
prompts = [(f"prompt {number}", list(range(number, number + 6))) for number in range(200)]
ask_all(Endpoint(url, "scripted", concurrency=4), prompts, path)
"""


def test_a_killed_process_leaves_what_an_undisturbed_one_completes(tmp_path: Path) -> None:
    """SIGKILL half-way, three times. Only what was under way at that moment may be asked twice."""
    prompts = [(f"prompt {number}", list(range(number, number + 6))) for number in range(200)]
    path = tmp_path / "answers.jsonl"
    with Scripted(delay=0.02) as server:
        for part in (0.2, 0.4, 0.6):
            child = subprocess.Popen([sys.executable, "-c", ASK, server.url, path])
            while len(server.answered) < part * len(prompts):
                assert child.poll() is None
                time.sleep(0.005)
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
        assert 100 <= len(path.read_bytes().splitlines()) < 200
        server.delay = 0
        from weakspots.serving.endpoint import Endpoint

        backend = Endpoint(server.url, "scripted", concurrency=4)
        killed = ask_all(backend, prompts, path)
        asked_twice = sum(times - 1 for times in server.answered.values())
        undisturbed = ask_all(backend, prompts, tmp_path / "undisturbed.jsonl")
    assert killed == undisturbed
    assert asked_twice <= 3 * 2 * 4
