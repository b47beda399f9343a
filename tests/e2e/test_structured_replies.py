"""`ctx serve --structured`, for clients that are programs: every reply follows the schema its tool is listed with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import mcp_types as types
import pytest
from mcp import Client

from context_engine.server.mcp_server import SEE_STRUCTURED
from context_engine.server.profiles import CORE
from tests.e2e.conftest import FILES
from tests.e2e.wire import Wire
from tests.support import preloaded
from tests.support.daemons import DaemonHome
from tests.support.serving import connected_to
from tests.support.stdio_clients import StdioServerParameters, stdio_client
from tests.support.trees import tree

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the tests look at processes in /proc")
TOKEN = "a-token-of-this-test"
KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"  # gitleaks:allow - a made-up key, to be masked
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("search_code", {"query": "where are passwords hashed"}),
    ("search_code", {"query": "where are passwords hashed", "token_budget": 900, "limit": 2}),
    ("search_code", {"query": "quantum chromodynamics", "include": ["absent/**"]}),
    ("search_code", {"query": ""}),
    ("read", {"items": ["till/auth.py:5", "till/auth.py#login", "till", "web/cart.ts", "absent.py", "how is a total made"]}),
    ("read", {"items": ["keys.py"]}),
    ("read", {"items": ["long.py"], "token_budget": 100_000}),
    ("read", {"items": ["absent.py"]}),
    ("search_text", {"query": "total", "context": 1}),
    ("search_text", {"query": "x", "path": "long.py", "limit": 1_000}),
    ("search_text", {"query": "no such text anywhere"}),
    ("search_text", {"query": "(", "regex": True}),
    ("symbols", {"name": "hash_password"}),
    ("symbols", {"name": "hash_pasword"}),
    ("symbols", {"name": "total", "relation": "callers"}),
    ("symbols", {"name": "Session", "relation": "impact"}),
    ("symbols", {"path": "till/auth.py"}),
    ("symbols", {"path": "web/cart.ts", "relation": "outline"}),
    ("symbols", {}),
    ("edit_file", {"path": "till/orders.py", "target": "max(0,", "replace": "max(1,", "dry_run": True}),
    ("edit_file", {"path": "till/orders.py", "target": "max(0,", "replace": "max(1,"}),
    ("edit_file", {"path": "till/orders.py", "target": "is not there", "replace": ""}),
    ("write_file", {"path": "note.md", "content": "# Note\n"}),
    ("write_file", {"path": "../note.md", "content": ""}),
    ("get_context", {"query": "add a discount to an order", "token_budget": 2_000}),
    ("get_context", {"query": "ab"}),
    ("search_memory", {"query": "why are passwords salted"}),
    ("search_memory", {"query": "passwords", "limit": 0}),
    ("list_tools", {"query": "undo the last edit"}),
    ("list_tools", {"names": ["undo_edit", "read"]}),
    ("list_tools", {"querry": "undo"}),
    ("call_tool", {"name": "find_symbol", "arguments": {"name": "total"}}),
    ("call_tool", {"name": "symbols", "arguments": {"name": "total"}}),
    ("call_tool", {"name": "index_status"}),
    ("call_tool", {"name": "no_such_tool"}),
]  # fmt: skip
ERRORS = {3, 7, 11, 18, 21, 23, 25, 27, 30, 34}
"""The numbers of the calls above that fail."""


def test_the_calls_cover_the_default_list_and_an_error_of_nearly_every_tool() -> None:
    assert {name for name, _ in CALLS} == set(CORE)
    assert {CALLS[number][0] for number in ERRORS} == set(CORE)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonHome]:
    with DaemonHome(tmp_path_factory.mktemp("home")) as home:
        yield home


@pytest.fixture
def shop(tmp_path: Path, home: DaemonHome) -> Path:
    long = "".join(f'x_{number} = "a \\"quoted\\" text\\t{number}"\n' for number in range(3_000))
    root = tree(tmp_path / "till", FILES | {"keys.py": f'KEY = "{KEY}"\n', "long.py": long})
    assert home.ctx("index", cwd=root).returncode == 0
    return root


@asynccontextmanager
async def over_stdio(home: DaemonHome, root: Path, **env: str) -> AsyncGenerator[Client]:
    words = ["-m", "context_engine", "serve", "--root", str(root), "--structured"]
    command = StdioServerParameters(command=sys.executable, args=words, env=home.env | env)
    with Path(os.devnull).open("w") as quiet:  # noqa: ASYNC230 - no file
        async with Client(stdio_client(command, errlog=quiet)) as client:
            yield client


@contextmanager
def http_server(home: DaemonHome, root: Path) -> Generator[str]:
    """A server over HTTP that asks for `TOKEN`; its address."""
    command = [sys.executable, "-m", "context_engine", "serve", "--root", str(root), "--http", "0"]
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with preloaded.Popen(command, env=home.env | {"CTX_STRUCTURED": "1", "CTX_HTTP_TOKEN": TOKEN}, **pipes) as process:
        assert process.stderr
        try:
            yield next(word for word in process.stderr.readline().split() if word.endswith("/mcp"))
        finally:
            process.terminate()
            process.stderr.read()


@asynccontextmanager
async def over_http(home: DaemonHome, root: Path) -> AsyncGenerator[Client]:
    with http_server(home, root) as address:
        async with connected_to(address, token=TOKEN) as client:
            yield client


def closed(schema: Any) -> Any:
    """The schema without room for fields that it does not name, so that a test sees each of them."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    return inner | ({"additionalProperties": False} if isinstance(schema.get("properties"), Mapping) else {})


