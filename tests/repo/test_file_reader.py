"""Files: read once and never waited for, decoded without fail."""

from __future__ import annotations

import codecs
import hashlib
import os
import socket
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import AccessFailed, BinaryFile, FileNotFound, InvalidPath, TooLarge
from context_engine.model import Skipped
from context_engine.repo.file_reader import (
    LoadedFile,
    decode,
    load_for_index,
    read_file,
    size_and_mtime,
    why_minified,
)
from context_engine.repo.paths import Root, path_of_listing
from context_engine.storage.confined_folder import ConfinedFolder
from tests.support.trees import tree

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
POSIX = pytest.mark.skipif(os.name != "posix", reason="only here there are such files")
MB = 1_000_000


def load(path: Path, bytes_max: int = MB) -> LoadedFile | Skipped:
    return load_for_index(ConfinedFolder(path.parent), path.name, bytes_max=bytes_max)


def reason(path: Path, bytes_max: int = MB) -> str:
    """Why a file is not loaded."""
    found = load(path, bytes_max)
    assert isinstance(found, Skipped)
    assert found.path == path.name
    return found.reason


def source(path: Path, bytes_max: int = MB) -> LoadedFile:
    return read_file(Root(path.parent), path_of_listing(path.name), bytes_max=bytes_max)


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


# -- encodings --------------------------------------------------------------------------------------------------------

PHRASE = "Größe: ‘naïve’ – 漢字\r\n"
TEXTS = [
    (b"plain\n", "plain\n", "utf-8", False),
    (b"", "", "utf-8", False),
    (PHRASE.encode(), PHRASE, "utf-8", False),
    (codecs.BOM_UTF8 + PHRASE.encode(), PHRASE, "utf-8", True),
    (codecs.BOM_UTF8, "", "utf-8", True),
    (codecs.BOM_UTF16_LE + PHRASE.encode("utf-16-le"), PHRASE, "utf-16-le", True),
    (codecs.BOM_UTF16_BE + PHRASE.encode("utf-16-be"), PHRASE, "utf-16-be", True),
    (codecs.BOM_UTF32_LE + PHRASE.encode("utf-32-le"), PHRASE, "utf-32-le", True),
    (codecs.BOM_UTF32_BE + PHRASE.encode("utf-32-be"), PHRASE, "utf-32-be", True),
    ("Größe\n".encode("latin-1"), "Größe\n", "latin-1", False),
    ("‘naïve’ – 5 €\n".encode("cp1252"), "‘naïve’ – 5 €\n", "cp1252", False),
    (b"caf\xe9 \x81\n", "caf\xe9 \x81\n", "latin-1", False),  # Windows-1252 has no 0x81
]


@pytest.mark.parametrize(("raw", "text", "encoding", "has_bom"), TEXTS)
def test_each_encoding_is_recognised_and_kept_and_the_index_gets_utf8_without_a_mark(
    tmp_path: Path, raw: bytes, text: str, encoding: str, has_bom: bool
) -> None:
    assert (*decode(raw)[:2], bool(decode(raw).bom), decode(raw).lossy) == (text, encoding, has_bom, False)
    assert decode(raw).bom + text.encode(encoding) == raw
    path = written(tmp_path / "a.txt", raw)
    found = load(path)
    assert found == source(path)
    assert isinstance(found, LoadedFile)
    assert (found.text, found.data, found.encoding) == (text, text.encode(), decode(raw).label)
    assert found.sha256 == hashlib.sha256(raw).digest()
    assert (found.size, found.mtime_ns) == size_and_mtime(str(path)) == (len(raw), path.stat().st_mtime_ns)


@given(st.binary(max_size=200))
def test_decoding_never_fails_and_gives_the_bytes_back_unless_it_says_lossy(raw: bytes) -> None:
    text, encoding, bom, lossy = decode(raw)
    assert raw.startswith(bom)
    assert lossy or bom + text.encode(encoding) == raw
    text.encode("utf-8")  # whatever was read can be sent on


