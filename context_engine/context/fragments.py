r"""PURE. Parts of files worth reading: what was asked for, where it stands, and which of it fits a budget of tokens.

Something asked for - lines, a symbol, a pattern, a keyword - has a `Place` in a file, or many. Places are taken in the
order of their importance for as long as they fit: lines that were named come first, then symbols, then what patterns
and keywords found, the rarer before the more common. What has no room is named, never just gone.

>>> text = ["def a():", "    pass", "", "", "def b():", "    return salt"]
>>> found = select_fragments([*find_keyword_places(0, text, "SALT"), FragmentPlace("lines", "1", 0, LineSpan(1, 1))], [FragmentBody(text)])
>>> [(fragment.span, [place.label for place in fragment.places]) for fragment in found.fragments]
[(LineSpan(first=1, last=1), ['lines 1']), (LineSpan(first=6, last=6), ['keyword SALT'])]
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from context_engine.errors import InvalidArgument, InvalidLineRange
from context_engine.model import Definition
from context_engine.text import LineSpan, estimate_tokens, group_spans, shorten_line

FragmentKind = Literal["lines", "symbol", "pattern", "keyword"]
IMPORTANCE: tuple[FragmentKind, ...] = ("lines", "symbol", "pattern", "keyword")
"""What was named exactly comes before what was searched for."""
FOUND = ("pattern", "keyword")
LABEL_CHARS_MAX = 60
"""Of a long pattern its beginning is enough to know it by."""
NO_LIMIT = 1 << 60


class FragmentPlace(NamedTuple):
    """Where something that was asked for stands.

    `file` counts the files of the call; `column` matters on long lines.
    """

    kind: FragmentKind
    word: str
    file: int
    span: LineSpan
    column: int = 1

    @property
    def label(self) -> str:
        """What it was found for, in words."""
        return f"{self.kind} {shorten_line(self.word, 0, LABEL_CHARS_MAX)}"


class Fragment(NamedTuple):
    """Lines of one file to be shown, and the places they are shown for."""

    file: int
    span: LineSpan
    places: tuple[FragmentPlace, ...]


@dataclass(frozen=True, slots=True)
class FragmentSelection:
    """The fragments that fit, in the order of files and lines; the places that do not, most important first.

    At most one place is `cut`: it is shown from its first line on, and goes on at `next_line`.
    """

    fragments: tuple[Fragment, ...]
    dropped: tuple[FragmentPlace, ...] = ()
    cut: FragmentPlace | None = None
    next_line: int = 0


@dataclass(frozen=True, slots=True)
class FragmentBody:
    """A file's lines as they are shown, without line feeds; `head` is what showing any of them costs, in tokens."""

    lines: Sequence[str]
    head: int = 0

    def cost(self, line: int) -> int:
        """What a line costs in tokens, its line feed included."""
        return estimate_tokens(self.lines[line - 1] + "\n")


# -- what fits --------------------------------------------------------------------------------------------------------


def select_fragments(
    places: Iterable[FragmentPlace], bodies: Sequence[FragmentBody], *, context: int = 0, tokens_max: int = NO_LIMIT
) -> FragmentSelection:
    """Take places with `context` lines around each, the most important first, while they fit.

    What does not fit with its context is taken without, and cut where the room ends; the very first shows a line
    whatever it costs. After a place that was cut or dropped no other line is taken.
    """
    taking = _Taking(bodies, context, tokens_max)
    for place in sort_by_importance(places):
        taking.take(place)
    return FragmentSelection(tuple(taking.fragments()), tuple(taking.dropped), taking.cut, taking.next_line)


def sort_by_importance(places: Iterable[FragmentPlace]) -> list[FragmentPlace]:
    """By kind; of what was searched for, the rarer first; else in the order given."""
    listed = list(places)
    counts = Counter((place.kind, place.word) for place in listed)

    def rank(place: FragmentPlace) -> tuple[int, int]:
        rarity = counts[place.kind, place.word] if place.kind in FOUND else 0
        return IMPORTANCE.index(place.kind), rarity

    return sorted(listed, key=rank)


