r"""PURE. Selects parts of files: where the requested lines, symbols, patterns and keywords are, and what fits a budget.

>>> text = ["def a():", "    pass", "", "", "def b():", "    return salt"]
>>> places = [*find_keyword_places(0, text, "SALT"), FragmentPlace("lines", "1", 0, LineSpan(1, 1))]
>>> found = select_fragments(places, [FragmentBody(text)])
>>> [(fragment.span, [place.label for place in fragment.places]) for fragment in found.fragments]
[(LineSpan(first=1, last=1), ['']), (LineSpan(first=6, last=6), ['keyword SALT'])]
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from context_engine.errors import InvalidArgument, InvalidLineRange
from context_engine.model import Definition
from context_engine.text import LineSpan, SpanGroup, dotted_name, group_spans, shorten_line, weigh_tokens
from context_engine.tools.reply import reply_size

FragmentKind = Literal["lines", "symbol", "whole", "found", "pattern", "keyword"]
IMPORTANCE: tuple[FragmentKind, ...] = ("lines", "symbol", "whole", "found", "pattern", "keyword")
"""What was named exactly comes before what was searched for: `whole` files, then what the index `found`."""
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


class FragmentCost(NamedTuple):
    """The share of lines in the two limits of a reply: tokens, not rounded, and `size` as `reply_size` counts it."""

    tokens: float = 0.0
    size: int = 0

    def plus(self, line: str) -> FragmentCost:
        """Return the sum with a line and its line feed."""
        return FragmentCost(self.tokens + weigh_tokens(line) + weigh_tokens("\n"), self.size + reply_size(line) + 1)

    def fits(self, room: FragmentCost) -> bool:
        """Return whether it is inside both limits."""
        return self.tokens <= room.tokens and self.size <= room.size


NO_LIMIT = FragmentCost(1 << 60, 1 << 60)


@dataclass(slots=True)
class FragmentSelection:
    """Spends a budget on places, the most important first; `dropped` are those without room.

    At most one place is `cut`: it is shown from its first line, and continues at `next_line`.
    """

    bodies: Sequence[FragmentBody]
    context: int
    room: FragmentCost
    spent: FragmentCost = field(default_factory=FragmentCost)
    shown: dict[int, set[int]] = field(default_factory=dict)
    kept: list[tuple[FragmentPlace, LineSpan]] = field(default_factory=list)
    dropped: list[FragmentPlace] = field(default_factory=list)
    cut: FragmentPlace | None = None
    next_line: int = 0

    @property
    def fragments(self) -> list[Fragment]:
        """What was kept, by file and line; spans that touch are joined."""
        joined: list[Fragment] = []
        for file in sorted(self.shown):
            kept = [(place, span) for place, span in self.kept if place.file == file]
            groups = group_spans([span for _, span in kept])
            joined += [Fragment(file, span, tuple(kept[one][0] for one in members)) for span, members in groups]
        return joined

    def take(self, place: FragmentPlace) -> None:
        """Keep a place, cut it, or drop it; ignore one after the end of its file."""
        last_line = len(self.bodies[place.file].lines)
        own, wide = place.span.clip(last_line), place.span.expand(self.context).clip(last_line)
        if own is None or wide is None:
            return
        is_full = bool(self.dropped) or self.cut is not None
        if not is_full and self._show(place, wide, is_whole=True):
            return
        if self.shown.get(place.file, set()).issuperset(range(own.first, own.last + 1)):
            self._show(place, own, is_whole=True)  # only its label has a price; the lines are shown anyway
        elif is_full or not self._show(place, own, is_whole=False):
            self.dropped.append(place)

    def _show(self, place: FragmentPlace, span: LineSpan, *, is_whole: bool) -> bool:
        """Show a span if it fits, or its beginning unless it `is_whole`; of the first place one line at least."""
        body, shown = self.bodies[place.file], self.shown.get(place.file, set())
        ends = f"{place.span.first}-{place.span.last}"
        spent = self.spent.plus(f"@@ {ends} {place.label} {ends}" if place.label else f"@@ {ends}")
        if not shown:
            spent = spent.plus(body.head)
        stop = span.first
        while stop <= span.last:
            with_line = spent if stop in shown else spent.plus(body.lines[stop - 1])
            if not with_line.fits(self.room):
                break
            spent, stop = with_line, stop + 1
        is_cut = stop <= span.last
        if is_cut and (is_whole or (stop == span.first and self.kept)):
            return False
        last = max(span.first, stop - 1)
        if last < span.last:
            self.cut, self.next_line = place, last + 1
        self.kept.append((place, LineSpan(span.first, last)))
        self.shown.setdefault(place.file, set()).update(range(span.first, last + 1))
        self.spent = spent
        return True


def select_fragments(
    places: Iterable[FragmentPlace], bodies: Sequence[FragmentBody], *, context: int = 0, room: FragmentCost = NO_LIMIT
) -> FragmentSelection:
    """Select places with `context` lines around each, the most important first, while they fit the room.

    A place that does not fit with its context is shown without, and cut where the room ends; the first one shows at
    least a line. After a place that was cut or dropped no further line is selected.
    """
    selection = FragmentSelection(bodies, context, room)
    for place in sort_by_importance(places):
        selection.take(place)
    return selection


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
    names = {symbol.name.casefold(): symbol.qualified for symbol in symbols}
    wanted = dotted_name(asked).rpartition(".")[2].casefold()
    return [names[close] for close in difflib.get_close_matches(wanted, names, 3)]


def shorten_lines(lines: Sequence[str], places: Iterable[FragmentPlace], chars_max: int) -> list[str]:
    """Return the lines; long ones are cut around their most important place."""
    columns = {place.span.first: place.column for place in reversed(sort_by_importance(places))}
    return [shorten_line(line, columns.get(number, 1) - 1, chars_max) for number, line in enumerate(lines, 1)]


def fit_regions(
    groups: Iterable[SpanGroup],
    *,
    lines_max: int,
    chars_max: int,
    chars: Callable[[int], int],
    around: Callable[[SpanGroup], int] = lambda _: 0,
) -> tuple[list[SpanGroup], int]:
    """Return the groups of lines that fit, and the line before which they end (0 if all fit).

    `chars` returns the characters of a line, `around` those that are added for a group.

    >>> groups = [SpanGroup(LineSpan(3, 5), (0,)), SpanGroup(LineSpan(8, 9), (1,))]
    >>> kept, stop = fit_regions(groups, lines_max=4, chars_max=90, chars=lambda line: 10)
    >>> [group.span for group in kept], stop
    ([LineSpan(first=3, last=5), LineSpan(first=8, last=8)], 9)
    """
    kept: list[SpanGroup] = []
    for group in groups:
        stop = group.span.first
        chars_max -= around(group)
        while stop <= group.span.last and lines_max > 0 and chars(stop) <= chars_max:
            lines_max, chars_max, stop = lines_max - 1, chars_max - chars(stop), stop + 1
        if stop > group.span.first:
            kept.append(group._replace(span=LineSpan(group.span.first, stop - 1)))
        if stop <= group.span.last:
            return kept, stop
    return kept, 0