# -- what is no text --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        *(
            b"a\0b",
            b"\0",
            b"x" * 8_000 + b"\0",
            b"%PDF-1.7\n1 0 obj",
            b"PK\x03\x04rest",
            b"\x1f\x8b\x08rest",
            b"GIF89a",
        ),
        *(b"\x89PNG\r\n", b"\x7fELFx", b"\xff\xd8\xff\xe0JFIF", b"!<arch>\nx", b"BZh91AY&SY", b"\xfd7zXZ", b"OggS"),
        *(bytes(code for code in range(1, 256)) * 3, codecs.BOM_UTF16_LE + b"\0\0" * 40 + b"ab"),
    ],
)
def test_what_holds_no_text_is_known_by_its_bytes(tmp_path: Path, raw: bytes) -> None:
    path = written(tmp_path / "file.txt", raw)
    assert reason(path) == "binary"
    with pytest.raises(BinaryFile) as caught:
        source(path)
    assert caught.value.suggestion


def test_minified_code_is_skipped_and_long_prose_is_not(tmp_path: Path) -> None:
    code = b"function a(b,c){return b+c};" * 800
    prose = b"A paragraph that somebody wrote without ever breaking the line, as people do in Markdown. " * 300
    assert reason(written(tmp_path / "app.min.js", code)) == "minified"
    assert isinstance(load(written(tmp_path / "notes.md", prose)), LoadedFile)
    assert why_minified(code[:9_999]) is None, "a short line of code is no bundle"
    assert "on 1 line" in (why_minified(code) or "")


# -- trouble -----------------------------------------------------------------------------------------------------------


def test_a_file_that_is_gone_is_data_for_the_index_and_an_error_for_a_caller(tmp_path: Path) -> None:
    path = written(tmp_path / "a.py", b"1")
    rel = Root(tmp_path).rel("a.py")
    path.unlink()
    assert reason(path) == reason(tmp_path / "no" / "folder.py") == "vanished"
    assert size_and_mtime(str(path)) is None
    with pytest.raises(FileNotFound):
        read_file(Root(tmp_path), rel, bytes_max=MB)


def test_two_gigabytes_are_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge.txt"
    with path.open("wb") as file:
        file.truncate(2_000_000_000)
    began = time.thread_time()
    assert reason(path) == "too_large"
    with pytest.raises(TooLarge) as caught:
        source(path)
    assert time.thread_time() - began < 0.5
    assert "2,000,000,000 bytes; the limit is 1,000,000" in caught.value.message
    assert "first and the last line" in caught.value.suggestion


@POSIX
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux has a file that is larger than it says")
def test_a_file_larger_than_it_said_is_read_to_its_end_or_its_limit() -> None:
    path = Path("/proc/self/status")  # says 0 bytes and holds about 1,500
    found = load(path)
    assert isinstance(found, LoadedFile)
    assert found.text.startswith("Name:")
    assert reason(path, bytes_max=100) == "too_large"


@POSIX
def test_pipes_sockets_devices_and_folders_are_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    here = Path.cwd()
    os.chdir(tmp_path)  # the path of a socket may have 107 characters only
    try:
        with socket.socket(socket.AF_UNIX) as plug:
            plug.bind("plug")
    finally:
        os.chdir(here)
    began = time.thread_time()
    for path in (tmp_path / "pipe", tmp_path / "plug", tmp_path, Path("/dev/zero"), Path("/dev/tty0")):
        assert reason(path) in {"special", "unreadable", "vanished"}
        if path != tmp_path:
            with pytest.raises((InvalidPath, FileNotFound, AccessFailed)):
                source(path)
    assert time.thread_time() - began < 0.5


@POSIX
def test_a_file_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    tree(tmp_path, {"root/src/a.py": "1", "out/a.py": "secret"})
    root = Root(tmp_path / "root")
    checked = root.rel("src/a.py")
    (root.path / checked).unlink()
    (root.path / checked).symlink_to(tmp_path / "out" / "a.py")
    assert reason(root.path / checked) == "special"
    with pytest.raises(InvalidPath):
        read_file(root, checked, bytes_max=MB)


@POSIX
@pytest.mark.skipif(IS_ROOT, reason="nothing is closed to the superuser")
def test_a_closed_file_says_who_can_mend_it(tmp_path: Path) -> None:
    path = written(tmp_path / "a.py", b"1")
    path.chmod(0)
    assert reason(path) == "unreadable"
    with pytest.raises(AccessFailed):
        source(path)
