"""A log keeps every event that was said to be kept, and notices when one was changed."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import DiskFull, StorageBusy, StorageCorrupt, TooLarge
from context_engine.storage import event_log as module
from context_engine.storage.event_log import EventLog, LogContent, parse_log
from context_engine.storage.state_folder import StateFolder

BODIES = st.lists(st.dictionaries(st.sampled_from("kind at step".split()), st.text(max_size=9), max_size=3), max_size=9)


@pytest.fixture
def log(tmp_path: Path) -> EventLog:
    return EventLog(StateFolder(tmp_path / "home").folder("plans/one"), "events.jsonl")


def written(log: EventLog, *bodies: Mapping[str, Any]) -> bytes:
    """The bytes of a log of these events."""
    log.path.unlink(missing_ok=True)
    log.append(log.read(), bodies)
    return log.path.read_bytes()


def said(log: LogContent) -> list[dict[str, Any]]:
    """What events say, without what the log adds."""
    return [{key: value for key, value in event.items() if key not in ("seq", "prev_sha")} for event in log.events]


@given(BODIES, st.data())
def test_a_log_that_was_cut_off_anywhere_holds_what_was_whole_and_goes_on_from_there(
    tmp_path_factory: pytest.TempPathFactory, bodies: list[dict[str, str]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = EventLog(StateFolder(folder), "events.jsonl", flush=False)
    whole = written(log, *bodies)
    cut = data.draw(st.integers(0, len(whole)))
    log.path.write_bytes(whole[:cut])
    kept = whole[:cut].count(b"\n")
    found = log.read()
    assert said(found) == bodies[:kept]
    assert found.size + found.torn == cut
    after = log.append(found, [{"kind": "next"}])
    assert log.read() == after
    assert said(after) == [*bodies[:kept], {"kind": "next"}]


@given(BODIES.filter(lambda bodies: len(bodies) > 1), st.data())
def test_a_line_before_the_end_that_was_changed_removed_or_moved_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, bodies: list[dict[str, str]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = EventLog(StateFolder(folder), "events.jsonl", flush=False)
    lines = written(log, *bodies).splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines) - 2))
    how = data.draw(st.sampled_from(["changed", "removed", "doubled", "swapped", "emptied"]))
    event = json.loads(lines[at]) | {"by": "hand"}
    changed = {
        "changed": [json.dumps(event).encode() + b"\n"],
        "removed": [],
        "doubled": [lines[at], lines[at]],
        "swapped": [lines[at + 1], lines[at]],
        "emptied": [b"\n"],
    }[how]
    log.path.write_bytes(b"".join([*lines[:at], *changed, *lines[at + (2 if how == "swapped" else 1) :]]))
    with pytest.raises(StorageCorrupt) as caught:
        log.read()
    assert caught.value.details["line"] in (at + 1, at + 2)


def test_blocks_of_the_last_line_that_never_reached_the_disk_count_as_torn(log: EventLog) -> None:
    whole = written(log, {"kind": "made"}, {"kind": "opened"})
    first = whole.index(b"\n") + 1
    log.path.write_bytes(whole[:first] + b"\0" * (len(whole) - first - 1) + b"\n")
    found = log.read()
    assert (said(found), found.torn) == ([{"kind": "made"}], len(whole) - first)
    assert said(log.append(found, [{"kind": "closed"}])) == said(log.read()) == [{"kind": "made"}, {"kind": "closed"}]


def test_a_log_that_git_wrote_with_other_line_ends_is_as_good_and_goes_on(log: EventLog) -> None:
    whole = written(log, {"kind": "made"}, {"kind": "opened"})
    log.path.write_bytes(whole.replace(b"\n", b"\r\n"))
    log.append(log.read(), [{"kind": "closed"}])
    assert [event["kind"] for event in log.read().events] == ["made", "opened", "closed"]
    assert log.read().torn == 0


def test_a_disk_that_fills_up_keeps_nothing_of_the_call(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    first = log.append(log.read(), [{"kind": "made"}])
    write, calls = os.write, []

    def half(descriptor: int, data: memoryview) -> int:
        calls.append(descriptor)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "no space left on device")
        return write(descriptor, bytes(data)[: len(data) - 5])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(DiskFull):
        log.append(first, [{"kind": "one"}, {"kind": "two"}])
    monkeypatch.undo()
    assert log.read() == first


def test_an_event_that_follows_on_an_older_state_is_refused(log: EventLog) -> None:
    first = log.append(log.read(), [{"kind": "made"}])
    log.append(first, [{"kind": "opened"}])
    with pytest.raises(StorageBusy):
        log.append(first, [{"kind": "closed"}])
    assert [event["kind"] for event in log.read().events] == ["made", "opened"]


def test_an_event_that_is_no_line_is_refused_and_nothing_of_its_call_is_kept(log: EventLog) -> None:
    first = log.append(log.read(), [{"kind": "made"}])
    with pytest.raises(TooLarge):
        log.append(first, [{"kind": "small"}, {"kind": "x" * module.LINE_BYTES_MAX}])
    assert log.read() == first


def test_deep_nesting_is_no_event() -> None:
    line = b'{"seq":1,"prev_sha":"","a":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    assert parse_log(line, Path("log")).torn == len(line)
    with pytest.raises(StorageCorrupt):
        parse_log(line + b"{}\n", Path("log"))
