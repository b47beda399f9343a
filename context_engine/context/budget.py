r"""PURE. Token budgets: the lines that a budget is spent on.

>>> options = [SnippetOption(0, LineSpan(1, 3), 1.0, True), SnippetOption(1, LineSpan(1, 1), 0.5, True)]
>>> options.append(SnippetOption(1, LineSpan(2, 9), 0.4))
>>> packer = SnippetPacker([FilePrice(2, lambda line: 5), FilePrice(2, lambda line: 5)], room=75)
>>> packer.select_first(options), packer.select_best(options)
(None, None)
>>> [(lines.file, lines.span, lines.price) for lines in packer.selected]
[(0, LineSpan(first=1, last=3), 41), (1, LineSpan(first=1, last=1), 31)]
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, TypeVar

from context_engine.model import Definition
from context_engine.text import LineSpan

_T = TypeVar("_T")

PRICE_POWER = 0.75
"""Long places cost less than their length: with 1.0 small fragments win, with 0 the longest (evals/places)."""
PART_WORTH = 0.75
"""Worth of the lines of a place that have the most of the question (evals/places: flat from 0.6 to 0.8)."""
PART_LINES_MIN = 5
"""Fewer lines of a place say less than its heading."""
PLACE_TOKENS_MIN = 60
"""A budget shows no more places than one for each so many tokens."""
SNIPPET_TOKENS = 24
"""Price of a snippet without its lines: field names, line numbers, symbol and relevance."""
FIT_TRIES = 6
"""Prices predict a reply so well that mostly the second or third try fits."""
FIT_SLACK = 0.03
"""Share of a budget that is not worth another try."""
WHOLE_SYMBOL_SHARE = 0.5
"""A place that contains a definition over this share of its lines is about that definition, and is not widened."""


def count_beginning(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest count up to `most` that fits; a larger one never fits if a smaller one does not.

    >>> count_beginning(9, lambda count: len("x" * count) <= 5)
    5
    """
    return bisect_left(range(1, most + 1), True, key=lambda count: not fits(count))


def fit_budget(build: Callable[[float], _T], excess: Callable[[_T], float], room: float) -> _T | None:
    """Return what uses a budget best, of what is built for one room after the other; None if nothing fits.

    `excess` returns by how much something is over its budget: prices only predict it.
    """
    fitting: _T | None = None
    least, slack = -inf, FIT_SLACK * room
    for _ in range(FIT_TRIES):
        made = build(room)
        over = excess(made)
        if made == fitting:  # there is nothing more to show
            break
        if least < over <= 0:
            least, fitting = over, made
        if -slack <= over <= 0:
            break
        room -= max(over, slack / 2) if over > 0 else over
    return fitting


# -- symbols around a place -------------------------------------------------------------------------------------------


def widen_to_symbol(span: LineSpan, symbols: Sequence[Definition], *, lines_max: int) -> tuple[LineSpan, str]:
    """Return the smallest symbol around a span and its name; (span, "") if the span is complete or that is too long.

    A span is complete if most of it is a whole definition. Part of a long function, or a line that a text search
    found, reads better with the definition around it.
    """
    around = [one for one in symbols if one.span.contains(span) and one.kind != "section" and one.span != span]
    nearest = min(around, key=_by_size, default=None)
    if nearest is None or nearest.span.lines > lines_max:
        return span, ""
    inside = [symbol.span for symbol in symbols if span.contains(symbol.span)]
    is_complete = any(one.lines >= WHOLE_SYMBOL_SHARE * span.lines for one in inside)
    return (span, "") if is_complete else (nearest.span, nearest.qualified)


def find_symbol_at(span: LineSpan, symbols: Sequence[Definition]) -> str:
    """Return the name of the smallest symbol around a span, else of the first one inside; "" if there is none."""
    around = [symbol for symbol in symbols if symbol.span.contains(span)]
    if around:
        return min(around, key=_by_size).qualified
    return next((symbol.qualified for symbol in symbols if span.contains(symbol.span)), "")


def _by_size(symbol: Definition) -> tuple[int, LineSpan, str]:
    return symbol.span.lines, symbol.span, symbol.qualified


# -- lines that are worth their tokens --------------------------------------------------------------------------------


class SnippetOption(NamedTuple):
    """Lines that could be shown, and their worth: the probability that they are needed. `is_first`: best of its file.

    `file` is a number. If it must be cut, it begins at `best_line`. An addition needs other lines of its file.
    """

    file: int
    span: LineSpan
    worth: float
    is_first: bool = False
    best_line: int = 0
    is_addition: bool = False


