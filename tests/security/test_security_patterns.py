"""Patterns: a stranger's run in RE2; ours run in `re`, and their time grows with the text, not with its square.

The growth test derives hostile texts from each pattern: whatever it may repeat is repeated over 8,000 and 32,000
characters, with what makes it fail at the end. A linear pattern takes 4 times as long for the second text, a quadratic
one 16 times.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import re._constants as op  # ty: ignore[import-not-found] - the parser of `re` has no public name
import re._parser as parser  # ty: ignore[import-not-found]
import signal
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from context_engine.languages.grammars import Grammars
from context_engine.review.checks import CHECKS, Check
from tests.support.source_trees import modules, nodes, parsed

METHODS = {"match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
SHORT, LONG = 8_000, 32_000
"""Longer than what our patterns bound, such as 4,000 characters of a link."""
SLOW_SHARE = 0.2
"""Of the time that the quickest quadratic pattern takes on this machine over SHORT characters; a linear one takes a
hundredth of it."""
RATIO = 8
"""Between 4 of a linear pattern and 16 of a quadratic one."""
ROUNDS_MAX = 20
"""Of measurements: a busy machine makes some of them longer and none shorter, so the least time of each length counts."""
AGREEING = 2
"""Rounds in a row that must say the same."""
GIVES_UP_S = 0.5
"""Of all threads: three times what a linear pattern takes over LONG characters."""
TEXTS_MAX = 24
PARTS = 6
"""So that several workers of a test run share them."""

BOUNDED = {
    "search/named_places.py:_CALL_BEFORE": "sees 120 characters",
    "search/named_places.py:_FUNCTION_BEFORE": "sees 120 characters",
}
"""Patterns whose time grows faster than their text, each with what bounds the text."""


class Use(NamedTuple):
    """A pattern of ours and how the module calls it."""

    module: str
    name: str
    method: str


@cache
def uses() -> tuple[Use, ...]:
    """Each `NAME.method(` where NAME is written in capitals: a pattern of its module, or one that it imports."""
    found: list[Use] = []
    for module in modules():
        used = {
            Use(module, node.value.id, node.attr)
            for node in nodes(parsed(module))
            if isinstance(node, ast.Attribute)
            and node.attr in METHODS
            and isinstance(node.value, ast.Name)
            and node.value.id.isupper()
        }
        found += sorted(used)
    return tuple(found)


def pattern_of(use: Use) -> re.Pattern[Any] | None:
    name = use.module.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
    found = getattr(importlib.import_module(f"context_engine.{name}"), use.name, None)
    return found if isinstance(found, re.Pattern) else None


# -- hostile texts out of a pattern -----------------------------------------------------------------------------------


def sample(node: Any) -> str:
    """A short text that a part of a pattern matches, nearly."""
    return "".join(sample_of(kind, value) for kind, value in node)


def sample_of(kind: Any, value: Any) -> str:
    match kind:
        case op.LITERAL:
            return chr(value)
        case op.NOT_LITERAL:
            return "b" if value == ord("a") else "a"
        case op.ANY:
            return "a"
        case op.IN:
            return next(iter(members(value)), "\x01")
        case op.MAX_REPEAT | op.MIN_REPEAT | op.POSSESSIVE_REPEAT:
            return sample(value[2]) * value[0]
        case op.SUBPATTERN:
            return sample(value[3])
        case op.BRANCH:
            return sample(value[1][0])
        case op.ATOMIC_GROUP:
            return sample(value)
    return ""


def members(value: Any) -> list[str]:
    """Characters of a class."""
    written = re.compile(f"[{class_text(value)}]", re.DOTALL)
    return [char for char in "a 0-_./:\"'`=#*<>[](){}|,;@$\\+!?~&%^A\t\nz9é" if written.fullmatch(char)]


def class_text(value: Any) -> str:
    names = {
        op.CATEGORY_DIGIT: r"\d", op.CATEGORY_NOT_DIGIT: r"\D", op.CATEGORY_SPACE: r"\s",
        op.CATEGORY_NOT_SPACE: r"\S", op.CATEGORY_WORD: r"\w", op.CATEGORY_NOT_WORD: r"\W",
    }  # fmt: skip
    text = ""
    for kind, inner in value:
        if kind is op.NEGATE:
            text += "^"
        elif kind is op.LITERAL:
            text += re.escape(chr(inner))
        elif kind is op.RANGE:
            text += f"{re.escape(chr(inner[0]))}-{re.escape(chr(inner[1]))}"
        else:
            text += names[inner]
    return text


def pumps(node: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """(what comes before, what can be repeated) for each unbounded repetition in a pattern."""
    for kind, value in node:
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            if value[1] > 100:
                for text in dict.fromkeys([sample(value[2]), *alternatives(value[2])]):
                    yield before, text
            yield from pumps(value[2], before)
        elif kind is op.SUBPATTERN:
            yield from pumps(value[3], before)
        elif kind is op.ATOMIC_GROUP:
            yield from pumps(value, before)
        elif kind is op.BRANCH:
            for branch in value[1]:
                yield from pumps(branch, before)
        before += sample_of(kind, value)


def alternatives(node: Any) -> Iterator[str]:
    for kind, value in node:
        if kind is op.IN:
            yield from members(value)[:3]
        elif kind is op.BRANCH:
            yield from map(sample, value[1])
        elif kind is op.SUBPATTERN:
            yield from alternatives(value[3])


def hostile_texts(pattern: re.Pattern[Any]) -> Iterator[Callable[[int], Any]]:
    """Makers of texts of any length."""
    flags = pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags
    seen = set()
    for before, unit in pumps(parser.parse(pattern.pattern, flags)):
        for start, repeated in ((before, unit), ("", before + unit), ("", unit)):
            for end in ("\x01", "!\n"):
                if repeated and (start, repeated, end) not in seen:
                    seen.add((start, repeated, end))
                    yield maker(start, repeated, end, isinstance(pattern.pattern, bytes))


def maker(start: str, repeated: str, end: str, of_bytes: bool) -> Callable[[int], Any]:
    def make(count: int) -> str | bytes:
        text = start + repeated * (count // len(repeated)) + end
        return text.encode("latin-1", "replace") if of_bytes else text

    return make


# -- how long it takes ------------------------------------------------------------------------------------------------


class TooSlowError(Exception):
    """The time is over."""


@contextmanager
def limited(seconds: float) -> Generator[None]:
    """Stop what takes more processor time than this."""

    def over(*_: object) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def run(pattern: re.Pattern[Any], method: str, text: Any, count: int = 1) -> float:
    """The least CPU time of so many tries, without that of other threads, which earlier tests may have left."""
    tries = []
    for _ in range(count):
        started = time.thread_time()
        if method in ("match", "fullmatch", "search", "split"):
            getattr(pattern, method)(text)
        else:
            for _found in pattern.finditer(text):
                pass
        tries.append(time.thread_time() - started)
    return min(tries)


@cache
def slow_s() -> float:
    """The time over SHORT characters from which a pattern on this machine may be quadratic."""
    return SLOW_SHARE * run(re.compile("a++b"), "search", "a" * SHORT, ROUNDS_MAX)


def is_too_slow(pattern: re.Pattern[Any], method: str, make: Callable[[int], Any]) -> bool:
    """Tell whether four times the length takes rather 16 times the time than four times.

    A disturbed measurement may say either, so measuring goes on until some rounds in a row agree.
    """
    slow = slow_s()
    short = long = float("inf")
    said: list[bool] = []
    for _ in range(ROUNDS_MAX):
        try:
            with limited(GIVES_UP_S):
                short = min(short, run(pattern, method, make(SHORT)))
                if short < slow:
                    return False
                long = min(long, run(pattern, method, make(LONG)))
        except TooSlowError:
            said.append(True)
        else:
            said.append(long > RATIO * short)
        if len(said) >= AGREEING and len(set(said[-AGREEING:])) == 1:
            break
    return said[-1]


def full_name(use: Use) -> str:
    return f"{use.module}:{use.name}"


def superlinear(shown: Iterable[Use]) -> dict[str, str]:
    """Patterns whose time grows faster than their text, with a text that shows it."""
    found: dict[str, str] = {}
    for use in shown:
        name = full_name(use)
        pattern = pattern_of(use)
        if pattern is None or name in found:
            continue
        for make in islice(hostile_texts(pattern), TEXTS_MAX):
            if is_too_slow(pattern, use.method, make):
                found[name] = f"{use.method} {make(12)!r}"
                break
    return found


@pytest.mark.skipif(os.name == "nt", reason="needs an alarm clock")
@pytest.mark.parametrize("part", range(PARTS))
def test_the_time_of_our_patterns_grows_with_the_text_alone(part: int) -> None:
    shown = [use for number, use in enumerate(uses()) if number % PARTS == part]
    assert superlinear([use for use in shown if full_name(use) not in BOUNDED]) == {}


@pytest.mark.skipif(os.name == "nt", reason="needs an alarm clock")
@pytest.mark.parametrize("check", [check for check in CHECKS if check.kind == "text"], ids=lambda check: check.rule)
def test_the_time_of_the_patterns_of_a_check_grows_with_the_text_alone(check: Check) -> None:
    declared = (check.line, check.text, *check.where.values(), *check.unless.values())
    for pattern in [re.compile(written) for written in declared if written]:
        for make in islice(hostile_texts(pattern), TEXTS_MAX):
            assert not is_too_slow(pattern, "search", make), f"{pattern.pattern} {make(12)!r}"


def test_each_pattern_whose_text_is_bounded_exists() -> None:
    assert set(BOUNDED) <= {full_name(use) for use in uses()}


@pytest.mark.skipif(os.name == "nt", reason="needs an alarm clock")
@pytest.mark.parametrize(
    ("pattern", "is_linear"),
    [
        (r"a+b", False),
        (r"(?:a+)+b", False),
        (r"\s*;\s*$", False),
        (r"(?<!a)a+b", True),
        (r"x[^x]*y", True),
        (r"a++b", False),
    ],
)
def test_the_growth_test_tells_linear_patterns_from_others(pattern: str, is_linear: bool) -> None:
    compiled = re.compile(pattern)
    assert any(is_too_slow(compiled, "search", make) for make in hostile_texts(compiled)) != is_linear


# -- patterns that are not written in our source ----------------------------------------------------------------------

NOT_CONSTANT = {
    "context/commands.py": "joins patterns of its own table",
    "cli/clients/jsonc_editor.py": "joins patterns of its own",
    "cli/clients/toml_editor.py": "a section's name of ours, without any sign that means something",
    "edit/edit_errors.py": "escapes its own table",
    "languages/signatures.py": "escaped comment marks",
    "languages/comments.py": "escaped comment marks",
    "references/symbol_graph.py": "the escaped name of a definition",
    "languages/language.py": "patterns of this package's own language files; a user's run in RE2",
    "languages/name_occurrences.py": "an escaped word",
    "edit/module_rename.py": "the escaped name of a file",
    "edit/rename.py": "an escaped name",
    "references/module_uses.py": "the escaped target of an import",
    "review/checks/change_checks.py": "an escaped name, or one of two constants",
    "review/checks/check.py": "patterns of checks.toml, which are measured here",
    "review/checks/file_checks.py": "an escaped name",
    "review/validation/style_checks.py": "patterns of its own table",
    "team/candidate_store.py": "what pathspec makes of globs, as it matches them itself elsewhere",
    "team/token_file.py": "its own numbers",
    "secrets/redacted_text.py": "an escaped value",
    "secrets/assignments.py": "its own numbers",
    "secrets/verifiers.py": "joins patterns of its own",
    "secrets/secret_finder.py": "its own numbers, a pattern of ours as bytes, and joins patterns of its own",
    "secrets/secret_rules.py": "rules of this package; a user's run in RE2",
    "text/formatting.py": "joins classes of its own",
    "text/decoding.py": "patterns of its own tables, none of which repeats a repetition",
    "text/words.py": "joins patterns of its own",
    "tools/reply.py": "an escaped name",
    "repo/git_files.py": "joins patterns of its own",
    "repo/re2_search.py": "its own signs of an error of RE2",
    "repo/ignore_rules.py": "globs without nested repetitions, against one name or folder of a path",
}
"""Files that give `re` a pattern which is not a constant, and why no stranger's pattern gets there."""


