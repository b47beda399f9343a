"""Where a command writes: results and messages, plain in a pipe and styled on a terminal.

The commands that the daemon answers write through a `Screen`, because the daemon writes for many clients at once. Rich
is imported only where a terminal shows the text.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, TextIO

from context_engine.cli.global_options import QUIET
from context_engine.cli.terminal import SafeStream
from context_engine.secrets import redact_file
from context_engine.text import escape_line

if TYPE_CHECKING:
    from rich.console import RenderableType

Part = str | tuple[str, str]
"""A text, or a text and its style."""
FORCING_VARIABLES = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""With one of these Rich styles what goes to a pipe, too."""


class PlainOutput:
    """A stream that gets texts without styles. None: stdout, as it is at that time."""

    is_terminal = False

    def __init__(self, stream: TextIO | SafeStream | None = None) -> None:
        self._stream = stream

    def show(self, *parts: Part) -> None:
        """Write one line, made of parts."""
        self.write("".join(part if isinstance(part, str) else part[0] for part in parts))

    def write(self, text: str, end: str = "\n") -> None:
        """Write a text as it is."""
        (self._stream or sys.stdout).write(text + end)

    def render(self, renderable: RenderableType, *, soft_wrap: bool = True) -> None:
        """Show something of Rich: only a terminal can."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Screen:
    """The outputs of one command: `out` for results, `err` for messages about the work."""

    out: PlainOutput
    err: PlainOutput

    is_quiet: bool = False
    """Whether notes and warnings are left out."""

    def note(self, text: str) -> None:
        """Show a dim line about the work."""
        if not self.is_quiet:
            self.err.show((one_line(text), "dim"))

    def warn(self, label: str, text: str) -> None:
        """Show a line about the result, after a yellow label."""
        if not self.is_quiet:
            self.err.show((label, "yellow"), f": {one_line(text)}")


def one_line(text: str) -> str:
    """Return a text that stays on one line: no control character, no secret."""
    return escape_line(redact_file(text))


def is_quiet(env: Mapping[str, str]) -> bool:
    """Return whether notes, warnings and progress are left out."""
    return bool(env.get(QUIET))


def process_screen(env: Mapping[str, str]) -> Screen:
    """Return the screen of this process."""

    def choose(stream: TextIO | None, *, is_stderr: bool) -> PlainOutput:
        shows_styles = any(env.get(name) for name in FORCING_VARIABLES) or (stream is not None and stream.isatty())
        if not shows_styles:
            return PlainOutput(stream if is_stderr else None)
        from context_engine.cli.console import StyledOutput, err, out

        return StyledOutput(err if is_stderr else out)

    return Screen(choose(sys.stdout, is_stderr=False), choose(sys.stderr, is_stderr=True), is_quiet(env))


class RecordedScreen:
    """A screen whose texts are sent to the terminal or pipe of a client."""

    def __init__(self, terminals: Mapping[str, bool], env: Mapping[str, str]) -> None:
        """`terminals`: whether `out` and `err` of the client are terminals; `env`: its variables that Rich reads."""
        self._out, self._err = StringIO(), StringIO()
        forced = any(env.get(name) for name in FORCING_VARIABLES)
        self.screen = Screen(
            _recorder(self._out, env, is_terminal=terminals.get("out") is True, is_forced=forced),
            _recorder(self._err, env, is_terminal=terminals.get("err") is True, is_forced=forced),
            is_quiet(env),
        )

    @property
    def texts(self) -> tuple[str, str]:
        """The texts on `out` and on `err`."""
        return self._out.getvalue(), self._err.getvalue()


def _recorder(stream: StringIO, env: Mapping[str, str], *, is_terminal: bool, is_forced: bool) -> PlainOutput:
    if not is_terminal and not is_forced:
        return PlainOutput(SafeStream(stream))
    from context_engine.cli.console import SafeConsole, StyledOutput

    console = SafeConsole(
        file=stream, force_terminal=True if is_terminal else None, _environ=env, highlight=False, soft_wrap=True
    )
    return StyledOutput(console, SafeStream(stream))
