"""A folder or a file is exchanged at one certain moment: what was read stays what is written, and nothing else is touched."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from context_engine.edit.apply import Editor
from context_engine.edit.file_edit import FileEdit, delete_file, write_file
from context_engine.errors import ContextEngineError, InvalidPath, StaleFile
from context_engine.model import Skipped
from context_engine.repo import file_writer
from context_engine.repo import walker as walking
from context_engine.repo.file_reader import load_for_index, read_bytes
from context_engine.repo.file_writer import FolderWriter, TargetFile, write_atomic
from context_engine.repo.paths import Root, path_of_listing
from context_engine.repo.walker import walk
from context_engine.storage import confined_folder
from context_engine.storage.confined_folder import ConfinedFolder
from tests.support.edits import editing, swap
from tests.support.trees import tree

pytestmark = pytest.mark.skipif(
    os.name != "posix", reason="Windows opens nothing relative to a folder: decision record hostile-input"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace and an outside folder with the same names."""
    tree(tmp_path / "out", {"a.py": "outside\n", "deep/a.py": "outside\n", "deep/secret-name.py": "outside\n"})
    return tree(tmp_path / "ws", {"pkg/a.py": "old\n", "pkg/deep/a.py": "old\n", "b.py": "old\n"})


def exchange(root: Path, name: str = "pkg") -> None:
    """Move a folder aside and put a link to the outside in its place."""
    (root / name).rename(root.parent / "moved")
    (root / name).symlink_to(root.parent / "out", target_is_directory=True)


def outside(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root.parent)): path.read_text() for path in (root.parent / "out").rglob("*.*")}


def left(root: Path) -> list[str]:
    return [str(path) for path in root.parent.rglob(".ctx-*")]


def after(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], object]) -> None:
    """Do something once, right after the first call of a function of `writing`."""
    owner = FolderWriter if name == "make" else TargetFile
    real, done = getattr(owner, name), []

    def wrapped(*args: Any, **more: Any) -> Any:
        result = real(*args, **more)
        if not done:
            done.append(act())
        return result

    monkeypatch.setattr(owner, name, wrapped)


# -- reading -----------------------------------------------------------------------------------------------------------


def test_a_checked_path_is_not_read_through_a_folder_that_became_a_link(root: Path) -> None:
    opened = Root(root)
    path = opened.rel("pkg/a.py")
    exchange(root)
    with pytest.raises(InvalidPath):
        read_bytes(opened, path, bytes_max=100)
    loaded = load_for_index(opened.confined, path, bytes_max=100)
    assert isinstance(loaded, Skipped)
    assert loaded.reason == "special"


def test_no_name_of_the_outside_is_suggested_for_a_wrong_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Root(root)
    real = confined_folder.ConfinedFolder.stat

    def exchanged_before(*args: Any) -> Any:
        if not (root / "pkg").is_symlink():
            exchange(root)
        return real(*args)

    monkeypatch.setattr(confined_folder.ConfinedFolder, "stat", exchanged_before)
    with pytest.raises(ContextEngineError) as caught:
        opened.rel("pkg/deep/secret-nam.py")
    assert "secret-name" not in str(caught.value.as_dict())


def test_a_walk_to_one_folder_does_not_go_through_a_link_that_was_just_made(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = walking._Walker._step

    def exchanged_after(*args: Any, **more: Any) -> Any:
        folder = real(*args, **more)
        if not (root / "pkg").is_symlink():
            exchange(root)
        return folder

    monkeypatch.setattr(walking._Walker, "_step", exchanged_after)
    found = walk(root, ["pkg/deep"])
    assert (found.entries, dict(found.folders)) == ((), {})


# -- writing -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["make", "stage", "check_unchanged"])
@pytest.mark.parametrize("change", ["edit", "write", "delete", "make"])
def test_a_folder_exchanged_in_the_middle_of_an_edit_leads_no_write_outside_and_leaves_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch, moment: str, change: str
) -> None:
    wanted = {
        "edit": swap("pkg/a.py", ("old", "new")),
        "write": write_file("pkg/a.py", "new\n"),
        "delete": delete_file("pkg/a.py"),
        "make": write_file("pkg/fresh.py", "new\n"),
    }[change]
    before = outside(root)
    with editing(root) as editor:
        after(monkeypatch, moment, lambda: exchange(root))
        try_to(editor, wanted)
        assert outside(root) == before
        assert left(root) == []
        assert editor.recover() == ()
    inside = {path.name: path.read_text() for path in (root.parent / "moved").glob("*.py")}
    was_written = moment == "check_unchanged" or (moment == "stage" and change == "delete")
    assert was_written or inside == {"a.py": "old\n"}, "what was not refused is written where it was read"


def try_to(editor: Editor, change: FileEdit) -> None:
    """Make a change, or be refused."""
    with suppress(ContextEngineError):
        editor.apply([change])


