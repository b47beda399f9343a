"""Whatever the index holds gets its vector in the background, under the key of its own text and no other."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.embedding.deadline_embedder import DeadlineEmbedder
from context_engine.embedding.embedder import Embedder, Mode
from context_engine.embedding.minilm import MiniLM
from context_engine.embedding.vector_rows import Keys, hash_texts, quantize
from context_engine.engine import Engine
from context_engine.errors import StorageBusy, UnsupportedHost
from context_engine.index.file_roles import ROLES
from context_engine.index.snapshot import Snapshot
from context_engine.semantic.embedding_backfill import GROUP, NICENESS, EmbeddingBackfill, vector_space
from context_engine.semantic.missing_vectors import EARLY, EmbeddingProgress, EmbeddingQueue, order_files
from context_engine.semantic.vector_store import VectorStore
from tests.support import weights
from tests.support.engines import LANGUAGES, indexed
from tests.support.scripted import LONG_S, Scripted, vectors
from tests.support.trees import tree

FILES = {
    "src/pool.py": '"""Keeps connections."""\n\n\nclass Pool:\n    def acquire(self):\n        return self.free.pop()\n',
    "src/http.py": "from src.pool import Pool\n\n\ndef send(request):\n    return Pool().acquire().send(request)\n",
    "docs/guide.md": "# Guide\n\nHow to send.\n\n## Pools\n\nThey keep connections.\n",
    "tests/test_pool.py": "def test_acquire():\n    assert Pool().acquire()\n",
}
MANY = {f"src/part_{number:02}.py": f"def part_{number}():\n    return {number}\n" for number in range(40)}


@dataclass
class Stage:
    """A workspace, indexed; what fills it, and the store that is filled."""

    engine: Engine
    folder: Path
    embedder: Embedder
    fillers: list[EmbeddingBackfill] = field(default_factory=list)
    stores: dict[str, VectorStore] = field(default_factory=dict)
    reads: list[str] = field(default_factory=list)
    held: bool = False

    def backfill(self, opened: Callable[[], Embedder | None] | None = None) -> EmbeddingBackfill:
        """A backfill as another process would have one; the last one is the one that is asked."""
        deadline_embedder = DeadlineEmbedder(opened or (lambda: self.embedder), quiet_s=0.0)
        self.deadline_embedder = deadline_embedder
        store = self.store = self.opened()
        self.fillers.append(
            EmbeddingBackfill(
                deadline_embedder,
                vectors=lambda: store if vector_space(deadline_embedder) else None,
                snapshot=self.snapshot,
                read=self.read,
                languages=LANGUAGES,
                hold=lambda: self.held,
            )
        )
        return self.fillers[-1]

    def opened(self) -> VectorStore:
        space = vector_space(self._known())
        assert space is not None
        return VectorStore(self.folder, space)

    def _known(self) -> DeadlineEmbedder:
        known = DeadlineEmbedder(lambda: self.embedder)
        assert known.ensure_open(time.monotonic() + LONG_S)
        return known

    def snapshot(self) -> Snapshot:
        found = self.engine.index.live.snapshot()
        assert found is not None
        return found

    def read(self, path: str) -> bytes | None:
        self.reads.append(path)
        file = self.engine.root / path
        return file.read_bytes() if file.is_file() else None

    def edit(self, path: str, text: str) -> None:
        tree(self.engine.root, {path: text})

    def all_keys(self) -> Keys:
        """The keys of every card and chunk that counts."""
        now = self.snapshot()
        return np.concatenate(
            [now.file_column("card_key")[now.file_alive], now.chunk_column("key")[now.chunk_alive]],
        )

    def close(self) -> None:
        if isinstance(self.embedder, Scripted):
            self.embedder.gate.set()
        for backfill in self.fillers:
            backfill.close()
            backfill._embedder.close()


@contextmanager
def stage(folder: Path, files: dict[str, str] | None = None, embedder: Embedder | None = None) -> Generator[Stage]:
    with indexed(tree(folder / "work", files or FILES), embedder="static") as engine:
        one = Stage(engine, folder / "vectors", embedder or Scripted())
        try:
            yield one
        finally:
            one.close()


def until(is_so: Callable[[], object]) -> None:
    """Wait for something that will come."""
    deadline = time.monotonic() + LONG_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def filled(one: Stage, backfill: EmbeddingBackfill, paths: Sequence[str] = ()) -> EmbeddingProgress:
    """Fill, and what is there when all that can be is."""
    backfill.wake(paths)
    until(lambda: backfill.is_covered(one.snapshot()))
    progress = backfill.count_progress()
    assert progress is not None
    return progress


def texts_of(one: Stage) -> list[str]:
    assert isinstance(one.embedder, Scripted)
    return one.embedder.texts


def is_true(one: Stage) -> bool:
    """Whether every vector that is stored is that of the text its key was made of."""
    texts = texts_of(one)
    rows, found = one.store.get(hash_texts(texts))
    wanted = quantize(vectors(texts))
    same = (rows.values == wanted.values).all(axis=1) & (rows.scales == wanted.scales)
    return bool(same[found].all()) and len(one.store) == int(found.sum())


# -- what is filled -------------------------------------------------------------------------------------------------


def test_every_card_and_chunk_gets_the_vector_of_its_own_text(tmp_path: Path) -> None:
    with stage(tmp_path) as one:
        backfill = one.backfill()
        assert backfill.count_progress() is None, "nobody knows the space yet"
        now = one.snapshot()
        assert filled(one, backfill) == EmbeddingProgress(4, 4, now.living_chunks, now.living_chunks)
        assert backfill.count_progress(now) == backfill.count_progress()
        assert sorted(hash_texts(texts_of(one)).tolist()) == sorted(one.all_keys().tolist())
        assert not one.store.missing(one.all_keys()).any()
        assert is_true(one)


def test_cards_come_first_and_of_each_source_comes_first(tmp_path: Path) -> None:
    with stage(tmp_path) as one:
        filled(one, one.backfill())
        cards, chunks = texts_of(one)[:4], texts_of(one)[4:]
        assert {card.split(" | ")[0] for card in cards[:2]} == {"pool", "http"}
        assert {card.split(" | ")[0] for card in cards[2:]} == {"guide", "test pool"}
        folders = [chunk.partition("/")[0] for chunk in chunks]
        assert set(folders[: folders.count("src")]) == {"src"}


def test_files_in_use_come_before_all_others(tmp_path: Path) -> None:
    with stage(tmp_path, FILES | MANY) as one:
        filled(one, one.backfill(), ["docs/guide.md", "src/part_31.py", "gone.py"])
        texts, cards = texts_of(one), one.snapshot().living_files
        assert [text.split(" | ")[0] for text in texts[:2]] == ["part 31", "guide"], "the last one first"
        assert texts[cards].startswith("src/part_31.py")
        assert texts[cards + 1].startswith("docs/guide.md")


def test_what_is_there_is_not_made_again_and_no_model_is_loaded_for_it(tmp_path: Path) -> None:
    with stage(tmp_path) as one:
        filled(one, one.backfill())
        other = Scripted()
        again = one.backfill(lambda: other)
        assert filled(one, again).is_complete
        assert other.asked == []
        one.edit("src/new.py", "def fresh():\n    return 1\n")
        one.engine.index.update()
        assert filled(one, again).is_complete
        assert sorted(text.split(" | ")[0] for text in other.texts) == ["new", "src/new.py"]


def test_what_an_answer_has_stored_meanwhile_is_not_made_again(tmp_path: Path) -> None:
    embedder = Scripted()
    with stage(tmp_path, embedder=embedder) as one:
        backfill = one.backfill()
        assert one.deadline_embedder.ensure_loaded(time.monotonic() + LONG_S)
        assert embedder.has_begun()
        embedder.gate.clear()
        backfill.wake()
        assert embedder.has_begun(), "the first of the cards"
        keys = one.snapshot().chunk_column("key")
        one.opened().put(keys, vectors(["made elsewhere"] * len(keys)))
        embedder.gate.set()
        assert filled(one, backfill).is_complete
        assert len(texts_of(one)) == one.snapshot().living_files


# -- what has changed -----------------------------------------------------------------------------------------------


def test_a_file_that_was_edited_since_it_was_indexed_is_passed_over_until_it_is_indexed(tmp_path: Path) -> None:
    with stage(tmp_path) as one:
        one.edit("src/pool.py", "# shorter by far\nclass Puddle: ...\n")
        backfill = one.backfill()
        before = filled(one, backfill)
        assert (before.is_complete, before.chunks < before.chunks_total) == (False, True)
        assert not any("Puddle" in text for text in texts_of(one))
        assert is_true(one)
        one.engine.index.update()
        assert filled(one, backfill).is_complete
        assert any("Puddle" in text for text in texts_of(one))
        assert is_true(one)


def test_a_file_that_is_gone_keeps_no_other_waiting(tmp_path: Path) -> None:
    with stage(tmp_path) as one:
        (one.engine.root / "src/pool.py").unlink()
        after = filled(one, one.backfill())
        assert after.cards == 3
        assert not one.store.missing(one.all_keys()[[0, 1, 2]]).all()
        assert is_true(one)


def test_the_newest_snapshot_is_what_is_filled(tmp_path: Path) -> None:
    embedder = Scripted()
    with stage(tmp_path, MANY, embedder) as one:
        embedder.gate.clear()
        backfill = one.backfill()
        backfill.wake()
        assert embedder.has_begun()
        one.edit("src/part_00.py", "def newest():\n    return 0\n")
        one.engine.index.update()
        embedder.gate.set()
        assert filled(one, backfill).is_complete
        assert is_true(one)


def test_an_index_that_was_deleted_and_made_anew_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    with stage(tmp_path) as one:
        backfill = one.backfill()
        assert filled(one, backfill).is_complete
        one.engine.clear_index()
        one.edit("src/pool.py", "class Puddle:\n    depth = 1\n")
        one.edit("src/lake.py", "class Lake:\n    depth = 100\n")
        one.engine.index.update()
        assert backfill.count_progress() != (5, 5, one.snapshot().living_chunks, one.snapshot().living_chunks)
        assert filled(one, backfill) == (5, 5, one.snapshot().living_chunks, one.snapshot().living_chunks)
        assert is_true(one)


# -- others on this machine ------------------------------------------------------------------------------------------


def test_one_process_fills_a_space_and_the_others_see_what_it_adds(tmp_path: Path) -> None:
    with stage(tmp_path) as one:
        backfill, other = one.backfill(), one.opened()
        with other.backfill_lock() as alone:
            assert alone
            with one.opened().backfill_lock() as second:
                assert not second
            backfill.wake()
            until(lambda: backfill.count_progress() is not None)
            other.put(one.all_keys()[:1], vectors(["made elsewhere"]))
            for _ in range(3):
                backfill.wake()
                time.sleep(0.01)
            until(lambda: (backfill.count_progress() or EmbeddingProgress(0, 0, 0, 0)).cards == 1)
            assert texts_of(one) == []
        assert filled(one, backfill).is_complete
        assert len(texts_of(one)) == len(one.all_keys()) - 1


def test_nothing_is_filled_while_something_holds_it_up(tmp_path: Path) -> None:
    with stage(tmp_path) as one:
        one.held = True
        backfill = one.backfill()
        backfill.wake()
        until(lambda: one.deadline_embedder.identity)
        for _ in range(5):
            backfill.wake()
            time.sleep(0.01)
        assert texts_of(one) == []
        one.held = False
        assert filled(one, backfill).is_complete


def test_nothing_is_filled_while_an_answer_is_under_way(tmp_path: Path) -> None:
    with stage(tmp_path) as one:
        backfill = one.backfill()
        with one.deadline_embedder.answering():
            backfill.wake()
            until(lambda: backfill.count_progress() is not None)
            time.sleep(0.05)
            assert (texts_of(one), one.reads) == ([], [])
        assert filled(one, backfill).is_complete


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a priority for each thread")
def test_the_thread_that_fills_steps_back_and_no_other(tmp_path: Path) -> None:
    class Noting(Scripted):
        seen: int | None = None

        def embed(self, texts: Sequence[str], mode: Mode, **knobs: threading.Event | None) -> np.ndarray:
            if mode == "passage":
                self.seen = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
            return super().embed(texts, mode, **knobs)

    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    embedder = Noting()
    with stage(tmp_path, embedder=embedder) as one:
        filled(one, one.backfill())
        assert embedder.seen == max(before, NICENESS)
        assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


# -- trouble and ending ----------------------------------------------------------------------------------------------


def test_whoever_is_killed_loses_one_group_at_most(tmp_path: Path) -> None:
    class Stopping(Scripted):
        def embed(self, texts: Sequence[str], mode: Mode, **knobs: threading.Event | None) -> np.ndarray:
            if len(self.texts) > 2 * GROUP:
                self.gate.clear()
            return super().embed(texts, mode, **knobs)

    embedder = Stopping()
    with stage(tmp_path, MANY, embedder) as one:
        one.backfill().wake()
        until(lambda: not embedder.gate.is_set())
        assert len(one.opened()) >= len(embedder.texts) - 2 * GROUP
        assert len(one.opened()) >= GROUP
        assert is_true(one)


def test_what_is_made_of_a_group_is_stored_when_it_ends(tmp_path: Path) -> None:
    class Stopping(Scripted):
        def embed(self, texts: Sequence[str], mode: Mode, **knobs: threading.Event | None) -> np.ndarray:
            if self.texts:
                self.gate.clear()
            return super().embed(texts, mode, **knobs)

    embedder = Stopping()
    with stage(tmp_path, MANY, embedder) as one:
        backfill = one.backfill()
        backfill.wake()
        until(lambda: not embedder.gate.is_set())
        backfill.close()
        assert backfill._thread is not None
        backfill._thread.join(LONG_S)
        assert 0 < len(one.store) == len(embedder.asked[1][1]) < GROUP
        assert is_true(one)


def test_a_store_that_refuses_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> int:
        raise StorageBusy("another process is writing vectors")

    with stage(tmp_path) as one:
        backfill = one.backfill()
        monkeypatch.setattr(one.store, "put", refuses)
        backfill.wake()
        until(lambda: backfill.problem)
        assert backfill.problem == "another process is writing vectors"
        monkeypatch.undo()
        assert filled(one, backfill).is_complete
        assert backfill.problem == ""


def test_without_an_embedder_nothing_happens(tmp_path: Path) -> None:
    def absent() -> Embedder:
        raise UnsupportedHost("not installed")

    with stage(tmp_path) as one:
        backfill = one.backfill(absent)
        backfill.wake()
        until(lambda: one.deadline_embedder.state == "absent: not installed")
        assert backfill.count_progress() is None
        assert len(one.store) == 0


# -- the order, by law -----------------------------------------------------------------------------------------------


@st.composite
def lines(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[list[int]]]:
    """What is missing, where files begin, the order of files, and which are hot at each turn."""
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=6))
    missing = draw(st.lists(st.booleans(), min_size=sum(sizes), max_size=sum(sizes)))
    files = draw(st.permutations(range(len(sizes))))
    hot = draw(st.lists(st.lists(st.integers(0, len(sizes) - 1), max_size=3), max_size=30))
    return np.array(missing, bool), np.cumsum([0, *sizes]), np.array(files), hot


def turns(line: EmbeddingQueue, hot: list[list[int]], count: int) -> Generator[tuple[list[int], list[int]]]:
    for files in [*hot, *([[]] * 30)]:
        yield files, line.take(files, count).tolist()


@given(lines(), st.integers(1, 5))
def test_each_thing_in_line_is_taken_once_and_a_turn_is_full_until_the_last(
    given_line: tuple[np.ndarray, np.ndarray, np.ndarray, list[list[int]]], count: int
) -> None:
    missing, starts, files, hot = given_line
    taken = [group for _, group in turns(EmbeddingQueue(missing, starts, files), hot, count)]
    assert sorted(chain.from_iterable(taken)) == np.flatnonzero(missing).tolist()
    assert all(len(group) == count for group, later in pairwise(taken) if later)


@given(lines(), st.integers(1, 5))
def test_hot_files_are_taken_first_and_the_others_in_their_order(
    given_line: tuple[np.ndarray, np.ndarray, np.ndarray, list[list[int]]], count: int
) -> None:
    missing, starts, files, hot = given_line
    left = set(np.flatnonzero(missing).tolist())
    owner = np.repeat(np.arange(len(starts) - 1), np.diff(starts)).tolist()
    place = {file: number for number, file in enumerate(files.tolist())}
    for now, group in turns(EmbeddingQueue(missing, starts, files), hot, count):
        rank = {thing: (now.index(owner[thing]) if owner[thing] in now else len(now)) for thing in left}
        wanted = sorted(left, key=lambda thing: (rank[thing], place[owner[thing]], thing))
        assert group == wanted[:count]
        left -= set(group)


def test_source_stands_before_everything_else_and_the_important_first(tmp_path: Path) -> None:
    with stage(tmp_path) as one:
        now = one.snapshot()
        order = order_files(now).tolist()
        is_early = [ROLES[code] in EARLY for code in now.file_column("role")[order].tolist()]
        assert is_early == sorted(is_early, reverse=True)
        early = now.importance[order[: sum(is_early)]].tolist()
        assert early == sorted(early, reverse=True)
        assert sorted(order) == np.flatnonzero(now.file_alive).tolist()


# -- the real thing --------------------------------------------------------------------------------------------------


def test_minilm_fills_a_small_workspace(tmp_path: Path) -> None:
    with stage(tmp_path, embedder=MiniLM(weights.minilm())) as one:
        assert filled(one, one.backfill()).is_complete
        rows, found = one.store.get(one.all_keys())
        assert found.all()
        assert np.allclose(np.linalg.norm(rows.floats(), axis=1), 1.0, atol=0.01)
