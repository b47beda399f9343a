"""What the documents promise of a whole session over stdio: codes, paths, independence of calls, and no network."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from context_engine import tools
from context_engine.cli.app import app
from tests.e2e.conftest import planted
from tests.e2e.wire import DOCUMENTS, HERE, Wire, told
from tests.support.waiting import until

NO_HABITS = {"CTX_ACCESS_SCORING": "false", "CTX_SESSION_MEMORY": "false"}
"""Else what is read counts a little more in what is asked later, as another document wants it."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with everything in it that must not be read out."""
    place = tmp_path_factory.mktemp("promised")
    (place / "outside.py").write_text("SECRET = 1\n")
    root = planted(place / "till")
    (root / ".env").write_text("PASSWORD=hunter2\n")
    (root / ".github").mkdir()
    (root / ".github" / "ci.yml").write_text("on: push\n")
    (root / "node_modules" / "lamp").mkdir(parents=True)
    (root / "node_modules" / "lamp" / "index.js").write_text("export function hash_password() {}\n")
    (root / "vendored.py").write_text("def vendored():\n    return 1\n")
    (root / ".augmentignore").write_text("vendored.py\n")
    return root


@pytest.fixture(scope="module")
def wire(root: Path, own_places: None) -> Iterator[Wire]:
    """One session for all; its index is ready, and every tool is listed."""
    with Wire(root, env=NO_HABITS, options=DOCUMENTS) as wire:
        wire.shake_hands()
        until(lambda: told(wire, "index_status")["state"] == "ready")
        yield wire
        assert wire.end() == 0


def refused(wire: Wire, tool: str, **arguments: Any) -> dict[str, Any]:
    """The error of a call that must fail: within the result, with all that the documents ask of an error."""
    result = wire.call(tool, **arguments)
    assert result["isError"]
    error = json.loads(result["content"][0]["text"])["error"]
    assert isinstance(error["code"], str)
    assert error["message"]
    return error


# -- asking --


def test_a_question_in_plain_words_finds_the_function(wire: Wire) -> None:
    reply = told(wire, "codebase_retrieval", query="where are passwords hashed")
    assert reply["results"][0]["path"] == "till/auth.py"
    assert "def hash_password" in reply["results"][0]["content"]
    assert reply["engine"] == "hybrid"
    assert reply["freshness"] == "fresh"


def test_every_rendering_finds_the_same_file(wire: Wire) -> None:
    assert "## till/orders.py" in wire.text("semantic_search", query="total of an order with discount")
    cortex = told(wire, "cortex_search", query="total of an order with discount", tags=["python", "code"], limit=3)
    assert cortex["results"][0]["chunk"]["metadata"]["file_path"] == "till/orders.py"
    assert {"id", "chunk_type", "title", "text", "tags", "metadata", "created_at", "updated_at"} == set(
        cortex["results"][0]["chunk"]
    )
    assert "embedding" not in json.dumps(cortex)


def test_a_symbol_is_found_with_its_callers(wire: Wire) -> None:
    assert "till/auth.py:8-10 function" in wire.text("find_symbol", name="hash_password")
    assert "Session" in wire.text("find_symbol", outline="till/auth.py")
    assert "till/auth.py:22" in wire.text("trace", symbol="hash_password")
    assert "till/orders.py" in wire.text("trace", path="till/auth.py", direction="importers")


def test_the_metrics_count_what_the_session_did(wire: Wire) -> None:
    wire.call("read_file", path="missing.py")
    stats = told(wire, "index_status", include_stats=True)["stats"]
    assert stats["read_file"]["errors"]["FILE_NOT_FOUND"] >= 1
    assert stats["index_status"]["ok"] >= 1


# -- reading --


def test_a_path_is_required_and_a_missing_file_is_named(wire: Wire) -> None:
    assert refused(wire, "read_file")["code"] == "INVALID_ARGUMENT"
    assert "till/oders.py" in refused(wire, "read_file", path="till/oders.py")["message"]
    assert "till/orders.py" in refused(wire, "read_file", path="till/oders.py")["suggestion"]


