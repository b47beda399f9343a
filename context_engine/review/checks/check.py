"""The parts of a check: its constants, the function or query that finds something, and the examples that are its tests.

A *text check* reports what is wrong with one version of a file; it runs on the old version as well, which shows what is
new. A *file check* compares the two versions itself. A *change check* reads all files of the change and the tree around
them.

In an example the check must report the lines that end with the mark, and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from context_engine.model import FROM_RULE, Finding
from context_engine.text import LineSpan

if TYPE_CHECKING:
    from context_engine.languages import Capture, CaptureMatch
    from context_engine.review.finding import Category
    from context_engine.review.source_versions import FileVersion, ReviewContext, ReviewedFile

MARK = "«"
PYTHON = ("python",)
SCRIPT = ("javascript", "typescript", "tsx")
GO = ("go",)


@dataclass(frozen=True, slots=True)
class CheckExample:
    """A file that a check is tested with; `old` is the version before, for checks that compare."""

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
FileRun = Callable[["ReviewedFile"], Iterable[Finding]]
ChangeRun = Callable[[Sequence["ReviewedFile"], "ReviewContext"], Iterable[Finding]]
Run = TypeVar("Run", TextRun, FileRun, ChangeRun)
CheckKind = Literal["text", "file", "change"]


@dataclass(frozen=True, slots=True)
class CheckRule:
    """The constants of a check, above its function: `@CheckRule(...).text`, `.file` or `.change`.

    A check that only reports what a tree-sitter query finds needs no function: `CheckRule(...).query(...)`.

    `languages` are those it understands; none means every file. With `in_tests` it runs in tests, too. With
    `needs_whole` it needs the file, not only hunks. A file without any of `mentions` is not searched. `confidence` is
    how often the check was right on real commits.
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
        """Make a check of one version of a file."""
        return self._make("text", run)

    def file(self, run: FileRun) -> ReviewCheck[FileRun]:
        """Make a check that compares the two versions of a file."""
        return self._make("file", run)

    def change(self, run: ChangeRun) -> ReviewCheck[ChangeRun]:
        """Make a check of a whole change."""
        return self._make("change", run)

    def query(
        self,
        query: str,
        where: Callable[[CaptureMatch], object] = lambda _match: True,
        *,
        capture: str = "it",
        first_line: bool = False,
    ) -> ReviewCheck[TextRun]:
        """Make a check of one version of a file that reports a capture of each match `where` a condition holds."""

        def run(source: FileVersion) -> Iterator[Finding]:
            for match in source.matches(query):
                if where(match):
                    yield on_line(match[capture].first) if first_line else at_capture(match[capture])

        return self._make("text", run)

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

    def _make(self, kind: CheckKind, run: Run) -> ReviewCheck[Run]:
        constants = {constant.name: getattr(self, constant.name) for constant in fields(self)}
        return ReviewCheck(**constants, kind=kind, run=run)


@dataclass(frozen=True, slots=True)
class ReviewCheck(CheckRule, Generic[Run]):
    """A rule and the function that looks for it."""

    kind: CheckKind = field(kw_only=True)
    run: Run = field(kw_only=True)


def at_capture(capture: Capture, body: str = "") -> Finding:
    """Return a finding on what a query captured; the rule adds everything else."""
    return Finding(body=body, span=LineSpan(capture.first, max(capture.first, capture.last)))


def on_line(line: int, body: str = "", **fields: Any) -> Finding:
    """Return a finding on one line, with these fields; the rule adds everything else."""
    return Finding(body=body, span=LineSpan(line, line), **fields)


def py(new: str, old: str | None = None) -> CheckExample:
    """Return an example in Python."""
    return CheckExample("app/code.py", new, old)


def js(new: str, old: str | None = None) -> CheckExample:
    """Return an example in JavaScript."""
    return CheckExample("app/code.js", new, old)


def ts(new: str, old: str | None = None) -> CheckExample:
    """Return an example in TypeScript."""
    return CheckExample("app/code.ts", new, old)


def go(new: str, old: str | None = None) -> CheckExample:
    """Return an example in Go."""
    return CheckExample("app/code.go", new, old)
