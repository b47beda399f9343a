r"""JSON, TOML and YAML read by their own parsers: where one stops to make sense. Never raises.

>>> json_faults('{"a": 1,}')
(Fault(line=1, column=9, message='Expecting property name enclosed in double quotes', is_sure=True),)
>>> json_faults('{"a": 1,} // why', comments=True)
()
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from typing import Any

from context_engine.review.validation.remark import Fault

COMMENTED = re.compile(
    r"(?:^|/)(?:[tj]sconfig[^/]*\.json|\.?eslintrc(?:\.json)?|\.babelrc|\.swcrc|devcontainer\.json|deno\.jsonc?|\.vscode/[^/]+\.json"
    r"|[^/]+\.(?:jsonc|json5|code-workspace|sublime-[a-z]+))$",
    re.IGNORECASE,
)
"""Files whose readers take comments and trailing commas."""
STRICT = re.compile(r"(?:^|/)(?:package|package-lock|composer|manifest|npm-shrinkwrap)\.json$")
"""Files whose readers take none. Of others nobody knows."""
JSON_LINES = (".jsonl", ".ndjson")
TEMPLATE = re.compile(r"\{\{|\{%|<%")

_COMMENT = re.compile(r'("(?:\\.|[^"\\])*+(?:"|\Z))|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_TRAILING_COMMA = re.compile(r'("(?:\\.|[^"\\])*+(?:"|\Z))|,(?=\s*[\]}])', re.DOTALL)
_TOML_PLACE = re.compile(r"(.*?) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)

Faults = tuple[Fault, ...]


def json_faults(text: str, *, comments: bool = False) -> Faults | str:
    """Where a JSON text is none; why nobody can say."""
    text = text.removeprefix("\ufeff")
    if comments:
        text = _TRAILING_COMMA.sub(_kept, _COMMENT.sub(_kept, text))
    try:
        loaded(text)
    except json.JSONDecodeError as error:
        return (Fault(error.lineno, error.colno, error.msg),)
    except ValueError as error:
        return (Fault(1, 1, str(error)),)
    except RecursionError:
        return "it is nested deeper than a parser can follow"
    return ()


def json_file_faults(text: str, path: str) -> Faults | str:
    """The same for a file: where only comments or trailing commas are in the way, its reader may well take them."""
    if COMMENTED.search(path):
        return json_faults(text, comments=True)
    found = json_faults(text)
    if found and not isinstance(found, str) and not STRICT.search(path) and json_faults(text, comments=True) == ():
        return tuple(fault._replace(is_sure=False) for fault in found)
    return found


def json_lines_faults(text: str) -> Faults | str:
    """The same for a file with one JSON value a line."""
    found: list[Fault] = []
    for number, line in enumerate(text.split("\n"), 1):
        faults = json_faults(line) if line.strip() else ()
        if isinstance(faults, str):
            return faults
        found += [fault._replace(line=number) for fault in faults]
    return tuple(found)


def loaded(text: str) -> Any:
    """The value of a JSON text. Numbers of any length are read; NaN and Infinity are none. Raises: ValueError, RecursionError."""
    return json.loads(text, parse_constant=_no_constant, parse_int=_whole)


def toml_faults(text: str) -> Faults | str:
    """Where a TOML text is none; why nobody can say."""
    try:
        tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        said = _TOML_PLACE.fullmatch(str(error))
        if said is None:
            return (Fault(1, 1, str(error)),)
        last = text.rstrip("\n").count("\n") + 1
        return (Fault(int(said[2] or last), int(said[3] or 1), said[1]),)
    except ValueError as error:  # a number with more digits than Python converts
        return (Fault(1, 1, str(error), is_sure=False),)
    except RecursionError:
        return "it is nested deeper than a parser can follow"
    return ()


def yaml_faults(text: str) -> Faults | str:
    """Where the structure of a YAML text breaks; what its tags mean is between the file and its reader."""
    import yaml

    try:
        for _ in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            pass
    except yaml.MarkedYAMLError as error:
        if TEMPLATE.search(text):
            return "it looks like a template, which is no YAML yet"
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        return (Fault(*place, " ".join(filter(None, (error.problem, error.context)))),)
    except yaml.YAMLError as error:
        return (Fault(1, 1, str(error).split("\n")[0], is_sure=False),)
    except RecursionError:
        return "it is nested deeper than a parser can follow"
    return ()


def repeated_keys(text: str) -> list[str]:
    """Keys that stand twice in one object of a sound JSON text: most readers keep the last one and say nothing."""
    found: list[str] = []

    def kept(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            found.extend(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        return made

    try:
        json.loads(text, object_pairs_hook=kept, parse_int=_whole)
    except (ValueError, RecursionError):
        return []
    return list(dict.fromkeys(found))


def _kept(found: re.Match[str]) -> str:
    """A string as it is; anything else made blank, lines where they were."""
    return found[1] or re.sub(r"[^\n]", " ", found.group())


def _whole(digits: str) -> int | float:
    """Python refuses to convert some thousand digits; whoever sends them means no exact number."""
    return int(digits) if len(digits) < WHOLE_DIGITS else float("inf")


WHOLE_DIGITS = 4_000


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")