CONNECTIONS = {
    "alone": lambda home, root: over_stdio(home, root, CTX_DAEMON="0"),
    "relayed": over_stdio,
    "http": over_http,
}


@pytest.mark.parametrize("connect", CONNECTIONS.values(), ids=CONNECTIONS)
def test_every_reply_follows_the_schema_of_its_tool_and_is_sent_once(
    home: DaemonHome, shop: Path, connect: Any
) -> None:
    replies: list[types.CallToolResult] = []
    listed: list[types.Tool] = []

    async def converse() -> None:
        async with connect(home, shop) as client:
            listed.extend((await client.list_tools()).tools)
            for name, arguments in CALLS:
                replies.append(await client.call_tool(name, arguments))

    anyio.run(converse)
    schemas = {tool.name: tool.output_schema for tool in listed}
    assert list(schemas) == list(CORE)
    for number, ((name, arguments), reply) in enumerate(zip(CALLS, replies, strict=True)):
        schema = schemas[name] if name == "call_tool" else closed(schemas[name])
        jsonschema.validate(reply.structured_content, schema)
        assert reply.content == [types.TextContent(type="text", text=SEE_STRUCTURED)]
        assert reply.is_error == (number in ERRORS) == ("error" in (reply.structured_content or {})), (name, arguments)
        assert len(json.dumps(reply.structured_content, ensure_ascii=False)) < 40_000
    told = [reply.structured_content or {} for reply in replies]
    assert told[0]["results"][0]["path"] == "till/auth.py"
    assert told[4]["files"][0]["fragments"][0] == {"lines": "5", "text": "SALT_BYTES = 16"}
    assert [row["path"] for row in told[4]["files"]][:2] == ["till/auth.py", "web/cart.ts"]
    assert told[5]["masked"] == 1
    assert KEY not in json.dumps(told)
    shown = told[6]["files"][0]["fragments"][0]["text"].split("\n")
    assert shown == (shop / "long.py").read_text().split("\n")[: len(shown)]
    assert len(shown) > 500
    assert told[9]["total"] == 3_000
    assert told[9]["cursor"]
    assert told[12]["definitions"][0]["lines"] == "8-10"
    assert told[13]["near"]
    assert told[14]["steps"][0]["path"] == "tests/test_orders.py"
    assert told[16]["outline"]["symbols"][1]["name"] == "hash_password"
    assert "+    return max(1," in told[19]["diff"]
    assert told[19]["written"] is False
    assert told[20] | {"affected": []} == {
        "files": [{"path": "till/orders.py", "lines": ["8"], "sha256": told[20]["files"][0]["sha256"], "syntax": "syntax ok"}],
        "written": True,
        "undo_id": told[20]["undo_id"],
        "affected": [],
    }  # fmt: skip
    assert told[22]["action"] == "created"
    assert told[31]["total"] == 1
    assert told[32]["definitions"][0]["name"] == "total"


def test_the_cursor_of_a_structured_page_continues_where_it_ends(home: DaemonHome, shop: Path) -> None:
    lines: list[int] = []

    async def converse() -> None:
        async with over_stdio(home, shop) as client:
            asked: dict[str, Any] = {"query": "x", "path": "long.py", "limit": 1_000}
            while asked.get("cursor", "-"):
                page = (await client.call_tool("search_text", asked)).structured_content or {}
                lines.extend(line["line"] for file in page["files"] for line in file["lines"])
                asked["cursor"] = page.get("cursor", "")

    anyio.run(converse)
    assert lines == list(range(1, 3_001))


def test_without_the_option_no_reply_is_structured_and_no_schema_is_listed(home: DaemonHome, shop: Path) -> None:
    with Wire(shop, env=home.env) as wire:
        wire.shake_hands()
        assert not [tool for tool in wire.ask("tools/list")["result"]["tools"] if "outputSchema" in tool]
        reply = wire.call("symbols", name="total")
        assert "structuredContent" not in reply
        assert reply["content"][0]["text"].startswith("1 definition")
        assert wire.end() == 0


def test_a_client_of_a_version_without_structured_content_gets_the_json_as_text(home: DaemonHome, shop: Path) -> None:
    with Wire(shop, env=home.env, options=("--structured",)) as wire:
        wire.shake_hands(version="2025-03-26")
        reply = wire.call("symbols", name="total")
        assert "structuredContent" not in reply
        assert json.loads(reply["content"][0]["text"])["definitions"][0]["name"] == "total"
        assert wire.end() == 0
