"""Turn ranked chunks into hits: texts are read from the current files; hits of changed files are marked stale."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from xxhash import xxh3_64_hexdigest

from context_engine.index import StoredSymbol, qualified_names, symbol_chain
from context_engine.model import CHUNK_KINDS, Chunk, ChunkKind, Hit
from context_engine.repo import ReadFile, WorkspaceFile, path_of_listing
from context_engine.search.rankers import RankingView
from context_engine.search.searcher import CODE_KIND, Place
from context_engine.text import LineSpan

HEAD_CHUNKS = 2
"""A package is named in the first chunk, or below a license."""
OUTLINE_LINES_MAX = 200
"""Symbols listed in a file's `symbols` chunk."""
_BLOCK_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_COMMENTS_ASKED = re.compile(
    r"\b\w*doc(?:s|strings?|umentation)?\b|\bcomments?\b|\btypos?\b|\bspelling\b", re.IGNORECASE
)
_COMMENT_LINE = re.compile(r"\s*(?:#|//|\*|@|\[|--|;;|%|$)")


class HitReader:
    """Makes hits of one ranking; each file is read once."""

    def __init__(self, view: RankingView, read: ReadFile) -> None:
        self._view = view
        self._snapshot = view.snapshot
        self._read = read
        self._sources: dict[int, WorkspaceFile | None] = {}
        columns = ("first", "last", "start", "stop", "kind", "symbol")
        self._columns = [view.snapshot.chunk_column(name) for name in columns]

    def hits(self, places: Sequence[Place]) -> list[Hit]:
        """Return a hit for each place whose file still exists."""
        hits = []
        for place in places:
            source = self._source(place.file)
            if source is not None:
                first, last, start, stop, kind, symbol = self._row(place.chunk)
                text = source.shown.part(start, stop).rstrip("\r\n")
                symbols = self._view.outline(place.file).symbols
                title = symbol_chain(symbols, symbol) if symbol >= 0 else ""  # or the breadcrumb of headings
                lines = text.split("\n")
                definitions = [
                    (LineSpan(_find_head(symbol.first, first, lines), symbol.last), symbol_chain(symbols, number))
                    for number, symbol in enumerate(symbols)
                    if symbol.first <= last and symbol.last >= first
                ]
                chunk = self._chunk(place, CHUNK_KINDS[kind], LineSpan(first, last), title, text, *definitions)
                hits.append(self._hit(place, source, chunk))
        return hits

    def skip_comments(self, places: Sequence[Place]) -> list[Place]:
        """Return the places with the definition below in place of a chunk that is only its comment.

        A long comment and its definition are chunks of their own, and a reader wants the code, unless the query names a
        line of the comment.
        """
        moved: dict[int, Place] = {}
        for place in places:
            chunk = place.chunk if place.is_named else self._definition_below(place)
            moved.setdefault(chunk, place if chunk == place.chunk else replace(place, chunk=chunk))
        return list(moved.values())

    def outlines(self, places: Sequence[Place], factor: float) -> list[Hit]:
        """Return the `symbols` chunk of the file of each place instead of the place itself."""
        hits = []
        for place in places:
            chunk, source = self._symbols_chunk(place), self._source(place.file)
            if chunk is not None and source is not None:
                why = {name: value * factor for name, value in place.why.items()}
                hits.append(self._hit(Place(place.chunk, place.file, place.score * factor, why), source, chunk))
        return hits

    def _definition_below(self, place: Place) -> int:
        """Return the chunk that a comment is about: the first one below it that is not a comment, without a gap."""
        source, symbols = self._source(place.file), self._view.outline(place.file).symbols
        kinds = self._columns[4]
        chunk, end_of_file = place.chunk, self._view.chunk_starts[place.file + 1]
        while source and chunk < end_of_file and kinds[chunk] == kinds[place.chunk] == CODE_KIND:
            first, _, start, stop, _, symbol = self._row(chunk)
            if symbol >= 0 and symbols[symbol].first >= first:
                return chunk
            text = source.shown.part(start, stop)
            if not is_comment(text):
                return chunk
            if text.endswith("\n\n"):  # a license header is about no definition
                break
            chunk += 1
        return place.chunk

    def _row(self, chunk: int) -> list[int]:
        return [column.item(chunk) for column in self._columns]

    def _hit(self, place: Place, source: WorkspaceFile, chunk: Chunk) -> Hit:
        size, mtime_ns = (self._snapshot.file_column(name).item(place.file) for name in ("size", "mtime_ns"))
        is_stale = source.size != size or source.mtime_ns != mtime_ns
        repository = self._snapshot.repository(place.file)
        return Hit(chunk, place.score, place.why, is_stale, repository, place.chance, place.is_named)

    def _chunk(
        self, place: Place, kind: ChunkKind, span: LineSpan, title: str, text: str, *definitions: tuple[LineSpan, str]
    ) -> Chunk:
        snapshot = self._snapshot
        path = snapshot.key(place.file)
        tags = self._view.tags(place.chunk)
        if kind == "symbols":
            tags = tuple(sorted({*(tag for tag in tags if tag not in CHUNK_KINDS), kind}))
        return Chunk(
            id=f"{kind}-{xxh3_64_hexdigest(f'{path}:{span.first}:{text}'.encode('utf-8', 'surrogatepass'))}",
            path=path_of_listing(path),
            span=span,
            kind=kind,
            language=snapshot.languages[snapshot.file_column("language").item(place.file)],
            title=title,
            text=text,
            tags=tags,
            definitions=definitions,
        )

    def _symbols_chunk(self, place: Place) -> Chunk | None:
        stored = self._view.outline(place.file)
        if not stored.symbols:
            return None
        source = self._source(place.file)
        first, end = self._view.chunk_starts[place.file], self._view.chunk_starts[place.file + 1]
        begins = [self._row(chunk)[2:4] for chunk in range(first, min(first + HEAD_CHUNKS, end))]
        head = "".join(source.shown.part(*begin) for begin in begins) if source else ""
        package = re.search(r"(?m)^package[ \t]+([\w.]+);?\s*$", head)
        lines = [f"package: {package[1]}"] if package else []
        lines += [f"imports: {len(stored.imports)}"] if stored.imports else []
        lines += _list_symbols(stored.symbols)[:OUTLINE_LINES_MAX]
        if len(stored.symbols) > OUTLINE_LINES_MAX:
            lines.append(f"... {len(stored.symbols) - OUTLINE_LINES_MAX} more")
        title = f"{self._snapshot.key(place.file)} symbols"
        return self._chunk(place, "symbols", LineSpan(1, max(1, stored.lines)), title, "\n".join(lines))

    def _source(self, file: int) -> WorkspaceFile | None:
        if file not in self._sources:
            self._sources[file] = self._read(self._snapshot.key(file))
        return self._sources[file]


