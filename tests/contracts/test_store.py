"""What every store keeps, whatever it is made of: whole commits, undisturbed readers, and never a wrong answer."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest

from context_engine.engine import Engine
from context_engine.errors import ContextEngineError, StorageBusy, StorageCorrupt
from context_engine.index import embedded_store
from context_engine.index import segment as segments
from context_engine.index.describe import describe_file
from context_engine.index.embedded_store import SCHEMA_VERSION, EmbeddedStore
from context_engine.index.postings import SegmentBuilder
from context_engine.index.segment import term_hashes
from context_engine.index.snapshot import Snapshot
from context_engine.model import Query
from context_engine.team.remote_store import open_backend
from context_engine.team.shared_index import SharedIndex
from tests.support.databases import new_database, qdrant_over_http
from tests.support.engines import GRAMMARS, LANGUAGES, found, indexed, open_engine
from tests.support.trees import tree


@cache
def database() -> str:
    """One for all stores of these tests."""
    return new_database()


def published_on_postgres(folder: Path) -> SharedIndex:
    """A store that PostgreSQL has and searches; a repository of its own for each test, in one database for all."""
    from context_engine.team.postgres_store import PostgresStore

    search = open_backend(database(), "Search")
    return SharedIndex(folder, str(folder), remote=PostgresStore(database()), search=search, publishes=True)


def published_on_qdrant(folder: Path) -> SharedIndex:
    """A store whose rows Qdrant's own engine searches, behind real HTTP."""
    search = open_backend(qdrant_over_http(), "Search")
    return SharedIndex(folder, str(folder), search=search, publishes=True)


BACKENDS: dict[str, Callable[[Path], Any]] = {
    "embedded": EmbeddedStore,
    "published on postgres": published_on_postgres,
    "published on qdrant": published_on_qdrant,
}


@pytest.fixture(params=list(BACKENDS))
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Any]]:
    """Opens the same store again and again, as other processes would."""
    opened: list[Any] = []

    def open_one() -> Any:
        opened.append(BACKENDS[request.param](tmp_path / "store"))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


def put(writer: Any, files: dict[str, str], **more: Any) -> None:
    """Commit these files as one segment; the size of a file stands for its version."""
    builder = SegmentBuilder()
    for path, text in files.items():
        data = text.encode()
        builder.add(describe_file(path, data, text, LANGUAGES, GRAMMARS, size=len(data), mtime_ns=1, sha256=data))
    numbers = []
    if files:
        number, target = writer.new_segment()
        segments.write(builder.build(), target)
        numbers.append(number)
    writer.put(numbers, **more)


def fill(store: Any, files: dict[str, str], *, rebuild: bool = False, **more: Any) -> None:
    with store.writer(rebuild=rebuild) as writer:
        put(writer, files, **more)
        writer.publish()


def holding(snapshot: Snapshot | None, word: str) -> list[str]:
    """The living files that hold a word, each once for every chunk that does."""
    assert snapshot is not None
    docs = snapshot.matches("body", term_hashes([word])).docs
    return sorted(snapshot.paths[int(snapshot.chunk_file[doc])] for doc in docs)


# -- readers and writers --


def test_an_empty_store_has_nothing_and_says_so(make: Callable[[], Any]) -> None:
    store = make()
    assert store.snapshot() is None
    assert (store.files(), store.metadata("any"), store.check(), store.clear()) == ({}, None, [], 0)
    assert store.generation() == ""


def test_what_was_committed_is_found_and_known(make: Callable[[], Any]) -> None:
    fill(make(), {"a.py": "lion", "b.py": "tiger"}, metadata={"colour": "red"})
    store = make()
    assert holding(store.snapshot(), "lion") == ["a.py"]
    assert {path: state.size for path, state in store.files().items()} == {"a.py": 4, "b.py": 5}
    assert store.metadata("colour") == "red"
    assert store.check() == []


def test_nothing_is_seen_of_a_generation_before_it_is_published(make: Callable[[], Any]) -> None:
    reader = make()
    with make().writer() as writer:
        put(writer, {"a.py": "lion"})
        assert reader.snapshot() is None
        writer.publish()
        assert holding(reader.snapshot(), "lion") == ["a.py"]


def test_a_reader_keeps_its_snapshot_while_a_writer_commits(make: Callable[[], Any]) -> None:
    fill(make(), {"a.py": "lion", "b.py": "lion"})
    reader = make()
    before = reader.snapshot()
    fill(make(), {"a.py": "tiger"}, removed=["b.py"])
    assert holding(before, "lion") == ["a.py", "b.py"]
    assert holding(before, "tiger") == []
    assert holding(reader.snapshot(), "lion") == []
    assert holding(reader.snapshot(), "tiger") == ["a.py"]


