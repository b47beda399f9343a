"""The symbol graph of a snapshot: where names are defined, where they are used, which file imports which.

Only names and imports are stored. The postings narrow a use down to a few files, and those are parsed at the query, so
an answer shows the current code. A file that cannot be read is not an error: a note mentions it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np

from context_engine.index.changed_files import is_under
from context_engine.index.segment import term_hashes
from context_engine.index.snapshot import Snapshot
from context_engine.index.stored_outline import StoredOutline, decode_outline
from context_engine.languages import Grammars, Languages, Outline, PathIndex, outline_file, resolve_import
from context_engine.secrets import RedactedDocuments
from context_engine.text import LineSpan, compound_term, expand_words, split_words

FILES_PARSED_MAX = 300
"""Files parsed for one step of a trace; a name that occurs in more is too common to follow."""

PARSES_KEPT = 400
"""More than one step of a trace parses, so that the next step of the same session parses nothing twice."""

Read = Callable[[str], bytes | None]


@dataclass(frozen=True, slots=True)
class SymbolDefinition:
    """A definition in a file's outline."""

    path: str
    language: str
    name: str
    qualified: str
    kind: str
    span: LineSpan
    line: int


@dataclass(frozen=True, slots=True)
class SymbolUse:
    """`source` (a qualified name, or "" for the top of the file) uses `target` at path:line."""

    source: str
    target: str
    path: str
    line: int
    kind: str
    span: LineSpan


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
        self, languages: Languages, grammars: Grammars, read: Read, texts: RedactedDocuments | None = None
    ) -> None:
        self.languages = languages
        self._grammars = grammars
        self._read = read
        self._texts = texts or RedactedDocuments()
        self._kept: dict[str, tuple[bytes, ParsedFile | None]] = {}

    def parse(self, path: str) -> ParsedFile | None:
        """Return a file's current detailed outline; None when it cannot be read, or its language is unknown."""
        content = self._read(path)
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

    def imports(self, path: str, paths: PathIndex) -> list[tuple[str, int, list[str]]]:
        """Return (target as written, line, resolved files) of each import; no files: outside this project."""
        parsed = self.parse(path)
        language = self.languages.get(parsed.language) if parsed else None
        if parsed is None or language is None:
            return []
        rows = []
        for imported in parsed.outline.imports:
            files = resolve_import(language, path, imported.target, paths, imported.names)
            rows.append((imported.target, imported.line, [one for one in files if one != path]))
        return rows


