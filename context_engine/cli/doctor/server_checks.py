"""Check the server: start it as a client does, send three requests, and end it by closing its input."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from context_engine.cli.doctor.local_checks import CheckResult, DoctorContext, ok, problem, warning

PATIENCE_S = 30.0
"""The first call loads everything: 0.5 s, or 20 times that on a very busy machine."""
END_S_MAX = 5.0
"""The server guarantees two seconds."""
LAST_WORDS_S = 1.0
SLOW_START_S = 1.0
"""One client sends its first request to the model after one second, with the tools it has by then."""
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "ctx doctor", "version": "0"},
}
ABOUT = "Run ctx serve --root . </dev/null to see its output."


def round_trip(case: DoctorContext) -> Iterator[CheckResult]:
    """Start it, initialize, list the tools, call one and end, in a temporary folder: no file of yours is indexed."""
    with tempfile.TemporaryDirectory(prefix="ctx-doctor-") as folder:
        project = Path(folder, "project")
        project.mkdir()
        (project / "notes.txt").write_text("a file to find\n", encoding="utf-8")
        words = [*case.launch.command_line, "serve", "--root", str(project)]
        env = {**case.env, "CTX_CACHE_FOLDER": str(Path(folder, "cache")), "CTX_WORKERS": "0", "CTX_DAEMON": "0"}
        try:
            with ServerProcess(words, env) as child:
                yield from _conversation(child)
        except OSError as error:
            yield problem("server", f"{words[0]} does not start: {error.strerror}", "Reinstall ctx.")


def _conversation(child: ServerProcess) -> Iterator[CheckResult]:
    durations: list[tuple[str, float]] = []
    for name, method, params in (
        ("initialize", "initialize", HELLO),
        ("tools/list", "tools/list", {}),
        ("a call", "tools/call", {"name": "list_directory", "arguments": {}}),
    ):
        started = time.monotonic()
        answer = child.request(method, params)
        if answer is None or "result" not in answer or answer["result"].get("isError"):
            yield problem("server", f"{_why_not(name, answer)}{child.last_words}", ABOUT)
            return
        durations.append((name, time.monotonic() - started))
        if method == "initialize":
            child.notify("notifications/initialized")
    started = time.monotonic()
    code = child.end()
    durations.append(("its end", time.monotonic() - started))
    times = ", ".join(f"{name} {seconds * 1_000:,.0f} ms" for name, seconds in durations)
    if durations[0][1] < SLOW_START_S:
        yield ok("server", times)
    else:
        yield warning("server", times, "It starts slowly: check for a busy disk or a virus scanner.")
    if code != 0:
        if code is None:
            left = "does not end when its client leaves"
        else:
            left = f"ends with exit code {code}"
        yield problem("server's end", f"{left}{child.last_words}", ABOUT)
    if child.noise:
        step = "Only the protocol may be written there: find out which package prints it."
        yield problem("server's output", f"stdout has a line that is not JSON: {child.noise[0][:200]!r}", step)


def _why_not(name: str, answer: dict[str, Any] | None) -> str:
    if answer is None:
        return f"no answer to {name}"
    error = answer.get("error", {}).get("message") or str(answer["result"].get("content"))
    return f"{name} failed: {error}"


class ServerProcess:
    """A server process and its pipes. `noise` has the lines of its stdout that are not JSON."""

    def __init__(self, words: list[str], env: dict[str, str]) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - the words of our own entry
            words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=os.sep
        )
        self.noise: list[str] = []
        self._said: list[str] = []
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._last_id = 0
        self._threads = [threading.Thread(target=read, daemon=True) for read in (self._read_answers, self._read_errors)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join(1.0)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe
            try:
                pipe.close()
            except OSError:  # unsent data has no reader any more
                continue

    @property
    def last_words(self) -> str:
        """The last line of its stderr, for the report; a server that has just ended may not have been read yet."""
        self._threads[1].join(LAST_WORDS_S)
        lines = [line for line in self._said if not line.startswith("{")]  # the log of calls is JSON
        if lines:
            return f"; its last message: {lines[-1][:300]}"
        return ""

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """Return the response to a request; None if there is none."""
        self._last_id += 1
        if not self._send({"id": self._last_id, "method": method, "params": params}):
            return None
        until = time.monotonic() + PATIENCE_S
        while (left := until - time.monotonic()) > 0:
            try:
                answer = self._answers.get(timeout=left)
            except queue.Empty:
                return None
            if answer is None or answer.get("id") == self._last_id:
                return answer
        return None

    def notify(self, method: str) -> None:
        """Send a notification."""
        self._send({"method": method})

    def end(self) -> int | None:
        """Close its input; return its exit code, or None if it continues to run."""
        assert self._process.stdin
        self._process.stdin.close()
        try:
            return self._process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            return None

    def _send(self, message: dict[str, Any]) -> bool:
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:  # it has ended; its exit code and last message show why
            self._threads[1].join(1.0)
            return False
        return True

    def _read_answers(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            try:
                answer = json.loads(line)
            except ValueError:
                self.noise.append(line.decode("utf-8", "replace").strip())
            else:
                self._answers.put(answer)
        self._answers.put(None)

    def _read_errors(self) -> None:
        assert self._process.stderr
        for line in self._process.stderr:
            self._said.append(line.decode("utf-8", "replace").strip())
