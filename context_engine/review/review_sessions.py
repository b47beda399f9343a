"""Review sessions: started, watched, paused and resumed from any process; each of their units is reviewed once.

A session is a row in the store, not a thread: the process that resumes it runs it. A liveness lock shows that a
process lives, and the lease of a session ends when its process hangs; then its units are queued again. This module
decides which process runs a session; `session_runner` runs it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec

from context_engine.errors import (
    Cancelled,
    ContextEngineError,
    InvalidArgument,
    NextStep,
    ReviewBusy,
    ReviewNotFound,
    TooLarge,
)
from context_engine.review.review_job import ReviewJob, SessionOutcome
from context_engine.review.review_options import ReviewRequest
from context_engine.review.review_store import ReviewSession, ReviewStore, ReviewUnit, SessionUpdate, UnitEvent
from context_engine.review.review_units import cut_into_units, estimate_cost
from context_engine.review.session_lifecycle import (
    AT_REST,
    OWNED,
    PAUSES,
    TERMINAL_UNITS,
    UNFINISHED,
    SessionProgress,
    UnitMetrics,
    UnitTimes,
    count_progress,
    final_event,
    next_status,
    summarize_metrics,
    visible_status,
)
from context_engine.storage import LivenessLock
from context_engine.text import CHANCE_BYTES, uuid7
from context_engine.timestamps import Now

# -- session runner ----------------------------------------------------------------------------------------------------

# Run one session in this process: workers take unit after unit while one thread watches over them.
#
# The watching thread renews the lease of the session, notices a pause, and gives up a session that another process has
# taken over. If this process dies, only the units that its workers were reviewing are reviewed again.

LEASE_S = 30.0
BEAT_S = 10.0
"""Two beats may be missed, by a machine that swaps, before another process takes over."""
POLL_S = 0.2
"""How soon a pause by another process is noticed: users do not feel it, and a look takes 20 microseconds."""
GRACE_S = 10.0
"""Units that run when a pause begins have this time to end; then they go back to the queue."""
TRIES_MAX = 2
"""An analyzer that ran out of time on a busy machine deserves another try; what is broken fails twice."""
ERROR_CHARS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class SessionTiming:
    """The times of a runner; `now` returns seconds since 1970."""

    now: Now
    lease_s: float = LEASE_S
    beat_s: float = BEAT_S
    grace_s: float = GRACE_S
    poll_s: float = POLL_S


class SessionRunner:
    """Runs one session whose status is `running` for its owner, until it is over, paused, taken away or stopped."""

    def __init__(
        self,
        store: ReviewStore,
        session: ReviewSession,
        job: ReviewJob,
        timing: SessionTiming,
        *,
        on_end: Callable[[str], None],
    ) -> None:
        self._store = store
        self._id = session.id
        self._owner = session.owner
        self._workers = session.workers
        self._job = job
        self._timing = timing
        self._on_end = on_end
        self._cancel = threading.Event()
        self._wake = threading.Event()
        self._problem = ""
        self._next_beat = 0.0
        self._thread = threading.Thread(target=self._run, name=f"ctx-review-{self._id[-8:]}", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def wake(self) -> None:
        """Look at once for a changed status."""
        self._wake.set()

    def stop(self) -> None:
        """Stop in good order: running units go back to the queue."""
        self._cancel.set()
        self._wake.set()

    def join(self, timeout_s: float) -> None:
        """Wait for the end of the thread."""
        self._thread.join(timeout_s)

    # -- watching --

    def _run(self) -> None:
        try:
            while True:
                self._run_tasks([self._work] * self._workers)
                if self._can_conclude():
                    self._run_tasks([self._conclude])
                if self._let_go():
                    return
        except ContextEngineError as error:  # the disk: the session stays as it is, and its lease ends
            self._problem = error.message
            self._cancel.set()
        finally:
            self._on_end(self._owner)

    def _run_tasks(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Run tasks in threads, and watch over the session until they have ended or must not go on."""
        threads = [
            threading.Thread(target=self._run_task, args=(task,), name=f"ctx-review-unit-{number}", daemon=True)
            for number, task in enumerate(tasks)
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            self._wake.wait(self._timing.poll_s)
            self._wake.clear()
            if not self._is_still_ours() or self._is_out_of_grace():
                self._cancel.set()
                return

    def _run_task(self, task: Callable[[], None]) -> None:
        """Run a task, and keep its problem for the end."""
        try:
            task()
        except ContextEngineError as error:
            self._problem = error.message
            self._cancel.set()
        finally:
            self._wake.set()

    def _is_still_ours(self) -> bool:
        now = self._timing.now()
        if now < self._next_beat:
            session = self._store.session(self._id)
            return session is not None and session.owner == self._owner
        self._next_beat = now + self._timing.beat_s
        return self._store.renew_lease(self._id, self._owner, now + self._timing.lease_s)

    def _is_out_of_grace(self) -> bool:
        """Whether a pause began so long ago that running units must go back to the queue; they do."""
        session = self._store.session(self._id)
        if session is None or session.status != "pausing":
            return False
        if self._timing.now() < session.updated_at + self._timing.grace_s:
            return False
        self._update(_settle, requeue=("running",))
        return True

    # -- working --

    def _work(self) -> None:
        """Review unit after unit."""
        while not self._cancel.is_set():
            unit = self._store.take(self._id, self._owner, self._timing.now())
            if unit is None:
                return
            self._review(unit)
            self._wake.set()

    def _review(self, unit: ReviewUnit) -> None:
        now = self._timing.now
        try:
            checkpoint = self._job.review_files(unit.paths, self._cancel)
        except Cancelled:
            self._store.give_back(self._id, unit, now())
        except Exception as error:  # noqa: BLE001 - a defect of one check must not end the review of everything else
            self._store.fail(self._id, unit, format_error(error), now(), again=unit.tries < TRIES_MAX)
        else:
            self._store.checkpoint(self._id, unit, checkpoint, now())

    # -- ending --

    def _can_conclude(self) -> bool:
        session = self._store.session(self._id)
        if self._cancel.is_set() or session is None or session.owner != self._owner or session.status != "running":
            return False
        return all(unit.state in TERMINAL_UNITS for unit in self._store.units(self._id))

    def _conclude(self) -> None:
        units = self._store.units(self._id)
        failed = [unit for unit in units if unit.state == "failed"]
        event, error = final_event([unit.state for unit in units]), next((unit.error for unit in failed), "")
        result = SessionOutcome(b"")
        try:
            result = self._job.conclude(self._store.bodies(self._id), failed, self._cancel)
        except Cancelled:
            return
        except Exception as problem:  # noqa: BLE001 - it is reported as the state of the session
            event, error = "fail", format_error(problem)

        def end(session: ReviewSession) -> ReviewSession:
            status = next_status(session.status, event)
            return replace(session, status=status, outcome=result.outcome, error=error, owner="", lease_until=0.0)

        if result.pending:
            self._store.keep(self._id, result.pending, self._timing.now())
        self._update(end)
        self._store.trim()

    def _let_go(self) -> bool:
        """Leave the session paused, failed, or queued for the next process; False if it goes on after all."""

        def let_go(session: ReviewSession) -> ReviewSession:
            if session.status == "pausing":
                return _settle(session)
            if self._problem:
                return replace(session, status=next_status(session.status, "fail"), error=self._problem, owner="")
            if self._cancel.is_set():
                return replace(session, status=next_status(session.status, "release"), owner="", lease_until=0.0)
            return session  # it was resumed while the last units ended

        session = self._update(let_go, requeue=("running",))
        return session is None or session.owner != self._owner

    def _update(self, decide: SessionUpdate, *, requeue: Collection[str] = ()) -> ReviewSession | None:
        """Change the session, if this runner still owns it."""
        now = self._timing.now()

        def decide_if_ours(session: ReviewSession) -> ReviewSession:
            if session.owner != self._owner or session.status not in OWNED:
                return session
            after = decide(session)
            if after == session:
                return after
            return replace(after, updated_at=now)

        return self._store.move(self._id, decide_if_ours, requeue=requeue, at=now)


def _settle(session: ReviewSession) -> ReviewSession:
    """Return a session that was pausing as paused."""
    if session.status != "pausing":
        return session
    return replace(session, status=next_status(session.status, "settle"), owner="", lease_until=0.0)


def format_error(error: Exception) -> str:
    """Return an error in one line, as it is stored."""
    if isinstance(error, ContextEngineError):
        text = error.message
    else:
        text = f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:ERROR_CHARS_MAX]


