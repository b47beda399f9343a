"""How `ctx` talks: results on stdout, everything about the work on stderr, colours only on a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Self, TypeVar

from rich.console import Console
from rich.markup import escape

from context_engine.errors import Cancelled, ContextEngineError

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.model import IndexReport, Progress

PLAIN_EVERY_S = 1.0
"""Without a terminal a line of progress is written this often."""

Outcome = TypeVar("Outcome")

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def complain(error: ContextEngineError) -> None:
    """One line: what is wrong, and the next step."""
    step = error.suggestion[:1].upper() + error.suggestion[1:]
    said = " ".join(f"{error.message.rstrip('.')}. {step}".split())
    err.print(f"[red]error:[/red] {escape(said)}")


def note(text: str) -> None:
    """A dim line about the work."""
    err.print(f"[dim]{escape(text)}[/dim]")


def rows(pairs: Iterable[tuple[str, str]]) -> None:
    """Name and value, a line each: aligned, wrapped to a terminal's width, never wrapped in a pipe."""
    told = [(name, value) for name, value in pairs if value]
    if not out.is_terminal:
        width = max((len(name) for name, _ in told), default=0)
        for name, value in told:
            print(f"{name:<{width}}  {value}")
        return
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in told:
        table.add_row(f"[cyan]{escape(name)}[/cyan]", escape(value))
    out.print(table)


def indexed(engine: Engine, *, path: str | None = None, force: bool = False) -> IndexReport:
    """Index with a progress bar, or plain lines without a terminal. Raises: Cancelled on Ctrl-C, when all is put away."""
    return told(lambda tell, cancel: engine.index(path=path, force=force, progress=tell, cancel=cancel), "indexing")


def told(
    work: Callable[[Callable[[Progress], None], threading.Event], Outcome], name: str, *, unit: str = "files"
) -> Outcome:
    """Long work that tells how far it is and can be cancelled. Raises: Cancelled on Ctrl-C, when all is put away."""
    cancel = threading.Event()
    with _Telling(unit) as telling:
        return _interruptible(lambda: work(telling.tell, cancel), cancel, name)


def _interruptible(work: Callable[[], Outcome], cancel: threading.Event, name: str = "indexing") -> Outcome:
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
            note("stopping, what is done is kept ...")
    result = outcome[0]
    if isinstance(result, BaseException):
        raise result
    if cancel.is_set():
        raise Cancelled(f"{name} was interrupted")
    return result


class _Telling:
    """Progress on a terminal as a bar, elsewhere as a line now and then."""

    def __init__(self, unit: str) -> None:
        self._unit = unit

    def __enter__(self) -> Self:
        self._bar = None
        self._last_s = time.monotonic()
        self._stage = ""
        if err.is_terminal:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description:>9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                console=err, transient=True,
            )  # fmt: skip
            self._task = self._bar.add_task("scanning", total=None)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def tell(self, step: Progress) -> None:
        """Called from the indexing thread."""
        if self._bar:
            total = step.total or None
            self._bar.update(self._task, description=step.stage, completed=step.done, total=total)
        elif time.monotonic() - self._last_s >= PLAIN_EVERY_S:
            self._last_s = time.monotonic()
            print(f"{step.stage}: {step.done:,} of {step.total:,} {self._unit}", file=sys.stderr, flush=True)
