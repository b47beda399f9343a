"""A model on loopback that plays a fixed script, so that a real agent can be driven without a key, an account or a network.

It answers every request by how many results the conversation already holds, so a retried or repeated request gets
the same answer. Requests without tools (titles, summaries) are answered and not recorded as turns.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.clients.dialects import CHAT, GEMINI, MESSAGES, RESPONSES, Dialect, Event, Say, Seek, Shown, Use

Step = Use | Seek | Say
PATHS: tuple[tuple[str, Dialect], ...] = (
    ("/v1/messages", MESSAGES),
    ("/v1/responses", RESPONSES),
    ("/v1/chat/completions", CHAT),
    ("GenerateContent", GEMINI),
    ("generateContent", GEMINI),
)
"""Which part of a path means which dialect."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One request that an agent made with its tools on the table, and when."""

    at_s: float
    shown: Shown
    body: dict[str, Any]


class ScriptedModel:
    """The server. `turns` are the requests so far, `elsewhere` the paths asked for that no dialect knows."""

    def __init__(self, script: Sequence[Step]) -> None:
        self.script = tuple(script)
        self.turns: list[Turn] = []
        self.elsewhere: list[str] = []
        self.started_s = time.monotonic()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler_for(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="scripted model", daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, dialect: Dialect, body: dict[str, Any]) -> Iterator[Event]:
        """What the script says to this request."""
        shown = dialect.shown(body)
        if not shown.tools:
            return dialect.say("Scripted.")
        self.turns.append(Turn(time.monotonic() - self.started_s, shown, body))
        return played(dialect, shown, self.script)


def played(dialect: Dialect, shown: Shown, script: Sequence[Step]) -> Iterator[Event]:
    """The step that follows what was done so far; a tool the client holds back is looked for first, once a step."""
    seeks = any(isinstance(step, Seek) for step in script)
    at = len(shown.results) + (len(shown.found) if seeks else 0)
    step = script[at] if at < len(script) else Say("Done.")
    call_id = f"call_{at}_{len(shown.found)}"
    if isinstance(step, Say):
        return dialect.say(step.text)
    if isinstance(step, Seek):
        assert dialect.find, "clients of this dialect hold nothing back"
        return dialect.find(step.words, call_id)
    name = full_name(step.tool, shown)
    if not name and dialect.find and len(shown.found) <= at:
        return dialect.find(dialect.by_name.format(tool=step.tool), call_id)
    return dialect.use(name or step.tool, step.arguments, call_id)


def full_name(tool: str, shown: Shown) -> str:
    """How the client calls our tool, or nothing when it does not show it."""
    names = [name for name in shown.tools if name == tool or name.endswith((f"_{tool}", f"/{tool}"))]
    return max((name for name in names if "ctx" in name), key=len, default="")


def handler_for(model: ScriptedModel) -> type[BaseHTTPRequestHandler]:
    """The request handler that asks this model."""

    class Handler(BaseHTTPRequestHandler):
        """Streams what the model answers; everything it does not know is an empty object."""

        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            model.elsewhere.append(f"{self.command} {self.path}")
            self._whole({"data": [], "models": []})

        do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            dialect = next((one for part, one in PATHS if part in self.path and "count" not in self.path), None)
            if dialect is None:
                model.elsewhere.append(f"{self.command} {self.path}")
                self._whole({"input_tokens": 1, "totalTokens": 1})
            else:
                self._streamed(model.answer(dialect, json.loads(body)))

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name it has in http.server
            """Nothing on the terminal."""

        def _whole(self, value: dict[str, Any]) -> None:
            data = json.dumps(value).encode()
            self._head("application/json", len(data))
            if self.command != "HEAD":
                self.wfile.write(data)

        def _streamed(self, events: Iterator[Event]) -> None:
            data = "".join(line for event in events for line in written(event)).encode()
            self._head("text/event-stream", len(data))
            self.wfile.write(data)

        def _head(self, kind: str, size: int) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(size))
            self.end_headers()

    return Handler


def written(event: Event) -> Iterator[str]:
    """The lines of one server-sent event; a named one repeats its name as `type`, as both vendors do."""
    name, carried = event
    if name:
        yield f"event: {name}\n"
    yield f"data: {json.dumps({'type': name, **carried} if name else carried)}\n\n"
