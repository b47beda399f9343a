"""What this machine has seen of a team's records: the revision, and each file as it was when both sides agreed.

    commons-<kind>-<mark>.seen      in the cache of the workspace; without it every file is compared again

It is read and replaced as a whole under a lock that counts for all processes of this machine. A killed owner releases
it, and what it had not finished was never noted.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from filelock import Timeout

from context_engine.errors import StorageBusy
from context_engine.storage import (
    FileStamp,
    lock_private,
    make_private_folder,
    prepare_type,
    replace_private,
    translate_os_errors,
)


class MergeBase(NamedTuple):
    """A file as it was when both sides agreed: the hash of its content, and a stamp that changes with it."""

    sha: str
    stamp: FileStamp


class _SyncSnapshot(msgspec.Struct, array_like=True):
    """The content of the file."""

    revision: int = 0
    files: dict[str, MergeBase] = {}


class SyncState:
    """What was seen of one kind of records. Thread-safe; several processes may use one file."""

    def __init__(self, path: Path) -> None:
        """Nothing is created until it is needed."""
        self._path = path
        self._seen = _SyncSnapshot()

    @contextmanager
    def lock(self, wait_s: float) -> Generator[None]:
        """Lock it until the block ends; the changes of the block are stored together, or not at all.

        Raises: StorageBusy, WriteFailed, DiskFull.
        """
        with translate_os_errors(self._path):
            make_private_folder(self._path.parent)
            lock = lock_private(f"{self._path}.lock", timeout=wait_s)  # each object of it excludes all others
            try:
                lock.acquire()
            except Timeout:
                raise StorageBusy(
                    "another process of this machine is writing the records of the team right now",
                    suggestion="Call again in a moment; nothing was written.",
                ) from None
        try:
            self._seen, stored = self._read()
            yield
            if (content := msgspec.msgpack.encode(self._seen)) != stored:
                self._write(content)
        finally:
            lock.release()

    # -- with the lock --

    @property
    def revision(self) -> int:
        """The revision up to which everything was seen."""
        return self._seen.revision

    def files(self) -> dict[str, MergeBase]:
        """Return every file that both sides agreed on."""
        return dict(self._seen.files)

    def note(self, path: str, file: MergeBase | None) -> None:
        """Note that both sides have the same content in a file; None: that neither side has the file."""
        self._seen.files.pop(path, None)
        if file is not None:
            self._seen.files[path] = file

    def advance(self, revision: int) -> None:
        """Note that everything up to a revision was seen."""
        self._seen.revision = revision

    def reset(self) -> None:
        """Forget everything, because the database is another one."""
        self._seen = _SyncSnapshot(files={})

    # -- the file --

    def _read(self) -> tuple[_SyncSnapshot, bytes]:
        """Return what was seen, and the bytes that say so; nothing where there is no file, or a damaged one."""
        with translate_os_errors(self._path), suppress(FileNotFoundError, msgspec.DecodeError):
            content = self._path.read_bytes()
            return msgspec.msgpack.decode(content, type=prepare_type(_SyncSnapshot)), content
        return _SyncSnapshot(files={}), b""

    def _write(self, content: bytes) -> None:
        with translate_os_errors(self._path):
            replace_private(self._path, content)
