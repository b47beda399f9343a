"""The index of what is remembered: a cache that mends itself, shared by any number of processes."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from context_engine.memory.memory_index import IndexItem, MemoryIndex, TextEmbedder, extract_terms
from context_engine.text.words import query_terms


def item(text: str) -> IndexItem:
    return IndexItem(text.encode(), text, "")


def held(recall: MemoryIndex, source: str = "s") -> dict[str, tuple[bytes, list[bytes]]]:
    return {name: (page.stamp, [payload for _, payload in page.items]) for name, page in recall.pages(source).items()}


def found(recall: MemoryIndex, text: str, source: str = "s") -> list[bytes]:
    """Payloads by falling score."""
    payloads = {number: payload for page in recall.pages(source).values() for number, payload in page.items}
    scores = recall.score_words(query_terms(text))
    return [payloads[number] for number in sorted(scores, key=lambda number: -scores[number])]


class AsADictionary(RuleBasedStateMachine):
    """Two processes on one file know what a dictionary would know, whatever is put, dropped, closed or deleted."""

    @initialize()
    def begin(self) -> None:
        self.path = Path(tempfile.mkdtemp(dir=FOLDERS[0])) / "recall.db"
        self.both = [MemoryIndex(self.path), MemoryIndex(self.path)]
        self.known: dict[str, tuple[bytes, list[bytes]]] = {}

    @rule(
        who=st.integers(0, 1),
        name=st.sampled_from("abc"),
        words=st.lists(st.sampled_from(["red", "blue fish", "fishing"]), max_size=2),
        gone=st.sets(st.sampled_from("abc"), max_size=1),
    )
    def put(self, who: int, name: str, words: list[str], gone: set[str]) -> None:
        self.both[who].put(
            "s", {name: (words[0].encode() if words else b"", [item(word) for word in words])}, gone - {name}
        )
        for each in gone:
            self.known.pop(each, None)
        self.known[name] = (words[0].encode() if words else b"", [word.encode() for word in words])

    @rule(who=st.integers(0, 1))
    def close(self, who: int) -> None:
        self.both[who].close()

    @rule()
    def lose_the_cache(self) -> None:
        for path in self.path.parent.glob("*"):
            path.unlink()
        self.known = {}

    @invariant()
    def both_know_it(self) -> None:
        for recall in self.both:
            assert held(recall) == self.known
            fish = sorted(word for _, words in self.known.values() for word in words if b"fish" in word)
            assert sorted(found(recall, "fishes")) == fish

    def teardown(self) -> None:
        for recall in self.both:
            recall.close()


FOLDERS: list[Path] = []


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    FOLDERS[:] = [tmp_path_factory.mktemp("recall")]


TestAsADictionary = AsADictionary.TestCase
TestAsADictionary.settings = TestAsADictionary.settings.__class__(
    max_examples=15, stateful_step_count=10, deadline=None
)


@pytest.fixture
def recall(tmp_path: Path) -> MemoryIndex:
    return MemoryIndex(tmp_path / "recall.db")


def test_words_of_a_title_count_more_than_those_of_a_body(recall: MemoryIndex) -> None:
    recall.put("s", {"a": (b"", [IndexItem(b"body", "x", "otters swim"), IndexItem(b"title", "otters swim", "x")])})
    assert found(recall, "otter") == [b"title", b"body"]


@given(st.text())
def test_any_text_can_be_put_and_asked_for(text: str) -> None:
    recall = MemoryIndex(FOLDERS[0] / "any.db")
    recall.put("s", {"a": (b"", [IndexItem(b"it", "", text.encode("utf-8", "ignore").decode())])})
    assert found(recall, text) in ([], [b"it"])
    assert bool(found(recall, text)) <= bool(extract_terms(text))
    recall.close()


@pytest.mark.parametrize("damage", [b"no database" * 1_000, b"", b"SQLite format 3\0" + b"x" * 8_000])
def test_a_damaged_file_is_begun_anew(recall: MemoryIndex, damage: bytes) -> None:
    recall.put("s", {"a": (b"1", [item("otters")])})
    recall.close()
    for path in recall.path.parent.glob("recall.db*"):
        path.unlink()
    recall.path.write_bytes(damage)
    assert held(recall) == {}
    recall.put("s", {"a": (b"1", [item("otters")])})
    assert found(MemoryIndex(recall.path), "otters") == [b"otters"]


def test_where_nothing_can_be_written_it_lives_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    recall = MemoryIndex(tmp_path / "file" / "recall.db")
    recall.put("s", {"a": (b"1", [item("otters")])})
    assert found(recall, "otters") == [b"otters"]


def test_a_text_is_embedded_once_and_a_text_that_went_is_forgotten(tmp_path: Path) -> None:
    asked: list[str] = []

    def toy(texts: Sequence[str]) -> np.ndarray:
        asked.extend(texts)
        return np.array([[len(text), 1.0] for text in texts], np.float32)

    recall = MemoryIndex(tmp_path / "recall.db", TextEmbedder("toy", toy))
    recall.put("s", {"a": (b"1", [item("one"), item("three")]), "b": (b"1", [item("one")])})
    near = recall.compute_similarity("one")[0]
    assert sorted(asked) == ["one", "one", "three"]
    assert [near[number] for number in sorted(near)] == pytest.approx([1.0, near[2], 1.0])
    recall.put("s", {"c": (b"1", [item("four")])}, ["a"])
    asked.clear()
    assert len(recall.compute_similarity("one")[0]) == 2
    assert asked == ["four", "one"]
    db = apsw.Connection(str(recall.path))
    assert db.execute("SELECT count(*) FROM vector").fetchall() == [(2,)]
    db.close()
    recall.close()
    assert len(MemoryIndex(recall.path, TextEmbedder("another space", toy)).compute_similarity("one")[0]) == 2
