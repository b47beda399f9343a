"""Embedders behind an address: what leaves, what is believed of what comes back, and what is said when it goes wrong."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from context_engine.embedding import remote_embedder
from context_engine.embedding.embedder import EmbedderConfig
from context_engine.embedding.http_endpoint import RetryPolicy, build_url, pause
from context_engine.embedding.remote_embedder import RemoteEmbedder
from context_engine.errors import Cancelled, EmbedderFailed, EmbedderUnusable
from tests.support.endpoints import KEY, EmbeddingServer, Reply, embedding_server, only_connecting_to, told

SECRET = "ghp_" + "a8Kd02LmQzX7" * 3
DIALECTS = {"openai-compatible": remote_embedder.OPENAI_COMPATIBLE, "ollama": remote_embedder.OLLAMA}


class Waits(list[float]):
    """Waits that are written down instead of waited for."""

    def __call__(self, seconds: float, cancel: threading.Event | None) -> None:
        self.append(seconds)
        pause(0, cancel)


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as one, only_connecting_to(one.server_address[1]):
        yield one


@pytest.fixture
def waits() -> Waits:
    return Waits()


class Opening:
    """Opens embedders that ask the server of this test, and closes them."""

    def __init__(self, server: EmbeddingServer, waits: Waits) -> None:
        self.server, self.waits, self.opened = server, waits, []

    def __call__(self, provider: str = "openai-compatible", **more: Any) -> RemoteEmbedder:
        choice = replace(EmbedderConfig(provider, model="words", address=self.server.address), **more)
        embedder = RemoteEmbedder(choice, DIALECTS[provider], pause=self.waits)
        self.opened.append(embedder)
        return embedder


@pytest.fixture
def opening(server: EmbeddingServer, waits: Waits) -> Iterator[Opening]:
    opening = Opening(server, waits)
    yield opening
    for embedder in opening.opened:
        embedder.close()


def sent(server: EmbeddingServer) -> list[str]:
    return [text for asked in server.asked for text in asked.texts]


def rows(*vectors: list[Any]) -> Reply:
    return told({"data": [{"index": number, "embedding": row} for number, row in enumerate(vectors)]})


# -- what is asked ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provider", "path", "body"),
    [
        ("openai-compatible", "/v1/embeddings", {"model": "words", "input": ["a"]}),
        ("ollama", "/api/embed", {"model": "words", "input": ["a"], "truncate": True}),
    ],
)
def test_a_question_is_in_the_form_of_its_protocol(
    server: EmbeddingServer, opening: Opening, provider: str, path: str, body: dict[str, Any]
) -> None:
    opening(provider).embed(["a"], "passage")
    opening(provider, dimensions=8).embed(["a"], "passage")
    assert [(asked.path, asked.body) for asked in server.asked] == [(path, body), (path, body | {"dimensions": 8})]
    assert "authorization" not in server.asked[0].headers


def test_the_key_goes_into_its_header_and_nowhere_else(server: EmbeddingServer, opening: Opening) -> None:
    server.key = KEY
    embedder = opening(key=KEY)
    embedder.embed(["a"], "query")
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in json.dumps(server.asked[0].body) + repr(embedder.__dict__["_config"]) + embedder.fingerprint


def test_secrets_are_masked_before_a_text_leaves_and_a_cut_never_hides_one(
    server: EmbeddingServer, opening: Opening
) -> None:
    opening().embed([f"token = {SECRET}"], "passage")
    opening().embed(["a " * 1_019 + f"token = {SECRET}"], "passage")
    assert [SECRET[:9] in text for text in sent(server)] == [False, False]
    assert "[masked" in sent(server)[0]


def test_each_mode_has_its_own_words_in_front(server: EmbeddingServer, opening: Opening) -> None:
    embedder = opening(query_prefix="search_query: ", passage_prefix="search_document: ")
    embedder.embed(["a"], "query")
    embedder.embed(["a"], "passage")
    assert sent(server) == ["search_query: a", "search_document: a"]


def test_many_texts_go_in_several_requests_and_come_back_in_order(server: EmbeddingServer, opening: Opening) -> None:
    texts = [f"word{number} word" for number in range(100)]
    vectors = opening().embed(texts, "passage")
    assert [len(asked.texts) for asked in server.asked] == [32, 32, 32, 4]
    assert np.allclose(vectors[70], opening().embed([texts[70]], "passage")[0])


# -- what is believed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (rows([1.0, 2.0]), "2 texts were sent, 1 vectors came back"),
        (rows([1.0, 2.0], [1.0]), "vectors of 1, 2 numbers where all must have 3"),
        (rows([1.0, 2.0], [3.0, 4.0]), "vectors of 2 numbers where all must have 3"),
        (rows([1, 2, float("nan")], [1, 2, 3]), "NaN"),
        (rows([1, 2, float("inf")], [1, 2, 3]), "NaN or infinity"),
        (rows([1, 2, None], [1, 2, 3]), "not a number"),
        (rows([1, 2, "3x"], [1, 2, 3]), "not a number"),
        (rows([[1], [2], [3]], [[1], [2], [3]]), "not a number"),
        (rows([1, 2, 10**400], [1, 2, 3]), "too large"),
        (told({"data": [{"index": 0, "embedding": [1, 2, 3]}] * 2}), "not numbered"),
        (told({"data": [{"index": "0", "embedding": [1, 2, 3]}, {"index": 1, "embedding": [1, 2, 3]}]}), "it says"),
        (told({"error": "the model is not loaded"}), "it says the model is not loaded"),
        (told([]), "it says []"),
        (told({"data": None}), "it says"),
        (Reply(200, b"ok"), "not JSON: ok"),
        (Reply(200, b"[" * 100_000), "not JSON"),
        (Reply(200, b"<html>login", {"content-type": "text/html"}), "web page"),
    ],
    ids=range(17),
)
def test_an_answer_that_holds_no_sound_vectors_is_refused(
    server: EmbeddingServer, opening: Opening, reply: Reply, words: str
) -> None:
    server.script = [reply]
    with pytest.raises(EmbedderUnusable) as refused:
        opening(dimensions=3).embed(["a", "b"], "passage")
    assert words in refused.value.message
    assert refused.value.suggestion


# -- what goes wrong ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", list(DIALECTS))
def test_a_model_that_is_not_there_is_named_with_the_way_to_get_it(opening: Opening, provider: str) -> None:
    with pytest.raises(EmbedderUnusable, match="has no model 'absent'") as refused:
        opening(provider, model="absent").embed(["a"], "query")
    assert ("ollama pull absent" if provider == "ollama" else "/v1/models") in refused.value.suggestion


def test_a_refused_key_is_told_without_the_key(server: EmbeddingServer, opening: Opening) -> None:
    server.script = [told({"error": {"message": f"Incorrect API key provided: {KEY}"}}, 401)]
    with pytest.raises(EmbedderUnusable, match="refuses the key") as refused:
        opening(key=KEY).embed(["a"], "query")
    assert KEY not in str(refused.value.as_dict())
    assert "environment variable" in refused.value.suggestion


def test_too_many_requests_are_asked_again_when_the_endpoint_says(
    server: EmbeddingServer, opening: Opening, waits: Waits
) -> None:
    server.script = [told({}, 429, retry_after="7"), told({}, 503), told({}, 500)]
    assert opening().embed(["a"], "passage").any()
    assert waits == [7.0, 2.0, 4.0]
    assert len(server.asked) == 4


def test_an_endpoint_that_goes_on_failing_is_given_up(server: EmbeddingServer, opening: Opening, waits: Waits) -> None:
    server.script = [told({"error": "out of memory"}, 500)] * 20
    with pytest.raises(EmbedderFailed, match="status 500: out of memory") as failed:
        opening().embed(["a"], "passage")
    assert failed.value.retryable
    assert len(server.asked) == remote_embedder.RETRY_POLICIES["passage"].tries
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0]


def test_somebody_who_waits_for_a_query_waits_for_no_other_try(
    server: EmbeddingServer, opening: Opening, waits: Waits
) -> None:
    server.script = [told({}, 503)] * 20
    with pytest.raises(EmbedderFailed):
        opening().embed(["a"], "query")
    assert waits == []


def test_a_wait_that_is_too_long_and_an_empty_account_are_not_waited_for(
    server: EmbeddingServer, opening: Opening, waits: Waits
) -> None:
    server.script = [told({}, 429, retry_after="3600"), told({"error": {"code": "insufficient_quota"}}, 429)]
    with pytest.raises(EmbedderFailed, match="too many requests"):
        opening().embed(["a"], "passage")
    with pytest.raises(EmbedderUnusable, match="is spent"):
        opening().embed(["a"], "passage")
    assert waits == []


@pytest.mark.parametrize("reply", [Reply(hang=True), Reply(body=b" " * 1_000, drip_s=0.01)], ids=["silent", "dripping"])
def test_an_endpoint_that_does_not_answer_in_time_is_left(
    server: EmbeddingServer, opening: Opening, monkeypatch: pytest.MonkeyPatch, reply: Reply
) -> None:
    monkeypatch.setitem(remote_embedder.RETRY_POLICIES, "query", RetryPolicy(answer_s=0.1, tries=1, wait_max_s=0))
    server.script = [reply]
    embedder = opening()
    with pytest.raises(EmbedderFailed, match="in time") as failed:
        embedder.embed(["a"], "query")
    assert failed.value.details["status"] == "timeout"


def test_cancelling_ends_a_wait_for_an_answer_and_a_wait_between_tries(
    server: EmbeddingServer, opening: Opening
) -> None:
    cancel = threading.Event()

    def cancelled(_: Any) -> Reply:
        cancel.set()
        return Reply(hang=True)

    server.script = [cancelled, told({}, 503)]
    with pytest.raises(Cancelled):
        opening().embed(["a"], "passage", cancel=cancel)
    with pytest.raises(Cancelled):
        pause(60, cancel)


def test_an_answer_without_end_is_not_read_to_its_end(
    server: EmbeddingServer, opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("context_engine.embedding.http_endpoint.ANSWER_BYTES_MAX", 10_000)
    server.script = [Reply(body=b" " * 1_000_000)]
    with pytest.raises(EmbedderUnusable, match="much more than was asked"):
        opening().embed(["a"], "passage")


def test_where_nothing_listens_the_next_step_is_to_start_it(server: EmbeddingServer, opening: Opening) -> None:
    server.server_close()
    with pytest.raises(EmbedderFailed, match="nothing answers at") as failed:
        opening("ollama").embed(["a"], "query")
    assert "ollama serve" in failed.value.suggestion


# -- where texts go -----------------------------------------------------------------------------------------------


def test_a_redirect_is_not_followed_wherever_it_leads(server: EmbeddingServer, opening: Opening) -> None:
    with embedding_server() as other:
        server.script = [Reply(307, b"", {"location": f"{other.address}/v1/embeddings"})]
        with pytest.raises(EmbedderUnusable, match="sends us elsewhere"):
            opening().embed(["a"], "passage")
        assert other.asked == []


def test_no_proxy_stands_between_us_and_this_machine(
    server: EmbeddingServer, opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    opening().embed(["a"], "passage")
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("https://api.example.com", "https://api.example.com/v1/embeddings"),
        ("https://api.example.com/v1/", "https://api.example.com/v1/embeddings"),
        ("https://api.example.com/v1beta/openai", "https://api.example.com/v1beta/openai/embeddings"),
        (" http://[::1]:80/v1/embeddings", "http://[::1]:80/v1/embeddings"),
    ],
)
def test_an_address_may_be_written_as_people_write_it(address: str, url: str) -> None:
    assert build_url(address, "/v1/embeddings", "openai-compatible") == url


@pytest.mark.parametrize(
    "address",
    [
        "",
        "localhost:1234",
        "ftp://a.io",
        "http://",
        "http://a:99999",
        "http://[::1",
        "https://a.io/v1?key=1",
        "file:///etc/passwd",
        f"https://me:{KEY}@a.io",
    ],
)
def test_what_is_no_address_is_refused_at_once_and_no_password_is_repeated(address: str) -> None:
    with pytest.raises(EmbedderUnusable, match="is not the address") as refused:
        remote_embedder.open_openai_compatible(EmbedderConfig("openai-compatible", model="m", address=address))
    assert KEY not in str(refused.value.as_dict())
    assert "http://127.0.0.1:1234/v1/embeddings" in refused.value.suggestion


def test_whatever_changes_a_vector_changes_the_fingerprint_and_the_key_does_not() -> None:
    choice = EmbedderConfig("openai-compatible", model="m", address="http://127.0.0.1:1")
    changes: list[dict[str, Any]] = [
        {},
        {"model": "n"},
        {"address": "http://127.0.0.1:2"},
        {"dimensions": 8},
        {"query_prefix": "q: "},
        {"passage_prefix": "q: "},
    ]
    prints = [remote_embedder.open_openai_compatible(replace(choice, **change)).fingerprint for change in changes]
    prints.append(remote_embedder.open_ollama(choice).fingerprint)
    assert len(set(prints)) == len(prints)
    assert remote_embedder.open_openai_compatible(replace(choice, key="k")).fingerprint == prints[0]
