"""The tools of review sessions: a pull request is covered whole, the second review of it is known, and pauses hold."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from context_engine.engine import Engine
from context_engine.errors import ContextEngineError
from context_engine.repo.git_diffs import DiffRequest
from context_engine.review.review_formats import review_to_json
from context_engine.tools.review_tools import (
    OPTIONS,
    get_review_status,
    get_review_telemetry,
    parse_review_options,
    pause_review,
    reactive_review_pr,
    resume_review,
)
from context_engine.tools.tool import Call, Tool
from tests.support.engines import open_engine
from tests.support.pull_requests import FAULTY, FILES, NO_ANALYZERS, path_of, pull_request
from tests.support.trees import commit, git, tree

WAIT_S = 55
PAUSED_S = float(os.environ.get("CTX_TEST_PAUSED_S", "0.5"))
"""How long a pause is watched; 5 is the full length."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pull_request(tmp_path_factory.mktemp("pull") / "work")


@pytest.fixture
def engine(made: Path, tmp_path: Path) -> Generator[Engine]:
    """An engine on a clone of the pull request."""
    git(tmp_path, "clone", "--quiet", str(made), "work")
    git(tmp_path / "work", "branch", "--quiet", "main", "origin/main")
    with open_engine(tmp_path / "work") as engine:
        yield engine


def call(engine: Engine, tool: Tool, **arguments: Any) -> dict[str, Any]:
    return json.loads(tool.call(engine, arguments, Call()).text)


def start(engine: Engine, **arguments: Any) -> dict[str, Any]:
    asked = {"commit_hash": "topic", "base_ref": "main", "options": NO_ANALYZERS, "wait_s": WAIT_S}
    return call(engine, reactive_review_pr, **asked | arguments)


