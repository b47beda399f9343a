"""The tool `edit_file` of @modelcontextprotocol/server-filesystem, asked over stdio: one server for all edits of a folder."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from evals.edit.peers.protocol import PEERS, Pair, Refused, serve

SERVER = PEERS / "node_modules" / "@modelcontextprotocol" / "server-filesystem" / "dist" / "index.js"


class Server:
    """One running server, which may touch one folder."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            ["node", str(SERVER), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        self._ids = count(1)
        client = {"name": "side-by-side", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self._send({"method": "notifications/initialized"})

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a request. Raises: Refused when there is none."""
        number = next(self._ids)
        self._send({"id": number, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            reply = json.loads(line)
            if reply.get("id") == number and "method" not in reply:
                return result_of(reply)
        raise Refused("the server is gone")

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()


def result_of(reply: Mapping[str, Any]) -> dict[str, Any]:
    """What a reply brings. Raises: Refused for an error of the protocol, and for one of the tool."""
    if "error" in reply:
        raise Refused(reply["error"]["message"])
    if reply["result"].get("isError"):
        raise Refused(reply["result"]["content"][0]["text"])
    return reply["result"]


@cache
def server(folder: Path) -> Server:
    """The server of a folder, started when it is first needed."""
    return Server(folder)


def edit(path: Path, pairs: Sequence[Pair]) -> None:
    """All edits of a file in one call."""
    edits = [{"oldText": old, "newText": new} for old, new in pairs]
    server(path.parent).ask("tools/call", {"name": "edit_file", "arguments": {"path": str(path), "edits": edits}})


if __name__ == "__main__":
    serve(edit)
