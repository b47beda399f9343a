"""Files are written whole or not at all, and stay what they were in everything but their content."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import InvalidPath, StaleFile, TooLarge, WriteFailed
from context_engine.repo import file_writer
from context_engine.repo.file_writer import FolderWriter, ParentFolder, TargetFile
from context_engine.repo.paths import Root, path_of_listing
from context_engine.storage import ConfinedFolder
from tests.support.children import killed
from tests.support.trees import ordinary_user, tree

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
POSIX = pytest.mark.skipif(os.name != "posix", reason="only here there are such files")


def file(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def look(path: Path) -> TargetFile:
    return TargetFile.read(Root(path.parent), path_of_listing(path.name), bytes_max=1_000_000)


def replace(path: Path, data: bytes) -> None:
    """All the steps of one replacement, one after the other."""
    seen, temp = look(path), TargetFile.temporary_name()
    seen.stage(data, temp, flush=True)
    seen.check_unchanged()
    seen.put(temp)
    FolderWriter(Root(path.parent)).flush([seen])


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@contextmanager
def no_room_beyond(size: int) -> Generator[None]:
    """No file may grow beyond a size: what a full disk feels like, without filling one."""
    import resource  # Windows has none

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# -- looking -----------------------------------------------------------------------------------------------------------


def test_a_folder_or_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidPath, match="folder"):
        look(tree(tmp_path / "sub", {"x": "1"}))
    with pytest.raises(TooLarge) as caught:
        look(file(tmp_path / "big", b"x" * 1_000_001))
    assert "lines" not in caught.value.suggestion, "reading a part of it is no way to change it"


def test_a_file_that_somebody_changed_replaced_or_removed_is_noticed(tmp_path: Path) -> None:
    path = file(tmp_path / "a.txt", b"old")

    def touched() -> None:
        os.utime(path, ns=(1, 1))

    def replaced() -> None:
        was = path.stat()
        file(tmp_path / "b.txt", b"new").replace(path)
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))

    for meddle in (lambda: path.write_bytes(b"longer"), touched, replaced, path.unlink):
        seen = look(path)
        seen.check_unchanged()
        meddle()
        with pytest.raises(StaleFile):
            seen.check_unchanged()
    missing = look(path)
    missing.check_unchanged()
    path.write_bytes(b"made meanwhile")
    with pytest.raises(StaleFile):
        missing.check_unchanged()


@POSIX
def test_a_file_without_write_permission_is_refused_even_to_the_superuser(tmp_path: Path) -> None:
    path = file(tmp_path / "a.txt", b"1")
    look(path).check_may_write()
    look(tmp_path / "new.txt").check_may_write()
    path.chmod(0o444)
    with pytest.raises(WriteFailed, match="write-protected"):
        look(path).check_may_write()


@POSIX
def test_a_file_of_another_user_is_refused_when_he_alone_may_write_it() -> None:
    with ordinary_user() as folder:
        path = file(folder / "a.txt", b"1")
        if not IS_ROOT:
            pytest.skip("only the superuser can give a file away")
        os.seteuid(0)
        os.chown(path, 0, 0)
        path.chmod(0o644)
        os.seteuid(folder.stat().st_uid)
        with pytest.raises(WriteFailed):
            look(path).check_may_write()


# -- replacing ---------------------------------------------------------------------------------------------------------


@POSIX
def test_mode_owner_and_extended_attributes_survive(tmp_path: Path) -> None:
    path = file(tmp_path / "run.sh", b"old")
    path.chmod(0o751)
    if IS_ROOT:
        os.chown(path, 1234, 4321)
    has_attributes = hasattr(os, "setxattr")
    if has_attributes:
        os.setxattr(path, "user.reviewed", b"yes")
    before = path.stat()
    replace(path, b"new")
    after = path.stat()
    assert path.read_bytes() == b"new"
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    if has_attributes:
        assert os.getxattr(path, "user.reviewed") == b"yes"
    assert names(tmp_path) == ["run.sh"]


@POSIX
def test_while_it_is_written_nobody_else_can_read_what_lies_beside_a_closed_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(tmp_path / "a.txt", b"old")
    path.chmod(0o640)
    monkeypatch.setattr(file_writer, "_copy_metadata", lambda *_: None)  # what comes between
    look(path).stage(b"new", ".ctx-1.tmp", flush=False)
    assert stat.S_IMODE((tmp_path / ".ctx-1.tmp").stat().st_mode) == 0o600


@POSIX
def test_what_lies_beside_a_file_never_overwrites_or_follows_anything(tmp_path: Path) -> None:
    path = file(tmp_path / "a.txt", b"old")
    other = file(tmp_path / "other.txt", b"precious")
    (tmp_path / ".ctx-1.tmp").symlink_to(other)
    file(tmp_path / ".ctx-2.tmp", b"somebody's")
    for temp in (".ctx-1.tmp", ".ctx-2.tmp"):
        with pytest.raises(WriteFailed):
            look(path).stage(b"new", temp, flush=False)
    assert other.read_bytes() == b"precious"


def test_a_new_file_gets_the_usual_mode_or_the_one_it_had(tmp_path: Path) -> None:
    for name, mode in (("plain", None), ("script", 0o755)):
        seen = look(tmp_path / name)
        seen.stage(b"1", ".ctx-1.tmp", flush=True, mode=mode)
        seen.put(".ctx-1.tmp")
    usual = file(tmp_path / "other", b"1").stat().st_mode
    assert (tmp_path / "plain").stat().st_mode == usual
    assert os.name != "posix" or stat.S_IMODE((tmp_path / "script").stat().st_mode) == 0o755
    assert names(tmp_path) == ["other", "plain", "script"]
    assert (tmp_path / "plain").stat().st_nlink == 1


def test_a_new_file_never_replaces_one_that_appeared_meanwhile(tmp_path: Path) -> None:
    seen = look(tmp_path / "a.txt")
    seen.stage(b"ours", ".ctx-1.tmp", flush=False)
    file(tmp_path / "a.txt", b"theirs")
    with pytest.raises(StaleFile):
        seen.put(".ctx-1.tmp")
    assert (tmp_path / "a.txt").read_bytes() == b"theirs"


def test_folders_for_a_new_file_are_made_and_removed_again_when_nothing_else_came_in(tmp_path: Path) -> None:
    root = Root(tmp_path)
    tree(tmp_path, {"a/": ""})
    missing = FolderWriter(root).missing("a/b/c/d.txt")
    assert missing == ("a/b", "a/b/c")
    FolderWriter(root).make(missing)
    FolderWriter(root).make(missing)  # somebody made them meanwhile
    tree(tmp_path, {"a/b/mine.txt": "1"})
    FolderWriter(root).remove(missing)
    assert names(tmp_path / "a") == ["b"]
    assert names(tmp_path / "a" / "b") == ["mine.txt"]


@POSIX
def test_without_room_the_file_stays_and_it_is_said(tmp_path: Path) -> None:
    path = file(tmp_path / "a.txt", b"old")
    with no_room_beyond(4_096), pytest.raises(WriteFailed, match="no room") as caught:
        look(path).stage(b"x" * 100_000, ".ctx-1.tmp", flush=True)
    assert path.read_bytes() == b"old"
    assert caught.value.details["reason"] == "disk_full"


# -- writing over in place ---------------------------------------------------------------------------------------------


@POSIX
def test_a_file_with_another_name_keeps_it(tmp_path: Path) -> None:
    path = file(tmp_path / "a.txt", b"old content")
    assert not look(path).is_overwritten_in_place
    (tmp_path / "b.txt").hardlink_to(path)
    seen = look(path)
    assert seen.is_overwritten_in_place
    for new in (b"new", b"a much longer new content", b""):
        look(path).write_over(new, flush=True)
        assert (tmp_path / "b.txt").read_bytes() == new


@POSIX
def test_a_file_in_a_closed_folder_or_of_another_owner_is_written_over() -> None:
    with ordinary_user() as folder:
        path = file(folder / "a.txt", b"1")
        folder.chmod(0o500)
        assert look(path).is_overwritten_in_place
        look(path).write_over(b"22", flush=False)
        assert path.read_bytes() == b"22"
        folder.chmod(0o700)
        assert not look(path).is_overwritten_in_place
        if IS_ROOT:
            os.seteuid(0)
            os.chown(path, 1234, -1)
            path.chmod(0o666)
            os.seteuid(folder.stat().st_uid)
            assert look(path).is_overwritten_in_place, "replaced, it would become ours"


@POSIX
def test_what_does_not_fit_in_place_leaves_the_old_content(tmp_path: Path) -> None:
    path = file(tmp_path / "a.txt", b"old " * 500)
    with no_room_beyond(4_096), pytest.raises(WriteFailed, match="no room"):
        look(path).write_over(b"new " * 5_000, flush=True)
    assert path.read_bytes() == b"old " * 500


def left_behind(data: bytes) -> TargetFile:
    """A file with these bytes."""
    return TargetFile("a.txt", "/a.txt", ParentFolder(ConfinedFolder("/"), ""), data)


@given(st.binary(max_size=12), st.binary(max_size=12), st.data())
def test_whatever_a_crash_leaves_in_place_is_known_as_torn(old: bytes, new: bytes, data: st.DataObject) -> None:
    grown = data.draw(st.integers(0, max(0, len(new) - len(old))), "bytes written behind the old end")
    state = old + new[len(old) :][:grown]
    if grown == max(0, len(new) - len(old)):
        done = data.draw(st.integers(0, min(len(old), len(new))), "bytes written over")
        state = new[:done] + state[done:]
        if done == min(len(old), len(new)) and data.draw(st.booleans(), label="cut off"):
            state = state[: len(new)]
    assert left_behind(state).is_torn(old, new)


# -- one file of any place ---------------------------------------------------------------------------------------------


KILLED = """
import sys
from context_engine.repo import file_writer
from context_engine.repo.file_writer import write_atomic
print("ready", flush=True)
n = 0
while True:
    n += 1
    write_atomic(sys.argv[1], bytes([65 + n % 26]) * 300_000)
"""


@POSIX
def test_a_writer_killed_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    path = file(tmp_path / "a.txt", b"A" * 300_000)
    for wait_s in (0.001, 0.004, 0.009, 0.02, 0.03):
        killed(KILLED, str(path), after_s=wait_s)
        data = path.read_bytes()
        assert (len(data), len(set(data))) == (300_000, 1)
