r"""PURE. Check what the items of a draft say about the code: paths, lines, quotes, names.

>>> facts = RepositoryFacts(has_path={"a.py"}.__contains__, text={"a.py": "x = 1\n"}.get)
>>> checked = check_claims([Claim("one", "[0]", ["a.py"]), Claim("two", "[1]", ["b.py"])], facts)
>>> checked.kept, [(item.place, item.reason) for item in checked.rejected]
(('one',), [('[1]', 'there is no b.py')])
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


class ClaimedLines(NamedTuple):
    """Lines `first` to `last` of a file, as an item names them; they may not exist."""

    path: str
    first: int
    last: int


class ClaimedQuote(NamedTuple):
    """Code that an item quotes from a file."""

    path: str
    text: str


class Claim(NamedTuple):
    """One item of a draft, its location there, and what it says about the code. `creates` are files to be created."""

    item: Any
    place: str
    paths: Sequence[str] = ()
    creates: Sequence[str] = ()
    symbols: Sequence[str] = ()
    lines: Sequence[ClaimedLines] = ()
    quotes: Sequence[ClaimedQuote] = ()


@dataclass(frozen=True, slots=True)
class RepositoryFacts:
    """What is known about the code: paths, texts, defined names, and similar names.

    `spans` returns the lines of a file that claims may name, such as those of a diff; None allows the whole file.
    """

    has_path: Callable[[str], bool]
    text: Callable[[str], str | None]
    has_symbol: Callable[[str], bool] = lambda _name: True
    near_paths: Callable[[str], Sequence[str]] = lambda _path: ()
    near_symbols: Callable[[str], Sequence[str]] = lambda _name: ()
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
    created = frozenset(path for claim in claims for path in claim.creates)
    read_folded = cache(lambda path: _fold_whitespace(facts.text(path) or ""))
    kept: list[Any] = []
    rejected: list[RejectedItem] = []
    warnings: list[str] = []
    for claim in claims:
        if reason := next(_find_errors(claim, facts, created, read_folded), ""):
            rejected.append(RejectedItem(claim.item, claim.place, reason))
        else:
            kept.append(claim.item)
            warnings += (f"{claim.place}: {warning}" for warning in _find_warnings(claim, facts))
    return CheckedClaims(tuple(kept), tuple(rejected), tuple(dict.fromkeys(warnings)))


def is_inside_workspace(path: str) -> bool:
    """Return whether a path can only be inside the workspace, judged by its text.

    >>> [is_inside_workspace(path) for path in ("src/a.py", "../a.py", "/etc/passwd", "C:/a", "", "a/../../b")]
    [True, False, False, False, False, False]
    """
    parts = path.replace("\\", "/").split("/")
    return bool(path.strip()) and parts[0] != "" and ":" not in parts[0] and ".." not in parts and "\0" not in path


def _find_errors(
    claim: Claim, facts: RepositoryFacts, created: frozenset[str], read_folded: Callable[[str], str]
) -> Iterator[str]:
    named = [*claim.paths, *(lines.path for lines in claim.lines), *(quote.path for quote in claim.quotes)]
    for path in (*claim.creates, *named):
        if not is_inside_workspace(path):
            yield f"{path!r} is not a path inside the workspace"
    for path in named:
        if path not in created and not facts.has_path(path):
            yield f"there is no {path}{_format_nearest(facts.near_paths(path))}"
    for path, first, last in claim.lines:
        if 1 <= first <= last:
            yield from _check_lines(path, LineSpan(first, last), facts)
        else:
            yield f"{first}-{last} is not a range of lines"
    for path, text in claim.quotes:
        folded = _fold_whitespace(text)
        if folded not in read_folded(path):
            yield f"the quoted code is not in {path}: {folded[:QUOTE_CHARS_MAX]}"


def _check_lines(path: str, span: LineSpan, facts: RepositoryFacts) -> Iterator[str]:
    if facts.spans is not None:
        spans = facts.spans(path)
        if not any(allowed.contains(span) for allowed in spans):
            yield f"lines {span} of {path} are not in the diff, which has {', '.join(map(str, spans)) or 'none'}"
        return
    text = facts.text(path)
    if text is not None and span.last > count_lines(text):
        yield f"lines {span} are not in {path}, which has {count_lines(text)}"


def _find_warnings(claim: Claim, facts: RepositoryFacts) -> Iterator[str]:
    for name in claim.symbols:
        if not facts.has_symbol(name):
            yield f"nothing here defines {name}{_format_nearest(facts.near_symbols(name))}"
    for path in claim.creates:
        if facts.has_path(path):
            yield f"{path} is to be created and exists"


def _fold_whitespace(code: str) -> str:
    return re.sub(r"\s+", " ", code).strip()


def _format_nearest(near: Sequence[str]) -> str:
    return f"; nearest: {', '.join(near[:NEAR_MAX])}" if near else ""
