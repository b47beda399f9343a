"""The views of the local page: a review without files of secrets, decisions, memories and edits, settings and sources."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from context_engine.engine import Engine
from context_engine.memory import MemoryDraft
from context_engine.review import ReviewRequest
from context_engine.server import ToolDispatcher, ToolSelection, delete_counts, gain_file, read_events, single_engine
from context_engine.tools import Call
from tests.support import preloaded
from tests.support.trees import tree
from tests.ui.conftest import FILES, WAIT_S, XSS, Browser, serve

KEY = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
def shop(places: Path, tmp_path: Path) -> Path:
    """A git repository with a plan, a memory, an edit, and a change with a secret."""
    root = tree(tmp_path / "shop", {path: text for path, text in FILES.items() if "<" not in path})
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "-Af"], ["commit", "-q", "-m", "begin"]):
        subprocess.run([*git, *words], cwd=root, check=True)
    with Engine.open(root) as engine:
        engine.index.update()
        engine.memory.memories.add(MemoryDraft(category="facts", content="The till is open at noon."))
        door = ToolDispatcher(single_engine(engine), selection=ToolSelection(profiles=("all", "seeds")))
        for tool, arguments in (
            ("create_plan", {"task": "Let login refuse an empty user"}),
            ("write_file", {"path": "till/new.py", "content": f"def f(a=[]):\n    return a\n\n\nTOKEN = '{KEY}'\n"}),
        ):
            assert not door.call(tool, arguments, Call()).error
    (root / "till/.env").write_text("PASSWORD=changed-hunter2\n")
    return root


@pytest.fixture
def page(shop: Path) -> Iterator[Browser]:
    with serve(shop, may_write=True) as browser:
        yield browser


# -- reviews --


def test_a_review_has_its_findings_and_its_diff_without_secrets(page: Browser) -> None:
    shown = page.read("review", project="shop", target="head")
    assert shown.status == 200, shown.text
    files = {file["path"]: file for file in shown.json["files"]}
    assert not [path for path in files if path.startswith(".context-engine")], "plans of the tool are no code"
    assert files["till/new.py"]["hunks"][0]["lines"][0] == ["+", 0, 1, "def f(a=[]):"]
    assert files["till/.env"]["hunks"] == []
    assert "secrets" in files["till/.env"]["note"]
    assert KEY not in shown.text
    assert "hunter2" not in shown.text
    assert any(finding["rule"] == "mutable-default" for finding in shown.json["review"]["findings"])


def test_a_stored_review_is_listed_and_has_its_findings_in_its_diff(page: Browser, shop: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["add", "till/new.py"], ["commit", "-q", "-m", "add f"]):
        subprocess.run([*git, *words], cwd=shop, check=True)
    with Engine.open(shop) as engine:
        started = engine.reviews.sessions.start(ReviewRequest("HEAD", "HEAD~1", title=XSS), workers=1).session
        engine.reviews.sessions.wait(started.id, WAIT_S)
        assert engine.reviews.sessions.status(started.id).status == "completed"
    (row,) = page.read("review-sessions", project="shop").json["sessions"]
    assert (row["id"], row["status"], row["title"]) == (started.id, "completed", XSS)
    shown = page.read("review-session", project="shop", id=row["id"])
    assert [file["path"] for file in shown.json["files"]] == ["till/new.py"]
    rules = [finding["rule"] for finding in shown.json["review"]["findings"]]
    assert len(rules) == row["findings"]
    assert "mutable-default" in rules
    assert KEY not in shown.text
    assert page.read("review-session", project="shop", id="nope").json["error"]["code"] == "REVIEW_NOT_FOUND"
    refused = page.write("pause_review", project="shop", session_id=row["id"])
    assert (refused.status, refused.json["error"]["code"]) == (409, "PRECONDITION_FAILED"), "nothing is left to pause"


def test_a_review_that_waits_is_paused_and_resumed_at_the_page(page: Browser, shop: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["add", "till/new.py"], ["commit", "-q", "-m", "add f"]):
        subprocess.run([*git, *words], cwd=shop, check=True)
    with Engine.open(shop) as engine, pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.reviews.sessions, "_run_here", lambda *_: None)  # as if its process had ended
        waiting = engine.reviews.sessions.start(ReviewRequest("HEAD", "HEAD~1"), workers=1).session
    (row,) = page.read("review-sessions", project="shop").json["sessions"]
    assert (row["status"], row["files_done"], row["files_total"]) == ("queued", 0, 1)
    assert page.write("pause_review", project="shop", session_id=waiting.id).json["status"] == "paused"
    assert page.write("resume_review", project="shop", session_id=waiting.id).status == 200
    with Engine.open(shop) as engine:
        engine.reviews.sessions.wait(waiting.id, WAIT_S)
    (row,) = page.read("review-sessions", project="shop").json["sessions"]
    assert (row["status"], row["files_done"]) == ("completed", 1)


# -- the graph --

METHODS = """class Store:
    def save(self):
        return 1


