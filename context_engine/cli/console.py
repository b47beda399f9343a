"""How `ctx` prints: results go to stdout, messages about the work to stderr, and colors only to a terminal."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import IO, TYPE_CHECKING, Any, Self, TypeVar

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.text import Text

from context_engine.cli.next_commands import format_error
from context_engine.cli.screens import Part, PlainOutput, is_quiet
from context_engine.cli.terminal import SafeStream
from context_engine.errors import Cancelled, ContextEngineError
from context_engine.secrets import redact_file
from context_engine.text import escape_controls, escape_line

if TYPE_CHECKING:
    from rich.table import Table

    from context_engine.engine import Engine
    from context_engine.model import IndexReport, Progress

EARLY_S = 8.0
"""Some thousand files are indexed in this time. In a larger tree an answer comes before the index is complete."""
EARLY_WAIT_S = 120.0
"""The longest wait for the files of a question, on a slow machine."""
LOOK_EVERY_S = 0.05
RATE_AFTER_S = 0.1
PLAIN_EVERY_S = 1.0
"""Without a terminal, a line of progress is printed this often."""

Outcome = TypeVar("Outcome")
Cell = str | tuple[str, str]
"""A text, or a text and its style."""


class SafeConsole(Console):
    """A Rich console whose texts contain no control characters; the styles around them come from Rich."""

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

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render; the contents of tables and Markdown texts are escaped here."""
        for segment in super().render(renderable, options):
            if segment.control:
                text = segment.text
            else:
                text = escape_controls(segment.text)
            yield segment if text == segment.text else Segment(text, segment.style)


out = SafeConsole(highlight=False, soft_wrap=True)
err = SafeConsole(stderr=True, highlight=False, soft_wrap=True)


class NoteConsole(SafeConsole):
    """The console of notes and warnings, which --quiet leaves out."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, unless the user asked for quiet."""
        if not is_quiet(os.environ):
            super().print(*objects, **options)


notes = NoteConsole(stderr=True, highlight=False, soft_wrap=True)


class StyledOutput(PlainOutput):
    """An output whose texts have the styles of Rich."""

    def __init__(self, console: SafeConsole, stream: SafeStream | None = None) -> None:
        """`stream` takes what has no style; None: stdout."""
        super().__init__(stream)
        self.is_terminal = console.is_terminal
        self._console = console

    def show(self, *parts: Part) -> None:
        """Show one line, made of parts."""
        self._console.print(Text.assemble(*parts))

    def render(self, renderable: RenderableType, *, soft_wrap: bool = True) -> None:
        """Show something of Rich."""
        self._console.print(renderable, soft_wrap=soft_wrap)


def escape_text(text: str) -> str:
    r"""Escape a text for Rich so that it stays on one line: no markup, no control character, no secret.

    >>> escape_text("[red]a\nb")
    '\\[red]a\\u000ab'
    """
    return escape(escape_line(redact_file(text)))


def print_error(error: ContextEngineError) -> None:
    """Print two lines: the problem and the next step."""
    message, hint = format_error(error)
    err.print(f"[red]error:[/red] {escape_text(message)}")
    if hint:
        err.print(f"[cyan]hint:[/cyan] {escape_text(hint)}")


def print_note(text: str) -> None:
    """Print a dim line about the work to stderr."""
    notes.print(f"[dim]{escape_text(text)}[/dim]")


def confirm(question: str) -> bool:
    """Ask the user at the terminal; anything but yes means no."""
    err.print(f"{question} [y/N] ", end="", markup=False)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def print_rows(pairs: Iterable[tuple[str, str]]) -> None:
    """Print a line for each name and value: aligned, and wrapped only on a terminal. Empty values are left out."""
    rows = [(name, escape_line(redact_file(value))) for name, value in pairs if value]
    if not out.is_terminal:
        width = max((len(name) for name, _ in rows), default=0)
        for name, value in rows:
            print(f"{name:<{width}}  {value}")
        return
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in rows:
        table.add_row(f"[cyan]{escape_text(name)}[/cyan]", escape_text(value))
    out.print(table)


