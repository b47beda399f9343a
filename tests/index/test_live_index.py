"""The index follows the workspace: edits are taken in before an answer, or the answer says what is not in it yet."""

from __future__ import annotations

import gc
import os
import sys
import threading
from pathlib import Path

import pytest

from context_engine.engine import Engine
from context_engine.errors import Cancelled, StorageBusy
from context_engine.index import live_index
from context_engine.model import Progress, Query
from context_engine.references import symbol_graph
from context_engine.references.symbol_graph import SymbolDefinition
from context_engine.repo import Watcher
from tests.support.engines import cache_for, found, indexed, open_engine
from tests.support.open_files import open_files
from tests.support.trees import commit, git, repository, tree
from tests.support.waiting import until

MANY = {f"src/part_{number:03}.py": f"def part_{number}():\n    return zebra\n" for number in range(60)}


class QuietWatcher(Watcher):
    """A watcher that hears nothing: what is stale is remembered, not looked for."""

    is_running = is_exact = property(lambda _: True)
    pending = property(lambda _: frozenset())

    def __init__(self) -> None:
        super().__init__(".", lambda _: None)


def write(root: Path, path: str, text: str) -> None:
    """As an editor saves: nobody sees half of it."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    part = root.parent / "part"
    part.write_text(text, encoding="utf-8")
    part.replace(root / path)


# -- staleness --


def test_stale_files_are_named(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", {"a.py": "x = 1\n", "b.py": "y = 1\n", "c.py": "z = 1\n"})
    with indexed(root) as engine:
        assert engine.status().stale == ()
        write(root, "a.py", "x = 22\n")
        write(root, "new.py", "n = 1\n")
        (root / "b.py").unlink()
        assert engine.status().stale == ("a.py", "b.py", "new.py")
        engine.index.update()
        assert engine.status().stale == ()


def test_a_few_edits_are_taken_in_before_the_answer(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", {"a.py": "def lion(): ...\n", "b.py": "def tiger(): ...\n"})
    with indexed(root) as engine:
        write(root, "a.py", "def panther(): ...\n")
        write(root, "new/c.py", "def panther_cub(): ...\n")
        (root / "b.py").unlink()
        until(lambda: set(found(engine, "panther")) == {"a.py", "new/c.py"})
        assert found(engine, "lion") == found(engine, "tiger") == []
        assert engine.search.find(Query("panther")).freshness == "fresh"


def test_an_answer_never_waits_for_many_edits_but_says_so(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", MANY)
    with indexed(root) as engine:
        for path in MANY:
            write(root, path, MANY[path] + "\nokapi = 1\n")
        first = engine.search.find(Query("zebra"))
        assert first.hits and ("edited since index" in first.freshness or "building" in first.freshness)
        until(lambda: engine.search.find(Query("okapi")).freshness == "fresh")
        assert len(found(engine, "okapi", limit=100)) == len(MANY)


def test_a_touched_file_is_neither_indexed_again_nor_called_stale(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", {"a.py": "def lion(): ...\n", "b.py": "def tiger(): ...\n"})
    with indexed(root) as engine:
        os.utime(root / "a.py", ns=(1, 1))
        report = engine.index.update()
        assert (report.changed, report.unchanged) == (0, 2)
        (hit,) = engine.search.find(Query("lion")).hits
        assert not hit.stale
        assert engine.status().stale == ()


def test_a_hit_on_a_file_that_changed_since_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_index, "SHOWN_WAIT_S", 0.0)  # as on a machine too busy to take it in
    root = tree(tmp_path / "w", {"a.py": "def lion(): ...\n"})
    with indexed(root, staleness_ms=600_000) as engine:
        engine.search.find(Query("lion"))
        write(root, "a.py", "def lion(): ...\n# edited\n")
        (hit,) = engine.search.find(Query("lion")).hits
        assert hit.stale


def test_an_edit_is_reported_where_the_system_has_no_thread_left_to_index_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        if thread.name == "ctx-indexer":
            raise RuntimeError("can't start new thread")
        start(thread)

    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with indexed(tree(tmp_path / "w", {"a.py": "x = 1\n"})) as engine:
        engine.index.live.mark_stale(frozenset({"a.py"}))
        assert engine.status().last_error == "the index was not updated: can't start new thread"


@pytest.mark.parametrize("under", ["src", "src/"])
def test_indexing_a_folder_leaves_its_namesakes_stale(tmp_path: Path, under: str) -> None:
    root = tree(tmp_path / "w", {"src/a.py": "x = 1\n", "src2/b.py": "y = 1\n"})
    with indexed(root) as engine:
        write(root, "src/a.py", "x = 22\n")
        write(root, "src2/b.py", "y = 22\n")
        engine.status()
        engine.index.live.follow(QuietWatcher())
        engine.status()
        report = engine.index.update(path=under)
        assert (report.added, report.changed, report.removed) == (0, 1, 0)
        assert engine.status().stale == ("src2/b.py",)


def test_a_file_that_is_edited_while_it_is_indexed_is_still_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(tmp_path / "w", {"a.py": "def lion(): ...\n"})
    with indexed(root) as engine:
        live = engine.index.live
        live.follow(QuietWatcher())
        live.stale_files()
        index_paths, runs = live._builder.index_paths, []

        def edit_meanwhile(paths: list[str]) -> bool:
            is_changed = index_paths(paths)
            if not runs:
                write(root, "a.py", "def tiger(): ...\n")
                live.mark_stale(frozenset({"a.py"}))
            runs.append(paths)
            return is_changed

        monkeypatch.setattr(live._builder, "index_paths", edit_meanwhile)
        write(root, "a.py", "def panther(): ...\n")
        live.mark_stale(frozenset({"a.py"}))
        until(lambda: live.describe_freshness() == "fresh")
        assert runs == [["a.py"], ["a.py"]]
        assert found(engine, "tiger") == ["a.py"]


def test_an_answer_during_an_update_has_no_other_file_indexed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_index, "WAIT_S", 0.0)
    root = tree(tmp_path / "w", {"a.py": "def lion(): ...\n", "b.py": "def okapi(): ...\n"})
    with indexed(root) as engine:
        live = engine.index.live
        live.follow(QuietWatcher())
        live.stale_files()
        index_paths, runs = live._builder.index_paths, []

        def answer_meanwhile(paths: list[str]) -> bool:
            if not runs:
                live.refresh()
            is_changed = index_paths(paths)
            runs.append((paths, is_changed))
            return is_changed

        monkeypatch.setattr(live._builder, "index_paths", answer_meanwhile)
        write(root, "a.py", "def panther(): ...\n")
        live.mark_stale(frozenset({"a.py"}))
        until(lambda: len(runs) == 2)
        assert runs == [(["a.py"], True), ([], False)]


def test_an_answer_does_not_speak_of_a_snapshot_that_came_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_index, "WAIT_S", 0.0)  # as on a machine too busy to index in time
    root = tree(tmp_path / "w", {"a.py": "def lion(): ...\n"})
    with indexed(root) as engine:
        definitions = symbol_graph.SymbolGraph.definitions

        def answer_late(graph: symbol_graph.SymbolGraph, name: str, **how: str) -> list[SymbolDefinition]:
            defined = definitions(graph, name, **how)
            until(lambda: engine.index.live.describe_freshness() == "fresh")
            return defined

        monkeypatch.setattr(symbol_graph.SymbolGraph, "definitions", answer_late)
        write(root, "a.py", "def panther(): ...\n")
        answer = engine.symbols.find("panther")
        assert (answer.definitions, answer.freshness) == ((), "1 file edited since index")


def test_where_looking_takes_long_an_answer_says_that_the_files_were_not_looked_at_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_index, "QUICK_SCAN_FILES", 0)
    monkeypatch.setattr(live_index, "SWEEP_REST_FACTOR", 1e9)
    root = tree(tmp_path / "w", {"a.py": "def lion(): ...\n"})
    with indexed(root) as engine:
        assert engine.search.find(Query("lion")).freshness == "fresh"
        assert engine.search.find(Query("lion")).freshness == "fresh when last looked at"


# -- batches --


def test_a_branch_switch_is_one_batch(tmp_path: Path) -> None:
    root = repository(tmp_path / "w", MANY)
    git(root, "checkout", "--quiet", "-b", "other")
    for path in MANY:
        write(root, path, MANY[path].replace("zebra", "okapi"))
    commit(root, "other")
    git(root, "checkout", "--quiet", "main")
    with indexed(root) as engine:
        generation = engine.status().generation
        git(root, "checkout", "--quiet", "other")
        engine.index.live.follow(QuietWatcher())
        engine.index.live.stale_files()
        engine.index.live.mark_stale(frozenset({".git/HEAD", *MANY}))
        seen = set()

        def switched() -> bool:
            texts = [
                hit.chunk.text for hit in engine.search.find(Query("zebra okapi", 200)).hits
            ]  # one answer, one state
            counts = sum("zebra" in text for text in texts), sum("okapi" in text for text in texts)
            seen.add(counts)
            return engine.index.live.describe_freshness() == "fresh" and counts[1] == len(MANY)

        until(switched)
        assert seen <= {(len(MANY), 0), (0, len(MANY))}, "somebody saw half a switch"
        assert engine.status().branch == "other"
        assert engine.status().generation.split(".")[0] == generation.split(".")[0], "nothing was built anew"


def test_a_watcher_brings_edits_in_without_being_asked(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", {"a.py": "def lion(): ...\n"})
    with indexed(root, quiet_ms=20) as engine:
        engine.watch()
        if engine.status().watcher != "running":
            pytest.skip(f"this system cannot watch: {engine.status().watcher}")
        epoch = engine.status().generation
        write(root, "a.py", "def panther(): ...\n")
        until(lambda: engine.status().generation != epoch)
        assert found(engine, "panther") == ["a.py"]


# -- threads --


def test_two_threads_may_ask_at_once_while_files_change(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", MANY)
    wrong: list[object] = []
    stop = threading.Event()

    def ask(engine: Engine) -> None:
        try:
            while not stop.is_set():
                hits = engine.search.find(Query("zebra part", limit=5)).hits
                wrong.extend(hit for hit in hits if "zebra" not in hit.chunk.text and not hit.stale)
                engine.symbols.find("part_7")
                engine.symbols.trace("part_7")
        except Exception as error:  # noqa: BLE001 - a thread has nobody to raise to
            wrong.append(error)

    with indexed(root) as engine:
        threads = [threading.Thread(target=ask, args=(engine,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in range(12):
            write(root, "src/part_007.py", f"def part_7():\n    return zebra + {number}\n")
            engine.search.find(Query("part_7"))
        stop.set()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_only_one_run_at_a_time_and_the_second_is_told(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", MANY)
    inside, go_on = threading.Event(), threading.Event()

    def hold(step: Progress) -> None:
        if step.stage == "indexing":
            inside.set()
            go_on.wait(60)

    with open_engine(root) as engine, open_engine(root) as other:
        thread = threading.Thread(target=engine.index.update, kwargs={"progress": hold})
        thread.start()
        assert inside.wait(60)
        for each in (engine, other):
            with pytest.raises(StorageBusy):
                each.index.update()
        go_on.set()
        thread.join()
        assert len(found(other, "zebra", limit=100)) == len(MANY)


def test_questions_are_answered_while_the_first_index_is_being_built(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", MANY)
    with open_engine(root) as engine:
        assert engine.index.update_in_background()
        assert engine.status().state in ("building", "ready")
        answer = engine.search.find(Query("zebra"))
        assert answer.hits or "being built" in answer.reason
        assert answer.hits or "building" in answer.freshness
        until(lambda: engine.search.find(Query("zebra")).freshness == "fresh" and engine.status().state == "ready")
        assert len(found(engine, "zebra", limit=100)) == len(MANY)
        assert engine.status().last_error is None


def test_the_first_question_waits_for_a_small_repository(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", {"a.py": "def zebra():\n    return 1\n"})
    with open_engine(root) as engine:
        engine.index.update_in_background()
        assert engine.search.find(Query("zebra")).hits


def test_a_cancelled_run_says_so_and_the_next_goes_on(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", MANY)
    cancel = threading.Event()

    def stop(step: Progress) -> None:
        if step.stage == "indexing":
            cancel.set()

    with open_engine(root) as engine:
        with pytest.raises(Cancelled):
            engine.index.update(progress=stop, cancel=cancel)
        assert engine.status().state == "absent"
        assert engine.index.update().files == len(MANY)
        assert engine.status().last_error is None


# -- trouble --


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_files_of_a_replaced_index_are_closed_at_once(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", {"a.py": "class Lion:\n    def roar(self): ...\n\n\nLion().roar()\n"})
    gc.disable()  # a collection of cycles would close them too, at a time of its own
    try:
        with indexed(root) as engine:
            for _ in range(3):
                engine.symbols.trace("Lion.roar", "callers")
                engine.index.update(force=True)
            engine.symbols.trace("Lion.roar", "callers")
            left = [path for path in open_files() if path.endswith(".seg (deleted)") and str(cache_for(root)) in path]
    finally:
        gc.enable()
    assert left == []


def test_closing_ends_the_thread_even_in_the_middle_of_a_run(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", {f"f{n}.py": "def lion(): ...\n" * 50 for n in range(400)})
    before = set(threading.enumerate())
    engine = open_engine(root)
    engine.index.update_in_background()
    until(lambda: engine.status().state == "building")
    engine.close()
    left = [thread.name for thread in threading.enumerate() if thread not in before]
    assert left == []
    assert cache_for(root).exists()


def test_an_answer_takes_in_the_files_that_it_found_changed(tmp_path: Path) -> None:
    """Right after a checkout the last look at the files may be a second old."""
    root = tree(
        tmp_path / "w", {f"{name}.py": f"def {name}():\n    return 1\n" for name in ("lion", "tiger", "panther")}
    )
    with indexed(root, staleness_ms=600_000) as engine:
        assert not engine.search.find(Query("lion", 1)).hits[0].stale
        write(root, "lion.py", "# a comment\n" * 9 + "def lion():\n    return 2\n")
        until(lambda: not engine.search.find(Query("lion", 1)).hits[0].stale)  # on a busy machine not the first answer
        (hit,) = engine.search.find(Query("lion", 1)).hits
        assert hit.chunk.text.splitlines()[-1] == "    return 2"
