"""Places become hits: the text of each chunk is read from the disk as it is now, and what changed since is marked stale."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from context_engine.index.describe import StoredOutline, decode_outline
from context_engine.index.graph import qualified_names
from context_engine.model import CHUNK_KINDS, Chunk, Hit, RelPath
from context_engine.search.filters import tags_of
from context_engine.search.rankers import View
from context_engine.search.searcher import Place
from context_engine.text.spans import LineSpan

OUTLINE_LINES_MAX = 200
"""Symbols listed in a file's `symbols` chunk."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file as it is now: its text in UTF-8, its size and time."""

    data: bytes
    size: int
    mtime_ns: int


Read = Callable[[str], Source | None]


class Reader:
    """Makes hits of one ranking; each file is read once."""

    def __init__(self, view: View, read: Read) -> None:
        self._view = view
        self._snapshot = view.snapshot
        self._read = read
        self._sources: dict[int, Source | None] = {}
        self._outlines: dict[int, tuple[StoredOutline, list[str]]] = {}

    def hits(self, places: Sequence[Place]) -> list[Hit]:
        """A hit for each place whose file is still there."""
        return [hit for place in places if (hit := self._hit(place)) is not None]

    def outlines(self, places: Sequence[Place], factor: float) -> list[Hit]:
        """Instead of the places themselves, the `symbols` chunk of each one's file."""
        hits = []
        for place in places:
            chunk = self._symbols_chunk(place)
            if chunk is not None:
                why = {name: value * factor for name, value in place.why.items()}
                hits.append(Hit(chunk, place.score * factor, why, self._is_stale(place.file)))
        return hits

    def _hit(self, place: Place) -> Hit | None:
        source = self._source(place.file)
        if source is None:
            return None
        columns = self._snapshot.chunk_column
        start, stop = int(columns("start")[place.chunk]), int(columns("stop")[place.chunk])
        text = source.data[start:stop].decode("utf-8", "replace").rstrip("\r\n")
        first, last = int(columns("first")[place.chunk]), int(columns("last")[place.chunk])
        kind = CHUNK_KINDS[int(columns("kind")[place.chunk])]
        chunk = self._chunk(place, kind, LineSpan(first, last), self._title(place), text)
        return Hit(chunk, place.score, place.why, self._is_stale(place.file))

    def _chunk(self, place: Place, kind, span: LineSpan, title: str, text: str) -> Chunk:
        snapshot = self._snapshot
        path = snapshot.paths[place.file]
        tags = set(tags_of(self._view, place.chunk))
        if kind == "symbols":
            tags = {tag for tag in tags if tag not in CHUNK_KINDS} | {kind}
        digest = hashlib.blake2b(f"{path}\0{kind}\0{span.first}\0{text}".encode(), digest_size=8).hexdigest()
        return Chunk(
            id=f"{kind}-{digest}",
            path=RelPath(path),
            span=span,
            kind=kind,
            language=snapshot.languages[int(snapshot.file_column("language")[place.file])],
            title=title,
            text=text,
            tags=tuple(sorted(tags)),
        )

    def _symbols_chunk(self, place: Place) -> Chunk | None:
        stored, names = self._outline(place.file)
        if not stored.symbols or self._source(place.file) is None:
            return None
        lines = [
            f"{'  ' * (name.count('.'))}{symbol.kind} {symbol.name} (lines {symbol.first}-{symbol.last})"
            for symbol, name in zip(stored.symbols[:OUTLINE_LINES_MAX], names, strict=False)
        ]
        if len(stored.symbols) > OUTLINE_LINES_MAX:
            lines.append(f"... {len(stored.symbols) - OUTLINE_LINES_MAX} more")
        path = self._snapshot.paths[place.file]
        if stored.imports:
            lines.insert(0, f"imports: {len(stored.imports)}")
        return self._chunk(place, "symbols", LineSpan(1, max(1, stored.lines)), f"{path} symbols", "\n".join(lines))

    def _title(self, place: Place) -> str:
        """The qualified name, or the breadcrumb of headings."""
        symbol = int(self._snapshot.chunk_column("symbol")[place.chunk])
        stored, names = self._outline(place.file)
        if not 0 <= symbol < len(names):
            return ""
        if stored.symbols[symbol].kind != "section":
            return names[symbol]
        crumbs = []
        while symbol >= 0:
            crumbs.append(stored.symbols[symbol].name)
            symbol = stored.symbols[symbol].parent
        return " > ".join(reversed(crumbs))

    def _outline(self, file: int) -> tuple[StoredOutline, list[str]]:
        if file not in self._outlines:
            stored = decode_outline(self._snapshot.heap("outline", file))
            self._outlines[file] = stored, qualified_names(stored.symbols)
        return self._outlines[file]

    def _source(self, file: int) -> Source | None:
        if file not in self._sources:
            self._sources[file] = self._read(self._snapshot.paths[file])
        return self._sources[file]

    def _is_stale(self, file: int) -> bool:
        source = self._source(file)
        column = self._snapshot.file_column
        return source is None or (source.size, source.mtime_ns) != (int(column("size")[file]), int(column("mtime_ns")[file]))
