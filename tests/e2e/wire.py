"""A server process, spoken to line by line: what a client would have to believe."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.support import preloaded

HERE = Path(__file__).resolve().parents[2]
MODERN = "2026-07-28"
DOCUMENTS = ("--profile", "all,seeds")
"""Every tool is listed, and replies are those of the documents: JSON where these have it."""
PATIENCE_S = 120.0
"""Costs nothing when all is well; a busy machine of two cores takes many seconds to import the protocol library."""


class Wire:
    """`ctx serve` and its pipes. Every line of its stdout is parsed, whatever wrote it."""

    def __init__(
        self,
        root: Path,
        env: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        popen: type[subprocess.Popen[Any]] = preloaded.Popen,
    ) -> None:
        known = os.environ | {"PYTHONPATH": str(HERE)} | dict(env or {})
        self.process = popen(
            [sys.executable, "-m", "context_engine", "serve", "--root", str(root), *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=known, text=True,
        )  # fmt: skip
        self.lines: list[str] = []
        self.log: list[str] = []
        self._arrived: queue.Queue[dict[str, Any]] = queue.Queue()
        self._last_id = 0
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._read_log, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe
            with contextlib.suppress(BrokenPipeError):  # what we never sent went to a process that is gone
                pipe.close()

    def send(self, message: Mapping[str, Any] | str) -> None:
        """One line to the server."""
        assert self.process.stdin
        self.process.stdin.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
        self.process.stdin.flush()

    def send_bytes(self, line: bytes) -> None:
        """One line of any bytes."""
        assert self.process.stdin
        self.process.stdin.flush()
        rest = line + b"\n"
        while rest:
            rest = rest[os.write(self.process.stdin.fileno(), rest) :]

    def next(self) -> dict[str, Any]:
        """The next message that nobody took yet."""
        return self._arrived.get(timeout=PATIENCE_S)

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A request, and the response that carries its id."""
        self._last_id += 1
        self.send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": dict(params or {})})
        while True:
            message = self._arrived.get(timeout=PATIENCE_S)
            if message.get("id") == self._last_id:
                return message

    def shake_hands(self, version: str = "2025-06-18") -> dict[str, Any]:
        """The opening of the older era."""
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
        answer = self.ask("initialize", params)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer["result"]

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """A tool call in the older era; its result."""
        return self.ask("tools/call", {"name": tool, "arguments": arguments})["result"]

    def text(self, tool: str, **arguments: Any) -> str:
        """The text of a successful call."""
        result = self.call(tool, **arguments)
        assert not result.get("isError"), result
        (block,) = result["content"]
        return block["text"]

    def ask_modern(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A request of the newer era: each carries who asks."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        return self.ask(method, {**(params or {}), "_meta": meta})

    def end(self) -> int:
        """Close the server's stdin and wait for it to leave."""
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(timeout=PATIENCE_S)

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line)
            self._arrived.put(json.loads(line))

    def _read_log(self) -> None:
        assert self.process.stderr
        self.log.extend(self.process.stderr)


def told(wire: Wire, tool: str, **arguments: Any) -> Any:
    return json.loads(wire.text(tool, **arguments))
