"""Whatever goes wrong, wherever it does: every file is the old or the new one, all of a call alike, and the journal agrees."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from context_engine.edit.apply import Editor, Transactions
from context_engine.edit.file_edit import FileEdit, delete_file, write_file
from context_engine.edit.journal import Journal
from context_engine.errors import ContextEngineError, DiskFull, StaleFile, StorageBusy, StorageCorrupt, WriteFailed
from context_engine.repo.file_writer import FolderWriter, TargetFile
from context_engine.storage.locks import PathLocks
from context_engine.storage.state_folder import STATE_FOLDER
from tests.support.edits import contents, editing, swap
from tests.support.trees import tree

POSIX = pytest.mark.skipif(os.name != "posix", reason="only here there are such files")
OLD = "".join(f"line {n}\n" for n in range(60))
FILES = {"a.py": OLD, "b.py": OLD, "gone.py": "gone\n", "linked.py": OLD}

Point = tuple[Any, str, int, bool]
POINTS: list[Point] = [
    (FolderWriter, "make", 5, True),
    (TargetFile, "stage", 1, False),
    (TargetFile, "stage", 3, True),
    (TargetFile, "check_unchanged", 6, True),
    (TargetFile, "put", 1, True),
    (TargetFile, "put", 2, True),
    (TargetFile, "write_over", 1, True),
    (TargetFile, "remove", 1, True),
    (TargetFile, "put", 3, True),
    (TargetFile, "put", 4, True),
    (FolderWriter, "flush", 1, True),
    (Journal, "finish", 1, False),
]
"""Where it may end between the beginning of a transaction and its end: at the nth call of a function, before or after
it.

