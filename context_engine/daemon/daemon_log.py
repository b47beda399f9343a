"""The log of the daemons: one JSON line for each event, in a file of bounded size that only its user can read."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from typing import Any

from context_engine.daemon.runtime_folder import RuntimeFolder
from context_engine.timestamps import Now, format_timestamp

LOG_FILE = "daemon.log"
FORMER_LOG_FILE = "daemon.log.1"
LOG_BYTES_MAX = 1_000_000
"""Then the file becomes the former one, which replaces the one before: two megabytes at most."""


class DaemonLog:
    """The log file of the runtime folder. Thread-safe; a line that cannot be written is dropped."""

    def __init__(self, folder: RuntimeFolder, *, now: Now, bytes_max: int = LOG_BYTES_MAX) -> None:
        self._folder = folder
        self._now = now
        self._bytes_max = bytes_max
        self._lock = threading.Lock()

    def write(self, line: Mapping[str, Any]) -> None:
        """Write one event with its time and this process."""
        stamped = {"at": format_timestamp(self._now()), "pid": os.getpid(), **line}
        data = json.dumps(stamped, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            try:
                self._append(data[: self._bytes_max])
            except OSError:
                return

    def _append(self, data: bytes) -> None:
        descriptor = self._folder.open_file(LOG_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            if os.fstat(descriptor).st_size + len(data) > self._bytes_max:
                place = self._folder.descriptor
                os.rename(LOG_FILE, FORMER_LOG_FILE, src_dir_fd=place, dst_dir_fd=place)
                os.close(descriptor)
                descriptor = self._folder.open_file(LOG_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(descriptor, data)
        finally:
            os.close(descriptor)
