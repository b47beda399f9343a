"""Long work at the terminal: its progress, and an end on Ctrl-C that keeps what is finished."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar

from context_engine.cli.screens import process_screen
from context_engine.errors import Cancelled

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.model import IndexReport, Progress

EARLY_S = 8.0
"""Some thousand files are indexed in this time. In a larger tree an answer comes before the index is complete."""
EARLY_WAIT_S = 120.0
"""The longest wait for the files of a question, on a slow machine."""
LOOK_EVERY_S = 0.05
PLAIN_EVERY_S = 1.0
"""Without a terminal, a line of progress is printed for each tenth of the work, and not more often than this."""

Outcome = TypeVar("Outcome")
Work = Callable[[Callable[["Progress"], None], threading.Event], Outcome]
"""Work that reports its steps, and stops when the event is set."""


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
    if engine.index.is_complete() or engine.index.live.is_building:
        return True
    screen = process_screen()
    screen.note(f"no index of {engine.root} yet: building it once, later it answers at once")
    try:
        if question:
            run_with_progress(lambda *way: _index_for_question(engine, question, *way), "indexing")
        else:
            run_index(engine)
    except Cancelled:
        screen.warn("interrupted", f"nothing {nothing}; ctx index goes on from there")
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


def run_with_progress(work: Work[Outcome], name: str, *, unit: str = "files") -> Outcome:
    """Run work in a thread with a progress display: Ctrl-C asks it to stop and waits for it to finish cleanly.

    Raises: Cancelled on Ctrl-C, after clean-up; KeyboardInterrupt on the second one, at once; the error of the work.
    """
    cancel = threading.Event()
    outcome: list[Outcome | BaseException] = []
    finished = threading.Event()  # not Thread.join: after an interrupt it takes a live thread for dead (Python 3.11)

    def run() -> None:
        try:
            outcome.append(work(display.update, cancel))
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits below
            outcome.append(error)
        finished.set()

    with _ProgressDisplay(name, unit) as display:
        threading.Thread(target=run, name=name, daemon=True).start()
        while not finished.is_set():
            try:
                finished.wait(0.2)
            except KeyboardInterrupt:
                if cancel.is_set():
                    raise  # the second Ctrl-C does not wait
                cancel.set()
                display.screen.note("stopping; finished work is kept ...")
    result = outcome[0]
    if isinstance(result, BaseException):
        raise result
    if cancel.is_set():
        raise Cancelled(f"{name} was interrupted")
    return result


class _ProgressDisplay:
    """Progress as a bar on a terminal, and as a line now and then elsewhere."""

    def __init__(self, name: str, unit: str) -> None:
        self.screen = process_screen()
        self._stage, self._unit = name, unit
        self._bar: Any = None
        self._last_s = time.monotonic()
        self._tenths = 0

    def __enter__(self) -> Self:
        if self.screen.err.is_terminal and not self.screen.is_quiet:
            from rich import progress as rich

            stage = rich.TextColumn("{task.description:>9}", markup=False)
            columns = (stage, rich.BarColumn(), rich.TextColumn("{task.fields[count]}"), rich.TimeElapsedColumn())
            self._bar = rich.Progress(*columns, console=self.screen.err.console, transient=True)
            self._task = self._bar.add_task(self._stage, total=None, count="")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def update(self, step: Progress) -> None:
        """Show a step; called from the thread that does the work."""
        now_s = time.monotonic()
        if step.stage != self._stage:
            self._stage, self._tenths = step.stage, 0
        if self._bar:
            count = f"{step.done:,}/{step.total:,}" if step.total else ""
            total = step.total or None
            self._bar.update(self._task, description=step.stage, completed=step.done, total=total, count=count)
        elif not self.screen.is_quiet and (tenths := 10 * step.done // max(1, step.total)) > self._tenths:
            self._tenths = tenths
            if now_s - self._last_s < PLAIN_EVERY_S:
                return
            self._last_s = now_s
            print(f"{step.stage}: {step.done:,} of {step.total:,} {self._unit}", file=sys.stderr, flush=True)
