"""Code that changes while the tests that speak of it do not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from context_engine.review.checks.check import SCRIPT, CheckRule, on_line
from context_engine.text import LineSpan

if TYPE_CHECKING:
    from context_engine.model import Finding
    from context_engine.review.review_context import ReviewContext
    from context_engine.review.source_versions import ChangedFile, FileVersion

NAMES_MAX = 40
"""Of a change with more functions nobody reads a list."""
LINES_MIN = 5
"""A function so short hardly wants a test of its own."""
TOP_CONFIDENCE = 0.65
"""Of the three that a hundred commits showed at .7 none was worth a word (evals/noise): asked for, it is told."""


@CheckRule(
    "untested",
    "New function that no test names",
    "The tests of this project name the functions beside it.",
    priority=2,
    confidence=0.6,
    category="maintainability",
    in_tests=False,
).change
def untested_function(files: Sequence[ChangedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """A new public function that stands in no test, in a file whose other functions mostly do.

    The file calibrates itself: of its older public functions, the share that tests name is how sure the finding is.
    """
    if not surroundings.is_known:
        return
    for file in files:
        new = _public(file, of_new=True)
        old = _public(file, of_new=False)
        if not new or not old or len(new) + len(old) > NAMES_MAX:
            continue
        holding = surroundings.files_with_words(sorted({*new, *old}))
        tested = {name for name, paths in holding.items() if any(_is_test(path) for path in paths)}
        share = len(tested & old.keys()) / len(old)
        for name, line in new.items():
            if name not in tested and share > 0:
                confidence = round(TOP_CONFIDENCE * share, 2)
                said = f"No test names {name}; {share:.0%} of the functions beside it are named in one."
                yield on_line(line, said, path=file.path, confidence=confidence)


def _public(file: ChangedFile, *, of_new: bool) -> dict[str, int]:
    """The public functions that a file got, or those that it had; with their lines."""
    if file.new is None or file.old is None or not file.is_whole:
        return {}
    before = file.old.functions
    found = {}
    for name, each in file.new.functions.items():
        is_new = name not in before and file.touches(LineSpan(each.line, each.line))
        long_enough = each.last - each.first + 1 >= LINES_MIN
        hidden = each.name.startswith(("_", "#")) or _is_hidden(file.new, each.line)
        if is_new == of_new and long_enough and not hidden and len(each.name) > 2:
            found[each.name] = each.line
    return found


def _is_hidden(source: FileVersion, line: int) -> bool:
    """Whether only its own file or class can call what is defined on a line."""
    text = source.line(line)
    if source.language_name in SCRIPT:
        return not text.startswith((" ", "\t", "export")) or bool(re.match(r"\s*(?:private|protected)\b", text))
    return bool(re.match(r"\s*(?:private|protected)\b", text))


def _is_test(path: str) -> bool:
    return bool(
        re.search(
            r"(?:^|/)(?:tests?|specs?|__tests__)/|(?:^|/)test_|[._-](?:test|spec)\.|_test(?:_\w+)?\.|Tests?\.\w+$", path
        )
    )


ALL = (untested_function,)
