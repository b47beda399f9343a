"""The file of a team's rules read: YAML, RE2 patterns, globs. What is wrong with it becomes a sentence, never an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pathspec import GitIgnoreSpec

from context_engine.errors import InvalidArgument
from context_engine.review.invariants import Pattern, Rulebook, read
from context_engine.text.secrets.rules import re2

NAMES = (".review-invariants.yml", ".review-invariants.yaml", ".context-engine/review-invariants.yml")
"""Where a team's rules lie when nobody says where; the first that is there."""


def rulebook(name: str, data: bytes) -> Rulebook:
    """The rules of a file."""
    import yaml

    try:
        return read(yaml.safe_load(data), compiled, globs)
    except (yaml.YAMLError, RecursionError) as error:
        said = " ".join(str(error).split())
        return Rulebook(warnings=(f"{name} cannot be read, nothing of it is used: {said}",))


def compiled(pattern: str, flags: str = "") -> Pattern | str:
    r"""A pattern that never takes forever, or why it is wrong.

    >>> compiled(r"(a)\1")
    "'(a)\\\\1' is no RE2 pattern: invalid escape sequence: \\1"
    """
    engine = re2()
    if engine is None:
        return f"{pattern!r} cannot be used: google-re2 is not installed"
    kept = "".join(flag for flag in "ims" if flag in flags)
    options = engine.Options()
    options.log_errors = False
    try:
        return engine.compile(f"(?{kept}){pattern}" if kept else pattern, options)
    except engine.error as error:
        said = error.args[0] if error.args else "it is wrong"
        return f"{pattern!r} is no RE2 pattern: {said.decode() if isinstance(said, bytes) else said}"


def globs(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Whether a path is among some, in gitignore notation; none of them: none is. Raises: InvalidArgument."""
    try:
        spec = GitIgnoreSpec.from_lines([each.removeprefix("./").replace("\\", "/") for each in patterns])
    except ValueError as error:
        raise InvalidArgument(f"a pattern is wrong: {error}", suggestion="write it as in .gitignore") from error
    return spec.match_file
