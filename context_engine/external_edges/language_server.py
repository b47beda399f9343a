"""One running language server: requests out, answers in, over its input and output. Nothing that it says is trusted.

Messages are bounded, and so is what it may say between two answers. Each failure is a `LanguageServerError`,
after which the server is gone.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from context_engine.errors import InvalidArgument
from context_engine.external_edges.server_problems import PublishedProblems, read_published
from context_engine.external_edges.server_specs import FoundServer
from context_engine.repo import RunningProgram, minimal_environment, safe_path, uri_to_path
from context_engine.text import ParseError, read_json

MESSAGE_BYTES_MAX = 64_000_000
HEADER_BYTES_MAX = 10_000
CHATTER_BYTES_MAX = 256_000_000
"""The bytes that a server may write without an answer; progress of a large project is a few megabytes."""
READ_BYTES = 65_536
LOCATIONS_MAX = 100_000
WORK_MAX = 1_000
FIRST_WORK_S = 10.0
"""A server that shows its work, and shows none for so long, has none to do: one file, no project."""
QUIET_S = 1.0
"""A server that shows no work, and is silent for so long, has read the project."""
CHECKED_S = 0.3
"""A server publishes the errors of a file in parts; without another part for so long it has checked the file."""
START_S = 20.0
"""The first message is answered before any file is read, but a cold disk has to load the program."""


class LanguageServerError(Exception):
    """The server did not answer: too slow, damaged, ended."""


class LanguageServerTimeoutError(LanguageServerError):
    """The server has not answered yet; it goes on and may have the answer later."""


class ServerOptions(NamedTuple):
    """The limits of a server: its memory, and the time without a question after which it is ended."""

    memory_bytes_max: int
    idle_s: float


class _SentText(NamedTuple):
    """The version of a file that a server has, and when it was sent."""

    version: int
    at: float


class _ServerReport(NamedTuple):
    """The errors that a server published for a file, and when."""

    problems: PublishedProblems
    at: float


class ServerLocation(NamedTuple):
    """A range on one line of a file, in the columns of the server."""

    uri: str
    line: int
    start: int
    stop: int


class LanguageServer:
    """A server of one language. Thread-safe for one asker at a time."""

    def __init__(self, found: FoundServer, root: Path, options: ServerOptions) -> None:
        """Start it and exchange the first messages. Raises: LanguageServerError."""
        self.name = found.spec.name
        self.joins_overrides = found.spec.joins_overrides
        self._found = found
        self._root = root
        self._answers: dict[int, Any] = {}
        self._changed = threading.Condition()
        self._number = 0
        self._chatter = 0
        self._problem = ""
        self._open: dict[str, tuple[int, bytes]] = {}
        self._sent: dict[str, _SentText] = {}
        self._published: dict[str, _ServerReport] = {}
        self._work: set[str] = set()
        self._heard = time.monotonic()
        self._is_ready = False
        self._started = time.monotonic()
        self._has_said = not found.spec.ready_words and not found.spec.shows_work
        self._idle_s = options.idle_s
        self._used = time.monotonic()
        path = safe_path(os.environ.get("PATH", os.defpath), outside=root)
        environment = minimal_environment({**os.environ, "PATH": path}, found.spec.environment)
        try:
            self._program = RunningProgram(
                [found.program, *found.spec.words],
                root,
                environment=environment,
                memory_bytes_max=options.memory_bytes_max,
                is_idle=lambda: time.monotonic() - self._used > self._idle_s,
            )
        except (OSError, ValueError) as error:
            raise LanguageServerError(f"cannot be started: {error}") from error
        threading.Thread(target=self._listen, name="ctx-language-server", daemon=True).start()
        try:
            answer = self.ask("initialize", self._first_message(), START_S)
        except LanguageServerError:
            self.stop()
            raise
        capabilities = answer.get("capabilities") if isinstance(answer, dict) else None
        self.is_utf8 = isinstance(capabilities, dict) and capabilities.get("positionEncoding") == "utf-8"
        self._tell("initialized", {})

    @property
    def is_running(self) -> bool:
        """Whether it can still be asked."""
        return not self._problem and not self._program.problem

    @property
    def memory_bytes_peak(self) -> int:
        """The most memory that it was seen to take."""
        return self._program.memory_bytes_peak

    def show(self, path: str, language: str, data: bytes) -> str:
        """Send it the present text of a file and return the name of the file for it."""
        uri = (self._root / path).as_uri()
        version, before = self._open.get(path, (0, b""))
        text = data.decode("utf-8", "replace")
        if not version or before != data:
            with self._changed:
                self._sent[_path_of(uri)] = _SentText(version + 1, time.monotonic())
        if not version:
            item = {"uri": uri, "languageId": self._found.spec.languages[language], "version": 1, "text": text}
            self._tell("textDocument/didOpen", {"textDocument": item})
        elif before != data:
            item = {"uri": uri, "version": version + 1}
            self._tell("textDocument/didChange", {"textDocument": item, "contentChanges": [{"text": text}]})
        self._open[path] = (version + (before != data or not version), data)
        return uri

    def note_changes(self, paths: Mapping[str, int]) -> None:
        """Say which files were created (1), changed (2) or deleted (3) on the disk."""
        changes = [{"uri": (self._root / path).as_uri(), "type": kind} for path, kind in paths.items()]
        if changes:
            self._tell("workspace/didChangeWatchedFiles", {"changes": changes})

    def wait_until_ready(self, limit_s: float) -> None:
        """Wait until it has read the project, the first time: before that its answers have holes.

        Raises: LanguageServerError.
        """
        until = time.monotonic() + limit_s
        with self._changed:
            while not self._is_ready:
                now = time.monotonic()
                quiet_s = now - self._heard
                is_idle = self._found.spec.shows_work and now - self._started >= FIRST_WORK_S
                if (self._has_said or is_idle) and not self._work and quiet_s >= QUIET_S:
                    self._is_ready = True
                elif not self.is_running:
                    raise LanguageServerError(self._problem or self._program.problem)
                elif now >= until:
                    raise LanguageServerTimeoutError("is still reading the project")
                else:
                    self._changed.wait(min(0.2, until - now))

    def find(self, method: str, uri: str, position: tuple[int, int], limit_s: float) -> list[ServerLocation]:
        """Return the locations that a request about a position has. Raises: LanguageServerError."""
        line, column = position
        message: dict[str, Any] = {
            "textDocument": {"uri": uri},
            "position": {"line": line, "character": column},
        }
        if method == "textDocument/references":
            message["context"] = {"includeDeclaration": False}
        found = self.ask(method, message, limit_s)
        rows = found if isinstance(found, list) else [found]
        return [place for row in rows[:LOCATIONS_MAX] if (place := _read_location(row)) is not None]

    def check(self, files: Mapping[str, tuple[str, bytes]], limit_s: float) -> dict[str, tuple[tuple[int, str], ...]]:
        """Show it the language and the text of some files and return the errors of all files that it has open, by name.

        Raises: LanguageServerError.
        """
        self._used = time.monotonic()
        shown = [_path_of(self.show(path, language, data)) for path, (language, data) in files.items()]
        until = time.monotonic() + limit_s
        with self._changed:
            while not all(map(self._is_checked, shown)):
                left = until - time.monotonic()
                if not self.is_running:
                    raise LanguageServerError(self._problem or self._program.problem)
                if left <= 0:
                    raise LanguageServerTimeoutError("has not checked the change yet")
                self._changed.wait(min(left, 0.1))
            self._chatter = 0
            return {heard.problems.uri: heard.problems.rows for heard in self._published.values()}

    def _is_checked(self, path: str) -> bool:
        """Whether it has published the errors of a file as it was sent last."""
        sent, heard = self._sent[path], self._published.get(path)
        if heard is None or heard.at < sent.at or time.monotonic() - heard.at < CHECKED_S:
            return False
        return heard.problems.version is None or heard.problems.version >= sent.version

    def ask(self, method: str, parameters: Any, limit_s: float) -> Any:
        """Return the answer to a request; None for an error of the server. Raises: LanguageServerError."""
        self._used = time.monotonic()
        self._number += 1
        number = self._number
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters})
        until = time.monotonic() + limit_s
        with self._changed:
            while number not in self._answers:
                left = until - time.monotonic()
                if not self.is_running:
                    raise LanguageServerError(self._problem or self._program.problem)
                if left <= 0:
                    raise LanguageServerTimeoutError("has not answered yet")
                self._changed.wait(min(left, 0.5))
            self._chatter = 0
            answer = self._answers.pop(number)
            self._answers.clear()  # those that came too late
        self._used = time.monotonic()
        return answer

    def stop(self, problem: str = "was stopped") -> None:
        """End it with all that it started."""
        with self._changed:
            self._problem = self._problem or problem
            self._changed.notify_all()
        self._program.stop(problem)

    def _first_message(self) -> dict[str, Any]:
        uri = self._root.as_uri()
        return {
            "processId": os.getpid(),
            "rootUri": uri,
            "rootPath": str(self._root),
            "workspaceFolders": [{"uri": uri, "name": self._root.name}],
            "initializationOptions": dict(self._found.options),
            "capabilities": {
                "general": {"positionEncodings": ["utf-8", "utf-16"]},
                "workspace": {"configuration": True, "workspaceFolders": True},
                "window": {"workDoneProgress": True},
                "textDocument": {
                    "references": {},
                    "definition": {},
                    "implementation": {},
                    "publishDiagnostics": {"versionSupport": True},
                },
            },
        }

    # -- the protocol --

    def _send(self, message: Mapping[str, Any]) -> None:
        body = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
        self._program.send(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))

    def _tell(self, method: str, parameters: Any) -> None:
        self._send({"jsonrpc": "2.0", "method": method, "params": parameters})

    def _listen(self) -> None:
        """Read messages until the server ends or writes something else."""
        pending = bytearray()
        try:
            while True:
                body = self._read_message(pending)
                self._take(read_json(body, bytes_max=MESSAGE_BYTES_MAX))
        except (LanguageServerError, ParseError) as error:
            problem = str(error) if isinstance(error, LanguageServerError) else "did not write JSON"
            self.stop(problem)
        finally:
            self._program.close_output()

    def _read_message(self, pending: bytearray) -> bytes:
        while (end := pending.find(b"\r\n\r\n")) < 0:
            if len(pending) > HEADER_BYTES_MAX:
                raise LanguageServerError("did not write a message")
            self._read_more(pending)
        size = _content_length(bytes(pending[:end]))
        del pending[: end + 4]
        while len(pending) < size:
            self._read_more(pending)
        body = bytes(pending[:size])
        del pending[:size]
        return body

    def _read_more(self, pending: bytearray) -> None:
        data = self._program.read(READ_BYTES)
        if not data:
            raise LanguageServerError(self._program.problem or "has ended by itself")
        self._chatter += len(data)
        if self._chatter > CHATTER_BYTES_MAX:
            raise LanguageServerError(f"wrote more than {CHATTER_BYTES_MAX // 1_000_000} MB without an answer")
        pending += data

    def _take(self, message: Any) -> None:
        """Keep an answer, and answer what the server asks: nothing is registered, applied or shown."""
        if not isinstance(message, dict):
            raise LanguageServerError("did not write a message")
        number, method = message.get("id"), message.get("method")
        self._note_work(method, message.get("params"))
        if method == "textDocument/publishDiagnostics":
            self._note_problems(message.get("params"))
        if method is None and isinstance(number, int):
            with self._changed:
                self._answers[number] = message.get("result")
                self._changed.notify_all()
        elif number is not None and isinstance(method, str):
            self._send({"jsonrpc": "2.0", "id": number, "result": self._answer_to(method, message.get("params"))})

    def _note_work(self, method: Any, parameters: Any) -> None:
        """Keep in mind what the server says of its work."""
        with self._changed:
            self._heard = time.monotonic()
            words = self._found.spec.ready_words
            if method == "window/logMessage" and words and isinstance(parameters, dict):
                self._has_said = self._has_said or words in str(parameters.get("message"))
            if method == "$/progress" and isinstance(parameters, dict):
                value, token = parameters.get("value"), str(parameters.get("token"))
                kind = value.get("kind") if isinstance(value, dict) else None
                if kind == "begin" and len(self._work) < WORK_MAX:
                    self._work.add(token)
                elif kind == "end":
                    self._has_said = self._has_said or self._found.spec.shows_work
                    self._work.discard(token)
            self._changed.notify_all()

    def _note_problems(self, parameters: Any) -> None:
        """Keep what it published for a file that it was sent."""
        published = read_published(parameters)
        with self._changed:
            path = _path_of(published.uri) if published is not None else ""
            if published is not None and path in self._sent:
                self._published[path] = _ServerReport(published, time.monotonic())
                self._changed.notify_all()

    def _answer_to(self, method: str, parameters: Any) -> Any:
        if method == "workspace/configuration" and isinstance(parameters, dict):
            items = parameters.get("items")
            sections = [item.get("section") if isinstance(item, dict) else None for item in items or ()]
            return [
                self._found.spec.settings.get(section) if isinstance(section, str) else None for section in sections
            ]
        if method == "workspace/applyEdit":
            return {"applied": False}
        return None


def _path_of(uri: str) -> str:
    """Return the file that a name means: each server writes some signs in its own way; empty for no file."""
    try:
        return uri_to_path(uri)
    except (InvalidArgument, ValueError):
        return ""


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit() and len(value) < 20:
            size = int(value)
            if size <= MESSAGE_BYTES_MAX:
                return size
            raise LanguageServerError(f"wrote a message of more than {MESSAGE_BYTES_MAX // 1_000_000} MB")
    raise LanguageServerError("did not write a message")


def _read_location(row: Any) -> ServerLocation | None:
    """Return a Location or LocationLink; None for anything else, and for a range over several lines."""
    if not isinstance(row, dict):
        return None
    uri = row.get("uri", row.get("targetUri"))
    span = row.get("targetSelectionRange", row.get("range"))
    try:
        first, last = span["start"], span["end"]
        numbers = (first["line"], first["character"], last["line"], last["character"])
    except (TypeError, KeyError):
        return None
    if not isinstance(uri, str) or not all(isinstance(number, int) and number >= 0 for number in numbers):
        return None
    if numbers[0] != numbers[2]:
        return None
    return ServerLocation(uri, numbers[0], numbers[1], numbers[3])