def test_a_pattern_that_is_not_a_constant_has_its_reason() -> None:
    found = {module for module in modules() if any(map(is_not_constant, nodes(parsed(module))))}
    assert found - NOT_CONSTANT.keys() == set(), "run a stranger's pattern by text.compile_linear"
    assert NOT_CONSTANT.keys() - found == set(), "no longer needed"


def is_not_constant(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=name), args=[first, *_]):
            return name in METHODS | {"compile"} and not isinstance(first, ast.Constant)
    return False


def test_only_one_module_knows_re2() -> None:
    found = [
        module
        for module in modules()
        for node in nodes(parsed(module))
        if isinstance(node, ast.Import) and any(alias.name == "re2" for alias in node.names)
    ]
    assert found == ["text/patterns.py"]


@pytest.mark.parametrize(
    ("grammar", "text"),
    [
        ("swift", "/*" * 1_250),
        ("swift", "/*" * 10_000),
        ("python", "-->\n" * 25_000),
        ("c", "-->\n" * 25_000),
        ("rust", "-->\n" * 25_000),
    ],
)
def test_a_grammar_that_cannot_recover_from_errors_is_stopped(tmp_path: Path, grammar: str, text: str) -> None:
    """They need quadratic time or more, minutes to hours here; the file is read, searched and edited without a tree."""
    grammars = Grammars(tmp_path)
    began = time.process_time()
    assert grammars.parse(grammar, text.encode()) is None
    assert time.process_time() - began < 10
    assert grammars.parse(grammar, b"a = 1\n") is not None, "the parser goes on with the next file"


@pytest.mark.parametrize("text", ["def alpha():\n    return 1\n" * 200, "def alpha(:\n  )) return 1\n" * 100])
def test_a_timed_parse_gives_the_tree_of_one_that_is_not_timed(tmp_path: Path, text: str) -> None:
    grammars = Grammars(tmp_path)
    timed, parser = grammars.parse("python", text.encode()), grammars.parser("python")
    assert timed is not None
    assert parser is not None
    assert str(timed.root_node) == str(parser.parse(text.encode()).root_node)
