r"""PURE. A budget of tokens: what a text costs at most, and which lines of which files are worth it.

>>> estimate_max_tokens("def login(user): ..."), estimate_max_tokens("")
(7, 0)
>>> wanted = [SnippetOption(0, LineSpan(1, 3), 1.0, True), SnippetOption(1, LineSpan(1, 1), 0.5, True), SnippetOption(1, LineSpan(2, 9), 0.4)]
>>> packing = SnippetPacker([FilePrice(2, lambda line: 5), FilePrice(2, lambda line: 5)], room=75)
>>> packing.select_first_places(wanted), packing.select_best(wanted)
(None, None)
>>> [(each.file, each.span, each.price) for each in packing.selected]
[(0, LineSpan(first=1, last=3), 41), (1, LineSpan(first=1, last=1), 31)]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from context_engine.text import LineSpan, merge_spans

TokenCounter = Callable[[str], int]
"""Tokens of a text: of the tokenizer that reads it, or at most."""

FIRST_TOKENS_MIN = 120
"""With less room for each file fewer files are begun: a line of each would tell nothing of any."""
SNIPPET_TOKENS = 24
"""What a snippet costs beside its lines: the names of its fields, its lines, its symbol, its relevance."""

# -- what a text costs ------------------------------------------------------------------------------------------------

_PIECES = re.compile(
    r"(?P<noise>(?=[\w+/=]{0,40}[0-9])(?=[\w+/=]{0,40}[a-z])(?=[\w+/=]{0,40}[A-Z])[A-Za-z0-9+/=]{24,256})"
    r"|(?P<hex>\b[0-9a-f]{16,256}\b)"
    r"|(?P<word>[^\r\nA-Za-z0-9\x80-\U0010ffff]?(?:[A-Z]*[a-z]+|[A-Z]+))"
    r"|(?P<number>[0-9]{1,3})"
    r"|(?P<marks> ?[!-/:-@\[-`{-~]+)"
    r"|(?P<foreign>[^\x00-\x7f]+)"
    r"|\s+"
)
"""How the tokenizers of today's models cut a text before they look anything up, with what no vocabulary holds: keys,
hashes."""
SHORT_WORD_CHARS = 4
LETTER = 0.2
"""Each further letter of a word adds this, for the words that are no token of their own."""
NOISE, HEX = 0.75, 0.62
"""Tokens a character of base64 and of hexadecimal digits."""
SAFETY = 1.1
"""With it, 97 of 100 snippets of 40 lines out of three repositories cost less in o200k, half of them 14 % less; bytes /
3.6 says too little for most (docs/decisions/0027)."""


def estimate_max_tokens(text: str) -> int:
    """Tokens that a text costs at most, near enough to promise a budget; it needs no tokenizer and knows no vocabulary."""
    return ceil(SAFETY * sum(_cost(piece) for piece in _PIECES.finditer(text)))


def _cost(piece: re.Match[str]) -> float:
    shown = piece.group()
    match piece.lastgroup:
        case "noise":
            return NOISE * len(shown)
        case "hex":
            return HEX * len(shown)
        case "word":
            return 1 + LETTER * max(0, len(shown) - (not shown[0].isalnum()) - SHORT_WORD_CHARS)
        case "marks":
            return max(1.0, len(shown) / 2)
        case "foreign":
            return sum(_foreign(character) for character in shown)
    return 1.0


def _foreign(character: str) -> float:
    """Letters of Europe and its neighbours, the other scripts, and what needs four bytes."""
    return 1.0 if character < "\u0800" else 1.5 if character < "\U00010000" else 2.5


# -- which lines are worth it -----------------------------------------------------------------------------------------


class SnippetOption(NamedTuple):
    """Lines that could be shown and what they are worth; a file's first one is shown before any file shows a second.

    `file` counts the files from the most relevant one. What must be cut begins `at` its most telling line.
    """

    file: int
    span: LineSpan
    worth: float
    is_first: bool = False
    at: int = 0


class FilePrice(NamedTuple):
    """What a file costs in tokens: `head` for showing any of it, `line` for each of its lines."""

    head: int
    line: Callable[[int], int]

    def of(self, span: LineSpan) -> int:
        """What the lines of a span cost."""
        return sum(self.line(number) for number in range(span.first, span.last + 1))


class SelectedLines(NamedTuple):
    """Lines that are to be shown, and what they added to the price."""

    file: int
    span: LineSpan
    price: int


@dataclass(slots=True)
class SnippetPacker:
    """A room while it is being spent: the first places of all files, whatever else is bought, then what brings most.

    `taken` is in the order of importance: any beginning of it is a good choice for a smaller room.
    """

    prices: Sequence[FilePrice]
    room: int
    selected: list[SelectedLines] = field(default_factory=list)
    shown: dict[int, list[LineSpan]] = field(default_factory=dict)  # joined where they meet

    def select_first_places(self, options: Iterable[SnippetOption]) -> None:
        """The first place of each file, in the order of files, cut where its share of the room ends: the best has most."""
        firsts = sorted((each for each in options if each.is_first), key=lambda each: each.file)
        del firsts[max(1, self.room // FIRST_TOKENS_MIN) :]
        for number, option in enumerate(firsts):
            self._begin(option, 2 * self.room // (len(firsts) - number + 1))

    def select_best(self, options: Iterable[SnippetOption]) -> None:
        """All other places, and what was cut, the greatest worth for a token first; a file that shows nothing by its best."""
        for option in sorted(options, key=self._rank):
            self._take(option)

    def _rank(self, option: SnippetOption) -> tuple[float, int, LineSpan]:
        return -option.worth / (SNIPPET_TOKENS + self.prices[option.file].of(option.span)), option.file, option.span

    def _take(self, option: SnippetOption) -> None:
        """All of an option, if it fits and its file has begun or begins with it."""
        price = self._price(option.file, option.span)
        if (option.is_first or option.file in self.shown) and 0 < price <= self.room:
            self._show(SelectedLines(option.file, option.span, price))

    def _begin(self, option: SnippetOption, share: int) -> None:
        """An option as far as its share goes; nothing when that is not even a line."""
        left = share - self._price(option.file, None)
        fits = self.prices[option.file].of(option.span) <= left
        first = option.span.first if fits else max(option.at, option.span.first)
        last = first - 1
        while last < option.span.last and (left := left - self.prices[option.file].line(last + 1)) >= 0:
            last += 1
        if last >= first:
            span = LineSpan(first, last)
            self._show(SelectedLines(option.file, span, self._price(option.file, span)))

    def _show(self, taken: SelectedLines) -> None:
        self.selected.append(taken)
        self.room -= taken.price
        self.shown[taken.file] = merge_spans([*self.shown.get(taken.file, []), taken.span])

    def _price(self, file: int, span: LineSpan | None) -> int:
        """What showing a span would add; without one, what showing anything of a file adds."""
        shown, price = self.shown.get(file, []), self.prices[file]
        head = 0 if shown else price.head
        if span is None:
            return head + SNIPPET_TOKENS
        if any(each.contains(span) for each in shown):
            return 0
        new = (number for number in range(span.first, span.last + 1) if not any(_has(each, number) for each in shown))
        frame = 0 if any(each.touches(span) for each in shown) else SNIPPET_TOKENS
        return head + frame + sum(price.line(number) for number in new)


def _has(span: LineSpan, line: int) -> bool:
    return span.first <= line <= span.last
