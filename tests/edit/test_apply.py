"""Edits on the disk: all files of a call or none, never over what somebody else wrote, and back again."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from context_engine.edit.apply import Editor, EditResult
from context_engine.edit.file_edit import FileEdit, delete_file, edit_file, write_file
from context_engine.edit.model import Edit
from context_engine.edit.patch import plan
from context_engine.errors import (
    AccessDenied,
    ContextEngineError,
    FileNotFound,
    InvalidArgument,
    InvalidPath,
    NoMatch,
    StaleFile,
    WriteFailed,
)
from context_engine.storage.state_folder import STATE_FOLDER
from tests.support.edits import contents, editing, editor, swap
from tests.support.trees import tree

POSIX = pytest.mark.skipif(os.name != "posix", reason="only here there are such files")
LINES = "".join(f"line {n}\n" for n in range(60))


def sha(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


# -- one file ----------------------------------------------------------------------------------------------------------


def test_an_edit_is_written_and_its_receipt_tells_what_came_of_it(tmp_path: Path) -> None:
    tree(tmp_path, {"src/a.py": "one\ntwo\n"})
    heard: list[frozenset[str]] = []
    with editing(tmp_path, on_write=heard.append, flush=True) as one:
        receipt = one.apply([swap("src/a.py", ("two", "three"))])
    assert contents(tmp_path) == {"src/a.py": b"one\nthree\n"}
    (file,) = receipt.files
    assert (file.path, file.before, file.after) == ("src/a.py", sha("one\ntwo\n"), sha("one\nthree\n"))
    assert receipt.undo_id
    assert heard == [{"src/a.py"}]


def test_a_dry_run_tells_the_same_and_leaves_no_trace(tmp_path: Path) -> None:
    tree(tmp_path, {"a.py": "one\n"})
    heard: list[frozenset[str]] = []
    with editing(tmp_path, on_write=heard.append) as one:
        receipt = one.apply([swap("a.py", ("one", "two")), write_file("new/b.py", "1")], dry_run=True)
    assert [(file.path, file.after) for file in receipt.files] == [("a.py", sha("two\n")), ("new/b.py", sha("1"))]
    assert receipt.undo_id == ""
    assert heard == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.py"]


def test_a_file_that_is_so_already_is_not_written_again(tmp_path: Path) -> None:
    tree(tmp_path, {"a.py": "one\n"})
    before = (tmp_path / "a.py").stat()
    with editing(tmp_path) as one:
        receipt = one.apply([write_file("a.py", "one\n")])
        assert one.history() == []
    after = (tmp_path / "a.py").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert (receipt.undo_id, receipt.files[0].before) == ("", receipt.files[0].after)


def test_a_refused_plan_leaves_the_file_and_is_told_as_it_is(tmp_path: Path) -> None:
    tree(tmp_path, {"a.py": "one\n"})
    with editing(tmp_path) as one:
        with pytest.raises(NoMatch) as caught:
            one.apply([swap("a.py", ("zero", "two"))])
        assert "failed" not in caught.value.details
        assert one.history() == []
    assert contents(tmp_path) == {"a.py": b"one\n"}


@POSIX
def test_a_linked_file_is_edited_where_it_lies_and_the_link_stays(tmp_path: Path) -> None:
    tree(tmp_path, {"real/a.py": "one\n"})
    (tmp_path / "link.py").symlink_to("real/a.py")
    with editing(tmp_path) as one:
        receipt = one.apply([swap("link.py", ("one", "two"))])
        assert receipt.files[0].path == "real/a.py"
        one.apply([write_file("link.py", "three\n")])
    assert (tmp_path / "link.py").is_symlink()
    assert (tmp_path / "real" / "a.py").read_bytes() == b"three\n"


@POSIX
@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("../out.py", InvalidPath),
        ("escape.py", InvalidPath),
        ("sub", InvalidPath),
        (".", InvalidPath),
        ("pipe", InvalidPath),
        (".env", AccessDenied),
        (".git/config", AccessDenied),
        (".context-engine/journal.db", AccessDenied),
        (".context-engine/locks/01.lock", AccessDenied),
        ("closed.py", WriteFailed),
    ],
)
def test_what_must_not_be_written_is_refused_whoever_wants_it(
    tmp_path: Path, path: str, error: type[ContextEngineError]
) -> None:
    tree(
        tmp_path, {"out.py": "1\n", "w/sub/a.py": "1\n", "w/.env": "1\n", "w/.git/config": "1\n", "w/closed.py": "1\n"}
    )
    root = tmp_path / "w"
    (root / "escape.py").symlink_to(tmp_path / "out.py")
    (root / "closed.py").chmod(0o444)
    os.mkfifo(root / "pipe")
    (root / STATE_FOLDER).mkdir()
    with editing(root) as one:
        for change in (swap(path, ("1", "2")), write_file(path, "2\n"), delete_file(path)):
            with pytest.raises((error, FileNotFound)):
                one.apply([change])
            with pytest.raises((error, FileNotFound)):
                one.apply([change], dry_run=True)
    assert (tmp_path / "out.py").read_text() == "1\n"
    assert set(contents(root).values()) == {b"1\n"}


# -- several files -----------------------------------------------------------------------------------------------------


def test_all_files_of_a_call_are_written_or_none(tmp_path: Path) -> None:
    tree(tmp_path, {"a.py": "one\n", "b.py": "one\n", "c.py": "one\n"})
    with editing(tmp_path) as one:
        with pytest.raises(NoMatch, match="nothing was written") as caught:
            one.apply(
                [swap("a.py", ("one", "two")), swap("b.py", ("two", "three")), swap("none.py", ("one", "two"))][:2]
            )
        assert [row["path"] for row in caught.value.details["failed"]] == ["b.py"]
        assert set(contents(tmp_path).values()) == {b"one\n"}
        one.apply(
            [swap(path, ("one", "two")) for path in ("c.py", "a.py")]
            + [write_file("d/e.py", "new"), delete_file("b.py")]
        )
    assert contents(tmp_path) == {"a.py": b"two\n", "c.py": b"two\n", "d/e.py": b"new"}


def test_all_failures_of_a_call_are_told_at_once(tmp_path: Path) -> None:
    tree(tmp_path, {"a.py": "one\n", "b.py": "one\n"})
    with editing(tmp_path) as one, pytest.raises(NoMatch) as caught:
        one.apply([swap("a.py", ("x", "y")), swap("b.py", ("z", "y"))])
    assert "1 more of 2 files failed" in caught.value.message
    rows = caught.value.details["failed"]
    assert [(row["path"], row["code"]) for row in rows] == [("a.py", "NO_MATCH"), ("b.py", "NO_MATCH")]
    assert all(row["suggestion"] for row in rows)


@POSIX
@pytest.mark.parametrize("names", [("a.py", "a.py"), ("a.py", "./a.py"), ("a.py", "link.py"), ()])
def test_a_file_that_is_named_twice_or_none_at_all_is_refused(tmp_path: Path, names: Sequence[str]) -> None:
    tree(tmp_path, {"a.py": "one\n"})
    (tmp_path / "link.py").symlink_to("a.py")
    with editing(tmp_path) as one, pytest.raises(InvalidArgument):
        one.apply([swap(name, ("one", "two")) for name in names])


# -- what the caller has in mind ---------------------------------------------------------------------------------------


def test_a_hash_that_was_read_lets_the_edit_through_as_long_as_it_holds(tmp_path: Path) -> None:
    tree(tmp_path, {"a.py": "one\n"})
    with editing(tmp_path) as one:
        for digits in (12, 16, 64):
            one.apply([swap("a.py", ("one", "one"), expected_hash=sha("one\n")[:digits])], dry_run=True)
        with pytest.raises(StaleFile) as caught:
            one.apply([swap("a.py", ("one", "two"), expected_hash=sha("other\n")[:16])])
        assert caught.value.details["still_fits"] is True
        with pytest.raises(StaleFile) as caught:
            one.apply([swap("a.py", ("other", "two"), expected_hash=sha("other\n")[:16])])
        assert caught.value.details["still_fits"] is False
        with pytest.raises(StaleFile, match="does not exist any more"):
            one.apply([write_file("b.py", "1", expected_hash=sha("other\n"))])
    assert contents(tmp_path) == {"a.py": b"one\n"}


def test_a_stale_hash_and_a_target_that_fits_only_without_whitespace_do_not_fit(tmp_path: Path) -> None:
    tree(tmp_path, {"a.py": "def f():\n        one()\n        two()\n"})
    loose = indented("    one()\n    two()", "    one()\n    three()")
    with editing(tmp_path) as one:
        assert one.apply([loose], dry_run=True).files[0].planned.is_exact is False
        with pytest.raises(StaleFile) as caught:
            one.apply([replace(loose, expected_hash=sha("other\n"))])
        assert caught.value.details["still_fits"] is False
        assert "without the hash" not in caught.value.suggestion
        with pytest.raises(StaleFile) as caught:
            one.apply([delete_file("a.py", expected_hash=sha("other\n"))])
        assert caught.value.details["still_fits"] is False


@pytest.mark.parametrize("hash_", ["latest", "7", "7692c3ad354", "x" * 16, "7" * 65])
def test_what_is_no_hash_is_refused(tmp_path: Path, hash_: str) -> None:
    tree(tmp_path, {"a.py": "one\n"})
    with editing(tmp_path) as one, pytest.raises(InvalidArgument, match="not the hash"):
        one.apply([swap("a.py", ("one", "two"), expected_hash=hash_)])


def reads(one: Editor, root: Path, path: str) -> None:
    one.reads.note_read("s", path, sha((root / path).read_bytes()))


def indented(target: str, replacement: str) -> FileEdit:
    return edit_file("a.py", lambda data: plan(data, [Edit(target, replacement)]))


def test_a_file_that_changed_since_it_was_read_takes_exact_edits_only(tmp_path: Path) -> None:
    tree(tmp_path, {"a.py": "def f():\n    one()\n    two()\n"})
    loose = indented("one()  \ntwo()", "one()  \nthree()")
    with editing(tmp_path) as one:
        one.apply([loose], dry_run=True, session="s")  # this session never read it
        reads(one, tmp_path, "a.py")
        one.apply([loose], dry_run=True, session="s")
        tree(tmp_path, {"a.py": "def f():\n    one()\n    two()\n\n# somebody else\n"})
        with pytest.raises(StaleFile, match="after you read it"):
            one.apply([loose], session="s")
        receipt = one.apply([swap("a.py", ("two()", "three()"))], session="s")
        assert "after you read it" in receipt.warnings[0]
        with pytest.raises(StaleFile):
            one.apply([indented("one()  \nthree()", "four()")], session="s")
        reads(one, tmp_path, "a.py")
        assert one.apply([indented("one()  \nthree()", "one()  \nfour()")], session="s").warnings == ()


# -- back, and again ---------------------------------------------------------------------------------------------------


def test_what_was_done_is_undone_and_done_again_after_a_restart_too(tmp_path: Path) -> None:
    tree(tmp_path, {"a.py": LINES, "b.py": "gone\n"})
    (tmp_path / "b.py").chmod(0o640)
    before = contents(tmp_path)
    with editing(tmp_path) as one:
        changes = [swap("a.py", ("line 7\n", "seven\n")), delete_file("b.py"), write_file("deep/new/c.py", "new\n")]
        done = one.apply(changes)
        after = contents(tmp_path)
    for _ in range(2):
        with editing(tmp_path) as one:
            assert one.undo().undo_id == done.undo_id
            assert contents(tmp_path) == before
            assert not (tmp_path / "deep").exists()
            assert os.name != "posix" or stat.S_IMODE((tmp_path / "b.py").stat().st_mode) == 0o640
        with editing(tmp_path) as one:
            assert one.redo(done.undo_id).undo_id == done.undo_id
            assert contents(tmp_path) == after


def test_without_anything_to_undo_it_says_so(tmp_path: Path) -> None:
    tree(tmp_path, {"a.py": "one\n"})
    with editing(tmp_path) as one:
        for ask in (one.undo, one.redo):
            with pytest.raises(InvalidArgument, match="nothing"):
                ask()
        done = one.apply([write_file("a.py", "two\n")])
        for wrong in ("7", "x", "-1", "٣", "1.0", "9" * 30):
            with pytest.raises(InvalidArgument, match="cannot be undone"):
                one.undo(wrong)
        with pytest.raises(InvalidArgument, match="cannot be redone"):
            one.redo(done.undo_id)
        one.undo(done.undo_id)
        with pytest.raises(InvalidArgument, match="cannot be undone"):
            one.undo(done.undo_id)


def test_an_edit_below_another_one_is_undone_where_it_changed_the_file(tmp_path: Path) -> None:
    tree(tmp_path, {"a.py": LINES})
    with editing(tmp_path) as one:
        first = one.apply([swap("a.py", ("line 7\n", "seven\n"))])
        second = one.apply([swap("a.py", ("line 40\n", "forty\n"), ("line 50\n", ""))])
        one.undo(first.undo_id)
        assert contents(tmp_path)["a.py"].decode() == LINES.replace("line 40\n", "forty\n").replace("line 50\n", "")
        one.undo(second.undo_id)
        assert contents(tmp_path)["a.py"].decode() == LINES
        one.redo(first.undo_id)
        one.redo(second.undo_id)
    assert contents(tmp_path)["a.py"].decode() == LINES.replace("line 7\n", "seven\n").replace(
        "line 40\n", "forty\n"
    ).replace("line 50\n", "")


def test_undo_touches_nothing_when_one_of_its_files_was_changed_there(tmp_path: Path) -> None:
    tree(tmp_path, {"a.py": LINES, "b.py": LINES})
    with editing(tmp_path) as one:
        done = one.apply([swap(path, ("line 7\n", "seven\n")) for path in ("a.py", "b.py")])
        tree(tmp_path, {"b.py": LINES.replace("line 7\n", "SEVEN\n")})
        now = contents(tmp_path)
        with pytest.raises(StaleFile, match=r"b\.py"):
            one.undo(done.undo_id)
        assert contents(tmp_path) == now
        assert not one.history()[0].is_undone


def test_a_session_undoes_its_own_edits(tmp_path: Path) -> None:
    tree(tmp_path, {"a.py": "one\n", "b.py": "one\n"})
    with editing(tmp_path) as one:
        one.apply([write_file("a.py", "two\n")], session="me")
        one.apply([write_file("b.py", "two\n")], session="you")
        one.undo(session="me")
        assert contents(tmp_path) == {"a.py": b"one\n", "b.py": b"two\n"}
        with pytest.raises(InvalidArgument, match="nothing"):
            one.undo(session="me")
        one.undo(session="a new one, after a restart")
    assert contents(tmp_path) == {"a.py": b"one\n", "b.py": b"one\n"}


# -- the law: a long day of edits, and a model that keeps every version it ever saw ------------------------------------

PATHS = ("a.py", "b.py", "sub/c.py")
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(PATHS), st.text("ab\n", max_size=8)),
        st.tuples(st.just("write two"), st.sampled_from(PATHS), st.text("ab\n", max_size=8)),
        st.tuples(st.just("delete"), st.sampled_from(PATHS), st.just("")),
        st.tuples(st.sampled_from(["undo", "redo", "restart"]), st.just(""), st.just("")),
    ),
    max_size=16,
)


class Model:
    """What a person would do with a pile of copies: each call is a pair of whole folders' contents."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.done: list[tuple[int, dict[str, bytes | None], dict[str, bytes | None]]] = []
        self.undone: list[tuple[int, dict[str, bytes | None], dict[str, bytes | None]]] = []
        self.calls = 0

    def change(self, wanted: dict[str, bytes | None]) -> None:
        changed = {path: data for path, data in wanted.items() if self.files.get(path) != data}
        if not changed:
            return
        self.calls += 1
        self.done.append((self.calls, {path: self.files.get(path) for path in changed}, changed))
        self._drop_undone(changed.keys(), 0)
        self._put(changed)

    def _drop_undone(self, paths: Collection[str], after: int) -> None:
        """Nothing is done again whose files were changed, nor what was later done on top of that."""
        dropped = [call for call in self.undone if call[0] > after and call[2].keys() & paths]
        self.undone = [call for call in self.undone if call not in dropped]
        for number, _, changed in dropped:
            self._drop_undone(changed.keys(), number)

    def undo(self) -> bool:
        return self._turn(self.done, self.undone, 1)

    def redo(self) -> bool:
        return self._turn(self.undone, self.done, 2)

    def _turn(self, source: list, target: list, side: int) -> bool:
        if not source:
            return False
        call = source.pop()
        target.append(call)
        self.done.sort(key=lambda call: call[0])
        self._put(call[side])
        return True

    def _put(self, files: dict[str, bytes | None]) -> None:
        for path, data in files.items():
            self.files.pop(path, None) if data is None else self.files.__setitem__(path, data)