class SymbolGraph:
    """Queries about one snapshot; the current content of a file comes from its parse."""

    def __init__(self, snapshot: Snapshot, parses: ParsedFileCache) -> None:
        self._snapshot = snapshot
        self._parses = parses
        self._paths: PathIndex | None = None
        self._names: list[str] | None = None

    # -- definitions --

    def definitions(self, pattern: str, *, kind: str | None = None, under: str = "") -> list[SymbolDefinition]:
        """Return the definitions of a name: exact, qualified (`Class.method`, `mod::f`), or a glob (`get_*`).

        Ordered: exact case first, then shallower, then by path and line.
        """
        owner, _, name = pattern.replace("::", ".").replace("#", ".").strip(".").rpartition(".")
        name = name.removesuffix("()")
        found = [
            defined
            for file in self._files_defining(name)
            if is_under(self._snapshot.paths[file], under)
            for defined in self._definitions_in(file)
            if _name_fits(defined.name, name) and (not owner or _owner_fits(defined.qualified, owner))
        ]
        if kind:
            found = [defined for defined in found if defined.kind == kind]
        found.sort(key=lambda d: (d.name != name, d.qualified.count("."), d.path, d.span))
        return found

    def near_names(self, name: str, count: int = 5) -> list[str]:
        """Return defined names similar to this one."""
        wanted = compound_term(name.rpartition(".")[2])
        known = self._all_names()
        near = difflib.get_close_matches(wanted, known, n=count, cutoff=0.6) if len(known) < 50_000 else []
        near += [one for one in known if wanted and wanted in one and one not in near][: count - len(near)]
        spelled = []
        for one in near[:count]:
            for file in self._files_defining(one)[:1]:
                spelled += [d.name for d in self._definitions_in(file) if compound_term(d.name) == one][:1]
        return spelled

    def _files_defining(self, name: str) -> list[int]:
        folded = compound_term(name)
        if any(mark in name for mark in "*?["):
            pattern = name.replace("_", "").lower()
            names = [one for one in self._all_names() if fnmatchcase(one, pattern)]
        else:
            names = [folded]
        chunks = self._snapshot.matches("symbol", term_hashes(names)).docs
        return np.unique(self._snapshot.chunk_file[chunks]).tolist()

    def _all_names(self) -> list[str]:
        if self._names is None:
            self._names = self._snapshot.names("symbol")
        return self._names

    def stored_outline(self, file: int) -> StoredOutline:
        """Return a file's outline as it was indexed."""
        return decode_outline(self._snapshot.heap("outline", file))

    def _definitions_in(self, file: int) -> Iterator[SymbolDefinition]:
        path = self._snapshot.paths[file]
        language = self._snapshot.languages[int(self._snapshot.file_column("language")[file])]
        symbols = self.stored_outline(file).symbols
        qualified = qualified_names(symbols)
        for symbol, full in zip(symbols, qualified, strict=True):
            if symbol.kind != "section":
                yield SymbolDefinition(
                    path, language, symbol.name, full, symbol.kind, LineSpan(symbol.first, symbol.last), symbol.line
                )

    # -- uses --

    def parse(self, path: str) -> ParsedFile | None:
        """Return a file's current detailed outline; None when it cannot be read."""
        return self._parses.parse(path)

    def callers(self, name: str) -> tuple[list[SymbolUse], bool]:
        """Return the uses of a name, and whether too many files contain it, so that only the first were parsed."""
        files = self._files_using(name)
        uses = [
            use
            for file in files[:FILES_PARSED_MAX]
            for use in self.uses_in(self._snapshot.paths[file])
            if use.target == name
        ]
        return uses, len(files) > FILES_PARSED_MAX

    def callees(self, defined: SymbolDefinition) -> list[SymbolUse]:
        """Return the names that a definition uses."""
        return [use for use in self.uses_in(defined.path) if defined.span.first <= use.line <= defined.span.last]

    def uses_in(self, path: str) -> list[SymbolUse]:
        """Return every call and type use in a file."""
        parsed = self.parse(path)
        if parsed is None:
            return []
        uses = []
        for reference in parsed.outline.references:
            inside = reference.symbol >= 0
            source = parsed.qualified[reference.symbol] if inside else ""
            symbol = parsed.outline.symbols[reference.symbol] if inside else None
            span = LineSpan(symbol.first, symbol.last) if symbol else LineSpan(1, max(1, len(parsed.lines)))
            uses.append(SymbolUse(source, reference.name, path, reference.line, reference.kind, span))
        return uses

    def _files_using(self, name: str) -> list[int]:
        """Return files whose words can spell the name, from the postings."""
        terms = expand_words([name])[0][-1:] or [compound_term(name)]
        chunks = self._snapshot.matches("body", term_hashes(terms)).docs
        return np.unique(self._snapshot.chunk_file[chunks]).tolist()

    # -- imports --

    def imports(self, path: str) -> list[tuple[str, int, list[str]]]:
        """Return the imports as `ParsedFileCache.imports`, for a file of the snapshot."""
        return self._parses.imports(path, self.paths) if path in self._snapshot.by_path else []

    def importers(self, path: str) -> list[tuple[str, str, int]]:
        """Return (file, target as written, line) of each import of this file."""
        found = []
        for other in self._may_import(path):
            if other != path:
                found += [(other, target, line) for target, line, files in self.imports(other) if path in files]
        return found

    def importers_as_indexed(self, path: str) -> list[str]:
        """Return the files whose stored imports mean this file.

        Nothing is parsed, so this takes milliseconds where `importers` takes seconds, but it does not resolve
        `from package import`.
        """
        return [other for other in self._may_import(path) if other != path and path in self._imported_files(other)]

    def _imported_files(self, path: str) -> set[str]:
        """Return the files that a file's stored imports mean."""
        file = self._snapshot.by_path[path]
        name = self._snapshot.languages[int(self._snapshot.file_column("language")[file])]
        language = self._parses.languages.get(name)
        if language is None:
            return set()
        targets = {target for target, _ in self.stored_outline(file).imports}
        return {meant for target in targets for meant in resolve_import(language, path, target, self.paths)}

    def _may_import(self, path: str) -> Iterable[str]:
        """Return files that contain the file's name, or its folder's for a package's main file."""
        parts = path.split("/")
        stem = parts[-1].partition(".")[0]
        names = {stem}
        if stem in ("__init__", "index", "mod", "lib", "main", "init") and len(parts) > 1:
            names = {parts[-2]}
        if path.endswith(".go") and len(parts) > 1:
            names.add(parts[-2])
        terms = [term for word in split_words(" ".join(names)) for term in expand_words([word])[0][-1:]]
        chunks = self._snapshot.matches("body", term_hashes(terms)).docs
        return [self._snapshot.paths[file] for file in np.unique(self._snapshot.chunk_file[chunks]).tolist()]

    @property
    def paths(self) -> PathIndex:
        """All living files, for resolving imports."""
        if self._paths is None:
            self._paths = PathIndex(self._snapshot.by_path)
        return self._paths


def qualified_names(symbols) -> list[str]:
    """Return `Outer.inner` for each symbol of an outline."""
    names: list[str] = []
    for symbol in symbols:
        above = names[symbol.parent] if symbol.parent >= 0 else symbol.owner
        names.append(f"{above}.{symbol.name}" if above else symbol.name)
    return names


def _name_fits(name: str, pattern: str) -> bool:
    if any(mark in pattern for mark in "*?["):
        return fnmatchcase(name, pattern) or fnmatchcase(name.lower(), pattern.lower())
    return name == pattern or compound_term(name) == compound_term(pattern)


def _owner_fits(qualified: str, owner: str) -> bool:
    above = qualified.rpartition(".")[0]
    return f".{above}".lower().endswith(f".{owner}".lower())
