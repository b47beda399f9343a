"""How `ctx` talks: results on stdout, everything about the work on stderr, colours only on a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import IO, TYPE_CHECKING, Any, Self, TypeVar

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment

from context_engine.errors import Cancelled, ContextEngineError
from context_engine.secrets.masked_text import masked
from context_engine.text.visible_text import one_line, visible

if TYPE_CHECKING:
    from rich.table import Table

    from context_engine.engine import Engine
    from context_engine.model import IndexReport, Progress

PLAIN_EVERY_S = 1.0
"""Without a terminal a line of progress is written this often."""

Outcome = TypeVar("Outcome")
Cell = str | tuple[str, str]
"""A text, or a text and its style."""


class SafeConsole(Console):
    """A Rich console whose texts hold no control characters; the styles around them are Rich's own."""

    @property
    def file(self) -> IO[str]:
        """The stream below every one that stands for another: a progress bar puts one of its own over ours."""
        found = super().file
        while (below := getattr(found, "rich_proxied_file", None)) is not None:
            found = below
        return found

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; texts are made visible before Rich measures them."""
        super().print(*(visible(each) if isinstance(each, str) else each for each in objects), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render; what a table or a Markdown text holds is made visible here at the latest."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else visible(segment.text)
            yield segment if text == segment.text else Segment(text, segment.style)


out = SafeConsole(highlight=False, soft_wrap=True)
err = SafeConsole(stderr=True, highlight=False, soft_wrap=True)


def escape_text(text: str) -> str:
    r"""Return a text as Rich shows it unchanged on one line: no markup, no line break, no control character, no secret.

    >>> escape_text("[red]a\nb")
    '\\[red]a\\u000ab'
    """
    return escape(one_line(masked(text)))


def print_error(error: ContextEngineError) -> None:
    """One line: what is wrong, and the next step."""
    step = error.suggestion[:1].upper() + error.suggestion[1:]
    said = " ".join(f"{error.message.rstrip('.')}. {step}".split())
    err.print(f"[red]error:[/red] {escape_text(said)}")


def print_note(text: str) -> None:
    """A dim line about the work."""
    err.print(f"[dim]{escape_text(text)}[/dim]")


def confirm(question: str) -> bool:
    """Ask whoever sits at the terminal; what is not a yes is a no."""
    err.print(f"{question} [y/N] ", end="", markup=False)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def print_rows(pairs: Iterable[tuple[str, str]]) -> None:
    """Name and value, a line each: aligned, wrapped to a terminal's width, never wrapped in a pipe."""
    told = [(name, one_line(masked(value))) for name, value in pairs if value]
    if not out.is_terminal:
        width = max((len(name) for name, _ in told), default=0)
        for name, value in told:
            print(f"{name:<{width}}  {value}")
        return
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in told:
        table.add_row(f"[cyan]{escape_text(name)}[/cyan]", escape_text(value))
    out.print(table)


