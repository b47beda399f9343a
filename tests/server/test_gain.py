"""`ctx gain`: the counts of a call, and that counting never delays or fails a call."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from context_engine.engine import Engine
from context_engine.errors import StorageCorrupt
from context_engine.server.dispatcher import ToolDispatcher, single_engine
from context_engine.server.gain_store import (
    CALLS_MAX,
    FILE_NAME,
    SESSIONS_MAX,
    GainStore,
    cancel_call,
    delete_counts,
    read_call_texts,
    read_events,
    read_sessions,
)
from context_engine.server.profiles import ToolSelection
from context_engine.server.server_log import create_log
from context_engine.tools import Call, Reply
from tests.e2e.conftest import FILES
from tests.e2e.wire import Wire
from tests.support import preloaded
from tests.support.engines import indexed
from tests.support.trees import tree

AGENT = Call(session="agent")
QUESTION = {"query": "where are passwords hashed"}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    root = tree(tmp_path_factory.mktemp("gain") / "till", FILES)
    with indexed(root, staleness_ms=600_000) as engine:
        yield engine


@pytest.fixture
def file(engine: Engine) -> Path:
    assert engine.settings.data_folder
    file = engine.settings.data_folder / FILE_NAME
    for one in file.parent.glob(f"{FILE_NAME}*"):
        one.unlink(missing_ok=True)  # SQLite removes its own when the last connection closes
    return file


def dispatcher(engine: Engine, gain: GainStore | None = None) -> ToolDispatcher:
    return ToolDispatcher(single_engine(engine), selection=ToolSelection(profiles=("all",)), gain=gain)


def only_session(file: Path) -> dict[str, Any]:
    (session,) = read_sessions(file)
    return session


# -- what is counted --


def test_a_session_has_calls_failures_and_characters_of_its_client(engine: Engine, file: Path) -> None:
    door = dispatcher(engine)
    called = Call(session="agent", client="some-agent")
    replies = [door.call("read_file", {"path": path}, called).reply for path in ("till/auth.py", "till/missing.py")]
    door.call("find_symbol", {"name": "login"}, Call(session="another", client="another-agent"))
    session = next(one for one in read_sessions(file) if one["client"] == "some-agent")
    assert (session["calls"], session["failed"], session["folder"]) == (2, 1, "till")
    assert session["shown"] == sum(len(reply.text) for reply in replies)
    assert session["ms"] > 0


def test_calls_at_the_terminal_are_one_session_a_day(engine: Engine, file: Path) -> None:
    for _ in range(2):
        dispatcher(engine).call("codebase_retrieval", QUESTION, Call())
    session = only_session(file)
    assert (session["client"], session["calls"]) == ("terminal", 2)


# -- what is stored --


def test_neither_code_nor_a_question_nor_a_path_is_stored_without_the_setting(tmp_path: Path) -> None:
    root, words = tree(tmp_path / "till", FILES), (b"passwords", b"hash", b"auth.py", b"pbkdf2")

    def stored_after_a_call(**settings: Any) -> list[bytes]:
        with indexed(root, data_folder=tmp_path / "data", **settings) as engine:
            assert not dispatcher(engine).call("codebase_retrieval", QUESTION, AGENT).error
        stored = b"".join(one.read_bytes() for one in (tmp_path / "data").glob(f"{FILE_NAME}*"))
        assert b"search_code" in stored
        return [word for word in words if word in stored]

    assert stored_after_a_call(call_texts=False) == []
    assert stored_after_a_call() == list(words)
    file = tmp_path / "data" / FILE_NAME
    assert [bool(call["got"]) for call in read_events(file, {})] == [False, True]
    stored_after_a_call(call_texts=False)
    assert not any(read_call_texts(file, number)["got"] for number in (1, 2, 3)), "switched off, the others go as well"


def test_the_newest_calls_are_kept_with_their_texts(engine: Engine, file: Path) -> None:
    door = dispatcher(engine)
    for number in range(CALLS_MAX + 3):
        door.call("find_symbol", {"name": f"name_{number}"}, AGENT)
    assert [call["asked"] for call in read_events(file, {})] == [f"name_{number}" for number in range(3, CALLS_MAX + 3)]


# -- what is running, and the logs --


def running(file: Path) -> list[dict[str, Any]]:
    """Return the running calls that a page shows when it is opened."""
    return next((event["running"] for event in read_events(file, {}) if "running" in event), [])


def test_a_call_is_running_until_it_ends_or_its_server_is_silent(engine: Engine, file: Path) -> None:
    store, one, other = GainStore(), Call(session="a", client="some-agent"), Call(session="b")
    store.note_engine("", engine)
    store.show_running(one, "grep", "queued", arguments={"pattern": "token=ghp_abcdefghijklmnopqrstuvwxyz0123456789AB"})
    store.show_running(one, "grep", "running")
    store.show_running(other, "index_workspace", "indexing: 1 of 9 files")
    shown = running(file)
    assert [(row["client"], row["tool"], row["state"]) for row in shown] == [
        ("some-agent", "grep", "running"),
        ("", "index_workspace", "indexing: 1 of 9 files"),
    ]
    assert shown[0]["asked"].startswith("token=")
    assert "abcdefghijklmnopqrstuvwxyz" not in shown[0]["asked"], "secrets are masked"
    store.show_running(one, "grep", "")
    assert [row["tool"] for row in running(file)] == ["index_workspace"]
    with sqlite3.connect(file) as db:
        db.execute("UPDATE running SET seen = seen - 10")
    assert running(file) == []
    assert not read_sessions(file), "a call that runs is not counted yet"


def test_a_person_cancels_a_running_call_of_the_workspace_alone(engine: Engine, file: Path) -> None:
    store, one, other = GainStore(), Call(session="a"), Call(session="b")
    store.note_engine("", engine)
    for call in (one, other):
        store.show_running(call, "grep", "running")
    (row, _) = running(file)
    assert not cancel_call(file, "another-workspace", row["id"])
    assert not cancel_call(file, row["workspace"], "unknown")
    assert cancel_call(file, row["workspace"], row["id"])
    for call in (one, other):
        store.show_running(call, "grep", "running")
    assert (one.cancel.is_set(), other.cancel.is_set()) == (True, False)
    assert [*store.canceled] == [one.cancel]


def test_the_log_of_a_server_is_kept_without_calls_and_secrets(engine: Engine, file: Path) -> None:
    store = GainStore()
    log = create_log("info", lambda _: None, keep=partial(store.keep_line, engine.settings))
    log({"event": "call", "ok": True, "tool": "read"})
    for number in range(CALLS_MAX + 3):
        log({"event": "library", "ok": False, "says": f"{number} token=ghp_abcdefghijklmnopqrstuvwxyz0123456789AB"})
    seen: dict[str, Any] = {}
    lines = [json.loads(event["line"]) for event in read_events(file, seen)]
    assert [line["says"].split()[0] for line in lines] == [f"{number}" for number in range(3, CALLS_MAX + 3)]
    assert "abcdefghijklmnopqrstuvwxyz" not in str(lines)
    assert read_events(file, seen) == []
    delete_counts(file)
    log({"event": "bug"})
    assert [json.loads(event["line"])["event"] for event in read_events(file, seen)] == ["bug"]
    GainStore().keep_line(replace(engine.settings, gain=False), '{"event": "bug"}')
    assert len([*sqlite3.connect(file).execute("SELECT line FROM log")]) == 1


def test_the_oldest_sessions_go_so_the_file_stays_small(engine: Engine, file: Path) -> None:
    moments = iter(range(1_000_000))
    door = dispatcher(engine, GainStore(clock=lambda: float(next(moments))))
    for number in range(SESSIONS_MAX + 20):
        door.gain.note_engine("", engine)
        door.gain.record(Call(session=f"agent {number}"), "find_symbol", Reply("x" * 10))
    sessions = read_sessions(file)
    assert len(sessions) == SESSIONS_MAX
    assert (sessions[0]["ended"], sessions[-1]["began"]) == (SESSIONS_MAX + 19, 20)


def test_two_processes_count_into_one_file(engine: Engine, file: Path) -> None:
    first, second = GainStore(), GainStore()
    for _ in range(20):
        for store in (first, second):
            store.note_engine("", engine)
            store.record(AGENT, "find_symbol", Reply("x"))
    assert [session["calls"] for session in read_sessions(file)] == [20, 20]


def test_what_could_not_be_written_while_another_process_wrote_is_written_with_the_next_call(
    engine: Engine, file: Path
) -> None:
    store = GainStore()
    store.note_engine("", engine)
    store.record(AGENT, "find_symbol", Reply("x"))
    other = apsw.Connection(str(file))
    other.execute("BEGIN IMMEDIATE")
    started = time.perf_counter()
    store.record(AGENT, "find_symbol", Reply("x"))
    assert time.perf_counter() - started < 0.2, "a call must not wait for another process"
    other.execute("ROLLBACK")
    other.close()
    assert only_session(file)["calls"] == 1
    store.record(AGENT, "find_symbol", Reply("x"))
    assert only_session(file)["calls"] == 3


def test_deleted_counts_are_gone_and_counting_goes_on(engine: Engine, file: Path) -> None:
    door = dispatcher(engine)
    door.call("find_symbol", {"name": "login"}, AGENT)
    delete_counts(file)
    assert read_sessions(file) == []
    assert b"find_symbol" not in b"".join(one.read_bytes() for one in file.parent.glob(f"{FILE_NAME}*"))
    door.call("find_symbol", {"name": "login"}, AGENT)
    assert only_session(file)["calls"] == 1


# -- never in the way --


def test_a_switched_off_setting_stores_nothing(engine: Engine, tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", {"a.py": "def pay(): ...\n"}), gain=False) as quiet:
        assert not dispatcher(quiet).call("find_symbol", {"name": "pay"}, AGENT).error
        assert quiet.settings.data_folder
        assert not (quiet.settings.data_folder / FILE_NAME).exists()


def test_the_calls_of_a_shared_server_are_not_stored(engine: Engine, file: Path) -> None:
    door = dispatcher(engine, GainStore(enabled=False))
    assert not door.call("find_symbol", {"name": "login"}, AGENT).error
    assert not file.exists()


def test_a_damaged_file_fails_no_call_and_the_command_says_what_to_do(engine: Engine, file: Path) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"not a database" * 100)
    assert not dispatcher(engine).call("find_symbol", {"name": "login"}, AGENT).error
    with pytest.raises(StorageCorrupt, match="cannot be read") as error:
        read_sessions(file)
    assert "Delete it" in error.value.suggestion


def test_a_place_that_cannot_be_written_fails_no_call(engine: Engine, file: Path) -> None:
    file.parent.mkdir(exist_ok=True)
    file.mkdir()
    door = dispatcher(engine)
    try:
        assert not door.call("find_symbol", {"name": "login"}, AGENT).error
        assert door.gain.problem
    finally:
        file.rmdir()


def test_a_file_of_a_newer_release_is_left_alone(engine: Engine, file: Path) -> None:
    dispatcher(engine).call("find_symbol", {"name": "login"}, AGENT)
    with sqlite3.connect(file) as db:
        db.execute("PRAGMA user_version = 99")
    door = dispatcher(engine)
    assert not door.call("find_symbol", {"name": "login"}, AGENT).error
    assert "newer release" in door.gain.problem
    with sqlite3.connect(file) as db:
        assert db.execute("SELECT calls FROM session").fetchall() == [(1,)]


# -- end to end --


def run_gain(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "context_engine", "gain", *words]
    return preloaded.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_a_session_over_stdio_is_reported_and_deleted_at_the_terminal(tmp_path: Path) -> None:
    root = tree(tmp_path / "till", FILES)
    places = {"CTX_DATA_FOLDER": str(tmp_path / "data"), "CTX_CACHE_FOLDER": str(tmp_path / "cache")}
    env = os.environ | places | {"CTX_WORKERS": "0", "COLUMNS": "200"}
    with Wire(root, places | {"CTX_WORKERS": "0"}) as wire:
        wire.shake_hands()
        read = wire.text("read_file", path="till/auth.py")
        found = wire.text("find_symbol", name="login")
        wire.end()
    report = run_gain(env)
    assert report.returncode == 0, report.stderr
    assert "till" in report.stdout
    counted = json.loads(run_gain(env, "--json", "--root", str(root)).stdout)
    assert counted["sessions"][0]["shown"] == len(read) + len(found)
    assert counted["all"]["calls"] == 2
    assert json.loads(run_gain(env, "--json", "--root", str(tmp_path)).stdout)["sessions"] == []
    assert run_gain(env, "--delete").returncode == 0
    assert run_gain(env).returncode == 1
