"""Run one session in this process: workers take unit after unit while one thread watches over them.

The watching thread renews the lease of the session, notices a pause, and gives up a session that another process has
taken over. If this process dies, only the units that its workers were reviewing are reviewed again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from context_engine.errors import Cancelled, ContextEngineError
from context_engine.review.review_job import ReviewJob, SessionOutcome
from context_engine.review.review_store import ReviewSession, ReviewStore, ReviewUnit, SessionUpdate
from context_engine.review.session_lifecycle import OWNED, TERMINAL_UNITS, final_event, next_status
from context_engine.timestamps import Now

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
