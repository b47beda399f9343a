r"""Find where a change breaks a team's own rules, which are in `.review-invariants.yml`.

    invariants:
      - id: NO-PRINT
        rule: The library does not print.
        paths: ["src/**"]
        severity: P1
        deny: {regex: {pattern: "\\bprint\\("}}
      - id: AUTH
        rule: A route checks who asks.
        paths: ["routes/*.py"]
        when: {regex: {pattern: "@route"}}
        require: {regex: {pattern: "require_user"}}

Patterns are RE2, so that each takes linear time. `ast` is the shape of code instead of a pattern: a tree-sitter query,
which begins with a bracket. A wrong rule is left out with a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from context_engine.model import Finding
from context_engine.review.finding import CATEGORIES, PRIORITIES, Category
from context_engine.search import GlobSet
from context_engine.text import LineSpan, ParseError, compile_linear, read_yaml

if TYPE_CHECKING:
    from context_engine.review.source_versions import FileVersion, ReviewedFile

FILE_NAMES = (".review-invariants.yml", ".review-invariants.yaml", ".context-engine/review-invariants.yml")
"""Where rules are when the options name no file; the first that exists counts."""
FILE_BYTES_MAX = 200_000
"""A thousand rules."""
Scope = Literal["added", "file", "diff"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
CONFIDENCE = 0.9
"""The team wrote the rule; the remaining doubt is that a pattern matches a little more than the rule says."""
SEVERITIES = {
    **{name.lower(): number for number, name in enumerate(PRIORITIES)},
    "critical": 0,
    **dict.fromkeys(("fail", "error", "high"), 1),
    **dict.fromkeys(("warn", "warning", "medium"), 2),
    **dict.fromkeys(("info", "low"), 3),
}
"""The usual words for a priority."""

Pattern = Any
"""A pattern compiled by RE2."""
PathFilter = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Invariant:
    """One rule: `deny` must not match in `scope`; when `when` matches there, `require` must match in the new file.

    `scope` is each added line by itself, the whole new file, or all added lines together.
    """

    id: str
    rule: str
    priority: int
    category: Category
    scope: Scope
    written: str
    applies_to: PathFilter
    deny: Pattern | None = None
    when: Pattern | None = None
    require: Pattern | None = None
    shape: str = ""

    def __repr__(self) -> str:
        """Return the rule as it was written: the cache of reviews knows it by that."""
        return self.written

    def report(self, line: int) -> Finding:
        """Return the finding that a line breaks the rule."""
        return Finding(
            rule=self.id,
            source="invariant",
            title=self.rule,
            body=f"This project's rule {self.id} says: {self.rule}",
            priority=self.priority,
            category=self.category,
            confidence=CONFIDENCE,
            span=LineSpan(line, line),
        )


@dataclass(frozen=True, slots=True)
class InvariantSet:
    """The rules of a file, and warnings about those that are wrong."""

    invariants: tuple[Invariant, ...] = ()
    warnings: tuple[str, ...] = ()


# -- reading them ------------------------------------------------------------------------------------------------------


def read_invariants_file(name: str, data: bytes) -> InvariantSet:
    """Return the rules of a file: a list, or lists under names of groups, perhaps under `invariants`."""
    try:
        written = read_yaml(data, bytes_max=FILE_BYTES_MAX)
    except ParseError as error:
        return InvariantSet(warnings=(f"{name} cannot be read, so nothing of it is used: {error}",))
    listed = written.get("invariants", written) if isinstance(written, Mapping) else written
    groups = list(listed.values()) if isinstance(listed, Mapping) else [listed]
    rows = [row for group in groups if isinstance(group, list) for row in group]
    if not rows and listed:
        return InvariantSet(warnings=("the invariants file contains no list of rules, so nothing of it is used",))
    rules, warnings = [], []
    for number, row in enumerate(rows, 1):
        rule = _parse_rule(row, number)
        if isinstance(rule, str):
            warnings.append(f"{rule}; it is left out")
        else:
            rules.append(rule)
    return InvariantSet(tuple(rules), tuple(warnings))


def _parse_rule(row: Any, number: int) -> Invariant | str:
    if not isinstance(row, Mapping):
        return f"invariant {number} is not a mapping with an id"
    name = str(row.get("id") or f"number {number}")
    patterns: dict[str, Pattern | None] = {}
    for key in ("deny", "when", "require"):
        try:
            patterns[key] = _parse_pattern(row.get(key))
        except ValueError as error:
            return f"invariant {name}: {key}: {error}"
    shape = str(row.get("ast") or "")
    if not shape and patterns["deny"] is None and (patterns["when"] is None or patterns["require"] is None):
        return f"invariant {name} has neither deny, nor when with require, nor ast"
    if shape and not shape.lstrip().startswith(("(", "[")):
        return f"invariant {name}: ast is a tree-sitter query, which begins with a bracket"
    scope, category = str(row.get("scope", "added")), str(row.get("category", "correctness"))
    severity = SEVERITIES.get(str(row.get("severity", "P2")).lower())
    if scope not in SCOPES or category not in CATEGORIES or severity is None:
        return f"invariant {name}: its scope, category or severity is unknown"
    paths = row.get("paths") or ["**"]
    return Invariant(
        id=name,
        rule=str(row.get("rule") or row.get("message") or name),
        priority=severity,
        category=CATEGORIES[CATEGORIES.index(category)],
        scope=SCOPES[SCOPES.index(scope)],
        written=repr(sorted((str(key), str(value)) for key, value in row.items())),
        applies_to=GlobSet(map(str, paths if isinstance(paths, list) else [paths])).matches,
        shape=shape,
        **patterns,
    )


def _parse_pattern(written: Any) -> Pattern | None:
    r"""Compile `text`, `{regex: text}` or `{regex: {pattern: text, flags: i}}`. Raises: ValueError.

    >>> _parse_pattern(r"(a)\1")
    Traceback (most recent call last):
    ValueError: '(a)\\1' is not an RE2 pattern: invalid escape sequence: \1
    """
    flags = ""
    if isinstance(written, Mapping):
        written = written.get("regex", written)
    if isinstance(written, Mapping):
        written, flags = written.get("pattern", ""), str(written.get("flags", ""))
    elif written in (None, ""):
        return None
    try:
        return compile_linear(str(written), flags)
    except ValueError as error:
        raise ValueError(f"{str(written)!r} is not an RE2 pattern: {error}") from error


# -- using them --------------------------------------------------------------------------------------------------------


def find_broken(invariants: Iterable[Invariant], file: ReviewedFile) -> list[Finding]:
    """Return the rules that a changed file breaks: a finding for each line, or one for the whole file."""
    findings: list[Finding] = []
    for rule in invariants if file.new else ():
        if file.new and rule.applies_to(file.path):
            lines, old_lines = _find_lines(rule, file, file.new)
            findings += file.compare([*map(rule.report, lines)], map(rule.report, old_lines))
    return findings


def _find_lines(rule: Invariant, file: ReviewedFile, new: FileVersion) -> tuple[Iterable[int], Iterable[int]]:
    """Return the lines that break a rule in the new version and, where the whole file counts, in the old one."""
    added, deny, when, require = sorted(file.added), rule.deny, rule.when, rule.require
    if rule.shape:
        return find_shape(rule.shape, new), find_shape(rule.shape, file.old) if file.old else ()
    if deny is None:
        if when is None or require is None or require.search(new.text):
            return (), ()
        lines = _search_lines(when, new)
        return (lines[:1] if rule.scope == "file" else file.added.intersection(lines)), ()
    if rule.scope == "file":
        return _search_lines(deny, new), _search_lines(deny, file.old) if file.old else ()
    lines = [number for number in added if deny.search(new.line(number))]
    if rule.scope == "added":
        return lines, ()
    is_broken = added and deny.search("\n".join(map(new.line, added)))
    return ((lines or added)[:1] if is_broken else ()), ()


def _search_lines(pattern: Pattern, source: FileVersion) -> list[int]:
    return [number for number, line in enumerate(source.lines, 1) if pattern.search(line)]


def find_shape(shape: str, source: FileVersion) -> list[int]:
    """Return the lines on which code begins that a tree-sitter query finds."""
    matches = source.matches(shape)
    return sorted({min(capture.first for capture in match.values()) for match in matches if match})
