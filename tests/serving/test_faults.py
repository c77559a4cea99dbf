"""A server that fails in every way that servers do: nothing is lost, and nothing that was answered is asked again."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from scripted import Scripted, token_after

from weakspots.errors import UserError
from weakspots.serving.answers import Answer
from weakspots.serving.checks import check
from weakspots.serving.endpoint import Endpoint
from weakspots.serving.store import ask_all

PROMPTS = [(f"prompt {number}", list(range(number, number + 12))) for number in range(40)]
PASSING = ["429", "500", "503", "timeout", "cut", "truncated"]
MISLEADING = ["constant", "zeros", "bos", "cut prompt"]


def endpoint(server: Scripted, **options: object) -> Endpoint:
    return Endpoint(server.url, "scripted", **{"timeout": 20.0, "tries": 3, "pause": 0.02, "concurrency": 8, **options})


def times(fault: str) -> dict[str, float]:
    """A short timeout where it is what is tested. Elsewhere a busy machine must not be taken for a fault."""
    return {"timeout": 1.0} if fault == "timeout" else {}


def right(answers: Sequence[Answer]) -> bool:
    return [(answer.key, answer.token) for answer in answers] == [(key, token_after(ids)) for key, ids in PROMPTS]


def once_each(server: Scripted) -> bool:
    return server.answered == {tuple(ids): 1 for _, ids in PROMPTS}


@pytest.mark.parametrize("fault", PASSING)
def test_a_failure_that_passes_is_sat_out(fault: str, tmp_path: Path) -> None:
    bad = {tuple(ids) for _, ids in PROMPTS[5:35:6]}
    with Scripted(lambda ids, before: fault if ids in bad and not before else None) as server:
        answers = ask_all(endpoint(server, **times(fault)), PROMPTS, tmp_path / "answers.jsonl")
        assert right(answers) and once_each(server)
        assert {ids: asked for ids, asked in server.requests.items() if asked > 1} == dict.fromkeys(bad, 2)


@pytest.mark.parametrize("fault", PASSING)
def test_after_a_failure_that_stays_a_rerun_completes(fault: str, tmp_path: Path) -> None:
    bad = tuple(PROMPTS[20][1])
    path = tmp_path / "answers.jsonl"
    with Scripted(lambda ids, before: fault if ids == bad else None) as server:
        with pytest.raises(UserError, match="try 3 of 3.*run again: finished prompts are kept") as caught:
            ask_all(endpoint(server, **times(fault)), PROMPTS, path)
        assert "\n" not in str(caught.value)
        assert server.requests[bad] == 3 and 15 <= len(server.answered) < 40
        server.fault = lambda ids, before: None
        assert right(ask_all(endpoint(server, **times(fault)), PROMPTS, path))
        assert once_each(server)


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_response_that_comes_twice_shifts_no_answer(concurrency: int, tmp_path: Path) -> None:
    twice = {tuple(ids) for _, ids in PROMPTS[3:30:9]}
    with Scripted(lambda ids, before: "twice" if ids in twice else None) as server:
        answers = ask_all(endpoint(server, concurrency=concurrency), PROMPTS, tmp_path / "answers.jsonl")
        assert right(answers)
        assert server.requests.total() <= len(PROMPTS) + len(twice)  # one more each, where the copy came late


@pytest.mark.parametrize(("code", "asked"), [(404, 1), (401, 1), (503, 3)])
def test_an_error_inside_a_response_that_says_it_is_none_counts_as_that_error(
    code: int, asked: int, tmp_path: Path
) -> None:
    with Scripted(lambda ids, before: f"inside {code}") as server:
        with pytest.raises(UserError, match=f"status {code}: scripted {code}"):
            ask_all(endpoint(server, concurrency=1), PROMPTS, tmp_path / "answers.jsonl")
        assert server.requests.total() == asked


def test_requests_say_who_asks(tmp_path: Path) -> None:
    with Scripted() as server:
        ask_all(endpoint(server), PROMPTS[:3], tmp_path / "answers.jsonl")
        (agent,) = server.agents
    assert agent.startswith("weakspots/")


@pytest.mark.parametrize("fault", MISLEADING)
def test_answers_that_mean_something_else_are_found_before_the_run(fault: str, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with Scripted(lambda ids, before: fault) as server:
        backend = endpoint(server)
        named = {
            "constant": "same log-probabilities after every prompt.*attention backend",
            "zeros": "reports only -9999 and 0 as log-probabilities.*set logprobs to 0",
            "bos": "counted 13 tokens in a prompt of 12: the server adds a BOS.*add_special_tokens",
            "cut prompt": "counted 10 tokens in a prompt of 12: the server cuts prompts off.*--max-model-len",
        }
        with pytest.raises(UserError, match=named[fault]) as caught:
            check(backend, PROMPTS[:4])
        assert "\n" not in str(caught.value)
        server.fault = lambda ids, before: None
        check(backend, PROMPTS[:4])
        server.answered.clear()
        assert right(ask_all(backend, PROMPTS, path))
        assert right(ask_all(backend, PROMPTS, path)) and once_each(server)


def test_a_prompt_whose_length_changes_during_the_run_stops_it(tmp_path: Path) -> None:
    bad = tuple(PROMPTS[20][1])
    path = tmp_path / "answers.jsonl"
    with Scripted(lambda ids, before: "bos" if ids == bad else None) as server:
        with pytest.raises(UserError, match="adds a BOS"):
            ask_all(endpoint(server, concurrency=1), PROMPTS, path)
        kept = len(path.read_text().splitlines())
        assert kept == 20
        server.fault = lambda ids, before: None
        assert right(ask_all(endpoint(server), PROMPTS, path))
        assert all(times == 1 for ids, times in server.answered.items() if list(ids) in [p[1] for p in PROMPTS[:20]])


def test_missing_logprobs_are_said_and_greedy_tokens_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Scripted(lambda ids, before: "no logprobs") as server:
        backend = endpoint(server)
        check(backend, PROMPTS[:4])
        assert "gives no log-probabilities: only greedy tokens will be used" in caplog.text
        server.answered.clear()
        answers = ask_all(backend, PROMPTS, tmp_path / "answers.jsonl")
        assert right(answers) and once_each(server) and not any(answer.logprobs for answer in answers)


def test_a_server_that_counts_nothing_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with Scripted(lambda ids, before: "no usage") as server:
        check(endpoint(server), PROMPTS[:2])
    assert "whether it adds a BOS is unknown" in caplog.text


def test_a_server_that_changes_its_mind_is_told_what_to_switch_off() -> None:
    with (
        Scripted(lambda ids, before: "constant" if before else None) as server,
        pytest.raises(UserError, match="one prompt twice.*prefix caching.*cache_prompt: false.*speculative decoding"),
    ):
        check(endpoint(server), PROMPTS[:4])


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        ("400", "change the request or the server as it says"),
        ("401", "put the API key into MY_KEY"),
        ("404", "'scripted' is a model of this server"),
        ("302", "check the URL"),
    ],
)
def test_a_refusal_is_final_and_says_what_to_do(status: str, advice: str, tmp_path: Path) -> None:
    with Scripted(lambda ids, before: status) as server:
        with pytest.raises(
            UserError, match=f"refused a request with status {status}: scripted {status}.*{advice}"
        ) as caught:
            ask_all(endpoint(server, concurrency=1, key_variable="MY_KEY"), PROMPTS, tmp_path / "answers.jsonl")
        assert "\n" not in str(caught.value)
        assert server.requests.total() == 1


def test_a_pause_is_as_long_as_the_server_asks_for(tmp_path: Path) -> None:
    began = time.monotonic()
    with Scripted(lambda ids, before: None if before else "429") as server:  # Retry-After: 1
        ask_all(endpoint(server), PROMPTS[:4], tmp_path / "answers.jsonl")
    assert 1.0 <= time.monotonic() - began < 10


def test_no_server_at_all_is_said_in_a_line(tmp_path: Path) -> None:
    with Scripted() as server:
        pass
    with pytest.raises(UserError, match="the connection failed.*see to the server and run again"):
        ask_all(endpoint(server), PROMPTS, tmp_path / "answers.jsonl")


@pytest.mark.parametrize("limit", [1, 5])
def test_no_more_requests_at_once_than_allowed(limit: int, tmp_path: Path) -> None:
    with Scripted(delay=0.01) as server:
        ask_all(endpoint(server, concurrency=limit), PROMPTS, tmp_path / "answers.jsonl")
        assert server.most_at_once == limit


def test_who_stops_reading_answers_stops_the_requests() -> None:
    prompts = [(str(number), [number]) for number in range(2000)]
    with Scripted(delay=0.01) as server:
        answers = endpoint(server).ask(prompts)
        next(answers)
        answers.close()
        time.sleep(0.2)  # what was on its way arrives
        asked = server.requests.total()
        time.sleep(0.1)
        assert asked == server.requests.total() < len(prompts)


def test_the_key_goes_into_the_header_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture
) -> None:
    """Although the server repeats it in what it refuses, with passing failures and final ones."""
    secret = "sk-0123456789abcdef"
    monkeypatch.setenv("WEAKSPOTS_API_KEY", secret)
    caplog.set_level(logging.DEBUG)
    said = []
    with Scripted(lambda ids, before: None if before else "500") as server:
        ask_all(endpoint(server), PROMPTS, tmp_path / "answers.jsonl")
        for status in ("401", "400", "500"):
            server.fault = lambda ids, before, status=status: status
            backend = endpoint(server)
            with pytest.raises(UserError) as caught:
                ask_all(backend, PROMPTS, tmp_path / "other.jsonl")
            error: BaseException | None = caught.value
            while error is not None:
                said += [str(error), repr(error)]
                error = error.__cause__ or error.__context__
            said += [backend.name, repr(backend), str(backend)]
        assert server.keys == {f"bearer {secret}"}
    logged = "".join(str(vars(record)) for record in caplog.records)
    written = "".join(path.read_text() for path in tmp_path.iterdir())
    assert "trying again" in logged and "prompt 1" in written and "scripted 401" in "".join(said)
    assert secret not in logged + caplog.text + written + "".join(said) + "".join(capfd.readouterr())


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel"])
def test_a_key_that_cannot_be_one_is_refused_without_showing_it(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEAKSPOTS_API_KEY", key)
    with pytest.raises(UserError, match="WEAKSPOTS_API_KEY holds no API key") as caught:
        Endpoint("http://127.0.0.1:1/v1", "m")
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://127.0.0.1/v1", "", "http://u:p4ss@127.0.0.1/v1", "http://127.0.0.1/v1?k=p4ss"]
)
def test_a_url_that_cannot_be_one_or_holds_a_secret_is_refused(url: str) -> None:
    with pytest.raises(UserError) as caught:
        Endpoint(url, "m")
    assert "p4ss" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "http://127.0.0.1:9/v1/", "http://127.0.0.1:9/v1/completions"])
def test_the_base_url_may_be_written_in_three_ways(url: str) -> None:
    assert Endpoint(url, "m").name == Endpoint("http://127.0.0.1:9/v1", "m").name
    assert Endpoint(url, "m", extra={"cache_prompt": False}).name != Endpoint(url, "m").name
