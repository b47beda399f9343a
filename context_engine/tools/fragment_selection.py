r"""PURE. Selects parts of files: where the requested lines, symbols, patterns and keywords are, and what fits a budget.

>>> text = ["def a():", "    pass", "", "", "def b():", "    return salt"]
>>> places = [*find_keyword_places(0, text, "SALT"), FragmentPlace("lines", "1", 0, LineSpan(1, 1))]
>>> found = select_fragments(places, [FragmentBody(text)])
>>> [(fragment.span, [place.label for place in fragment.places]) for fragment in found.fragments]
[(LineSpan(first=1, last=1), ['']), (LineSpan(first=6, last=6), ['keyword SALT'])]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from context_engine.context import FilePrice, SnippetPacker
from context_engine.errors import InvalidArgument, InvalidLineRange
from context_engine.model import Definition
from context_engine.text import LineSpan, dotted_name, estimate_tokens, find_near_words, group_spans, shorten_line
from context_engine.tools.reply import reply_size

FragmentKind = Literal["lines", "symbol", "whole", "found", "pattern", "keyword"]
IMPORTANCE: tuple[FragmentKind, ...] = ("lines", "symbol", "whole", "found", "pattern", "keyword")
"""What was named exactly comes before what was searched for: `whole` files, then what the index `found`."""
NAMED = ("lines", "symbol", "whole")
FOUND = ("pattern", "keyword")
LABEL_CHARS_MAX = 60
"""The beginning of a long pattern is enough to recognize it."""
RANGE_CHARS_MAX = 40
"""Two line numbers and blanks; no file has more lines than fit in that."""


class FragmentPlace(NamedTuple):
    """A place of something requested. `file` is its number in the call; `column` matters on long lines."""

    kind: FragmentKind
    word: str
    file: int
    span: LineSpan
    column: int = 1

    @property
    def label(self) -> str:
        """What it was found for: nothing for lines and whole files, the name of a symbol, the kind of a search."""
        if self.kind in ("lines", "whole"):
            return ""
        word = shorten_line(self.word, 0, LABEL_CHARS_MAX)
        return f"{self.kind} {word}" if self.kind in FOUND else word


class Fragment(NamedTuple):
    """Lines of one file to show, and the places they are shown for."""

    file: int
    span: LineSpan
    places: tuple[FragmentPlace, ...]


class FragmentBody(NamedTuple):
    """The lines of a file, or what is shown of them, without line feeds; the header line above them; the open file."""

    lines: Sequence[str]
    head: str = ""
    file: Any = None


class ReplyRoom(NamedTuple):
    """The two limits of a reply: tokens, and `size` as `reply_size` counts it."""

    tokens: float
    size: float

    def price(self, line: str) -> float:
        """Return the size of a line with its line feed; more if tokens run out before characters do."""
        tokens = estimate_tokens(f"{line}\n")
        return max(reply_size(line) + 1, tokens * self.size / self.tokens if self.tokens else self.size + 1)


NO_LIMIT = ReplyRoom(1 << 60, 1 << 60)


@dataclass(slots=True)
class FragmentSelection:
    """What is shown, by file and line, what has no room, and what is `cut`, with the line at which it goes on."""

    fragments: list[Fragment] = field(default_factory=list)
    dropped: list[FragmentPlace] = field(default_factory=list)
    cut: list[tuple[FragmentPlace, int]] = field(default_factory=list)


def select_fragments(
    places: Iterable[FragmentPlace], bodies: Sequence[FragmentBody], *, context: int = 0, room: ReplyRoom = NO_LIMIT
) -> FragmentSelection:
    """Select places with `context` lines around each while they fit the room.

    What was named shares the room: each place gets an equal part of it, and of what shorter places leave. Then comes
    what was searched for, the most important first, until something does not fit. A place that does not fit with its
    context is shown without, and cut where its room ends; the first one shows at least a line. A place after the end of
    its file is ignored.
    """
    packer = SnippetPacker([_price_body(body, room) for body in bodies], room.size, frame=0)
    selection = FragmentSelection()
    kept: list[tuple[FragmentPlace, LineSpan]] = []

    def clip(place: FragmentPlace, around: int = 0) -> LineSpan | None:
        return place.span.expand(around).clip(len(bodies[place.file].lines))

    def select(place: FragmentPlace, share: float) -> None:
        own, wide = clip(place), clip(place, context)
        if own is None or wide is None:
            return
        ends = f"{place.span.first}-{place.span.last}"
        label = room.price(f"@@ {ends} {place.label} {ends}" if place.label else f"@@ {ends}")
        spare, packer.room = packer.room - share, share
        if packer.select(place.file, wide, label=label):
            kept.append((place, wide))
        elif packer.includes(place.file, own):  # only its label has a price
            kept.extend([(place, own)] * packer.select(place.file, own, label=label))
        elif last := packer.select_beginning(place.file, own, label=label, least=not kept):
            kept.append((place, LineSpan(own.first, last)))
            if last < own.last:
                selection.cut.append((place, last + 1))
        else:
            selection.dropped.append(place)
        packer.room += spare

    ranked = sort_by_importance(places)
    named = [place for place in ranked if place.kind in NAMED]
    named.sort(key=lambda place: packer.prices[place.file].price_span(clip(place) or LineSpan(1, 1)))
    for number, place in enumerate(named):
        select(place, packer.room / (len(named) - number))
    for place in ranked[len(named) :]:
        own = clip(place)
        if own and (selection.cut or selection.dropped) and not packer.includes(place.file, own):
            selection.dropped.append(place)
        else:
            select(place, packer.room)
    selection.fragments = _join_fragments(kept)
    return selection


def _price_body(body: FragmentBody, room: ReplyRoom) -> FilePrice:
    return FilePrice(room.price(body.head), lambda number: room.price(body.lines[number - 1]))


def _join_fragments(kept: Sequence[tuple[FragmentPlace, LineSpan]]) -> list[Fragment]:
    """Return the lines that are shown, by file and line; spans that touch are joined."""
    joined: list[Fragment] = []
    for file in sorted({place.file for place, _ in kept}):
        own = [(place, span) for place, span in kept if place.file == file]
        groups = group_spans([span for _, span in own])
        joined += [Fragment(file, span, tuple(own[one][0] for one in members)) for span, members in groups]
    return joined


def sort_by_importance(places: Iterable[FragmentPlace]) -> list[FragmentPlace]:
    """Sort by kind; what was searched for by rarity; else in the order given."""
    listed = list(places)
    counts = Counter(f"{place.kind} {place.word}" for place in listed if place.kind in FOUND)
    return sorted(listed, key=lambda place: (IMPORTANCE.index(place.kind), counts[f"{place.kind} {place.word}"]))


def find_keyword_places(file: int, lines: Iterable[str], word: str) -> list[FragmentPlace]:
    """Return the lines with a word; case is ignored."""
    wanted = word.casefold()
    columns = ((number, line.casefold().find(wanted) + 1) for number, line in enumerate(lines, 1))
    return [
        FragmentPlace("keyword", word, file, LineSpan(number, number), column) for number, column in columns if column
    ]


def parse_line_range(text: str, last_line: int) -> LineSpan:
    """Parse a range of lines; an open end is the end of the file.

    >>> [str(parse_line_range(text, 90)) for text in ("10-20", "7", "80-", "-3")]
    ['10-20', '7', '80-90', '1-3']

    Raises: InvalidArgument for text that is not a range, InvalidLineRange for an empty one.
    """
    begin, dash, end = (part.strip() for part in text.partition("-"))
    numbers = list(filter(None, (begin, end)))
    if len(text) > RANGE_CHARS_MAX or not numbers or not all(map(str.isdecimal, numbers)):
        raise InvalidArgument(
            f"{text[:RANGE_CHARS_MAX]!r} is not a range of lines", suggestion='Write "10-20", "7" or "90-".'
        )
    first = int(begin or 1)
    last = int(end) if end else max(first, last_line if dash else 0)
    if not 1 <= first <= last:
        raise InvalidLineRange(f"no lines are {text.strip()}", suggestion="Lines count from 1; write the lower first.")
    return LineSpan(first, last)


def match_symbols(symbols: Iterable[Definition], asked: str) -> list[Definition]:
    """Return the symbols with a name, plain or qualified; if there is none, those that differ only in case."""
    named = [(f".{symbol.qualified}", symbol) for symbol in symbols]
    wanted = (f".{asked.strip()}", "." + dotted_name(asked).strip("."))
    exact = [symbol for name, symbol in named if name.endswith(wanted)]
    folded = tuple(map(str.casefold, wanted))
    return exact or [symbol for name, symbol in named if name.casefold().endswith(folded)]


def suggest_symbols(symbols: Iterable[Definition], asked: str) -> list[str]:
    """Return the names most similar to one that was not found."""
    names = {symbol.name: symbol.qualified for symbol in symbols}
    return [names[near] for near in find_near_words(dotted_name(asked).rpartition(".")[2], names)]


def shorten_lines(lines: Sequence[str], places: Iterable[FragmentPlace], chars_max: int) -> list[str]:
    """Return the lines; long ones are cut around their most important place."""
    columns = {place.span.first: place.column for place in reversed(sort_by_importance(places))}
    return [shorten_line(line, columns.get(number, 1) - 1, chars_max) for number, line in enumerate(lines, 1)]
