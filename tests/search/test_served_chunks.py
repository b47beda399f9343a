"""A served folder answers from one whole state of its files, by meaning where their model is at hand, and says so if not."""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from context_engine.embedding.embedder import Embedder, Mode, normalize_rows
from context_engine.errors import EmbedderFailed, InvalidArgument, InvalidVectors
from context_engine.model import Filter, Query
from context_engine.search.served_chunks import ServedChunks
from tests.support.waiting import until

QUIET_MS = 60
PLANE = {"sea": (1.0, 0.0), "boat": (0.9, 0.1), "ink": (0.0, 1.0)}
"""Words and where they lie: what the scripted model below knows."""


class Scripted:
    """A model of a few words on a plane. `failing` makes it an endpoint that is down."""

    name = "scripted"

    def __init__(self, dimensions: int = 2, fingerprint: str = "0a") -> None:
        self.dimensions = dimensions
        self.fingerprint = fingerprint
        self.failing = False
        self.asked: list[tuple[str, Mode]] = []

    def embed(self, texts: Sequence[str], mode: Mode, *, cancel: threading.Event | None = None) -> np.ndarray:
        self.asked += [(text, mode) for text in texts]
        if self.failing:
            raise EmbedderFailed("nobody is there", suggestion="start it")
        rows = [np.sum([PLANE.get(word, (0, 0)) for word in text.split()] or [(0, 0)], axis=0) for text in texts]
        return normalize_rows(np.array(rows, float).reshape(len(texts), 2)[:, : self.dimensions])

    def close(self) -> None:
        """Nothing to let go of."""


def write(folder: Path, *texts: str, model: str = "scripted", fingerprint: str = "0a", name: str = "code-data") -> Path:
    """One chunk file, with the vectors of its texts on the plane."""
    folder.mkdir(exist_ok=True)
    chunks = [
        {"id": text, "text": text, "title": "", "tags": ["Code"], "embedding": PLANE.get(text.split()[0])}
        for text in texts
    ]
    head = {"model": model, "fingerprint": fingerprint}
    (folder / f"{name}.json").write_text(json.dumps({"_metadata": head, "chunks": chunks}))
    return folder


def opener(embedder: Any = None) -> Callable[[str], Embedder | None]:
    own = embedder or Scripted()
    return lambda model: own if model == "scripted" else None


def ids(served: ServedChunks, text: str, **asked: Any) -> list[str]:
    return [hit.row.id for hit in served.search(Query(text, **asked)).hits]


def test_a_question_is_embedded_as_a_query_and_finds_what_shares_no_word_with_it(tmp_path: Path) -> None:
    model = Scripted()
    with ServedChunks(write(tmp_path, "ink and pen", "boat on water"), opener(model)) as served:
        answer = served.search(Query("sea"))
        assert [hit.row.id for hit in answer.hits] == ["boat on water", "ink and pen"]
        assert (answer.engine, answer.missing, answer.freshness) == ("hybrid", "", "fresh")
        assert {*answer.hits[0].why} == {"meaning"}
        assert ("sea", "query") in model.asked
        assert all(mode == "query" for text, mode in model.asked if text)


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ({"model": "nomic"}, "no model called nomic"),
        ({"model": ""}, "do not say which model"),
        ({"fingerprint": "ff"}, "another version of scripted"),
    ],
)
def test_where_the_model_is_not_at_hand_words_answer_and_the_reason_is_told(
    tmp_path: Path, file: dict[str, str], why: str
) -> None:
    with ServedChunks(write(tmp_path, "ink and pen", "boat on water", **file), opener()) as served:
        answer = served.search(Query("pen"))
        assert [hit.row.id for hit in answer.hits] == ["ink and pen"]
        assert answer.engine == "lexical"
        assert why in answer.missing
        assert why in served.status().missing
        assert served.status().engine == "lexical"


def test_a_model_that_fails_leaves_the_answer_to_words_and_is_named(tmp_path: Path) -> None:
    model = Scripted()
    with ServedChunks(write(tmp_path, "boat on water"), opener(model)) as served:
        model.failing = True
        answer = served.search(Query("water"))
        assert [hit.row.id for hit in answer.hits] == ["boat on water"]
        assert answer.engine == "lexical"
        assert "nobody is there" in answer.missing


def test_half_a_second_of_quiet_is_waited_for_unless_told_otherwise() -> None:
    assert inspect.signature(ServedChunks).parameters["quiet_ms"].default == 500


def test_vectors_of_another_size_than_their_model_makes_are_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidVectors, match=r"vectors of 2 numbers.*1"):
        ServedChunks(write(tmp_path, "boat on water"), opener(Scripted(dimensions=1)))


def test_a_new_state_with_vectors_that_no_longer_fit_keeps_the_old_one(tmp_path: Path) -> None:
    folder = write(tmp_path, "boat on water")
    with ServedChunks(folder, opener(), quiet_ms=QUIET_MS) as served:
        (folder / "code-data.json").write_text(
            json.dumps(
                {"_metadata": {"model": "scripted"}, "chunks": [{"id": "x", "text": "x", "embedding": [1, 0, 0]}]}
            )
        )
        until(lambda: served.status().problem)
        assert "vectors of 3 numbers" in served.status().problem
        assert ids(served, "water") == ["boat on water"]


def test_an_answer_rests_on_one_state_while_the_files_are_replaced(tmp_path: Path) -> None:
    folder = write(tmp_path, *[f"boat version0 {n}" for n in range(30)])
    torn: list[set[str]] = []
    stop = threading.Event()

    def ask(served: ServedChunks) -> None:
        while not stop.is_set():
            found = {each.split()[1] for each in ids(served, "boat", limit=30)}
            if len(found) != 1:
                torn.append(found)

    with ServedChunks(folder, opener(), quiet_ms=10) as served:
        asking = threading.Thread(target=ask, args=(served,))
        asking.start()
        try:
            for version in range(1, 4):
                beside = write(tmp_path / "beside", *[f"boat version{version} {n}" for n in range(30)])
                (beside / "code-data.json").replace(folder / "code-data.json")
                until(lambda version=version: ids(served, f"version{version}"))
        finally:
            stop.set()
            asking.join()
    assert torn == []


def test_an_answer_without_hits_says_why(tmp_path: Path) -> None:
    with ServedChunks(write(tmp_path, "plain words"), opener()) as served:
        assert served.search(Query("zebra")).reason == "no chunk contains a word of the query"
        tagged = served.search(Query("words", filter=Filter(tags=("coed",))))
        assert (tagged.reason, tagged.near_tags) == ("no chunk passes the filter", ("code",))
        none = served.search(Query("zebra plain", filter=Filter(kinds=("symbols",))))
        assert none.reason == "no chunk passes the filter"
        with pytest.raises(InvalidArgument):
            served.search(Query(" "))
