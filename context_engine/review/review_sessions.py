"""Review sessions: jobs over the files of a change, in the background of the process that started or resumed them.

Every process of the workspace reads the row of a session, and may pause it: the job looks at its row before each unit.
A lock file shows that the process of a job lives. When it is gone, the next `resume` starts the job again: units that
were done are kept, and other files come from the cache if any review has finished them.

    queued     no process runs it; the last one ended in good order
    running    its owner works on its units, as long as the owner lives
    pausing    no unit is begun any more; those that run end
    paused     nothing happens until a caller resumes it
    completed  every unit was reviewed
    partial    some units could not be reviewed; resuming tries those again
    failed     no unit could, the end went wrong, or its process is gone; resuming tries again
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from context_engine.errors import (
    Cancelled,
    ContextEngineError,
    InvalidArgument,
    NextStep,
    PreconditionFailed,
    ReviewBusy,
    ReviewNotFound,
    TooLarge,
)
from context_engine.review.finding import ReviewOptions, ReviewRequest, finding_to_json
from context_engine.review.review_job import ReviewJob, SessionOutcome, UnitReview, summarize_metrics
from context_engine.review.review_store import OWNED, ReviewSession, ReviewStore, SessionUpdate, Status
from context_engine.review.verdict import suppression_reason
from context_engine.storage import LivenessLock, prepare_type
from context_engine.text import CHANCE_BYTES, uuid7
from context_engine.timestamps import Now

FILES_MAX = 5_000
SESSIONS_MAX = 4
"""Sessions that one process runs at once: each has its own workers, and more would only wait for each other."""
SILENT_S = 300.0
"""A process of another machine, whose lock cannot be seen, is taken for dead when it wrote nothing for so long."""
WAIT_POLL_S = 0.05
"""How soon a waiting caller gets news."""
STOP_WAIT_S = 5.0
"""A file is reviewed within a second; what takes longer is an analyzer, which is killed with this process."""
ERROR_CHARS_MAX = 1_000
CURSOR_DIGITS = 16
AT_REST: frozenset[Status] = frozenset({"paused", "completed", "partial", "failed"})
"""These change only when a caller acts, so nothing waits for them."""
PAUSED_AS: Mapping[Status, Status] = {
    "queued": "paused",
    "paused": "paused",
    "running": "pausing",
    "pausing": "pausing",
}
OUTCOME = "outcome"


class StartedSession(NamedTuple):
    """A session, the number of its files in the cache, and whether it existed before."""

    session: ReviewSession
    cached: int
    is_same: bool


# -- the job of one session --------------------------------------------------------------------------------------------


class SessionJob:
    """The review of one session in this process, until it is over, paused, or stopped. One thread for each worker."""

    def __init__(
        self, store: ReviewStore, session: ReviewSession, job: ReviewJob, now: Now, on_end: Callable[[str], None]
    ) -> None:
        self._store = store
        self._session = session
        self._job = job
        self._now = now
        self._on_end = on_end
        self._problem = ""
        self.cancel = threading.Event()
        """Set to stop in good order: units that run go back to the queue."""
        self.thread = threading.Thread(target=self._run, name=f"ctx-review-{session.id[-8:]}", daemon=True)

    def _run(self) -> None:
        try:
            is_over = False
            while not is_over:
                names = [f"{self.thread.name}-{number}" for number in range(self._session.workers)]
                threads = [threading.Thread(target=self._work, name=name, daemon=True) for name in names]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                is_over = self._end()
        except ContextEngineError:  # the disk, or the database of a team: without an owner it is seen as failed
            pass
        finally:
            self._on_end(self._session.owner)

    def _work(self) -> None:
        try:
            while (number := self._take()) is not None:
                self._review(number)
        except ContextEngineError as error:
            self._problem = error.message

    def _take(self) -> int | None:
        """Take the next unit; None when none is left, or the session must not go on."""
        taken: list[int] = []

        def take(session: ReviewSession) -> ReviewSession:
            queued = [number for number, unit in enumerate(session.units) if unit.state == "queued"]
            if session.status != "running" or not queued:
                return session
            taken[:] = queued[:1]
            tries = session.units[queued[0]].tries + 1
            return session.change_unit(queued[0], state="running", began_at=self._now(), tries=tries)

        if not self.cancel.is_set() and not self._problem:
            self._update(take)
        return next(iter(taken), None)

    def _review(self, number: int) -> None:
        changes: dict[str, Any] = {"state": "done", "error": ""}
        bodies, cache = {}, {}
        try:
            review, cache = self._job.review_files(self._session.units[number].paths, self.cancel)
        except Cancelled:
            changes = {"state": "queued"}
        except Exception as error:  # noqa: BLE001 - a defect of one check must not end the review of everything else
            changes = {"state": "failed", "error": _format_error(error)}
        else:
            changes["findings"] = len(_list_shown([review], self._session.request.options))
            bodies = {f"{number:04d}": msgspec.json.encode(review)}

        def end(session: ReviewSession) -> ReviewSession:
            if changes["state"] != "queued":
                changes["order"] = 1 + max(unit.order for unit in session.units)
                changes["ended_at"] = self._now()
            return session.change_unit(number, **changes)

        self._update(end, bodies, cache)

    def _end(self) -> bool:
        """Conclude the review, or leave it paused, failed, or queued for the next process; False if it goes on."""
        ending, bodies = self._conclude()

        def end(session: ReviewSession) -> ReviewSession:
            stop: dict[str, Any] = {}  # empty when it was resumed while the last units ended
            if session.status == "pausing":
                stop = {"status": "paused"}
            elif self._problem:
                stop = {"status": "failed", "error": self._problem}
            elif self.cancel.is_set():
                stop = {"status": "queued"}
            changes = ending or stop
            return replace(session, owner="", **changes) if changes else session

        session = self._update(end, bodies)
        if ending:
            self._store.trim()
        return session is None or session.owner != self._session.owner

    def _conclude(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Return the final state of the session and its outcome; nothing while something is left to do."""
        session = self._store.session(self._session.id)
        if session is None or session.owner != self._session.owner or session.status != "running":
            return {}, {}
        states = {unit.state for unit in session.units}
        if self.cancel.is_set() or self._problem or not states <= {"done", "failed"}:
            return {}, {}
        failed = {path: unit.error for unit in session.units if unit.state == "failed" for path in unit.paths}
        files = [file for unit in _read_reviews(self._store, session) for file in unit.files]
        try:
            outcome, pending = self._job.conclude(files, failed, self.cancel)
        except Cancelled:
            return {}, {}
        except Exception as problem:  # noqa: BLE001 - it is reported as the state of the session
            return {"status": "failed", "error": _format_error(problem)}, {}
        self._store.keep(session.id, pending, self._now())
        status = "completed" if not failed else "partial" if "done" in states else "failed"
        error = next(iter(failed.values()), "")
        return {"status": status, "error": error}, {OUTCOME: msgspec.json.encode(outcome)}

    def _update(
        self, decide: SessionUpdate, bodies: Mapping[str, bytes] = {}, cache: Mapping[str, bytes | None] = {}
    ) -> ReviewSession | None:
        """Change the session while it is ours: another process may have taken it over."""

        def decide_if_ours(session: ReviewSession) -> ReviewSession:
            after = decide(session) if session.owner == self._session.owner else session
            return after if after is session else replace(after, updated_at=self._now())

        return self._store.update(self._session.id, decide_if_ours, bodies, cache)