UNDO, REDO = ("undo", "", ""), ("redo", "", "")


@settings(max_examples=30, deadline=None)
@given(ACTIONS)
@example([("write", "a.py", "a"), ("write", "a.py", "b"), UNDO, ("write", "a.py", "ab"), REDO, UNDO, UNDO])
@example(
    [
        ("write", "a.py", "a"),
        ("write two", "sub/c.py", ""),
        ("write", "sub/c.py", "a"),
        UNDO,
        UNDO,
        ("delete", "a.py", ""),
        REDO,
    ]
)
@example([("write", "a.py", "a"), ("write", "b.py", "b"), UNDO, UNDO, ("write", "b.py", "ab"), REDO, REDO])
def test_whatever_is_done_undone_and_done_again_the_files_are_what_they_should_be(
    actions: list[tuple[str, str, str]],
) -> None:
    with TemporaryDirectory() as folder:
        root, model = Path(folder).resolve(), Model()
        one = editor(root)
        for action, path, text in actions:
            if action == "restart":
                one.close()
                one = editor(root)
            elif action in {"undo", "redo"}:
                assert turns(one, action) == getattr(model, action)()
            elif action == "delete":
                if path in model.files:
                    one.apply([delete_file(path)])
                    model.change({path: None})
            else:
                paths = {path} if action == "write" else {path, PATHS[0]}
                one.apply([write_file(each, text + each) for each in sorted(paths)])
                model.change({each: (text + each).encode() for each in paths})
            assert contents(root) == model.files
        one.close()


def turns(one, action: str) -> bool:
    try:
        receipt = getattr(one, action)()
    except InvalidArgument:
        return False
    assert isinstance(receipt, EditResult)
    return True
