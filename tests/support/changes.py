"""Changes for tests of reviews: a file out of its two texts, the examples of checks, a tree out of texts."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from tempfile import gettempdir
from typing import NamedTuple

from context_engine.review.checks import Check
from context_engine.review.source_versions import Parsers, ReviewContext, ReviewedChange, ReviewedFile
from context_engine.secrets.secret_finder import find_secrets
from context_engine.text.diff_reader import parse_diff
from tests.support.engines import GRAMMARS, LANGUAGES

SCRATCH = Path(gettempdir())
"""Where analyzers of tests get their copies."""
PARSERS = Parsers(LANGUAGES, GRAMMARS, lambda text, path: find_secrets(text, path=path))


def diff_text(path: str, old: str | None, new: str | None) -> str:
    """The diff between two texts of a file; None where there is no file."""
    before, after = (old or "").splitlines(True), (new or "").splitlines(True)
    names = ("/dev/null" if old is None else f"a/{path}", "/dev/null" if new is None else f"b/{path}")
    lines = difflib.unified_diff(before, after, *names)
    body = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return body or f"diff --git a/{path} b/{path}\nold mode 100644\nnew mode 100755\n"


def changed_file(path: str, old: str | None, new: str | None) -> ReviewedFile:
    """A file as it was and as it becomes."""
    encoded = [None if text is None else text.encode() for text in (old, new)]
    return ReviewedFile.of(parse_diff(diff_text(path, old, new))[0], *encoded, PARSERS)


class CheckExample(NamedTuple):
    """A file that a check is tested with, and the version before it for checks that compare; marks end some lines."""

    new: str
    old: str | None = None
    path: str = "app/code.py"

    @property
    def text(self) -> str:
        """The file itself, without marks."""
        return "\n".join(line.removesuffix("«").rstrip() if line.endswith("«") else line for line in self.lines)

    @property
    def marked_lines(self) -> tuple[int, ...]:
        """The numbers of the marked lines."""
        return tuple(number for number, line in enumerate(self.lines, 1) if line.endswith("«"))

    @property
    def lines(self) -> list[str]:
        return self.new.split("\n")


def list_examples(check: Check) -> list[CheckExample]:
    """The examples of a check; one that is only a text is in the first language of the check."""
    suffix = {"javascript": "js", "go": "go"}.get(next(iter(check.languages), ""), "py")
    path = f"app/code.{suffix}"
    return [CheckExample(one, path=path) if isinstance(one, str) else CheckExample(**one) for one in check.examples]


def of_example(example: CheckExample) -> ReviewedFile:
    """The change that an example shows."""
    return changed_file(example.path, example.old, example.text)


def surroundings(files: Mapping[str, str]) -> ReviewContext:
    """A tree of these files."""

    def holding(words: object) -> dict[str, list[str]]:
        import re

        assert isinstance(words, list | tuple)
        return {
            word: [path for path, text in sorted(files.items()) if re.search(rf"\b{re.escape(word)}\b", text)]
            for word in words
        }

    return ReviewContext(
        PARSERS,
        is_known=True,
        list_paths=lambda: sorted(files),
        read=lambda paths: {path: files[path].encode() for path in paths if path in files},
        files_with_words=holding,
    )


def whole(*files: ReviewedFile, before: Mapping[str, bytes] = {}, after: Mapping[str, bytes] = {}) -> ReviewedChange:
    """A change of these files, between two trees for compilers."""
    context = ReviewContext(PARSERS, list_paths=lambda: [*after], read=lambda _paths: after)
    return ReviewedChange(files, context, lambda: before)
