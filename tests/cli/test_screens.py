"""The terminal's manners: one line for an error, Ctrl-C that waits for good order, plain text in a pipe."""

from __future__ import annotations

import re
import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from context_engine.cli.command_runner import show_error
from context_engine.cli.progress import run_index, run_with_progress
from context_engine.cli.screens import RecordedScreen, process_screen
from context_engine.cli.tool_commands import ShownReply, show_reply
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


def test_a_recorded_command_keeps_the_order_of_results_and_messages() -> None:
    screen = RecordedScreen({}, {})
    screen.warn("weak", "nothing answers this")
    screen.out.show("a.py:1")
    screen.note("3 more")
    assert [(name, text.strip()) for name, text in screen.texts] == [
        ("err", "weak: nothing answers this"), ("out", "a.py:1"), ("err", "3 more"),
    ]  # fmt: skip


def test_on_a_terminal_places_are_in_columns_and_lines_are_cut_at_the_width() -> None:
    screen = RecordedScreen({"out": True}, {"COLUMNS": "40", "TERM": "xterm", "NO_COLOR": "1"})
    place: Any = SimpleNamespace(screen=screen)
    text = f"2 callers\na.py:7 main | {'x' * 80}\nlong/name.py:12 Pool.close | y"
    show_reply(ShownReply({}, {}, text, place, engine=place), in_columns=True)
    shown = re.sub("\x1b\\[[0-9;]*m", "", "".join(text for _, text in screen.texts)).splitlines()
    assert shown[1].startswith("a.py:7           main | xxx") and shown[1].endswith("…") and len(shown[1]) == 40
    assert shown[2] == "long/name.py:12  Pool.close | y"


@pytest.mark.parametrize("in_columns", [True, False])
def test_a_note_names_the_options_of_the_command_and_code_stays_as_it_is(in_columns: bool) -> None:
    screen = RecordedScreen({}, {})
    place: Any = SimpleNamespace(screen=screen)
    note = "next: raise `limit`; `status: all` or search_code finds `other`"
    code = "    next: search_code" if in_columns else "next: search_code"
    options = {"limit": "--limit", "status": "--status"}
    show_reply(ShownReply({}, options, f"{code}\n{note}", place, engine=place), in_columns=in_columns)
    assert "".join(text for _, text in screen.texts).splitlines() == [
        code, "next: raise `--limit`; `--status all` or `ctx search` finds `other`",
    ]  # fmt: skip
