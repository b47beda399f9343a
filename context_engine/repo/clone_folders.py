"""Where clones of other people's repositories lie: a folder each in the user's cache, whole or not there at all.

A clone is made beside its place and renamed onto it, so that a death in between leaves nothing that looks like one. It
is a cache: deleting it costs the time to fetch it again. Nobody edits there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from context_engine.errors import StorageBusy
from context_engine.repo.repository_registry import name_for

FOLDER = "clones"


class Clones:
    """The clones in one cache."""

    def __init__(self, cache: Path) -> None:
        """Nothing is made until it is needed."""
        self.folder = cache / FOLDER

    def place(self, address: str, branch: str = "") -> Path:
        """Where the clone of an address lies, or would; each branch has its own."""
        digest = hashlib.blake2b(f"{address}\0{branch}".encode(), digest_size=6).hexdigest()
        return self.folder / f"{name_for(address)}-{digest}"

    def make(self, place: Path, fill: Callable[[Path], None]) -> None:
        """Have `fill` make a clone in a folder that does not exist yet, then put it in its place.

        Raises: StorageBusy while another process works on it, and whatever `fill` raises; then nothing stays.
        """
        with self.lock(place):
            part = place.with_name(f"{place.name}.part")
            _delete(part)  # what a death has left
            try:
                fill(part)
                os.replace(part, place)
            finally:
                _delete(part)

    @contextmanager
    def lock(self, place: Path) -> Generator[None]:
        """Be the only one who works on a clone. Raises: StorageBusy."""
        from filelock import FileLock, Timeout

        self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(f"{place}.lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise StorageBusy(
                f"another process is fetching {place.name}", suggestion="wait until it is done, then call again"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def drop(self, place: Path) -> None:
        """Delete a clone; a folder elsewhere is never touched. Raises: StorageBusy."""
        if place.parent == self.folder:
            with self.lock(place):
                _delete(place)


def is_clone(root: Path, cache: Path) -> bool:
    """Whether a workspace is a clone of ours, where nothing is to be written.

    >>> is_clone(Path("/c/clones/web-1"), Path("/c")), is_clone(Path("/src/web"), Path("/c"))
    (True, False)
    """
    return root.is_relative_to(cache / FOLDER)


def _delete(folder: Path) -> None:
    """Delete a folder; git makes its objects read-only, which on Windows keeps them from being deleted."""

    def open_up(remove: Callable[[str], object], path: str, _: object) -> None:
        with suppress(OSError):
            os.chmod(path, stat.S_IWRITE)
            remove(path)

    shutil.rmtree(folder, onerror=open_up) if folder.exists() else None
