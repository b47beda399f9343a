"""PURE. What a review says: a `Finding` at a place of the new version, how sure it is, and what may be done about it.

>>> one = Finding("bare-except", "builtin", "Bare except", "It catches KeyboardInterrupt.", 2, "correctness", 0.8, "a.py",
...     LineSpan(3, 3), "except:")
>>> finding_to_json(one)["code_location"]
{'file_path': 'a.py', 'line_range': {'start': 3, 'end': 3}}
>>> finding_from_json(finding_to_json(one)) == one
True
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

from context_engine.model import Finding, Suggestion
from context_engine.text import LineSpan

Category = Literal["correctness", "security", "performance", "maintainability", "style", "documentation"]
CATEGORIES: tuple[Category, ...] = get_args(Category)

PRIORITIES = ("P0", "P1", "P2", "P3")
"""P0 must not be merged, P1 should not, P2 is worth a look, P3 is a hint."""
ID_CHARS = 16
"""64 bits of a hash: a repository never has so many findings that two of them meet."""


def fingerprint(rule: str, path: str, line: str, occurrence: int) -> str:
    """What a finding is known by: rule, path, the words of its line, and which of equal ones it is.

    >>> fingerprint("x", "a.py", "  y  =  1", 0) == fingerprint("x", "a.py", "y = 1", 0)
    True
    """
    said = "\0".join((rule, path, " ".join(line.split()), str(occurrence)))
    return hashlib.sha1(said.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:ID_CHARS]


def assign_ids(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The same findings, each with its id, in order of path, line and rule."""
    seen: Counter[tuple[str, str, str]] = Counter()
    named = []
    for finding in sorted(findings, key=lambda each: (each.path, each.span.first, each.rule, each.title)):
        key = (finding.rule, finding.path, " ".join(finding.quote.split()))
        named.append(replace(finding, id=fingerprint(*key, seen[key])))
        seen[key] += 1
    return tuple(named)


Scrub = Callable[[str], str]
"""Takes the secrets out of a text."""


def scrub_finding(finding: Finding, scrub: Scrub) -> Finding:
    """A finding without secrets: what it quotes is kept on the disk, and sent to others."""
    suggestion = finding.suggestion
    if suggestion:
        described, replacement = scrub(suggestion.description), scrub(suggestion.replacement)
        suggestion = Suggestion(described, replacement, suggestion.can_auto_fix)
    return replace(
        finding,
        title=scrub(finding.title),
        body=scrub(finding.body),
        quote=scrub(finding.quote),
        evidence=tuple(map(scrub, finding.evidence)),
        suggestion=suggestion,
    )


def finding_to_json(finding: Finding) -> dict[str, Any]:
    """A finding as it goes over the wire, and into a database."""
    suggestion = finding.suggestion
    return {
        "id": finding.id,
        "rule": finding.rule,
        "source": finding.source,
        "title": finding.title,
        "body": finding.body,
        "priority": finding.priority,
        "category": finding.category,
        "confidence_score": finding.confidence,
        "code_location": {
            "file_path": finding.path,
            "line_range": {"start": finding.span.first, "end": finding.span.last},
        },
        "quote": finding.quote,
        "is_on_changed_line": finding.is_on_changed_line,
        "is_new": finding.is_new,
        "evidence": list(finding.evidence),
        "suggestion": _suggested(suggestion) if suggestion else None,
        "related": list(finding.related),
    }


def _suggested(suggestion: Suggestion) -> dict[str, Any]:
    return {
        "description": suggestion.description,
        "replacement": suggestion.replacement,
        "can_auto_fix": suggestion.can_auto_fix,
    }


def finding_from_json(row: Mapping[str, Any]) -> Finding:
    """The finding that `plain` wrote."""
    place = row["code_location"]
    suggested = row.get("suggestion")
    return Finding(
        rule=row["rule"],
        source=row["source"],
        title=row["title"],
        body=row["body"],
        priority=row["priority"],
        category=row["category"],
        confidence=row["confidence_score"],
        path=place["file_path"],
        span=LineSpan(place["line_range"]["start"], place["line_range"]["end"]),
        quote=row["quote"],
        id=row["id"],
        is_on_changed_line=row["is_on_changed_line"],
        is_new=row["is_new"],
        evidence=tuple(row["evidence"]),
        suggestion=Suggestion(**suggested) if suggested else None,
        related=tuple(row["related"]),
    )
