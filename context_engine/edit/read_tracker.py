"""What one session has read: path -> hash. Whoever edits what he has not seen as it is now is told, or refused."""

from __future__ import annotations

import threading
from collections import OrderedDict

PATHS_MAX = 10_000
"""A session that reads more files than that has forgotten the first of them, too."""


class ReadTracker:
    """The files a session knows, as it last saw them. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: OrderedDict[str, str] = OrderedDict()

    def saw(self, path: str, sha256: str) -> None:
        """The session was shown this file, with this hash (hex)."""
        with self._lock:
            self._seen[path] = sha256
            self._seen.move_to_end(path)
            if len(self._seen) > PATHS_MAX:
                self._seen.popitem(last=False)

    def hash_of(self, path: str) -> str:
        """The hash of the file as the session saw it last; empty when it never did."""
        with self._lock:
            return self._seen.get(path, "")

    def is_outdated(self, path: str, sha256: str) -> bool:
        """Whether the session saw the file, but not as it is now."""
        return self.hash_of(path) not in {"", sha256}

    def wrote(self, path: str, before: str, after: str) -> None:
        """The session changed a file itself, and knows it; unless it had seen another one before."""
        if not self.is_outdated(path, before):
            self.saw(path, after)
