"""Reviews of small changes, for tests of sessions: files in a dict, a reviewer that finds every `TODO`, gates to hold it up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from context_engine.errors import AccessFailed, Cancelled
from context_engine.review.review_job import SessionOutcome
from context_engine.review.review_options import ReviewRequest
from context_engine.review.review_sessions import ReviewSessions, SessionTiming
from context_engine.review.review_store import ReviewStore, ReviewUnit, UnitCheckpoint
from context_engine.review.review_units import FileTie, UnitFile
from context_engine.storage.locks import LivenessLock
from context_engine.storage.state_folder import STATE_FOLDER
from context_engine.team.synced_reviews import SyncedReviews

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

    @property
    def files(self) -> list[UnitFile]:
        return [UnitFile(path, 160) for path in self.texts]

    def find_ties(self) -> Iterable[FileTie]:
        return ()

    def count_cached(self) -> int:
        return len(self.store.read_cached(f"{path}\0{text}" for path, text in self.texts.items()))

    def review_files(self, paths: Sequence[str], cancel: threading.Event) -> UnitCheckpoint:
        self.gate.pass_through(paths[0], cancel)
        keys = {path: f"{path}\0{self.texts[path]}" for path in paths}
        known = self.store.read_cached(keys.values())
        bodies = {path: known.get(key) or self._looked(path) for path, key in keys.items()}
        findings = [msgspec.json.encode(each) for path in paths for each in msgspec.json.decode(bodies[path])]
        fresh = {key: bodies[path] for path, key in keys.items() if key not in known}
        figures = msgspec.json.encode(
            {"stages": {"rules": [1.0] * len(fresh)}, "hits": len(known), "misses": len(fresh)}
        )
        return UnitCheckpoint(bodies, findings, fresh, known, figures)

    def _looked(self, path: str) -> bytes:
        if "BROKEN" in self.texts[path]:
            raise AccessFailed(f"{path} cannot be read", suggestion="Look at it.")
        lines = enumerate(self.texts[path].split("\n"), 1)
        found = [
            {"id": f"{path}:{line}", "source": "builtin", "category": "style", "priority": 2}
            for line, text in lines
            if "TODO" in text
        ]
        return msgspec.json.encode(found)

    def conclude(
        self, bodies: Mapping[str, bytes], failed: Sequence[ReviewUnit], cancel: threading.Event
    ) -> SessionOutcome:
        self.gate.pass_through("end", cancel)
        findings = [each for path in sorted(bodies) for each in msgspec.json.decode(bodies[path])]
        told = {"findings": findings, "files": sorted(bodies), "failed": len(failed)}
        return SessionOutcome(msgspec.json.encode(told), b"for a second look")


@dataclass
class Clock:
    """Seconds since 1970; goes on only when told."""

    at: float = NOON

    def __call__(self) -> float:
        return self.at


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
        self.clock = clock or Clock()
        self.store = ReviewStore(folder / STATE_FOLDER, common)
        self.gate = Gate()
        self.files = files
        pace = SessionTiming(self.clock, poll_s=0.01)
        self.sessions = ReviewSessions(self.store, LivenessLock(folder / STATE_FOLDER, name), self._open_job, pace)

    def _open_job(self, request: ReviewRequest) -> Any:
        return SmallJob(request, self.files, self.gate, self.store)

    def start(self, *, workers: int = 1, again: bool = False, commit: str = "c0ffee") -> str:
        started = self.sessions.start(ReviewRequest(commit, "ba5e"), workers=workers, resume_if_same=not again)
        return started.view.session.id

    def ended(self, session: str) -> str:
        """Its status when nothing more comes by itself."""
        return self.sessions.wait(session, WAIT_S).status

    def done(self, session: str) -> dict[int, list[str]]:
        """What happened to each unit."""
        happened: dict[int, list[str]] = {}
        for event in self.sessions.log(session):
            happened.setdefault(event.unit, []).append(event.event)
        return happened


def change(count: int) -> dict[str, str]:
    """So many files, each with something to find."""
    return {f"src/part{number // 9}/f{number:03d}.py": f"x = {number}\n# TODO: {number}\n" for number in range(count)}
