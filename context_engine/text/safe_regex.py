r"""PURE. Patterns that a stranger may have written, run by RE2: time grows with the text and with nothing else.

Python's `re` may take years for thirty characters, so it runs our own patterns only
(tests/security/test_security_patterns.py). RE2 knows no look-around and no back-references; a pattern that needs them
is refused with RE2's reason.

>>> compile_linear("(a+)+$").search("a" * 40 + "!") is None
True
>>> compile_linear(r"(a)\1")
Traceback (most recent call last):
ValueError: invalid escape sequence: \1
"""

from __future__ import annotations

from typing import Any


def load_re2() -> Any:
    """Return the module of RE2, or None where it is not installed."""
    try:
        import re2
    except ImportError:
        return None
    return re2


def compile_linear(pattern: str | bytes, flags: str = "") -> Any:
    """Return a compiled pattern with the methods of one of `re`; `flags` are letters out of `ims`.

    Raises: ValueError.
    """
    engine = load_re2()
    if engine is None:
        raise ValueError("google-re2 is not installed")
    options = engine.Options()
    options.log_errors = False
    kept = "".join(flag for flag in "ims" if flag in flags)
    if kept:
        pattern = b"(?%b)%b" % (kept.encode(), pattern) if isinstance(pattern, bytes) else f"(?{kept}){pattern}"
    try:
        return engine.compile(pattern, options)
    except engine.error as error:
        reason = error.args[0] if error.args else error
        raise ValueError(reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)) from None
    except UnicodeError:
        raise ValueError("it has half a character (a lone surrogate)") from None
