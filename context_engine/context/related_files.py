"""Files that belong together by their names, and the reach of an edit: what uses its definitions, and their tests.

>>> [name in list_partner_names("src/_auth.py")[0] for name in ("test_auth.py", "test__auth.py")]
[True, True]
>>> found = [RelatedFile("b.py", "imported"), RelatedFile("c.py", "test"), RelatedFile("b.py", "changed with it")]
>>> [(file.path, file.why) for file in merge_related("a.py", found)]
[('b.py', 'imported, changed with it'), ('c.py', 'test')]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from context_engine.context.project_knowledge import Workspace
from context_engine.context.shown_lines import ShownLines
from context_engine.errors import ContextEngineError
from context_engine.index import role_of
from context_engine.model import Definition
from context_engine.text import LineSpan, escape_line, format_count

RELATED_MAX = 5
"""Related files of one file; nobody reads a longer list."""
SYMBOLS_MAX = 3
"""Changed definitions that are looked up; an edit of more is a rewrite of the file."""
TESTS_MAX = 3
USES_MAX = 5
LINE_CHARS = 120
FILES_MAX = 12
"""Files whose uses of a name are resolved, which takes a few milliseconds each. Of a name in more files, the edit names
some of the definitions that contain it."""

_TEST_MARK = re.compile(r"^(?:tests?_|spec_)?(?P<stem>.+?)(?:[_.-](?:test|tests|spec|specs)|Tests?|Spec|TestCase)?$")
_HISSING = ("s", "x", "z", "ch", "sh")
_SHARED_NAME_SUFFIXES = frozenset("js jsx mjs cjs ts tsx mts cts c cc cpp cxx rs".split())
"""Where a test runner takes every file of a folder of tests, `test/agent.js` is the test of `lib/agent.js`."""
_COMMON_STEMS = frozenset("index main mod lib util utils helper helpers common setup types".split())


class RelatedFile(NamedTuple):
    """A file that belongs to another one, and why. If one definition in it does, it begins at `line` with `text`."""

    path: str
    why: str
    line: int = 0
    text: str = ""


def is_test(path: str) -> bool:
    """Return whether a file contains tests, judged by its path."""
    return role_of(path, "code") == "test"


def list_partner_names(path: str) -> list[tuple[str, ...]]:
    """Return the usual file names for the tests of a source file, or for the source file of a test, the surest first.

    >>> list_partner_names("spec/models/user_spec.rb")[0], "user.test.ts" in list_partner_names("src/user.ts")[0]
    (('user.rb', '_user.rb'), True)
    """
    stem, _, suffix = path.rpartition("/")[2].rpartition(".")
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
    if stem.endswith("es") and stem[:-2].endswith(_HISSING):
        return [stem[:-1], stem[:-2]]
    if stem.endswith("s") and not stem.endswith("ss"):
        return [stem[:-1]]
    if stem.endswith("y"):
        return [f"{stem[:-1]}ies", f"{stem}s"]
    return [f"{stem}es" if stem.endswith(_HISSING) else f"{stem}s"]


def find_partners(path: str, files_named: Callable[..., Iterable[str]]) -> list[str]:
    """Return the tests of a source file, or the source files of a test, nearest first.

    >>> files = ["tests/test_cat.py", "tests/zoo/test_cat.py", "src/test_cat_food/cat.py"]
    >>> find_partners("src/zoo/cat.py", lambda *names: [file for file in files if file.endswith(names)])
    ['tests/zoo/test_cat.py', 'tests/test_cat.py']
    """
    folders = set(path.split("/")[:-1])
    groups = list_partner_names(path)
    named = files_named(*(name for group in groups for name in group))
    partners = [other for other in named if is_test(other) != is_test(path) and other != path]

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


def describe_affected_places(path: str, changed: Sequence[LineSpan], workspace: Workspace) -> list[str]:
    """Return a line for each changed definition that is used elsewhere, and one for the tests, as far as there are any.

    `changed` are lines of the file as it is now. A file without an index, or that cannot be read, has no line.
    """
    try:
        outline = workspace.symbols.outline(path)
    except ContextEngineError:
        return []
    path, symbols = outline.path, [symbol for _, symbol in outline.symbols]
    lines, tests = [], list(find_partners(path, workspace.symbols.files_named))
    for symbol in find_changed_symbols(symbols, changed):
        uses, used_by_tests = _find_uses(path, symbol, workspace)
        tests += used_by_tests
        if uses:
            named = [f"{escape_line(file)}:{line}" for file, line in uses]
            lines.append(f"`{symbol.qualified}` is used by {_join_some(named, USES_MAX)}")
    if tests and not is_test(path):
        lines.append(f"tests: {_join_some(list(dict.fromkeys(map(escape_line, tests))), TESTS_MAX)}")
    return lines


def describe_mentions(
    symbol: str, path: str, own: LineSpan, workspace: Workspace, shown: ShownLines, most: int
) -> list[str]:
    """Return the lines of code that have a definition's name, as `rg` would, under a head that counts them.

    Without its `own` lines of its file and those that the client was `shown`; those of its file come first, of tests
    last. Empty without such lines, and of a name that very many places have.
    """
    name = symbol.rpartition(".")[2]
    try:
        lines = workspace.symbols.mentions(name) if name else []
    except ContextEngineError:  # without an index
        return []
    lines = [line for line in lines if line.path != path or not own.first <= line.line <= own.last]
    lines = [line for line in lines if not shown.includes(line.path, line.line, line.text)]
    lines.sort(key=lambda line: (line.path != path, is_test(line.path)))
    found = [f"{escape_line(line.path)}:{line.line}: {escape_line(line.text.strip()[:LINE_CHARS])}" for line in lines]
    head = f"{format_count(len(found), 'other line')} with {escape_line(name)}:"
    return [head, *found[:most]] if found else []


def _join_some(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def find_changed_symbols(symbols: Sequence[Definition], changed: Sequence[LineSpan]) -> list[Definition]:
    """Return the smallest definition around the first line of each change, each once, in order of the changes."""
    found: dict[str, Definition] = {}
    for span in changed:
        around = [symbol for symbol in symbols if symbol.kind != "section" and symbol.span.contains(span)]
        inside = [symbol for symbol in symbols if symbol.kind != "section" and span.contains(symbol.span)]
        for symbol in [min(around, key=lambda symbol: symbol.span.lines)] if around else inside:
            found.setdefault(symbol.qualified, symbol)
    return list(found.values())[:SYMBOLS_MAX]


def _find_uses(path: str, symbol: Definition, workspace: Workspace) -> tuple[list[tuple[str, int]], list[str]]:
    """Return the places that use a definition, and the tests that mention it; nothing without an index."""
    try:
        neighbors = workspace.symbols.neighbors(path, symbol.span)
    except ContextEngineError:
        return [], []
    tests = [one.path for one in neighbors if one.relation == "tests it"]
    uses = [(one.path, one.line) for one in neighbors if one.relation == "uses it"]
    exact = workspace.symbols.list_uses(path, symbol.name, symbol.span.first, files_max=FILES_MAX) if uses else None
    if exact is not None:
        uses = [(file, line) for file, line in exact if not is_test(file)]
    return uses, tests
