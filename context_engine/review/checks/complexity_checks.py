"""Functions that grow too long or too complex, and docstrings that fall behind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from context_engine.review.checks.check import CheckRule, on_line, py
from context_engine.text import LineSpan

if TYPE_CHECKING:
    from context_engine.languages import CaptureMatch, Symbol
    from context_engine.model import Finding
    from context_engine.review.source_versions import FileVersion, ReviewedFile

LONG_LINES = 80
"""More than a screen: readers must scroll to see the end."""
GREW_LINES = 5
"""A line or two are not a reason to split a function."""
PATHS_MAX, PATHS_GROWTH = 15, 3
"""McCabe's own limit is ten, most linters warn above ten to fifteen; three more paths are more than one condition."""


@CheckRule(
    "long-function",
    "Long function grown",
    "It was more than a screen long or is now; what was added may be a function of its own.",
    priority=2,
    confidence=0.55,
    category="maintainability",
    in_tests=False,
    examples=(
        py("def f(): «\n" + "    x()\n" * 95, "def f():\n" + "    x()\n" * 70),
        py("def f():\n" + "    x()\n" * 95, "def f():\n" + "    x()\n" * 94),
        py("def f():\n" + "    x()\n" * 60, "def f():\n    x()"),
    ),
).file
def long_function(file: ReviewedFile) -> Iterator[Finding]:
    """Report a function above 80 lines that has more of them than before."""
    before = {name: function.last - function.first + 1 for name, function in _functions(file.old).items()}
    for name, function in _functions(file.new).items():
        lines = function.last - function.first + 1
        if (
            lines > LONG_LINES
            and lines - before.get(name, 0) >= GREW_LINES
            and file.touches(LineSpan(function.first, function.last))
        ):
            was = ""
            if name in before:
                was = f"had {before[name]} lines and "
            yield on_line(function.line, f"{function.name} {was}has {lines} lines now, more than a screen.")


@CheckRule(
    "complexity",
    "Function with many paths through it",
    "Each path needs a test; a part of it may be a function of its own.",
    priority=2,
    confidence=0.65,
    category="maintainability",
    languages=("python", "javascript", "typescript", "tsx", "go", "java", "rust", "ruby", "php", "c", "cpp", "csharp"),
    in_tests=False,
    examples=(
        py("def f(a): «\n" + "    if a:\n        x()\n" * 16, "def f(a):\n" + "    if a:\n        x()\n" * 9),
        py("def f(a):\n" + "    if a:\n        x()\n" * 17, "def f(a):\n" + "    if a:\n        x()\n" * 16),
        py("def f(a):\n" + "    if a and b:\n        x()\n" * 5, "def f(a): pass"),
    ),
).file
def complexity(file: ReviewedFile) -> Iterator[Finding]:
    """Report a function with a cyclomatic complexity above 15 that is 3 more than before."""
    known = _functions(file.new)
    if file.new is None or not any(function.last - function.first > PATHS_MAX for function in known.values()):
        return
    before = {}
    if file.old is not None:
        before = count_paths(file.old)
    for name, count in count_paths(file.new).items():
        function = known[name]
        if (
            count > PATHS_MAX
            and count - before.get(name, 1) >= PATHS_GROWTH
            and file.touches(LineSpan(function.first, function.last))
        ):
            was = ""
            if name in before:
                was = f"had {before[name]} paths through it and "
            yield on_line(function.line, f"{function.name} {was}has {count} now; each path needs a test.")


def _functions(source: FileVersion | None) -> Mapping[str, Symbol]:
    if source:
        return source.functions
    return {}


def count_paths(source: FileVersion) -> Mapping[str, int]:
    """Return the cyclomatic complexity of each function: one, and one more for each fork."""
    query = FORKS.get(source.language_name)
    functions = source.functions
    counts = dict.fromkeys(functions, 1)
    for found in source.matches(query) if query else ():
        fork = found["fork"]
        around = [
            (function.last - function.first, name)
            for name, function in functions.items()
            if function.start <= fork.start < function.stop
        ]
        if around:
            counts[min(around)[1]] += 1
    return counts


