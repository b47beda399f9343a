"""Checks whether the files that a memory links are unchanged, by the hash of the blob that git would store.

Line ends count as LF, so that a file is the same on every checkout. A file is only read again if its size or time
changed.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence

from context_engine.errors import ContextEngineError
from context_engine.memory.memory_file import LinkedFile
from context_engine.model import RelPath
from context_engine.repo import Root, read_file, size_and_mtime

WhyStale = Callable[[Sequence[LinkedFile]], str]
BYTES_MAX = 4_000_000
"""Of larger files and binary files only their existence is checked."""


class LinkedFiles:
    """The linked files of one workspace. Thread-safe."""

    def __init__(self, root: Root) -> None:
        """Read nothing until it is needed."""
        self._root = root
        self._top = str(root.path)
        self._lock = threading.Lock()
        self._known: dict[str, tuple[tuple[int, int], str]] = {}
        self._checked: dict[str, RelPath] = {}

    def hash_files(self, paths: Iterable[str]) -> tuple[LinkedFile, ...]:
        """Return files with their current hashes. Raises: InvalidPath, AccessDenied, FileNotFound."""
        checked = dict.fromkeys(self._root.rel(path) for path in paths)
        return tuple(LinkedFile(str(path), self._blob(path) or "") for path in checked)

    def start_check(self) -> WhyStale:
        """Return a function that reports which linked files changed, "" if none; each file is examined once."""
        seen: dict[LinkedFile, str] = {}

        def why_stale(links: Sequence[LinkedFile]) -> str:
            for link in links:
                if link not in seen:
                    seen[link] = self._find_problem(link)
            return "; ".join(filter(None, (seen[link] for link in links)))

        return why_stale

    def _find_problem(self, link: LinkedFile) -> str:
        try:
            blob = self._blob(self._rel(link.path))
        except ContextEngineError:  # gone, or a path that a person wrote and that may not be read
            blob = None
        if blob is None:
            return f"{link.path} is gone"
        if link.blob and blob and blob != link.blob:
            return f"{link.path} changed"
        return ""

    def _rel(self, path: str) -> RelPath:
        """Return a checked path. A person may have written it; reading checks it again."""
        if path not in self._checked:
            self._checked[path] = self._root.rel(path)
        return self._checked[path]

    def _blob(self, path: RelPath) -> str | None:
        """Return the hash of a file; "" if only its existence is known, None if it is gone."""
        stamp = size_and_mtime(f"{self._top}/{path}")
        if stamp is None:
            return None
        with self._lock:
            known = self._known.get(path)
        if known is None or known[0] != stamp:
            known = stamp, self._hash_content(path)
            with self._lock:
                self._known[path] = known
        return known[1]

    def _hash_content(self, path: RelPath) -> str:
        try:
            return git_blob_hash(read_file(self._root, path, bytes_max=BYTES_MAX).data)
        except ContextEngineError:
            return ""


def git_blob_hash(data: bytes) -> str:
    r"""Return the hash that git gives to a content with LF as line end.

    >>> git_blob_hash(b"hello\r\n") == git_blob_hash(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"
    True
    """
    plain = data.replace(b"\r\n", b"\n")
    return hashlib.sha1(b"blob %d\0" % len(plain) + plain, usedforsecurity=False).hexdigest()