def test_a_reader_keeps_its_snapshot_through_a_rebuild_and_a_clearing(make: Callable[[], Any]) -> None:
    fill(make(), {"a.py": "lion"})
    reader = make()
    before = reader.snapshot()
    fill(make(), {"a.py": "tiger"}, rebuild=True)
    make().clear()
    assert holding(before, "lion") == ["a.py"]
    assert reader.snapshot() is None


def test_without_a_commit_the_snapshot_is_the_same_object(make: Callable[[], Any]) -> None:
    fill(make(), {"a.py": "lion"})
    reader = make()
    first = reader.snapshot()
    with make().writer() as writer:
        writer.set_metadata({"walked_at": 1.0})
    assert reader.snapshot() is first
    assert reader.metadata("walked_at") == 1.0
    fill(make(), {"b.py": "lion"})
    assert reader.snapshot() is not first


def test_replacing_a_file_shows_the_old_or_the_new_never_both_or_none(make: Callable[[], Any]) -> None:
    fill(make(), {"a.py": "version number0", "b.py": "other"})
    wrong: list[object] = []
    stop = threading.Event()

    def look() -> None:
        reader = make()
        while not stop.is_set():
            try:
                snapshot = reader.snapshot()
                held = [path for n in range(31) for path in holding(snapshot, f"number{n}")]
                if held != ["a.py"] or holding(snapshot, "other") != ["b.py"]:
                    wrong.append(held)
            except ContextEngineError as error:
                wrong.append(error)

    thread = threading.Thread(target=look)
    thread.start()
    store = make()
    for number in range(1, 31):
        with store.writer() as writer:
            put(writer, {"a.py": f"version number{number}"})
            writer.compact(everything=number % 5 == 0)
    stop.set()
    thread.join()
    assert wrong == []
    assert store.check() == []


def test_a_deleted_file_leaves_no_ghost(make: Callable[[], Any]) -> None:
    store = make()
    fill(store, {"a.py": "def lion(): ...", "b.py": "lion"})
    fill(store, {}, removed=["a.py"])
    snapshot = store.snapshot()
    assert holding(snapshot, "lion") == ["b.py"]
    assert (snapshot.living_files, snapshot.symbols, set(snapshot.by_path)) == (1, 0, {"b.py"})
    assert set(store.files()) == {"b.py"}
    with store.writer() as writer:
        writer.compact(everything=True)
    assert holding(store.snapshot(), "lion") == ["b.py"]
    fill(store, {"a.py": "back"})
    assert (holding(store.snapshot(), "lion"), holding(store.snapshot(), "back")) == (["b.py"], ["a.py"])


def test_a_file_that_is_kept_out_is_no_longer_found(make: Callable[[], Any]) -> None:
    store = make()
    fill(store, {"a.py": "lion", "b.py": "lion"})
    fill(store, {}, skipped=[("a.py", "binary", "", 7, 8)])
    assert holding(store.snapshot(), "lion") == ["b.py"]
    assert ("a.py", 7, 8) in store.file_stamps()
    fill(store, {"a.py": "text again"})
    assert [path for path, *_ in store.file_stamps() if path == "a.py"] == ["a.py"]  # once: as text


def test_a_touched_file_has_its_new_time_at_once_and_after_merging(make: Callable[[], Any]) -> None:
    store = make()
    fill(store, {"a.py": "lion", "b.py": "lion"})
    fill(store, {}, touched=[("b.py", 4, 99)])
    for _ in range(2):
        snapshot = store.snapshot()
        times = dict(zip(snapshot.paths, snapshot.file_column("mtime_ns").tolist(), strict=True))
        assert times == {"a.py": 1, "b.py": 99}
        assert store.files()["b.py"].mtime_ns == 99
        with store.writer() as writer:
            put(writer, {"c.py": "x"})
            put(writer, {}, removed=["c.py"])
            writer.compact(everything=True)


def test_a_rebuild_appears_at_once(make: Callable[[], Any]) -> None:
    store, reader = make(), make()
    fill(store, {"a.py": "lion", "b.py": "lion"})
    with store.writer(rebuild=True) as writer:
        put(writer, {"a.py": "tiger"})
        assert holding(reader.snapshot(), "lion") == ["a.py", "b.py"]
        put(writer, {"c.py": "tiger"})
        assert holding(reader.snapshot(), "tiger") == []
        writer.publish()
        assert holding(reader.snapshot(), "tiger") == ["a.py", "c.py"]
    assert holding(reader.snapshot(), "lion") == []
    assert reader.check() == []


