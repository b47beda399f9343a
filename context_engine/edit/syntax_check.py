"""Find the syntax errors that a file has after an edit and did not have before. It warns, it never refuses.

Without an answer the reason is given: a language without a parser, a file that is too large.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from context_engine.edit.file_content import content_of
from context_engine.errors import CallError
from context_engine.languages import Grammars, Language, Languages, read_syntax_errors
from context_engine.model import Finding

BYTES_MAX = 1_000_000
"""Parsing a megabyte takes a tenth of a second; larger files are hardly written by hand."""
MESSAGE_CHARS_MAX = 80


@dataclass(frozen=True, slots=True)
class SyntaxReport:
    """The new syntax errors of a file in order.

    `unchecked` says why it was not checked; `older` errors were there before.
    """

    errors: tuple[Finding, ...] = ()
    unchecked: str = ""
    older: int = 0

    @property
    def is_sound(self) -> bool:
        """Whether no new error is known."""
        return not self.errors

    @property
    def summary(self) -> str:
        """Return one short line for the author of the edit.

        >>> from context_engine.text.lines import LineSpan
        >>> missing = Finding(title="missing )", span=LineSpan(3, 3), column=7)
        >>> SyntaxReport((missing, Finding(title="syntax error", span=LineSpan(9, 9), column=1))).summary
        'new syntax error at line 3: missing ) (1 more)'
        """
        if self.unchecked:
            return f"syntax not checked: {self.unchecked}"
        if not self.errors:
            return "no new syntax errors, old ones are left" if self.older else "syntax ok"
        first, more = self.errors[0], len(self.errors) - 1
        rest = f" ({more} more)" if more else ""
        return f"new syntax error at line {first.line}: {first.title[:MESSAGE_CHARS_MAX]}{rest}"


def find_new_errors(
    before: bytes | None, after: bytes, path: str, languages: Languages, grammars: Grammars
) -> SyntaxReport:
    """Return the syntax errors that a file has `after` and not `before`; None means no file. Never raises."""
    try:
        new = content_of(after).text.encode("utf-8", "surrogateescape")
        old = content_of(before or b"").text.encode("utf-8", "surrogateescape")
    except CallError as error:
        return SyntaxReport(unchecked=error.message)
    language = languages.detect(path, new)
    if language is None or language.grammar is None:
        return SyntaxReport(unchecked=f"there is no parser for {language.name if language else 'this file'}")
    if max(len(new), len(old)) > BYTES_MAX:
        return SyntaxReport(unchecked=f"the file has more than {BYTES_MAX:,} bytes")
    return _compare(old, new, language, grammars)


def _compare(old: bytes, new: bytes, language: Language, grammars: Grammars) -> SyntaxReport:
    """Return the errors of the new bytes that the old bytes do not have; a file without errors is parsed once."""
    now = read_syntax_errors(language, new, grammars)
    if isinstance(now, str):
        return SyntaxReport(unchecked=now)
    if not now:
        return SyntaxReport()
    then = read_syntax_errors(language, old, grammars)
    if isinstance(then, str):
        return SyntaxReport(unchecked=f"it could not be parsed before: {then}")
    known = Counter(_error_lines(old, then))
    added: list[Finding] = []
    for line, error in zip(_error_lines(new, now), now, strict=True):
        if not known[line]:
            added.append(error)
        known[line] = max(0, known[line] - 1)
    return SyntaxReport(tuple(added), older=len(now) - len(added))


def _error_lines(data: bytes, errors: Iterable[Finding]) -> list[str]:
    """Return the line of each error, by which it is recognized: a parser's message depends on what follows."""
    lines = data.decode("utf-8", "replace").split("\n")
    return [lines[error.line - 1].strip() for error in errors]