def print_table(head: Sequence[str], cells: Iterable[Sequence[Cell]]) -> None:
    """Rows below a head: on a terminal wrapped to its width, in a pipe aligned and each on its line."""
    rows = list(cells)
    if out.is_terminal:
        out.print(build_table(head, rows), soft_wrap=False)
        return
    lines = [tuple(head), *(tuple(" ".join(_plain(cell)[0].split()) for cell in row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(f"{text:<{width}}" for text, width in zip(line, widths, strict=True)).rstrip())


def build_table(head: Sequence[str], cells: Iterable[Sequence[Cell]]) -> Table:
    """Those rows for a terminal; the first column is never wrapped."""
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for number, name in enumerate(head):
        made.add_column(name, no_wrap=number == 0)
    for row in cells:
        made.add_row(*(Text(*_plain(cell)) for cell in row))
    return made


def _plain(cell: Cell) -> tuple[str, str]:
    text, style = cell if isinstance(cell, tuple) else (cell, "")
    return visible(masked(text)), style


def print_markdown(markdown: str) -> None:
    """A text to read: laid out on a terminal, as it is in a pipe."""
    text = visible(masked(markdown))
    if not out.is_terminal:
        print(text, end="" if text.endswith("\n") else "\n")
        return
    from rich.markdown import Markdown

    out.print(Markdown(text, hyperlinks=False), soft_wrap=False)


def format_age(then_s: float | None, now_s: float) -> str:
    """How long ago it was, in the largest unit of which there is one.

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
    """Index with a progress bar, or plain lines without a terminal. Raises: Cancelled on Ctrl-C, when all is put away."""
    return run_with_progress(
        lambda tell, cancel: engine.index(path=path, force=force, progress=tell, cancel=cancel), "indexing"
    )


def ensure_index(engine: Engine, nothing: str) -> bool:
    """Build the index where there is none, and say so; whether there is one now. `nothing`: what an interrupt leaves undone."""
    if engine.status().state != "absent":
        return True
    print_note(f"no index of {engine.root} yet: building it once, later it answers at once")
    try:
        run_index(engine)
    except Cancelled:
        err.print(f"[yellow]interrupted[/yellow]: nothing {nothing}; ctx index goes on from there")
        return False
    return True


def run_with_progress(
    work: Callable[[Callable[[Progress], None], threading.Event], Outcome], name: str, *, unit: str = "files"
) -> Outcome:
    """Long work that tells how far it is and can be cancelled. Raises: Cancelled on Ctrl-C, when all is put away."""
    cancel = threading.Event()
    with _ProgressDisplay(unit) as telling:
        return _run_interruptibly(lambda: work(telling.update, cancel), cancel, name)


def _run_interruptibly(work: Callable[[], Outcome], cancel: threading.Event, name: str = "indexing") -> Outcome:
    """The work in a thread, so that Ctrl-C asks it to stop and then waits for it to end in good order."""
    outcome: list[Outcome | BaseException] = []
    finished = threading.Event()  # not Thread.join: an interrupted join takes a living thread for dead (Python 3.11)

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
            print_note("stopping, what is done is kept ...")
    result = outcome[0]
    if isinstance(result, BaseException):
        raise result
    if cancel.is_set():
        raise Cancelled(f"{name} was interrupted")
    return result


class _ProgressDisplay:
    """Progress on a terminal as a bar, elsewhere as a line now and then."""

    def __init__(self, unit: str) -> None:
        self._unit = unit

    def __enter__(self) -> Self:
        self._bar = None
        self._last_s = time.monotonic()
        self._stage = ""
        if err.is_terminal:
            from rich.progress import (
                BarColumn,
                DownloadColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
            )

            done = DownloadColumn() if self._unit == "bytes" else MofNCompleteColumn()
            self._bar = Progress(
                TextColumn("{task.description:>9}"), BarColumn(), done, TimeElapsedColumn(),
                console=err, transient=True,
            )  # fmt: skip
            self._task = self._bar.add_task("scanning", total=None)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def update(self, step: Progress) -> None:
        """Called from the indexing thread."""
        if self._bar:
            total = step.total or None
            self._bar.update(self._task, description=step.stage, completed=step.done, total=total)
        elif time.monotonic() - self._last_s >= PLAIN_EVERY_S:
            self._last_s = time.monotonic()
            print(f"{step.stage}: {_format_share(step.done, step.total, self._unit)}", file=sys.stderr, flush=True)


def _format_share(done: int, total: int, unit: str) -> str:
    """How much of it, with its unit; bytes as the bar has them.

    >>> _format_share(1_200, 4_000, "files"), _format_share(1_234_567, 9_000_000, "bytes")
    ('1,200 of 4,000 files', '1.2 MB of 9.0 MB')
    """
    if unit != "bytes":
        return f"{done:,} of {total:,} {unit}"
    from rich.filesize import decimal

    return f"{decimal(done)} of {decimal(total)}"
