r"""The lines that replies, hooks and its own reads have shown to one client, so that nothing need repeat them.

A line counts as shown while its file has the same text at the same number. A client that repeats a question has lost
the answer, and gets all of it again.

>>> shown = ShownLines()
>>> shown.add("a.py", 7, "def drain(pool):\n    pool.close()")
>>> shown.includes("a.py", 8, "    pool.close()"), shown.includes("a.py", 8, "    pool.drain()")
(True, False)
"""

from __future__ import annotations

import threading
from collections import OrderedDict

LINES_KEPT = 10_000
"""Lines of one client, some 100,000 tokens: older ones may have left its context window."""
QUESTIONS_KEPT = 200
SESSIONS_KEPT = 32
"""Clients of a server or daemon, the latest ones."""


class ShownLines:
    """The lines that one client was shown, and the questions that it asked. Thread-safe."""

    def __init__(self) -> None:
        self._lines: OrderedDict[tuple[str, int], int] = OrderedDict()  # (path, line) -> hash of its text
        self._questions: OrderedDict[int, None] = OrderedDict()
        self._lock = threading.Lock()
        self.prompt = ""
        """The last one that a hook got."""

    def clear(self) -> None:
        """Forget everything: the context window of the client was emptied."""
        with self._lock:
            self._lines.clear()
            self._questions.clear()

    def add(self, path: str, first: int, text: str) -> None:
        """Record that a reply shows `text`, whose first line is line `first` of the file."""
        with self._lock:
            for number, line in enumerate(text.split("\n"), first):
                if line.strip():
                    self._lines[path, number] = hash(line)
                    self._lines.move_to_end((path, number))
            while len(self._lines) > LINES_KEPT:
                self._lines.popitem(last=False)

    def includes(self, path: str, first: int, text: str) -> bool:
        """Return whether every line of a text that is not blank was shown; False if there is none."""
        with self._lock:
            known = [
                self._lines.get((path, number)) == hash(line)
                for number, line in enumerate(text.split("\n"), first)
                if line.strip()
            ]
        return bool(known) and all(known)

    def note_question(self, *words: object) -> bool:
        """Record a question with its arguments; return whether the client asked the same before."""
        key = hash(words)
        with self._lock:
            is_known = key in self._questions
            self._questions[key] = None
            if len(self._questions) > QUESTIONS_KEPT:
                self._questions.popitem(last=False)
        return is_known


class ShownLinesBySession:
    """The shown lines of each session and project. Thread-safe.

    Hooks name the session of a client, its tools have a connection alone; the process that started both joins them.
    """

    def __init__(self) -> None:
        self._sessions: OrderedDict[tuple[str | int, str], ShownLines] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, session: str, project: str, *, client: int = 0) -> ShownLines:
        """Return the lines that a session was shown of a project; an empty object for a session without any name.

        The process `client` is in this session from now on; it is the name of one without another.
        """
        names = list(filter(None, (session, client)))
        if not names:
            return ShownLines()
        with self._lock:
            shown = self._sessions.setdefault((names[0], project), ShownLines())
            for name in names:
                self._sessions[name, project] = shown
                self._sessions.move_to_end((name, project))
            while len(self._sessions) > SESSIONS_KEPT:
                self._sessions.popitem(last=False)
            return shown

    def get_of_client(self, client: int, connection: str, project: str) -> ShownLines:
        """Return the lines of the session that a process is in, else those of its connection."""
        shown = self._sessions.get((client, project)) if connection else None
        return shown or self.get(connection, project)
