"""A server that a team shares: two processes side by side on the same projects, real HTTP, a real client, and people who try."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp.shared.exceptions import MCPError
from prometheus_client.parser import text_string_to_metric_families

from context_engine import tools
from tests.e2e.test_random_calls import fitting
from tests.support.serving import connected_to
from tests.support.sharing import HIDDEN, MARK, PATIENCE_S, Place, Worker, message, place, request, worker
from tests.support.waiting import until

REQUESTS = int(os.environ.get("CTX_TEST_STRANGERS", "400"))
AT_ONCE = 20
ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return place(tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def one(here: Place) -> Generator[Worker]:
    with worker(here) as process:
        process.wait_until_indexed()
        yield process


@pytest.fixture(scope="module")
def two(here: Place, one: Worker) -> Generator[Worker]:
    """A second process on the same projects, tokens and audit log."""
    with worker(here) as process:
        process.wait_until_indexed()
        yield process


def error(text: str) -> dict[str, Any]:
    return json.loads(text)["error"]


def client(worker: Worker, token: str, era: str) -> AbstractAsyncContextManager[Client]:
    return connected_to(worker.base, era, worker.place.tokens[token])


# -- who may what -------------------------------------------------------------------------------------------------


@ERAS
def test_each_token_meets_its_own_server(one: Worker, era: str) -> None:
    async def body() -> None:
        async with client(one, "reader", era) as reader, client(one, "writer", era) as writer:
            listed = {each.name: each for each in (await reader.list_tools()).tools}
            assert "edit_file" not in listed
            assert "project" not in listed["read"].input_schema["properties"], "there is only one for this token"
            listed = {each.name: each for each in (await writer.list_tools()).tools}
            assert "edit_file" in listed
            assert "clear_index" not in listed
            assert set(listed["read"].input_schema["properties"]["project"]["enum"]) - {"*"} == {"till", "web"}
            assert (await reader.read_resource("ctx://file/till/auth.py")).contents
            addresses = [str(each.uri) for each in (await writer.list_resources()).resources]
            assert "ctx://status?project=web" in addresses
            assert HIDDEN not in " ".join(addresses)
            with pytest.raises(MCPError, match="no open project is called"):
                await reader.read_resource(f"ctx://status?project={HIDDEN}")

    anyio.run(body)


def test_a_role_may_not_do_what_is_beyond_it_by_whatever_way(one: Worker) -> None:
    wanted = {"path": "new.py", "content": "x = 1\n"}
    for text in (
        one.call("reader", "write_file", **wanted),
        one.call("reader", "call_tool", name="write_file", arguments=wanted),
        one.call("writer", "clear_index", project="web", confirm=True),
    ):
        assert error(text)["code"] == "ACCESS_DENIED"
        assert "token of the role" in error(text)["message"]
    assert not (one.place.folder / "till" / "new.py").exists()
    assert one.call("writer", "write_file", project="web", **wanted).startswith("created new.py")
    assert (one.place.folder / "web" / "new.py").read_text() == "x = 1\n"


def test_the_manifest_offers_what_the_role_may_do(one: Worker) -> None:
    told = one.call("reader", "tool_manifest")
    assert "\nwrite_file " not in told
    assert "switched off by the role read: " in told


# -- what is not there ------------------------------------------------------------------------------------------------


def asking(named: str, folder: str) -> list[tuple[str, dict[str, Any]]]:
    """Every way to ask for a project by its name or its folder."""
    prompt = {"name": "find", "arguments": {"what": "login", "project": named}}
    completion = {
        "ref": {"type": "ref/resource", "uri": "ctx://file/{+path}{?project}"},
        "argument": {"name": "path", "value": "l"},
        "context": {"arguments": {"project": named}},
    }
    calls = [
        ("codebase_retrieval", {"query": "login", "project": named}),
        ("search_files", {"query": "login", "project": folder, "cursor": "0123abcd-1"}),
        ("find_symbol", {"name": "login", "project": named}),
        ("get_context_for_prompt", {"query": "login", "project": named}),
        ("read_file", {"path": "auth.py", "project": folder}),
        ("read_file", {"path": f"{folder}/auth.py", "project": "till"}),
        ("read_file", {"path": f"../{named}/auth.py", "project": "till"}),
        ("list_directory", {"path": f"{folder}", "project": "till"}),
        ("call_tool", {"name": "read_file", "arguments": {"path": "auth.py", "project": named}}),
        ("write_file", {"path": "auth.py", "content": "x", "project": named}),
        ("add_memory", {"category": "facts", "content": "x", "project": named}),
        ("list_plans", {"project": named}),
        ("review_git_diff", {"project": named}),
        ("index_workspace", {"project": named}),
    ]
    return [
        *(("tools/call", {"name": name, "arguments": arguments}) for name, arguments in calls),
        ("resources/read", {"uri": f"ctx://file/auth.py?project={named}"}),
        ("resources/read", {"uri": f"ctx://status?project={folder.replace('/', '%2F')}"}),
        ("resources/read", {"uri": f"ctx://rules?project={named}"}),
        ("prompts/get", prompt),
        ("completion/complete", completion),
    ]


def test_a_project_of_somebody_else_is_answered_like_one_that_is_not_there(one: Worker) -> None:
    there, nowhere = str(one.place.folder / HIDDEN), str(one.place.folder / "vlaut")
    assert Path(there).exists()
    assert not Path(nowhere).exists()
    asked = list(zip(asking(HIDDEN, there), asking("vlaut", nowhere), strict=True))
    for (method, hidden), (_, absent) in asked:
        replies = [one.ask("writer", method, params).text for params in (hidden, absent)]
        assert replies[0].replace(HIDDEN, "vlaut") == replies[1], (method, hidden)
        assert MARK not in replies[0]
    for method, hidden in [each for each, _ in asked][:4]:
        assert "error" not in message(one.ask("admin", method, hidden)), "it is there for who may see it"


def test_a_cursor_of_a_project_that_is_hidden_leads_nowhere(one: Worker) -> None:
    text = one.call("admin", "search_files", query=MARK, project=HIDDEN, limit=1)
    cursor = text.rpartition("cursor ")[2].split()[0].rstrip('".,})')
    assert cursor[:1].isalnum(), text
    for project in ("till", HIDDEN):
        assert MARK not in one.call("writer", "search_files", query="o", project=project, limit=1, cursor=cursor)
    assert error(one.call("writer", "search_files", query="o", project="till", limit=1, cursor=cursor))


def test_an_id_of_something_in_a_hidden_project_names_nothing_in_another(one: Worker) -> None:
    written = one.call("admin", "write_file", project=HIDDEN, path="kept.py", content=f"{MARK} = 1\n")
    added = one.call("admin", "add_memory", project=HIDDEN, category="facts", content=f"The {MARK} eats.")
    planned = one.call("admin", "create_plan", project=HIDDEN, task=f"change {MARK}_balance")
    undo, memory, plan = written.split()[-1], json.loads(added)["id"], json.loads(planned)["plan_id"]
    by_plan = "load_plan visualize_plan execute_plan view_progress view_history start_step delete_plan".split()
    asked = [
        *((tool, {"plan_id": plan}) for tool in by_plan),
        *((tool, {"id": memory}) for tool in ("update_memory", "delete_memory")),
        ("undo_edit", {"undo_id": undo}),
    ]
    for tool, named in asked:
        for name, arguments in ((tool, named), ("call_tool", {"name": tool, "arguments": named})):
            text = one.call("writer", name, project="till", **arguments)
            assert error(text), tool
            assert MARK not in text
    assert (one.place.folder / HIDDEN / "kept.py").exists()
    assert memory in one.call("admin", "list_memories", project=HIDDEN)
    assert MARK in one.call("admin", "load_plan", project=HIDDEN, plan_id=plan)


def test_what_follows_a_user_from_project_to_project_stays_in_each_on_a_shared_server(one: Worker) -> None:
    added = one.call(
        "admin", "add_memory", project=HIDDEN, category="facts", content=f"The {MARK} sleeps.", scope="user"
    )
    assert json.loads(added)["ok"], added
    assert MARK in one.call("admin", "list_memories", project=HIDDEN)
    for tool, arguments in (("list_memories", {}), ("context_search", {"query": f"the {MARK} sleeps"})):
        assert f"The {MARK}" not in one.call("writer", tool, project="till", **arguments)


def test_one_question_to_all_projects_reaches_those_that_one_may_see(one: Worker) -> None:
    assert MARK not in one.call("writer", "codebase_retrieval", query="log in")
    assert MARK in one.call("admin", "codebase_retrieval", query="log in")


def test_nobodys_metrics_are_shown_to_others_but_an_admin(one: Worker) -> None:
    one.call("admin", "trace", symbol="login", project=HIDDEN)
    own = message(one.ask("reader", "resources/read", {"uri": "ctx://metrics"}))["result"]["contents"][0]["text"]
    assert "trace" not in json.loads(own)
    families = {each.name: each for each in text_string_to_metric_families(one.get("/metrics", "reader").text)}
    assert {each.labels["role"] for each in families["ctx_tool_calls"].samples} == {"read"}
    families = {each.name: each for each in text_string_to_metric_families(one.get("/metrics", "admin").text)}
    assert {each.labels["role"] for each in families["ctx_tool_calls"].samples} == {"read", "write", "admin"}


PLACES = [HIDDEN, "till", "web", "*", "", f"../{HIDDEN}", "FOLDER", "FOLDER/ledger.py", "linked/ledger.py", "link.py"]
PATHS = st.sampled_from([*PLACES, "ledger.py", "auth.py", "docs/adr", "till/auth.py", f"{HIDDEN}:ledger.py", "."])
WORDS = st.sampled_from(["login", "balance", "account", "orders", "logging in", "*", "def", "What the", "decision"])
FILES = {"type": "ref/resource", "uri": "ctx://file/{+path}{?project}"}
REFERENCES = [{"type": "ref/prompt", "name": "find"}, FILES]
LISTS = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"]
CURSORS = st.sampled_from(["0123abcd-1", "0", "1", "00000000-0"])


@st.composite
def strange(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A request of a stranger who knows what the hidden project and its files are called, and wants to read it."""
    project = draw(st.sampled_from(PLACES))
    which = f"?project={project.replace('/', '%2F')}"
    match draw(st.integers(0, 9)):
        case 0:
            uri = draw(st.sampled_from(["ctx://status", "ctx://rules", "ctx://metrics", f"ctx://file/{draw(PATHS)}"]))
            return "resources/read", {"uri": uri + draw(st.sampled_from(["", which]))}
        case 1:
            named = {"what": draw(WORDS), "task": draw(WORDS), "area": draw(PATHS), "project": project}
            name = draw(st.sampled_from(["begin", "find", "change", "understand"]))
            return "prompts/get", {"name": name, "arguments": named}
        case 2:
            ref = draw(st.sampled_from(REFERENCES))
            argument = {"name": draw(st.sampled_from(["path", "what", "project"])), "value": draw(WORDS | PATHS)}
            context = {"arguments": {"project": project}}
            return "completion/complete", {"ref": ref, "argument": argument, "context": context}
        case 3:
            return draw(st.sampled_from(LISTS)), {}
    tool = draw(st.sampled_from(tools.ALL))
    properties = tool.schema["properties"]
    needed = {name: fitting(properties[name]) for name in tool.schema.get("required", ())}
    arguments = draw(st.fixed_dictionaries(needed))
    for name, kind in properties.items():
        if kind.get("type") == "string" and "enum" not in kind and (name in arguments or draw(st.integers(0, 3)) == 0):
            # What a caller wrote, the names of new files too, comes back in later replies: there it names no project.
            # And `auth.py` stays as it is, because other tests of this module ask for what it defines.
            reads = tool.hints.read_only
            paths = PATHS if reads else PATHS.filter(lambda path: HIDDEN not in path and "auth.py" not in path)
            texts = WORDS | PATHS if reads else WORDS
            arguments[name] = draw(
                CURSORS if name == "cursor" else paths if "path" in name or name == "file" else texts
            )
    arguments |= {"project": project} if draw(st.booleans()) else {}
    if draw(st.integers(0, 4)) == 0:
        return "tools/call", {"name": "call_tool", "arguments": {"name": tool.name, "arguments": arguments}}
    return "tools/call", {"name": tool.name, "arguments": arguments}


