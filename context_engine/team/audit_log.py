"""The audit log of a shared server: a JSON line for each call.

    {"at":"2026-11-21T19:00:00.000Z","token":"ci","role":"read","event":"call","tool":"trace","project":"web","ok":true,"ms":1.2}

It contains neither arguments nor replies, and so no secret and no code. Each line is one write to a file that is opened
for it. So several servers may share the file, and it can be moved away at any time.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from context_engine.errors import HostError
from context_engine.timestamps import Now, format_timestamp

AUDIT_FIELDS = ("token", "role", "event", "method", "tool", "via", "project", "status", "from", "ok", "error", "ms")
"""The fields of an audit line, in this order; other fields of the log are left out."""
STDERR = "-"


def format_audit_line(line: Mapping[str, Any], at_s: float) -> str:
    """Format one line of the audit log.

    >>> format_audit_line({"event": "call", "tool": "trace", "ok": False, "text": "not logged"}, 0.0)
    '{"at":"1970-01-01T00:00:00.000Z","event":"call","tool":"trace","ok":false}'
    """
    fields = {"at": format_timestamp(at_s)} | {key: line[key] for key in AUDIT_FIELDS if key in line}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


class AuditLog:
    """An audit log in a file, or on stderr. Thread-safe. An error of writing is reported on stderr; calls continue."""

    def __init__(self, location: str, *, now: Now) -> None:
        """Check that the file can be written. Raises: HostError when it cannot."""
        self._file = None if location == STDERR else Path(location).expanduser().absolute()
        self._now = now
        if self._file is not None:
            try:
                self._append(self._file, b"")
            except OSError as error:
                raise HostError(
                    f"the audit log cannot be written to {self._file}: {error.strerror or error}",
                    suggestion="Name a file in an existing folder, or - for stderr, with --audit-log.",
                ) from error

    def write(self, line: Mapping[str, Any]) -> None:
        """Write one line."""
        text = format_audit_line(line, self._now()) + "\n"
        if self._file is None:
            sys.stderr.write(text)
            return
        try:
            self._append(self._file, text.encode("utf-8", "replace"))
        except OSError as error:
            sys.stderr.write(f"ctx: the audit log cannot be written ({error.strerror or error}): {text}")

    @staticmethod
    def _append(path: Path, data: bytes) -> None:
        """Append data in one write to a file that only its user can read."""
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            if data:
                os.write(descriptor, data)
        finally:
            os.close(descriptor)
