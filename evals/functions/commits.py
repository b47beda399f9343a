"""Which functions a commit changed, as they stood in the tree that is searched: commit subjects as questions.

A tasks file names commits that came after its pinned tree, so no function holds the change that it is asked for.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from context_engine.languages import Grammars, Languages
from evals.functions.bodies import Case, Function, functions_of

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? ")
GIT_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of the old file that went, both included; of an insertion the line before it, with `count` 0."""

    path: str
    first: int
    count: int


class NoCommitError(Exception):
    """The history does not hold a commit or a file of it."""


def removed(diff: str) -> list[Lines]:
    r"""The places of a diff without context lines, by the old names of files.

    >>> removed("--- a/x.py\n+++ b/x.py\n@@ -3,2 +3 @@ def f\n-a\n-b\n+c\n@@ -9,0 +9 @@\n+d\n")
    [Lines(path='x.py', first=3, count=2), Lines(path='x.py', first=9, count=0)]
    """
    path, found, left = "", [], 0
    for line in diff.split("\n"):
        if left and line.startswith(("-", "+", "\\")):
            left -= not line.startswith("\\")
        elif line.startswith("--- "):
            path = line.removeprefix("--- ").removeprefix("a/").rstrip("\t")  # git marks the end of a name with blanks
        elif hunk := _HUNK.match(line):
            count, more = int(hunk[2] or 1), re.search(r"\+\d+(?:,(\d+))? @@", line)
            left = count + int((more[1] or 1) if more else 1)
            found.append(Lines(path, int(hunk[1]), count))
    return [each for each in found if each.path != "/dev/null"]


def touched(functions: Sequence[Function], changes: Iterable[Lines]) -> list[Function]:
    """The innermost function around each changed line, each once, in order."""
    found: dict[int, Function] = {}
    for change in changes:
        for line in range(change.first, change.first + max(change.count, 1)):
            after = line if change.count else line + 1  # an insertion changes a function when it stands inside
            around = [f for f in functions if f.path == change.path and f.first <= line and after <= f.last]
            if around:
                innermost = max(around, key=lambda each: (each.first, -each.last))
                found.setdefault(id(innermost), innermost)
    return list(found.values())


def case_of(task: dict, tree: Path, mirror: Path, languages: Languages, grammars: Grammars) -> Case:
    """The commit subjects of one repository of a tasks file, less those that changed no function of the tree.

    `tree` holds the annotated part of the repository, `mirror` its history.
    """
    root = (task["root"] or "").strip("/")
    functions = [each for path, data in _files(tree) for each in _read(path, data, languages, grammars)]
    numbers: dict[str, int] = {each.told.head: number for number, each in enumerate(functions)}
    questions, right = [], []
    for asked in task["commit_queries"]:
        try:
            changed = _changed(mirror, asked["sha"], root, languages, grammars)
        except NoCommitError as error:
            print(f"{task['name']}: {error}")
            continue
        answers = frozenset(numbers[each.told.head] for each in changed if each.told.head in numbers)
        if answers:
            questions.append(asked["query"])
            right.append(answers)
    return Case(task["name"], [each.told for each in functions], questions, right)


def _files(tree: Path) -> list[tuple[str, bytes]]:
    paths = sorted(path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    return [(path.relative_to(tree).as_posix(), path.read_bytes()) for path in paths]


def _read(path: str, data: bytes, languages: Languages, grammars: Grammars) -> list[Function]:
    language = languages.detect(path)
    return functions_of(path, data, language, grammars) if language and language.content == "code" else []


def _changed(mirror: Path, sha: str, root: str, languages: Languages, grammars: Grammars) -> list[Function]:
    """The functions of a commit's parent that it changed, their paths below `root`. Raises: NoCommitError."""
    diff = _git(mirror, "diff", "-U0", "--no-renames", "--no-ext-diff", f"{sha}^", sha, "--", root or ".")
    below = f"{root}/" if root else ""
    changes = [
        Lines(each.path.removeprefix(below), each.first, each.count)
        for each in removed(diff.decode("utf-8", "replace"))
        if each.path.startswith(below)
    ]
    found: list[Function] = []
    for path in dict.fromkeys(each.path for each in changes):
        data = _git(mirror, "show", f"{sha}^:{below}{path}")
        found += touched(_read(path, data, languages, grammars), changes)
    return found


def _git(mirror: Path, *words: str) -> bytes:
    """What git says of a history without a work tree. Raises: NoCommitError."""
    command = ["git", "-c", "core.quotePath=false", f"--git-dir={mirror}", *words]
    ran = subprocess.run(command, capture_output=True, timeout=GIT_SECONDS, check=False)
    if ran.returncode:
        raise NoCommitError(ran.stderr.decode("utf-8", "replace").strip().splitlines()[-1][:200])
    return ran.stdout
