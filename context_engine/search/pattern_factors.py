r"""PURE. The texts that a line must contain to match a pattern, as far as the pattern shows them.

>>> factors_of(r"def \w+_timeout\("), factors_of("TODO|FIXME"), factors_of("colou?rs")
(And(parts=('_timeout(', 'def ')), Or(parts=('fixme', 'todo')), 'colo')
>>> factors_of("[a-z]+"), factors_of("(?x) a b")
(None, None)

Texts are in lower case and of ASCII alone: an index of them serves searches with and without regard to case. A text of
three characters is the least that counts. Nothing is taken from groups, and syntax that is not known here has no
factors, so nothing is left out for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

GRAM = 3
"""The length of the texts that an index lists."""
REPEAT_MAX = 1_000
"""A larger bound of a repetition may be refused by the matcher, which must see the pattern then."""

_TOKEN = re.compile(
    r"(?s)(?P<place>[\^$]|\\[bB](?!\{))"
    r"|(?P<any>\.|\\[dDwWsStfva]|\[\^?(?:\\.|[^]\\\[&~^-])(?:\\.|[^]\\\[&~]){0,200}+\])"
    r"|\\(?P<escaped>[!-/:;=?@\[-^`{-~])"
    r"|(?P<open>\((?:\?(?::|P?<\w{1,40}>))?(?!\?))|(?P<close>\))|(?P<choice>\|)"
    r"|(?P<times>[*+?]|\{(?P<least>\d{1,4})(?P<most>,\d{0,4})?\})\??(?![*+?{])"
    r"|(?P<literal>[^\\\[\]{}()*+?|^$.])"
)


@dataclass(frozen=True, slots=True)
class And:
    """Every part must be there."""

    parts: tuple[Factor, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One of the parts must be there."""

    parts: tuple[Factor, ...]


Factor = str | And | Or


def factors_of(pattern: str) -> Factor | None:
    """Return what a matching line contains, in the syntax of Rust's `regex`; None where nothing is known."""
    branches = _read_branches(pattern.removeprefix("(?i)"))
    if not branches:
        return None
    return any_of(_join(And, {run for run in runs if len(run) >= GRAM}) for runs in branches)


def factors_of_text(text: str) -> Factor | None:
    """Return what a line that contains this text contains.

    >>> factors_of_text("Größe: x = 1"), factors_of_text("ab")
    ('e: x = 1', None)
    """
    pieces = "".join(char if char.isascii() else "\0" for char in text).split("\0")
    return _join(And, {piece.lower() for piece in pieces if len(piece) >= GRAM})


def any_of(factors: Iterable[Factor | None]) -> Factor | None:
    """Return the factors of a search for several things, of which one is enough; None if one has none."""
    parts: set[Factor] = set()
    for factor in factors:
        if factor is None:
            return None
        parts.update(factor.parts if isinstance(factor, Or) else [factor])
    return _join(Or, parts)


def _join(kind: type[And | Or], parts: Iterable[Factor]) -> Factor | None:
    ordered = sorted(parts, key=repr)
    if len(ordered) < 2:
        return next(iter(ordered), None)
    return kind(tuple(ordered))


def _read_branches(pattern: str) -> list[list[str]]:
    """Return the texts of each choice, in lower case; nothing for a pattern with unknown syntax."""
    branches, depth, at, before = [[""]], 0, 0, ""
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        kind = token.lastgroup if token else None
        if token is None or kind is None:
            return []
        kind = "times" if token["times"] else kind
        depth += (kind == "open") - (kind == "close")
        char = token["literal"] or token["escaped"] or ""
        runs = branches[-1]
        if depth < 0 or (kind == "times" and (not _is_sure(token) or before in ("", "open", "choice", "place"))):
            return []
        if depth or kind in ("close", "any", "place"):
            runs.append("")
        elif kind == "choice":
            branches.append([""])
        elif kind == "times":
            if before in ("literal", "escaped") and not (token["times"] == "+" or int(token["least"] or 0)):
                runs[-1] = runs[-1][:-1]
            runs.append("")
        elif char.isascii():
            runs[-1] += char.lower()
        else:
            runs.append("")
        at, before = token.end(), kind
    return [] if depth else branches


def _is_sure(times: re.Match[str]) -> bool:
    """Return whether every matcher takes a repetition."""
    least, most = int(times["least"] or 0), (times["most"] or "").removeprefix(",")
    return max(least, int(most or least)) <= REPEAT_MAX and least <= int(most or least)