def _format_error(error: Exception) -> str:
    text = error.message if isinstance(error, ContextEngineError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:ERROR_CHARS_MAX]


def _read_reviews(store: ReviewStore, session: ReviewSession) -> list[UnitReview]:
    """Return the reviews of the units that are done, in the order in which they ended."""
    bodies = store.bodies(session.id)
    done = [(unit.order, f"{number:04d}") for number, unit in enumerate(session.units) if unit.state == "done"]
    return [
        msgspec.json.decode(bodies[name], type=prepare_type(UnitReview)) for _, name in sorted(done) if name in bodies
    ]


def _list_shown(units: Sequence[UnitReview], options: ReviewOptions) -> list[dict[str, Any]]:
    """Return the findings that the options do not suppress, as replies contain them."""
    findings = [finding for unit in units for file in unit.files for finding in file.findings]
    return [finding_to_json(finding) for finding in findings if not suppression_reason(finding, options)]


# -- review sessions ---------------------------------------------------------------------------------------------------


class ReviewSessions:
    """The review sessions of one workspace, and those of them that run in this process. Thread-safe."""

    def __init__(
        self, store: ReviewStore, liveness: LivenessLock, open_job: Callable[[ReviewRequest], ReviewJob], now: Now
    ) -> None:
        """Create the sessions. `open_job` reads from git: it raises RefNotFound, and other problems of a request."""
        self._store = store
        self._liveness = liveness
        self._open_job = open_job
        self._now = now
        self._lock = threading.Lock()
        self._jobs: dict[str, SessionJob] = {}  # by owner
        self._job_count = 0

    def start(self, request: ReviewRequest, *, workers: int, resume_if_same: bool = True) -> StartedSession:
        """Begin to review a change, or continue the unfinished review of the same one.

        Raises: RefNotFound, PreconditionFailed (nothing changed), TooLarge, ReviewBusy.
        """
        job = self._open_job(request)
        units = job.cut()
        if (count := sum(len(unit.paths) for unit in units)) > FILES_MAX:
            raise TooLarge(
                f"{count:,} files changed; a session reviews at most {FILES_MAX:,}",
                suggestion="Name some of them in changed_files, or review commit by commit.",
                details={"files": count, "limit": FILES_MAX},
            )
        self._refuse_when_busy(job.request.key if resume_if_same else "")
        cached, now = job.count_cached(), self._now()
        session = ReviewSession(
            id=f"rev_{uuid7(round(now * 1000), os.urandom(CHANCE_BYTES))}",
            key=job.request.key,
            created_at=now,
            updated_at=now,
            workers=max(1, min(workers, len(units))),
            request=job.request,
            units=units,
        )
        session_id = self._store.add(session, unless_known=resume_if_same)
        if self.status(session_id).status != "paused":  # a pause holds until a caller resumes the session
            self._run_here(session_id, job)
        return StartedSession(self.status(session_id), cached, is_same=session_id != session.id)

    def status(self, session_id: str) -> ReviewSession:
        """Return a session as it is now: what a dead process ran is paused or failed. Raises: ReviewNotFound."""
        session = self._read(session_id)
        if session.status in OWNED and not self._is_alive(session):
            session = self._read(session_id)  # it may have ended in this moment
            if session.status == "pausing":
                return replace(session, status="paused")
            if session.status == "running":
                problem = "the process that ran it has ended; resume_review continues where it stopped"
                return replace(session, status="failed", error=problem)
        return session

    def outcome(self, session_id: str) -> Mapping[str, Any]:
        """Return the finished review as replies contain it; nothing before the end."""
        return self._read_outcome(session_id).review

    def newest(self, limit: int) -> list[ReviewSession]:
        """Return the newest sessions as they are now."""
        views: list[ReviewSession] = []
        for session in self._store.sessions()[:limit]:
            with suppress(ReviewNotFound):  # deleted by another process in this moment
                views.append(self.status(session.id))
        return views

    def pause(self, session_id: str, reason: str = "") -> ReviewSession:
        """Begin no more units; the session is paused once the running ones have ended.

        Raises: ReviewNotFound, PreconditionFailed.
        """

        def pause(session: ReviewSession) -> ReviewSession:
            is_orphan = session.status in OWNED and not self._is_alive(session)
            status = PAUSED_AS.get("queued" if is_orphan else session.status)
            if status is None:
                raise _refusal(session.status)
            if status == session.status:
                return session
            return replace(session, status=status, pause_reason=reason, updated_at=self._now())

        _require(self._store.update(session_id, pause), session_id)
        return self.status(session_id)

    def resume(self, session_id: str) -> ReviewSession:
        """Continue with the units that are not done, in this process unless another one runs the session.

        Raises: ReviewNotFound, PreconditionFailed (completed).
        """

        def withdraw_pause(session: ReviewSession) -> ReviewSession:
            if session.status != "pausing" or not self._is_alive(session):
                return session
            return replace(session, status="running", pause_reason="", updated_at=self._now())

        session = _require(self._store.update(session_id, withdraw_pause), session_id)
        if session.status == "completed":
            raise _refusal(session.status)
        if session.status not in OWNED or not self._is_alive(session):
            self._refuse_when_busy()
            self._run_here(session_id, self._open_job(session.request))
        return self.status(session_id)

    def page(self, session_id: str, cursor: str, limit: int) -> tuple[Sequence[Mapping[str, Any]], str]:
        """Return the next findings and the cursor of those after them; it is empty when no more follow.

        They come as they are found while the session runs; at the end, the final ones that were not shown yet.

        Raises: ReviewNotFound, InvalidArgument (not a cursor of this product).
        """
        after, offset = _parse_cursor(cursor)
        outcome, streamed = self.outcome(session_id), self._list_streamed(self._read(session_id))
        if not outcome:
            rows = streamed[after : after + limit]
            return rows, str(after + len(rows))
        shown = {finding["id"] for finding in streamed[:after]}
        left = [finding for finding in outcome["findings"] if finding["id"] not in shown]
        end = offset + limit
        return left[offset:end], f"{after}+{end}" if end < len(left) else ""

    def findings(self, session_id: str) -> Sequence[Mapping[str, Any]]:
        """Return all findings: the final ones, or those so far. Raises: ReviewNotFound."""
        session, outcome = self._read(session_id), self.outcome(session_id)
        return outcome["findings"] if outcome else self._list_streamed(session)

    def telemetry(self, session_id: str) -> dict[str, Any]:
        """Return what the session took so far, as measured. Raises: ReviewNotFound."""
        session = self._read(session_id)
        metrics = [unit.metrics for unit in _read_reviews(self._store, session)]
        metrics.append(self._read_outcome(session_id).metrics)
        return summarize_metrics(metrics, session.units, self.findings(session_id), session.workers)

    def wait(
        self,
        session_id: str,
        wait_s: float,
        *,
        after: str = "",
        cancel: threading.Event | None = None,
        report: Callable[[int, int], None] | None = None,
    ) -> ReviewSession:
        """Wait until the session is at rest, there are findings after the cursor, or the time is over.

        `report` is called with the numbers of reviewed files and of all files.

        Raises: ReviewNotFound, InvalidArgument (the cursor), Cancelled; the review itself continues.
        """
        deadline = time.monotonic() + wait_s
        last_shown, _ = _parse_cursor(after)
        cancel = cancel or threading.Event()
        while True:
            session = self.status(session_id)
            if report:
                report(session.progress.files_done, session.progress.files_total)
            has_news = bool(after) and sum(unit.findings for unit in session.units) > last_shown
            left_s = deadline - time.monotonic()
            if session.status in AT_REST or has_news or left_s <= 0:
                return session
            if cancel.wait(min(WAIT_POLL_S, left_s)):
                problem = "the call was cancelled while it waited; the review continues"
                raise Cancelled(problem, next_steps=NextStep("get_review_status"))

    def close(self) -> None:
        """Stop the sessions that run here in good order: any process can resume them."""
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            job.cancel.set()
        for job in jobs:
            job.thread.join(STOP_WAIT_S)
        self._liveness.release()
        self._store.close()

    def _read(self, session_id: str) -> ReviewSession:
        return _require(self._store.session(session_id), session_id)

    def _read_outcome(self, session_id: str) -> SessionOutcome:
        stored = self._store.body(f"{session_id}/{OUTCOME}")
        return msgspec.json.decode(stored, type=prepare_type(SessionOutcome)) if stored else SessionOutcome()

    def _list_streamed(self, session: ReviewSession) -> list[dict[str, Any]]:
        return _list_shown(_read_reviews(self._store, session), session.request.options)

    # -- which process runs what --

    def _run_here(self, session_id: str, job: ReviewJob) -> None:
        """Run a session in this process, unless a living process runs it."""
        self._liveness.acquire()
        with self._lock:
            self._job_count += 1
            owner, now = f"{self._liveness.name}.{self._job_count}", self._now()

            def take(session: ReviewSession) -> ReviewSession:
                if session.status in OWNED and self._is_alive(session):
                    return session
                units = tuple(
                    unit if unit.state == "done" else replace(unit, state="queued", queued_at=now)
                    for unit in session.units
                )
                taken = replace(session, status="running", owner=owner, units=units, updated_at=now)
                return replace(taken, error="", pause_reason="")

            blank = {OUTCOME: msgspec.json.encode(SessionOutcome())}
            session = _require(self._store.update(session_id, take, blank), session_id)
            if session.owner == owner:
                self._jobs[owner] = SessionJob(self._store, session, job, self._now, self._forget)
                self._jobs[owner].thread.start()

    def _forget(self, owner: str) -> None:
        with self._lock:
            self._jobs.pop(owner, None)

    def _is_alive(self, session: ReviewSession) -> bool:
        """Whether the owner of a session works on it, as far as its machine can be seen from here."""
        name, _, _ = session.owner.rpartition(".")
        if name == self._liveness.name:
            return session.owner in self._jobs
        is_near = name.partition("@")[2] == self._liveness.name.partition("@")[2]
        return self._liveness.is_alive(name) and (is_near or self._now() - session.updated_at < SILENT_S)

    def _refuse_when_busy(self, key: str = "") -> None:
        """Refuse one session too many; a running one of this key is not a new one."""
        if len(self._jobs) < SESSIONS_MAX:
            return
        if key not in {session.key for session in self._store.sessions() if session.status in OWNED}:
            steps = NextStep("get_review_status", "to wait for one of them"), NextStep("pause_review", "to pause one")
            problem = f"{SESSIONS_MAX} reviews are running here already"
            raise ReviewBusy(problem, next_steps=steps, details={"running": len(self._jobs)})


