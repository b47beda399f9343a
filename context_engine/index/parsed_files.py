"""Files parsed on demand, each kept while its bytes stay the same."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from context_engine.languages import (
    Grammars,
    Languages,
    Outline,
    PathIndex,
    SyntaxFile,
    outline_file,
    read_syntax,
    resolve_import,
)
from context_engine.secrets import RedactedDocuments

PARSES_KEPT = 400
"""More than one step of a trace parses, so that the next step of the same session parses nothing twice."""
TREE_TEXT_BYTES_MAX = 24_000_000
"""Source text whose syntax trees are in memory; a tree takes about ten times the bytes of its text."""
Read = Callable[[str], bytes | None]


@dataclass(slots=True)
class ParsedFile:
    """A file as it is now: its detailed outline, its lines, its language."""

    outline: Outline
    lines: list[str]
    language: str
    qualified: list[str] = field(default_factory=list)


class ParsedFileCache:
    """Files parsed in detail on demand, each kept while its bytes stay the same. Thread-safe.

    `read` returns a file's current UTF-8 bytes, or None. The text is parsed without its secrets, so that no signature,
    comment or line shows one. It needs no index.
    """

    def __init__(
        self,
        languages: Languages,
        grammars: Grammars,
        read: Read,
        texts: RedactedDocuments | None = None,
    ) -> None:
        self.languages = languages
        self._grammars = grammars
        self._read = read
        self._texts = texts or RedactedDocuments()
        self._kept: dict[str, tuple[bytes, ParsedFile | None]] = {}
        self._question = threading.local()
        self._lock = threading.Lock()
        self._trees: dict[str, tuple[bytes, SyntaxFile | None]] = {}  # by path, the last used at the end
        self._tree_text_bytes = 0
        self._outlines: dict[str, tuple[int, tuple[Outline, list[str]]]] = {}  # by path, with the hash of the bytes

    def parse(self, path: str) -> ParsedFile | None:
        """Return a file's current detailed outline; None when it cannot be read, or its language is unknown."""
        content = self._load(path)
        if content is None:
            return None
        before = self._kept.get(path)
        if before is not None and before[0] == content:
            return before[1]
        parsed = self._parse(path, content)
        if len(self._kept) >= PARSES_KEPT:
            self._kept.clear()
        self._kept[path] = content, parsed
        return parsed

    def _parse(self, path: str, content: bytes) -> ParsedFile | None:
        language = self.languages.detect(path, content)
        if language is None or not content:
            return None
        shown = self._texts.of(content, path)
        text = shown.text
        found = outline_file(language, text.encode() if shown.has_secrets else content, self._grammars, details=True)
        lines = text.split("\n")
        return ParsedFile(found, lines, language.name, qualified_names(found.symbols))

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
        content = self.load(path)
        with self._lock:
            before = self._trees.pop(path, None)
            if before is not None:
                self._trees[path] = before
                if before[0] is content or before[0] == content:
                    return before[1]
        language = self.languages.detect(path, content)
        found = read_syntax(path, language, content, self._grammars) if language is not None else None
        with self._lock:
            before = self._trees.pop(path, None)
            self._tree_text_bytes += len(content) - (len(before[0]) if before is not None else 0)
            self._trees[path] = content, found
            while self._tree_text_bytes > TREE_TEXT_BYTES_MAX and len(self._trees) > 1:
                oldest = next(iter(self._trees))
                self._tree_text_bytes -= len(self._trees.pop(oldest)[0])
        return found

    def resolution_style(self, path: str) -> str:
        """Return the resolution style of a file without parsing it; empty if its language has none."""
        language = self.languages.detect(path, self.load(path))
        if language is not None:
            return language.resolution.style
        return ""

    def lines(self, path: str) -> list[str]:
        """Return a file's current lines without its secrets."""
        return self._texts.of(self.load(path), path).text.split("\n")

    def outline(self, path: str) -> tuple[Outline, list[str]]:
        """Return a file's current outline without details, and the qualified names of its symbols."""
        content = self.load(path)
        key, before = hash(content), self._outlines.get(path)
        if before is not None and before[0] == key:
            return before[1]
        language = self.languages.detect(path, content)
        if language is not None:
            outline = outline_file(language, content, self._grammars)
        else:
            outline = Outline()
        found = outline, qualified_names(outline.symbols)
        if len(self._outlines) >= 10 * PARSES_KEPT:
            self._outlines.clear()
        self._outlines[path] = key, found
        return found

    def imports(self, path: str, paths: PathIndex) -> list[tuple[str, int, list[str]]]:
        """Return (target as written, line, resolved files) of each import; no files: outside this project."""
        parsed = self.parse(path)
        if parsed is None:
            return []
        language = self.languages.get(parsed.language)
        if language is None:
            return []
        rows = []
        for imported in parsed.outline.imports:
            files = resolve_import(language, path, imported.target, paths, imported.names)
            rows.append((imported.target, imported.line, [one for one in files if one != path]))
        return rows


def qualified_names(symbols) -> list[str]:
    """Return `Outer.inner` for each symbol of an outline."""
    names: list[str] = []
    for symbol in symbols:
        if symbol.parent >= 0:
            above = names[symbol.parent]
        else:
            above = symbol.owner
        names.append(f"{above}.{symbol.name}" if above else symbol.name)
    return names
