"""Report names that a change leaves without a definition, by the scopes of Python.

Compilers report them in other languages; there the names of removed imports were tried and were wrong in 12 of 12
cases (docs/decisions/reviews.md).
"""

from __future__ import annotations

import ast
import builtins
import re
import symtable
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from context_engine.review.checks.check import PYTHON, CheckRule, on_line, py

if TYPE_CHECKING:
    from context_engine.model import Finding
    from context_engine.review.source_versions import FileVersion, ReviewedFile

FINDINGS_MAX = 5
DYNAMIC = re.compile(r"\bimport \*|\bglobals\(\)|\bexec\(|\bNameError\b")
"""A file with one of these may define names in other ways."""
MODULE_NAMES = frozenset(
    {*dir(builtins), "__file__", "__path__", "__annotations__", "__builtins__", "WindowsError", "reveal_type"}
)
PYTHON_2 = frozenset("basestring unicode unichr long xrange raw_input reduce file cmp reload".split())
"""Code for both versions of Python uses them behind a test of the version."""


@CheckRule(
    "undefined-name",
    "Name without a definition",
    "Using it fails with a NameError.",
    priority=1,
    confidence=0.9,
    category="correctness",
    languages=PYTHON,
    examples=(
        py("def f(a):\n    return os.getpid() «", "import os\n\ndef f(a):\n    return os.getpid()"),
        py("def f(self):\n    return g(client) «", "def f(self):\n    return g(self.client)"),
        py("def f(a):\n    b = a\n    return b", "def f(a):\n    return a"),
        py("from lib import *\n\ndef f():\n    return g()", "def f():\n    return 1"),
        py(
            "class A:\n    x = 1\n    y = [x]\n\ndef f():\n    global z\n    z = A\n\ndef g():\n    return z",
            "class A: pass",
        ),
    ),
).file
def undefined_name(file: ReviewedFile) -> Iterator[Finding]:
    """Report new uses of names, and old uses whose definition went, that no scope around them defines."""
    if file.new is None or file.new.python is None or DYNAMIC.search(file.new.text):
        return
    missing = find_undefined(file.new)
    known = find_undefined(file.old) if missing and file.old is not None else frozenset()
    uses: dict[str, list[int]] = {}
    for node in ast.walk(file.new.python):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in missing - known:
            uses.setdefault(node.id, []).append(node.lineno)
    for name, lines in [*uses.items()][:FINDINGS_MAX]:
        line = min(lines, key=lambda line: (line not in file.added, line))
        yield on_line(
            line, f"`{name}` is not defined in this file, nor is it a builtin. Using it fails with a NameError."
        )


def find_undefined(source: FileVersion) -> frozenset[str]:
    """Return the names that a file of Python uses and no scope of it defines; none where it cannot be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = symtable.symtable(source.text, source.path, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    defined, used = {*MODULE_NAMES, *PYTHON_2}, set()
    pending = [module]
    while pending:
        scope = pending.pop()
        pending += scope.get_children()
        for symbol in scope.get_symbols():
            is_bound = symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
            if is_bound and (scope is module or symbol.is_declared_global()):
                defined.add(symbol.get_name())
            elif symbol.is_referenced() and (symbol.is_global() or scope is module):
                used.add(symbol.get_name())
    return frozenset(name for name in used - defined if not name.startswith("__"))
