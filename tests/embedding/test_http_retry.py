"""What is done about an endpoint's answer, as a table: taken, asked again after a while, or refused in plain words."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.embedding.http_retry import (
    EndpointSpec,
    HttpAnswer,
    RetryPolicy,
    compute_wait_s,
    extract_message,
    parse_retry_after,
    response_error,
)
from context_engine.errors import EmbedderFailed, EmbedderUnusable

PLACE = EndpointSpec("ollama", "http://127.0.0.1:1/api/embed", "bge", "Start Ollama.", "Run `ollama pull bge`.")
PATIENCE = RetryPolicy(answer_s=10, tries=5, wait_max_s=30)
KEY = "sk-proj-" + "Ab3dE5fG7h" * 4


def says(status: int, body: object = None, **headers: str) -> HttpAnswer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpAnswer(status, json.dumps({} if body is None else body).encode(), named)


PAGE = HttpAnswer(200, b" <!doctype html><title>Login</title>", {"content-type": "text/html"})

PASSING = [
    *map(says, (408, 425, 429, 500, 502, 503, 504, 529)),
    HttpAnswer(failure="timeout"),
    HttpAnswer(failure="broken"),
]
LASTING = [
    *map(says, (301, 307, 400, 401, 403, 404, 405, 413, 422)),
    HttpAnswer(failure="huge"),
    says(429, {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}),
    PAGE,
]


@pytest.mark.parametrize(
    ("answer", "words", "next_step"),
    [
        (HttpAnswer(failure="refused", body=b"Connection refused"), "nothing answers at", "Start Ollama."),
        (HttpAnswer(failure="timeout"), "no answer from", "loading bge"),
        (HttpAnswer(failure="huge"), "much more than was asked", "Check the address"),
        (says(302), "sends us elsewhere", "configure the right address"),
        (
            says(401, {"error": {"message": "Incorrect API key provided"}}),
            "refuses the key: Incorrect API key",
            "environment variable",
        ),
        (says(404, {"error": 'model "bge" not found'}), "has no model 'bge'", "ollama pull bge"),
        (says(413), "too long", "smaller number of tokens"),
        (says(422, {"detail": "batch size 64 > 32"}), "status 422: batch size 64 > 32", "Check model and address"),
        (says(429), "too many requests", "asked again later"),
        (LASTING[-2], "is spent", "Add credit"),
        (says(500, {"error": "out of memory"}), "status 500: out of memory", "asked again later"),
        (HttpAnswer(502, b"<html>Bad Gateway", {"content-type": "text/html"}), "status 502", "asked again later"),
        (PAGE, "web page, status 200", "Check the address"),
        (HttpAnswer(404, b"<html>", {}), "web page, status 404", "Check the address"),
    ],
    ids=lambda value: f"{value.status}{value.failure}" if isinstance(value, HttpAnswer) else "",
)
def test_a_refusal_says_what_is_wrong_and_what_to_do(answer: HttpAnswer, words: str, next_step: str) -> None:
    error = response_error(answer, PLACE, now=0)
    assert error is not None
    assert words in error.message
    assert next_step in error.suggestion
    assert error.details["address"] == PLACE.url


def test_a_good_answer_is_no_refusal() -> None:
    assert response_error(says(200, {"embeddings": [[1]]}), PLACE, now=0) is None


@pytest.mark.parametrize("answer", PASSING)
def test_what_may_pass_is_asked_again_and_said_to_be_worth_it(answer: HttpAnswer) -> None:
    assert compute_wait_s(answer, 1, PATIENCE, chance=0, now=0) is not None
    assert isinstance(response_error(answer, PLACE, now=0), EmbedderFailed)


@pytest.mark.parametrize("answer", LASTING)
def test_what_a_person_must_mend_is_not_asked_again(answer: HttpAnswer) -> None:
    assert compute_wait_s(answer, 1, PATIENCE, chance=0, now=0) is None
    assert isinstance(response_error(answer, PLACE, now=0), EmbedderUnusable)


def test_where_nothing_listens_is_not_asked_at_once_again_but_later() -> None:
    nothing = HttpAnswer(failure="refused")
    assert compute_wait_s(nothing, 1, PATIENCE, chance=0, now=0) is None
    assert isinstance(response_error(nothing, PLACE, now=0), EmbedderFailed)


@given(st.integers(1, 4), st.floats(0, 1))
def test_waits_double_and_stay_within_their_bounds(tries: int, chance: float) -> None:
    wait = compute_wait_s(says(503), tries, PATIENCE, chance=chance, now=0)
    assert wait is not None
    assert 2 ** (tries - 1) / 2 <= wait <= 2 ** (tries - 1)


def test_a_wait_is_never_longer_than_allowed_and_tries_end() -> None:
    long = RetryPolicy(answer_s=1, tries=50, wait_max_s=30)
    assert compute_wait_s(says(503), 40, long, chance=0, now=0) == 30
    assert compute_wait_s(says(503), 5, PATIENCE, chance=0, now=0) is None


def test_the_wait_an_endpoint_asks_for_is_kept_or_the_try_given_up() -> None:
    assert compute_wait_s(says(429, retry_after="12"), 1, PATIENCE, chance=0.5, now=0) == 12
    assert compute_wait_s(says(503, retry_after="Thu, 01 Jan 1970 00:00:20 GMT"), 1, PATIENCE, chance=0.5, now=5) == 15
    assert compute_wait_s(says(429, retry_after="3600"), 1, PATIENCE, chance=0.5, now=0) is None
    error = response_error(says(429, retry_after="3600"), PLACE, now=0)
    assert error is not None
    assert error.details["retry_after_s"] == 3600


@given(st.text(max_size=30) | st.sampled_from(["-1", "1e9", "٣", "1.5", "", "Thu, 01 Jan 0000 00:00:00 GMT", "nan"]))
def test_any_retry_after_is_a_number_of_seconds_or_nothing(header: str) -> None:
    seconds = parse_retry_after(HttpAnswer(429, headers={"retry-after": header}), now=0)
    assert seconds is None or seconds >= 0


@given(st.binary(max_size=300))
def test_any_body_can_be_told(body: bytes) -> None:
    told = extract_message(HttpAnswer(400, body))
    assert len(told) <= 300
    assert "\n" not in told


def test_what_an_endpoint_says_is_repeated_short_in_one_line_and_without_secrets() -> None:
    assert len(extract_message(says(400, {"error": "x" * 5_000}))) == 300
    assert extract_message(says(400, {"error": f"wrong key\n{KEY}"})) == extract_message(
        says(400, {"error": f"wrong key {KEY}"})
    )
    assert KEY not in extract_message(says(400, {"error": f"wrong key\n{KEY}"}))
