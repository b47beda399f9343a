"""Checks whether the files that a memory links are unchanged, by the hash of the blob that git would store.

If the memory mentions names of the file, only their definitions and the lines with them count. Line ends count as LF,
so that a file is the same on every checkout. A file is only read again if its size or time changed.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterable, Sequence

from context_engine.errors import ContextEngineError
from context_engine.memory.memory_file import LinkedFile
from context_engine.model import FileOutline, RelPath
from context_engine.repo import Root, read_file, size_and_mtime

ReadOutline = Callable[[str], FileOutline]
WhyStale = Callable[[Sequence[LinkedFile]], str]
BYTES_MAX = 4_000_000
"""Of larger files and binary files only their existence is checked."""
NAMES_MAX = 16
HASH_CHARS = 12
_MARKED = re.compile(r"`([^`\n]{1,200})`")
_NAME = re.compile(r"[A-Za-z_$][\w$]{2,79}")
_CODE_NAME = re.compile(r"\w_\w|[a-z][A-Z]|\$")
"""Names that are not words of prose: with an underscore or a capital inside."""


class LinkedFiles:
    """The linked files of one workspace. Thread-safe."""

    def __init__(self, root: Root, outline: ReadOutline) -> None:
        """Read nothing until it is needed."""
        self._root = root
        self._outline = outline
        self._top = str(root.path)
        self._lock = threading.Lock()
        self._known: dict[str, tuple[tuple[int, int], str]] = {}
        self._checked: dict[str, RelPath] = {}

    def hash_files(self, paths: Iterable[str], text: str) -> tuple[LinkedFile, ...]:
        """Return files with their current hashes, and those of the lines that the text of a memory speaks of.

        Raises: InvalidPath, AccessDenied, FileNotFound.
        """
        names = find_code_names(text)
        checked = dict.fromkeys(self._root.rel(path) for path in paths)
        return tuple(LinkedFile(str(path), self._blob(path) or "", self._hash_lines(path, names)) for path in checked)

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
        if not link.blob or not blob or blob == link.blob:
            return ""
        if not link.lines:
            return f"{link.path} changed"
        names = link.lines.partition("=")[0].split(",")
        if self._hash_lines(self._rel(link.path), names) == link.lines:
            return ""
        return f"{link.path} changed where it has {', '.join(names)}"

    def _hash_lines(self, path: RelPath, names: Sequence[str]) -> str:
        """Return the names that occur in a file, and a hash of their lines, without indents; "" if none occurs."""
        try:
            text = read_file(self._root, path, bytes_max=BYTES_MAX).text
        except ContextEngineError:
            return ""
        lines = text.split("\n")
        words = [frozenset(_NAME.findall(line)) for line in lines]
        present = sorted(frozenset(names) & frozenset().union(*words))[:NAMES_MAX]
        if not present:
            return ""
        counted = {number for number, found in enumerate(words, 1) if not found.isdisjoint(present)}
        counted.update(self._lines_of_definitions(path, present))
        stripped = (line.strip() for number, line in enumerate(lines, 1) if number in counted)
        digest = hashlib.sha256("\n".join(filter(None, stripped)).encode("utf-8", "replace")).hexdigest()
        return f"{','.join(present)}={digest[:HASH_CHARS]}"

    def _lines_of_definitions(self, path: RelPath, names: Sequence[str]) -> Iterable[int]:
        try:
            symbols = self._outline(path).symbols
        except ContextEngineError:
            return ()
        spans = [symbol.span for _, symbol in symbols if symbol.name in names]
        return (number for span in spans for number in range(span.first, span.last + 1))

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


def find_code_names(text: str) -> tuple[str, ...]:
    """Return the names of code that a text mentions: those in backticks, and those that are not words of prose.

    >>> find_code_names("Use `Order.total()`; amounts come from to_cents, never from floats.")
    ('Order', 'to_cents', 'total')
    """
    marked = {name for part in _MARKED.findall(text) for name in _NAME.findall(part)}
    return tuple(sorted(marked | {name for name in _NAME.findall(text) if _CODE_NAME.search(name)}))


def git_blob_hash(data: bytes) -> str:
    r"""Return the hash that git gives to a content with LF as line end.

    >>> git_blob_hash(b"hello\r\n") == git_blob_hash(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"
    True
    """
    plain = data.replace(b"\r\n", b"\n")
    return hashlib.sha1(b"blob %d\0" % len(plain) + plain, usedforsecurity=False).hexdigest()