def print_table(head: Sequence[str], cells: Iterable[Sequence[Cell]]) -> None:
    """Print rows below a head: wrapped to the width of a terminal, or aligned on one line each in a pipe."""
    rows = list(cells)
    if out.is_terminal:
        out.print(build_table(head, rows), soft_wrap=False)
        return
    texts = [tuple(" ".join(_split_cell(cell)[0].split()) for cell in row) for row in rows]
    lines = [tuple(head), *texts]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(f"{text:<{width}}" for text, width in zip(line, widths, strict=True)).rstrip())


def build_table(head: Sequence[str], cells: Iterable[Sequence[Cell]]) -> Table:
    """Build the table for a terminal; its first column is never wrapped."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for number, name in enumerate(head):
        table.add_column(name, no_wrap=number == 0)
    for row in cells:
        table.add_row(*(Text(*_split_cell(cell)) for cell in row))
    return table


def _split_cell(cell: Cell) -> tuple[str, str]:
    """Return the escaped text of a cell and its style."""
    if isinstance(cell, tuple):
        text, style = cell
    else:
        text, style = (cell, "")
    return escape_controls(redact_file(text)), style


def print_markdown(markdown: str) -> None:
    """Print Markdown: rendered on a terminal, unchanged in a pipe."""
    text = escape_controls(redact_file(markdown))
    if not out.is_terminal:
        print(text, end="" if text.endswith("\n") else "\n")
        return
    from rich.markdown import Markdown

    out.print(Markdown(text, hyperlinks=False), soft_wrap=False)


def format_age(then_s: float | None, now_s: float) -> str:
    """Format how long ago a moment was, in the largest unit that fits.

    >>> format_age(0, 59), format_age(0, 7_300), format_age(0, 90_000), format_age(9, 0), format_age(None, 0)
    ('just now', '2 h ago', '1 d ago', 'just now', '')
    """
    if then_s is None:
        return ""
    for name, length_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if now_s - then_s >= length_s:
            return f"{int((now_s - then_s) // length_s)} {name} ago"
    return "just now"


def run_index(engine: Engine, *, path: str | None = None, force: bool = False) -> IndexReport:
    """Index with a progress bar, or with plain lines without a terminal.

    Raises: Cancelled on Ctrl-C, after clean-up.
    """
    return run_with_progress(
        lambda on_progress, cancel: engine.index.update(path=path, force=force, progress=on_progress, cancel=cancel),
        "indexing",
    )


def ensure_index(engine: Engine, nothing: str, question: str = "") -> bool:
    """Build the index if there is none, with a note; return whether there is one to answer from now.

    `nothing` completes the message for an interrupt, "nothing searched". With a `question`, the files that hold its
    words are indexed first, and a long run goes on after the answer.
    """
    if engine.index.is_complete() or engine.index.is_building:
        return True
    print_note(f"no index of {engine.root} yet: building it once, later it answers at once")
    try:
        if question:
            run_with_progress(lambda *way: _index_for_question(engine, question, *way), "indexing")
        else:
            run_index(engine)
    except Cancelled:
        notes.print(f"[yellow]interrupted[/yellow]: nothing {nothing}; ctx index goes on from there")
        return False
    return True


def _index_for_question(
    engine: Engine, question: str, on_progress: Callable[[Progress], None], cancel: threading.Event
) -> None:
    """Index in the background until all is done, or for `EARLY_S` and until the files of the question are indexed.

    Raises: Cancelled; the error of a run that failed.
    """
    index, has_files = engine.index, threading.Event()

    def hurry() -> None:
        if engine.search.hurry(question, EARLY_WAIT_S):
            has_files.set()

    index.update_in_background()
    threading.Thread(target=hurry, name="question", daemon=True).start()
    began_s = time.monotonic()
    while (progress := index.live.progress) is not None:
        if cancel.is_set():
            raise Cancelled("indexing was cancelled")
        if has_files.is_set() and time.monotonic() - began_s >= EARLY_S:
            return
        on_progress(progress)
        time.sleep(LOOK_EVERY_S)
    if not index.is_complete():
        index.update(progress=on_progress, cancel=cancel)  # it failed, and says why


def run_with_progress(
    work: Callable[[Callable[[Progress], None], threading.Event], Outcome], name: str, *, unit: str = "files"
) -> Outcome:
    """Run long work with a progress display and cancellation. Raises: Cancelled on Ctrl-C, after clean-up."""
    cancel = threading.Event()
    with _ProgressDisplay(unit) as display:
        return _run_interruptibly(lambda: work(display.update, cancel), cancel, name)


def _run_interruptibly(work: Callable[[], Outcome], cancel: threading.Event, name: str = "indexing") -> Outcome:
    """Run the work in a thread, so that Ctrl-C asks it to stop and then waits for it to finish cleanly."""
    outcome: list[Outcome | BaseException] = []
    finished = threading.Event()  # not Thread.join: after an interrupt it takes a live thread for dead (Python 3.11)

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits below
            outcome.append(error)
        finished.set()

    threading.Thread(target=run, name=name, daemon=True).start()
    while not finished.is_set():
        try:
            finished.wait(0.2)
        except KeyboardInterrupt:
            if cancel.is_set():
                raise  # the second Ctrl-C does not wait
            cancel.set()
            print_note("stopping; finished work is kept ...")
    result = outcome[0]
    if isinstance(result, BaseException):
        raise result
    if cancel.is_set():
        raise Cancelled(f"{name} was interrupted")
    return result


class _ProgressDisplay:
    """Progress as a bar on a terminal, and as a line now and then elsewhere."""

    def __init__(self, unit: str) -> None:
        self._unit = unit

    def __enter__(self) -> Self:
        self._bar = None
        self._last_s = self._began_s = time.monotonic()
        self._stage = ""
        self._is_quiet = is_quiet(os.environ)
        if err.is_terminal and not self._is_quiet:
            from rich.progress import (
                BarColumn,
                DownloadColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
            )

            if self._unit == "bytes":
                done = DownloadColumn()
            else:
                done = MofNCompleteColumn()
            self._bar = Progress(
                TextColumn("{task.description:>9}"), BarColumn(), done, TextColumn("{task.fields[rate]}"),
                TimeElapsedColumn(), console=err, transient=True,
            )  # fmt: skip
            self._task = self._bar.add_task("scanning", total=None, rate="")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def update(self, step: Progress) -> None:
        """Show a step; called from the thread that does the work."""
        if step.stage != self._stage:
            self._stage, self._began_s = step.stage, time.monotonic()
        rate = format_rate(step.done, time.monotonic() - self._began_s, self._unit)
        if self._bar:
            total = step.total or None
            self._bar.update(self._task, description=step.stage, completed=step.done, total=total, rate=rate)
        elif not self._is_quiet and time.monotonic() - self._last_s >= PLAIN_EVERY_S:
            self._last_s = time.monotonic()
            share = _format_share(step.done, step.total, self._unit)
            print(", ".join(filter(None, (f"{step.stage}: {share}", rate))), file=sys.stderr, flush=True)


def format_rate(done: int, seconds: float, unit: str) -> str:
    """Format how fast work goes; empty in the first tenth of a second, which says nothing.

    >>> format_rate(1_200, 2.0, "files"), format_rate(5_000_000, 2.0, "bytes"), format_rate(9, 0.05, "files")
    ('600 files/s', '2.5 MB/s', '')
    """
    if seconds < RATE_AFTER_S or not done:
        return ""
    if unit != "bytes":
        return f"{done / seconds:,.0f} {unit}/s"
    from rich.filesize import decimal

    return f"{decimal(int(done / seconds))}/s"


def _format_share(done: int, total: int, unit: str) -> str:
    """Format progress with its unit; bytes as in the bar.

    >>> _format_share(1_200, 4_000, "files"), _format_share(1_234_567, 9_000_000, "bytes")
    ('1,200 of 4,000 files', '1.2 MB of 9.0 MB')
    """
    if unit != "bytes":
        return f"{done:,} of {total:,} {unit}"
    from rich.filesize import decimal

    return f"{decimal(done)} of {decimal(total)}"
