r"""Read content with the real parser of its language. Never raises; an error that healthy files have is unsure.

A grammar lags behind its language, so it reports errors in healthy files: in 6 of 100 C# files, in over half of the C
files with macros. `Language.trusted_errors` says where it was never wrong (evals/validation): Go, Java and Ruby had no
error in 908 files of Hugo, 1,498 of the JDK and 1,441 of Rails; elsewhere the brackets closed in each of the 1,100
healthy files in which the grammar reported an error. Kotlin's takes some for text, so they are counted there as well.

>>> [(error.line, error.column, error.title) for error in find_json_errors('{"a": 1,}')]
[(1, 9, 'Expecting property name enclosed in double quotes')]
>>> find_json_errors('{"a": 1,} // why', lenient=True)
()
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from context_engine.languages import Captures, find_bracket_problem, read_syntax_errors
from context_engine.model import Finding, syntax_finding
from context_engine.text import LineSpan, ParseError, read_toml, read_yaml

if TYPE_CHECKING:
    from context_engine.languages import Language
    from context_engine.review.source_versions import Parsers

UNSURE = 0.5
"""Confidence of an error that healthy files have as well."""
ERRORS_MAX = 20
"""Later errors mostly repeat the first."""
COMMENTED_JSON = re.compile(
    r"(?:^|/)(?:[tj]sconfig[^/]*\.json|\.?eslintrc(?:\.json)?|\.babelrc|\.swcrc|devcontainer\.json|deno\.jsonc?|\.vscode/[^/]+\.json"
    r"|[^/]+\.(?:jsonc|json5|code-workspace|sublime-[a-z]+))$",
    re.IGNORECASE,
)
"""Files whose readers accept comments and trailing commas."""
STRICT_JSON = re.compile(r"(?:^|/)(?:package|package-lock|composer|manifest|npm-shrinkwrap)\.json$")
"""Files whose readers accept neither. For all other files this is unknown."""
JSON_LINES = (".jsonl", ".ndjson")
TEMPLATE = re.compile(r"\{\{|\{%|<%")
YAML_NODES_MAX = 500_000
"""A large API description; reading it takes some seconds."""
INTEGER_DIGITS_MAX = 4_000
"""Python refuses to convert a little more."""

_FENCE = re.compile(r"\s*(?:`{3,}|~{3,})[\w+#-]*\s*")
_TALK = re.compile(
    r"(?:Here(?:'s| is| are)|Sure|Certainly|Of course|Below is|Okay|I(?:'ve| have)|The following)\b[^;{}()=]*[:.!]$"
)
_NEWER_PYTHON = re.compile(
    r"^\s*type\s+\w+|^\s*(?:async\s+)?def\s+\w+\s*\[|^\s*class\s+\w+\s*\[|\b[rbRB]*[ftFT][rbRB]*[\"']|^\s*except\s+[^:(]+,[^:]*:\s*$"
)
"""Syntax that only newer versions of Python accept."""
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*+(?:"|\Z))|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:\\.|[^"\\])*+(?:"|\Z))|,(?=\s*[\]}])', re.DOTALL)
_TOML_PLACE = re.compile(r"(.*?) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)

SyntaxErrors = tuple[Finding, ...]


def find_syntax_errors(text: str, path: str, language: Language, parsers: Parsers) -> SyntaxErrors | str:
    """Return the errors that the parser of a language reports, in order; a sentence when the text cannot be parsed."""
    try:
        return ERRORS.get(language.parser, _find_grammar_errors)(text, path, language, parsers)
    except RecursionError:
        return "it is nested deeper than a parser can follow"


def _doubt(errors: SyntaxErrors) -> SyntaxErrors:
    return tuple(replace(error, confidence=UNSURE) for error in errors)


def _find_grammar_errors(text: str, _path: str, language: Language, parsers: Parsers) -> SyntaxErrors | str:
    data = text.encode("utf-8", "replace")
    errors = read_syntax_errors(language, data, parsers.grammars)
    if isinstance(errors, str):
        return errors
    wrapping = tuple(_find_wrapping(text, bool(errors))) if language.content == "code" else ()
    if not errors or "all" in language.trusted_errors:
        return (*wrapping, *errors[:ERRORS_MAX])
    is_bracketed = "brackets" in language.trusted_errors
    bracket = find_bracket_problem(language, data, parsers.grammars) if is_bracketed else None
    return (*wrapping, *([bracket] if bracket else ()), *_doubt(tuple(errors[:ERRORS_MAX])))


def _find_wrapping(text: str, is_broken: bool) -> Iterator[Finding]:
    """Report the wrapping of a generated answer: a Markdown fence and, in broken code, a sentence before it."""
    lines = text.rstrip().split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    for number in dict.fromkeys((first, len(lines) - 1)):
        if _FENCE.fullmatch(lines[number]):
            yield syntax_finding(number + 1, 1, "this is a Markdown fence, not code")
    if is_broken and _TALK.match(lines[first]):
        yield syntax_finding(first + 1, 1, "this is a sentence, not code")


def _find_python_errors(text: str, path: str, language: Language, parsers: Parsers) -> SyntaxErrors | str:
    """Ask Python itself. Its error is unsure where a newer Python may accept the code and the grammar does."""
    if path.lower().endswith((".pyx", ".pxd", ".pxi")):
        return "it is Cython, which we have no parser for"
    try:
        _parse_python(text)
    except SyntaxError as error:
        line = error.lineno or 1
        found = (syntax_finding(line, max(1, error.offset or 1), error.msg),)
        nearby = text.split("\n")[max(0, line - 2) : line + 1]
        may_be_newer = any(map(_NEWER_PYTHON.search, nearby))
        if may_be_newer and read_syntax_errors(language, text.encode("utf-8", "replace"), parsers.grammars) == ():
            return _doubt(found)
        return found
    except (ValueError, MemoryError) as error:
        if "\0" in text:
            return (syntax_finding(1, 1, str(error)),)
        raise RecursionError from error  # what Python reports of an expression that is nested too deep
    return ()


def _parse_python(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an invalid escape in a string is a style problem, not an error
        return ast.parse(text)


def load_values(text: str, language: Language | None) -> list[Any]:
    """Return the value that the parser of a language makes of a text; none without a parser, or if it refuses."""
    try:
        return [VALUES[language.parser](text)] if language and language.parser else []
    except (SyntaxError, ParseError, ValueError, RecursionError, MemoryError):
        return []


def _find_json_file_errors(text: str, path: str, *_: object) -> SyntaxErrors:
    """Return the errors of a JSON text; those of a file are unsure where its reader may accept more than JSON."""
    if path.lower().endswith(JSON_LINES):
        lines = enumerate(text.split("\n"), 1)
        found = ((number, find_json_errors(line)) for number, line in lines if line.strip())
        return tuple(replace(error, span=LineSpan(number, number)) for number, errors in found for error in errors)
    if COMMENTED_JSON.search(path):
        return find_json_errors(text, lenient=True)
    errors = find_json_errors(text)
    is_sure = not path or STRICT_JSON.search(path)
    if is_sure or (find_json_errors(text, lenient=True) and not TEMPLATE.search(text)):
        return errors
    return _doubt(errors)


def find_json_errors(text: str, *, lenient: bool = False) -> SyntaxErrors:
    """Return the first error of a JSON text. `lenient` accepts comments, trailing commas and NaN."""
    text = text.removeprefix("\ufeff")
    if lenient:
        text = _TRAILING_COMMA.sub(_blank, _COMMENT.sub(_blank, text))
    try:
        load_json(text, lenient=lenient)
    except json.JSONDecodeError as error:
        return (syntax_finding(error.lineno, error.colno, error.msg),)
    except ValueError as error:
        return (syntax_finding(1, 1, str(error)),)
    return ()


def _blank(found: re.Match[str]) -> str:
    """Keep a string as it is; replace anything else by blanks, with its line breaks."""
    return found[1] or re.sub(r"[^\n]", " ", found.group())


def load_json(text: str, *, lenient: bool = False) -> Any:
    """Return the value of a JSON text, with numbers of any length.

    Raises: ValueError (NaN and Infinity, too, unless `lenient`), RecursionError.
    """

    def refuse(word: str) -> Any:
        if not lenient:
            raise ValueError(f"{word} is not JSON")

    def parse_integer(digits: str) -> int | float:
        return int(digits) if len(digits) < INTEGER_DIGITS_MAX else float("inf")

    return json.loads(text, parse_constant=refuse, parse_int=parse_integer)


def _find_toml_errors(text: str, *_: object) -> SyntaxErrors:
    """Return the first error of a TOML text."""
    try:
        tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        place = _TOML_PLACE.fullmatch(str(error))
        if place is None:
            return (syntax_finding(1, 1, str(error)),)
        last = text.rstrip("\n").count("\n") + 1
        return (syntax_finding(int(place[2] or last), int(place[3] or 1), place[1]),)
    except ValueError as error:  # a number with more digits than Python converts
        return (syntax_finding(1, 1, str(error), confidence=UNSURE),)
    return ()


def _find_yaml_errors(text: str, *_: object) -> SyntaxErrors | str:
    """Return where the structure of a YAML text breaks; what its tags mean is up to its reader."""
    import yaml

    try:
        for _ in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            pass
    except yaml.MarkedYAMLError as error:
        if TEMPLATE.search(text):
            return "it looks like a template, which is not YAML yet"
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        return (syntax_finding(line, column, " ".join(filter(None, (error.problem, error.context)))),)
    except (yaml.YAMLError, UnicodeEncodeError) as error:  # a character that YAML does not allow: test data has them
        return (syntax_finding(1, 1, str(error).split("\n")[0], confidence=UNSURE),)
    return ()


def find_repeated_keys(text: str, language: Language, parsers: Parsers) -> list[tuple[str, int]]:
    """Return the keys that occur twice in one object, each with its line: most readers silently keep the last value."""
    find = REPEATED_KEYS.get(language.parser)
    return find(text, language, parsers) if find else []


def _find_repeated_keys(query: str, text: str, language: Language, parsers: Parsers) -> list[tuple[str, int]]:
    found = Captures(language, text.encode("utf-8", "replace"), parsers.grammars).find(query)
    keys = [(match["object"].start, match["key"]) for match in found]
    firsts = {(start, key.text): key.start for start, key in reversed(keys)}
    return [(key.text.strip("'\""), key.first) for start, key in keys if firsts[start, key.text] < key.start]


def _find_repeated_yaml_keys(text: str, *_: object) -> list[tuple[str, int]]:
    import yaml

    repeated: list[tuple[str, int]] = []
    seen: set[int] = set()  # nodes, since aliases lead to the same one
    try:
        pending = list(yaml.compose_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (yaml.YAMLError, RecursionError):
        return []
    while pending:
        node = pending.pop()
        if id(node) in seen or not isinstance(node, yaml.CollectionNode):
            continue
        seen.add(id(node))
        is_mapping = isinstance(node, yaml.MappingNode)
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)] if is_mapping else []
        lines = {key.value: key.start_mark.line + 1 for key in keys}
        counts = Counter(key.value for key in keys if key.value not in ("", "<<"))
        repeated += [(key, lines[key]) for key, count in counts.items() if count > 1]
        pending += [value for _, value in node.value] if is_mapping else node.value
    return repeated


# -- by `Language.parser` ----------------------------------------------------------------------------------------------

ERRORS: Mapping[str, Callable[[str, str, Language, Parsers], SyntaxErrors | str]] = {
    "json": _find_json_file_errors,
    "python": _find_python_errors,
    "toml": _find_toml_errors,
    "yaml": _find_yaml_errors,
}
VALUES: Mapping[str, Callable[[str], Any]] = {
    "json": load_json,
    "python": _parse_python,
    "toml": read_toml,
    "yaml": partial(read_yaml, nodes_max=YAML_NODES_MAX),
}
REPEATED_KEYS: Mapping[str, Callable[[str, Language, Parsers], list[tuple[str, int]]]] = {
    "json": partial(_find_repeated_keys, "(object (pair key: (string) @key)) @object"),
    "python": partial(_find_repeated_keys, "(dictionary (pair key: [(string) (integer)] @key)) @object"),
    "yaml": _find_repeated_yaml_keys,
}
"""A reader of TOML refuses them by itself."""
