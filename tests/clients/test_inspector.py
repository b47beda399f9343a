"""The MCP Inspector's command line against `ctx serve`: its strict reading of our schemas, and every kind of request.

In both eras of the protocol, over stdio and over HTTP.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import Tell
from tests.clients.programs import Place, Run, client, ctx

ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])
WAYS = pytest.mark.parametrize("way", ["stdio", "http"])
pytestmark = [pytest.mark.slow, ERAS, WAYS]

TOKEN = "a-token-of-this-test"
Inspect = Callable[..., Run]


@pytest.fixture(scope="module")
def http_address(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[str]:
    """`ctx serve --http` on a free port, which asks for `TOKEN`."""
    client("inspector")
    place = Place(tmp_path_factory.mktemp("http"), repository)
    token = place.folder.parent / "token"
    token.write_text(TOKEN)
    server = place.start(
        *(str(ctx()), "serve", "--root", str(repository), "--http", "127.0.0.1:0", "--token-file", str(token)),
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
def inspect(way: str, era: str, place: Place, request: pytest.FixtureRequest) -> Inspect:
    """Run the Inspector with one method; its options come last."""
    stdio = [str(ctx()), "serve", "--root", str(place.folder)]
    target = stdio if way == "stdio" else [request.getfixturevalue("http_address")]

    def run(method: str, *options: str) -> Run:
        own = ("--cli", "--protocol-era", era, "--format", "json", "--quiet", "--method", method, *options)
        return place.run(*client("inspector"), *around(way, target, own))

    return run


def around(way: str, target: Sequence[str], own: Sequence[str]) -> list[str]:
    """The words of the command line: a server's command has options of its own, so it stands after `--`."""
    if way == "stdio":
        return [*own, "--", *target]
    return [*own, "--transport", "http", "--header", f"Authorization: Bearer {TOKEN}", "--server-url", *target]


def result(run: Run) -> Any:
    """What the method answered."""
    assert run.status == 0, run.out + run.err
    return json.loads(run.out)["result"]


def text(run: Run) -> str:
    """The one text block of a tool's result."""
    (block,) = result(run)["content"]
    return block["text"]


def test_every_schema_is_portable(inspect: Inspect, era: str, way: str, tell: Tell) -> None:
    listed = inspect("tools/list", "--strict")
    tools = result(listed)["tools"]
    tell(
        f"inspector {era} {way}",
        {"tools": len(tools), "strict": "no problem" if not listed.err.strip() else listed.err.strip()},
    )
    assert {"search_code", "read"} <= {tool["name"] for tool in tools}
    assert listed.err.strip() == ""


def test_tools_answer_and_explain_what_is_wrong(inspect: Inspect) -> None:
    found = text(inspect("tools/call", "--tool-name", "search_code", *given(query="hash a password")))
    assert "till/auth.py" in found.splitlines()[1]
    assert "def login" in text(inspect("tools/call", "--tool-name", "read", *given(path="till/auth.py")))
    missing = inspect("tools/call", "--tool-name", "read", *given(path="till/missing.py"))
    assert "FILE_NOT_FOUND" in missing.out + missing.err


def test_resources_and_prompts_are_listed_and_given(inspect: Inspect) -> None:
    uris = [one["uri"] for one in result(inspect("resources/list"))["resources"]]
    assert "ctx://status" in uris
    (status,) = result(inspect("resources/read", "--uri", "ctx://status"))["contents"]
    assert status["text"]
    (file,) = result(inspect("resources/read", "--uri", "ctx://file/till/auth.py"))["contents"]
    assert "def hash_password" in file["text"]
    prompts = result(inspect("prompts/list"))["prompts"]
    for prompt in prompts:
        arguments = [f"{one['name']}=till/auth.py" for one in prompt.get("arguments", ()) if one.get("required")]
        options = ["--prompt-args", *arguments] if arguments else []
        got = result(inspect("prompts/get", "--prompt-name", prompt["name"], *options))
        assert got["messages"], prompt["name"]
    assert prompts


def given(**arguments: Any) -> tuple[str, str]:
    """Arguments of a tool, as they are."""
    return "--tool-args-json", json.dumps(arguments)
