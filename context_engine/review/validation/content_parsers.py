"""Content read by the real parser of its language. Never raises; what a parser cannot be sure of, it is not said to be.

A grammar lags behind its language, so it stumbles in healthy files: over 6 in 100 of C#, over half of C with its macros, over a single
`str![...]` in Rust. Its word alone counts where it was never wrong (evals/validation); elsewhere an error needs a bracket that
does not close as well.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from context_engine.languages.brackets import bracket_problem
from context_engine.languages.syntax_errors import syntax_errors
from context_engine.review.validation.data_parsers import (
    JSON_LINES,
    json_file_faults,
    json_lines_faults,
    toml_faults,
    yaml_faults,
)
from context_engine.review.validation.remark import Fault

if TYPE_CHECKING:
    from context_engine.languages import Language
    from context_engine.review.source_versions import Parsers

SURE = frozenset({"go", "java", "ruby"})
"""No error in 908 files of Hugo, 1,498 of the JDK and 1,441 of Rails."""
BRACKETED = frozenset(
    {
        "c",
        "cpp",
        "objc",
        "csharp",
        "javascript",
        "typescript",
        "tsx",
        "php",
        "rust",
        "kotlin",
        "swift",
        "lua",
        "zig",
        "haskell",
    }
)
"""Languages whose brackets closed in every healthy file that their parser stumbled over: 1,100 of them."""
CYTHON = (".pyx", ".pxd", ".pxi")
FAULTS_MAX = 20
"""What comes after is mostly the same error again."""
_FENCE = re.compile(r"\s*(?:`{3,}|~{3,})[\w+#-]*\s*")
_TALK = re.compile(
    r"(?:Here(?:'s| is| are)|Sure|Certainly|Of course|Below is|Okay|I(?:'ve| have)|The following)\b[^;{}()=]*[:.!]$"
)
_FRONT_MATTER = re.compile(r"(?:#!.*\n)?\s*---")
_NEWER = re.compile(
    r"^\s*type\s+\w+|^\s*(?:async\s+)?def\s+\w+\s*\[|^\s*class\s+\w+\s*\[|\b[rbRB]*[ftFT][rbRB]*[\"']|^\s*except\s+[^:(]+,[^:]*:\s*$"
)
"""Python newer than the one we run on may use these; an older one stumbles over them."""


def faults(text: str, path: str, language: Language, parsers: Parsers) -> tuple[Fault, ...] | str:
    """What the parser of a language finds wrong, in order; a sentence when nobody can say."""
    match language.name:
        case "python" if path.lower().endswith(CYTHON):
            return "it is Cython, which we have no parser for"
        case "json" if path.lower().endswith(JSON_LINES):
            return json_lines_faults(text)
        case "json":
            return json_file_faults(text, path)
        case "toml":
            return toml_faults(text)
        case "yaml":
            return yaml_faults(text)
        case "python":
            return _python(text, language, parsers)
    return _by_grammar(text, language, parsers)


def _by_grammar(text: str, language: Language, parsers: Parsers) -> tuple[Fault, ...] | str:
    if language.name == "rust" and _FRONT_MATTER.match(text):
        return "it begins with front matter, which no parser of ours knows"
    data = text.encode("utf-8", "replace")
    errors = syntax_errors(language, data, parsers.grammars)
    if isinstance(errors, str):
        return errors
    wrapped = tuple(_wrapped(text, bool(errors))) if language.content == "code" else ()
    if not errors:
        return wrapped
    is_sure = language.name in SURE
    found = tuple(Fault(*error, is_sure=is_sure) for error in errors[:FAULTS_MAX])
    bracket = None if is_sure or language.name not in BRACKETED else bracket_problem(language, data, parsers.grammars)
    return (*wrapped, *((Fault(*bracket),) if bracket else ()), *found)


def _wrapped(text: str, is_broken: bool) -> Iterator[Fault]:
    """What an answer was wrapped in: a fence of Markdown, and where the code does not parse, a sentence before it."""
    lines = text.rstrip().split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    for number in dict.fromkeys((first, len(lines) - 1)):
        if _FENCE.fullmatch(lines[number]):
            yield Fault(number + 1, 1, "this is a fence of Markdown, no code")
    if is_broken and _TALK.match(lines[first]):
        yield Fault(first + 1, 1, "this is a sentence, no code")


def _python(text: str, language: Language, parsers: Parsers) -> tuple[Fault, ...] | str:
    """Python's own word, unless it stumbles over what a newer Python may read and the grammar does."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in a string is a habit, no error
            ast.parse(text)
    except SyntaxError as error:
        line = error.lineno or 1
        fault = Fault(line, max(1, error.offset or 1), error.msg)
        return (fault._replace(is_sure=not _is_newer(text, line, language, parsers)),)
    except (ValueError, RecursionError, MemoryError) as error:
        return (Fault(1, 1, str(error)),) if "\0" in text else "it is nested deeper than a parser can follow"
    return ()


def _is_newer(text: str, line: int, language: Language, parsers: Parsers) -> bool:
    lines: Sequence[str] = text.split("\n")
    near = lines[max(0, line - 2) : line + 1]
    if not any(_NEWER.search(each) for each in near):
        return False
    return syntax_errors(language, text.encode("utf-8", "replace"), parsers.grammars) == ()
