"""Checks: each is declared in `checks.toml`, and has a query, a pattern of lines, or a function.

@check("conflict-marker")
def conflict_marker(source: FileVersion) -> Iterator[Finding]: ...
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from context_engine.model import FROM_RULE, Finding
from context_engine.review.finding import Category
from context_engine.text import LineSpan

if TYPE_CHECKING:
    from context_engine.languages import Capture, CaptureMatch
    from context_engine.review.source_versions import FileVersion

CheckKind = Literal["text", "file", "change"]
Run = Callable[..., Iterable[Finding]]
"""Takes a FileVersion (text), a ReviewedFile (file), or all files of a change and the tree around them (change)."""


class Check(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A check as it is declared, and the function that looks for it.

    `languages` are the families it understands; none means every file, and with `code` every program. `paths`
    and `text` are patterns of files that it reads, `mentions` words of which one must be there. With `in_tests` it runs
    in tests, too. With `needs_whole` it needs the file, not only hunks; `examples` are tests.
    """

    rule: str
    title: str
    body: str
    priority: int
    confidence: float
    category: Category
    kind: CheckKind = "text"
    languages: tuple[str, ...] = ()
    code: bool = False
    paths: str = ""
    text: str = ""
    mentions: tuple[str, ...] = ()
    in_tests: bool = True
    needs_whole: bool = True
    query: str = ""
    queries: Mapping[str, str] = {}
    where: Mapping[str, str] = {}
    unless: Mapping[str, str] = {}
    first_line: bool = False
    line: str = ""
    also: tuple[str, ...] = ()
    examples: tuple[Any, ...] = ()
    function: Any = None

    @cached_property
    def run(self) -> Run:
        """The function that looks for it."""
        return self.function or (self._find_lines if self.line else self._find_captures)

    def reads(self, source: FileVersion) -> bool:
        """Whether a file may contain what the check looks for."""
        return bool(
            (not self.languages or source.family in self.languages)
            and (not self.code or source.is_code)
            and (not self.paths or re.search(self.paths, source.path))
            and (not self.mentions or any(word in source.text for word in self.mentions))
            and (not self.text or re.search(self.text, source.text))
        )

    def complete(self, finding: Finding) -> Finding:
        """Return the finding of the check, with what is declared where the check left it open."""
        return replace(
            finding,
            rule=self.rule,
            source="builtin",
            title=finding.title or self.title,
            body=finding.body or self.body,
            priority=self.priority if finding.priority == FROM_RULE else finding.priority,
            category=self.category,
            confidence=self.confidence if finding.confidence == FROM_RULE else finding.confidence,
        )

    def _find_lines(self, source: FileVersion) -> Iterator[Finding]:
        for number, line in enumerate(source.lines, 1):
            if re.search(self.line, line):
                yield on_line(number)

    def matches(self, source: FileVersion) -> list[CaptureMatch]:
        """Return what the query for the language of a file finds."""
        return source.matches(self.query or self.queries.get(source.family, ""))

    def _find_captures(self, source: FileVersion) -> Iterator[Finding]:
        for match in self.matches(source):
            is_wanted = all(re.search(pattern, match[name].text) for name, pattern in self.where.items())
            if is_wanted and not any(re.search(pattern, match[name].text) for name, pattern in self.unless.items()):
                yield on_line(match["it"].first) if self.first_line else at_capture(match["it"])


def read_declarations(name: str) -> bytes:
    """Return a file of declarations of this package."""
    return Path(__file__).with_name(name).read_bytes()


DECLARED: Mapping[str, Check] = {
    check.rule: check
    for check in msgspec.toml.decode(read_declarations("checks.toml"), type=dict[str, list[Check]])["check"]
}
"""The checks by rule, in the order in which they run."""


def check(rule: str) -> Callable[[Run], Check]:
    """Give a declared check its function."""
    return lambda run: msgspec.structs.replace(DECLARED[rule], function=run)


def at_capture(capture: Capture) -> Finding:
    """Return a finding on what a query captured; the declaration adds everything else."""
    return Finding(span=LineSpan(capture.first, max(capture.first, capture.last)))


def on_line(line: int, body: str = "", **fields: Any) -> Finding:
    """Return a finding on one line, with these fields; the declaration adds everything else."""
    return Finding(body=body, span=LineSpan(line, line), **fields)
