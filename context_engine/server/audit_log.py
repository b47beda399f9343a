"""The audit log of a shared server: a JSON line for each call, of who called what on which project, and how it went.

    {"at":"2026-11-21T19:00:00.000Z","token":"ci","role":"read","event":"call","tool":"trace","project":"web","ok":true,"ms":1.2}

Neither arguments nor replies are in it, so it holds no secret and no code. A line is one write to a file that is opened
for it: servers side by side may share the file, and it can be moved away at any time.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from context_engine.errors import HostError
from context_engine.storage.timestamps import Now, format_timestamp

LINE_FIELDS = ("token", "role", "event", "method", "tool", "via", "project", "status", "from", "ok", "error", "ms")
"""The fields of a line, in this order; other fields of the log are left out."""
STDERR = "-"

Log = Callable[[dict[str, Any]], None]


def format_audit_line(line: Mapping[str, Any], at_s: float) -> str:
    """One line of the audit log.

    >>> format_audit_line({"event": "call", "tool": "trace", "ok": False, "error": "NOT_INDEXED", "text": "secret"}, 0.0)
    '{"at":"1970-01-01T00:00:00.000Z","event":"call","tool":"trace","ok":false,"error":"NOT_INDEXED"}'
    """
    told = {"at": format_timestamp(at_s)} | {key: line[key] for key in LINE_FIELDS if key in line}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


class AuditLog:
    """An audit log in a file, or on stderr.

    Thread-safe. Errors of writing are reported on stderr; the calls continue.
    """

    def __init__(self, place: str, *, now: Now) -> None:
        """Raises: HostError when the file cannot be written."""
        self._file = None if place == STDERR else Path(place).expanduser().absolute()
        self._now = now
        if self._file is not None:
            try:
                self._append(self._file, b"")
            except OSError as error:
                raise HostError(
                    f"the audit log cannot be written to {self._file}: {error.strerror or error}",
                    suggestion="Name a file in a folder that is there, or - for stderr, with --audit-log.",
                ) from error

    def write(self, line: Mapping[str, Any]) -> None:
        """Keep a line."""
        told = format_audit_line(line, self._now()) + "\n"
        if self._file is None:
            sys.stderr.write(told)
            return
        try:
            self._append(self._file, told.encode("utf-8", "replace"))
        except OSError as error:
            sys.stderr.write(f"ctx: the audit log cannot be written ({error.strerror or error}): {told}")

    @staticmethod
    def _append(path: Path, data: bytes) -> None:
        """All of it in one write at the end of the file, which only its user can read."""
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            if data:
                os.write(descriptor, data)
        finally:
            os.close(descriptor)