def test_a_path_inside_may_be_absolute_and_what_only_looks_secret_is_read(wire: Wire, root: Path) -> None:
    assert wire.text("read_file", path=str(root / "till" / "auth.py")) == wire.text("read_file", path="till/auth.py")
    assert "on: push" in wire.text("read_file", path=".github/ci.yml")


# -- listing and keeping out --


def test_a_listing_takes_a_folder_a_depth_and_a_number(wire: Wire) -> None:
    whole = wire.text("list_directory")
    assert "├── till/\n│   ├── __init__.py\n│   ├── auth.py\n│   └── orders.py" in whole
    assert whole == wire.text("list_directory", path=".", depth=2, max_items=200)
    assert "auth.py" not in wire.text("list_directory", depth=1)
    assert "README.md" not in wire.text("list_directory", path="till")
    few = wire.text("list_directory", max_items=3)
    assert few.startswith(". · 3 items")
    assert " more" in few


def test_what_is_ignored_is_neither_listed_nor_found(wire: Wire) -> None:
    listed = wire.text("list_directory", include_hidden=True, depth=5)
    query = "hash_password vendored nothing to see hunter2 lamp"
    found = [row["path"] for row in told(wire, "codebase_retrieval", query=query, top_k=50)["results"]]
    assert "till/auth.py" in found
    assert ".env" not in found
    for kept_out in ("node_modules", "vendored.py", "ignored.log"):
        assert [line for line in listed.split("\n") if line.endswith((f" {kept_out}", f" {kept_out}/"))] == []
        assert [path for path in found if kept_out in path.split("/")] == []


# -- the protocol --


def test_cortex_search_is_announced_as_its_document_says(wire: Wire) -> None:
    cortex = next(each for each in wire.ask("tools/list")["result"]["tools"] if each["name"] == "cortex_search")
    assert cortex["description"].startswith("Search for relevant context in the project codebase and documentation.")
    assert cortex["annotations"]["readOnlyHint"] is True
    assert cortex["annotations"]["destructiveHint"] is False
    schema = cortex["inputSchema"]
    assert schema["required"] == ["query"]
    assert {"query", "limit", "tags", "chunk_types"} <= set(schema["properties"])
    assert schema["properties"]["limit"]["default"] == 15


def test_an_error_of_the_protocol_carries_the_code_of_its_kind(wire: Wire) -> None:
    def code(method: str, params: dict[str, Any]) -> int:
        answer = wire.ask(method, params)
        assert answer["jsonrpc"] == "2.0"
        return answer["error"]["code"]

    assert code("no/such/method", {}) == -32601
    assert code("tools/call", {"name": "teleport", "arguments": {}}) == -32602
    assert code("tools/call", {"name": "cortex_search", "arguments": {"query": ""}}) == -32602
    assert code("tools/call", {"name": 3}) == -32602
    assert code("tools/list", {"cursor": "nowhere"}) == -32602


# -- no session --


ASKED = (
    ("codebase_retrieval", {"query": "where are passwords hashed"}),
    ("cortex_search", {"query": "orders and what they cost", "tags": ["python"]}),
    ("find_symbol", {"name": "hash_password"}),
    ("read_file", {"path": "till/orders.py"}),
    ("list_directory", {}),
)


def test_no_call_depends_on_the_calls_or_the_session_before_it(root: Path, wire: Wire) -> None:
    first = [answered(wire, name, arguments) for name, arguments in ASKED]
    for name, arguments in (("read_file", {"path": ".env"}), ("trace", {"symbol": "login"}), ("teleport", {})):
        wire.ask("tools/call", {"name": name, "arguments": arguments})
    again = [answered(wire, name, arguments) for name, arguments in reversed(ASKED)][::-1]
    assert again == first
    with Wire(root, env=NO_HABITS, options=DOCUMENTS) as other:
        other.shake_hands()
        until(lambda: told(other, "codebase_retrieval", query="order")["freshness"] == "fresh")
        assert [answered(other, name, arguments) for name, arguments in ASKED] == first


