"""Spans: what a collector of OpenTelemetry is sent, over real HTTP, and that nothing is sent unless somebody asks for it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.sharing import HERE, PATIENCE_S, place, worker

pytest.importorskip(
    "opentelemetry.exporter.otlp.proto.http", reason="the extra otel is not installed: no spans are sent"
)


@pytest.fixture
def collector() -> Generator[tuple[str, list[tuple[str, bytes]]]]:
    """Its address, and what came in: paths and bodies."""
    came: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the library calls it
            """In silence."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", came
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_each_call_is_a_span_that_says_what_ran_for_whom_and_not_with_what(
    tmp_path: Path, collector: tuple[str, list[tuple[str, bytes]]]
) -> None:
    address, came = collector
    with worker(place(tmp_path), "--otel", OTEL_EXPORTER_OTLP_ENDPOINT=address) as process:
        process.call("reader", "list_directory", path="a-word-of-the-arguments")
        process.ask("reader", "resources/read", {"uri": "ctx://file/till/auht.py"})
        process.ask("reader", "prompts/get", {"name": "find", "arguments": {"what": "a-word-of-the-arguments"}})
        process.process.terminate()
        assert process.process.wait(PATIENCE_S) == 0
    until = time.monotonic() + PATIENCE_S
    while b"prompts/get" not in b"".join(body for _, body in came) and time.monotonic() < until:
        time.sleep(0.05)
    assert {path for path, _ in came} == {"/v1/traces"}
    body = b"".join(body for _, body in came)
    for told in (b"tools/call list_directory", b"ctx.token", b"reader", b"ctx.project", b"till", b"FILE_NOT_FOUND"):
        assert told in body
    assert b"a-word-of-the-arguments" not in body
    assert b"FILE_NOT_FOUND" in body
    for text in (b"auht.py", b"Did you mean", b"till/auth.py"):
        assert text not in body, "the words of an error name files"


def test_without_the_option_nothing_that_sends_is_even_imported() -> None:
    look = "import sys, context_engine.server.http_server; print([name for name in sys.modules if 'opentelemetry.sdk' in name or 'exporter' in name])"
    env = os.environ | {"PYTHONPATH": str(HERE)}
    assert subprocess.check_output([sys.executable, "-c", look], env=env, text=True) == "[]\n"


def test_without_the_extra_the_option_says_what_to_install(tmp_path: Path) -> None:
    look = (
        "import sys; sys.modules['opentelemetry.sdk.trace'] = None\n"
        "from context_engine.server.serve import main; raise SystemExit(main(['--http', '0', '--otel'], {}))"
    )
    env = os.environ | {"PYTHONPATH": str(HERE), "HOME": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", look], env=env, cwd=tmp_path, text=True, capture_output=True, check=False
    )
    assert ended.returncode == 1
    assert "smart-context-engine[otel]" in ended.stderr
    assert ended.stderr.count("\n") == 1