def _refusal(status: Status) -> PreconditionFailed:
    """Return the error for a session that can be neither paused nor resumed as it is."""
    suggestion = "Nothing is running: resume_review tries the failed units again."
    if status == "completed":
        suggestion = (
            "Every unit was reviewed: get_review_status shows what was found. reactive_review_pr reviews again."
        )
    return PreconditionFailed(f"the review is {status}", suggestion=suggestion, details={"status": status})


def _require(session: ReviewSession | None, session_id: str) -> ReviewSession:
    if session is None:
        raise ReviewNotFound(
            f"no review session is called {session_id[:60]!r}",
            next_steps=NextStep("reactive_review_pr", "to start one; its reply has the id"),
            details={"session_id": session_id[:100]},
        )
    return session


def _parse_cursor(cursor: str) -> tuple[int, int]:
    """Return how many streamed findings were shown, and how many final ones.

    >>> _parse_cursor(""), _parse_cursor("17"), _parse_cursor("17+50")
    ((0, 0), (17, 0), (17, 50))
    """
    after, _, offset = cursor.partition("+")
    for part in (after, offset):
        if part and not (part.isascii() and part.isdigit() and len(part) < CURSOR_DIGITS):
            problem = f"{cursor[:60]!r} is not a cursor"
            raise InvalidArgument(problem, suggestion="Send next_cursor of the last reply, or none to begin again.")
    return int(after or 0), int(offset or 0)
