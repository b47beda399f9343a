"""The file of a team's rules read: YAML, RE2 patterns, globs.

What is wrong with it becomes a sentence, never an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pathspec import GitIgnoreSpec

from context_engine.errors import InvalidArgument
from context_engine.review.invariants import InvariantSet, TextPattern, parse_invariants
from context_engine.text import ParseError, compile_linear, read_yaml

NAMES = (".review-invariants.yml", ".review-invariants.yaml", ".context-engine/review-invariants.yml")
"""Where a team's rules lie when nobody says where; the first that is there."""

RULES_BYTES_MAX = 200_000
"""A thousand rules."""


def read_invariants_file(name: str, data: bytes) -> InvariantSet:
    """The rules of a file."""
    try:
        return parse_invariants(read_yaml(data, bytes_max=RULES_BYTES_MAX), compile_pattern, compile_globs)
    except ParseError as error:
        return InvariantSet(warnings=(f"{name} cannot be read, nothing of it is used: {error}",))


def compile_pattern(pattern: str, flags: str = "") -> TextPattern | str:
    r"""A pattern that never takes forever, or why it is wrong.

    >>> compile_pattern(r"(a)\1")
    "'(a)\\\\1' is not an RE2 pattern: invalid escape sequence: \\1"
    """
    try:
        return compile_linear(pattern, flags)
    except ValueError as error:
        return f"{pattern!r} is not an RE2 pattern: {error}"


def compile_globs(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Whether a path is among some, in gitignore notation; none of them: none is. Raises: InvalidArgument."""
    try:
        spec = GitIgnoreSpec.from_lines([each.removeprefix("./").replace("\\", "/") for each in patterns])
    except ValueError as error:
        raise InvalidArgument(f"a pattern is wrong: {error}", suggestion="write it as in .gitignore") from error
    return spec.match_file