# -- review sessions ---------------------------------------------------------------------------------------------------

FILES_MAX = 5_000
SESSIONS_MAX = 4
"""Sessions that one process runs at once: each has its own workers, and more would only wait for each other."""
WAIT_POLL_S = 0.05
"""How soon a waiting caller gets news."""
CURSOR_DIGITS = 16
STOP_WAIT_S = 5.0
"""A file is reviewed within a second; what takes longer is an analyzer, which is killed with this process."""


class SessionView(NamedTuple):
    """A session as callers see it. `problem` is what went wrong; `outcome` is empty until the end.

    `pause_reason` is what the caller of a pause gave as its reason.
    """

    session: ReviewSession
    status: str
    problem: str
    progress: SessionProgress
    units: tuple[ReviewUnit, ...]
    outcome: Mapping[str, Any]
    pause_reason: str = ""

    @property
    def needs_resume(self) -> bool:
        """Whether nothing happens until a caller resumes the session; a completed one needs nothing."""
        return self.status == "queued" or (self.status in AT_REST and self.status != "completed")

    @property
    def request(self) -> ReviewRequest:
        """The change that the session reviews."""
        return msgspec.json.decode(self.session.request, type=ReviewRequest)


class StartedSession(NamedTuple):
    """A session, the number of its files in the cache, and whether it existed before."""

    view: SessionView
    cached: int
    is_same: bool


