"""PURE. Files that belong together by their names, and related files listed once with every reason.

>>> [name in list_partner_names("src/_auth.py")[0] for name in ("test_auth.py", "test__auth.py")]
[True, True]
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
_HISSING = re.compile(r"(?:s|x|z|ch|sh)$")
_HISSING_PLURAL = re.compile(r"(?:s|x|z|ch|sh)es$")
_SHARED_NAME_SUFFIXES = frozenset("js jsx mjs cjs ts tsx mts cts c cc cpp cxx rs".split())
"""Where a test runner takes every file of a folder of tests, `test/agent.js` is the test of `lib/agent.js`."""
_COMMON_STEMS = frozenset("index main mod lib util utils helper helpers common setup types".split())


def is_test(path: str) -> bool:
    """Return whether a file contains tests, judged by its path."""
    return role_of(path, "code") == "test"


def list_partner_names(path: str) -> list[tuple[str, ...]]:
    """Return the usual file names for the tests of a source file, or for the source file of a test, the surest first.

    >>> list_partner_names("spec/models/user_spec.rb")[0], "user.test.ts" in list_partner_names("src/user.ts")[0]
    (('user.rb', '_user.rb'), True)
    """
    name = path.rpartition("/")[2]
    stem, _, suffix = name.rpartition(".")
    if not stem:
        return []
    if is_test(path):
        match = _TEST_MARK.fullmatch(stem)
        source = match["stem"] if match else stem
        sure = [source, f"_{source}"]
        loose = [f"{mark}{other}" for other in _list_other_numbers(source) for mark in ("", "_")]
    else:
        bare = stem.strip("_") or stem
        stems = [stem] if stem.startswith("__") else list(dict.fromkeys((stem, bare)))
        sure = [test for one in stems for test in _list_test_stems(one)]
        loose = [test for one in _list_other_numbers(stems[-1]) for test in _list_test_stems(one)]
    is_shared = suffix in _SHARED_NAME_SUFFIXES and stem not in _COMMON_STEMS
    ranked = (sure, [stem] if is_shared else [], loose)
    names = (tuple(f"{one}.{suffix}" for one in stems if is_shared or one != stem) for stems in ranked)
    return [group for group in names if group]


def _list_test_stems(stem: str) -> list[str]:
    """Return what the test of a file is usually called, without the suffix."""
    stems = [f"test_{stem}", f"tests_{stem}", f"spec_{stem}"]
    stems += [f"{stem}{mark}{word}" for mark in "_.-" for word in ("test", "spec")]
    if stem[:1].isupper():
        stems += [f"{stem}{word}" for word in ("Test", "Tests", "Spec", "TestCase")]
    return stems


def _list_other_numbers(stem: str) -> list[str]:
    """Return the plural of a singular, or the singulars that a plural can have.

    >>> _list_other_numbers("screen"), _list_other_numbers("boxes"), _list_other_numbers("entity")
    (['screens'], ['boxe', 'box'], ['entities', 'entitys'])
    """
    if stem.endswith("ies"):
        return [f"{stem[:-3]}y", stem[:-1]]
    if _HISSING_PLURAL.search(stem):
        return [stem[:-1], stem[:-2]]
    if stem.endswith("s") and not stem.endswith("ss"):
        return [stem[:-1]]
    if stem.endswith("y"):
        return [f"{stem[:-1]}ies", f"{stem}s"]
    return [f"{stem}es" if _HISSING.search(stem) else f"{stem}s"]


def find_partners(path: str, files_named: Callable[..., Iterable[str]]) -> list[str]:
    """Return the tests of a source file, or the source files of a test, nearest first.

    >>> files = ["tests/test_cat.py", "tests/zoo/test_cat.py", "src/test_cat_food/cat.py"]
    >>> find_partners("src/zoo/cat.py", lambda *names: [file for file in files if file.endswith(names)])
    ['tests/zoo/test_cat.py', 'tests/test_cat.py']
    """
    folders = set(path.split("/")[:-1])
    is_wanted_test = not is_test(path)
    groups = list_partner_names(path)
    named = files_named(*(name for group in groups for name in group))
    partners = [other for other in named if is_test(other) == is_wanted_test and other != path]

    def distance(other: str) -> tuple[int, int, str]:
        return -len(folders & set(other.split("/")[:-1])), other.count("/"), other

    ranked = ([other for other in partners if other.rpartition("/")[2] in group] for group in groups)
    return sorted(next(filter(None, ranked), []), key=distance)


def merge_related(path: str, related: Iterable[RelatedFile], *, most: int = RELATED_MAX) -> list[RelatedFile]:
    """Return each related file once with all its reasons, in the order of the first one; never the file itself."""
    reasons: dict[str, dict[str, None]] = {}
    for file in related:
        if file.path != path:
            reasons.setdefault(file.path, {})[file.why] = None
    return [RelatedFile(other, ", ".join(why)) for other, why in reasons.items()][:most]
