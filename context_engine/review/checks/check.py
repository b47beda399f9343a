"""What a check is: one function with its verdict constants and, beside it, the examples that are its tests.

A *text check* says what is wrong with one version of a file; that a finding is new, and on a changed line, is found out
by running it on the old version as well. A *file check* compares the two versions itself. A *change check* looks at all
files of the change and at the tree around them.

In an example a line that ends with the mark is one that must be found; all others must not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from context_engine.model import FROM_RULE, Finding
from context_engine.text import LineSpan

if TYPE_CHECKING:
    from context_engine.languages import Capture
    from context_engine.review.finding import Category
    from context_engine.review.source_versions import ChangedFile, FileVersion, ReviewContext

MARK = "«"
PYTHON = ("python",)
SCRIPT = ("javascript", "typescript", "tsx")
GO = ("go",)


@dataclass(frozen=True, slots=True)
class CheckExample:
    """A file that a check is tried on; `old` is what it was before, for those that compare."""

    path: str
    new: str
    old: str | None = None

    @property
    def text(self) -> str:
        """The file itself, without marks."""
        return "\n".join(line.removesuffix(MARK).rstrip() if line.endswith(MARK) else line for line in self._lines)

    @property
    def marked_lines(self) -> tuple[int, ...]:
        """The numbers of the marked lines."""
        return tuple(number for number, line in enumerate(self._lines, 1) if line.endswith(MARK))

    @property
    def _lines(self) -> list[str]:
        return self.new.split("\n")


TextRun = Callable[["FileVersion"], Iterable[Finding]]
FileRun = Callable[["ChangedFile"], Iterable[Finding]]
ChangeRun = Callable[[Sequence["ChangedFile"], "ReviewContext"], Iterable[Finding]]
Run = TypeVar("Run", TextRun, FileRun, ChangeRun)


@dataclass(frozen=True, slots=True)
class CheckRule:
    """The constants of a check, written above its function: `@Rule(...).text`, `.file` or `.change`.

    `languages` are those it understands, none: every file; `in_tests`: also in tests. `needs_whole`: it must see the
    file, hunks alone say nothing. `mentions`: a file in which none of these stands is fine. `confidence` is how often
    it was right where it was tried.
    """

    rule: str
    title: str
    body: str
    priority: int
    confidence: float
    category: Category
    languages: tuple[str, ...] = ()
    examples: tuple[CheckExample, ...] = ()
    in_tests: bool = True
    needs_whole: bool = True
    mentions: tuple[str, ...] = ()

    def text(self, run: TextRun) -> ReviewCheck[TextRun]:
        """A check of one version of a file."""
        return self._with(run)

    def file(self, run: FileRun) -> ReviewCheck[FileRun]:
        """A check that compares a file's two versions."""
        return self._with(run)

    def change(self, run: ChangeRun) -> ReviewCheck[ChangeRun]:
        """A check of a whole change."""
        return self._with(run)

    def complete(self, finding: Finding) -> Finding:
        """Return the finding of the check, with the constants of the rule where the check left them open."""
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

    def _with(self, run: Run) -> ReviewCheck[Run]:
        return ReviewCheck(**{each.name: getattr(self, each.name) for each in fields(self)}, run=run)


@dataclass(frozen=True, slots=True)
class ReviewCheck(CheckRule, Generic[Run]):
    """A rule and the function that looks for it."""

    run: Run = field(kw_only=True)


def at_capture(capture: Capture, body: str = "") -> Finding:
    """Return a finding on what a query captured; the rule says the rest."""
    return Finding(body=body, span=LineSpan(capture.first, max(capture.first, capture.last)))


def on_line(line: int, body: str = "", **fields: Any) -> Finding:
    """Return a finding on one line, with these fields; the rule says the rest."""
    return Finding(body=body, span=LineSpan(line, line), **fields)


def py(new: str, old: str | None = None) -> CheckExample:
    """An example in Python."""
    return CheckExample("app/code.py", new, old)


def js(new: str, old: str | None = None) -> CheckExample:
    """An example in JavaScript."""
    return CheckExample("app/code.js", new, old)


def ts(new: str, old: str | None = None) -> CheckExample:
    """An example in TypeScript."""
    return CheckExample("app/code.ts", new, old)


def go(new: str, old: str | None = None) -> CheckExample:
    """An example in Go."""
    return CheckExample("app/code.go", new, old)
