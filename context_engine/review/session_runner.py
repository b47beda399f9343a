"""One session, run in this process: workers take unit after unit, one thread watches over them.

The watcher keeps the lease of the session alive, hears of a pause that anybody asked for, and gives up a session that
somebody else has taken over. What is lost with this process is what its workers had in their hands, and nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from context_engine.errors import Cancelled, ContextEngineError
from context_engine.review.review_store import ReviewSession, ReviewStore, ReviewUnit, UnitCheckpoint
from context_engine.review.session_lifecycle import OWNED, TERMINAL_UNITS, final_event, next_status
from context_engine.storage.timestamps import Now

LEASE_S = 30.0
BEAT_S = 10.0
"""Two beats may be missed, by a machine that swaps, before somebody else takes over."""
POLL_S = 0.2
"""How soon a pause that another process asked for is heard: nobody notices it, and a look takes 20 microseconds."""
GRACE_S = 10.0
"""Units under way when a pause is asked for may take so long to end; then they go back to the queue."""
TRIES_MAX = 2
"""An analyser that ran out of time on a busy machine deserves another try; what is broken fails twice."""
ERROR_CHARS_MAX = 1_000


class SessionOutcome(NamedTuple):
    """What a review comes to, as JSON, and what a second look at it goes on from; empty when there can be none."""

    outcome: bytes
    kept: bytes = b""


class Job(Protocol):
    """One change, as it is reviewed."""

    def review_files(self, paths: Sequence[str], cancel: threading.Event) -> UnitCheckpoint:
        """Review some of its files. Raises: Cancelled soon after `cancel` is set."""
        ...

    def conclude(
        self, bodies: Mapping[str, bytes], failed: Sequence[ReviewUnit], cancel: threading.Event
    ) -> SessionOutcome:
        """What all of it comes to, out of what was left of each path. Raises: Cancelled."""
        ...


@dataclass(frozen=True, slots=True)
class SessionTiming:
    """How a runner keeps time; `now` are seconds since 1970."""

    now: Now
    lease_s: float = LEASE_S
    beat_s: float = BEAT_S
    grace_s: float = GRACE_S
    poll_s: float = POLL_S


class SessionRunner:
    """Runs one session that was moved to `running` for `owner`, until it is over, paused, taken away or stopped."""

    def __init__(
        self, store: ReviewStore, session: ReviewSession, job: Job, pace: SessionTiming, *, ended: Callable[[str], None]
    ) -> None:
        self._store = store
        self._id = session.id
        self._owner = session.owner
        self._workers = session.workers
        self._job = job
        self._pace = pace
        self._ended = ended
        self._cancel = threading.Event()
        self._wake = threading.Event()
        self._problem = ""
        self._beat_at = 0.0
        self._thread = threading.Thread(target=self._run, name=f"ctx-review-{self._id[-8:]}", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def wake(self) -> None:
        """Look at once whether something was asked for."""
        self._wake.set()

    def stop(self) -> None:
        """End in good order: what is under way goes back to the queue."""
        self._cancel.set()
        self._wake.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for its end; whether it came."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # -- watching --

    def _run(self) -> None:
        try:
            while True:
                self._watched([self._work] * self._workers)
                if self._is_to_be_concluded():
                    self._watched([self._conclude])
                if self._has_let_go():
                    return
        except ContextEngineError as error:  # the disk: the session stays as it is, and is seen to be nobody's
            self._problem = error.message
            self._cancel.set()
        finally:
            self._ended(self._owner)

    def _watched(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Run tasks side by side, and watch over the session until they have ended or nothing is to be done any more."""
        threads = [
            threading.Thread(target=self._told, args=(task,), name=f"ctx-review-unit-{number}", daemon=True)
            for number, task in enumerate(tasks)
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            self._wake.wait(self._pace.poll_s)
            self._wake.clear()
            if not self._is_still_ours() or self._is_out_of_grace():
                self._cancel.set()
                return

    def _told(self, task: Callable[[], None]) -> None:
        """A task; what keeps it from going on is kept for the end."""
        try:
            task()
        except ContextEngineError as error:
            self._problem = error.message
            self._cancel.set()
        finally:
            self._wake.set()

    def _is_still_ours(self) -> bool:
        now = self._pace.now()
        if now < self._beat_at:
            session = self._store.session(self._id)
            return session is not None and session.owner == self._owner
        self._beat_at = now + self._pace.beat_s
        return self._store.renew_lease(self._id, self._owner, now + self._pace.lease_s) is not None

    def _is_out_of_grace(self) -> bool:
        """Whether a pause was asked for so long ago that units under way must go back to the queue; they do."""
        session = self._store.session(self._id)
        now = self._pace.now()
        if session is None or session.status != "pausing" or now < session.updated_at + self._pace.grace_s:
            return False
        self._move(self._settled, requeue=("running",))
        return True

    # -- working --

    def _work(self) -> None:
        """Unit after unit, as long as there are any."""
        while not self._cancel.is_set():
            unit = self._store.take(self._id, self._owner, self._pace.now())
            if unit is None:
                return
            self._review(unit)
            self._wake.set()

    def _review(self, unit: ReviewUnit) -> None:
        now = self._pace.now
        try:
            left = self._job.review_files(unit.paths, self._cancel)
        except Cancelled:
            self._store.give_back(self._id, unit, now())
        except Exception as error:  # noqa: BLE001 - a defect of one check must not end the review of everything else
            self._store.fail(self._id, unit, format_error(error), now(), again=unit.tries < TRIES_MAX)
        else:
            self._store.checkpoint(self._id, unit, left, now())

    # -- ending --

    def _is_to_be_concluded(self) -> bool:
        session = self._store.session(self._id)
        if self._cancel.is_set() or session is None or session.owner != self._owner or session.status != "running":
            return False
        return all(unit.state in TERMINAL_UNITS for unit in self._store.units(self._id))

    def _conclude(self) -> None:
        units = self._store.units(self._id)
        failed = [unit for unit in units if unit.state == "failed"]
        happening = final_event([unit.state for unit in units])
        concluded, error = SessionOutcome(b""), next((unit.error for unit in failed), "")
        try:
            concluded = self._job.conclude(self._store.bodies(self._id), failed, self._cancel)
        except Cancelled:
            return
        except Exception as problem:  # noqa: BLE001 - told as the state of the session
            happening, error = "fail", format_error(problem)

        def over(session: ReviewSession) -> ReviewSession:
            after = next_status(session.status, happening)
            return replace(session, status=after, outcome=concluded.outcome, error=error, owner="", lease_until=0.0)

        if concluded.kept:
            self._store.keep(self._id, concluded.kept, self._pace.now())
        self._move(over)
        self._store.trim()

    def _has_let_go(self) -> bool:
        """Leave the session as it must be found: paused, failed, or for whoever takes it up.

        False if it goes on after all.
        """

        def let_go(session: ReviewSession) -> ReviewSession:
            if session.status == "pausing":
                return self._settled(session)
            if self._problem:
                return replace(session, status=next_status(session.status, "fail"), error=self._problem, owner="")
            if self._cancel.is_set():
                return replace(session, status=next_status(session.status, "release"), owner="", lease_until=0.0)
            return session  # somebody resumed it while the last units ended

        session = self._move(let_go, requeue=("running",))
        return session is None or session.owner != self._owner

    def _settled(self, session: ReviewSession) -> ReviewSession:
        if session.status != "pausing":
            return session
        return replace(session, status=next_status(session.status, "settle"), owner="", lease_until=0.0)

    def _move(
        self, decide: Callable[[ReviewSession], ReviewSession], *, requeue: Collection[str] = ()
    ) -> ReviewSession | None:
        """Change the session, if it is still ours and under way."""
        at = self._pace.now()

        def ours(session: ReviewSession) -> ReviewSession:
            if session.owner != self._owner or session.status not in OWNED:
                return session
            after = decide(session)
            return after if after == session else replace(after, updated_at=at)

        return self._store.move(self._id, ours, requeue=requeue, at=at)


def format_error(error: Exception) -> str:
    """What went wrong, in one line, as it is kept."""
    said = error.message if isinstance(error, ContextEngineError) else f"{type(error).__name__}: {error}"
    return " ".join(said.split())[:ERROR_CHARS_MAX]
