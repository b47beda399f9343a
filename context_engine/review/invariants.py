r"""PURE.

A team's own rules for its code, written in `.review-invariants.yml`: what may not be added, and what must come with
what.

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

Patterns are RE2, so none of them takes forever. One that is wrong is named in a warning and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from context_engine.model import Finding
from context_engine.review.finding import CATEGORIES, PRIORITIES, Category
from context_engine.review.new_findings import mark_new
from context_engine.text import LineSpan

if TYPE_CHECKING:
    from context_engine.review.source_versions import ChangedFile, FileVersion

Scope = Literal["added", "file", "diff"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
CONFIDENCE = 0.9
"""The team wrote the rule; what is left is that its pattern says a little more than the rule."""
SEVERITIES = {
    **{name.lower(): number for number, name in enumerate(PRIORITIES)},
    "critical": 0,
    "fail": 1,
    "error": 1,
    "high": 1,
    "warn": 2,
    "warning": 2,
    "medium": 2,
    "info": 3,
    "low": 3,
}
"""The words that people write for a priority."""


class TextPattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str) -> object:
        """Something when it is in the text, None when not."""
        ...


ShapeFinder = Callable[[str, "FileVersion"], Sequence[int] | str]
"""Who finds code by its shape: (shape, file) -> the lines where it stands, or why nobody knows."""
PatternCompiler = Callable[[str, str], TextPattern | str]
"""(pattern, flags) -> what searches a text, or why the pattern is wrong."""
PathFilter = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Invariant:
    """One rule. `deny` must not stand in what `scope` covers; with `when` in it, `require` must stand in the new file.

    `scope`: each added line by itself, the whole new file, or all added lines together. `said` is how it was written.
    """

    id: str
    rule: str
    priority: int
    category: Category
    scope: Scope
    written: str
    applies_to: PathFilter
    deny: TextPattern | None = None
    when: TextPattern | None = None
    require: TextPattern | None = None
    shape: str = ""

    def __repr__(self) -> str:
        """As it was written: what a cache may know it by."""
        return self.written


@dataclass(frozen=True, slots=True)
class InvariantSet:
    """The rules of a file, and what is wrong with it."""

    invariants: tuple[Invariant, ...] = ()
    warnings: tuple[str, ...] = ()


def parse_invariants(
    written: Any, compile_: PatternCompiler, globs: Callable[[Sequence[str]], PathFilter]
) -> InvariantSet:
    """The rules of a parsed YAML file: a list, or lists under names of groups, perhaps under `invariants`."""
    listed = written.get("invariants", written) if isinstance(written, Mapping) else written
    rows = list(_rows(listed))
    if not rows and listed:
        return InvariantSet(warnings=("the invariants file holds no list of rules: nothing of it is used",))
    rules, warnings = [], []
    for number, row in enumerate(rows, 1):
        made = _invariant(row, number, compile_, globs)
        if isinstance(made, str):
            warnings.append(made)
        else:
            rules.append(made)
    return InvariantSet(tuple(rules), tuple(warnings))


def _rows(listed: Any) -> Iterator[Any]:
    if isinstance(listed, Mapping):
        for group in listed.values():
            yield from group if isinstance(group, list) else ()
    elif isinstance(listed, list):
        yield from listed


def _invariant(
    row: Any, number: int, compile_: PatternCompiler, globs: Callable[[Sequence[str]], PathFilter]
) -> Invariant | str:
    if not isinstance(row, Mapping):
        return f"invariant {number} is no mapping with an id: it is left out"
    name = str(row.get("id") or f"number {number}")
    compiled: dict[str, TextPattern | None] = {}
    for key in ("deny", "when", "require"):
        pattern = _compiled(row.get(key), compile_)
        if isinstance(pattern, str):
            return f"invariant {name}: {key}: {pattern}; it is left out"
        compiled[key] = pattern
    shape = str(row.get("ast") or "")
    if not shape and compiled["deny"] is None and (compiled["when"] is None or compiled["require"] is None):
        return f"invariant {name} has neither deny, nor when with require, nor ast: it is left out"
    scope, category = str(row.get("scope", "added")), str(row.get("category", "correctness"))
    severity = SEVERITIES.get(str(row.get("severity", "P2")).lower())
    if scope not in SCOPES or category not in CATEGORIES or severity is None:
        return f"invariant {name}: scope, category or severity is not known: it is left out"
    paths = row.get("paths") or ["**"]
    return Invariant(
        id=name,
        rule=str(row.get("rule") or row.get("message") or name),
        priority=severity,
        category=next(each for each in CATEGORIES if each == category),
        scope=next(each for each in SCOPES if each == scope),
        written=repr(sorted((str(key), str(value)) for key, value in row.items())),
        applies_to=globs([str(each) for each in (paths if isinstance(paths, list) else [paths])]),
        shape=shape,
        deny=compiled["deny"],
        when=compiled["when"],
        require=compiled["require"],
    )


def _compiled(written: Any, compile_: PatternCompiler) -> TextPattern | str | None:
    """`text`, `{regex: text}` or `{regex: {pattern: text, flags: i}}`."""
    if isinstance(written, Mapping):
        written = written.get("regex", written)
    if isinstance(written, Mapping):
        return compile_(str(written.get("pattern", "")), str(written.get("flags", "")))
    return None if written in (None, "") else compile_(str(written), "")


# -- using them ---------------------------------------------------------------------------------------------------


def find_broken(invariants: Iterable[Invariant], file: ChangedFile, shapes: ShapeFinder | None = None) -> list[Finding]:
    """The rules that a changed file breaks, one finding for each line (or one for the file, where the rule speaks of that)."""
    if file.new is None:
        return []
    return [
        _finding(rule, line, file, is_new=is_new)
        for rule in invariants
        if rule.applies_to(file.path)
        for line, is_new in _places(rule, file, file.new, shapes)
    ]


def _places(rule: Invariant, file: ChangedFile, new: FileVersion, shapes: ShapeFinder | None) -> list[tuple[int, bool]]:
    """The lines that break a rule, and whether each is new."""
    if rule.shape:
        return _shaped(rule.shape, file, new, shapes) if shapes else []
    if rule.deny is not None:
        return _denied(rule, rule.deny, file, new)
    if rule.when is None or rule.require is None or rule.require.search(new.text):
        return []
    if rule.scope == "file":
        return _marked([n for n, line in enumerate(new.lines, 1) if rule.when.search(line)][:1], rule, file, new)
    return [(number, True) for number in sorted(file.added) if rule.when.search(new.line(number))]


def _shaped(shape: str, file: ChangedFile, new: FileVersion, shapes: ShapeFinder) -> list[tuple[int, bool]]:
    found = shapes(shape, new)
    if isinstance(found, str) or not found:
        return []
    before = shapes(shape, file.old) if file.old else ()
    then = [file.old.line(number) for number in before] if file.old and not isinstance(before, str) else []
    return list(zip(found, mark_new([(new.line(number), None) for number in found], then), strict=True))


def _denied(rule: Invariant, deny: TextPattern, file: ChangedFile, new: FileVersion) -> list[tuple[int, bool]]:
    added = sorted(file.added)
    if rule.scope == "added":
        return [(number, True) for number in added if deny.search(new.line(number))]
    if rule.scope == "diff":
        together = "\n".join(new.line(number) for number in added)
        first = next((number for number in added if deny.search(new.line(number))), added[0] if added else 0)
        return [(first, True)] if added and deny.search(together) else []
    return _marked([number for number, line in enumerate(new.lines, 1) if deny.search(line)], rule, file, new)


def _marked(lines: Sequence[int], rule: Invariant, file: ChangedFile, new: FileVersion) -> list[tuple[int, bool]]:
    """Lines of the new file, each with whether the old one had it."""
    then = [] if file.old is None or rule.deny is None else [each for each in file.old.lines if rule.deny.search(each)]
    return list(zip(lines, mark_new([(new.line(number), None) for number in lines], then), strict=True))


def _finding(rule: Invariant, line: int, file: ChangedFile, *, is_new: bool) -> Finding:
    span = LineSpan(line, line)
    return Finding(
        rule=rule.id,
        source="invariant",
        title=rule.rule,
        body=f"This project's rule {rule.id} says: {rule.rule}",
        priority=rule.priority,
        category=rule.category,
        confidence=CONFIDENCE,
        path=file.path,
        span=span,
        quote=file.new.line(line).strip() if file.new else "",
        is_on_changed_line=file.touches(span),
        is_new=is_new,
    )
