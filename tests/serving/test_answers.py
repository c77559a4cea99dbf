"""How answers are read: from both shapes of servers, by id and by text."""

from __future__ import annotations

import json
import math

import pytest

from weakspots.serving.answers import Answer, is_correct, rank_and_logprob
from weakspots.serving.completions import Malformed, error_message, parse


def body(logprobs: dict | None, text: str = " cat", **more: object) -> bytes:
    choice = {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": "length", **more}
    return json.dumps({"choices": [choice], "usage": {"prompt_tokens": 7}}).encode()


VLLM = {
    "text_offset": [0],
    "tokens": [" cat"],
    "token_logprobs": [-0.25],
    "top_logprobs": [{" cat": -0.25, " dog": -2.0, " fox": -9999.0}],
}
LLAMA = {
    "content": [
        {
            "id": 5,
            "token": " cat",
            "bytes": [32, 99, 97, 116],
            "logprob": -0.25,
            "top_logprobs": [
                {"id": 5, "token": " cat", "bytes": [], "logprob": -0.25},
                {"id": 8, "token": " dog", "bytes": [], "logprob": -2.0},
                {"id": 9, "token": " dog", "bytes": [], "logprob": -3.0},
            ],
        }
    ]
}


def test_the_older_shape_of_openai_and_vllm() -> None:
    answer = parse(body(VLLM), "a")
    assert answer == Answer("a", " cat", None, {" cat": -0.25, " dog": -2.0, " fox": -9999.0}, {}, 7)


def test_a_written_token_that_is_not_among_the_reported_top_counts_too() -> None:
    one_more = VLLM | {"top_logprobs": [{" dog": -2.0}]}
    assert parse(body(one_more), "a").logprobs == {" cat": -0.25, " dog": -2.0}
    assert parse(body(VLLM | {"top_logprobs": None}), "a").logprobs == {" cat": -0.25}


def test_ids_that_vllm_gives_instead_of_texts() -> None:
    ids = {
        "tokens": ["token_id:5"],
        "token_logprobs": [-0.25],
        "top_logprobs": [{"token_id:5": -0.25, "token_id:8": -2}],
    }
    answer = parse(body(ids), "a")
    assert (answer.token, answer.token_id, answer.ids, answer.logprobs) == (" cat", 5, {5: -0.25, 8: -2.0}, {})
    assert parse(body(VLLM, token_ids=[5]), "a").token_id == 5


@pytest.mark.parametrize("mark", ["\u0120", "\u2581", ""], ids=["byte level", "SentencePiece", "bare"])
def test_a_token_that_is_spelled_as_in_the_vocabulary_is_read_as_its_text(mark: str) -> None:
    spelled = {
        "tokens": [f"{mark}cat"],
        "token_logprobs": [-0.25],
        "top_logprobs": [{f"{mark}cat": -0.25, f"{mark}dog": -2.0}],
    }
    answer = parse(body(spelled), "a")
    assert answer.token == " cat" and answer.logprobs == {" cat": -0.25, " dog": -2.0}
    assert is_correct(answer, 5, " cat") and rank_and_logprob(answer, 8, " dog") == (2, -2.0)


@pytest.mark.parametrize("wrong", [-1, 2**40, "5", 5.5, True, None])
def test_an_id_that_no_vocabulary_has_is_no_answer(wrong: object) -> None:
    first = LLAMA["content"][0]
    with pytest.raises(Malformed):
        parse(body({"content": [first | {"id": wrong}]}), "a")
    with pytest.raises(Malformed):
        parse(body(VLLM, token_ids=[wrong]), "a")
    with pytest.raises(Malformed):
        parse(body(VLLM | {"tokens": ["token_id:-3"]}), "a")


def test_the_shape_of_llama_cpp_where_two_tokens_may_have_one_text() -> None:
    answer = parse(body(LLAMA), "a")
    assert (answer.token, answer.token_id) == (" cat", 5)
    assert answer.ids == {5: -0.25, 8: -2.0, 9: -3.0}
    assert answer.logprobs == {" cat": -0.25, " dog": -2.0}


@pytest.mark.parametrize("missing", [None, {}, {"content": []}, {"tokens": [], "top_logprobs": []}])
def test_without_logprobs_the_text_is_the_greedy_token(missing: dict | None) -> None:
    answer = parse(body(missing), "a")
    assert answer == Answer("a", " cat", None, {}, {}, 7)
    assert is_correct(answer, 5, " cat") and not is_correct(answer, 5, " dog")
    assert rank_and_logprob(answer, 5, " cat") == (1, None)
    assert rank_and_logprob(answer, 8, " dog") == (None, None)


def test_what_is_no_number_is_left_out() -> None:
    text = body(VLLM).replace(b"-2.0", b"NaN").replace(b"-9999.0", b"-Infinity")
    assert parse(text, "a").logprobs == {" cat": -0.25}


@pytest.mark.parametrize("whole", [body(VLLM), body(LLAMA), body(None)])
def test_every_cut_of_a_body_is_noticed(whole: bytes) -> None:
    for length in range(len(whole)):
        with pytest.raises(Malformed):
            parse(whole[:length], "a")


@pytest.mark.parametrize(
    "other", [b"", b"[]", b"{}", b"null", b'{"choices": []}', b'{"choices": [1]}', b"<html>busy</html>"]
)
def test_other_bodies_are_no_completions(other: bytes) -> None:
    with pytest.raises(Malformed, match="no completion"):
        parse(other, "a")


def test_ids_decide_where_they_are_known_and_texts_where_they_are_not() -> None:
    by_id = Answer("a", " cat", 5, {" cat": -0.25, " dog": -2.0}, {5: -0.25, 8: -2.0})
    assert is_correct(by_id, 5, "other text") and not is_correct(by_id, 6, " cat")
    assert rank_and_logprob(by_id, 8, " cat") == (2, -2.0)
    by_text = Answer("a", " cat", None, {" cat": -0.25, " dog": -2.0})
    assert rank_and_logprob(by_text, 5, " dog") == (2, -2.0)
    assert rank_and_logprob(by_text, 5, " fox") == (None, None)
    assert not is_correct(by_text, 5, "cat")


def test_ties_count_against_the_rank_and_a_counted_rank_wins() -> None:
    tie = Answer("a", " cat", 5, {}, {5: -1.0, 8: -1.0, 9: -7.0}, 3, {9: 400})
    assert rank_and_logprob(tie, 5, " cat") == (2, -1.0)
    assert rank_and_logprob(tie, 9, " fox") == (400, -7.0)
    assert math.isclose(rank_and_logprob(tie, 9, " fox")[1], -7.0)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (b'{"error": {"message": "too\\n long", "code": 400}}', "too long"),
        (b'{"object": "error", "message": "too long"}', "too long"),
        (b'{"error": "too long"}', "too long"),
        (b"Bad Gateway", "Bad Gateway"),
        (b"", "no reason given"),
    ],
)
def test_what_a_server_says_becomes_one_line(said: bytes, shown: str) -> None:
    assert error_message(said) == shown
    assert len(error_message(b"x" * 1000)) == 200
