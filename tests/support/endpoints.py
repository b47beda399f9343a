"""A small embedding server on this machine that speaks OpenAI's and Ollama's wire formats, and can be told to misbehave.

Its vectors count the words of a text, so that they mean something; its refusals are worded like those of real servers.
"""

from __future__ import annotations

import json
import math
import socket
import sys
import threading
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

KEY = "sk-local-5f3e9a"
MODELS = {"words": 32, "words-small": 8}


@dataclass
class Reply:
    """One answer as it goes over the wire. `drip_s` waits between bytes; `hang` waits for the end of the test."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    hang: bool = False
    drip_s: float = 0.0


def told(body: Any, status: int = 200, **headers: str) -> Reply:
    """A reply with a JSON body; `retry_after` becomes its header."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, json.dumps(body).encode(), {"content-type": "application/json"} | names)


@dataclass
class Asked:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        return self.body["input"]


class EmbeddingServer(ThreadingHTTPServer):
    """Listens on a loopback port.

    `script` holds replies to give before it answers properly; `asked` what it was asked.
    """

    daemon_threads = True

    def __init__(self, answers: Callable[[Asked, str], Reply]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = answers
        self.asked: list[Asked] = []
        self.script: list[Reply | Callable[[Asked], Reply]] = []
        self.key = ""
        self.over = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves in the middle of an answer is no trouble; anything else is a failing test."""
        if not isinstance(sys.exception(), OSError):
            raise

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def here(self) -> EmbeddingServer:
        assert isinstance(self.server, EmbeddingServer)
        return self.server

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["content-length"]))
        if not sent:  # the client hung up before it had sent its request
            return
        body = json.loads(sent)
        asked = Asked(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        self.here.asked.append(asked)
        reply = self.here.script.pop(0) if self.here.script else self.here.answers(asked, self.here.key)
        self._send(reply if isinstance(reply, Reply) else reply(asked))

    def _send(self, reply: Reply) -> None:
        if reply.hang:
            self.here.over.wait()
            self.close_connection = True
            return
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(reply.body)))
        self.end_headers()
        for start in range(0, len(reply.body), 1 if reply.drip_s else 1 << 20):
            if self.here.over.wait(reply.drip_s):
                break
            try:
                self.wfile.write(reply.body[start : start + 1] if reply.drip_s else reply.body)
            except OSError:  # the client has left, as it may
                self.close_connection = True
                break

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as its parent has it
        """Keep quiet."""


def proper(asked: Asked, key: str) -> Reply:
    """What a server in good health answers, or refuses."""
    model, texts = asked.body["model"], asked.body["input"]
    if key and asked.headers.get("authorization") != f"Bearer {key}":
        return told({"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}, 401)
    if asked.path == "/api/embed":
        if model not in MODELS:
            return told({"error": f'model "{model}" not found, try pulling it first'}, 404)
        return told({"model": model, "embeddings": vectors(asked), "total_duration": 1})
    if asked.path != "/v1/embeddings":
        return Reply(404, b"<!DOCTYPE html><p>Not Found", {"content-type": "text/html"})
    if model not in MODELS:
        return told({"error": {"message": f"The model `{model}` does not exist", "code": "model_not_found"}}, 404)
    if any(not text for text in texts):
        return told({"error": {"message": "input cannot be an empty string"}}, 400)
    rows = [{"object": "embedding", "index": number, "embedding": row} for number, row in enumerate(vectors(asked))]
    return told({"object": "list", "data": rows[::-1], "model": model, "usage": {"prompt_tokens": 1}})


def vectors(asked: Asked) -> list[list[float]]:
    """The words of each text, counted into as many buckets as the model has dimensions; not of length 1."""
    size = asked.body.get("dimensions") or MODELS[asked.body["model"]]
    rows = []
    for text in asked.texts:
        row = [0.0] * size
        for word in text.split():
            row[zlib.crc32(word.encode()) % size] += 1 + math.log(len(word))
        rows.append(row)
    return rows


@contextmanager
def embedding_server(answers: Callable[[Asked, str], Reply] = proper) -> Generator[EmbeddingServer]:
    """A server that listens until the end of the block."""
    server = EmbeddingServer(answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def only_connecting_to(*ports: int) -> Generator[None]:
    """Within the block a connection to anything but these ports of this machine is an error, name look-ups too."""

    def guarded(connect: Callable[..., Any]) -> Callable[..., Any]:
        def checked(self: socket.socket, address: Any) -> Any:
            if address[0] != "127.0.0.1" or address[1] not in ports:
                pytest.fail(f"a connection to {address} that nobody asked for")
            return connect(self, address)

        return checked

    look_up = socket.getaddrinfo

    def looked_up(host: Any, *more: Any, **named: Any) -> Any:
        if host not in ("127.0.0.1", b"127.0.0.1"):
            pytest.fail(f"a look-up of {host} that nobody asked for")
        return look_up(host, *more, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded(socket.socket.connect))
        patch.setattr(socket.socket, "connect_ex", guarded(socket.socket.connect_ex))
        patch.setattr(socket, "getaddrinfo", looked_up)
        yield