class Till:
    def run(self, store: Store):
        return store.save()


class Clock:
    def run(self, store: Store):
        return store.save()


def ring(till: Till):
    return till.run(Store())


def wind(clock: Clock):
    return clock.run(Store())
"""


@pytest.mark.parametrize("relation", ["callers", "impact", "callees"])
def test_the_steps_of_a_graph_name_the_definitions_that_they_join_by_place(
    places: Path, tmp_path: Path, relation: str
) -> None:
    root = tree(tmp_path / "methods", {"till.py": METHODS})
    with Engine.open(root) as engine:
        engine.index.update()
    begin = {"save": 2, "Till.run": 7, "Clock.run": 12, "ring": 16, "wind": 20}
    with serve(root) as page:
        symbol = "wind" if relation == "callees" else "Store.save"
        graph = page.read("graph", project="methods", symbol=symbol, relation=relation, depth=3).json
    steps = {(edge["source_at"], edge["target_at"]) for edge in graph["edges"]}
    joined = [("Till.run", "save"), ("Clock.run", "save"), ("ring", "Till.run"), ("wind", "Clock.run")]
    if relation == "callees":
        joined = [("wind", "Clock.run"), ("Clock.run", "save")]
    assert {(f"till.py:{begin[source]}", f"till.py:{begin[target]}") for source, target in joined} <= steps
    assert not {("till.py:16", "till.py:12"), ("till.py:20", "till.py:7")} & steps
    assert all("(" not in edge["target"] for edge in graph["edges"])


def test_the_code_of_a_symbol_is_shown_without_secrets(page: Browser) -> None:
    (file,) = page.read("code", project="shop", items=["till/new.py#f"]).json["files"]
    assert file["fragments"][0]["text"] == "def f(a=[]):\n    return a"
    assert KEY not in page.read("code", project="shop", items=["till/new.py"]).text
    assert "hunter2" not in page.read("code", project="shop", items=["till/.env"]).text


# -- plans --


def test_a_decision_at_the_page_is_that_of_a_person_at_a_terminal(page: Browser, shop: Path) -> None:
    plan = page.read("plans", project="shop").json["plans"][0]
    assert page.read("plan", project="shop", plan_id=plan["id"]).json["plan"]["goal"] == plan["goal"]
    decided = page.write("decide", project="shop", plan_id=plan["id"], version=1, action="approve", comment="yes")
    assert decided.json["status"] == "approved"
    with Engine.open(shop) as engine:
        (approval,) = engine.plans.repository.load(plan["id"]).approvals
    assert (approval.decided_by, approval.comment) == ("user", "yes")


def test_a_decision_at_a_page_that_an_agent_started_is_that_of_an_agent(shop: Path) -> None:
    with serve(shop, may_write=True, is_person=False) as page:
        plan = page.read("plans", project="shop").json["plans"][0]
        decided = page.write("decide", project="shop", plan_id=plan["id"], version=1, action="reject")
    assert decided.json["status"] == "rejected"
    with Engine.open(shop) as engine:
        assert engine.plans.repository.load(plan["id"]).approvals[0].decided_by == "agent"


def test_an_error_names_no_argument_and_no_tool(page: Browser) -> None:
    plan = page.read("plans", project="shop").json["plans"][0]
    asked = {"project": "shop", "plan_id": plan["id"], "version": 1, "action": "request_modification"}
    refused = page.write("decide", **asked).json["error"]
    assert refused["message"] == "what to change is empty"
    missing = page.read("plan", project="shop", plan_id="plan_x").json["error"]
    assert missing["suggestion"].startswith("Open Plans ")
    refused = page.write("add_memory", project="shop", category="facts", content="x", expires_at="soon").json["error"]
    assert "expires at" in refused["message"]
    for error in (refused, missing):
        assert "_" not in error["message"].replace("plan_x", "") + error["suggestion"], error


def test_a_decision_about_a_version_that_was_not_looked_at_is_refused(page: Browser) -> None:
    plan = page.read("plans", project="shop").json["plans"][0]
    refused = page.write("decide", project="shop", plan_id=plan["id"], version=7, action="approve")
    assert (refused.status, refused.json["error"]["code"]) == (409, "CONFLICT")
    assert page.write("decide", project="shop", plan_id=plan["id"], version=1, action="x").status == 409


# -- records --


def test_a_memory_is_edited_expired_and_deleted_at_the_page(page: Browser) -> None:
    (memory,) = page.read("memories", project="shop").json["memories"]
    changed = page.write(
        "update_memory", project="shop", id=memory["id"], expected_version=memory["version"], tags=["hours"]
    )
    assert changed.json["changed"] == ["tags"]
    stale = page.write("update_memory", project="shop", id=memory["id"], expected_version=memory["version"], tags=["x"])
    assert stale.status == 409, "another writer was faster"
    page.write("update_memory", project="shop", id=memory["id"], expires_at="2026-01-01")
    (memory,) = page.read("memories", project="shop").json["memories"]
    assert (memory["status"], memory["tags"]) == ("expired", ["hours"])
    assert page.write("delete_memory", project="shop", id=memory["id"]).status == 200
    assert page.read("memories", project="shop").json["memories"] == []


def test_a_memory_is_added_at_the_page_as_by_an_agent(page: Browser, shop: Path) -> None:
    text = f"The till speaks to the bank with {KEY}."
    assert page.write("add_memory", project="shop", category="facts", content=text, tags=["bank"]).status == 200
    added, _ = page.read("memories", project="shop").json["memories"]
    assert (added["category"], added["tags"]) == ("facts", ["bank"])
    assert KEY not in "".join(file.read_text() for file in (shop / ".context-engine/memories").rglob("*.md"))
    assert page.write("add_memory", project="shop", category="gossip", content="x").json["error"]["suggestion"]


def test_an_edit_is_undone_and_redone_at_the_page(page: Browser, shop: Path) -> None:
    (edit,) = page.read("edits", project="shop").json["edits"]
    assert (edit["files"], edit["undone"]) == ([{"path": "till/new.py", "change": "created"}], False)
    assert page.write("undo_edit", project="shop", undo_id=edit["id"]).json["text"].startswith("undone")
    assert not (shop / "till/new.py").exists()
    assert page.read("edits", project="shop").json["edits"][0]["undone"]
    assert page.write("undo_edit", project="shop", undo_id=edit["id"], redo=True).status == 200
    assert (shop / "till/new.py").exists()


def test_an_edit_has_its_diff_without_secrets_also_when_it_is_undone(page: Browser, shop: Path) -> None:
    (edit,) = page.read("edits", project="shop").json["edits"]
    for _ in range(2):
        shown = page.read("edit", project="shop", id=edit["id"])
        (file,) = shown.json["files"]
        assert (file["path"], file["kind"]) == ("till/new.py", "added")
        assert file["hunks"][0]["lines"][0] == ["+", 0, 1, "def f(a=[]):"]
        assert KEY not in shown.text
        assert page.write("undo_edit", project="shop", undo_id=edit["id"]).status in (200, 409)
    page.write("undo_edit", project="shop", undo_id=edit["id"], redo=True)
    (shop / "till/new.py").write_text("changed elsewhere\n")
    (file,) = page.read("edit", project="shop", id=edit["id"]).json["files"]
    assert (file["hunks"], file["note"]) == ([], "not shown: another program changed the file since")
    assert page.read("edit", project="shop", id="99999").status == 409


# -- settings --


def test_each_setting_names_the_place_that_its_value_comes_from(
    shop: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CTX_STORE_URL", "postgresql://me:sesame-street@localhost/db")
    monkeypatch.setenv("CTX_EMBEDDER", "none")
    config = shop / ".context-engine" / "config.yml"
    config.write_text("plan_retries_max: 250\nlog_level: debug\n")
    with serve(shop) as page:
        shown = page.read("settings", project="shop")
    rows = {row["name"]: row for row in shown.json["settings"]}
    assert (rows["plan_retries_max"]["value"], rows["plan_retries_max"]["source"]) == ("250", str(config))
    assert rows["workers"]["source"] == "CTX_WORKERS"
    assert (rows["watch"]["value"], rows["watch"]["source"]) == ("true", "default")
    assert rows["log_level"]["source"] == "default", "a repository may not set it"
    assert "log_level" in shown.json["notes"][0]["problem"]
    assert rows["store_url"]["source"] == "CTX_STORE_URL"
    assert "sesame-street" not in shown.text
    assert rows["embedder"]["effect"] == "off: no vectors are made"
    assert rows["embedding_model"]["effect"] == "not used: embedder is none"
    assert rows["workers"]["effect"] == "", "nothing is said where nothing can be counted"


def test_a_setting_says_what_it_changes_in_this_workspace(places: Path, tmp_path: Path) -> None:
    root = tree(tmp_path / "sizes", {"a.py": "A = 1\n", "b.sql": "x" * 2_000, "c.sql": "y" * 2_000})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CTX_INDEX_BYTES_MAX", "1000")
        patch.setenv("CTX_WATCH", "false")
        with Engine.open(root) as engine:
            engine.index.update()
        with serve(root) as page:
            rows = {row["name"]: row["effect"] for row in page.read("settings", project="sizes").json["settings"]}
    assert rows["index_bytes_max"] == "leaves out 2 files"
    assert rows["embedder"] == "1 of 1 chunks have vectors"
    assert rows["quiet_ms"] == "not used: watch is false"
    assert rows["store_records"] == "not used: store_url is empty"


# -- the record of calls --


def test_calls_from_before_a_page_have_their_texts_and_are_deleted_with_the_counts(shop: Path) -> None:
    with Engine.open(shop) as engine:
        ToolDispatcher(single_engine(engine)).call("find_symbol", {"name": "login"}, Call(client="lonely-agent"))
        file = gain_file(engine.settings)
        seen: dict[str, Any] = {}
        newest = [event for event in read_events(file, seen) if "tool" in event][-1]
        assert (newest["client"], newest["tool"], newest["asked"]) == ("lonely-agent", "symbols", "login")
        assert newest["got"]
        assert [event for event in read_events(file, seen) if "tool" in event] == []
        delete_counts(file)
        assert [event for event in read_events(file, seen) if "tool" in event] == []
        ToolDispatcher(single_engine(engine)).call("find_symbol", {"name": "logout"}, Call(client="next-agent"))
        assert [call["client"] for call in read_events(file, seen)] == ["next-agent"], "numbers begin again"


# -- the command --


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_the_command_prints_the_address_and_ends_with_an_interrupt(shop: Path) -> None:
    command = [sys.executable, "-m", "context_engine", "ui", "--no-open", "--root", str(shop)]
    with preloaded.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        address = process.stdout.readline().strip()
        with urllib.request.urlopen(address, timeout=WAIT_S) as page:
            assert b"Context Engine" in page.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) in (0, 130)
        assert "Traceback" not in (process.stderr.read() if process.stderr else "")
