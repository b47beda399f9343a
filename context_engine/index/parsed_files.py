"""Files parsed on demand, each kept while its bytes stay the same."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Generic, TypeVar

from context_engine.languages import (
    Grammars,
    Languages,
    Outline,
    PathIndex,
    SymbolReference,
    SyntaxFile,
    find_references,
    outline_file,
    read_syntax,
    resolve_import,
)
from context_engine.secrets import RedactedDocuments

TEXT_BYTES_MAX = 24_000_000
"""Source text whose outlines, or syntax trees, are in memory; a tree takes about ten times the bytes of its text."""
Read = Callable[[str], bytes | None]
Value = TypeVar("Value")


class _ContentCache(Generic[Value]):
    """Values made of the bytes of files, as long as these stay the same and the last used ones fit. Thread-safe."""

    def __init__(self, make: Callable[[str, bytes], Value]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[bytes, Value]] = {}  # by path, the last used at the end
        self._bytes = 0

    def get(self, path: str, content: bytes) -> Value:
        with self._lock:
            known = self._kept.pop(path, None)
            if known is not None:
                self._kept[path] = known
                if known[0] is content or known[0] == content:
                    return known[1]
        value = self._make(path, content)
        with self._lock:
            before = self._kept.pop(path, None)
            self._bytes += len(content) - (len(before[0]) if before is not None else 0)
            self._kept[path] = content, value
            while self._bytes > TEXT_BYTES_MAX and len(self._kept) > 1:
                oldest = next(iter(self._kept))
                self._bytes -= len(self._kept.pop(oldest)[0])
        return value


class ParsedFileCache:
    """Files parsed in detail on demand, each kept while its bytes stay the same. Thread-safe.

    `read` returns a file's current UTF-8 bytes, or None. The text is parsed without its secrets, so that no signature,
    comment or line shows one. It needs no index.
    """

    def __init__(
        self, languages: Languages, grammars: Grammars, read: Read, texts: RedactedDocuments | None = None
    ) -> None:
        self.languages = languages
        self._grammars = grammars
        self._read = read
        self._texts = texts or RedactedDocuments()
        self._question = threading.local()
        self._outlines = _ContentCache(self._outline)
        self._detailed = _ContentCache(self._outline_in_detail)
        self._references = _ContentCache(self._find_references)
        self._trees = _ContentCache(self._read_syntax)

    def load(self, path: str) -> bytes:
        """Return the current bytes of a file; none if it cannot be read."""
        return self._load(path) or b""

    def _load(self, path: str) -> bytes | None:
        held: dict[str, bytes | None] | None = getattr(self._question, "held", None)
        if held is None:
            return self._read(path)
        if path not in held:
            held[path] = self._read(path)
        return held[path]

    @contextmanager
    def question(self) -> Generator[None]:
        """Read each file once in this block, as far as this thread does it."""
        self._question.held = {}
        try:
            yield
        finally:
            self._question.held = None

    def syntax(self, path: str) -> SyntaxFile | None:
        """Return a file's current tree, for resolving names; None if its language has no rules for that."""
        return self._trees.get(path, self.load(path))

    def _read_syntax(self, path: str, content: bytes) -> SyntaxFile | None:
        language = self.languages.detect(path, content)
        return read_syntax(path, language, content, self._grammars) if language is not None else None

    def resolution_style(self, path: str) -> str:
        """Return the resolution style of a file without parsing it; empty if its language has none."""
        language = self.languages.detect(path, self.load(path))
        return language.resolution.style if language is not None else ""

    def lines(self, path: str) -> list[str]:
        """Return a file's current lines without its secrets."""
        return self._texts.of(self.load(path), path).text.split("\n")

    def outline(self, path: str, *, details: bool = False) -> tuple[Outline, list[str]]:
        """Return a file's current outline, and the qualified names of its symbols."""
        return (self._detailed if details else self._outlines).get(path, self.load(path))

    def _outline(self, path: str, content: bytes, *, details: bool = False) -> tuple[Outline, list[str]]:
        language = self.languages.detect(path, content)
        outline = outline_file(language, content, self._grammars, details=details) if language else Outline()
        return outline, qualified_names(outline.symbols)

    def _outline_in_detail(self, path: str, content: bytes) -> tuple[Outline, list[str]]:
        shown = self._texts.of(content, path)
        return self._outline(path, shown.text.encode() if shown.has_secrets else content, details=True)

    def references(self, path: str) -> list[SymbolReference]:
        """Return the uses of names in a file, in its order."""
        return self._references.get(path, self.load(path))

    def _find_references(self, path: str, content: bytes) -> list[SymbolReference]:
        language = self.languages.detect(path, content)
        return find_references(language, content, self.outline(path)[0].symbols, self._grammars) if language else []

    def imports(self, path: str, paths: PathIndex) -> list[tuple[str, int, list[str]]]:
        """Return (target as written, line, resolved files) of each import; no files: outside this project."""
        language = self.languages.detect(path, self.load(path))
        if language is None:
            return []
        rows = []
        for imported in self.outline(path, details=True)[0].imports:
            files = resolve_import(language, path, imported.target, paths, imported.names)
            rows.append((imported.target, imported.line, [one for one in files if one != path]))
        return rows


def qualified_names(symbols) -> list[str]:
    """Return `Outer.inner` for each symbol of an outline."""
    names: list[str] = []
    for symbol in symbols:
        above = names[symbol.parent] if symbol.parent >= 0 else ""
        names.append(".".join(filter(None, (above, symbol.owner, symbol.name))))
    return names
