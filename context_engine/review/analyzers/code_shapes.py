"""Where a piece of code of some shape stands: a tree-sitter query, which we read ourselves, or a pattern of ast-grep where that is installed.

(call function: (identifier) @name (#eq? @name "eval"))      a query: it begins with a bracket
eval($TEXT)                                                  a pattern
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from context_engine.repo.executables import find_program
from context_engine.repo.subprocess_runner import apart, bare, run
from context_engine.review.invariants import InvariantSet
from context_engine.review.source_versions import FileVersion
from context_engine.text import OUTPUT_BYTES_MAX, read_json

PROGRAM = "ast-grep"
PATTERN_S = 5.0
"""One pattern over one file takes some ten milliseconds."""
NOT_THERE = "ast-grep is not installed"


def is_query(shape: str) -> bool:
    """Whether a shape is written for the parser itself."""
    return shape.lstrip().startswith(("(", "["))


def missing_program_warnings(book: InvariantSet, outside: str = "") -> tuple[str, ...]:
    """A sentence for each rule of a book that nobody can look for on this machine."""
    lost = [each.id for each in book.invariants if each.shape and not is_query(each.shape)]
    return (
        ()
        if not lost or find_program(PROGRAM, outside=outside)
        else tuple(f"invariant {name}: {NOT_THERE}: it is left out" for name in lost)
    )


def find_shape(shape: str, source: FileVersion, *, outside: str = "") -> Sequence[int] | str:
    """The lines on which the shape begins, or why nobody knows.

    `outside` is the workspace, whose programs do not count.
    """
    if is_query(shape):
        return sorted({min(each.first for each in match.values()) for match in source.matches(shape) if match})
    program = find_program(PROGRAM, outside=outside)
    if not program:
        return NOT_THERE
    if source.unparsed_reason:
        return ()
    args = [program, "run", "--pattern", shape, "--lang", source.language_name, "--json=compact", "--stdin"]
    with apart({}) as folder:
        ran = run(args, folder, limit_s=PATTERN_S, environment=bare(os.environ), given=source.data)
    try:
        return sorted(
            {row["range"]["start"]["line"] + 1 for row in read_json(ran.out or b"[]", bytes_max=OUTPUT_BYTES_MAX)}
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return ran.problem or "ast-grep said something that cannot be read"
