"""`codex app-server`: what an editor does with Codex, and a real tool call of ours through it without any model."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from tests.clients.agents import AGENTS
from tests.clients.conftest import Tell
from tests.clients.programs import Place, client, ctx
from tests.clients.stdio import WHO, listing, named, send

NOWHERE = "http://127.0.0.1:9"


class AppServer:
    """A running app server, asked request by request."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._last_id = 0

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """A request and its result; notifications in between are passed over."""
        self._last_id += 1
        send(self._process, {"id": self._last_id, "method": method, "params": params})
        assert self._process.stdout
        for line in self._process.stdout:
            message = json.loads(line)
            if message.get("id") == self._last_id and "method" not in message:
                assert "result" in message, message
                return message["result"]
        raise AssertionError(f"codex left without an answer to {method}")


@contextmanager
def app_server(place: Place) -> Generator[AppServer]:
    """Codex as an editor starts it, with ctx set up."""
    command = client("codex")
    here = AGENTS["codex"].prepared(place, NOWHERE)
    AGENTS["codex"].introduced(here)
    process = here.start(*command, "app-server", stdin=subprocess.PIPE)
    try:
        server = AppServer(process)
        server.ask("initialize", {"clientInfo": WHO})
        send(process, {"method": "initialized"})
        yield server
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.mark.slow
def test_codex_knows_our_tools_and_calls_one(place: Place, tell: Tell) -> None:
    with app_server(place) as codex:
        thread = codex.ask("thread/start", {"cwd": str(place.folder)})["thread"]["id"]
        started = time.monotonic()
        status = next(
            one for one in codex.ask("mcpServerStatus/list", {"threadId": thread})["data"] if one["name"] == "ctx"
        )
        listed_s = time.monotonic() - started
        call = {"threadId": thread, "server": "ctx", "tool": "read", "arguments": {"items": ["till/auth.py"]}}
        started = time.monotonic()
        result = codex.ask("mcpServer/tool/call", call)
        called_s = time.monotonic() - started
    _, tools = listing(place, str(ctx()), "serve", "--root", str(place.folder))
    tell(
        "codex app-server",
        {"tools": len(status["tools"]), "listed_s": round(listed_s, 2), "called_s": round(called_s, 2)},
    )
    assert sorted(status["tools"]) == sorted(named(tools))
    (block,) = result["content"]
    expected = place.run(str(ctx()), "call", "read", '{"items": ["till/auth.py"]}').out.removesuffix("\n")
    assert block["text"] == expected
    assert "def hash_password" in expected
    assert not result.get("isError")