def test_what_was_written_is_taken_back_in_the_folder_where_it_was_written(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = outside(root)
    with editing(root) as editor:
        after(monkeypatch, "put", lambda: exchange(root))
        monkeypatch.setattr(FolderWriter, "flush", lambda *_: 1 / 0)
        editor._transactions._flush = True
        with pytest.raises(ZeroDivisionError):
            editor.apply([swap("pkg/a.py", ("old", "new")), swap("b.py", ("old", "new"))])
    assert (outside(root), left(root)) == (before, [])
    assert (root.parent / "moved/a.py").read_text() == "old\n"
    assert (root / "b.py").read_text() == "old\n"


def test_another_folder_of_the_same_name_is_not_written_into(root: Path) -> None:
    seen = TargetFile.read(Root(root), path_of_listing("pkg/a.py"), bytes_max=100)
    (root / "pkg").rename(root / "other")
    tree(root, {"pkg/a.py": "old\n"})
    with pytest.raises(StaleFile):
        seen.stage(b"new\n", TargetFile.temporary_name(), flush=False)
    with pytest.raises(StaleFile):
        seen.check_unchanged()
    assert left(root) == []


def test_a_file_that_is_written_over_in_place_is_the_one_that_was_read(root: Path) -> None:
    (root / "second.py").hardlink_to(root / "b.py")
    seen = TargetFile.read(Root(root), path_of_listing("b.py"), bytes_max=100)
    (root / "b.py").unlink()
    (root / "b.py").hardlink_to(root.parent / "out/a.py")
    with pytest.raises(StaleFile):
        seen.write_over(b"new\n", flush=False)
    assert (root.parent / "out/a.py").read_text() == "outside\n"


def test_of_very_many_folders_the_first_are_kept_open_and_the_rest_is_compared(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_writer, "FOLDERS_OPEN_MAX", 1)
    with editing(root) as editor:
        editor.apply([swap(path, ("old", "new")) for path in ("pkg/a.py", "b.py", "pkg/deep/a.py")])
        assert [(root / path).read_text() for path in ("pkg/a.py", "b.py", "pkg/deep/a.py")] == ["new\n"] * 3
        editor.undo()
    assert (root / "pkg/deep/a.py").read_text() == "old\n"
    assert left(root) == []


# -- the folder itself -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["../out/a.py", "..", "pkg/../../out/a.py", "link/a.py", "pkg/link", "{out}/a.py"])
def test_an_open_folder_opens_nothing_outside_of_it(root: Path, way: str) -> None:
    (root / "link").symlink_to(root.parent / "out", target_is_directory=True)
    (root / "pkg/link").symlink_to(root / "b.py")
    with ConfinedFolder(root).open_folder() as folder, pytest.raises(OSError, match=r".") as caught:
        os.close(folder.open(way.format(out=root.parent / "out"), os.O_RDONLY))
    assert not isinstance(caught.value, FileNotFoundError), "it is there, and refused"


def test_an_open_folder_stays_the_same_whatever_its_name_leads_to(root: Path) -> None:
    with ConfinedFolder(root).open_folder("pkg") as folder:
        identity = folder.identity()
        exchange(root)
        with os.fdopen(folder.open("a.py", os.O_RDONLY), "rb") as file:
            assert file.read() == b"old\n"
        assert folder.identity() == identity
    folder.close()  # twice does no harm


def test_where_nothing_can_be_opened_relative_to_a_folder_everything_goes_by_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confined_folder, "opens_relative", lambda: False)
    root = tree(tmp_path / "ws", {"pkg/a.py": "old\n"})
    (root / "out").symlink_to(tree(tmp_path / "out", {"a.py": "outside\n"}))
    opened = Root(root)
    assert read_bytes(opened, opened.rel("pkg/a.py"), bytes_max=100)[0] == b"old\n"
    assert [entry.path for entry in walk(root, [""]).entries] == ["pkg/a.py"]
    with pytest.raises(InvalidPath):
        read_bytes(opened, path_of_listing("out/a.py"), bytes_max=100)
    with editing(root, flush=True) as editor:
        editor.apply([swap("pkg/a.py", ("old", "new")), write_file("new/deep/b.py", "new\n")])
        assert [(root / path).read_text() for path in ("pkg/a.py", "new/deep/b.py")] == ["new\n"] * 2
        editor.undo()
    assert sorted(path.name for path in root.rglob("*.py")) == ["a.py"]
    assert not (root / "new").exists()


# -- files that the user names ------------------------------------------------------------------------------------


@pytest.mark.parametrize("marker", [".git/", ".context-engine/"])
@pytest.mark.parametrize("linked", ["report.html", "out/report.html"])
def test_an_output_file_is_not_written_through_a_link_of_a_repository(tmp_path: Path, marker: str, linked: str) -> None:
    victim = tree(tmp_path / "outside", {"report.html": "mine\n"}) / "report.html"
    root = tree(tmp_path / "clone", {marker: ""})
    first = root / linked.partition("/")[0]
    first.symlink_to(victim.parent if "/" in linked else victim)
    with pytest.raises(InvalidPath, match="leads out of"):
        write_atomic(root / linked, b"ours\n")
    assert victim.read_text() == "mine\n"
