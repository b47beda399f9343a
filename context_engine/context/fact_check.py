r"""PURE. What comes back from a second pass must be true: what its items say of the code is held against the code.

An item that names a file that is not there, lines that are not there or code that stands nowhere is set aside with its
reason. A name that nobody defines is only told of: a draft may be about to define it.

>>> facts = RepositoryFacts(has_path={"a.py"}.__contains__, text={"a.py": "x = 1\n"}.get)
>>> found = check_claims([Claim("one", "[0]", paths=["a.py"]), Claim("two", "[1]", quotes=[ClaimedQuote("a.py", "x = 2")])], facts)
>>> found.kept, [each.reason for each in found.rejected]
(('one',), ['the quoted code is not in a.py: x = 2'])
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from context_engine.text import LineSpan, count_lines

NEAR_MAX = 3
SHOWN_CHARS_MAX = 80
"""Of a quote that is nowhere: enough to know which one is meant."""

Near = Callable[[str], Sequence[str]]


class ClaimedLines(NamedTuple):
    """Lines `first` to `last` of a file, as an item names them: they may be none."""

    path: str
    first: int
    last: int


class ClaimedQuote(NamedTuple):
    """Code that an item quotes out of a file."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Claim:
    """One item of a draft, its place there, and all that it says of the code.

    `creates` are files that it wants made.
    """

    item: Any
    place: str
    paths: Sequence[str] = ()
    creates: Sequence[str] = ()
    symbols: Sequence[str] = ()
    lines: Sequence[ClaimedLines] = ()
    quotes: Sequence[ClaimedQuote] = ()


def _anything(_: str) -> bool:
    return True


def _nothing(_: str) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class RepositoryFacts:
    """The facts: which paths there are, a file's text, which names are defined, and what comes near.

    `spans` are the lines of a file that may be spoken of, as those of a diff; without it all that the file has.
    """

    has_path: Callable[[str], bool]
    text: Callable[[str], str | None]
    has_symbol: Callable[[str], bool] = _anything
    near_paths: Near = _nothing
    near_symbols: Near = _nothing
    spans: Callable[[str], Sequence[LineSpan]] | None = None


class RejectedItem(NamedTuple):
    """An item that does not stand, where it stood in the draft, and why not."""

    item: Any
    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class CheckedClaims:
    """The items that stand, in their order; those that do not; and what is to be said of those that do."""

    kept: tuple[Any, ...]
    rejected: tuple[RejectedItem, ...]
    warnings: tuple[str, ...]


def check_claims(claims: Sequence[Claim], ground: RepositoryFacts) -> CheckedClaims:
    """Which items stand. A file that one of them creates may be named by all."""
    known = _Known(ground, frozenset(path for claim in claims for path in claim.creates))
    kept: list[Any] = []
    rejected: list[RejectedItem] = []
    warnings: list[str] = []
    for claim in claims:
        reason = next(known.objections(claim), "")
        if reason:
            rejected.append(RejectedItem(claim.item, claim.place, reason))
        else:
            kept.append(claim.item)
            warnings += (f"{claim.place}: {doubt}" for doubt in known.doubts(claim))
    return CheckedClaims(tuple(kept), tuple(rejected), tuple(dict.fromkeys(warnings)))


def is_inside_workspace(path: str) -> bool:
    """Whether a path is written so that it can only lie in the workspace.

    >>> [is_inside_workspace(path) for path in ("src/a.py", "../a.py", "/etc/passwd", "C:/a", "", "a/../../b")]
    [True, False, False, False, False, False]
    """
    parts = path.replace("\\", "/").split("/")
    return bool(path.strip()) and parts[0] != "" and ":" not in parts[0] and ".." not in parts and "\0" not in path


class _Known:
    """The facts, and the files that are about to be made."""

    def __init__(self, ground: RepositoryFacts, created: frozenset[str]) -> None:
        self._ground = ground
        self._created = created
        self._keyed = cache(lambda path: _key(ground.text(path) or ""))

    def objections(self, claim: Claim) -> Iterator[str]:
        """Why an item does not stand, if it does not."""
        for path in (*claim.creates, *claim.paths, *(each.path for each in (*claim.lines, *claim.quotes))):
            if not is_inside_workspace(path):
                yield f"{path!r} is no path inside the workspace"
        for path in (*claim.paths, *(each.path for each in (*claim.lines, *claim.quotes))):
            if path not in self._created and not self._ground.has_path(path):
                yield f"there is no {path}{_nearest(self._ground.near_paths(path))}"
        for lines in claim.lines:
            yield from self._about_lines(lines)
        for quote in claim.quotes:
            yield from self._about_quote(quote)

    def doubts(self, claim: Claim) -> Iterator[str]:
        """What is to be said of an item that stands."""
        for name in claim.symbols:
            if not self._ground.has_symbol(name):
                yield f"nobody defines {name}{_nearest(self._ground.near_symbols(name))}"
        for path in claim.creates:
            if self._ground.has_path(path):
                yield f"{path} is to be created and exists"

    def _about_lines(self, lines: ClaimedLines) -> Iterator[str]:
        if not 1 <= lines.first <= lines.last:
            yield f"{lines.first}-{lines.last} are no lines"
            return
        span = LineSpan(lines.first, lines.last)
        if self._ground.spans is not None:
            spans = self._ground.spans(lines.path)
            if not any(each.contains(span) for each in spans):
                there = ", ".join(map(str, spans)) or "none"
                yield f"lines {span} of {lines.path} are not in the diff, which has {there}"
        elif (text := self._ground.text(lines.path)) is not None and span.last > count_lines(text):
            yield f"lines {span} are not in {lines.path}, which has {count_lines(text)}"

    def _about_quote(self, quote: ClaimedQuote) -> Iterator[str]:
        if _key(quote.text) not in self._keyed(quote.path):
            yield f"the quoted code is not in {quote.path}: {_key(quote.text)[:SHOWN_CHARS_MAX]}"


def _key(code: str) -> str:
    """Code with each run of whitespace made one space."""
    return re.sub(r"\s+", " ", code).strip()


def _nearest(near: Sequence[str]) -> str:
    return f"; nearest: {', '.join(near[:NEAR_MAX])}" if near else ""