def test_a_rebuild_that_died_is_removed_and_the_old_index_serves(make: Callable[[], Any]) -> None:
    store = make()
    fill(store, {"a.py": "lion"})
    size = store.disk_bytes()
    with suppress(RuntimeError), store.writer(rebuild=True) as writer:
        put(writer, {"a.py": "tiger " * 1_000})
        raise RuntimeError
    assert holding(make().snapshot(), "lion") == ["a.py"]
    with store.writer():
        pass
    assert store.disk_bytes() < 2 * size
    fill(store, {"b.py": "lion"})
    assert holding(store.snapshot(), "lion") == ["a.py", "b.py"]


def test_a_commit_that_failed_leaves_everything_as_it_was(make: Callable[[], Any]) -> None:
    store = make()
    fill(store, {"a.py": "lion"})
    with store.writer() as writer:
        number, target = writer.new_segment()
        target.write_bytes(b"half a segm")
        with pytest.raises(StorageCorrupt):
            writer.put([number], removed=["a.py"])
    assert holding(store.snapshot(), "lion") == ["a.py"]
    assert make().check() == []


def test_a_second_writer_is_told_to_come_back(make: Callable[[], Any]) -> None:
    first, second = make(), make()
    with first.writer(), pytest.raises(StorageBusy) as refused, second.writer():
        pass
    assert refused.value.retryable
    with second.writer():
        pass


def test_clearing_while_somebody_writes_is_refused(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_store, "CLEAR_WAIT_S", 0.2)
    store, other = make(), make()
    fill(store, {"a.py": "lion"})
    with other.writer(), pytest.raises(StorageBusy):
        store.clear()
    assert store.clear() > 0
    assert make().snapshot() is None


def test_an_index_that_was_cleared_and_built_again_elsewhere_is_seen(make: Callable[[], Any]) -> None:
    reader = make()
    fill(make(), {"a.py": "lion"})
    assert holding(reader.snapshot(), "lion") == ["a.py"]
    other = make()
    other.clear()
    fill(other, {"a.py": "tiger"})
    assert (holding(reader.snapshot(), "lion"), holding(reader.snapshot(), "tiger")) == ([], ["a.py"])


def test_stats_add_up(make: Callable[[], Any]) -> None:
    store = make()
    fill(store, {"a.py": "x = 1\n", "b.md": "# One\n\ntext\n"})
    fill(store, {"a.py": "x = 2\n"})
    snapshot = store.snapshot()
    assert (snapshot.living_files, snapshot.files, len(snapshot.segments)) == (2, 3, 2)
    assert store.disk_bytes() == sum(path.stat().st_size for path in store.folder.rglob("*") if path.is_file())


def test_every_commit_has_an_epoch_of_its_own(make: Callable[[], Any]) -> None:
    store = make()
    epochs = []
    for number in range(3):
        fill(store, {f"{number}.py": "x"})
        epochs.append(store.snapshot().epoch)
    assert epochs == sorted(set(epochs))


def test_compaction_changes_no_answer(make: Callable[[], Any]) -> None:
    store = make()
    for number in range(12):
        fill(store, {f"{number}.py": f"def lion{number}(): ...\nlion", "same.py": f"lion {'tiger ' * number}"})
    before = store.snapshot()
    with store.writer() as writer:
        writer.set_importance(np.arange(before.files) / 10)
        importance = importance_by_path(writer.snapshot())
        assert writer.compact(everything=True)
    after = store.snapshot()
    assert len(after.segments) == 1 and after.files == after.living_files == 13
    for word in ("lion", "tiger", "lion3", "def"):
        assert holding(after, word) == holding(before, word)
    assert importance_by_path(after) == importance
    assert (after.living_chunks, after.symbols) == (before.living_chunks, before.symbols)
    assert store.check() == []
    with store.writer() as writer:
        assert not writer.compact(), "there is nothing left to merge"


def importance_by_path(snapshot: Snapshot) -> dict[str, float]:
    values = snapshot.importance.tolist()
    return {path: values[number] for path, number in snapshot.by_path.items()}


