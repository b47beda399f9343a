"""What one Engine knows of meaning: the user's choice, vectors that are made once, and what is missing told."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from context_engine.errors import EmbedderUnusable
from context_engine.model import Answer, Query
from context_engine.search import embedding_service
from context_engine.tools import Call, search_code
from context_engine.tools.index_tools import status_row
from tests.support.endpoints import KEY, EmbeddingServer, Reply, embedding_server, told
from tests.support.engines import indexed
from tests.support.trees import tree
from tests.support.waiting import until

FILES = {
    "shop/vat.py": '"""Taxes of a sale."""\n\n\ndef compute_tax(price, country):\n    return price * RATES[country]\n',
    "shop/basket.py": "def add_item(basket, item):\n    basket.append(item)\n    return basket\n",
    "net/dial.py": "def connect(host, port):\n    return open_socket(host, port)\n",
}
ASKED = Query("return price * the tax of a sale")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tree(tmp_path / "w", FILES)


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as server:
        yield server


def remote(server: EmbeddingServer, model: str = "words", **more: Any) -> dict[str, Any]:
    """The knobs of somebody who runs a server of embeddings."""
    return {
        "embedder": "openai-compatible", "embedding_model": model, "embedding_address": server.address,
    } | more  # fmt: skip


def addends(answer: Answer) -> set[str]:
    """What counted for any of the hits."""
    return {name for hit in answer.hits for name in hit.why}


# -- without a model -----------------------------------------------------------------------------------------------


def test_without_embeddings_words_find_it_and_the_status_says_what_is_missing(root: Path) -> None:
    with indexed(root, embedder="none") as engine:
        answer, status = engine.search.find(ASKED), engine.status()
    assert (answer.engine, answer.hits[0].chunk.path) == ("lexical", "shop/vat.py")
    assert not {"static", "static_card"} & set(answer.hits[0].why)
    row = status_row(status)
    assert (row["engine"], row["embeddings"]) == ("lexical", {"static": "off"})
    assert "words" in row["missing"]


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({"embedder": "model2vec", "embedding_model": "/nowhere"}, "there is no folder"),
        ({"embedder": "openai-compatible"}, "no model is configured"),
        ({"embedder": "ollama", "embedding_model": "m", "embedding_address": "nonsense"}, "is not the address"),
    ],
)
def test_a_provider_that_cannot_be_used_breaks_nothing_and_is_named(
    root: Path, chosen: dict[str, Any], said: str
) -> None:
    with indexed(root, **chosen) as engine:
        answer, status = engine.search.find(ASKED), engine.status().embeddings
        with pytest.raises(EmbedderUnusable, match=said):
            engine.embeddings.embed_all()
    assert (answer.engine, answer.hits[0].chunk.path) == ("hybrid", "shop/vat.py")
    assert said in answer.missing
    assert said in status.state
    assert status.suggestion


def test_by_default_nothing_connects_to_anything_and_nothing_heavy_is_loaded(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("a socket was used")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refused)
    before = set(sys.modules)
    with indexed(root) as engine:
        engine.embeddings.start()
        engine.search.find(ASKED)
    new = {name.partition(".")[0] for name in set(sys.modules) - before}
    assert new.isdisjoint({"torch", "transformers", "tokenizers", "huggingface_hub", "onnx", "httpx2"})


# -- with one ------------------------------------------------------------------------------------------------------


def test_a_chosen_endpoint_embeds_everything_and_takes_part_in_answers(
    root: Path, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.key = KEY
    monkeypatch.setenv("MY_KEY", KEY)
    seen: list[tuple[int, int]] = []
    with indexed(root, **remote(server, embedding_key_variable="MY_KEY")) as engine:
        assert engine.embeddings.embed_all(progress=lambda step: seen.append((step.done, step.total))) == 3
        answer, status = engine.search.find(ASKED), engine.status().embeddings
    assert seen[-1] == (3, 3)
    assert {"model", "model3"} <= addends(answer)
    assert answer.missing == ""
    assert (status.model, status.state, status.chunks) == ("openai-compatible:words", "ready", (3, 3))
    assert KEY not in repr(status)


def test_what_a_search_tool_replies_names_the_missing_vectors(root: Path, server: EmbeddingServer) -> None:
    with indexed(root, **remote(server)) as engine:
        reply = search_code.call(engine, {"query": ASKED.text, "format": "json"}, Call())
    assert json.loads(reply.text)["vectors"].startswith("not every chunk has a vector of")


def test_a_question_is_embedded_once(root: Path, server: EmbeddingServer) -> None:
    with indexed(root, **remote(server)) as engine:
        engine.embeddings.embed_all()
        first, again = engine.search.find(ASKED), engine.search.find(ASKED)
    assert first.hits == again.hits
    assert [asked.texts for asked in server.asked].count([ASKED.text]) == 1


def test_what_was_embedded_once_is_not_embedded_again_in_another_work_tree(
    tmp_path: Path, server: EmbeddingServer
) -> None:
    one, two = tree(tmp_path / "one", FILES), tree(tmp_path / "two", FILES)
    shared = tmp_path / "cache"
    with indexed(one, cache_folder=shared, **remote(server)) as engine:
        engine.embeddings.embed_all()
    passages = len(server.asked)
    (two / "net" / "new.py").write_text("def listen(port):\n    return bind(port)\n", encoding="utf-8")
    with indexed(two, cache_folder=shared, **remote(server)) as engine:
        assert engine.embeddings.embed_all() == 4
    texts = [text for asked in server.asked[passages:] for text in asked.texts]
    assert texts
    assert all("new" in text for text in texts)


def test_what_changed_since_it_was_indexed_gives_no_vector_and_does_not_hold_up_the_rest(
    root: Path, server: EmbeddingServer
) -> None:
    with indexed(root, staleness_ms=600_000, **remote(server)) as engine:
        (root / "net" / "dial.py").write_text("def disconnect(host):\n    return close(host)\n", encoding="utf-8")
        assert engine.embeddings.embed_all() == 2
    assert not any("disconnect" in text for asked in server.asked for text in asked.texts)


def test_the_background_makes_what_is_missing_and_then_what_is_edited(root: Path, server: EmbeddingServer) -> None:
    with indexed(root, **remote(server)) as engine:
        engine.embeddings.start()
        until(lambda: engine.status().embeddings.chunks == (3, 3))
        (root / "net" / "wait.py").write_text("def await_reply(line):\n    return line.read()\n", encoding="utf-8")
        engine.search.find(ASKED)
        until(lambda: engine.status().embeddings.chunks == (4, 4))
        asked = Query("wait for the reply on a line")
        until(lambda: "model" in addends(engine.search.find(asked)))


def test_a_question_whose_endpoint_is_down_is_not_waited_for_again_until_the_background_finds_it(
    root: Path, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_service, "RETRY_S", 0.01)
    with indexed(root, **remote(server)) as engine:
        engine.embeddings.embed_all()
        engine.embeddings.start()
        server.script = [told({"error": {"message": "overloaded"}}, 500)]
        assert "overloaded" in engine.search.find(ASKED).missing
        until(lambda: "model" in addends(engine.search.find(ASKED)))


@pytest.mark.parametrize(
    "reply",
    [
        told({"error": {"message": "overloaded"}}, 500),
        Reply(200, b"<html>welcome</html>", {"content-type": "text/html"}),
        told({"object": "list", "data": [{"index": 0, "embedding": [0.5, 0.5]}]}),
        Reply(hang=True),
    ],
)
def test_an_endpoint_in_trouble_never_breaks_or_holds_up_an_answer(
    root: Path, server: EmbeddingServer, reply: Reply
) -> None:
    with indexed(root, **remote(server)) as engine:
        engine.embeddings.embed_all()
        server.script = [reply] * 1_000
        began = time.monotonic()
        answer = engine.search.find(Query("where is the tax of a sale"))
        assert time.monotonic() - began < 60
        assert (answer.engine, answer.hits[0].chunk.path) == ("hybrid", "shop/vat.py")
        assert "model" not in addends(answer)
        assert answer.missing.startswith("openai-compatible took no part: ")


def test_a_closed_engine_leaves_no_thread_behind(root: Path, server: EmbeddingServer) -> None:
    import threading

    before = {thread.ident for thread in threading.enumerate()}
    with indexed(root, **remote(server)) as engine:
        engine.embeddings.start()
        engine.search.find(ASKED)
    until(lambda: not [t for t in threading.enumerate() if t.ident not in before and t.name.startswith("ctx-")])
