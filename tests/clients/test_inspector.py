"""The MCP Inspector's command line against `ctx serve`: its strict reading of our schemas, and every kind of request.

Each start of it takes seconds. So one variant, the newer era over stdio, makes all requests; the older era and HTTP
show with one listing and one call that they work as well, since the requests behind them are the same.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.clients.conftest import Tell
from tests.clients.programs import Place, Run, client, ctx

VARIANTS = pytest.mark.parametrize(
    ("era", "way"), [("legacy", "stdio"), ("legacy", "http"), ("modern", "stdio"), ("modern", "http")]
)
ALL_REQUESTS = pytest.mark.parametrize(("era", "way"), [("modern", "stdio")])
pytestmark = pytest.mark.slow

TOKEN = "a-token-of-this-test"
Inspect = Callable[..., Run]


@pytest.fixture(scope="module")
def http_address(tmp_path_factory: pytest.TempPathFactory, indexed: Place) -> Iterator[str]:
    """`ctx serve --http` on a free port, which asks for `TOKEN`."""
    token = tmp_path_factory.mktemp("http") / "token"
    token.write_text(TOKEN)
    server = indexed.start(
        *(str(ctx()), "serve", "--root", str(indexed.folder), "--http", "127.0.0.1:0", "--token-file", str(token)),
        stdin=subprocess.DEVNULL,
    )
    try:
        assert server.stderr
        said = next(found for line in server.stderr if (found := re.search(r"http://\S+/mcp", line)))
        yield said.group()
    finally:
        server.terminate()
        server.communicate(timeout=30)


@pytest.fixture
def inspect(way: str, era: str, indexed: Place, request: pytest.FixtureRequest) -> Inspect:
    """Run the Inspector with one method; its options come last, but a server's command, which has options of its own."""
    program = client("inspector")
    if way == "stdio":
        target = ["--", str(ctx()), "serve", "--root", str(indexed.folder)]
    else:
        address = request.getfixturevalue("http_address")
        target = ["--transport", "http", "--header", f"Authorization: Bearer {TOKEN}", "--server-url", address]

    def run(method: str, *options: str) -> Run:
        own = ("--cli", "--protocol-era", era, "--format", "json", "--quiet", "--method", method, *options)
        return indexed.run(*program, *own, *target)

    return run


def result(run: Run) -> Any:
    """What the method answered."""
    assert run.status == 0, run.out + run.err
    return json.loads(run.out)["result"]


def call(inspect: Inspect, tool: str, **arguments: Any) -> Run:
    """Call a tool with arguments as they are."""
    return inspect("tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))


@VARIANTS
def test_every_schema_is_portable(inspect: Inspect, era: str, way: str, tell: Tell) -> None:
    listed = inspect("tools/list", "--strict")
    tools, problems = result(listed)["tools"], listed.err.strip()
    tell(f"inspector {era} {way}", {"tools": len(tools), "strict": problems or "no problem"})
    assert {"search_code", "read"} <= {tool["name"] for tool in tools}
    assert problems == ""


@VARIANTS
def test_a_tool_answers(inspect: Inspect) -> None:
    (block,) = result(call(inspect, "search_code", query="hash a password"))["content"]
    assert block["text"].startswith("@@ till/auth.py")


@ALL_REQUESTS
def test_tools_explain_what_is_wrong(inspect: Inspect) -> None:
    missing = call(inspect, "read", path="till/missing.py")
    assert "FILE_NOT_FOUND" in missing.out + missing.err


@ALL_REQUESTS
def test_resources_and_prompts_are_listed_and_given(inspect: Inspect) -> None:
    uris = [one["uri"] for one in result(inspect("resources/list"))["resources"]]
    assert "ctx://status" in uris
    (file,) = result(inspect("resources/read", "--uri", "ctx://file/till/auth.py"))["contents"]
    assert "def hash_password" in file["text"]
    prompts = result(inspect("prompts/list"))["prompts"]
    needed = {
        prompt["name"]: [f"{one['name']}=till/auth.py" for one in prompt.get("arguments", ()) if one.get("required")]
        for prompt in prompts
    }
    name = max(needed, key=lambda name: len(needed[name]))
    assert needed[name]
    got = result(inspect("prompts/get", "--prompt-name", name, "--prompt-args", *needed[name]))
    assert got["messages"]
