"""Review sessions: started, watched, paused and resumed from any process, each unit of them reviewed once.

A session is a row in the store, not a thread: whoever resumes it runs it. A process shows that it is alive
(`Presence`), and its lease runs out when it hangs; then its units are queued again. This module decides who runs what;
`session_runner` does it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import msgspec

from context_engine.errors import Cancelled, InvalidArgument, NextStep, ReviewBusy, ReviewNotFound, TooLarge
from context_engine.review.review_request import ReviewRequest
from context_engine.review.review_store import ReviewSession, ReviewStore, ReviewUnit, UnitEvent
from context_engine.review.review_units import FileTie, UnitFile, cut_into_units, estimate_cost
from context_engine.review.session_lifecycle import (
    AT_REST,
    OWNED,
    UNFINISHED,
    SessionProgress,
    count_progress,
    next_status,
    visible_status,
)
from context_engine.review.session_runner import Job, SessionRunner, SessionTiming
from context_engine.review.telemetry import UnitMetrics, UnitTimes, summarize_metrics
from context_engine.storage.liveness import LivenessLock
from context_engine.text import CHANCE_BYTES, uuid7

FILES_MAX = 5_000
SESSIONS_MAX = 4
"""Sessions at once in one process: each has workers of its own, and more would only wait for each other."""
WAIT_POLL_S = 0.05
"""How soon somebody who waits hears of news."""
CURSOR_DIGITS = 16
STOP_WAIT_S = 5.0
"""A file is reviewed within a second; what takes longer is an analyser, and is killed with us."""


class Change(Protocol):
    """A change that can be reviewed in units."""

    @property
    def request(self) -> ReviewRequest:
        """It, with full hashes."""
        ...

    @property
    def parts(self) -> Sequence[UnitFile]:
        """Its files."""
        ...

    def ties(self) -> Iterable[FileTie]:
        """Which of them belong together."""
        ...

    def known(self) -> int:
        """How many of them have been looked at before, in the same versions and by the same rules."""
        ...

    def job(self) -> Job:
        """Its review."""
        ...


class SessionView(NamedTuple):
    """A session as others see it. `problem` says why it is not as it should be; `outcome` is empty until it is over."""

    session: ReviewSession
    status: str
    problem: str
    progress: SessionProgress
    units: tuple[ReviewUnit, ...]
    outcome: Mapping[str, Any]


class StartedSession(NamedTuple):
    """A session, how much of it is known already, and whether it was there before."""

    view: SessionView
    known: int
    is_same: bool


class FindingPage(NamedTuple):
    """Some findings, in the shape of replies, and what to ask for the next; empty when there are no more for now."""

    findings: Sequence[Mapping[str, Any]]
    cursor: str


class ReviewSessions:
    """The review sessions of one workspace, and those of them that run in this process. Thread-safe."""

    def __init__(
        self, store: ReviewStore, presence: LivenessLock, opened: Callable[[ReviewRequest], Change], pace: SessionTiming
    ) -> None:
        """`opened` looks at git: it raises RefNotFound, and whatever else is wrong with a request."""
        self._store = store
        self._presence = presence
        self._opened = opened
        self._pace = pace
        self._lock = threading.Lock()
        self._runners: dict[str, SessionRunner] = {}  # by owner
        self._runs = 0

    # -- what can be asked for --

    def start(self, request: ReviewRequest, *, workers: int, resume_if_same: bool = True) -> StartedSession:
        """Begin to review a change, or go on with the unfinished review of the same one.

        Raises: RefNotFound, PreconditionFailed (nothing changed), TooLarge, ReviewBusy.
        """
        change = self._opened(request)
        _check_size(change.parts)
        self._refuse_when_busy(change.request.key if resume_if_same else "")
        known = change.known()
        session, cut = self._new(change, workers)
        session_id = self._store.add(session, cut, instead_of=UNFINISHED if resume_if_same else ())
        if self._seen(session_id).status != "paused":  # a pause holds until somebody says resume
            self._take(session_id, change)
        return StartedSession(self._seen(session_id), known, is_same=session_id != session.id)

    def status(self, session_id: str) -> SessionView:
        """A session as it is now. Raises: ReviewNotFound."""
        return self._seen(session_id)

    def pause(self, session_id: str, reason: str = "") -> SessionView:
        """Begin no unit any more; it is paused once those under way have ended.

        Raises: ReviewNotFound, PreconditionFailed.
        """
        at = self._pace.now()

        def paused(session: ReviewSession) -> ReviewSession:
            is_orphan = session.status in OWNED and not self._is_alive(session)
            status = next_status("queued" if is_orphan else session.status, "pause")
            if status == session.status:
                return session
            return replace(session, status=status, error=reason, updated_at=at)

        self._move(session_id, paused, requeue=(), at=at)
        self._wake(session_id)
        return self._seen(session_id)

    def resume(self, session_id: str) -> SessionView:
        """Go on with what is not done, here unless it runs already.

        Raises: ReviewNotFound, PreconditionFailed (completed).
        """
        session = self._seen(session_id).session
        next_status(session.status, "run")
        if session.status not in OWNED or not self._is_alive(session):
            self._refuse_when_busy()
            self._take(session_id, self._opened(_request(session)))
        else:
            self._move(session_id, _resumed, requeue=(), at=self._pace.now())
            self._wake(session_id)
        return self._seen(session_id)

    def page(self, session_id: str, cursor: str, limit: int) -> FindingPage:
        """The next findings: as they come while it runs; when it is over, the settled ones that were not shown yet.

        Raises: ReviewNotFound, InvalidArgument (a cursor that is none of ours).
        """
        after, offset = _place(cursor)
        seen = self._seen(session_id)
        if not seen.outcome:
            rows = self._store.findings(session_id, after=after, limit=limit)
            return FindingPage([msgspec.json.decode(body) for _, body in rows], str(rows[-1][0] if rows else after))
        streamed = self._store.findings(session_id)
        shown = {msgspec.json.decode(body)["id"] for number, body in streamed if number <= after}
        left = [finding for finding in seen.outcome["findings"] if finding["id"] not in shown]
        is_more = offset + limit < len(left)
        return FindingPage(left[offset : offset + limit], f"{after}+{offset + limit}" if is_more else "")

    def findings(self, session_id: str) -> Sequence[Mapping[str, Any]]:
        """All findings: the settled ones, or what has come so far. Raises: ReviewNotFound."""
        outcome = self._seen(session_id).outcome
        if outcome:
            return outcome["findings"]
        return [msgspec.json.decode(body) for _, body in self._store.findings(session_id)]

    def telemetry(self, session_id: str) -> dict[str, Any]:
        """What it took so far, measured. Raises: ReviewNotFound."""
        seen = self._seen(session_id)
        ended = [unit for unit in seen.units if unit.ended_at]
        figures = [msgspec.json.decode(unit.figures, type=UnitMetrics) for unit in ended if unit.figures]
        if last := seen.outcome.get("figures"):
            figures.append(msgspec.convert(last, type=UnitMetrics))
        return summarize_metrics(
            figures,
            [UnitTimes(unit.queued_at, unit.began_at, unit.ended_at) for unit in ended],
            [(each["source"], each["category"]) for each in self.findings(session_id)],
            workers=seen.session.workers,
            retries=sum(max(0, unit.tries - 1) for unit in seen.units),
        )

    @staticmethod
    def request(session: ReviewSession) -> ReviewRequest:
        """What a session is to review."""
        return _request(session)

    def log(self, session_id: str) -> list[UnitEvent]:
        """What happened to each unit, in order."""
        return self._store.log(session_id)

    def wait(
        self,
        session_id: str,
        wait_s: float,
        *,
        after: str = "",
        cancel: threading.Event | None = None,
        tell: Callable[[SessionProgress], None] | None = None,
    ) -> SessionView:
        """Wait until nothing more comes by itself, there are findings after the cursor, or the time is up.

        Raises: ReviewNotFound, InvalidArgument (the cursor), Cancelled: only the waiting is, the review goes on.
        """
        until = time.monotonic() + wait_s
        place, cancel = _place(after)[0], cancel or threading.Event()
        while True:
            seen = self._seen(session_id)
            if tell:
                tell(seen.progress)
            has_news = bool(after) and bool(self._store.findings(session_id, after=place, limit=1))
            left_s = until - time.monotonic()
            if seen.status in AT_REST or has_news or left_s <= 0:
                return seen
            if cancel.wait(min(WAIT_POLL_S, left_s)):
                raise Cancelled(
                    "the waiting was cancelled, the review goes on", next_steps=NextStep("get_review_status")
                )

    def close(self) -> None:
        """End what runs here in good order: it waits for whoever resumes it."""
        with self._lock:
            runners = list(self._runners.values())
        for runner in runners:
            runner.stop()
        for runner in runners:
            runner.join(STOP_WAIT_S)
        self._presence.release()
        self._store.close()

    # -- who runs what --

    def _new(self, change: Change, workers: int) -> tuple[ReviewSession, list[ReviewUnit]]:
        """The rows of a session that nobody runs yet."""
        at = self._pace.now()
        request = change.request
        cut = [
            ReviewUnit(number, tuple(part.path for part in unit), estimate_cost(unit), queued_at=at)
            for number, unit in enumerate(cut_into_units(change.parts, change.ties()), 1)
        ]
        session = ReviewSession(
            id=f"rev_{uuid7(round(at * 1000), os.urandom(CHANCE_BYTES))}",
            key=request.key,
            status="queued",
            owner="",
            lease_until=0.0,
            created_at=at,
            updated_at=at,
            workers=max(1, min(workers, len(cut))),
            request=msgspec.json.encode(request),
        )
        return session, cut

    def _take(self, session_id: str, change: Change) -> None:
        """Run a session here, unless somebody alive does."""
        self._presence.acquire()
        at, job = self._pace.now(), change.job()
        with self._lock:
            self._runs += 1
            owner = f"{self._presence.name}.{self._runs}"

            def taken(session: ReviewSession) -> ReviewSession:
                if session.status in OWNED and self._is_alive(session):
                    return session
                after = replace(session, status=next_status(session.status, "run"), owner=owner, outcome=b"", error="")
                return replace(after, lease_until=at + self._pace.lease_s, updated_at=at)

            session = self._move(session_id, taken, requeue=("running", "failed"), at=at)
            if session.owner == owner:
                self._runners[owner] = SessionRunner(self._store, session, job, self._pace, ended=self._ended)
                self._runners[owner].start()

    def _ended(self, owner: str) -> None:
        with self._lock:
            self._runners.pop(owner, None)

    def _wake(self, session_id: str) -> None:
        session = self._store.session(session_id)
        runner = self._runners.get(session.owner) if session else None
        if runner:
            runner.wake()

    def _is_alive(self, session: ReviewSession) -> bool:
        """Whether the owner of a session works on it: its process is there, and has said so lately."""
        name = session.owner.rpartition(".")[0]
        if name == self._presence.name:
            return session.owner in self._runners
        return session.lease_until > self._pace.now() and self._presence.is_alive(name)

    def _refuse_when_busy(self, key: str = "") -> None:
        """Refuse one session more than a machine bears; one of this key that is there already is none more."""
        if len(self._runners) < SESSIONS_MAX:
            return
        if key not in {each.key for each in self._store.sessions() if each.status in OWNED}:
            raise ReviewBusy(
                f"{SESSIONS_MAX} reviews are running here already",
                next_steps=(
                    NextStep("get_review_status", "to wait for one of them"),
                    NextStep("pause_review", "to pause one"),
                ),
                details={"running": len(self._runners)},
            )

    # -- the store --

    def _move(
        self, session_id: str, decide: Callable[[ReviewSession], ReviewSession], *, requeue: Sequence[str], at: float
    ) -> ReviewSession:
        session = self._store.move(session_id, decide, requeue=requeue, at=at)
        return _present(session, session_id)

    def _seen(self, session_id: str) -> SessionView:
        session = _present(self._store.session(session_id), session_id)
        cut = tuple(self._store.units(session_id))
        is_alive = session.status not in OWNED or self._is_alive(session)
        status, problem = visible_status(session.status, is_alive=is_alive)
        if not is_alive:  # it may have ended in this moment
            session = _present(self._store.session(session_id), session_id)
            status, problem = visible_status(session.status, is_alive=session.status not in OWNED)
        far = count_progress([(unit.state, len(unit.paths)) for unit in cut])
        outcome = msgspec.json.decode(session.outcome) if session.outcome else {}
        return SessionView(session, status, problem or session.error, far, cut, outcome)


def _present(session: ReviewSession | None, session_id: str) -> ReviewSession:
    if session is None:
        raise ReviewNotFound(
            f"no review session is called {session_id[:60]!r}",
            next_steps=NextStep("reactive_review_pr", "to start one; its reply has the id"),
            details={"session_id": session_id[:100]},
        )
    return session


def _request(session: ReviewSession) -> ReviewRequest:
    return msgspec.json.decode(session.request, type=ReviewRequest)


def _resumed(session: ReviewSession) -> ReviewSession:
    """A session that runs elsewhere, or is about to pause there, goes on there."""
    return replace(session, status=next_status(session.status, "run"), error="")


def _check_size(parts: Sequence[UnitFile]) -> None:
    if len(parts) > FILES_MAX:
        raise TooLarge(
            f"{len(parts):,} files changed, a session reviews at most {FILES_MAX:,}",
            suggestion="Name some of them in changed_files, or review commit by commit.",
            details={"files": len(parts), "limit": FILES_MAX},
        )


def _place(cursor: str) -> tuple[int, int]:
    """The number of the last streamed finding that was shown, and how many settled ones were.

    >>> _place(""), _place("17"), _place("17+50")
    ((0, 0), (17, 0), (17, 50))
    """
    after, _, offset = cursor.partition("+")
    if not all(
        not part or (part.isascii() and part.isdigit() and len(part) < CURSOR_DIGITS) for part in (after, offset)
    ):
        raise InvalidArgument(
            f"{cursor[:60]!r} is no cursor", suggestion="Send next_cursor of the last reply, or none to begin anew."
        )
    return int(after or 0), int(offset or 0)
