"""PURE. Files that belong together by their names, and related files listed once with every reason.

>>> "test_auth.py" in list_partner_names("src/auth.py")
True
>>> found = [RelatedFile("b.py", "imported"), RelatedFile("c.py", "test"), RelatedFile("b.py", "changed with it")]
>>> [(file.path, file.why) for file in merge_related("a.py", found)]
[('b.py', 'imported, changed with it'), ('c.py', 'test')]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from context_engine.index import role_of

RELATED_MAX = 5
"""Related files of one file; nobody reads a longer list."""


class RelatedFile(NamedTuple):
    """A file that belongs to another one, and why. If one definition in it does, it begins at `line` with `text`."""

    path: str
    why: str
    line: int = 0
    text: str = ""


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


def find_partners(path: str, files_named: Callable[..., Iterable[str]]) -> list[str]:
    """Return the tests of a source file, or the source files of a test, nearest first.

    >>> files = ["tests/test_cat.py", "tests/zoo/test_cat.py", "src/test_cat_food/cat.py"]
    >>> find_partners("src/zoo/cat.py", lambda *names: [file for file in files if file.endswith(names)])
    ['tests/zoo/test_cat.py', 'tests/test_cat.py']
    """
    folders = set(path.split("/")[:-1])
    is_wanted_test = not is_test(path)
    named = files_named(*list_partner_names(path))
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
