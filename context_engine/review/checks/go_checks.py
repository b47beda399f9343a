"""Mistakes that Go's compiler lets pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from context_engine.review.checks.check import GO, CheckRule, at_capture, go

if TYPE_CHECKING:
    from context_engine.model import Finding
    from context_engine.review.source_versions import FileVersion


# `defer` directly in the body of a `for`.
defer_in_loop = CheckRule(
    "defer-in-loop",
    "defer in a loop",
    "It runs when the function ends, not at the end of the iteration: files and locks pile up.",
    priority=2,
    confidence=0.7,
    category="performance",
    languages=GO,
    in_tests=False,
    mentions=("defer",),
    examples=(
        go("package a\nfunc f() {\n\tfor _, p := range ps {\n\t\tdefer p.Close() «\n\t}\n}"),
        go("package a\nfunc f() {\n\tfor _, p := range ps {\n\t\tfunc() {\n\t\t\tdefer p.Close()\n\t\t}()\n\t}\n}"),
    ),
).query(
    "(for_statement body: (block (statement_list (defer_statement) @it)))",
)


# A statement right after `return`, `continue` or `break`.
unreachable = CheckRule(
    "unreachable-go",
    "Never reached",
    "The statement before it always leaves this block.",
    priority=2,
    confidence=0.85,
    category="correctness",
    languages=GO,
    examples=(
        go("package a\nfunc f() int {\n\treturn 1\n\tclean() «\n}"),
        go("package a\nfunc f() int {\n\tpanic(1)\n}"),
        go("package a\nfunc f() int {\n\treturn 1\n\t// done\n}"),
    ),
).query(
    "(statement_list [(return_statement) (continue_statement) (break_statement)] . (_) @next)",
    lambda found: found["next"].kind not in ("comment", "labeled_statement"),
    capture="next",
    first_line=True,
)


# `x == x`.
self_comparison = CheckRule(
    "self-comparison-go",
    "Compared with itself",
    "Both sides are the same, so the result never changes.",
    priority=1,
    confidence=0.85,
    category="correctness",
    languages=GO,
    in_tests=False,
    examples=(
        go("package a\nfunc f() {\n\tif a.size == a.size { «\n\t}\n}"),
        go("package a\nfunc f() {\n\tif a.size == b.size {\n\t}\n\tif x != x {\n\t}\n}"),
    ),
).query(
    "(binary_expression left: [(identifier) (selector_expression)] @left"
    ' operator: ["==" "<" ">" "<=" ">="] right: [(identifier) (selector_expression)] @right) @it',
    lambda found: found["left"].text == found["right"].text,
)


@CheckRule(
    "error-dropped-go",
    "Error dropped",
    "An error was found, and success is reported.",
    priority=2,
    confidence=0.6,
    category="correctness",
    languages=GO,
    in_tests=False,
    mentions=("return nil",),
    examples=(
        go("package a\nfunc f() error {\n\tif err != nil {\n\t\treturn nil «\n\t}\n\treturn nil\n}"),
        go("package a\nfunc f() error {\n\tif err != nil {\n\t\treturn err\n\t}\n\treturn nil\n}"),
        go("package a\nfunc f() error {\n\tif err != nil {\n\t\treturn nil // gone is fine\n\t}\n\treturn nil\n}"),
    ),
).text
def error_dropped(source: FileVersion) -> Iterator[Finding]:
    """Report `if err != nil { return nil }` as the whole block, without a comment."""
    for found in source.matches(_DROPPED):
        if "//" not in source.line(found["it"].first) and "//" not in found["block"].text:
            yield at_capture(found["it"])


_DROPPED = """
(if_statement
  condition: (binary_expression left: (identifier) @_name operator: "!=" right: (nil))
  consequence: (block (statement_list . (return_statement (expression_list . (nil) .)) @it .)) @block
  (#eq? @_name "err"))
"""
