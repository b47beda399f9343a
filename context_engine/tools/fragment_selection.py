r"""PURE. Selects parts of files: where the requested lines, symbols, patterns and keywords are, and what fits a budget.

Each `FragmentPlace` is one place in a file. Places are taken by importance while they fit: lines that were named come
first, then symbols, then what patterns and keywords found, rare ones before common ones. What has no room is reported.

>>> text = ["def a():", "    pass", "", "", "def b():", "    return salt"]
>>> places = [*find_keyword_places(0, text, "SALT"), FragmentPlace("lines", "1", 0, LineSpan(1, 1))]
>>> found = select_fragments(places, [FragmentBody(text)])
>>> [(fragment.span, [place.label for place in fragment.places]) for fragment in found.fragments]
[(LineSpan(first=1, last=1), ['']), (LineSpan(first=6, last=6), ['keyword SALT'])]
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from context_engine.errors import InvalidArgument, InvalidLineRange
from context_engine.model import Definition
from context_engine.text import LineSpan, SpanGroup, dotted_name, group_spans, shorten_line, weigh_tokens
from context_engine.tools.reply import reply_size

FragmentKind = Literal["lines", "symbol", "whole", "found", "pattern", "keyword"]
IMPORTANCE: tuple[FragmentKind, ...] = ("lines", "symbol", "whole", "found", "pattern", "keyword")
"""What was named exactly comes before what was searched for: `whole` files, then what the index `found`."""
FOUND = ("pattern", "keyword")
UNNAMED = ("lines", "whole")
"""Their line numbers say it all."""
LABEL_CHARS_MAX = 60
"""The beginning of a long pattern is enough to recognize it."""


class FragmentPlace(NamedTuple):
    """A place of something requested. `file` is its number in the call; `column` matters on long lines."""

    kind: FragmentKind
    word: str
    file: int
    span: LineSpan
    column: int = 1

    @property
    def label(self) -> str:
        """What it was found for, in words: nothing for lines, the name of a symbol, the kind of a search."""
        word = shorten_line(self.word, 0, LABEL_CHARS_MAX)
        if self.kind in FOUND:
            return f"{self.kind} {word}"
        return "" if self.kind in UNNAMED else word


class Fragment(NamedTuple):
    """Lines of one file to show, and the places they are shown for."""

    file: int
    span: LineSpan
    places: tuple[FragmentPlace, ...]


@dataclass(frozen=True, slots=True)
class FragmentSelection:
    """The fragments that fit, in the order of files and lines; the places that do not, the most important first.

    At most one place is `cut`: it is shown from its first line, and continues at `next_line`.
    """

    fragments: tuple[Fragment, ...]
    dropped: tuple[FragmentPlace, ...] = ()
    cut: FragmentPlace | None = None
    next_line: int = 0


class FragmentCost(NamedTuple):
    """The share of lines in the two limits of a reply: tokens, not rounded, and `size` as `reply_size` counts it."""

    tokens: float = 0.0
    size: int = 0

    @classmethod
    def of(cls, line: str) -> FragmentCost:
        """Return the cost of a line with its line feed."""
        return cls(weigh_tokens(line) + weigh_tokens("\n"), reply_size(line) + 1)

    def plus(self, other: FragmentCost) -> FragmentCost:
        """Return the sum."""
        return FragmentCost(self.tokens + other.tokens, self.size + other.size)

    def fits(self, room: FragmentCost) -> bool:
        """Return whether it is inside both limits."""
        return self.tokens <= room.tokens and self.size <= room.size


NO_COST = FragmentCost()
NO_LIMIT = FragmentCost(1 << 60, 1 << 60)


@dataclass(frozen=True, slots=True)
class FragmentBody:
    """The lines of a file as they are shown, without line feeds, and the header line above them."""

    lines: Sequence[str]
    head: str = ""

    def cost(self, line: int) -> FragmentCost:
        """Return what a line takes with its line feed."""
        return FragmentCost.of(self.lines[line - 1])


# -- what fits --------------------------------------------------------------------------------------------------------


def select_fragments(
    places: Iterable[FragmentPlace],
    bodies: Sequence[FragmentBody],
    *,
    context: int = 0,
    room: FragmentCost = NO_LIMIT,
) -> FragmentSelection:
    """Select places with `context` lines around symbol, the most important first, while they fit the room.

    A place that does not fit with its context is shown without, and cut where the room ends; the first one shows at
    least a line. After a place that was cut or dropped no further line is selected.
    """
    selection = _Selection(bodies, context, room)
    for place in sort_by_importance(places):
        selection.take(place)
    return FragmentSelection(tuple(selection.fragments()), tuple(selection.dropped), selection.cut, selection.next_line)


def sort_by_importance(places: Iterable[FragmentPlace]) -> list[FragmentPlace]:
    """Sort by kind; what was searched for by rarity; else in the order given."""
    listed = list(places)
    counts = Counter((place.kind, place.word) for place in listed)

    def rank(place: FragmentPlace) -> tuple[int, int]:
        rarity = counts[place.kind, place.word] if place.kind in FOUND else 0
        return IMPORTANCE.index(place.kind), rarity

    return sorted(listed, key=rank)


@dataclass(slots=True)
class _Selection:
    """Spends a budget. `shown` contains the selected lines, by file."""

    bodies: Sequence[FragmentBody]
    context: int
    room: FragmentCost
    spent: FragmentCost = NO_COST
    shown: dict[int, set[int]] = field(default_factory=dict)
    kept: list[tuple[FragmentPlace, LineSpan]] = field(default_factory=list)
    dropped: list[FragmentPlace] = field(default_factory=list)
    cut: FragmentPlace | None = None
    next_line: int = 0

    def take(self, place: FragmentPlace) -> None:
        """Keep a place, cut it, or drop it; ignore one after the end of its file."""
        last_line = len(self.bodies[place.file].lines)
        own, wide = place.span.clip(last_line), place.span.expand(self.context).clip(last_line)
        if own is None or wide is None:
            return
        is_full = bool(self.dropped) or self.cut is not None
        if not is_full and self._keep(place, wide):
            return
        if self._is_shown(place.file, own):
            self._keep(place, own)  # only its label costs tokens; without room for that the lines are shown anyway
        elif is_full or not self._begin(place, own):
            self.dropped.append(place)

    def _keep(self, place: FragmentPlace, span: LineSpan) -> bool:
        """Select all of a span; return False if it does not fit."""
        spent, stop = self._price(place, span)
        if stop <= span.last:
            return False
        self._show(place, span, spent)
        return True

    def _begin(self, place: FragmentPlace, own: LineSpan) -> bool:
        """Select the lines of a place that fit, its first line in any case if nothing is shown; False if none fits."""
        spent, stop = self._price(place, own)
        if stop == own.first and self.kept:
            return False
        last = max(own.first, stop - 1)
        self._show(place, LineSpan(own.first, last), spent)
        if last < own.last:
            self.cut, self.next_line = place, last + 1
        return True

    def _show(self, place: FragmentPlace, span: LineSpan, spent: FragmentCost) -> None:
        self.kept.append((place, span))
        self.shown.setdefault(place.file, set()).update(range(span.first, span.last + 1))
        self.spent = spent

    def _price(self, place: FragmentPlace, span: LineSpan) -> tuple[FragmentCost, int]:
        """Return what is spent with the lines before `stop`, and `stop`: the first that does not fit, or the end."""
        body, shown = self.bodies[place.file], self.shown.get(place.file, set())
        spent = self.spent.plus(price_heading(place))
        if not shown:
            spent = spent.plus(FragmentCost.of(body.head))
        for line in range(span.first, span.last + 1):
            with_line = spent if line in shown else spent.plus(body.cost(line))
            if not with_line.fits(self.room):
                return spent, line
            spent = with_line
        return spent, span.last + 1

    def _is_shown(self, file: int, span: LineSpan) -> bool:
        shown = self.shown.get(file, set())
        return all(line in shown for line in range(span.first, span.last + 1))

    def fragments(self) -> Iterator[Fragment]:
        """Yield what was kept, by file and line; spans that touch are joined."""
        for file in sorted(self.shown):
            kept = [(place, span) for place, span in self.kept if place.file == file]
            for joined in group_spans([span for _, span in kept]):
                yield Fragment(file, joined.span, tuple(kept[number][0] for number in joined.members))


def price_heading(place: FragmentPlace) -> FragmentCost:
    """Return what a place adds to the heading of its fragment: line numbers and label."""
    spans = f"{place.span.first}-{place.span.last}"
    return FragmentCost.of(f"@@ {spans} {place.label} {spans}" if place.label else f"@@ {spans}")


# -- finding places -------------------------------------------------------------------------------------------------


def find_keyword_places(file: int, lines: Iterable[str], word: str) -> list[FragmentPlace]:
    """Return symbol line with a word; case is ignored."""
    wanted = word.casefold()
    columns = ((number, line.casefold().find(wanted) + 1) for number, line in enumerate(lines, 1))
    return [
        FragmentPlace("keyword", word, file, LineSpan(number, number), column) for number, column in columns if column
    ]


_RANGE = re.compile(r"(\d+)|(\d*) *- *(\d*)")
RANGE_CHARS_MAX = 40
"""Two line numbers and blanks; no file has more lines than fit in that."""


def parse_line_range(text: str, last_line: int) -> LineSpan:
    """Parse a range of lines; an open end is the end of the file.

    >>> [str(parse_line_range(text, 90)) for text in ("10-20", "7", "80-", "-3")]
    ['10-20', '7', '80-90', '1-3']

    Raises: InvalidArgument for text that is not a range, InvalidLineRange for an empty one.
    """
    match = _RANGE.fullmatch(text.strip()) if len(text) <= RANGE_CHARS_MAX else None
    if match is None or not any(match.groups()):
        raise InvalidArgument(
            f"{text[:RANGE_CHARS_MAX]!r} is not a range of lines", suggestion='Write "10-20", "7" or "90-".'
        )
    alone, begin, end = match.groups()
    first = int(alone or begin or 1)
    last = int(alone or end or max(first, last_line))
    if not 1 <= first <= last:
        raise InvalidLineRange(f"no lines are {text.strip()}", suggestion="Lines count from 1; write the lower first.")
    return LineSpan(first, last)


def match_symbols(symbols: Iterable[Definition], asked: str) -> list[Definition]:
    """Return the symbols with a name, plain or qualified; if there is none, those that differ only in case."""
    listed = list(symbols)
    wanted = {f".{asked.strip()}", "." + dotted_name(asked).strip(".")}
    exact = [symbol for symbol in listed if f".{symbol.qualified}".endswith(tuple(wanted))]
    folded = tuple(symbol.casefold() for symbol in wanted)
    return exact or [symbol for symbol in listed if f".{symbol.qualified}".casefold().endswith(folded)]


def suggest_symbols(symbols: Iterable[Definition], asked: str) -> list[str]:
    """Return the names most similar to one that was not found."""
    names = {symbol.name.casefold(): symbol.qualified for symbol in symbols}
    wanted = re.split(r"[.:#]", asked.removesuffix("()"))[-1].casefold()
    return [names[close] for close in difflib.get_close_matches(wanted, names, NEAR_MAX)]


NEAR_MAX = 3
"""More guesses than this take longer to read than to ask again."""


def shorten_lines(lines: Sequence[str], places: Iterable[FragmentPlace], chars_max: int) -> list[str]:
    """Return the lines; long ones are cut around their most important place."""
    columns = {place.span.first: place.column for place in reversed(sort_by_importance(places))}
    return [shorten_line(line, columns.get(number, 1) - 1, chars_max) for number, line in enumerate(lines, 1)]


# -- regions ----------------------------------------------------------------------------------------------------------


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