In their order: what comes before `check_unchanged` has touched no file, after the fourth `put` all of them are written.
"""
NAMES = [f"{'after' if late else 'before'} {name} {number}" for _, name, number, late in POINTS]


class Died(BaseException):
    """The process ends here, without another word."""


def world(root: Path) -> dict[str, bytes]:
    """Files to change in every way there is; one of them has a second name, so that it is written over in place."""
    tree(root, FILES)
    (root / "other.py").hardlink_to(root / "linked.py")
    return contents(root)


def changes() -> list[FileEdit]:
    new = [swap(path, ("line 7\n", "seven\n" * 9), ("line 40\n", "")) for path in ("a.py", "b.py", "linked.py")]
    return [*new, delete_file("gone.py"), write_file("deep/new/c.py", "new\n"), write_file("d.py", "new\n")]


def breaking(monkeypatch: pytest.MonkeyPatch, point: Point, error: BaseException) -> None:
    """Let it fail at this point."""
    place, name, number, late = point
    real, calls = getattr(place, name), []

    def broken(*args: Any, **more: Any) -> Any:
        calls.append(name)
        if len(calls) != number:
            return real(*args, **more)
        if late:
            real(*args, **more)
        raise error

    monkeypatch.setattr(place, name, broken)


def leftovers(root: Path) -> list[str]:
    return [path.name for path in root.rglob(".ctx-*")]


@pytest.mark.parametrize("point", POINTS, ids=NAMES)
def test_a_failure_at_any_point_takes_everything_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: Point
) -> None:
    before = world(tmp_path)
    error = KeyboardInterrupt() if point[1] == "put" else WriteFailed("no")
    with editing(tmp_path, flush=point[1] == "flush") as one:
        with monkeypatch.context() as patch:
            breaking(patch, point, error)
            with pytest.raises(type(error)) as caught:
                one.apply(changes())
        assert caught.value is error
        assert contents(tmp_path) == before
        assert leftovers(tmp_path) == []
        assert not (tmp_path / "deep").exists()
        assert one.history() == []
        one.apply(changes())
        one.undo()
        assert contents(tmp_path) == before


@pytest.mark.parametrize("point", [*POINTS, (Journal, "finish", 1, True)], ids=[*NAMES, "after finish 1"])
def test_a_death_at_any_point_is_mended_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: Point
) -> None:
    before = world(tmp_path)
    with editing(tmp_path, flush=point[1] == "flush") as one:
        dying(one, monkeypatch, point, lambda: one.apply(changes()))
    with editing(tmp_path) as one:
        told = one.recover()
        assert one.recover() == ()
        assert bool(told) == (point != (Journal, "finish", 1, True))
        assert leftovers(tmp_path) == []
        is_whole = point in [*POINTS[9:], (Journal, "finish", 1, True)]
        assert (contents(tmp_path) == before) != is_whole
        assert len(one.history()) == is_whole
        assert (tmp_path / "deep").exists() == is_whole
        if is_whole:
            one.undo()
        assert contents(tmp_path) == before


def dying(one: Editor, monkeypatch: pytest.MonkeyPatch, point: Point, act: Callable[[], object]) -> None:
    """Do something and die at this point: the dead mend nothing."""
    with monkeypatch.context() as patch:
        patch.setattr(Transactions, "_take_back", lambda *_: None)
        breaking(patch, point, Died())
        with pytest.raises(Died):
            act()


def test_an_edit_of_a_file_left_half_done_mends_it_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world(tmp_path)
    heard: list[frozenset[str]] = []
    with editing(tmp_path, on_write=heard.append) as one, editing(tmp_path) as other:
        dying(other, monkeypatch, (TargetFile, "put", 1, True), lambda: other.apply(changes()))
        one.apply([swap("b.py", ("line 8\n", "eight\n"))])
    assert contents(tmp_path)["a.py"] == OLD.encode()
    assert contents(tmp_path)["b.py"] == OLD.replace("line 8\n", "eight\n").encode()
    assert [min(paths) for paths in heard] == ["a.py", "b.py"], "what was taken back is told as well"


def test_a_death_while_undoing_leaves_the_edit_done_or_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = world(tmp_path)
    with editing(tmp_path) as one:
        one.apply(changes())
        after = contents(tmp_path)
        dying(one, monkeypatch, (TargetFile, "put", 2, True), one.undo)
        assert contents(tmp_path) not in (before, after)
        one.recover()
        assert contents(tmp_path) == after
        one.undo()
        assert contents(tmp_path) == before
        dying(one, monkeypatch, (Journal, "begin", 1, True), one.redo)
        one.recover()
        one.redo()
        assert contents(tmp_path) == after


def test_what_somebody_changed_after_the_death_is_left_to_him(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = world(tmp_path)
    with editing(tmp_path) as one:
        dying(one, monkeypatch, (TargetFile, "put", 2, True), lambda: one.apply(changes()))
        (tmp_path / "a.py").write_bytes(b"mine\n")
        (tmp_path / "b.py").unlink()
        (tmp_path / "b.py").mkdir()
        (told,) = one.recover()
        assert contents(tmp_path) == {name: data for name, data in before.items() if name != "b.py"} | {
            "a.py": b"mine\n"
        }
        assert "a.py, b.py" in told.partition("but for")[2]


@POSIX
def test_a_file_torn_in_place_gets_its_old_content_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = world(tmp_path)
    real = TargetFile.write_over

    def torn(seen: TargetFile, data: bytes, *, flush: bool) -> None:
        with Path(seen.target).open("r+b") as file:
            file.write(data[:200])
        raise Died

    with editing(tmp_path) as one:
        with monkeypatch.context() as patch:
            patch.setattr(Transactions, "_take_back", lambda *_: None)
            patch.setattr(TargetFile, "write_over", torn)
            with pytest.raises(Died):
                one.apply(changes())
        assert contents(tmp_path)["linked.py"] != before["linked.py"]
        assert TargetFile.write_over is real
        one.recover()
    assert contents(tmp_path) == before
    assert (tmp_path / "linked.py").samefile(tmp_path / "other.py")


def test_a_transaction_at_work_is_not_taken_for_a_dead_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world(tmp_path)
    with editing(tmp_path) as one, editing(tmp_path) as other:
        real, told = TargetFile.stage, []

        def staged(*args: Any, **more: Any) -> None:
            real(*args, **more)
            told.append(other.recover())

        monkeypatch.setattr(TargetFile, "stage", staged)
        one.apply(changes())
        assert set(told) == {()}
    assert contents(tmp_path)["d.py"] == b"new\n"


def test_what_changed_between_reading_and_writing_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world(tmp_path)
    real = TargetFile.stage

    def staged(seen: TargetFile, *args: Any, **more: Any) -> None:
        real(seen, *args, **more)
        (tmp_path / "b.py").write_bytes(b"mine\n")

    monkeypatch.setattr(TargetFile, "stage", staged)
    with editing(tmp_path) as one, pytest.raises(StaleFile, match=r"b\.py"):
        one.apply(changes())
    assert contents(tmp_path)["b.py"] == b"mine\n"
    assert contents(tmp_path)["a.py"] == OLD.encode()


def test_what_somebody_wrote_is_not_taken_back_though_it_is_what_we_wanted_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world(tmp_path)
    wanted = OLD.replace("line 7\n", "seven\n" * 9).replace("line 40\n", "").encode()
    real = TargetFile.stage

    def staged(seen: TargetFile, *args: Any, **more: Any) -> None:
        real(seen, *args, **more)
        for path in ("b.py", "linked.py"):
            (tmp_path / path).write_bytes(wanted)

    with editing(tmp_path) as one:
        with monkeypatch.context() as patch:
            patch.setattr(TargetFile, "stage", staged)
            with pytest.raises(StaleFile):
                one.apply(changes())
        assert [contents(tmp_path)[path] for path in ("b.py", "linked.py")] == [wanted] * 2
        tree(tmp_path, {"b.py": OLD, "linked.py": OLD})
        dying(one, monkeypatch, (TargetFile, "check_unchanged", 1, True), lambda: one.apply(changes()))
        (tmp_path / "b.py").write_bytes(wanted)
        one.recover()
        assert contents(tmp_path)["b.py"] == wanted
        assert leftovers(tmp_path) == []


def test_when_not_even_taking_back_works_the_next_start_does_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = world(tmp_path)
    with editing(tmp_path) as one:
        with monkeypatch.context() as patch:
            breaking(patch, (TargetFile, "put", 2, False), WriteFailed("the disk is gone"))
            patch.setattr(Transactions, "_put_back", lambda *_: (_ for _ in ()).throw(WriteFailed("still gone")))
            with pytest.raises(WriteFailed, match=r"the disk is gone; and .* still gone") as caught:
                one.apply(changes())
        assert "next" in caught.value.suggestion
        assert contents(tmp_path) != before
        one.recover()
    assert contents(tmp_path) == before


def test_a_start_never_fails_for_what_it_cannot_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = world(tmp_path)
    with editing(tmp_path) as one:
        dying(one, monkeypatch, (TargetFile, "put", 2, True), lambda: one.apply(changes()))
        with monkeypatch.context() as patch:
            breaking(patch, (Transactions, "_put_back", 1, False), WriteFailed("the disk is gone"))
            (told,) = one.recover()
        assert "the disk is gone" in told
        one.recover()
    assert contents(tmp_path) == before
    (tmp_path / STATE_FOLDER / "journal.db").write_bytes(b"no database" * 1_000)
    with editing(tmp_path) as one:
        assert "cannot be read" in one.recover()[0]


def test_when_the_disk_is_too_full_even_to_forget_an_edit_its_error_is_told_and_it_is_forgotten_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = world(tmp_path)
    with editing(tmp_path) as one:
        with monkeypatch.context() as patch:
            breaking(patch, (TargetFile, "stage", 2, False), WriteFailed("no room left"))
            breaking(patch, (Journal, "abort", 1, False), DiskFull("none at all"))
            with pytest.raises(WriteFailed, match=r"^no room left$"):
                one.apply(changes())
        assert contents(tmp_path) == before
        one.apply(changes())
        assert len(one.history()) == 1


def test_without_a_place_for_the_journal_nothing_is_written(tmp_path: Path) -> None:
    before = world(tmp_path)
    (tmp_path / ".context-engine").write_text("in the way")
    with editing(tmp_path) as one, pytest.raises(StorageCorrupt, match=r"\.context-engine is a file"):
        one.apply(changes())
    (tmp_path / ".context-engine").unlink()
    assert contents(tmp_path) == before


def test_a_file_that_somebody_else_edits_for_long_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("context_engine.storage.locks.WAIT_S", 0.01)
    world(tmp_path)
    with editing(tmp_path) as one, PathLocks(tmp_path / STATE_FOLDER / "locks").hold(["a.py"]):
        with pytest.raises(StorageBusy):
            one.apply(changes())
        one.apply([swap("b.py", ("line 7", "seven"))])


def test_only_errors_of_ours_come_out(tmp_path: Path) -> None:
    world(tmp_path)
    with editing(tmp_path) as one, pytest.raises(ContextEngineError):
        one.apply([write_file("a.py/below/a/file.py", "1")])
    assert contents(tmp_path)["a.py"] == OLD.encode()
