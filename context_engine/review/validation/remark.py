"""PURE. What a validation has to say: one `Remark` for each thing, known again by what it says and where."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
ID_CHARS = 12
"""48 bits of a hash: one content never has so many remarks that two of them meet."""


class Remark(NamedTuple):
    """One thing. `tier` is 0 for secrets, 1 for what a parser is sure of, 2 for habits; line and column are 0 for the whole."""

    tier: int
    severity: Severity
    category: str
    rule: str
    message: str
    line: int = 0
    column: int = 0
    suggestion: str = ""

    @property
    def order(self) -> tuple[int, int, int, int, str]:
        """Tier by tier, what fails first, then as it stands in the content."""
        return (self.tier, SEVERITIES.index(self.severity), self.line, self.column, self.rule)


class Fault(NamedTuple):
    """What a parser stumbles over. Not `is_sure`: healthy files make it stumble as well."""

    line: int
    column: int
    message: str
    is_sure: bool = True


def line_of(lines: Sequence[str], remark: Remark) -> str:
    """The line that a remark is about, without its indentation; empty for the whole."""
    return lines[remark.line - 1].strip() if 0 < remark.line <= len(lines) else ""


def ids(remarks: Iterable[Remark], lines: Sequence[str]) -> list[str]:
    """An id for each remark that stays the same while its line moves."""
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for remark in remarks:
        key = (remark.rule, line_of(lines, remark))
        said = "\0".join((*key, str(seen[key])))
        seen[key] += 1
        found.append(hashlib.sha1(said.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:ID_CHARS])
    return found


def added(
    then: Iterable[Remark], then_lines: Sequence[str], now: Iterable[Remark], now_lines: Sequence[str]
) -> list[Remark]:
    """Of the remarks on a new version those that the old one had not, whatever line they are on."""
    known = Counter((remark.rule, line_of(then_lines, remark)) for remark in then)
    new = []
    for remark in now:
        key = (remark.rule, line_of(now_lines, remark))
        if known[key]:
            known[key] -= 1
        else:
            new.append(remark)
    return new