def test_an_edited_file_keeps_its_importance_until_it_is_computed_again(make: Callable[[], Any]) -> None:
    store = make()
    fill(store, {"a.py": "lion", "b.py": "lion"})
    with store.writer() as writer:
        writer.set_importance(np.array([0.5, 0.25]))
    fill(store, {"b.py": "tiger", "c.py": "new"})
    assert importance_by_path(store.snapshot()) == {"a.py": 0.5, "b.py": 0.25, "c.py": 0.0}


def test_merging_keeps_the_number_of_segments_small(make: Callable[[], Any]) -> None:
    store = make()
    most = 0
    for number in range(60):
        with store.writer() as writer:
            put(writer, {f"{number % 7}.py": f"lion{number}"})
            writer.compact()
            writer.publish()
        most = max(most, len(store.snapshot().segments))
    assert most <= 10
    assert holding(store.snapshot(), "lion59") == ["3.py"]
    assert len(list(store.folder.rglob("*.seg"))) == len(store.snapshot().segments)


# -- damage: never a wrong answer, and the next index() mends it --

DAMAGES: dict[str, Callable[[Path], None]] = {
    "a segment was cut short": lambda g: _cut(next(g.glob("*.seg")), 0.5),
    "a segment is empty": lambda g: _cut(next(g.glob("*.seg")), 0),
    "the header of a segment was scribbled on": lambda g: _scribble(next(g.glob("*.seg")), 20),
    "the magic of a segment was scribbled on": lambda g: _scribble(next(g.glob("*.seg")), 0),
    "the content of a segment was scribbled on": lambda g: _scribble(next(g.glob("*.seg")), -200),
    "a segment is missing": lambda g: _delete(next(g.glob("*.seg"))),
    "the database is garbage": lambda g: _write(g / "index.db", b"garbage" * 1_000),
    "the database is empty": lambda g: _cut(g / "index.db", 0),
    "the database was cut short": lambda g: _cut(g / "index.db", 0.5),
    "a page of the database was scribbled on": lambda g: _scribble_pages(g / "index.db"),
    "the list of files was scribbled on": lambda g: _scribble_table(g / "index.db", "file"),
    "the database is missing": lambda g: _delete(g / "index.db"),
    "the generation is missing": lambda g: shutil.rmtree(g),
    "the tables are not ours": lambda g: _sql(g / "index.db", "DROP TABLE segment"),
    "a table is empty": lambda g: _sql(g / "index.db", "DELETE FROM fact"),
    "CURRENT is garbage": lambda g: _write(g.parent / "CURRENT", b"\xff\xfenonsense"),
    "CURRENT names no generation": lambda g: _write(g.parent / "CURRENT", b"nonsense"),
    "CURRENT names another generation": lambda g: _write(g.parent / "CURRENT", b"g-000099"),
    "CURRENT leads elsewhere": lambda g: _write(g.parent / "CURRENT", b"../../../etc"),
    "CURRENT is empty": lambda g: _write(g.parent / "CURRENT", b""),
    "CURRENT is missing": lambda g: _delete(g.parent / "CURRENT"),
}


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _delete(path: Path) -> None:
    path.unlink()


