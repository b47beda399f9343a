"""Where a command writes: results to stdout, messages about the work to stderr, styles only to a terminal.

No text from a repository controls the terminal, shows a secret, or makes a write fail because of its characters. The
daemon writes for many clients at once, so commands get a `Screen`. Rich is imported only where a terminal shows styles.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from io import StringIO
from typing import TYPE_CHECKING, Any, TextIO

from context_engine.cli.global_options import QUIET
from context_engine.secrets import redact_file
from context_engine.text import escape_characters, escape_controls, escape_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from context_engine.cli.safe_console import SafeConsole

Part = str | tuple[str, str]
"""A text, or a text and its style."""
FORCING_VARIABLES = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""With one of these Rich styles what goes to a pipe, too."""
UNENCODABLE = "ctx-escape"
"""The name under which Python's encoders find `_escape_unencodable`."""


def one_line(text: str) -> str:
    """Return a text that stays on one line: no control character, no secret."""
    return escape_line(redact_file(text))


def _split_part(part: Part) -> tuple[str, str]:
    text, style = (part, "") if isinstance(part, str) else part
    return one_line(text), style


class Output:
    """A stream of results or messages: that of the process, or one that is recorded for a client of the daemon."""

    def __init__(self, env: Mapping[str, str], *, is_stderr: bool, is_terminal: bool, record: StringIO | None = None):
        """`env` has the variables that Rich reads."""
        self._env, self._is_stderr, self._is_tty, self._record = env, is_stderr, is_terminal, record

    @cached_property
    def console(self) -> SafeConsole | None:
        """The console of Rich where styles are shown, else None."""
        if not self._is_tty and not any(self._env.get(name) for name in FORCING_VARIABLES):
            return None
        from context_engine.cli.safe_console import SafeConsole

        forced = True if self._record is not None and self._is_tty else None
        return SafeConsole(
            file=self._record, stderr=self._is_stderr, force_terminal=forced, _environ=self._env,
            highlight=False, soft_wrap=True,
        )  # fmt: skip

    @property
    def is_terminal(self) -> bool:
        """Whether this is a terminal, or is to be treated as one."""
        return self.console is not None and self.console.is_terminal

    def write(self, text: str, end: str = "\n") -> None:
        """Write a text as it is, except for control characters."""
        stream: Any = sys.stderr if self._is_stderr else sys.stdout
        if self._record is not None:
            stream = SafeStream(self._record)
        if stream is not None:  # pythonw has none
            stream.write(text + end)

    def show(self, *parts: Part) -> None:
        """Write one line, made of parts: results cut at the width of a terminal, messages wrapped at words."""
        safe = [_split_part(part) for part in parts]
        if self._is_stderr and sys.stdout:
            sys.stdout.flush()  # earlier results come first
        if self.console:
            self.console.print_parts(safe, wraps=self._is_stderr)
        else:
            self.write("".join(text for text, _ in safe))

    def render(self, renderable: RenderableType, *, soft_wrap: bool = True) -> None:
        """Show something of Rich on a terminal."""
        assert self.console
        self.console.print(renderable, soft_wrap=soft_wrap)

    def show_markdown(self, text: str) -> None:
        """Write Markdown: rendered on a terminal, unchanged in a pipe."""
        text = escape_controls(redact_file(text))
        if not self.is_terminal:
            self.write(text, end="" if text.endswith("\n") else "\n")
            return
        from rich.markdown import Markdown

        self.render(Markdown(text, hyperlinks=False), soft_wrap=False)

    def show_rows(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Write a line for each name and value: aligned, and wrapped only on a terminal. Empty values are left out."""
        rows: list[Sequence[Part]] = [((name, "cyan"), value) for name, value in pairs if value]
        self.show_table((), rows)

    def show_table(self, head: Sequence[str], cells: Iterable[Sequence[Part]]) -> None:
        """Write rows below a head: wrapped to the width of a terminal, or aligned on one line each in a pipe."""
        rows = [[_split_part(cell) for cell in row] for row in cells]
        if self.is_terminal and self.console:
            self.console.print_table(head, rows)
            return
        lines = [[" ".join(text.split()) if head else text for text, _ in row] for row in rows]
        if head:
            lines.insert(0, [*head])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            self.write("  ".join(f"{text:<{width}}" for text, width in zip(line, widths, strict=True)).rstrip())


class Screen:
    """The outputs of one command: `out` for results, `err` for messages about the work."""

    def __init__(self, out: Output, err: Output, env: Mapping[str, str]) -> None:
        self.out, self.err = out, err
        self.is_quiet = bool(env.get(QUIET))
        """Whether notes and warnings are left out."""

    def note(self, text: str) -> None:
        """Show a dim line about the work."""
        if not self.is_quiet:
            self.err.show((text, "dim"))

    def warn(self, label: str, text: str) -> None:
        """Show a line about the result, after a yellow label."""
        if not self.is_quiet:
            self.err.show((label, "yellow"), f": {text}")

    def confirm(self, question: str) -> bool:
        """Ask the user at the terminal; anything but yes means no."""
        self.err.write(f"{one_line(question)} [y/N] ", end="")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")


def process_screen() -> Screen:
    """Return the screen of this process."""
    streams = {False: sys.stdout, True: sys.stderr}
    out, err = (
        Output(os.environ, is_stderr=is_stderr, is_terminal=stream is not None and stream.isatty())
        for is_stderr, stream in streams.items()
    )
    return Screen(out, err, os.environ)


class RecordedScreen(Screen):
    """A screen whose texts are sent to the terminal or pipe of a client."""

    def __init__(self, terminals: Mapping[str, bool], env: Mapping[str, str]) -> None:
        """`terminals`: whether `out` and `err` of the client are terminals; `env`: its variables that Rich reads."""
        self.texts: list[tuple[str, str]] = []
        """The written texts in their order, each after the name of its output, "out" or "err"."""
        records = {name: _Recorder(name, self.texts) for name in ("out", "err")}
        out, err = (
            Output(env, is_stderr=name == "err", is_terminal=terminals.get(name) is True, record=record)
            for name, record in records.items()
        )
        super().__init__(out, err, env)


class _Recorder(StringIO):
    """A stream whose texts go to a list, which other streams share."""

    def __init__(self, name: str, texts: list[tuple[str, str]]) -> None:
        super().__init__()
        self._name, self._texts = name, texts

    def write(self, text: str, /) -> int:
        """Append the text."""
        self._texts.append((self._name, text))
        return len(text)


class SafeStream:
    """A text stream that writes control characters as escapes. It has no `buffer`, so only Rich can bypass it.

    Rich needs escape sequences for its colors: its console escapes texts first and then writes past this stream.
    """

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
