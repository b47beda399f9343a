"""The terminal's manners: one line for an error, Ctrl-C that waits for good order, plain text in a pipe."""

from __future__ import annotations

import signal
import threading

import pytest

from context_engine.cli.command_runner import show_error
from context_engine.cli.progress import run_index, run_with_progress
from context_engine.cli.screens import process_screen
from context_engine.errors import Cancelled, FileNotFound
from tests.support.tools_stand_in import StandIn


def test_an_error_is_a_line_and_the_next_step_another(capsys: pytest.CaptureFixture[str]) -> None:
    show_error(FileNotFound("there is no [folder] x", suggestion="check the spelling"), process_screen())
    assert capsys.readouterr().err == "error: there is no [folder] x\nhint: Check the spelling.\n"


def test_ctrl_c_asks_the_work_to_stop_and_waits_for_it() -> None:
    engine = StandIn(hold=threading.Event())
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(Cancelled):
        run_index(engine)  # ty: ignore[invalid-argument-type] - a stand-in
    timer.join()
    assert engine.cancelled.is_set()


def test_work_that_was_done_before_the_cancel_arrived_counts_as_interrupted() -> None:
    with pytest.raises(Cancelled):
        run_with_progress(lambda _, cancel: cancel.set(), "work")


def test_an_error_of_the_work_reaches_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        run_with_progress(lambda *_: 1 / 0, "work")
