"""PURE. Files that belong together by their names, and related files listed once with every reason.

>>> "test_auth.py" in list_partner_names("src/auth.py")
True
>>> found = [RelatedFile("b.py", "imported"), RelatedFile("c.py", "test"), RelatedFile("b.py", "changed with it")]
>>> merge_related("a.py", found)
[RelatedFile(path='b.py', why='imported, changed with it'), RelatedFile(path='c.py', why='test')]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from context_engine.index import role_of
from context_engine.text import split_words

RELATED_MAX = 5
"""Related files of one file; nobody reads a longer list."""
IMPORTS_MAX = 3
IMPORTERS_MAX = 2
"""Importers of one file: if half the project imports it, they do not explain it."""


class RelatedFile(NamedTuple):
    """A file that belongs to another one, and why."""

    path: str
    why: str


_TEST_MARK = re.compile(r"^(?:tests?_|spec_)?(?P<stem>.+?)(?:[_.-](?:test|tests|spec|specs)|Tests?|Spec|TestCase)?$")


def is_test(path: str) -> bool:
    """Return whether a file contains tests, judged by its path."""
    return role_of(path, "code") == "test"


def list_partner_names(path: str) -> frozenset[str]:
    """Return the usual file names for the tests of a source file; for a test, those of its source file.

    >>> sorted(list_partner_names("spec/models/user_spec.rb")), "user.test.ts" in list_partner_names("src/user.ts")
    (['user.rb'], True)
    """
    name = path.rpartition("/")[2]
    stem, _, suffix = name.rpartition(".")
    if not stem:
        return frozenset()
    if is_test(path):
        match = _TEST_MARK.fullmatch(stem)
        source = match["stem"] if match else stem
        return frozenset({f"{source}.{suffix}"} - {name})
    names = [f"test_{stem}", f"tests_{stem}", f"spec_{stem}"]
    names += [f"{stem}{mark}{word}" for mark in "_.-" for word in ("test", "spec")]
    if stem[:1].isupper():
        names += [f"{stem}{word}" for word in ("Test", "Tests", "Spec", "TestCase")]
    return frozenset(f"{name}.{suffix}" for name in names)


def find_partners(path: str, files_named: Callable[[str], Iterable[str]]) -> list[str]:
    """Return the tests of a source file, or the source files of a test, nearest first.

    >>> files = ["tests/test_cat.py", "tests/zoo/test_cat.py", "src/test_cat_food/cat.py"]
    >>> find_partners("src/zoo/cat.py", lambda name: [file for file in files if file.endswith(name)])
    ['tests/zoo/test_cat.py', 'tests/test_cat.py']
    """
    folders = set(path.split("/")[:-1])
    is_wanted_test = not is_test(path)
    named = {other for name in list_partner_names(path) for other in files_named(name)}
    partners = [other for other in named if is_test(other) == is_wanted_test and other != path]

    def distance(other: str) -> tuple[int, int, str]:
        return -len(folders & set(other.split("/")[:-1])), other.count("/"), other

    return sorted(partners, key=distance)


def merge_related(path: str, related: Iterable[RelatedFile], *, most: int = RELATED_MAX) -> list[RelatedFile]:
    """Return each related file once with all its reasons, in the order of the first one; never the file itself."""
    reasons: dict[str, dict[str, None]] = {}
    for file in related:
        if file.path != path:
            reasons.setdefault(file.path, {})[file.why] = None
    return [RelatedFile(other, ", ".join(why)) for other, why in reasons.items()][:most]


def sort_by_use(imported: Sequence[str], text: str) -> list[str]:
    """Return imported files, those that a text names first: what a snippet uses matters most.

    >>> sort_by_use(["src/a.py", "src/pool.py", "src/b.py"], "pool.drain()")
    ['src/pool.py', 'src/a.py', 'src/b.py']
    """
    named = set(split_words(text))
    return sorted(imported, key=lambda path: path.rpartition("/")[2].partition(".")[0] not in named)
