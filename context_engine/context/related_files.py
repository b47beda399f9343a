"""PURE. Which files belong together by their names, and how what is related is told: each file once, with every reason.

>>> "test_auth.py" in list_partner_names("src/auth.py"), is_test("tests/test_auth.py")
(True, True)
>>> merge_related("a.py", [RelatedFile("b.py", "imported"), RelatedFile("c.py", "test"), RelatedFile("b.py", "changed with it")])
[RelatedFile(path='b.py', why='imported, changed with it'), RelatedFile(path='c.py', why='test')]
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from context_engine.index.file_roles import role_of
from context_engine.text import split_words

RELATED_MAX = 5
"""Of one file; more are a list nobody reads."""
IMPORTS_MAX = 3
IMPORTERS_MAX = 2
"""A file that half the project imports is not understood through them."""


class RelatedFile(NamedTuple):
    """A file that belongs to another one, and why."""

    path: str
    why: str


_TEST_MARK = re.compile(r"^(?:tests?_|spec_)?(?P<stem>.+?)(?:[_.-](?:test|tests|spec|specs)|Tests?|Spec|TestCase)?$")


def is_test(path: str) -> bool:
    """Whether a file holds tests, judged by its path."""
    return role_of(path, "code") == "test"


def list_partner_names(path: str) -> frozenset[str]:
    """The file names that the tests of a source file go by, or for a test those of what it tests.

    >>> sorted(list_partner_names("spec/models/user_spec.rb")), "user.test.ts" in list_partner_names("src/user.ts")
    (['user.rb'], True)
    """
    name = path.rpartition("/")[2]
    stem, _, suffix = name.rpartition(".")
    if not stem:
        return frozenset()
    if is_test(path):
        match = _TEST_MARK.fullmatch(stem)
        bare = match["stem"] if match else stem
        return frozenset({f"{bare}.{suffix}"} - {name})
    lower = (
        f"test_{stem}",
        f"tests_{stem}",
        f"spec_{stem}",
        *(f"{stem}{mark}{word}" for mark in "_.-" for word in ("test", "spec")),
    )
    upper = (f"{stem}{word}" for word in ("Test", "Tests", "Spec", "TestCase")) if stem[:1].isupper() else ()
    return frozenset(f"{each}.{suffix}" for each in (*lower, *upper))


def select_partners(path: str, named: Iterable[str]) -> list[str]:
    """Of files that go by a partner's name those that are one: tests of a source or the source of a test, nearest first.

    >>> select_partners("src/zoo/cat.py", ["tests/test_cat.py", "tests/zoo/test_cat.py", "src/test_cat_food/cat.py"])
    ['tests/zoo/test_cat.py', 'tests/test_cat.py']
    """
    own = set(path.split("/")[:-1])
    wanted = not is_test(path)
    found = {each for each in named if is_test(each) == wanted and each != path}
    return sorted(found, key=lambda each: (-len(own & set(each.split("/")[:-1])), each.count("/"), each))


def merge_related(path: str, related: Iterable[RelatedFile], *, most: int = RELATED_MAX) -> list[RelatedFile]:
    """Each related file once, in order of its first reason, with all its reasons; never the file itself."""
    reasons: dict[str, dict[str, None]] = {}
    for each in related:
        if each.path != path:
            reasons.setdefault(each.path, {})[each.why] = None
    return [RelatedFile(other, ", ".join(why)) for other, why in reasons.items()][:most]


def sort_by_use(imported: Sequence[str], text: str) -> list[str]:
    """Imported files, those that the text names first: what a snippet uses matters more than what its file does.

    >>> sort_by_use(["src/a.py", "src/pool.py", "src/b.py"], "pool.drain()")
    ['src/pool.py', 'src/a.py', 'src/b.py']
    """
    named = set(split_words(text))
    return sorted(imported, key=lambda path: path.rpartition("/")[2].partition(".")[0] not in named)
