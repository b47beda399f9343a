"""Compare both sides of a small change: code that it takes away without putting anything in its place, and small turns.

Reviewed backwards, three in five small repairs take away more code than they add; reviewed as they were made, one in
twelve does. Nearly as many changes that repair nothing do so backwards, and no rule about what is taken away (a guard,
an await, a lock) separated bugs from repairs better than that one number (`evals/reviews`). So all of it is a question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from context_engine.review.checks.check import check, on_line
from context_engine.review.source_versions import is_test

if TYPE_CHECKING:
    from context_engine.model import Finding
    from context_engine.review.source_versions import FileVersion, ReviewContext, ReviewedFile
    from context_engine.text import DiffHunk

SMALL_LINES = 12
"""Up to so many changed lines of code, without tests, a change is about the lines themselves. In larger ones 2 of 115
hits were right (commits of twelve repositories, 2026-11-28), so these are not compared."""
TURNED_TOKENS = 4
"""An edit of more tokens of a line writes another statement."""
QUESTIONS_MAX = 3
NAME_CHARS_MIN = 3
"""Shorter names are in many places by chance."""
USERS_MAX = 3
"""A finding names so many files that use the changed function."""
QUOTE_CHARS = 100


class HunkEdit(NamedTuple):
    """What a hunk takes away and puts in its place, line by line as tokens, and its place in the new version."""

    file: ReviewedFile
    line: int
    gone: Sequence[Sequence[str]]
    come: Sequence[Sequence[str]]

    @property
    def lost(self) -> int:
        """How many more tokens are gone than have come."""
        return sum(map(len, self.gone)) - sum(map(len, self.come))

    @property
    def is_turn(self) -> bool:
        """Whether a line is the same but for a few tokens."""
        gone, come = (Counter(token for line in side for token in line) for side in (self.gone, self.come))
        differing = ((gone - come) + (come - gone)).total()
        return len(self.gone) == len(self.come) == 1 and self.gone != self.come and differing <= TURNED_TOKENS


@check("difference")
def difference(files: Sequence[ReviewedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """Ask about a small change that takes code away or turns some of it round: only a reader can judge it."""
    compared = [file for file in files if not file.is_test and _is_compared(file)]
    size = sum(len(file.added) + len(file.removed) for file in compared)
    # A change that adds to tests has said that it means to change what the code does.
    added_tests = sum(len(file.added) - len(file.removed) for file in files if file.is_test)
    if size > SMALL_LINES or added_tests > 0:
        return
    edits = [edit for file in compared for edit in _read_edits(file)]
    lost = sum(edit.lost for edit in edits)
    asked = [max(edits, key=lambda edit: edit.lost)] if lost > 0 else []
    if lost == 0:
        asked = [edit for edit in edits if edit.is_turn][:QUESTIONS_MAX]
    for edit in asked:
        yield on_line(edit.line, _describe(edit, surroundings), path=edit.file.path)


def _is_compared(file: ReviewedFile) -> bool:
    """Whether both sides of a file are known as a whole, in a language whose names are resolved."""
    new = file.versions[1] if file.versions else None
    return bool(new and new.language and new.language.resolution.style) and not new.unparsed_reason


def _read_edits(file: ReviewedFile) -> Iterator[HunkEdit]:
    """Yield what each hunk of a file changes, without comments and imports."""
    old, new = _read_code(file.old, file.removed), _read_code(file.new, file.added)
    names = [version.definitions if version else {} for version in (file.old, file.new)]
    gone_definitions = {names[0][name] for name in names[0].keys() - names[1].keys()}  # `broken-use` follows these
    for hunk in file.diff.hunks:
        gone = [old[line.old] for line in hunk.lines if line.mark == "-" and line.old in old]
        come = [new[line.new] for line in hunk.lines if line.mark == "+" and line.new in new]
        if (gone or come) and gone_definitions.isdisjoint(line.old for line in hunk.lines):
            yield HunkEdit(file, _find_place(hunk), gone, come)


def _read_code(version: FileVersion | None, lines: frozenset[int]) -> dict[int, list[str]]:
    """Return the tokens of these lines; what is written in a string does not count."""
    if version is None:
        return {}
    tokens = version.leaf_tokens(lines - {imported.line for imported in version.outline.imports}).items()
    return {line: ['"..."' if "string" in token.kind else token.text for token in row] for line, row in tokens}


def _find_place(hunk: DiffHunk) -> int:
    """Return the first added line of a hunk; without one the line before what is gone, or the first line after it."""
    added = (line.new for line in hunk.lines if line.mark == "+")
    before = [line.new for line in takewhile(lambda line: line.mark == " ", hunk.lines)]
    after = (line.new for line in hunk.lines if line.new)
    return next(added, before[-1] if before else next(after, 1))


def _describe(edit: HunkEdit, surroundings: ReviewContext) -> str:
    """Return what an edit takes away, and which other files use the function around it, tests first."""
    before, after = (" ".join(token for line in side for token in line)[:QUOTE_CHARS] for side in edit[2:])
    text = f"Was `{before}`, is `{after}`." if after else f"Removed: `{before}`."
    around = edit.file.new.enclosing(edit.line) if edit.file.new else None
    if around is None or not surroundings.is_known or len(around.name) < NAME_CHARS_MIN:
        return text
    paths = [path for path in surroundings.paths_with_word(around.name) if path != edit.file.path]
    users = sorted(paths, key=lambda path: (not is_test(path), path))[:USERS_MAX]
    return f"{text} {around.name} is used by {', '.join(users)}." if users else text