@dataclass(slots=True)
class _Taking:
    """A budget while it is being spent. `shown` holds the lines taken so far, by file."""

    bodies: Sequence[FragmentBody]
    context: int
    room: int
    shown: dict[int, set[int]] = field(default_factory=dict)
    kept: list[tuple[FragmentPlace, LineSpan]] = field(default_factory=list)
    dropped: list[FragmentPlace] = field(default_factory=list)
    cut: FragmentPlace | None = None
    next_line: int = 0

    def take(self, place: FragmentPlace) -> None:
        """Keep a place, cut it, or drop it; one behind the end of its file is none."""
        last_line = len(self.bodies[place.file].lines)
        own, wide = place.span.clip(last_line), place.span.expand(self.context).clip(last_line)
        if own is None or wide is None:
            return
        is_full = bool(self.dropped) or self.cut is not None
        if not is_full and self._keep(place, wide):
            return
        if self._is_shown(place.file, own):
            self._keep(place, own)  # costs its name only; without room for that its lines are there all the same
        elif is_full or not self._begin(place, own):
            self.dropped.append(place)

    def _keep(self, place: FragmentPlace, span: LineSpan) -> bool:
        """Take all of a span; False when it does not fit."""
        price, stop = self._priced(place, span)
        if stop <= span.last:
            return False
        self._show(place, span, price)
        return True

    def _begin(self, place: FragmentPlace, own: LineSpan) -> bool:
        """Take the lines of a place that fit, the very first line in any case; False when there is none."""
        price, stop = self._priced(place, own)
        if stop == own.first and self.kept:
            return False
        last = max(own.first, stop - 1)
        self._show(place, LineSpan(own.first, last), price)
        if last < own.last:
            self.cut, self.next_line = place, last + 1
        return True

    def _show(self, place: FragmentPlace, span: LineSpan, price: int) -> None:
        self.kept.append((place, span))
        self.shown.setdefault(place.file, set()).update(range(span.first, span.last + 1))
        self.room -= price

    def _priced(self, place: FragmentPlace, span: LineSpan) -> tuple[int, int]:
        """(price, stop): what the lines before `stop` cost, the first that does not fit; behind the span, all do."""
        body, shown = self.bodies[place.file], self.shown.get(place.file, set())
        price = estimate_heading(place) + (0 if shown else body.head)
        for line in range(span.first, span.last + 1):
            more = 0 if line in shown else body.cost(line)
            if price + more > self.room:
                return price, line
            price += more
        return price, span.last + 1

    def _is_shown(self, file: int, span: LineSpan) -> bool:
        shown = self.shown.get(file, set())
        return all(line in shown for line in range(span.first, span.last + 1))

    def fragments(self) -> Iterator[Fragment]:
        """What was kept, by file and line, joined where it meets."""
        for file in sorted(self.shown):
            kept = [(place, span) for place, span in self.kept if place.file == file]
            for joined in group_spans([span for _, span in kept]):
                yield Fragment(file, joined.span, tuple(kept[number][0] for number in joined.members))


def estimate_heading(place: FragmentPlace) -> int:
    """What the head of a fragment costs for a place: two line numbers, its label, where exactly it stands."""
    return estimate_tokens(
        f"@@ {place.span.first}-{place.span.last} · {place.label} {place.span.first}-{place.span.last}\n"
    )


# -- where it stands --------------------------------------------------------------------------------------------------


def find_keyword_places(file: int, lines: Iterable[str], word: str) -> list[FragmentPlace]:
    """Each line that holds a word as it is spelled; upper and lower case do not count."""
    wanted = word.casefold()
    columns = ((number, line.casefold().find(wanted) + 1) for number, line in enumerate(lines, 1))
    return [
        FragmentPlace("keyword", word, file, LineSpan(number, number), column) for number, column in columns if column
    ]


_RANGE = re.compile(r"(\d+)|(\d*) *- *(\d*)")
RANGE_CHARS_MAX = 40
"""Two line numbers and blanks; more digits than that count nothing."""


def parse_line_range(text: str, last_line: int) -> LineSpan:
    """A range as people write it; an open end is the end of the file.

    >>> parse_line_range("10-20", 90), parse_line_range("7", 90), parse_line_range("80-", 90), parse_line_range("-3", 90)
    (LineSpan(first=10, last=20), LineSpan(first=7, last=7), LineSpan(first=80, last=90), LineSpan(first=1, last=3))

    Raises: InvalidArgument for what is no range, InvalidLineRange for one that is empty.
    """
    match = _RANGE.fullmatch(text.strip()) if len(text) <= RANGE_CHARS_MAX else None
    if match is None or not any(match.groups()):
        raise InvalidArgument(
            f"{text[:RANGE_CHARS_MAX]!r} is no range of lines", suggestion='Write "10-20", "7" or "90-".'
        )
    alone, begin, end = match.groups()
    first = int(alone or begin or 1)
    last = int(alone or end or max(first, last_line))
    if not 1 <= first <= last:
        raise InvalidLineRange(f"no lines are {text.strip()}", suggestion="Lines count from 1; write the lower first.")
    return LineSpan(first, last)


def match_symbols(symbols: Iterable[Definition], asked: str) -> list[Definition]:
    """The symbols a name means: spelled so, plain or qualified; failing that, in upper or lower case."""
    listed = list(symbols)
    wanted = {f".{asked.strip()}", "." + asked.replace("::", ".").replace("#", ".").strip(". ").removesuffix("()")}
    exact = [each for each in listed if f".{each.qualified}".endswith(tuple(wanted))]
    folded = tuple(each.casefold() for each in wanted)
    return exact or [each for each in listed if f".{each.qualified}".casefold().endswith(folded)]


def suggest_symbols(symbols: Iterable[Definition], asked: str) -> list[str]:
    """The names that come closest to one that is not there."""
    names = {each.name.casefold(): each.qualified for each in symbols}
    wanted = re.split(r"[.:#]", asked.removesuffix("()"))[-1].casefold()
    return [names[close] for close in difflib.get_close_matches(wanted, names, NEAR_MAX)]


NEAR_MAX = 3
"""More guesses than this cost more to read than to ask again."""


def shorten_lines(lines: Sequence[str], places: Iterable[FragmentPlace], chars_max: int) -> list[str]:
    """The lines with the long ones cut around the most important place on them."""
    columns = {place.span.first: place.column for place in reversed(sort_by_importance(places))}
    return [shorten_line(line, columns.get(number, 1) - 1, chars_max) for number, line in enumerate(lines, 1)]