@dataclass(frozen=True, slots=True)
class FilePrice:
    """Price of a file: `head` once if any of it is shown, and `line` for each line."""

    head: float
    line: Callable[[int], float]
    _spans: dict[LineSpan, float] = field(default_factory=dict, repr=False, compare=False)

    def price_span(self, span: LineSpan, most: float = inf) -> float:
        """Return the price of the lines of a span, or one over `most`; it is asked for several times."""
        if span not in self._spans:
            price = 0
            for number in range(span.first, span.last + 1):
                price += self.line(number)
                if price > most:
                    return price
            self._spans[span] = price
        return self._spans[span]


def order_by_value(options: Iterable[SnippetOption], prices: Sequence[FilePrice]) -> list[SnippetOption]:
    """Return the options by their worth for their price, the best first."""

    def rank(option: SnippetOption) -> tuple[float, int, LineSpan]:
        tokens = SNIPPET_TOKENS + prices[option.file].price_span(option.span)
        return -option.worth / tokens**PRICE_POWER, option.file, option.span

    return sorted(options, key=rank)


class SelectedLines(NamedTuple):
    """Lines that are shown, and what they added to the price."""

    file: int
    span: LineSpan
    price: float


@dataclass(slots=True)
class SnippetPacker:
    """Spends a budget on lines of files; no line is paid twice. `frame` is the price of lines that touch no others.

    `selected` has the order in which they were selected: each of its beginnings is a choice for a smaller budget.
    """

    prices: Sequence[FilePrice]
    room: float
    frame: float = SNIPPET_TOKENS
    selected: list[SelectedLines] = field(default_factory=list)
    shown: dict[int, set[int]] = field(default_factory=dict)  # file -> the numbers of its lines

    def select_first(self, options: Iterable[SnippetOption]) -> None:
        """Select the best place of the best file, or the part of it that fits."""
        first = min((option for option in options if option.is_first), key=lambda option: option.file, default=None)
        if first and not self.select(first.file, first.span):
            self._select_from_best(first)

    def select_best(self, options: Iterable[SnippetOption]) -> None:
        """Select the other places, and a cut one as a whole, while there is room. They come `order_by_value`."""
        for option in options:
            if option.file in self.shown or not option.is_addition:
                self.select(option.file, option.span)

    def fill(self, options: Iterable[SnippetOption], *, shortest: int = 1) -> None:
        """Select parts of places that do not fit, from their best lines on, while there is room for a frame."""
        for option in options:
            if self.room < self.frame:
                return
            if not option.is_addition and not self.includes(option.file, option.span):
                self._select_from_best(option, shortest)

    def select(self, file: int, span: LineSpan, *, label: float = 0) -> bool:
        """Show lines and a label, which has a price of its own; return False if they do not fit or add nothing."""
        price = self._price(file, span, label)
        if not 0 < price <= self.room:
            return False
        self._show(file, span, price)
        return True

    def select_beginning(
        self, file: int, span: LineSpan, *, label: float = 0, least: int = 0, shortest: int = 1
    ) -> int:
        """Show the lines that fit, at least `least`; return the last one, 0 if fewer than `shortest` fit."""
        price, shown = self.prices[file], self.shown.get(file, ())
        left = self.room - self._price_around(file, span) - label
        stop = span.first
        while stop <= span.last:
            left -= 0 if stop in shown else price.line(stop)
            if left < 0 and stop >= span.first + least:
                break
            stop += 1
        if stop - span.first < max(1, min(shortest, span.lines)):
            return 0
        part = LineSpan(span.first, stop - 1)
        self._show(file, part, self._price(file, part, label))
        return part.last

    def includes(self, file: int, span: LineSpan) -> bool:
        """Return whether all lines of a span are shown."""
        return self.shown.get(file, set()).issuperset(range(span.first, span.last + 1))

    def _select_from_best(self, option: SnippetOption, shortest: int = 1) -> None:
        span = LineSpan(max(option.best_line, option.span.first), option.span.last)
        self.select_beginning(option.file, span, shortest=shortest)

    def _show(self, file: int, span: LineSpan, price: float) -> None:
        self.selected.append(SelectedLines(file, span, price))
        self.room -= price
        self.shown.setdefault(file, set()).update(range(span.first, span.last + 1))

    def _price(self, file: int, span: LineSpan, label: float) -> float:
        """Return what lines and their label would add, or a price over the room."""
        if self.includes(file, span):
            return label
        price, shown = self.prices[file], self.shown.get(file, set())
        lines = range(span.first, span.last + 1)
        if shown.isdisjoint(lines):
            added = price.price_span(span, self.room)
        else:
            added = sum(price.line(line) for line in lines if line not in shown)
        return self._price_around(file, span) + label + added

    def _price_around(self, file: int, span: LineSpan) -> float:
        """Return the price of the header of a file that is not shown yet, and of a frame if no line next to it is."""
        shown = self.shown.get(file, set())
        head = 0 if shown else self.prices[file].head
        return head + (self.frame if shown.isdisjoint(range(span.first - 1, span.last + 2)) else 0)
