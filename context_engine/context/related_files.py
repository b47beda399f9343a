"""Files that belong together by their names, and the lines that mention a definition, with its tests.

>>> [name in list_partner_names("src/_auth.py")[0] for name in ("test_auth.py", "test__auth.py")]
[True, True]
>>> found = [RelatedFile("b.py", "imported"), RelatedFile("c.py", "test"), RelatedFile("b.py", "changed with it")]
>>> [(file.path, file.why) for file in merge_related("a.py", found)]
[('b.py', 'imported, changed with it'), ('c.py', 'test')]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from context_engine.context.project_knowledge import Workspace
from context_engine.context.shown_lines import ShownLines
from context_engine.errors import ContextEngineError
from context_engine.index import role_of
from context_engine.model import Definition
from context_engine.text import LineSpan, escape_line, format_count, locate_lines

RELATED_MAX = 5
"""Related files of one file; nobody reads a longer list."""
SYMBOLS_MAX = 3
"""Definitions whose mentions are looked for; who reads or edits more at once has the whole file in view."""
TESTS_MAX, PARTNERS_MAX = 3, 2
"""Tests that name a definition, and further ones that are named after its file."""
MENTIONS_MAX = 5
"""Lines of all definitions together."""
LINE_CHARS = 120

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


def describe_mentions(
    path: str, names: Mapping[str, LineSpan], workspace: Workspace, shown: ShownLines
) -> Iterator[str]:
    """Yield what the next search for definitions of a file would find: their tests, then a few lines of each.

    `names` have the lines that the client sees of each definition. The tests are those that name one, then those named
    after the file. The lines have a name as `rg` finds it, the first below a head that counts them; those of
    the file come first. Nothing that the client was `shown` is given, and what is taken is recorded there. A file
    without an index gives nothing, nor does a name that very many places have.
    """
    lines = {}
    for name, own in names.items():
        try:
            found = workspace.symbols.mentions(name.rpartition(".")[2]) if name else []
        except ContextEngineError:
            return
        others = [line for line in found if line.path != path or not own.first <= line.line <= own.last]
        lines[name] = sorted(others, key=lambda line: (line.path != path, not line.symbol))
    if not is_test(path):
        partners = find_partners(path, workspace.symbols.files_named)
        tests = [line for own in lines.values() for line in own if is_test(line.path)]
        tests.sort(key=lambda line: line.path not in partners)
        named = [*{(line.path, line.symbol): line for line in reversed(tests)}.values()][: -TESTS_MAX - 1 : -1]
        places = locate_lines((line.path, line.begin) for line in named)
        chosen = [f"{place} {escape_line(line.symbol)}".rstrip() for place, line in zip(places, named, strict=True)]
        others = [other for other in partners if other not in {line.path for line in tests}]
        chosen += map(escape_line, others[:PARTNERS_MAX])
        if chosen and not shown.note_question(*chosen):
            yield f"tests: {', '.join(chosen)}"
    for name, own in lines.items():
        code = [line for line in own if not is_test(line.path)]
        left = [line for line in code if not shown.includes(line.path, line.line, line.text)]
        taken = left[: MENTIONS_MAX // len(lines)]
        head = f"{format_count(len(left), 'other line')} with {escape_line(name.rpartition('.')[2])}:\n"
        for place, line in zip(locate_lines((line.path, line.line) for line in taken), taken, strict=True):
            shown.add(line.path, line.line, line.text)
            yield f"{head}{place}: {escape_line(line.text.strip()[:LINE_CHARS])}"
            head = ""


def describe_mentions_at(
    path: str, spans: Sequence[LineSpan], workspace: Workspace, shown: ShownLines
) -> Iterator[str]:
    """Yield the mentions of the definitions at some lines of a file; of a file that cannot be read none."""
    try:
        outline = workspace.symbols.outline(path, details=False)
    except ContextEngineError:
        return
    found = find_symbols_at([symbol for _, symbol in outline.symbols], spans)
    yield from describe_mentions(outline.path, {one.qualified: one.span for one in found}, workspace, shown)


def find_symbols_at(symbols: Sequence[Definition], spans: Sequence[LineSpan]) -> list[Definition]:
    """Return the smallest definition around each span, or those inside of it, each once; none where they are many."""
    found: dict[str, Definition] = {}
    code = [symbol for symbol in symbols if symbol.kind != "section"]
    for span in spans:
        around = [symbol for symbol in code if symbol.span.contains(span)]
        inside = [symbol for symbol in code if span.contains(symbol.span)]
        for symbol in [min(around, key=lambda symbol: symbol.span.lines)] if around else inside:
            found.setdefault(symbol.qualified, symbol)
    return list(found.values()) if len(found) <= SYMBOLS_MAX else []