@pytest.mark.slow
@settings(
    max_examples=max(1, REQUESTS // AT_ONCE), deadline=None, suppress_health_check=list(HealthCheck), database=None
)
@given(batch=st.lists(strange(), min_size=AT_ONCE, max_size=AT_ONCE), token=st.sampled_from(["reader", "writer"]))
@example(
    batch=[("tools/call", {"name": "codebase_retrieval", "arguments": {"query": "login", "project": "*"}})],
    token="reader",
)
def test_no_request_brings_a_byte_of_a_project_that_is_hidden(
    one: Worker, batch: list[tuple[str, dict[str, Any]]], token: str
) -> None:
    folder = str(one.place.folder / HIDDEN)
    asked = [json.loads(json.dumps(request(*each)).replace("FOLDER", folder)) for each in batch]
    for sent, (status, text) in zip(asked, anyio.run(answers, one, token, asked), strict=True):
        assert status in (200, 400, 404), (sent, status, text)
        assert MARK not in text, sent
        if HIDDEN not in json.dumps(sent):
            assert HIDDEN not in text, sent


async def answers(one: Worker, token: str, asked: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """What comes back, all of them asked at once."""
    found: list[tuple[int, str]] = [(0, "")] * len(asked)

    async with httpx2.AsyncClient(headers=one.headers(token), timeout=PATIENCE_S) as sender:

        async def ask(number: int) -> None:
            reply = await sender.post(f"{one.base}/mcp", json=asked[number])
            found[number] = (reply.status_code, reply.text)

        async with anyio.create_task_group() as side:
            for number in range(len(asked)):
                side.start_soon(ask, number)
    return found


def test_a_stranger_would_have_found_it_with_the_right_token(one: Worker) -> None:
    asked = [request("tools/call", {"name": "search_files", "arguments": {"query": "balance", "project": HIDDEN}})]
    ((_, text),) = anyio.run(answers, one, "admin", asked)
    assert MARK in text, "else the law above could not fail"


# -- the door ---------------------------------------------------------------------------------------------------------


def test_who_is_not_let_in_is_told_why_as_far_as_it_is_his_business(one: Worker) -> None:
    assert one.ask("", "tools/list").status_code == 401
    unknown = one.ask(f"ctx_{'0' * 12}_{'x' * 43}", "tools/list")
    assert (unknown.status_code, "invalid_token" in unknown.headers["www-authenticate"]) == (401, True)
    _, short = one.place.token_file.create("short", "read", ["till"], expires_s=time.time() + 4)
    assert one.ask(short, "tools/list").status_code == 200
    until(lambda: one.ask(short, "tools/list").status_code != 200)
    expired = one.ask(short, "tools/list")
    assert (expired.status_code, "has expired" in expired.text) == (401, True)
    for path in ("/health", "/ready"):
        assert one.get(path).status_code == 200
        assert HIDDEN not in one.get(path).text


def test_a_token_that_is_revoked_is_refused_by_every_process_at_once(one: Worker, two: Worker) -> None:
    _, token = one.place.token_file.create("guest", "read", ["till"])
    assert [each.ask(token, "tools/list").status_code for each in (one, two)] == [200, 200]
    one.place.token_file.revoke("guest")
    assert [each.ask(token, "tools/list").status_code for each in (one, two)] == [401, 401]


def test_a_token_has_its_rate_in_tools_and_a_wider_one_at_the_door(one: Worker) -> None:
    texts = [one.call("slow", "index_status") for _ in range(3)]
    assert error(texts[2])["code"] == "RATE_LIMITED"
    assert 0 < error(texts[2])["details"]["retry_after_s"] <= 30
    replies = [one.ask("slow", "tools/list") for _ in range(15)]
    refused = [each for each in replies if each.status_code == 429]
    assert refused
    assert 0 < int(refused[0].headers["retry-after"]) <= 5
    assert one.ask("reader", "tools/list").status_code == 200


def test_the_audit_log_says_who_did_what_and_holds_nothing_of_it(one: Worker) -> None:
    one.call("writer", "codebase_retrieval", query="a word that is nowhere else", project="web")
    one.call("writer", "read_file", path="auth.py", project=HIDDEN)
    one.ask("reader", "resources/read", {"uri": "ctx://file/till/auth.py"})
    lines = one.place.audit
    text = (one.place.folder / "audit.log").read_text()
    assert any(
        each.items()
        >= {"token": "writer", "role": "write", "tool": "codebase_retrieval", "project": "web", "ok": True}.items()
        for each in lines
    )
    assert any(each.get("error") == "INVALID_ARGUMENT" and "project" not in each for each in lines)
    assert any(
        each.items() >= {"token": "reader", "event": "read", "method": "resources/read", "project": "till"}.items()
        for each in lines
    )
    assert any(each["event"] == "refused" and each["status"] == 401 for each in lines)
    assert "nowhere else" not in text
    assert not any(token in text for token in one.place.tokens.values())
    assert (one.place.folder / "audit.log").stat().st_mode & 0o777 == 0o600


# -- side by side -----------------------------------------------------------------------------------------------------


def test_a_conversation_goes_on_with_another_process(one: Worker, two: Worker) -> None:
    opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    begun = one.ask("reader", "initialize", opening)
    assert begun.status_code == 200
    assert "mcp-session-id" not in begun.headers, "nothing is kept that the other would miss"
    for each in (two, one, two):
        assert "Session" in each.call("reader", "find_symbol", name="Session")


def test_what_one_process_writes_the_other_finds(one: Worker, two: Worker) -> None:
    wanted = {"path": "till/fresh.py", "content": "def freshly_written():\n    pass\n"}
    assert one.call("writer", "write_file", project="web", **wanted).startswith("created till/fresh.py")
    until(lambda: "till/fresh.py" in two.call("writer", "find_symbol", name="freshly_written", project="web"))


def test_a_hangup_ends_a_process_as_gently_as_any_other_signal(here: Place) -> None:
    with worker(here, "--shutdown-delay", "2") as ending:
        ending.wait_until_indexed()
        ending.process.send_signal(signal.SIGHUP)
        until(lambda: ending.get("/ready").status_code != 200)
        assert ending.ask("reader", "tools/list").status_code == 200
        assert ending.process.wait(PATIENCE_S) == 0


def test_a_process_may_end_under_load_and_nobody_goes_without_an_answer(here: Place, one: Worker) -> None:
    answered: list[int] = []

    def ask(workers: list[Worker]) -> None:
        """As a proxy would: the next process when this one lets nobody in any more."""
        for each in workers:
            try:
                reply = each.ask(
                    "reader", "tools/call", {"name": "codebase_retrieval", "arguments": {"query": "orders"}}
                )
            except httpx2.ConnectError:  # whoever was let in is answered
                continue
            assert "till/orders.py" in reply.text
            answered.append(reply.status_code)
            return

    with worker(here, "--shutdown-timeout", "20") as ending:
        ending.wait_until_indexed()
        asking = [threading.Thread(target=lambda: [ask([ending, one]) for _ in range(5)]) for _ in range(6)]
        for each in asking:
            each.start()
        until(lambda: len(answered) >= 6)
        ending.process.send_signal(signal.SIGTERM)
        for each in asking:
            each.join(PATIENCE_S)
        assert ending.process.wait(PATIENCE_S) == 0
        assert answered == [200] * 30
        assert not any("Traceback" in line for line in ending.log)
