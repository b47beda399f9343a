"""What one Engine knows of meaning: the user's choice, what is missing told and nothing broken, and a change of models."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from context_engine.engine import Engine
from context_engine.errors import EmbedderUnusable, NotIndexed
from context_engine.model import Answer, Query
from context_engine.semantic.embedding_service import read_served_model
from context_engine.tools.index_tools import status_row
from tests.support.endpoints import KEY, EmbeddingServer, Reply, embedding_server, told
from tests.support.engines import indexed, open_engine
from tests.support.trees import tree

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


def eventually(check: Callable[[], object]) -> bool:
    until = time.monotonic() + 120
    while time.monotonic() < until:
        if check():
            return True
        time.sleep(0.02)
    return False


# -- without a model -----------------------------------------------------------------------------------------------


def test_without_embeddings_words_find_it_and_the_status_says_what_is_missing(root: Path) -> None:
    with indexed(root, embedder="none") as engine:
        answer, status = engine.search.find(ASKED), engine.status()
    assert (answer.engine, answer.hits[0].chunk.path) == ("lexical", "shop/vat.py")
    assert not {"static", "static_card"} & set(answer.hits[0].why)
    row = status_row(status)
    assert (row["engine"], row["embeddings"]) == ("lexical", {"static": "off"})
    assert "words" in row["missing"]


def test_static_vectors_need_nothing_and_a_missing_model_is_named_with_the_next_step(root: Path) -> None:
    with indexed(root) as engine:
        engine.embeddings.start()
        assert engine.search.find(ASKED).engine == "hybrid"
        assert eventually(lambda: engine.status().embeddings.state.startswith("absent"))
        status = engine.status()
        assert engine.search.find(ASKED).hits[0].chunk.path == "shop/vat.py"
    assert (status.embeddings.static, status.embeddings.model) == ("ready", "minilm")
    assert "ctx model pull" in status.embeddings.suggestion or "pip install" in status.embeddings.suggestion


def test_a_slip_in_the_name_of_the_embedder_breaks_nothing_and_is_named(root: Path) -> None:
    with indexed(root, embedder="minilmm") as engine:
        engine.embeddings.start()
        assert eventually(lambda: engine.status().embeddings.state.startswith("absent"))
        status = engine.status().embeddings
        assert engine.search.find(ASKED).engine == "hybrid"
    assert "minilmm" in status.state
    assert status.suggestion == "Did you mean minilm?"


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
        assert eventually(lambda: engine.status().embeddings.state.startswith("absent"))
    new = {name.partition(".")[0] for name in set(sys.modules) - before}
    assert new.isdisjoint({"torch", "transformers", "tokenizers", "huggingface_hub", "onnx", "httpx2"})


def test_embedding_everything_needs_an_index_and_a_model(root: Path) -> None:
    with open_engine(root) as engine, pytest.raises(NotIndexed):
        engine.embeddings.embed_all()
    with indexed(root, embedder="static") as engine, pytest.raises(EmbedderUnusable, match="no model"):
        engine.embeddings.embed_all()
    with indexed(root) as engine, pytest.raises(EmbedderUnusable) as caught:
        engine.embeddings.embed_all()
    assert caught.value.suggestion


# -- with one ------------------------------------------------------------------------------------------------------


def test_a_chosen_endpoint_embeds_everything_and_takes_part_in_answers(
    root: Path, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.key = KEY
    monkeypatch.setenv("MY_KEY", KEY)
    seen: list[tuple[int, int]] = []
    with indexed(root, **remote(server, embedding_key_variable="MY_KEY")) as engine:
        counts = engine.embeddings.embed_all(progress=lambda step: seen.append((step.done, step.total)))
        answer, status = engine.search.find(ASKED), engine.status().embeddings
    assert counts == (3, 3)
    assert seen[-1] == (6, 6)
    assert {"model", "model3", "model_card"} <= addends(answer)
    assert (status.model, status.cards, status.chunks) == ("openai-compatible:words", (3, 3), (3, 3))
    assert KEY not in repr(status)


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
        assert engine.embeddings.embed_all() == (4, 4)
    texts = [text for asked in server.asked[passages:] for text in asked.texts]
    assert texts
    assert all("new" in text or text == "dimensions" for text in texts)


def test_what_changed_since_it_was_indexed_does_not_hold_up_the_rest(root: Path, server: EmbeddingServer) -> None:
    with indexed(root, staleness_ms=600_000, **remote(server)) as engine:
        (root / "net" / "dial.py").write_text("def disconnect(host):\n    return close(host)\n", encoding="utf-8")
        assert engine.embeddings.embed_all() == (
            3,
            2,
        )  # its card says what it said: the name of the file and of what was indexed


def test_edits_are_embedded_in_the_background(root: Path, server: EmbeddingServer) -> None:
    with indexed(root, **remote(server)) as engine:
        engine.embeddings.embed_all()
        (root / "net" / "wait.py").write_text("def await_reply(line):\n    return line.read()\n", encoding="utf-8")
        engine.search.find(ASKED)
        assert eventually(lambda: engine.status().embeddings.chunks == (4, 4))


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


def test_secrets_are_masked_before_a_text_leaves(root: Path, server: EmbeddingServer) -> None:
    key = "AKIA" + "Z7Q4N2M8P6R3T5W9"
    (root / "net" / "keys.py").write_text(f'def connect():\n    return login("{key}")\n', encoding="utf-8")
    with indexed(root, **remote(server)) as engine:
        engine.embeddings.embed_all()
    assert server.asked
    assert not any(key in text for asked in server.asked for text in asked.texts)


def test_another_model_takes_over_once_it_has_seen_everything_and_the_old_one_serves_until_then(
    root: Path, server: EmbeddingServer
) -> None:
    with indexed(root, **remote(server)) as engine:
        engine.embeddings.embed_all()
        engine.search.find(ASKED)
        assert read_served_model(engine.cache_folder)["model"] == "words"
    with open_engine(root, **remote(server, "words-small")) as engine:
        stuck = _stuck_passages(server)
        engine.embeddings.start()
        assert eventually(lambda: "model" in addends(engine.search.find(ASKED)))
        assert _models_asked_in_queries(server, ASKED.text)[-1] == "words"
        stuck.clear()
        server.script = []
        engine.embeddings.embed_all()
        assert eventually(
            lambda: engine.search.find(ASKED) and _models_asked_in_queries(server, ASKED.text)[-1] == "words-small"
        )
        assert read_served_model(engine.cache_folder)["model"] == "words-small"


def _stuck_passages(server: EmbeddingServer) -> list[int]:
    """Have the server refuse whatever the small model is asked, until the list is cleared."""
    from tests.support.endpoints import proper

    stuck = [1]

    def answer(asked: Any) -> Reply:
        if stuck and asked.body["model"] == "words-small":
            return told({"error": {"message": "the model is loading"}}, 503)
        return proper(asked, server.key)

    server.script = [answer] * 10_000
    return stuck


def _models_asked_in_queries(server: EmbeddingServer, text: str) -> list[str]:
    return [asked.body["model"] for asked in server.asked if asked.texts == [text]]


def test_a_closed_engine_leaves_no_thread_behind(root: Path, server: EmbeddingServer) -> None:
    import threading

    before = {thread.ident for thread in threading.enumerate()}
    with indexed(root, **remote(server)) as engine:
        engine.embeddings.start()
        engine.search.find(ASKED)
    assert eventually(
        lambda: not [t for t in threading.enumerate() if t.ident not in before and t.name.startswith("ctx-")]
    )


def test_the_engine_is_one_value_and_two_of_them_keep_their_models_apart(
    tmp_path: Path, server: EmbeddingServer
) -> None:
    one, two = tree(tmp_path / "one", FILES), tree(tmp_path / "two", FILES)
    with indexed(one, **remote(server)) as first, indexed(two, embedder="none") as second:
        first.embeddings.embed_all()
        assert "model" in addends(first.search.find(ASKED))
        assert second.search.find(ASKED).engine == "lexical"
    assert isinstance(first, Engine)
