"""Turn ranked chunks into hits: texts are read from the current files; hits of changed files are marked stale."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from xxhash import xxh3_64_hexdigest

from context_engine.index import qualified_names, symbol_chain
from context_engine.model import CHUNK_KINDS, Chunk, ChunkKind, Hit
from context_engine.repo import ReadFile, WorkspaceFile, path_of_listing
from context_engine.search.filters import tags_of
from context_engine.search.rankers import RankingView
from context_engine.search.searcher import CODE_KIND, Place
from context_engine.text import LineSpan

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
        self._columns = [
            view.snapshot.chunk_column(name) for name in ("first", "last", "start", "stop", "kind", "symbol")
        ]
        self._languages = view.snapshot.file_column("language")
        self._size = view.snapshot.file_column("size")
        self._mtime_ns = view.snapshot.file_column("mtime_ns")

    def hits(self, places: Sequence[Place]) -> list[Hit]:
        """Return a hit for each place whose file still exists."""
        return [hit for place in places if (hit := self._hit(place)) is not None]

    def skip_comments(self, places: Sequence[Place]) -> list[Place]:
        """Return the places with the definition below in place of a chunk that is only its comment.

        A long comment and its definition are chunks of their own, and a reader wants the code, unless the query names a
        line of the comment.
        """
        moved: dict[int, Place] = {}
        for place in places:
            chunk = place.chunk if place.is_named else self._definition_below(place)
            moved.setdefault(chunk, replace(place, chunk=chunk))
        return list(moved.values())

    def outlines(self, places: Sequence[Place], factor: float) -> list[Hit]:
        """Return the `symbols` chunk of the file of each place instead of the place itself."""
        hits = []
        for place in places:
            chunk, source = self._symbols_chunk(place), self._source(place.file)
            if chunk is not None and source is not None:
                why = {name: value * factor for name, value in place.why.items()}
                hits.append(Hit(chunk, place.score * factor, why, self._is_stale(place.file, source)))
        return hits

    def _definition_below(self, place: Place) -> int:
        """Return the chunk that a comment is about: the first one below it that is not a comment, without a gap."""
        source, symbols = self._source(place.file), self._view.outline(place.file).symbols
        kind_column = self._columns[4]
        chunk, end_of_file = place.chunk, self._view.chunk_starts[place.file + 1]
        while source and chunk < end_of_file and kind_column[chunk] == kind_column[place.chunk] == CODE_KIND:
            first, _, start, stop, _, symbol = [column.item(chunk) for column in self._columns]
            text = source.shown.part(start, stop)
            if (symbol >= 0 and symbols[symbol].first >= first) or not is_comment(text):
                return chunk
            if text.endswith("\n\n"):  # a license header is about no definition
                break
            chunk += 1
        return place.chunk

    def _hit(self, place: Place) -> Hit | None:
        source = self._source(place.file)
        if source is None:
            return None
        first, last, start, stop, kind, symbol = [column.item(place.chunk) for column in self._columns]
        text = source.shown.part(start, stop).rstrip("\r\n")
        span = LineSpan(first, last)
        title, definitions = self._title(place.file, symbol), self._definitions_in(place.file, span, text)
        chunk = replace(self._chunk(place, CHUNK_KINDS[kind], span, title, text), definitions=definitions)
        is_stale = self._is_stale(place.file, source)
        return Hit(chunk, place.score, place.why, is_stale, chance=place.chance, is_named=place.is_named)

    def _chunk(self, place: Place, kind: ChunkKind, span: LineSpan, title: str, text: str) -> Chunk:
        snapshot = self._snapshot
        path = snapshot.key(place.file)
        tags = tags_of(self._view, place.chunk)
        if kind == "symbols":
            tags = tuple(sorted({*(tag for tag in tags if tag not in CHUNK_KINDS), kind}))
        return Chunk(
            id=f"{kind}-{xxh3_64_hexdigest(f'{path}:{span.first}:{text}'.encode('utf-8', 'surrogatepass'))}",
            path=path_of_listing(path),
            span=span,
            kind=kind,
            language=snapshot.languages[self._languages.item(place.file)],
            title=title,
            text=text,
            tags=tags,
        )

    def _symbols_chunk(self, place: Place) -> Chunk | None:
        stored = self._view.outline(place.file)
        names = qualified_names(stored.symbols)
        if not stored.symbols:
            return None
        lines = [
            f"{'  ' * (name.count('.'))}{symbol.kind} {symbol.name} (lines {symbol.first}-{symbol.last})"
            for symbol, name in zip(stored.symbols[:OUTLINE_LINES_MAX], names, strict=False)
        ]
        if len(stored.symbols) > OUTLINE_LINES_MAX:
            lines.append(f"... {len(stored.symbols) - OUTLINE_LINES_MAX} more")
        path = self._snapshot.key(place.file)
        if stored.imports:
            lines.insert(0, f"imports: {len(stored.imports)}")
        return self._chunk(place, "symbols", LineSpan(1, max(1, stored.lines)), f"{path} symbols", "\n".join(lines))

    def _title(self, file: int, number: int) -> str:
        """Return the qualified name of a symbol, or the breadcrumb of headings."""
        if number >= 0:
            return symbol_chain(self._view.outline(file).symbols, number)
        return ""

    def _definitions_in(self, file: int, span: LineSpan, text: str) -> tuple[tuple[LineSpan, str], ...]:
        """Return the definitions of which some lines show a part, each with the comment above it."""
        symbols, lines = self._view.outline(file).symbols, text.split("\n")
        return tuple(
            (LineSpan(_find_head(symbol.first, span.first, lines), symbol.last), symbol_chain(symbols, number))
            for number, symbol in enumerate(symbols)
            if symbol.first <= span.last and symbol.last >= span.first
        )

    def _source(self, file: int) -> WorkspaceFile | None:
        if file not in self._sources:
            self._sources[file] = self._read(self._snapshot.key(file))
        return self._sources[file]

    def _is_stale(self, file: int, source: WorkspaceFile) -> bool:
        return source.size != self._size.item(file) or source.mtime_ns != self._mtime_ns.item(file)


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