def answered(wire: Wire, name: str, arguments: dict[str, Any]) -> str:
    """An answer without the time of the last look at the workspace, which each server takes for itself."""
    return re.sub(r'"(created|updated)_at":"[^"]*"', "", wire.text(name, **arguments))


def test_a_server_that_is_killed_loses_nothing(repository: Path) -> None:
    with Wire(repository, options=DOCUMENTS) as wire:
        wire.shake_hands()
        until(lambda: told(wire, "index_status")["state"] == "ready")
        asked = {"query": "where are passwords hashed"}
        before = told(wire, "codebase_retrieval", **asked)
        wire.process.kill()
        wire.process.wait()
    assert json.loads(typed(repository, "codebase_retrieval", asked)) == before
    status = json.loads(typed(repository, "index_workspace", {}))
    assert (status["added"], status["changed"], status["unchanged"]) == (0, 0, status["files"])


def test_everything_a_tool_does_can_be_tried_at_the_terminal(repository: Path) -> None:
    """Without arguments here: some are answered and some refused, and none is unknown. `test_random_calls` sends more."""
    for tool in tools.ALL:
        done = CliRunner().invoke(app, ["call", tool.name, "{}", "--root", str(repository)])
        assert done.exit_code in (0, 2)
        assert not done.stdout.startswith(("UNKNOWN_TOOL", "INTERNAL")), done.stdout


def typed(root: Path, name: str, arguments: dict[str, Any]) -> str:
    """What `ctx call` prints for a program."""
    done = CliRunner().invoke(app, ["call", name, json.dumps(arguments), "--root", str(root), "--json"])
    assert done.exit_code == 0, done.stdout
    return done.stdout


# -- the end of the session --


def test_an_edit_is_found_without_asking_for_it(wire: Wire, root: Path) -> None:
    (root / "till" / "refund.py").write_text('def refund_customer(order):\n    """Give the money back."""\n')
    until(lambda: "till/refund.py" in wire.text("codebase_retrieval", query="refund customer", profile="fast"))


def test_the_index_is_cleared_only_on_purpose_and_built_again(wire: Wire) -> None:
    assert wire.call("clear_index")["isError"]
    until(lambda: not wire.call("clear_index", confirm=True)["isError"])  # busy while an edit is taken in
    assert told(wire, "index_workspace")["files"] >= 7
    assert told(wire, "codebase_retrieval", query="hash password")["results"]


# -- no network --


WITNESS = """
import os, sys

def hear(event, args):
    if event.startswith(("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo",
                         "socket.gethostby", "urllib.", "http.client.", "smtplib.", "ftplib.")):
        with open(os.environ["WITNESS"], "a") as file:
            file.write(f"{event} {args[1:]!r}\\n")

sys.addaudithook(hear)
with open(os.environ["WITNESS"], "a") as file:
    file.write("listening\\n")
"""


def test_a_whole_session_opens_no_port_and_reaches_no_other_machine(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "witness").mkdir()
    (tmp_path / "witness" / "sitecustomize.py").write_text(WITNESS)
    heard = tmp_path / "heard"
    path = os.pathsep.join([str(tmp_path / "witness"), str(HERE)])
    with Wire(repository, {"PYTHONPATH": path, "WITNESS": str(heard), "CTX_WORKERS": "1"}, DOCUMENTS) as wire:
        wire.shake_hands()
        wire.call("reindex_workspace")
        for name, arguments in ASKED:
            wire.text(name, **arguments)
        assert sockets_with_an_address(wire.process.pid) == []
        assert wire.end() == 0
    assert set(heard.read_text().split("\n")) == {"listening", ""}


def sockets_with_an_address(pid: int) -> list[str]:
    """The sockets of a process that another machine could be at the end of, as Linux lists them; nothing elsewhere."""
    if not sys.platform.startswith("linux"):
        return []
    own = {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()}
    rows = [
        row.split()
        for table in ("tcp", "tcp6", "udp", "udp6", "raw")
        if (file := Path(f"/proc/{pid}/net/{table}")).exists()
        for row in file.read_text().splitlines()[1:]
    ]
    return [row[1] for row in rows if f"socket:[{row[9]}]" in own]
