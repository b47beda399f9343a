"""PURE. Patterns that a stranger may have written: run by RE2, whose time grows with the text and with nothing else.

Python's `re`, which may take years for thirty characters, runs our own patterns only.

>>> compile_linear("(a+)+$").search("a" * 40 + "!") is None
True
"""

from __future__ import annotations

from typing import Any

_META = frozenset("\\.+*?()|[]{}^$")


def load_re2() -> Any:
    """Return the module of RE2, or None where it is not installed."""
    try:
        import re2
    except ImportError:
        return None
    return re2


def compile_linear(pattern: str | bytes, flags: str = "", *, by_line: bool = False) -> Any:
    """Return a compiled pattern with the methods of one of `re`; `flags` are letters out of `ims`.

    `by_line`: no match contains a line feed. Raises: ValueError.
    """
    engine = load_re2()
    if engine is None:
        raise ValueError("google-re2 is not installed")
    options = engine.Options()
    options.log_errors = False
    options.never_nl = by_line
    kept = "".join(flag for flag in "ims" if flag in flags)
    if kept:
        if isinstance(pattern, bytes):
            pattern = b"(?%b)%b" % (kept.encode(), pattern)
        else:
            pattern = f"(?{kept}){pattern}"
    try:
        return engine.compile(pattern, options)
    except engine.error as error:
        reason = error.args[0] if error.args else error
        raise ValueError(reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)) from None
    except UnicodeError:
        raise ValueError("it has half a character (a lone surrogate)") from None


def escape_literal(text: str) -> str:
    r"""Return plain text as a pattern in Rust's syntax.

    >>> escape_literal("a-b"), escape_literal("\0")
    ('a-b', '\\x00')
    """
    return "".join(f"\\{char}" if char in _META else "\\x00" if char == "\0" else char for char in text)


def fold_case(text: str) -> str:
    """Fold the case of each character on its own, as Unicode's simple folding does.

    >>> fold_case("Straẞe"), fold_case("ÅſK") == "åsk"
    ('straße', True)
    """
    if text.isascii():
        return text.lower()
    return "".join(map(_fold_character, text))


def _fold_character(char: str) -> str:
    for one in (char.casefold(), char.lower()):
        if len(one) == 1:
            return one
    return char
