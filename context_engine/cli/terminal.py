"""Safe stdout and stderr of `ctx`: no text from a repository controls the terminal, and no encoding makes a write fail.

`print` and typer write through `SafeStream`. Rich needs escape sequences for its colors, so its console escapes texts
first (`console.SafeConsole`) and then writes past that stream.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from context_engine.text import escape_characters, escape_controls

UNENCODABLE = "ctx-escape"
"""The name under which Python's encoders find `_escape_unencodable`."""


class SafeStream:
    """A text stream that writes control characters as escapes. It has no `buffer`, so only Rich can bypass it."""

    def __init__(self, raw: TextIO) -> None:
        self.rich_proxied_file = raw
        """Rich writes here: this is its name for the stream inside a wrapper."""
        self.encoding, self.errors = raw.encoding, raw.errors

    def write(self, text: str, /) -> int:
        """Write the escaped text."""
        self.rich_proxied_file.write(escape_controls(text))
        return len(text)

    def flush(self) -> None:
        """Flush the stream below."""
        self.rich_proxied_file.flush()

    def isatty(self) -> bool:
        """Return whether a terminal shows it."""
        return self.rich_proxied_file.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the stream below."""
        return self.rich_proxied_file.fileno()

    def writable(self) -> bool:
        """Return True."""
        return True


@contextmanager
def safe_streams() -> Generator[None]:
    """Make stdout and stderr write control characters and unencodable characters as escapes."""
    codecs.register_error(UNENCODABLE, _escape_unencodable)
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_make_safe(stream) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _make_safe(stream: TextIO | None) -> Any:
    if stream is None or isinstance(stream, SafeStream):  # pythonw has none
        return stream
    with suppress(AttributeError, ValueError):  # a test double, or a closed stream
        stream.reconfigure(errors=UNENCODABLE)  # ty: ignore[missing-attribute] - what stdout is has it
    return SafeStream(stream)


def _escape_unencodable(error: UnicodeError) -> tuple[str, int]:
    r"""Write a character that the encoding lacks as `\u2026`, which is valid in JSON too."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return escape_characters(error.object[error.start : error.end]), error.end
