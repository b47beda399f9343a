"""PURE. The nouns of an edit: what is wanted, and where it lands.

They are plain values in their canonical form; what callers may write instead is sorted out in `tools/`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from context_engine.text import LineSpan

MatchType = Literal["exact", "whitespace", "fuzzy"]
SymbolPlace = Literal["replace", "before", "after"]

EXACT, TRAILING, INDENTATION, INNER, BLANK_LINES, DISTANCE = range(6)
"""The grades of a match: the worst way in which a place differs from the target that was found there."""


@dataclass(frozen=True, slots=True)
class Fuzzy:
    """How far a place may differ from the target: in whitespace, and if that is said as well, in a few characters."""

    enabled: bool = True
    distance_max: int = 5
    whitespace_only: bool = True


@dataclass(frozen=True, slots=True)
class Edit:
    """One wanted change: `target` becomes `replacement`.

    `before`, `after` and `line_range` are the anchor: what must stand around the place. `expected_matches` over 1
    replaces that many exact occurrences, if there are exactly so many. `occurrence` is which of them is meant, counted
    from 1; 0 where there must be only one.
    """

    target: str
    replacement: str
    before: str = ""
    after: str = ""
    line_range: LineSpan | None = None
    expected_matches: int = 1
    fuzzy: Fuzzy = field(default_factory=Fuzzy)
    occurrence: int = 0

    @property
    def is_anchored(self) -> bool:
        """Whether anything narrows the place down."""
        return bool(self.before or self.after or self.line_range)


@dataclass(frozen=True, slots=True)
class SymbolEdit:
    """`text` in the place of a definition, before it or after it. `symbol` is its name, as `Class.method` if need be.

    With a `target` only this text inside of the definition is replaced. `line_range` must hold the line of its name; a
    dot before the name means one that is inside of nothing.
    """

    symbol: str
    text: str
    place: SymbolPlace = "replace"
    line_range: LineSpan | None = None
    target: str = ""


@dataclass(frozen=True, slots=True)
class LineEdit:
    """`text` in the place of whole lines; an empty one deletes them. Only safe in a file that is as it was read."""

    lines: LineSpan
    text: str


AnyEdit = Edit | SymbolEdit | LineEdit


class TextMatch(NamedTuple):
    """A place that a target may mean: characters `start` to `stop` of the text with its line ends made equal.

    `twins` are the lines of the file, counted from 0, that the lines of the target with something on them match.
    """

    start: int
    stop: int
    grade: int = EXACT
    distance: int = 0
    twins: tuple[int, ...] = ()


class Patch(NamedTuple):
    """Characters `start` to `stop` of the file's own text become `text`."""

    start: int
    stop: int
    text: str


class Placement(NamedTuple):
    """Where an edit lands: the lines it was found on, the lines that are changed as they count afterwards.

    `edit` counts the edits of a call from 0, `column` characters from 1.
    """

    edit: int
    span: LineSpan
    column: int
    now: LineSpan
    grade: int = EXACT
    distance: int = 0

    @property
    def match_type(self) -> MatchType:
        """How the place was recognised.

        >>> [Placement(0, LineSpan(1, 1), 1, LineSpan(1, 1), grade).match_type for grade in (0, 2, 5)]
        ['exact', 'whitespace', 'fuzzy']
        """
        if self.grade == EXACT:
            return "exact"
        if self.grade == DISTANCE:
            return "fuzzy"
        return "whitespace"
