"""The server of the local page: nothing without its token, from elsewhere, or into a page that only reads."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from context_engine.engine import Engine
from context_engine.server import ToolDispatcher, single_engine
from context_engine.server.gain_store import SUMMARY_CHARS_MAX, GainStore
from context_engine.tools import Call
from tests.ui.conftest import WAIT_S, XSS, Browser, serve

pytestmark = pytest.mark.abuse
PATHS = ("", "assets/app.js", "assets/style.css", "api/state", "api/events", "write/undo_edit", "no/such/path")


# -- the token --


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("prefix", ["/", "/wrong/", "//", "/%00/"])
def test_no_path_answers_without_the_token(reading: Browser, prefix: str, path: str) -> None:
    answer = reading.get(f"{reading.origin}{prefix}{path}")
    assert answer.status == 401
    assert "ctx" not in answer.text.replace("`ctx ui`", "")


def test_half_a_token_is_no_token(reading: Browser) -> None:
    assert reading.get(f"{reading.origin}/{reading.token[:-1]}/").status == 401
    assert reading.get(f"{reading.origin}/{reading.token}").status == 401


def test_the_page_and_its_files_come_with_the_token(reading: Browser) -> None:
    page = reading.get(reading.base)
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "assets/app.js" in page.text
    for file in Path("context_engine/ui/assets").iterdir():
        assert reading.get(f"{reading.base}assets/{file.name}").status == 200, file.name


def test_a_ticket_leads_to_the_page_once(root: Path) -> None:
    with serve(root) as browser:
        ticket = browser.page.ticket_address
        first, second = browser.get(ticket), browser.get(ticket)
    assert (first.status, first.headers["location"]) == (303, f"/{browser.token}/")
    assert second.status == 401


def test_no_path_leads_out_of_the_assets(reading: Browser) -> None:
    for path in ("assets/../page_views.py", "assets/..%2fpage_views.py", "assets//etc/passwd", "../"):
        assert reading.get(reading.base + path).status in (401, 404), path


# -- other pages --


def test_nothing_is_kept_framed_or_loaded_from_elsewhere(reading: Browser) -> None:
    for path in ("", "assets/app.js", "nothing"):
        headers = reading.get(reading.base + path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert re.search(r"https?:|\*", policy) is None
        assert (headers["cache-control"], headers["referrer-policy"]) == ("no-store", "no-referrer")
        assert headers["x-content-type-options"] == "nosniff"


def test_the_files_of_the_page_name_no_other_address_and_make_no_html() -> None:
    for path in sorted(Path("context_engine/ui/assets").iterdir()):
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert re.search(r"https?://|//\w+\.\w+/", text) is None, path
        assert re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text) is None
        assert re.search(r"<script>|\son\w+=\"|\sstyle=\"", text) is None, path


@pytest.mark.parametrize(("host", "status"), [("evil.example", 421), ("127.0.0.1.evil.example:80", 421), ("", 421)])
def test_a_page_whose_name_points_to_this_machine_is_refused(reading: Browser, host: str, status: int) -> None:
    assert reading.get(reading.base, Host=host).status == status


def test_a_page_of_another_origin_is_refused(reading: Browser) -> None:
    for origin in ("http://evil.example", "http://127.0.0.1:1", "null"):
        assert reading.get(reading.base, Origin=origin).status == 403, origin
    assert reading.get(reading.base, Origin=reading.origin).status == 200


# -- writing --


def test_a_page_that_only_reads_refuses_every_write(reading: Browser) -> None:
    for name in ("undo_edit", "update_memory", "add_memory", "pause_review", "decide", "cancel"):
        answer = reading.write(name)
        assert answer.status == 403
        assert "--write" in answer.json["error"]["message"]


def test_a_write_needs_the_token_in_a_header_and_the_origin_of_the_page(writing: Browser) -> None:
    own = {"Origin": writing.origin, "X-Ctx-Token": writing.token}
    for left_out in own:
        headers = {name: value for name, value in own.items() if name != left_out}
        assert writing.post(f"{writing.base}write/undo_edit", {"list": True}, headers).status == 403
    assert writing.post(f"{writing.base}write/undo_edit", {"list": True}, own | {"X-Ctx-Token": "x"}).status == 403
    assert writing.post(f"{writing.base}write/undo_edit", {"list": True}, own).status == 200
    assert writing.get(f"{writing.base}write/undo_edit").status == 405


def test_nothing_can_be_called_that_no_view_needs(writing: Browser) -> None:
    for name in ("execute_plan", "write_file", "undo_edit", "clear_index", "undo", "__class__"):
        assert writing.read(name).status == 404, name
    assert writing.write("clear_index", confirm=True).status == 404


def test_a_body_that_is_no_object_or_too_long_is_refused(reading: Browser) -> None:
    address = f"{reading.base}api/state"
    assert reading.post(address, [1]).status == 400
    assert reading.post(address, {"a": "x" * 300_000}).status == 400
    assert reading.post(address, {}, {"Content-Type": "text/plain"}).status == 415
    assert reading.get(address, method="DELETE").status == 405


# -- what is shown --


def test_the_state_names_the_projects_and_whether_the_page_may_write(reading: Browser, writing: Browser) -> None:
    state = reading.read("state").json
    assert [project["name"] for project in state["projects"]] == ["till"]
    assert (state["write"], writing.read("state").json["write"]) == (False, True)


def test_a_search_gives_the_parts_of_each_score(reading: Browser) -> None:
    first = reading.read("search", project="till", query="login check").json["results"][0]
    assert first["path"] == "till/auth.py"
    assert first["why"]
    assert XSS in json.dumps(first), "the page shows texts as they are, and never as HTML"


def test_the_health_of_the_index_names_skipped_files_with_reasons(reading: Browser) -> None:
    health = reading.read("health", project="till").json
    assert health["files"] >= 2
    assert {"path": "till/.env", "reason": "sensitive", "detail": ""} in [
        {"detail": "", **file} | {"detail": ""} for file in health["skipped_examples"]
    ]


def test_an_error_of_the_engine_is_answered_with_its_next_step(reading: Browser) -> None:
    answer = reading.read("graph", project="till", symbol="logn", relation="callers", depth=1)
    assert answer.status == 409
    assert answer.json["error"]["suggestion"]
    for arguments in ({}, {"symbol": 3}, {"symbol": "login", "relation": "x"}, {"project": 4}):
        assert reading.read("graph", **{"project": "till"} | arguments).status == 409


# -- events --


def test_a_call_of_an_agent_is_an_event_within_a_second(root: Path) -> None:
    with serve(root) as browser, Engine.open(root) as engine:
        door = ToolDispatcher(single_engine(engine))
        with urllib.request.urlopen(f"{browser.base}api/events", timeout=WAIT_S) as events:
            assert events.readline()
            question = {"query": "login token=ghp_abcdefghijklmnopqrstuvwxyz0123456789AB"}
            door.call("search_code", question, Call(session="a", client="some-agent"))
            began, found = time.monotonic(), {}
            while found.get("client") != "some-agent":
                line = events.readline().decode()
                found = json.loads(line[5:]) if line.startswith("data:") else {}
        assert time.monotonic() - began < 1.0
    assert (found["tool"], found["error"], found["folder"]) == ("search_code", "", "till")
    assert found["asked"].startswith("login token=")
    assert "abcdefghijklmnopqrstuvwxyz" not in found["asked"], "secrets are masked"
    assert found["got"]
    assert found["shown"] > 0


def test_a_running_call_and_the_log_are_events_and_the_page_cancels_the_call(root: Path) -> None:
    with serve(root, may_write=True) as browser, Engine.open(root) as engine:
        store, call = GainStore(), Call(session="a", client="slow-agent")
        store.note_engine("", engine)
        store.keep_line(engine.settings, '{"event": "library", "says": "a warning of test_page_server"}')
        store.show_running(call, "index_workspace", "indexing: 1 of 9 files")
        with urllib.request.urlopen(f"{browser.base}api/events", timeout=WAIT_S) as events:
            found: list[Any] = []
            while not found or "running" not in found[-1]:
                line = events.readline().decode()
                found += [json.loads(line[5:])] if line.startswith("data:") else []
        assert any("a warning of test_page_server" in event.get("line", "") for event in found)
        (row,) = found[-1]["running"]
        assert (row["client"], row["state"]) == ("slow-agent", "indexing: 1 of 9 files")
        assert browser.write("cancel", project="till", id="unknown").json["error"]["code"] == "PRECONDITION_FAILED"
        assert browser.write("cancel", project="till", id=row["id"]).json == {"ok": True}
        store.show_running(call, "index_workspace", "indexing: 2 of 9 files")
        assert call.cancel.is_set()


def test_a_page_shows_the_calls_from_before_it_was_open_whole_and_without_secrets(root: Path) -> None:
    with Engine.open(root) as engine:
        door = ToolDispatcher(single_engine(engine))
        door.call(
            "search_code", {"query": "login token=ghp_abcdefghijklmnopqrstuvwxyz0123456789AB"}, Call(client="early")
        )
        reply = door.call("read", {"items": ["till/auth.py"]}, Call(client="early")).reply.text
        door.call("index_status", {}, Call(client="early"))
    with serve(root) as browser, urllib.request.urlopen(f"{browser.base}api/events", timeout=WAIT_S) as events:
        found: list[Any] = []
        while len(found) < 3:
            line = events.readline().decode()
            call = json.loads(line[5:]) if line.startswith("data:") else {}
            found += [call] if call.get("client") == "early" else []
        texts = [browser.read("call", project="till", id=call["id"]).json for call in found]
        assert browser.read("call", project="till", id="1").status == 409
    assert texts[1] == {"asked": "till/auth.py", "got": reply}
    assert found[1]["got"] == reply[:SUMMARY_CHARS_MAX]
    assert "abcdefghijklmnopqrstuvwxyz" not in json.dumps([found, texts])
    assert (found[2]["asked"], texts[2]["asked"]) == ("", "")
    assert texts[2]["got"]
