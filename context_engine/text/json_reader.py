"""PURE. Read JSON that a stranger may have written: within bounds, or refused with the line.

Nothing but `json` is imported, because servers read their first message with it.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from typing import Any, NoReturn

BYTES_MAX = 2_000_000
"""Larger than any settings file or manifest; callers with another limit pass it."""
OUTPUT_BYTES_MAX = 64_000_000
"""The output of a program or an endpoint, and a message; its reader has bounded it before."""
DEPTH_MAX = 64
"""Settings, manifests and messages nest 5 to 10 levels; Python's own functions (repr, ==, json) stay safe far beyond
64."""
NUMBER_CHARS_MAX = 100
"""A number with more characters is not a setting. Python converts digits in quadratic time."""
REASON_CHARS_MAX = 200
"""Some parsers repeat what they could not read."""


class ParseError(ValueError):
    """Why a text is not read: `reason` in one line, and the `line` it is about, 0 where there is none."""

    def __init__(self, reason: str, line: int = 0) -> None:
        """Keep both for the caller; the text of the error contains them, too."""
        if len(reason) > REASON_CHARS_MAX:
            reason = f"{reason[:REASON_CHARS_MAX]}…"
        super().__init__(f"{reason} (line {line})" if line else reason)
        self.reason = reason
        self.line = line


def read_json(
    source: str | bytes, *, bytes_max: int = BYTES_MAX, names_max: int = OUTPUT_BYTES_MAX, has_constants: bool = False
) -> Any:
    """Return the value of a JSON text. Raises: ParseError.

    `names_max`: in all objects together. NaN, Infinity and long numbers are refused unless `has_constants`.

    >>> read_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    context_engine.text.json_reader.ParseError: the key 'a' is given twice
    """
    check_size(source, bytes_max)
    text = decode_text(source, "JSON")
    left = names_max

    def read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal left
        left -= len(pairs)
        if left < 0:
            raise ParseError(f"its objects have more names than are read, at most {names_max:,} names")
        made: dict[str, Any] = {}
        for key, value in pairs:
            if key in made:
                raise ParseError(f"the key {key[:80]!r} is given twice")
            made[key] = value
        return made

    checks: dict[str, Any] = (
        {} if has_constants else {"parse_constant": _refuse, "parse_float": _read_float, "parse_int": _read_int}
    )
    try:
        read = json.loads(text, object_pairs_hook=read_object, **checks)
    except json.JSONDecodeError as error:
        raise ParseError(f"not JSON: {error.msg}", error.lineno) from None
    except RecursionError:
        raise ParseError(f"it is nested deeper than {DEPTH_MAX} levels") from None
    except ParseError:
        raise
    except ValueError:  # Python converts 4,300 digits and no more
        raise ParseError("a number has too many digits") from None
    if text.count("[") + text.count("{") > DEPTH_MAX:
        check_depth(read)
    return read


def _refuse(word: str) -> NoReturn:
    raise ParseError(f"{word} is not JSON")


def _read_float(digits: str) -> float:
    number = float(_check_number(digits))
    return _refuse(digits) if abs(number) == float("inf") else number


def _read_int(digits: str) -> int:
    return int(_check_number(digits))


def _check_number(digits: str) -> str:
    if len(digits) > NUMBER_CHARS_MAX:
        raise ParseError(f"a number has more than {NUMBER_CHARS_MAX} characters")
    return digits


# -- for other formats, too --------------------------------------------------------------------------------------------


def check_size(source: str | bytes, bytes_max: int) -> None:
    """Refuse a text that is too long. Raises: ParseError."""
    if len(source) > bytes_max:
        raise ParseError(f"it has {len(source):,} bytes, and at most {bytes_max:,} are read")


def decode_text(source: str | bytes, name: str) -> str:
    """Return a text in the format `name` without its byte order mark. Raises: ParseError."""
    if isinstance(source, bytes):
        try:
            source = source.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ParseError(f"not {name}: it is not UTF-8", source.count(b"\n", 0, error.start) + 1) from None
    return source.removeprefix("\ufeff")


def check_depth(value: Any) -> None:
    """Walk a value level by level, so that no depth of it can exhaust the stack. Raises: ParseError."""
    level = [value]
    for _ in range(DEPTH_MAX + 1):
        outer = [one for one in level if isinstance(one, dict | list)]
        if not outer:
            return
        level = [inner for one in outer for inner in (one.values() if isinstance(one, dict) else one)]
    raise ParseError(f"it is nested deeper than {DEPTH_MAX} levels")