def _cut(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


def _scribble(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at : at + 8 or None] = bytes(byte ^ 0x5A for byte in content[at : at + 8 or None])
    path.write_bytes(content)


def _scribble_pages(path: Path) -> None:
    """Every page but the first two: the header and the list of tables stay readable."""
    content = bytearray(path.read_bytes())
    content[8_192:] = b"\xa5" * (len(content) - 8_192)
    path.write_bytes(content)


def _scribble_table(path: Path, table: str) -> None:
    db = apsw.Connection(str(path))
    rows: list[tuple[Any, ...]] = db.execute(
        "SELECT rootpage, page_size FROM sqlite_master, pragma_page_size WHERE name=?", (table,)
    ).fetchall()
    page, size = rows[0]
    db.close()
    content = bytearray(path.read_bytes())
    content[(page - 1) * size : page * size] = b"\xa5" * size
    path.write_bytes(content)


def _sql(path: Path, sql: str) -> None:
    db = apsw.Connection(str(path))
    db.execute(sql)
    db.close()


@pytest.mark.parametrize("what", DAMAGES)
def test_damage_is_noticed_and_mended_by_indexing_again(what: str, tmp_path: Path) -> None:
    root = tree(tmp_path / "w", {f"{n}.py": f"def lion{n}():\n    return lion\n" for n in range(30)})
    with indexed(root) as engine:
        expected = found(engine, "lion", limit=50)
        folder = engine.cache_folder
    (generation,) = folder.glob("g-*")
    DAMAGES[what](generation)
    with open_engine(root) as engine:
        answer = answer_or_refusal(engine)
        assert answer in (expected, None), "a wrong answer"
        report = engine.index.update()
        assert report.files == 30
        assert found(engine, "lion", limit=50) == expected
        assert engine.index.store.check() == []
        assert engine.status().last_error is None


def answer_or_refusal(engine: Engine) -> list[str] | None:
    """What a damaged index answers: hits, or an error of ours."""
    try:
        return [str(hit.chunk.path) for hit in engine.search.find(Query("lion", limit=50)).hits]
    except ContextEngineError as error:
        return None if error.suggestion else [f"a refusal without a next step: {error}"]


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_index_can_be_cleared_and_asked_for_its_state(what: str, tmp_path: Path) -> None:
    root = tree(tmp_path / "w", {"a.py": "def lion(): ...\n"})
    with indexed(root) as engine:
        folder = engine.cache_folder
    DAMAGES[what](next(folder.glob("g-*")))
    store = EmbeddedStore(folder)
    assert isinstance(store.check(), list)
    store.clear()
    assert store.snapshot() is None
    store.close()


def test_damage_is_told_in_words(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", {"a.py": "def lion(): ...\n"})
    with indexed(root) as engine:
        folder = engine.cache_folder
    _cut(next(folder.rglob("*.seg")), 0.5)
    store = EmbeddedStore(folder)
    assert "cut short" in store.check()[0]
    with pytest.raises(StorageCorrupt) as refused:
        store.snapshot()
    assert "reindex" in refused.value.suggestion
    store.close()


def test_an_index_of_an_older_version_is_built_anew(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", {"a.py": "def lion(): ...\n"})
    with indexed(root) as engine:
        (generation,) = engine.cache_folder.glob("g-*")
    _sql(generation / "index.db", f"UPDATE fact SET value={SCHEMA_VERSION - 1} WHERE name='schema'")
    with open_engine(root) as engine:
        assert engine.status().state == "absent"
        assert engine.index.update().added == 1
        assert found(engine, "lion") == ["a.py"]


def test_a_name_for_a_segment_is_given_once_ever(make: Callable[[], Any]) -> None:
    names = set()
    for _ in range(3):
        with make().writer() as writer:
            names |= {writer.new_segment()[1], writer.new_segment()[1]}
    assert len(names) == 6, "a process that outlives its writer could write into the next one's segment"


def test_a_share_without_new_files_leaves_nothing_behind(make: Callable[[], Any]) -> None:
    store = make()
    fill(store, {"a.py": "lion"})
    with store.writer() as writer:
        writer.new_segment()[1].write_bytes(b"half")
    assert list(store.folder.rglob(".ctx-*.tmp")) == []


def test_leftovers_of_a_killed_writer_are_cleaned_away(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", {"a.py": "def lion(): ...\n"})
    with indexed(root) as engine:
        (generation,) = engine.cache_folder.glob("g-*")
        (generation / "000777.seg").write_bytes(b"half")
        (generation.parent / "g-000123").mkdir()
        engine.index.update()
        assert sorted(path.name for path in generation.parent.glob("g-*")) == [generation.name]
        assert [path.name for path in generation.iterdir() if "77" in path.name] == []
        assert found(engine, "lion") == ["a.py"]


def test_a_commit_waits_for_a_reader_that_has_the_lock_of_writers(tmp_path: Path) -> None:
    """SQLite takes it to read a header again that was being written."""
    store = EmbeddedStore(tmp_path)
    fill(store, {"a.py": "lion"})
    with store.writer() as writer, closing(apsw.Connection(str(writer.path / "index.db"))) as reader:
        for commit in (
            lambda: writer.set_importance(np.array([0.5])),
            lambda: writer.set_metadata({"a": 1}),
            lambda: put(writer, {"a.py": "tiger"}),
        ):
            reader.execute("BEGIN IMMEDIATE")
            with ThreadPoolExecutor(1) as pool:
                done = pool.submit(commit)
                time.sleep(0.05)
                reader.execute("ROLLBACK")
                done.result()
    assert holding(store.snapshot(), "tiger") == ["a.py"]
    store.close()


def test_all_settings_of_the_database_take_effect(tmp_path: Path) -> None:
    """Behind a statement that answers with a row the rest of a list waits until somebody asks for it."""
    with EmbeddedStore(tmp_path).writer() as writer:
        told = {name: writer._db.pragma(name) for name in ("journal_mode", "synchronous", "journal_size_limit")}
    assert told == {"journal_mode": "wal", "synchronous": 1, "journal_size_limit": 4_194_304}
