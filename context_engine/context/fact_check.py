r"""PURE. Checks the items of a second pass against the code: the files, lines and quotes that they name.

An item that names a missing file, missing lines or code that is nowhere is rejected with the reason. An undefined name
is only a warning: a draft may be about to define it.

>>> facts = RepositoryFacts(has_path={"a.py"}.__contains__, text={"a.py": "x = 1\n"}.get)
>>> claims = [Claim("one", "[0]", paths=["a.py"]), Claim("two", "[1]", quotes=[ClaimedQuote("a.py", "x = 2")])]
>>> checked = check_claims(claims, facts)
>>> checked.kept, [item.reason for item in checked.rejected]
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
QUOTE_CHARS_MAX = 80
"""Characters of a quote that is not found, enough to recognize it."""

FindNear = Callable[[str], Sequence[str]]


class ClaimedLines(NamedTuple):
    """Lines `first` to `last` of a file, as an item names them; they may not exist."""

    path: str
    first: int
    last: int


class ClaimedQuote(NamedTuple):
    """Code that an item quotes from a file."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Claim:
    """One item of a draft, its location there, and what it says about the code. `creates` are files to be created."""

    item: Any
    place: str
    paths: Sequence[str] = ()
    creates: Sequence[str] = ()
    symbols: Sequence[str] = ()
    lines: Sequence[ClaimedLines] = ()
    quotes: Sequence[ClaimedQuote] = ()


def _has_any(_: str) -> bool:
    return True


def _find_none(_: str) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True)
class RepositoryFacts:
    """What is known about the code: paths, texts, defined names, and similar names.

    `spans` returns the lines of a file that claims may name, such as those of a diff; None allows the whole file.
    """

    has_path: Callable[[str], bool]
    text: Callable[[str], str | None]
    has_symbol: Callable[[str], bool] = _has_any
    near_paths: FindNear = _find_none
    near_symbols: FindNear = _find_none
    spans: Callable[[str], Sequence[LineSpan]] | None = None


class RejectedItem(NamedTuple):
    """An item that is wrong about the code, its location in the draft, and the reason."""

    item: Any
    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class CheckedClaims:
    """The items that are kept, in their order; the rejected ones; and warnings about those that are kept."""

    kept: tuple[Any, ...]
    rejected: tuple[RejectedItem, ...]
    warnings: tuple[str, ...]


def check_claims(claims: Sequence[Claim], facts: RepositoryFacts) -> CheckedClaims:
    """Return which items hold. A file that one of them creates may be named by all."""
    checker = _ClaimChecker(facts, frozenset(path for claim in claims for path in claim.creates))
    kept: list[Any] = []
    rejected: list[RejectedItem] = []
    warnings: list[str] = []
    for claim in claims:
        reason = next(checker.find_errors(claim), "")
        if reason:
            rejected.append(RejectedItem(claim.item, claim.place, reason))
        else:
            kept.append(claim.item)
            warnings += (f"{claim.place}: {warning}" for warning in checker.find_warnings(claim))
    return CheckedClaims(tuple(kept), tuple(rejected), tuple(dict.fromkeys(warnings)))


def is_inside_workspace(path: str) -> bool:
    """Return whether a path can only be inside the workspace, judged by its text.

    >>> [is_inside_workspace(path) for path in ("src/a.py", "../a.py", "/etc/passwd", "C:/a", "", "a/../../b")]
    [True, False, False, False, False, False]
    """
    parts = path.replace("\\", "/").split("/")
    return bool(path.strip()) and parts[0] != "" and ":" not in parts[0] and ".." not in parts and "\0" not in path


class _ClaimChecker:
    """Checks claims against the facts and the files that are about to be created."""

    def __init__(self, facts: RepositoryFacts, created: frozenset[str]) -> None:
        self._facts = facts
        self._created = created
        self._read_folded = cache(lambda path: _fold_whitespace(facts.text(path) or ""))

    def find_errors(self, claim: Claim) -> Iterator[str]:
        """Yield the reasons to reject an item."""
        named = [*claim.paths, *(lines.path for lines in claim.lines), *(quote.path for quote in claim.quotes)]
        for path in (*claim.creates, *named):
            if not is_inside_workspace(path):
                yield f"{path!r} is not a path inside the workspace"
        for path in named:
            if path not in self._created and not self._facts.has_path(path):
                yield f"there is no {path}{_format_nearest(self._facts.near_paths(path))}"
        for lines in claim.lines:
            yield from self._check_lines(lines)
        for quote in claim.quotes:
            folded = _fold_whitespace(quote.text)
            if folded not in self._read_folded(quote.path):
                yield f"the quoted code is not in {quote.path}: {folded[:QUOTE_CHARS_MAX]}"

    def find_warnings(self, claim: Claim) -> Iterator[str]:
        """Yield warnings about an item that is kept."""
        for name in claim.symbols:
            if not self._facts.has_symbol(name):
                yield f"nothing here defines {name}{_format_nearest(self._facts.near_symbols(name))}"
        for path in claim.creates:
            if self._facts.has_path(path):
                yield f"{path} is to be created and exists"

    def _check_lines(self, lines: ClaimedLines) -> Iterator[str]:
        if not 1 <= lines.first <= lines.last:
            yield f"{lines.first}-{lines.last} is not a range of lines"
            return
        span = LineSpan(lines.first, lines.last)
        if self._facts.spans is not None:
            spans = self._facts.spans(lines.path)
            if not any(allowed.contains(span) for allowed in spans):
                shown = ", ".join(map(str, spans)) or "none"
                yield f"lines {span} of {lines.path} are not in the diff, which has {shown}"
            return
        text = self._facts.text(lines.path)
        if text is not None and span.last > count_lines(text):
            yield f"lines {span} are not in {lines.path}, which has {count_lines(text)}"


def _fold_whitespace(code: str) -> str:
    return re.sub(r"\s+", " ", code).strip()


def _format_nearest(near: Sequence[str]) -> str:
    if near:
        return f"; nearest: {', '.join(near[:NEAR_MAX])}"
    return ""
