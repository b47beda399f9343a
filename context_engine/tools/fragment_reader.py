"""Reads parts of files into one reply: each caller adds places, and the most important ones that fit are shown.

reader = FragmentReader(engine, call, tokens_max=2_000)
reader.add_whole("README.md")
reader.add("symbol", "login", [reader.add_file("src/auth.py")])
text = reader.render()
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar

from context_engine.context import describe_mentions
from context_engine.errors import CallError, ContextEngineError, InvalidPath, TooLarge
from context_engine.model import TextPart, TextQuery
from context_engine.text import (
    LineSpan,
    compact_json,
    drop_empty,
    escape_line,
    estimate_tokens,
    format_count,
    format_size,
    shorten_line,
    split_lines,
)
from context_engine.tools.fragment_selection import (
    FOUND,
    LABEL_CHARS_MAX,
    NO_LIMIT,
    Fragment,
    FragmentBody,
    FragmentKind,
    FragmentPlace,
    FragmentSelection,
    ReplyRoom,
    find_keyword_places,
    match_symbols,
    parse_line_range,
    select_fragments,
    shorten_lines,
    suggest_symbols,
)
from context_engine.tools.reply import NOTE_CHARS, SHA_CHARS, clip_line, count_fitting, count_rest, reply_size
from context_engine.tools.symbol_tools import format_outline

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.model import Definition, TreeEntry
    from context_engine.tools.tool import Call

T = TypeVar("T")
LINE_CHARS_MAX = 400
"""Longer lines are generated; the match is in the middle of this many characters."""
NAMED_LINE_CHARS_MAX = 4_000
"""A line that was named is cut only where it alone would take a thousand tokens."""
NOTES_CHARS = 1_300
"""Reserved for the notes: what was cut, dropped, not found, not read."""
MATCHES_MAX = 10_000
"""More lines of one file than fit any reply."""
ADVISED_MAX = 5
"""Words with suggestions: similar names for more would not fit, and take long in a file with ten thousand symbols."""
LINES_NAMED_MAX = 10
"""Lines listed for one word; the others are counted."""
TREE_DEPTH, TREE_ITEMS_MAX = 2, 200
"""A folder is shown as `list_directory` shows it by default."""


class FragmentReader:
    """The files and places of one call, and what is to be noted below them.

    What is shown takes at most `tokens_max` tokens, as `estimate_tokens` counts them, and the characters of a reply.
    The notes below are short and do not count; the first line asked for is always shown. Callers may add to `places`,
    `notes` and `refused`.
    """

    def __init__(self, engine: Engine, call: Call, *, tokens_max: int | None = None) -> None:
        self._engine = engine
        self._call = call
        self._tokens_max = tokens_max or NO_LIMIT.tokens
        self._chars_max = engine.settings.result_chars_max - NOTES_CHARS
        self.places: list[FragmentPlace] = []
        self.notes: list[str] = []
        self.refused: list[ContextEngineError] = []
        self._files: list[FragmentBody] = []
        self._missing: list[tuple[FragmentKind, str, Sequence[int]]] = []
        self._symbols: dict[int, tuple[Definition, ...]] = {}
        self._blocks: list[str] = []

    def add_file(self, path: str) -> int:
        """Return the number of a file of this call. Raises: as `WorkspaceFiles.read`."""
        read = self._engine.files.read(path, first=1)
        for number, file in enumerate(self._files):
            if file.file.path == read.path:
                return number
        self._engine.edits.note_read(read.path, read.sha256, session=self._call.session, kind="fragment")
        lines = split_lines(read.text)
        size = format_count(len(lines), "line") if lines else "empty"
        facts = (escape_line(read.path), size, read.encoding, f"sha256 {read.sha256[:SHA_CHARS]}")
        head = " · ".join(filter(None, facts))
        self._files.append(FragmentBody(lines, head, read))
        return len(self._files) - 1

    def read_each(self, paths: Iterable[str], read: Callable[[str], T]) -> list[T]:
        """Return what is read of these paths, and note those that cannot be. Raises: the error if none can."""
        results = []
        for path in paths:
            try:
                results.append(read(path))
            except ContextEngineError as error:  # one unreadable file must not hide the others
                self.refused.append(error)
        if not results:
            raise self.refused[0]
        return results

    def add(self, kind: FragmentKind, word: str, files: Sequence[int]) -> None:
        """Add the places of a line range, symbol, pattern or keyword in these files; what is in none is noted."""
        if kind == "pattern":
            here = self._find_matches(word, files)
        else:
            here = [place for file in files for place in self._find(kind, word, file)]
        self.places += here
        if not here:
            self._missing.append((kind, word, files))

    def add_whole(self, path: str) -> None:
        """Add a whole file, the outline of one over the limit, or the tree of a folder. Raises: as `add_file`."""
        try:
            self._engine.files.read(path)  # refuses what is too large to be shown whole
        except (TooLarge, InvalidPath) as error:  # the second is perhaps a folder
            try:
                self._blocks.append(_cut_block(self._describe(path, error), self._room().tokens))
            except CallError:
                raise error from None
        else:
            number = self.add_file(path)
            span = LineSpan(1, max(1, len(self._files[number].lines)))
            self.places.append(FragmentPlace("whole", "", number, span))

    def _describe(self, path: str, error: CallError) -> str:
        if isinstance(error, InvalidPath):
            return format_tree(self._engine, path, TREE_DEPTH, TREE_ITEMS_MAX)
        outline = format_outline(self._engine.symbols.outline(path), self._engine.settings.result_chars_max // 2)
        return f"{outline}\n{error.message}; read parts of it by their lines."

    def add_outlines(self, paths: Sequence[str]) -> None:
        """Add the outlines of files, with equal shares of the room. Raises: the error if there is none."""
        outlines = self.read_each(paths, self._engine.symbols.outline)
        chars, tokens = self._chars_max // len(outlines) + NOTE_CHARS, self._tokens_max / len(outlines)
        texts = [_cut_block(format_outline(outline, chars), tokens) for outline in outlines]
        count = count_fitting(texts, chars_max=self._chars_max)
        self._blocks += texts[:count]
        if left := [f"not shown: {escape_line(outline.path)}" for outline in outlines[count:]]:
            self.notes.append(_join_capped(left, 400))

    # -- finding --

    def _find(self, kind: FragmentKind, word: str, file: int) -> list[FragmentPlace]:
        lines = self._files[file].lines
        if kind == "lines":
            span = parse_line_range(word, len(lines)).clip(len(lines))
            return [FragmentPlace("lines", word, file, span)] if span else []
        if kind == "symbol":
            found = match_symbols(self._symbols_of(file), word)
            return [FragmentPlace("symbol", symbol.qualified, file, symbol.span) for symbol in found]
        return find_keyword_places(file, lines, word)

    def _symbols_of(self, file: int) -> tuple[Definition, ...]:
        if file not in self._symbols:
            outline = self._engine.symbols.outline(self._files[file].file.path, details=False)
            self._symbols[file] = tuple(symbol for _, symbol in outline.symbols)
        return self._symbols[file]

    def _find_matches(self, pattern: str, files: Sequence[int]) -> list[FragmentPlace]:
        """Search all files in one pass with the engine of search_text: a caller's pattern never runs here."""
        parts = [TextPart(self._files[file].file.path, 0, MATCHES_MAX) for file in files]
        found = self._engine.text_search.lines(
            TextQuery((pattern,), regex=True), parts, context=0, chars_max=1, cancel=self._call.cancel
        )
        return [
            FragmentPlace("pattern", pattern, file, LineSpan(line.number, line.number), line.column)
            for file in files
            for line in found.get(self._files[file].file.path, ())
        ]

    # -- showing --

    def render(self, *, context: int = 0) -> str:
        """Return the reply as text. Raises: the first error if there is nothing else to show."""
        bodies = self._bodies()
        taken = select_fragments(self.places, bodies, context=context, room=self._room())
        rows = self._rows(taken, bodies)
        self._note_shown(rows)
        mentions = self._list_mentions(taken)
        return "\n".join([*self._blocks, *self._format_files(rows), *mentions, *self._notes_on(taken, bodies)])

    def render_json(self, *, context: int = 0) -> str:
        """Return the reply for a program. Raises: as `render`."""
        bodies, room = self._bodies(), self._room()
        while True:
            taken = select_fragments(self.places, bodies, context=context, room=room)
            rows, notes = self._rows(taken, bodies), self._notes_on(taken, bodies)
            more = {"pages": self._blocks, "notes": [note.removeprefix("… ") for note in notes]}
            text = compact_json({"files": rows} | drop_empty(more))
            if reply_size(text) <= self._engine.settings.result_chars_max or not room.size:
                self._note_shown(rows)
                return text
            room = room._replace(size=room.size * 3 // 4)  # quotes and line feeds take more room in JSON

    def _bodies(self) -> list[FragmentBody]:
        """Return what can be shown of each file. Raises: the first error if there is nothing to show."""
        if self.refused and not (self._files or self._blocks or self.notes):
            raise self.refused[0]
        bodies = []
        for number, file in enumerate(self._files):
            places = [place for place in self.places if place.file == number]
            is_named = any(place.kind not in FOUND for place in places)
            chars_max = min(self._chars_max, NAMED_LINE_CHARS_MAX if is_named else LINE_CHARS_MAX)
            bodies.append(file._replace(lines=shorten_lines(file.lines, places, chars_max)))
        return bodies

    def _room(self) -> ReplyRoom:
        """Return what the trees and outlines leave of both limits."""
        size = self._chars_max - sum(map(reply_size, self._blocks))
        return ReplyRoom(max(0.0, self._tokens_max - sum(map(estimate_tokens, self._blocks))), max(0, size))

    def _note_shown(self, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            for fragment in row["fragments"]:
                self._call.shown.add(row["path"], int(fragment["lines"].partition("-")[0]), fragment["text"])

    def _list_mentions(self, taken: FragmentSelection) -> Iterator[str]:
        """Yield what the next search for the first definition that is shown would find."""
        named = [place for one in taken.fragments for place in one.places if place.kind == "symbol"]
        for place in named[:1]:
            path = self._files[place.file].file.path
            yield from describe_mentions(path, {place.word: place.span}, self._engine, self._call.shown)

    def _rows(self, taken: FragmentSelection, bodies: Sequence[FragmentBody]) -> list[dict[str, Any]]:
        """Return each file with its fragments."""
        rows: list[dict[str, Any]] = []
        for file in self._files:
            head = {"path": file.file.path, "total_lines": len(file.lines), "sha256": file.file.sha256[:SHA_CHARS]}
            rows.append(head | drop_empty({"encoding": file.file.encoding}) | {"fragments": []})
        for fragment in taken.fragments:
            text = "\n".join(_lines_of(fragment, bodies))
            why = drop_empty({"why": _format_reasons(fragment.places, fragment.span)})
            rows[fragment.file]["fragments"].append({"lines": str(fragment.span), "text": text} | why)
        return rows

    def _format_files(self, rows: Sequence[dict[str, Any]]) -> Iterator[str]:
        """Yield a header and the fragments of each file with fragments; a single or empty file has its header."""
        for row, file in zip(rows, self._files, strict=True):
            if row["fragments"] or len(rows) == 1 or not file.lines:
                yield file.head
            for fragment in row["fragments"]:
                why = " · ".join(fragment.get("why", ()))
                if why or fragment["lines"] != str(LineSpan(1, len(file.lines))):
                    yield f"@@ {fragment['lines']} {why}".rstrip(" ")
                yield fragment["text"]

    def _notes_on(self, taken: FragmentSelection, bodies: Sequence[FragmentBody]) -> Iterator[str]:
        """Yield notes on what was found but is not shown, what was not found, what was not read, and the others."""
        if taken.cut:
            rest = [
                f"{escape_line(self._files[place.file].file.path)}:{next_line}-{place.span.last}"
                for place, next_line in taken.cut
            ]
            yield f"… cut here: the rest is {', '.join(rest)}"
        if taken.dropped:
            left = [
                f"{escape_line(file.file.path)}: {name}"
                for number, file in enumerate(self._files)
                for name in _format_reasons(place for place in taken.dropped if place.file == number)
            ]
            yield f"… no room for {_join_capped(left, 400)} - raise the budget, or ask for these alone"
        if any(list(_lines_of(one, self._files)) != list(_lines_of(one, bodies)) for one in taken.fragments):
            yield "… long lines are cut; search_text shows the part around a word"
        if self._missing:
            names = [_name(kind, word) for kind, word, _ in self._missing]
            for number, missing in enumerate(self._missing[:ADVISED_MAX]):
                names[number] += self._suggest(*missing)
            yield f"not found: {_join_capped(names, 200)}"
        if self.refused:
            refused = [f"not read: {error.message}. {error.suggestion}".rstrip() for error in self.refused]
            yield _join_capped(refused, 200)
        yield from self.notes

    def _suggest(self, kind: FragmentKind, word: str, numbers: Sequence[int]) -> str:
        """Return what a caller can do about a word that was not found."""
        files = [self._files[number].file for number in numbers]
        if kind == "lines":
            counts = [f"{escape_line(file.path)} has {file.lines:,}" for file in files[:LINES_NAMED_MAX]]
            return f" ({', '.join(counts)})"
        defined = (symbol for number in numbers for symbol in self._symbols_of(number))
        near = suggest_symbols(defined, word) if kind == "symbol" else ()
        return f" (near: {', '.join(near)})" if near else ""


def _cut_block(text: str, tokens_max: float) -> str:
    """Return a tree or an outline cut after the lines that fit; its header is always shown."""
    lines = text.split("\n")
    fitting = list(accumulate(estimate_tokens(f"{line}\n") for line in lines))
    count = max(1, bisect_right(fitting, tokens_max))
    return "\n".join([*lines[:count], *count_rest(len(lines) - count, ": raise the budget", "line")])


def _lines_of(fragment: Fragment, bodies: Sequence[FragmentBody]) -> Sequence[str]:
    return bodies[fragment.file].lines[fragment.span.first - 1 : fragment.span.last]


def _format_reasons(places: Iterable[FragmentPlace], shown: LineSpan | None = None) -> list[str]:
    """Format why lines are shown: each label once, with its lines where they are not all that is `shown`."""
    lines_by_label: dict[str, dict[str, None]] = {}
    for place in places:
        is_known = place.span == shown or place.kind == "lines"
        if label := place.label if shown else _name(place.kind, place.word):
            lines_by_label.setdefault(label, {})["" if is_known else str(place.span)] = None
    reasons = []
    for label, spans in lines_by_label.items():
        more = f" +{len(spans) - LINES_NAMED_MAX}" if len(spans) > LINES_NAMED_MAX else ""
        reasons.append(f"{label} {', '.join([*spans][:LINES_NAMED_MAX])}{more}".rstrip())
    return reasons


def _name(kind: FragmentKind, word: str) -> str:
    return f"{kind} {shorten_line(word, 0, LABEL_CHARS_MAX)}".rstrip()


def _join_capped(items: Sequence[str], chars_max: int) -> str:
    """Join the items that fit in one line and count the others; the first is always shown, as far as it fits."""
    count = max(1, count_fitting(items, chars_max=chars_max, between=2))
    more = f" and {len(items) - count:,} more" if count < len(items) else ""
    return clip_line("; ".join(items[:count]), chars_max) + more


# -- folders ----------------------------------------------------------------------------------------------------------


def format_tree(
    engine: Engine, path: str, depth: int, max_items: int, *, include_hidden: bool = False, sizes: bool = False
) -> str:
    """Format a folder as a tree under a header. Raises: as `WorkspaceFiles.list_directory`."""
    entries = engine.files.list_directory(path, depth=depth, max_items=max_items, include_hidden=include_hidden)
    if not entries:
        unlisted = "ignored" if include_hidden else "ignored and hidden"
        return f"{escape_line(path)} · empty ({unlisted} files are not listed)"
    rows: list[str] = []
    open_levels: set[int] = set()  # those with a later entry below the same folder: so they are read from the end
    base = min(entry.depth for entry in entries)
    for entry in reversed(entries):
        bars = "".join("│   " if level in open_levels else "    " for level in range(base, entry.depth))
        rows.append(f"{bars}{'├── ' if entry.depth in open_levels else '└── '}{_label(entry, sizes=sizes)}")
        open_levels = {level for level in open_levels if level < entry.depth} | {entry.depth}
    rows.reverse()
    count = count_fitting(rows, chars_max=engine.settings.result_chars_max - NOTE_CHARS)
    shown = sum(not entry.hidden_items for entry in entries[:count])
    rest = count_rest(len(rows) - count, ": list a folder of it, or lower depth.", "line")
    return "\n".join([f"{escape_line(path)} · {format_count(shown, 'item')}", *rows[:count], *rest])


def _label(entry: TreeEntry, *, sizes: bool) -> str:
    if entry.hidden_items:
        return f"... {entry.hidden_items:,} more"
    if entry.is_folder:
        return f"{escape_line(entry.name.rstrip('/'))}/"
    size = f" ({entry.note or format_size(entry.size_bytes)})" if sizes else ""
    return f"{escape_line(entry.name)}{size}"
