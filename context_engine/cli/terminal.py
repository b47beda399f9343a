"""The one way to stdout and stderr of `ctx`: nothing that strangers wrote steers the terminal, and no encoding makes a write fail.

`print` and typer write through `SafeStream`. Rich needs escapes for its colors: its console makes what it is to show
visible first (`screen.SafeConsole`), then writes past that stream.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from context_engine.text.visible_text import escape_characters, escape_controls

UNENCODABLE = "ctx-escape"
"""The name under which Python's encoders find `_escape_unencodable`."""


class SafeStream:
    """A text stream that writes control characters as escapes. It offers no `buffer`: there is no way around it but Rich's."""

    def __init__(self, raw: TextIO) -> None:
        self.rich_proxied_file = raw
        """Rich writes here: the name by which it looks through a stream that stands for another."""
        self.encoding, self.errors = raw.encoding, raw.errors

    def write(self, text: str, /) -> int:
        """Write the visible form of the text."""
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
    """Have stdout and stderr write control characters, and what their encoding does not have, as escapes."""
    codecs.register_error(UNENCODABLE, _escape_unencodable)
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_make_safe(each) for each in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _make_safe(stream: TextIO | None) -> Any:
    if stream is None or isinstance(stream, SafeStream):  # pythonw has none
        return stream
    with suppress(AttributeError, ValueError):  # a stand-in of a test, or one that is closed
        stream.reconfigure(errors=UNENCODABLE)  # ty: ignore[missing-attribute] - what stdout is has it
    return SafeStream(stream)


def _escape_unencodable(error: UnicodeError) -> tuple[str, int]:
    r"""Write what an encoding does not have as `\u2026`, which is valid in JSON too."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return escape_characters(error.object[error.start : error.end]), error.end
