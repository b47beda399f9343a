"""A confined folder opens what is beneath it and nothing else, in both ways to resolve a path.

The contract is the same. The race at the end is only won by the one that resolves relative to an open folder.
"""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import chdir, contextmanager, suppress
from pathlib import Path

import pytest

from context_engine.storage import confined_folder
from context_engine.storage.confined_folder import ConfinedFolder, UnsafePathError
from tests.support.open_files import open_files

SECRET = b"of somebody else"


@pytest.fixture(params=["relative", "by names"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are resolved in this way."""
    monkeypatch.setattr(confined_folder, "opens_relative", lambda: request.param == "relative")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_bytes(SECRET)
    return folder


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "top"
    (folder / "in" / "deep").mkdir(parents=True)
    (folder / "in" / "file").write_bytes(b"mine")
    return folder


@pytest.fixture
def strict(top: Path, way: None) -> ConfinedFolder:
    return ConfinedFolder(top)


@pytest.fixture
def lenient(top: Path, way: None) -> ConfinedFolder:
    return ConfinedFolder(top, follow_links=True)


@contextmanager
def nothing_changes(folder: Path) -> Generator[None]:
    before = everything(folder)
    yield
    assert everything(folder) == before


def everything(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path): (path.read_bytes(), path.stat().st_nlink) for path in files}


# -- what a folder is for ---------------------------------------------------------------------------------------------


def test_what_was_written_is_read(strict: ConfinedFolder) -> None:
    assert strict.write_bytes("in/new", b"text", flush=True)
    assert strict.read_bytes("in/new", bytes_max=4) == b"text"
    assert strict.folder("in").read_bytes("new", bytes_max=4) == b"text"


def test_a_new_file_never_replaces_one(strict: ConfinedFolder) -> None:
    assert not strict.write_bytes("in/file", b"yours", replace=False)
    assert strict.read_bytes("in/file", bytes_max=99) == b"mine"
    assert strict.write_bytes("in/other", b"new", replace=False)
    assert strict.stat("in/other").st_nlink == 1


def test_nothing_is_left_of_what_was_written_under_another_name(strict: ConfinedFolder) -> None:
    strict.write_bytes("in/file", b"a")
    strict.write_bytes("in/file", b"b", replace=False)
    strict.write_bytes("in/other", b"b", replace=False)
    with strict.scan("in") as found:
        assert sorted(entry.name for entry in found) == ["deep", "file", "other"]


def test_the_permissions_of_a_replaced_file_are_kept(strict: ConfinedFolder, top: Path) -> None:
    (top / "in/file").chmod(0o640)
    strict.write_bytes("in/file", b"anew", mode=0o600)
    assert strict.stat("in/file").st_mode & 0o777 == 0o640


def test_a_new_file_has_the_permissions_that_were_asked_for(strict: ConfinedFolder) -> None:
    strict.write_bytes("in/key", b"", mode=0o600)
    assert strict.stat("in/key").st_mode & 0o777 == 0o600


def test_folders_are_made_as_deep_as_needed(strict: ConfinedFolder, tmp_path: Path) -> None:
    strict.make_folders("a/b/c")
    strict.folder("a/b").make_folders("d")
    with strict.scan("a/b") as found:
        assert sorted(entry.name for entry in found) == ["c", "d"]
    absent = ConfinedFolder(tmp_path / "not/there")
    absent.make_folders()
    absent.folder("x/y").make_folders()
    assert absent.exists("x/y")


def test_a_folder_says_what_is_in_it(strict: ConfinedFolder) -> None:
    with strict.scan("in") as found:
        assert {entry.name: entry.is_dir(follow_symlinks=False) for entry in found} == {"deep": True, "file": False}
    with strict.scan("in") as found:
        assert {entry.stat(follow_symlinks=False).st_size for entry in found if entry.name == "file"} == {4}


def test_files_and_folders_are_renamed_and_deleted(strict: ConfinedFolder) -> None:
    strict.rename("in/file", "in/deep/moved")
    assert strict.read_bytes("in/deep/moved", bytes_max=99) == b"mine"
    strict.rename("in/deep", "trash")
    strict.unlink("trash/moved")
    strict.remove_folder("trash")
    strict.remove_tree("in")
    with strict.scan() as found:
        assert list(found) == []
    strict.flush()


def test_a_log_grows_at_its_end(strict: ConfinedFolder) -> None:
    for line in (b"one\n", b"two\n"):
        descriptor = strict.open("in/log", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, line)
        os.close(descriptor)
    assert strict.read_bytes("in/log", bytes_max=99) == b"one\ntwo\n"


def test_what_is_not_there_is_a_file_not_found(strict: ConfinedFolder, tmp_path: Path) -> None:
    for relative in ("absent", "absent/deeper", "in/deep/absent"):
        with pytest.raises(FileNotFoundError):
            strict.open(relative)
        assert not strict.exists(relative)
    with pytest.raises(FileNotFoundError):
        ConfinedFolder(tmp_path / "absent").read_bytes("x", bytes_max=1)


def test_no_descriptor_stays_open(strict: ConfinedFolder, top: Path, outside: Path) -> None:
    (top / "out").symlink_to(outside)
    for _ in range(3):
        strict.write_bytes("in/x", b"1")
        strict.read_bytes("in/x", bytes_max=9)
        strict.exists("in/none")
        strict.make_folders("in/m")
        for relative in ("out/secret", "in", "in/none/none", "in/file/none"):
            with pytest.raises((UnsafePathError, NotADirectoryError, FileNotFoundError)):
                strict.open(relative)
    if sys.platform == "linux":
        assert [path for path in open_files() if path.startswith(str(top.parent))] == []


# -- what it refuses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "relative", ["../outside/secret", "in/../../outside/secret", "/etc/passwd", "in//file", "./in", "a\0b"]
)
def test_a_path_that_is_not_plain_is_refused(strict: ConfinedFolder, lenient: ConfinedFolder, relative: str) -> None:
    for folder in (strict, lenient):
        for act in (folder.open, folder.stat, folder.unlink, folder.folder, folder.make_folders):
            with pytest.raises(UnsafePathError, match="plain relative path"):
                act(relative)


@pytest.mark.parametrize("target", ["../outside", "{outside}", "../absent", "{top}/in"])
def test_state_is_never_behind_a_link(strict: ConfinedFolder, top: Path, outside: Path, target: str) -> None:
    (top / "link").symlink_to(target.format(outside=outside, top=top))
    with nothing_changes(outside):
        for act in (
            lambda: strict.open("link/secret"),
            lambda: strict.open("link/new", os.O_WRONLY | os.O_CREAT),
            lambda: strict.write_bytes("link/new", b"x"),
            lambda: strict.write_bytes("link", b"x"),
            lambda: strict.make_folders("link/new"),
            lambda: strict.unlink("link/secret"),
            lambda: strict.rename("in/file", "link/new"),
            lambda: strict.rename("link/secret", "in/new"),
            lambda: strict.folder("link").open("secret"),
            lambda: strict.open("link"),
        ):
            with pytest.raises(UnsafePathError, match="is a symbolic link: 'link'"):
                act()
        with pytest.raises(UnsafePathError), strict.scan("link"):
            pass
    assert sorted(path.name for path in top.parent.iterdir()) == ["outside", "top"]


def test_a_file_that_is_a_link_is_neither_read_nor_emptied(strict: ConfinedFolder, top: Path, outside: Path) -> None:
    (top / "in/link").symlink_to(outside / "secret")
    with nothing_changes(outside):
        for flags in (os.O_RDONLY, os.O_RDWR | os.O_CREAT | os.O_TRUNC, os.O_WRONLY | os.O_APPEND):
            with pytest.raises(UnsafePathError, match="is a symbolic link: 'in/link'"):
                strict.open("in/link", flags)
        strict.unlink("in/link")


def test_a_tree_is_removed_without_what_its_links_lead_to(strict: ConfinedFolder, top: Path, outside: Path) -> None:
    (top / "in/deep/link").symlink_to(outside)
    (top / "in/deep/file").symlink_to(outside / "secret")
    with nothing_changes(outside):
        strict.remove_tree("in")
    assert not (top / "in").exists()


def test_a_second_name_of_a_foreign_file_is_refused_and_not_emptied(
    strict: ConfinedFolder, lenient: ConfinedFolder, top: Path, outside: Path
) -> None:
    os.link(outside / "secret", top / "in/twin")
    with nothing_changes(outside):
        for flags in (os.O_RDONLY, os.O_RDWR | os.O_CREAT | os.O_TRUNC):
            with pytest.raises(UnsafePathError, match="second name"):
                strict.open("in/twin", flags)
        with pytest.raises(UnsafePathError, match="second name"):
            strict.write_bytes("in/twin", b"x")
        assert lenient.read_bytes("in/twin", bytes_max=99) == SECRET


def test_what_is_no_file_is_refused_at_once(strict: ConfinedFolder, lenient: ConfinedFolder, top: Path) -> None:
    os.mkfifo(top / "in/pipe")
    listening = socket.socket(socket.AF_UNIX)
    with chdir(top):  # the path of a socket must be short
        listening.bind("in/socket")
    began = time.monotonic()
    for name, kind in (("pipe", "a named pipe"), ("socket", "a socket"), ("deep", "a folder")):
        for folder in (strict, lenient):
            for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_CREAT):
                with pytest.raises(UnsafePathError, match=f"is {kind}: "):
                    folder.open(f"in/{name}", flags)
        with pytest.raises(UnsafePathError, match=f"is {kind}: "):
            strict.write_bytes(f"in/{name}", b"x")
    listening.close()
    assert time.monotonic() - began < 60  # opening a pipe would wait for ever


def test_a_link_to_a_device_is_refused(strict: ConfinedFolder, lenient: ConfinedFolder, top: Path) -> None:
    (top / "zero").symlink_to("/dev/zero")
    for folder in (strict, lenient):
        with pytest.raises(UnsafePathError):
            folder.read_bytes("zero", bytes_max=99)


def test_a_large_file_is_refused_before_it_is_read(strict: ConfinedFolder, top: Path) -> None:
    with (top / "in/huge").open("wb") as file:
        file.truncate(1 << 40)  # no memory could hold it
    with pytest.raises(UnsafePathError, match="the limit is 99"):
        strict.read_bytes("in/huge", bytes_max=99)


def test_a_file_in_the_place_of_a_folder_is_named(strict: ConfinedFolder) -> None:
    for act in (
        lambda: strict.open("in/file/x"),
        lambda: strict.write_bytes("in/file/x", b""),
        lambda: strict.make_folders("in/file"),
        lambda: strict.make_folders("in/file/x"),
    ):
        with pytest.raises(NotADirectoryError, match="is a file, not a folder: 'in/file'"):
            act()


# -- links of the user ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["in", "./in/deep/..", "in/../in/", "{top}/in"])
def test_a_link_that_stays_beneath_is_followed(lenient: ConfinedFolder, top: Path, target: str) -> None:
    (top / "link").symlink_to(target.format(top=top))
    (top / "again").symlink_to("link")
    assert lenient.read_bytes("link/file", bytes_max=9) == b"mine"
    assert lenient.read_bytes("again/file", bytes_max=9) == b"mine"
    (top / "direct").symlink_to("again/file")
    assert lenient.read_bytes("direct", bytes_max=9) == b"mine"
    lenient.write_bytes("again/new", b"x")
    assert (top / "in/new").read_bytes() == b"x"


@pytest.mark.parametrize(
    "target", ["../outside", "{outside}", "in/../../outside", "/proc/self/root{outside}", "{top}/../outside"]
)
def test_a_link_that_leads_out_is_not_followed(lenient: ConfinedFolder, top: Path, outside: Path, target: str) -> None:
    (top / "link").symlink_to(target.format(outside=outside, top=top))
    (top / "secret").symlink_to(f"{target.format(outside=outside, top=top)}/secret")
    with nothing_changes(outside):
        for act in (
            lambda: lenient.open("link/secret"),
            lambda: lenient.open("secret"),
            lambda: lenient.open("secret", os.O_WRONLY | os.O_TRUNC),
            lambda: lenient.write_bytes("link/new", b"x"),
            lambda: lenient.make_folders("link/new"),
        ):
            with pytest.raises(UnsafePathError, match="leads out of the folder"):
                act()


def test_links_in_a_circle_end(lenient: ConfinedFolder, top: Path) -> None:
    (top / "a").symlink_to("b")
    (top / "b").symlink_to("a")
    with pytest.raises(UnsafePathError) as raised:
        lenient.open("a/file")
    assert raised.value.errno == errno.ELOOP


def test_a_file_system_that_cannot_rename_without_replacing_makes_files_all_the_same(
    strict: ConfinedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confined_folder, "_rename_call", lambda: lambda *_: errno.EINVAL)
    assert strict.write_bytes("in/new", b"x", replace=False)
    assert not strict.write_bytes("in/new", b"y", replace=False)
    assert strict.stat("in/new").st_nlink == 1


EXCHANGER = """
import ctypes, sys
rename = ctypes.CDLL(None).renameat2
print("ready", flush=True)
while True:
    rename(-100, sys.argv[1].encode(), -100, sys.argv[2].encode(), 2)
"""
"""Exchanges two names without a pause, until it is killed."""
ROUNDS = int(os.environ.get("CTX_TEST_RACES", "800"))
EXCHANGED_S = 30
"""On a busy machine the other process may rest, with the link in the place of the folder, for all rounds."""


@pytest.mark.skipif(sys.platform != "linux", reason="exchanges names by renameat2")
@pytest.mark.parametrize("follow_links", [False, True])
def test_a_folder_exchanged_for_a_link_is_never_followed_out(top: Path, outside: Path, follow_links: bool) -> None:
    """Another process exchanges a folder for a link as fast as it can; nothing is read or written outside."""
    (outside / "file").write_bytes(SECRET)
    (top / "out").symlink_to(outside)
    folder = ConfinedFolder(top, follow_links=follow_links)
    seen: set[bytes] = set()
    command = [sys.executable, "-c", EXCHANGER, top / "in", top / "out"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout
            other.stdout.readline()
            until = time.monotonic() + EXCHANGED_S
            number = 0
            while number < ROUNDS or (not seen and time.monotonic() < until):
                number += 1
                with suppress(OSError):
                    seen.add(folder.read_bytes("in/file", bytes_max=99))
                with suppress(OSError):
                    folder.write_bytes(f"in/{number % 7}", b"mine")
        finally:
            other.kill()
    assert seen == {b"mine"}
    assert sorted(path.name for path in outside.iterdir()) == ["file", "secret"]
    assert (outside / "file").read_bytes() == SECRET