class HeldUp:
    """Lets one unit through, and holds the next one up until it is told."""

    def __init__(self, engine: Engine) -> None:
        self.calls = 0
        self.reached, self.go = threading.Event(), threading.Event()
        self._analyzers = engine.reviews.workspace.analyzers
        vars(engine.reviews.workspace)["analyzers"] = self
        self.fingerprint = self._analyzers.fingerprint

    def run(self, *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        if self.calls > 1:
            self.reached.set()
            assert self.go.wait(WAIT_S)
        return self._analyzers.run(*arguments, **named)


def test_a_pull_request_of_forty_files_is_covered_whole(engine: Engine) -> None:
    started = start(engine)
    assert (started["ok"], started["status"], started["reused_from_cache"]) == (True, "completed", 0)
    assert started["total_units"] == len(started["units"]) >= 4
    listed = sorted(path for unit in started["units"] for path in unit["files"])
    assert listed == [path_of(number) for number in range(FILES)]
    status = call(engine, get_review_status, session_id=started["session_id"], limit=200)
    assert status["coverage"]["files_reviewed"] == FILES
    assert status["progress"] == {
        "units_done": started["total_units"], "units_failed": 0, "units_total": started["total_units"],
        "files_done": FILES, "files_total": FILES, "percentage": 100,
    }  # fmt: skip
    bare = [each for each in status["findings"] if each["rule"] == "bare-except"]
    assert [each["code_location"]["file_path"] for each in bare] == [path_of(number) for number in range(0, FILES, 4)]
    assert len(bare) == FAULTY
    assert sum(status["findings_count"].values()) == len(status["findings"])
    assert status["verdict"] in ("needs_attention", "blocking_findings")
    assert status["overall_correctness"] != "patch is correct"
    assert (status["session"]["commit"], len(status["session"]["base"])) == (git(engine.root, "rev-parse", "topic"), 40)


def test_the_second_review_comes_from_the_cache_byte_for_byte(engine: Engine) -> None:
    sessions = [start(engine)["session_id"], start(engine)["session_id"]]
    assert sessions[0] != sessions[1]
    found = [engine.reviews.sessions.findings(session) for session in sessions]
    assert json.dumps(found[0]) == json.dumps(found[1])
    first, second = (call(engine, get_review_telemetry, session_id=session) for session in sessions)
    assert (first["cache"]["rate"], second["cache"]["rate"] >= 0.95) == (0.0, True)
    tree(engine.root, {path_of(1): "# another one\n"})
    commit(engine.root, "one more")
    third = start(engine, commit_hash="HEAD")
    assert third["reused_from_cache"] == FILES - 1


def test_a_session_finds_what_one_review_of_the_whole_change_finds(engine: Engine) -> None:
    tree(engine.root, {"shop/new.py": "try:\n    go()\nexcept:\n    pass\n", "data.json": "{", "logo.bin": b"\0\1"})
    (engine.root / path_of(3)).unlink()
    git(engine.root, "mv", path_of(4), "shop/moved.py")
    commit(engine.root, "and more")
    options = parse_review_options(NO_ANALYZERS | {"exclude_patterns": ["shop/part2/**"], "confidence_threshold": 0})
    _, at_once = engine.reviews.review_git(DiffRequest("main...HEAD"), options)
    chosen = NO_ANALYZERS | {"exclude_patterns": ["shop/part2/**"], "confidence_threshold": 0}
    session = start(engine, commit_hash="HEAD", options=chosen)["session_id"]
    outcome = engine.reviews.sessions.outcome(session)
    expected = json.loads(json.dumps(review_to_json(at_once)))
    for name in ("findings", "verdict", "coverage", "findings_filtered", "warnings"):
        assert outcome[name] == expected[name], name


def test_telemetry_is_measured(engine: Engine) -> None:
    session = start(engine, max_workers=2)["session_id"]
    told = call(engine, get_review_telemetry, session_id=session)
    assert told["model"] is None
    assert told["units"]["total_ms"] >= told["units"]["wall_ms"] > 0
    assert {"diff", "blobs", "text", "lint", "history", "merge"} <= set(told["stages"])
    assert told["stages"]["text"]["count"] == FILES
    assert told["findings"]["by_source"]["builtin"] >= FAULTY
    assert told["cache"] == {"hits": 0, "misses": FILES, "rate": 0.0}
    assert told["bytes_read"] > 0
    assert 0 < told["worker_utilisation"] <= 1
    assert (told["workers"], told["retries"], told["analyzer_failures"]) == (2, 0, [])


def test_a_paused_review_stays_paused_and_a_resumed_one_repeats_nothing(engine: Engine) -> None:
    held = HeldUp(engine)
    session = start(engine, wait_s=0, max_workers=1)["session_id"]
    assert held.reached.wait(WAIT_S)
    assert call(engine, get_review_status, session_id=session)["progress"]["units_done"] == 1
    paused = call(engine, pause_review, session_id=session, reason="deploy")
    assert (paused["status"], len(paused["in_flight"])) == ("pausing", 1)
    held.go.set()
    assert call(engine, get_review_status, session_id=session, wait_s=WAIT_S)["session"]["status"] == "paused"
    done = call(engine, get_review_status, session_id=session)["progress"]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ctx-review")], "nobody is left"
    until = time.monotonic() + PAUSED_S
    while time.monotonic() < until:
        now = call(engine, get_review_status, session_id=session)
        assert (now["session"]["status"], now["progress"]) == ("paused", done)
        time.sleep(0.1)
    assert held.calls == 2
    assert start(engine)["status"] == "paused", "asking for the same review does not resume it"
    assert call(engine, resume_review, session_id=session)["status"] == "running"
    assert call(engine, resume_review, session_id=session)["ok"]
    over = call(engine, get_review_status, session_id=session, wait_s=WAIT_S, limit=200)
    assert (over["session"]["status"], over["coverage"]["files_reviewed"]) == ("completed", FILES)
    assert len([each for each in over["findings"] if each["rule"] == "bare-except"]) == FAULTY
    assert {unit.tries for unit in engine.reviews.sessions.status(session).units} == {1}


def test_findings_come_while_it_runs(engine: Engine) -> None:
    held = HeldUp(engine)
    session = start(engine, wait_s=0, max_workers=1)["session_id"]
    assert held.reached.wait(WAIT_S)
    first = call(engine, get_review_status, session_id=session)
    assert first["session"]["status"] == "running"
    assert first["findings"]
    assert "verdict" not in first
    held.go.set()
    rest, cursor = [], first["next_cursor"]
    while cursor:
        page = call(engine, get_review_status, session_id=session, cursor=cursor, wait_s=WAIT_S, limit=3)
        rest += page["findings"]
        cursor = page["next_cursor"]
    shown = [each["id"] for each in (*first["findings"], *rest)]
    assert len(shown) == len(set(shown))
    assert set(shown) == {each["id"] for each in engine.reviews.sessions.findings(session)}


def test_a_finished_review_offers_a_second_look_at_itself(engine: Engine) -> None:
    session = start(engine)["session_id"]
    offered = call(engine, get_review_status, session_id=session, brief=True, include_findings=False)["next"]
    assert (offered["tool"], offered["arguments_template"]["review_id"]) == ("review_changes", session)
    assert f"{path_of(0)}:" in offered["brief"]
    seen = {
        "file_path": path_of(0), "start_line": 12, "end_line": 12, "quote": "return None", "title": "Nobody can tell",
        "body": "A price of None is no price.", "priority": 1, "category": "correctness", "confidence_score": 0.9,
        "suggestion": "",
    }  # fmt: skip
    again = engine.reviews.second_passes.merge_draft(session, [seen], source="host")
    assert again.rejected == ()
    assert {each.source for each in again.result.findings} == {"builtin", "host"}


def test_waiting_tells_how_far_it_is_and_can_be_cancelled(engine: Engine) -> None:
    held, told = HeldUp(engine), []
    stop = threading.Event()
    session = start(engine, wait_s=0, max_workers=1)["session_id"]
    assert held.reached.wait(WAIT_S)
    threading.Timer(0.1, stop.set).start()
    with pytest.raises(ContextEngineError) as cancelled:
        get_review_status.call(
            engine, {"session_id": session, "wait_s": WAIT_S}, Call(progress=told.append, cancel=stop)
        )
    assert cancelled.value.code == "CANCELLED"
    assert (told[-1].stage, told[-1].total) == ("reviewing", FILES)
    held.go.set()


def test_options_are_understood_as_clients_send_them() -> None:
    given = {"failOn": "p1", "analyzers": "ruff,typos", "maxFindings": "5", "categories": ["security"], "allowIds": "a"}
    options = parse_review_options(given)
    assert (options.fail_on, options.analyzers, options.max_findings) == ("P1", ("ruff", "typos"), 5)
    assert (options.categories, options.allow_ids) == (("security",), ("a",))
    assert parse_review_options({}) == type(options)()
    assert parse_review_options({"analyzers": ["none"]}).analyzers == "none"
    with pytest.raises(ContextEngineError):
        parse_review_options({"fail_onn": "P1"})
    assert len(OPTIONS) == len(type(options).__dataclass_fields__)