_SCRIPT_FORKS = """
[(if_statement) (for_statement) (for_in_statement) (while_statement) (do_statement) (switch_case) (catch_clause)
 (ternary_expression)] @fork
(binary_expression operator: ["&&" "||" "??"]) @fork
"""
_C_FORKS = """
[(if_statement) (for_statement) (while_statement) (do_statement) (case_statement) (conditional_expression)] @fork
(binary_expression operator: ["&&" "||"]) @fork
"""
FORKS = {
    "python": "[(if_statement) (elif_clause) (for_statement) (while_statement) (except_clause) (boolean_operator)"
    " (conditional_expression) (case_clause) (if_clause)] @fork",
    **dict.fromkeys(("javascript", "typescript", "tsx"), _SCRIPT_FORKS),
    "go": "[(if_statement) (for_statement) (expression_case) (type_case) (communication_case)] @fork"
    ' (binary_expression operator: ["&&" "||"]) @fork',
    "java": "[(if_statement) (for_statement) (enhanced_for_statement) (while_statement) (do_statement) (switch_label)"
    ' (catch_clause) (ternary_expression)] @fork (binary_expression operator: ["&&" "||"]) @fork',
    "rust": "[(if_expression) (for_expression) (while_expression) (match_arm)] @fork"
    ' (binary_expression operator: ["&&" "||"]) @fork',
    "ruby": "[(if) (elsif) (unless) (while) (until) (for) (when) (rescue) (conditional) (if_modifier)"
    " (unless_modifier)] @fork",
    "php": "[(if_statement) (else_if_clause) (for_statement) (foreach_statement) (while_statement) (case_statement)"
    " (catch_clause) (conditional_expression)] @fork",
    "c": _C_FORKS,
    "cpp": _C_FORKS,
    "csharp": "[(if_statement) (for_statement) (foreach_statement) (while_statement) (do_statement) (switch_section)"
    ' (catch_clause) (conditional_expression)] @fork (binary_expression operator: ["&&" "||"]) @fork',
}
"""Queries of the forks in a function, by language."""


@CheckRule(
    "docs-behind",
    "Documentation names another parameter",
    "Readers of it call the function wrongly.",
    priority=3,
    confidence=0.7,
    category="documentation",
    languages=("python",),
    in_tests=False,
    examples=(
        py(
            'def f(size):\n    """Make it.\n\n    :param width: how wide «\n    """',
            'def f(width):\n    """Make it.\n\n    :param width: how wide\n    """',
        ),
        py(
            'def f(size):\n    """Make it.\n\n    Args:\n        width: how wide «\n    """',
            'def f(width):\n    """Make it.\n\n    Args:\n        width: how wide\n    """',
        ),
        py(
            'def f(size):\n    """Make it.\n\n    :param size: how wide\n    """',
            'def f(width):\n    """Make it.\n\n    :param width: how wide\n    """',
        ),
        py(
            'def f(size, **more):\n    """Make it.\n\n    :param width: how wide\n    """',
            'def f(width):\n    """Make it.\n\n    :param width: how wide\n    """',
        ),
    ),
).file
def docs_behind(file: ReviewedFile) -> Iterator[Finding]:
    """Report a parameter in a docstring that the signature had before and no longer has."""
    if file.new is None or file.old is None:
        return
    before, now = _documented_functions(file.old), _documented_functions(file.new)
    names = Counter(found["name"].text for found in now)
    for found in now:
        name = found["name"].text
        was = next((old for old in before if old["name"].text == name), None)
        if was is None or names[name] > 1 or "**" in found["parameters"].text:
            continue
        gone = _parameters(was["parameters"].text) - _parameters(found["parameters"].text)
        doc = found["doc"]
        for line in range(doc.first, doc.last + 1) if gone else ():
            match = _PARAMETER.match(file.new.line(line))
            parameter = (match[1] or match[2]) if match else ""
            if parameter in gone:
                yield on_line(line, f"{parameter} is no longer a parameter of {name}.")


def _documented_functions(source: FileVersion) -> list[CaptureMatch]:
    """Return the functions that have a docstring."""
    return source.matches(
        "(function_definition name: (identifier) @name parameters: (parameters) @parameters"
        " body: (block . (expression_statement . (string) @doc)))"
    )


_PARAMETER = re.compile(
    r"\s*+(?::param\s{1,20}(?:[\w.\[\], |]{1,200}\s)?\*{0,2}(\w+)\s*:|(\w+)(?:\s*\([^)]*\))?:\s+\S)"
)


def _parameters(given: str) -> set[str]:
    """Return the names in a list of parameters, and those in its types."""
    return set(re.findall(r"\w+", given))
