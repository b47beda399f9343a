"""Rich's console for texts of any repository."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from context_engine.text import escape_controls


class SafeConsole(Console):
    """A console whose texts contain no control characters; the styles around them come from Rich."""

    @property
    def file(self) -> IO[str]:
        """Return the innermost stream: a progress bar wraps this one with its own."""
        stream = super().file
        while (inner := getattr(stream, "rich_proxied_file", None)) is not None:
            stream = inner
        return stream

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; texts are escaped before Rich measures them."""
        escaped = [escape_controls(value) if isinstance(value, str) else value for value in objects]
        super().print(*escaped, **options)

    def print_parts(self, parts: Sequence[tuple[str, str]], *, wraps: bool) -> None:
        """Print texts with their styles: wrapped at words, or on one line that is cut at the width of a terminal."""
        is_cut = self.is_terminal and not wraps
        self.print(
            Text.assemble(*parts),
            soft_wrap=not self.is_terminal,
            no_wrap=is_cut,
            overflow="ellipsis" if is_cut else "fold",
        )

    def print_table(self, head: Sequence[str], rows: Sequence[Sequence[tuple[str, str]]]) -> None:
        """Print a table; its first column is never wrapped."""
        table = Table(box=None, show_header=bool(head), padding=(0, 2, 0, 0), header_style="dim")
        for number, name in enumerate(head or ("", "")):
            table.add_column(name, no_wrap=number == 0)
        for row in rows:
            table.add_row(*(Text(*cell) for cell in row))
        self.print(table, soft_wrap=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render; the contents of tables and Markdown texts are escaped here."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else escape_controls(segment.text)
            yield segment if text == segment.text else Segment(text, segment.style)
