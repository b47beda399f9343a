"""What a check is: one function with its verdict constants and, beside it, the examples that are its tests.

A *text check* says what is wrong with one version of a file; that a finding is new, and on a changed line, is found out by
running it on the old version as well. A *file check* compares the two versions itself. A *change check* looks at all files
of the change and at the tree around them.

In an example a line that ends with the mark is one that must be found; all others must not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from context_engine.text.spans import LineSpan

if TYPE_CHECKING:
    from context_engine.languages.captures import Capture
    from context_engine.review.finding import Category, Suggestion
    from context_engine.review.review_context import Surroundings
    from context_engine.review.source_versions import ChangedFile, Source

MARK = "«"
PYTHON = ("python",)
SCRIPT = ("javascript", "typescript", "tsx")
GO = ("go",)


class Note(NamedTuple):
    """What a check found in one place. Empty fields are those of the check."""

    span: LineSpan
    body: str = ""
    title: str = ""
    confidence: float | None = None
    priority: int | None = None
    evidence: tuple[str, ...] = ()
    suggestion: Suggestion | None = None
    path: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """A file that a check is tried on; `old` is what it was before, for those that compare."""

    path: str
    new: str
    old: str | None = None

    @property
    def text(self) -> str:
        """The file itself, without marks."""
        return "\n".join(line.removesuffix(MARK).rstrip() if line.endswith(MARK) else line for line in self._lines)

    @property
    def flagged(self) -> tuple[int, ...]:
        """The numbers of the marked lines."""
        return tuple(number for number, line in enumerate(self._lines, 1) if line.endswith(MARK))

    @property
    def _lines(self) -> list[str]:
        return self.new.split("\n")


TextRun = Callable[["Source"], Iterable[Note]]
FileRun = Callable[["ChangedFile"], Iterable[Note]]
ChangeRun = Callable[[Sequence["ChangedFile"], "Surroundings"], Iterable[Note]]
Run = TypeVar("Run", TextRun, FileRun, ChangeRun)


@dataclass(frozen=True, slots=True)
class Rule:
    """The constants of a check, written above its function: `@Rule(...).text`, `.file` or `.change`.

    `languages` are those it understands, none: every file; `in_tests`: also in tests. `needs_whole`: it must see the file, hunks
    alone say nothing. `mentions`: a file in which none of these stands is fine. `confidence` is how often it was right where it
    was tried.
    """

    rule: str
    title: str
    body: str
    priority: int
    confidence: float
    category: Category
    languages: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    in_tests: bool = True
    needs_whole: bool = True
    mentions: tuple[str, ...] = ()

    def text(self, run: TextRun) -> Check[TextRun]:
        """A check of one version of a file."""
        return self._with(run)

    def file(self, run: FileRun) -> Check[FileRun]:
        """A check that compares a file's two versions."""
        return self._with(run)

    def change(self, run: ChangeRun) -> Check[ChangeRun]:
        """A check of a whole change."""
        return self._with(run)

    def _with(self, run: Run) -> Check[Run]:
        return Check(**{each.name: getattr(self, each.name) for each in fields(self)}, run=run)


@dataclass(frozen=True, slots=True)
class Check(Rule, Generic[Run]):
    """A rule and the function that looks for it."""

    run: Run = field(kw_only=True)


def at(found: Capture, body: str = "") -> Note:
    """A note on what a query captured."""
    return Note(LineSpan(found.first, max(found.first, found.last)), body)


def on_line(line: int, body: str = "") -> Note:
    """A note on one line."""
    return Note(LineSpan(line, line), body)


def py(new: str, old: str | None = None) -> Example:
    """An example in Python."""
    return Example("app/code.py", new, old)


def js(new: str, old: str | None = None) -> Example:
    """An example in JavaScript."""
    return Example("app/code.js", new, old)


def ts(new: str, old: str | None = None) -> Example:
    """An example in TypeScript."""
    return Example("app/code.ts", new, old)


def go(new: str, old: str | None = None) -> Example:
    """An example in Go."""
    return Example("app/code.go", new, old)
