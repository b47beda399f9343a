"""PURE. The findings of a review, with stable ids, and the options that say which of them count.

>>> from context_engine.text import LineSpan
>>> one = Finding("bare-except", "builtin", "Bare except", "It catches KeyboardInterrupt.", 2, "correctness", 0.8,
...     "a.py", LineSpan(3, 3), "except:")
>>> finding_to_json(one)["code_location"]
{'file_path': 'a.py', 'line_range': {'start': 3, 'end': 3}}
>>> ReviewOptions(fail_on="P1").is_failing(1), ReviewOptions(fail_on="P1").is_failing(2), ReviewOptions().is_failing(0)
(True, False, False)
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from context_engine.model import Finding

Category = Literal["correctness", "security", "performance", "maintainability", "style", "documentation"]
CATEGORIES: tuple[Category, ...] = get_args(Category)
PRIORITIES = ("P0", "P1", "P2", "P3")
"""P0 must not be merged, P1 should not, P2 is worth a look, P3 is a hint."""
FAIL_ON = ("none", *PRIORITIES)
ID_CHARS = 16
"""64 bits of a hash: a repository never has so many findings that two of them collide."""

Redact = Callable[[str], str]
"""Replaces the secrets in a text by labels."""


@dataclass(frozen=True, slots=True)
class ReviewOptions:
    """The options of one review. `analyzers` are all that are installed (`auto`), none, or those named."""

    categories: tuple[Category, ...] = CATEGORIES
    confidence_threshold: float = 0.7
    max_findings: int = 20
    changed_lines_only: bool = True
    exclude_patterns: tuple[str, ...] = ()
    analyzers: Literal["auto", "none"] | tuple[str, ...] = "auto"
    fail_on: str = "none"
    allow_ids: tuple[str, ...] = ()
    custom_instructions: str = ""
    invariants_path: str = ""
    time_budget_s: float = 30.0

    def is_failing(self, priority: int) -> bool:
        """Whether a finding of this priority fails the review."""
        return self.fail_on != "none" and priority <= PRIORITIES.index(self.fail_on)

    @property
    def key(self) -> str:
        """A hash of the options for caches and sessions."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class ReviewRequest:
    """The change that a session reviews. It is stored with full hashes, so that it means the same tomorrow."""

    commit: str
    base: str
    paths: tuple[str, ...] = ()
    options: ReviewOptions = field(default_factory=ReviewOptions)
    title: str = ""
    author: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """A hash of the change and the options; the title and the author do not count."""
        text = "\0".join((self.commit, self.base, self.options.key, *self.paths))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def normalize_line(line: str) -> str:
    """Return a line without its indentation, with single blanks: what stays the same when code moves."""
    return " ".join(line.split())


def fingerprint(rule: str, path: str, line: str, occurrence: int) -> str:
    """Return the id of a finding from its rule, path, the words of its line, and its number among equal ones.

    >>> fingerprint("x", "a.py", "  y  =  1", 0) == fingerprint("x", "a.py", "y = 1", 0)
    True
    """
    text = "\0".join((rule, path, normalize_line(line), str(occurrence)))
    return hashlib.sha1(text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:ID_CHARS]


def assign_ids(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings with their ids, in order of path, line and rule."""
    counts: Counter[tuple[str, str, str]] = Counter()
    identified = []
    for finding in sorted(findings, key=lambda found: (found.path, found.span.first, found.rule, found.title)):
        key = (finding.rule, finding.path, normalize_line(finding.quote))
        identified.append(replace(finding, id=fingerprint(*key, counts[key])))
        counts[key] += 1
    return tuple(identified)


def mark_new(lines: Iterable[str], old_lines: Iterable[str]) -> list[bool]:
    """Return for each line with a finding whether the old version had fewer findings on lines of the same words.

    Only 0.3 of 5.4 findings per commit are new and on changed lines; all others were there before.

    >>> mark_new(["x = 1", "  x = 1", "y"], ["x  = 1"])
    [False, True, True]
    """
    known = Counter(map(normalize_line, old_lines))
    marks = []
    for line in map(normalize_line, lines):
        marks.append(known[line] <= 0)
        known[line] -= 1
    return marks


def redact_finding(finding: Finding, redact: Redact) -> Finding:
    """Return a finding without secrets, since what it quotes is stored on disk and sent to others."""
    suggestion = finding.suggestion
    if suggestion:
        description, replacement = redact(suggestion.description), redact(suggestion.replacement)
        suggestion = replace(suggestion, description=description, replacement=replacement)
    texts = {name: redact(getattr(finding, name)) for name in ("title", "body", "quote")}
    return replace(finding, **texts, evidence=tuple(map(redact, finding.evidence)), suggestion=suggestion)


def finding_to_json(finding: Finding) -> dict[str, Any]:
    """Return a finding as replies and the database contain it."""
    lines = {"start": finding.span.first, "end": finding.span.last}
    return {
        **{name: getattr(finding, name) for name in "id rule source title body priority category".split()},
        "confidence_score": finding.confidence,
        "code_location": {"file_path": finding.path, "line_range": lines},
        **{name: getattr(finding, name) for name in ("quote", "is_on_changed_line", "is_new")},
        "evidence": list(finding.evidence),
        "suggestion": asdict(finding.suggestion) if finding.suggestion else None,
        "related": list(finding.related),
    }
