"""Reviews of small changes, for tests of sessions: files in a dict, a reviewer that finds every `TODO`, gates to hold it up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from context_engine.errors import AccessFailed, Cancelled
from context_engine.model import Finding
from context_engine.review.finding import ReviewRequest
from context_engine.review.review_job import (
    ReviewMetrics,
    SessionOutcome,
    UnitReview,
    cut_into_units,
)
from context_engine.review.review_sessions import ReviewSessions
from context_engine.review.review_store import ReviewStore, ReviewUnit
from context_engine.review.reviewer import FileReview
from context_engine.review.verdict import FileCoverage
from context_engine.storage.locks import LivenessLock
from context_engine.storage.state_folder import STATE_FOLDER
from context_engine.team.synced_reviews import SyncedReviews
from context_engine.text import LineSpan
from tests.support.waiting import Clock

NOON = 1_795_262_400.0
WAIT_S = 20.0
"""For what takes milliseconds: a busy machine fails no test."""


@dataclass
class Gate:
    """Lets `free` units through; the next wait until it is opened."""

    free: int = 10**6
    begun: list[str] = field(default_factory=list)
    _moved: threading.Condition = field(default_factory=threading.Condition)

    def pass_through(self, name: str, cancel: threading.Event) -> None:
        with self._moved:
            self.begun.append(name)
            self._moved.notify_all()
            while self.free <= 0:
                self._moved.wait(0.01)
                if cancel.is_set():
                    raise Cancelled("stopped", suggestion="Call again.")
            self.free -= 1

    def open(self, free: int = 10**6) -> None:
        with self._moved:
            self.free = free
            self._moved.notify_all()

    def await_begun(self, count: int) -> None:
        with self._moved:
            assert self._moved.wait_for(lambda: len(self.begun) >= count, WAIT_S), self.begun


@dataclass
class SmallJob:
    """Finds each line that says TODO; a file that says BROKEN cannot be reviewed."""

    request: ReviewRequest
    texts: Mapping[str, str]
    gate: Gate
    store: ReviewStore

    def cut(self) -> tuple[ReviewUnit, ...]:
        return cut_into_units((path, 160) for path in self.texts)

    def _key(self, path: str) -> str:
        return f"{path}\0{self.texts[path]}"

    def count_cached(self) -> int:
        return len(self.store.read_cached(map(self._key, self.texts)))

    def review_files(self, paths: Sequence[str], cancel: threading.Event) -> tuple[UnitReview, dict[str, bytes]]:
        self.gate.pass_through(paths[0], cancel)
        known = self.store.read_cached(map(self._key, paths))
        reviews = {path: known.get(self._key(path)) or self._looked(path) for path in paths}
        files = [msgspec.json.decode(body, type=FileReview) for body in reviews.values()]
        fresh = len(paths) - len(known)
        metrics = ReviewMetrics({"rules": [1.0] * fresh}, len(known), fresh)
        return UnitReview(files, metrics), {self._key(path): body for path, body in reviews.items()}

    def _looked(self, path: str) -> bytes:
        if "BROKEN" in self.texts[path]:
            raise AccessFailed(f"{path} cannot be read", suggestion="Look at it.")
        lines = enumerate(self.texts[path].split("\n"), 1)
        places = [LineSpan(line, line) for line, text in lines if "TODO" in text]
        found = [
            Finding(
                "todo", "builtin", "Todo", "", 2, "style", 0.9, path, span, id=f"{path}:{span}", is_on_changed_line=True
            )
            for span in places
        ]
        return msgspec.json.encode(FileReview(tuple(found), FileCoverage(path)))

    def conclude(
        self, files: Sequence[FileReview], failed: Mapping[str, str], cancel: threading.Event
    ) -> tuple[SessionOutcome, bytes]:
        self.gate.pass_through("end", cancel)
        files = sorted(files, key=lambda file: file.coverage.path)
        found = [
            {"id": finding.id, "source": finding.source, "category": finding.category, "priority": finding.priority}
            for file in files
            for finding in file.findings
        ]
        told = {"findings": found, "files": [file.coverage.path for file in files], "failed": len(failed)}
        return SessionOutcome(told), b"for a second look"


class Process:
    """One process that has a workspace open, as far as its reviews go. Several of them may share a folder."""

    def __init__(
        self,
        folder: Path,
        name: str,
        files: Mapping[str, str],
        clock: Callable[[], float] | None = None,
        common: SyncedReviews | None = None,
    ) -> None:
        self.clock = clock or Clock(NOON)
        self.store = ReviewStore(folder / STATE_FOLDER, common)
        self.gate = Gate()
        self.files = files
        self.sessions = ReviewSessions(
            self.store, LivenessLock(folder / STATE_FOLDER, name), self._open_job, self.clock
        )

    def _open_job(self, request: ReviewRequest) -> Any:
        return SmallJob(request, self.files, self.gate, self.store)

    def start(self, *, workers: int = 1, again: bool = False, commit: str = "c0ffee") -> str:
        started = self.sessions.start(ReviewRequest(commit, "ba5e"), workers=workers, resume_if_same=not again)
        return started.session.id

    def ended(self, session: str) -> str:
        """Its status when nothing more comes by itself."""
        return self.sessions.wait(session, WAIT_S).status

    def tries(self, session: str) -> list[int]:
        """How often each unit was begun."""
        return [unit.tries for unit in self.sessions.status(session).units]


def change(count: int) -> dict[str, str]:
    """So many files, each with something to find."""
    return {f"src/part{number // 9}/f{number:03d}.py": f"x = {number}\n# TODO: {number}\n" for number in range(count)}