def _list_symbols(symbols: Sequence[StoredSymbol]) -> list[str]:
    """Return a line for each symbol, below its type also where it is written elsewhere in the file, as in Go."""
    names = qualified_names(symbols)
    first = {name: number for number, name in reversed([*enumerate(names)])}

    def place(number: int) -> tuple[int, ...]:
        above = symbols[number].parent
        owner = above if above >= 0 else first.get(names[number].rpartition(".")[0], -1)
        return (*(place(owner) if owner >= 0 else ()), number)

    lines = []
    for *owners, number in sorted(map(place, range(len(symbols)))):
        symbol = symbols[number]
        name = symbol.name if owners else names[number]
        lines.append(f"{'  ' * len(owners)}{symbol.kind} {name} (lines {symbol.first}-{symbol.last})")
    return lines


def _find_head(line: int, first: int, lines: Sequence[str]) -> int:
    """Return the line at which the comment above a line starts, as far as it is in `lines`, which begin at `first`.

    >>> _find_head(13, 10, ["}", "", "// Opens a file.", "func open() {"]), _find_head(10, 10, ["func open() {"])
    (12, 10)
    """
    while first < line <= first + len(lines) and (above := lines[line - first - 1]).strip() and is_comment(above):
        line -= 1
    return line


def asks_for_comments(question: str) -> bool:
    """Return whether the first line of a question is about comments themselves.

    >>> asks_for_comments("Fix the Javadoc of close"), asks_for_comments("Close the pool twice")
    (True, False)
    """
    return bool(_COMMENTS_ASKED.search(question.partition("\n")[0]))


def is_comment(text: str) -> bool:
    r"""Return whether lines of code are comments, attributes or blank, all of them.

    >>> is_comment("/** Opens a file.\n  * @param path where */"), is_comment("// Opens a file.\nopen();")
    (True, False)
    """
    return all(map(_COMMENT_LINE.match, _BLOCK_COMMENT.sub("", text).split("\n")))