class FindingPage(NamedTuple):
    """Some findings as replies contain them, and the cursor of the next; it is empty when no more follow."""

    findings: Sequence[Mapping[str, Any]]
    cursor: str


class ReviewSessions:
    """The review sessions of one workspace, and those of them that run in this process. Thread-safe."""

    def __init__(
        self,
        store: ReviewStore,
        liveness: LivenessLock,
        open_job: Callable[[ReviewRequest], ReviewJob],
        timing: SessionTiming,
    ) -> None:
        """Create the sessions. `open_job` reads from git: it raises RefNotFound, and other problems of a request."""
        self._store = store
        self._liveness = liveness
        self._open_job = open_job
        self._timing = timing
        self._lock = threading.Lock()
        self._runners: dict[str, SessionRunner] = {}  # by owner
        self._run_count = 0

    # -- the calls of tools --

    def start(self, request: ReviewRequest, *, workers: int, resume_if_same: bool = True) -> StartedSession:
        """Begin to review a change, or continue the unfinished review of the same one.

        Raises: RefNotFound, PreconditionFailed (nothing changed), TooLarge, ReviewBusy.
        """
        job = self._open_job(request)
        if len(job.files) > FILES_MAX:
            raise TooLarge(
                f"{len(job.files):,} files changed; a session reviews at most {FILES_MAX:,}",
                suggestion="Name some of them in changed_files, or review commit by commit.",
                details={"files": len(job.files), "limit": FILES_MAX},
            )
        self._refuse_when_busy(job.request.key if resume_if_same else "")
        cached = job.count_cached()
        session, units = self._create_rows(job, workers)
        session_id = self._store.add(session, units, instead_of=UNFINISHED if resume_if_same else ())
        if self.status(session_id).status != "paused":  # a pause holds until a caller resumes the session
            self._run_here(session_id, job)
        return StartedSession(self.status(session_id), cached, is_same=session_id != session.id)

    def status(self, session_id: str) -> SessionView:
        """Return a session as it is now. Raises: ReviewNotFound."""
        session = _require(self._store.session(session_id), session_id)
        units = tuple(self._store.units(session_id))
        is_alive = session.status not in OWNED or self._is_alive(session)
        if not is_alive:  # it may have ended in this moment
            session = _require(self._store.session(session_id), session_id)
            is_alive = session.status not in OWNED
        status, problem = visible_status(session.status, is_alive=is_alive)
        progress = count_progress([(unit.state, len(unit.paths)) for unit in units])
        outcome = {}
        if session.outcome:
            outcome = msgspec.json.decode(session.outcome)
        is_pause = status in PAUSES
        return SessionView(
            session,
            status,
            problem or ("" if is_pause else session.error),
            progress,
            units,
            outcome,
            session.error if is_pause else "",
        )

    def newest(self, limit: int) -> list[SessionView]:
        """Return the newest sessions as they are now."""
        views: list[SessionView] = []
        for session in self._store.sessions()[:limit]:
            with suppress(ReviewNotFound):  # deleted by another process in this moment
                views.append(self.status(session.id))
        return views

    def pause(self, session_id: str, reason: str = "") -> SessionView:
        """Begin no more units; the session is paused once the running ones have ended.

        Raises: ReviewNotFound, PreconditionFailed.
        """
        now = self._timing.now()

        def pause(session: ReviewSession) -> ReviewSession:
            is_orphan = session.status in OWNED and not self._is_alive(session)
            status = next_status("queued" if is_orphan else session.status, "pause")
            if status == session.status:
                return session
            return replace(session, status=status, error=reason, updated_at=now)

        self._update(session_id, pause, now=now)
        self._wake(session_id)
        return self.status(session_id)

    def resume(self, session_id: str) -> SessionView:
        """Continue with the units that are not done, in this process unless another one runs the session.

        Raises: ReviewNotFound, PreconditionFailed (completed).
        """
        view = self.status(session_id)
        session = view.session
        next_status(session.status, "run")
        if session.status not in OWNED or not self._is_alive(session):
            self._refuse_when_busy()
            self._run_here(session_id, self._open_job(view.request))
        else:  # it runs, or is about to pause, in its process

            def run(current: ReviewSession) -> ReviewSession:
                return replace(current, status=next_status(current.status, "run"), error="")

            self._update(session_id, run, now=self._timing.now())
            self._wake(session_id)
        return self.status(session_id)

    def page(self, session_id: str, cursor: str, limit: int) -> FindingPage:
        """Return the next findings: as they come while it runs; at the end, the final ones that were not shown yet.

        Raises: ReviewNotFound, InvalidArgument (not a cursor of this product).
        """
        after, offset = _parse_cursor(cursor)
        outcome = self.status(session_id).outcome
        if not outcome:
            rows = self._store.findings(session_id, after=after, limit=limit)
            return FindingPage([msgspec.json.decode(body) for _, body in rows], str(rows[-1][0] if rows else after))
        streamed = self._store.findings(session_id)
        shown = {msgspec.json.decode(body)["id"] for number, body in streamed if number <= after}
        left = [finding for finding in outcome["findings"] if finding["id"] not in shown]
        end = offset + limit
        return FindingPage(left[offset:end], f"{after}+{end}" if end < len(left) else "")

    def findings(self, session_id: str) -> Sequence[Mapping[str, Any]]:
        """Return all findings: the final ones, or those so far. Raises: ReviewNotFound."""
        outcome = self.status(session_id).outcome
        if outcome:
            return outcome["findings"]
        return [msgspec.json.decode(body) for _, body in self._store.findings(session_id)]

    def telemetry(self, session_id: str) -> dict[str, Any]:
        """Return what the session took so far, as measured. Raises: ReviewNotFound."""
        view = self.status(session_id)
        ended = [unit for unit in view.units if unit.ended_at]
        metrics = [msgspec.json.decode(unit.figures, type=UnitMetrics) for unit in ended if unit.figures]
        if conclusion := view.outcome.get("figures"):
            metrics.append(msgspec.convert(conclusion, type=UnitMetrics))
        return summarize_metrics(
            metrics,
            [UnitTimes(unit.queued_at, unit.began_at, unit.ended_at) for unit in ended],
            [(finding["source"], finding["category"]) for finding in self.findings(session_id)],
            workers=view.session.workers,
            retries=sum(max(0, unit.tries - 1) for unit in view.units),
        )

    def log(self, session_id: str) -> list[UnitEvent]:
        """Return what happened to each unit, in order."""
        return self._store.log(session_id)

    def wait(
        self,
        session_id: str,
        wait_s: float,
        *,
        after: str = "",
        cancel: threading.Event | None = None,
        report: Callable[[int, int], None] | None = None,
    ) -> SessionView:
        """Wait until the session is at rest, there are findings after the cursor, or the time is over.

        `report` is called with the numbers of reviewed files and of all files.

        Raises: ReviewNotFound, InvalidArgument (the cursor), Cancelled; the review itself continues.
        """
        deadline = time.monotonic() + wait_s
        last_shown, _ = _parse_cursor(after)
        cancel = cancel or threading.Event()
        while True:
            view = self.status(session_id)
            if report:
                report(view.progress.files_done, view.progress.files_total)
            has_news = bool(after) and bool(self._store.findings(session_id, after=last_shown, limit=1))
            left_s = deadline - time.monotonic()
            if view.status in AT_REST or has_news or left_s <= 0:
                return view
            if cancel.wait(min(WAIT_POLL_S, left_s)):
                raise Cancelled(
                    "the call was cancelled while it waited; the review continues",
                    next_steps=NextStep("get_review_status"),
                )

    def close(self) -> None:
        """Stop the sessions that run here in good order: any process can resume them."""
        with self._lock:
            runners = list(self._runners.values())
        for runner in runners:
            runner.stop()
        for runner in runners:
            runner.join(STOP_WAIT_S)
        self._liveness.release()
        self._store.close()

    # -- which process runs what --

    def _create_rows(self, job: ReviewJob, workers: int) -> tuple[ReviewSession, list[ReviewUnit]]:
        """Return the rows of a session that no process runs yet."""
        now = self._timing.now()
        units = [
            ReviewUnit(number, tuple(file.path for file in unit), estimate_cost(unit), queued_at=now)
            for number, unit in enumerate(cut_into_units(job.files, job.find_ties()), 1)
        ]
        session = ReviewSession(
            id=f"rev_{uuid7(round(now * 1000), os.urandom(CHANCE_BYTES))}",
            key=job.request.key,
            status="queued",
            owner="",
            lease_until=0.0,
            created_at=now,
            updated_at=now,
            workers=max(1, min(workers, len(units))),
            request=msgspec.json.encode(job.request),
        )
        return session, units

    def _run_here(self, session_id: str, job: ReviewJob) -> None:
        """Run a session in this process, unless a living process runs it."""
        self._liveness.acquire()
        now = self._timing.now()
        with self._lock:
            self._run_count += 1
            owner = f"{self._liveness.name}.{self._run_count}"

            def take(session: ReviewSession) -> ReviewSession:
                if session.status in OWNED and self._is_alive(session):
                    return session
                status, lease_until = next_status(session.status, "run"), now + self._timing.lease_s
                taken = replace(session, status=status, owner=owner, outcome=b"", error="")
                return replace(taken, lease_until=lease_until, updated_at=now)

            session = self._update(session_id, take, requeue=("running", "failed"), now=now)
            if session.owner == owner:
                self._runners[owner] = SessionRunner(self._store, session, job, self._timing, on_end=self._forget)
                self._runners[owner].start()

    def _forget(self, owner: str) -> None:
        with self._lock:
            self._runners.pop(owner, None)

    def _wake(self, session_id: str) -> None:
        session = self._store.session(session_id)
        runner = None
        if session:
            runner = self._runners.get(session.owner)
        if runner:
            runner.wake()

    def _is_alive(self, session: ReviewSession) -> bool:
        """Whether the owner of a session works on it: its process lives, and has renewed its lease."""
        name = session.owner.rpartition(".")[0]
        if name == self._liveness.name:
            return session.owner in self._runners
        return session.lease_until > self._timing.now() and self._liveness.is_alive(name)

    def _refuse_when_busy(self, key: str = "") -> None:
        """Refuse one session too many; a running one of this key is not a new one."""
        if len(self._runners) < SESSIONS_MAX:
            return
        if key not in {session.key for session in self._store.sessions() if session.status in OWNED}:
            raise ReviewBusy(
                f"{SESSIONS_MAX} reviews are running here already",
                next_steps=(
                    NextStep("get_review_status", "to wait for one of them"),
                    NextStep("pause_review", "to pause one"),
                ),
                details={"running": len(self._runners)},
            )

    def _update(
        self, session_id: str, decide: SessionUpdate, *, now: float, requeue: Sequence[str] = ()
    ) -> ReviewSession:
        return _require(self._store.move(session_id, decide, requeue=requeue, at=now), session_id)


def _require(session: ReviewSession | None, session_id: str) -> ReviewSession:
    if session is None:
        raise ReviewNotFound(
            f"no review session is called {session_id[:60]!r}",
            next_steps=NextStep("reactive_review_pr", "to start one; its reply has the id"),
            details={"session_id": session_id[:100]},
        )
    return session


def _parse_cursor(cursor: str) -> tuple[int, int]:
    """Return the number of the last streamed finding that was shown, and how many final ones were.

    >>> _parse_cursor(""), _parse_cursor("17"), _parse_cursor("17+50")
    ((0, 0), (17, 0), (17, 50))
    """
    numbers = []
    for part in cursor.partition("+")[::2]:
        if part and not (part.isascii() and part.isdigit() and len(part) < CURSOR_DIGITS):
            raise InvalidArgument(
                f"{cursor[:60]!r} is not a cursor",
                suggestion="Send next_cursor of the last reply, or none to begin again.",
            )
        numbers.append(int(part or 0))
    after, offset = numbers
    return after, offset
