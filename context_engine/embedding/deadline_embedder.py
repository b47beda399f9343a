"""An embedder with deadlines, for answers and for the background: no caller waits longer than it wants.

A thread opens the embedder, loads it and embeds what answers need, queries first. A caller gets what is ready when its
time is up; what is finished later is kept. The background embeds in its own thread, in small batches, and waits while
an answer is computed. After an idle time the model's memory is freed.

An answer never fails because of the embedder: one that fails is not used for a while, longer each time, and `state`
reports why.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from heapq import heappop, heappush
from statistics import median
from typing import Literal, NamedTuple

import numpy as np

from context_engine.embedding.embedder import Embedder, Mode
from context_engine.errors import Cancelled, ContextEngineError, EmbedderFailed
from context_engine.text import CHARS_PER_TOKEN

IDLE_S = 600.0
"""Idle time before the model is freed. Loading it again takes half a second, in which answers use words alone."""
STEP_S = 0.04
"""Time of a batch for an answer, which another query has to wait for: 8 texts on a fast machine, 1 on a slow one."""
FILL_STEP_S = 0.1
"""Time of a batch of the background, which shares the processor with queries."""
QUIET_S = 0.3
"""Time after an answer in which the background still waits, because agents ask several questions in a row."""
LOOK_S = 0.1
"""Interval in which the background checks whether it may go on, or must stop."""
QUERIES_KEPT = 64
FAILING_REST_S = 5.0
"""Rest after a first failure; doubled after each further one."""
FAILING_REST_MAX_S = 300.0
ABSENT_REST_S = 30.0
"""Interval for looking again for an absent embedder: its model may be downloaded just now."""
HANGING_S = 0.5
"""A task less overdue than this ends soon, so the next one waits for it; otherwise callers do not wait."""
GIVE_UP_S = 10.0
"""A task this much overdue is canceled, and counts as a failure."""
CLOSE_WAIT_S = 0.5

Keep = Callable[[int, np.ndarray], object]
"""Gets the number of a batch's first text and its rows, in the embedding thread, possibly after the caller has left."""


class EmbedderIdentity(NamedTuple):
    """Name and properties of the opened embedder; it does not change while this process runs."""

    name: str
    fingerprint: str
    dimensions: int
    is_local: bool


@dataclass(frozen=True, slots=True)
class EmbedderStatus:
    """Why nothing is embedded, and what the user can do."""

    kind: Literal["absent", "failing"]
    message: str
    suggestion: str


@dataclass(eq=False, slots=True)
class _Task:
    """Texts that a caller waits for until a deadline."""

    texts: Sequence[str]
    mode: Mode
    until: float
    keep: Callable[[np.ndarray], object] | None = None
    cancel: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    rows: np.ndarray | None = None


class DeadlineEmbedder:
    """Wraps the embedder that `opened` returns, None for none. Thread-safe; nothing is opened before it is needed.

    Times are those of `time.monotonic`; `now` is passed in for tests.
    """

    def __init__(
        self,
        opened: Callable[[], Embedder | None],
        *,
        idle_s: float = IDLE_S,
        quiet_s: float = QUIET_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_one, self._idle_s, self._quiet_s, self._now = opened, idle_s, quiet_s, now
        self._turn = threading.Condition()  # guards all below, and is notified of every change
        self._thread: threading.Thread | None = None
        self._closing = False
        self._embedder: Embedder | None = None
        self._identity: EmbedderIdentity | None = None
        self._pace = ThroughputEstimator(0)
        self._loaded = False
        self._wish: Literal["", "open", "load"] = ""
        self._tasks: list[tuple[bool, int, _Task]] = []
        self._asked = 0
        self._running: _Task | None = None
        self._uses = 0
        self._used_at = 0.0
        self._trouble: EmbedderStatus | None = None
        self._failures = 0
        self._retry_at = -math.inf
        self._answers = 0
        self._answered_at = -math.inf
        self._recent: OrderedDict[str, np.ndarray] = OrderedDict()

    # -- what it is --

    @property
    def identity(self) -> EmbedderIdentity | None:
        """The identity of the embedder; None until it was opened once."""
        return self._identity

    @property
    def is_local(self) -> bool:
        """Whether texts stay on this machine, as far as is known: no text leaves it before that is known."""
        return self._identity is None or self._identity.is_local

    @property
    def state(self) -> str:
        """`asleep`, `loading`, `ready`, or `absent: ` and `failing: ` with the reason. Starts nothing."""
        with self._turn:
            if self._trouble:
                return f"{self._trouble.kind}: {self._trouble.message}"
            if self._loaded:
                return "ready"
            return "loading" if self._wish else "asleep"

    @property
    def suggestion(self) -> str:
        """What the user can do about an absent or failing embedder; empty otherwise."""
        with self._turn:
            if self._trouble:
                return self._trouble.suggestion
            return ""

    def ensure_open(self, until: float = 0.0) -> bool:
        """Open the embedder, and wait for it until a deadline; return whether its identity is known. Loads nothing."""
        self._prepare_until("open", until)
        return self._identity is not None

    def ensure_loaded(self, until: float = 0.0) -> bool:
        """Load the embedder, and wait for it until a deadline; return whether it is loaded."""
        self._prepare_until("load", until)
        return self._loaded

    # -- for answers --

    @contextmanager
    def answering(self) -> Generator[None]:
        """Mark that an answer is computed, for which the background waits. Every query and passage batch does this."""
        with self._turn:
            self._answers += 1
        try:
            yield
        finally:
            with self._turn:
                self._answers -= 1
                self._answered_at = self._now()
                self._turn.notify_all()

    def embed_query(self, text: str, until: float) -> np.ndarray | None:
        """Return the vector of a query; None if it cannot be made until then.

        While the embedder is loading that is at once.
        """
        with self.answering():
            with self._turn:
                if text in self._recent:
                    self._recent.move_to_end(text)
                    return self._recent[text]
            rows = self._rows_in_time(_Task([text], "query", until))
        if rows is None:
            return None
        return rows[0]

    def embed_passages(self, texts: Sequence[str], until: float, keep: Keep) -> np.ndarray:
        """Return rows of the first texts, as many as can be made until then; none if texts would leave this machine.

        Every finished batch goes to `keep`, too, after whoever waits for it has got it, so that no answer waits for a
        disk. What our errors `keep` raises are dropped.
        """
        made = [self._no_rows()]
        done = 0
        with self.answering():
            while done < len(texts) and self.is_local:
                count = self._pace.count_fitting(texts[done:], until - self._now(), STEP_S)
                batch = texts[done : done + count]
                rows = None
                if count:
                    rows = self._rows_in_time(_Task(batch, "passage", until, _from(keep, done)))
                if rows is None:
                    break
                made.append(rows)
                done += count
        return np.concatenate(made)

    # -- for the background --

    def embed_in_background(self, texts: Sequence[str], cancel: threading.Event) -> np.ndarray:
        """Return rows of the texts, made in this thread while no answer is computed, however long it takes.

        Loading and failures are waited out. Fewer rows than texts, the first ones, come back only when it was canceled
        or closed, or when the embedder is absent.
        """
        made = [self._no_rows()]
        done = 0
        while done < len(texts) and self.wait_until_idle(cancel):
            if not self._is_ready():
                if self._trouble and self._trouble.kind == "absent":
                    break
                cancel.wait(LOOK_S)
                continue
            batch = texts[done : done + self._fill_count(texts[done:])]
            rows = self._embed(batch, "passage", cancel)
            if rows is not None:
                made.append(rows)
                done += len(batch)
        return np.concatenate([part for part in made if len(part)] or [self._no_rows()])

    def wait_until_idle(self, cancel: threading.Event) -> bool:
        """Wait until no answer is or was just computed; return False if canceled or closed meanwhile."""
        while not (cancel.is_set() or self._closing):
            with self._turn:
                if self._answers:
                    rest = LOOK_S
                else:
                    rest = self._answered_at + self._quiet_s - self._now()
                if rest <= 0:
                    return True
                self._turn.wait(min(rest, LOOK_S))
        return False

    def close(self) -> None:
        """End the thread and free the model, soon even if a remote one hangs; callers that wait get nothing."""
        with self._turn:
            self._closing = True
            if self._running:
                self._running.cancel.set()
            for _, _, task in self._tasks:
                task.done.set()
            self._tasks.clear()
            self._turn.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(CLOSE_WAIT_S)

    # -- inside: asking --

    def _prepare_until(self, wish: Literal["open", "load"], until: float) -> None:
        with self._turn:
            self._want(wish)
            self._turn.wait_for(lambda: self._closing or not self._wish, max(0.0, until - self._now()))

    def _want(self, wish: Literal["open", "load"]) -> None:
        """Let the thread open or load, unless that is done or a failure is too recent. The lock is held."""
        done = self._loaded or (wish == "open" and self._identity is not None)
        if done or self._closing or self._now() < self._retry_at:
            return
        self._wish = max(self._wish, wish, key=("", "open", "load").index)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="ctx-embedder", daemon=True)
            self._thread.start()
        self._turn.notify_all()

    def _is_ready(self) -> bool:
        """Return whether a text can be embedded now; if not, start what is missing."""
        with self._turn:
            self._want("load")
            return self._loaded and not self._closing and self._now() >= self._retry_at

    def _rows_in_time(self, task: _Task) -> np.ndarray | None:
        """Return the rows of a task, None if they are late; None at once if the embedder hangs."""
        if not self._is_ready() or self._hangs():
            return None
        with self._turn:
            self._asked += 1
            heappush(self._tasks, (task.mode != "query", self._asked, task))
            self._turn.notify_all()
        task.done.wait(max(0.0, task.until - self._now()))
        return task.rows

    def _hangs(self) -> bool:
        """Return whether the thread is busy with an overdue task that will not end soon."""
        with self._turn:
            overdue_s = -1.0
            if self._running:
                overdue_s = self._now() - self._running.until
            if self._running and overdue_s > GIVE_UP_S and not self._running.cancel.is_set():
                self._running.cancel.set()
                self._record_failure(
                    EmbedderFailed(
                        "it did not answer in time", suggestion="It is asked again later; search goes on by words."
                    )
                )
            return overdue_s > HANGING_S

    def _fill_count(self, texts: Sequence[str]) -> int:
        """Return a small batch if the processor is shared, everything for another machine."""
        if self.is_local:
            return self._pace.count_fitting(texts, math.inf, FILL_STEP_S)
        return len(texts)

    def _no_rows(self) -> np.ndarray:
        return np.zeros((0, self._identity.dimensions if self._identity else 0), np.float32)

    def _remember(self, text: str, row: np.ndarray) -> None:
        """Keep the vector of a query. The lock is held."""
        self._recent[text] = row
        while len(self._recent) > QUERIES_KEPT:
            self._recent.popitem(last=False)

    # -- inside: doing --

    def _work(self) -> None:
        while (step := self._next()) is not None:
            try:
                step()
            except Exception as error:  # noqa: BLE001 - a thread has no caller; `state` has the error
                self._record_failure(error)
        self._fall_asleep()

    def _next(self) -> Callable[[], None] | None:
        """Return the next step of the thread, None when it ends."""
        with self._turn:
            while not self._closing:
                if self._wish:
                    return self._prepare
                if self._tasks:
                    task = heappop(self._tasks)[-1]
                    return lambda: self._serve(task)
                if self._uses:
                    rest = self._idle_s
                else:
                    rest = self._used_at + self._idle_s - self._now()
                if self._loaded and rest <= 0:
                    return self._fall_asleep
                self._turn.wait(rest if self._loaded else None)
            return None

    def _prepare(self) -> None:
        """Open, and load if wanted. Loading is done by embedding no texts."""
        try:
            if self._embedder is None:
                self._open()
            if self._embedder is not None and self._wish == "load":
                self._embed([], "query", threading.Event())
        finally:
            with self._turn:
                self._wish = ""
                self._turn.notify_all()

    def _open(self) -> None:
        """Open the embedder and read its identity. Another model than before would mix vectors, and is refused."""
        try:
            embedder = self._open_one()
        except ContextEngineError as error:
            return self._record_absence(error.message, error.suggestion)
        if embedder is None:
            return self._record_absence("no embedder is configured", "Configure one; search goes on by words.")
        try:
            identity = EmbedderIdentity(embedder.name, embedder.fingerprint, embedder.dimensions, embedder.is_local)
        except BaseException:
            embedder.close()
            raise
        if self._identity not in (None, identity):
            embedder.close()
            return self._record_absence(f"{identity.name} is another model than before", "Restart, and it is used.")
        with self._turn:
            if self._identity is None:
                self._pace = ThroughputEstimator(embedder.tokens_max)
            self._embedder, self._identity, self._trouble = embedder, identity, None
        return None

    def _serve(self, task: _Task) -> None:
        """Embed for a caller that still waits."""
        with self._turn:
            if task.until <= self._now() or self._closing:
                task.done.set()
                return
            self._running = task
        try:
            task.rows = self._embed(task.texts, task.mode, task.cancel)
        finally:
            with self._turn:
                self._running = None
                if task.rows is not None and task.mode == "query":
                    self._remember(task.texts[0], task.rows[0])
            task.done.set()
        if task.rows is not None and task.keep is not None:
            with suppress(ContextEngineError):
                task.keep(task.rows)

    def _embed(self, texts: Sequence[str], mode: Mode, cancel: threading.Event) -> np.ndarray | None:
        """Return the rows of the texts; None, and record the failure, if the embedder fails."""
        with self._turn:
            embedder = self._embedder
            self._uses += embedder is not None
        if embedder is None:
            return None
        began = time.monotonic()
        try:
            rows = embedder.embed(texts, mode, cancel=cancel)
        except Cancelled:
            return None
        except Exception as error:  # noqa: BLE001 - whatever a model or an endpoint does, an answer goes on by words
            self._record_failure(error)
            return None
        finally:
            with self._turn:
                self._uses -= 1
                self._used_at = self._now()
        self._pace.record(texts, time.monotonic() - began)
        with self._turn:
            self._loaded = self._embedder is embedder  # it may have fallen asleep this very moment
            self._trouble, self._failures, self._retry_at = None, 0, -math.inf
        return rows

    def _fall_asleep(self) -> None:
        """Free the model's memory, unless it is in use."""
        with self._turn:
            if self._uses and not self._closing:
                return
            embedder, self._embedder, self._loaded = self._embedder, None, False
        if embedder is not None:
            embedder.close()

    # -- inside: trouble --

    def _record_absence(self, message: str, suggestion: str) -> None:
        with self._turn:
            self._trouble = EmbedderStatus("absent", message, suggestion)
            self._retry_at = self._now() + ABSENT_REST_S

    def _record_failure(self, error: Exception) -> None:
        """Do not use the embedder for a while; longest after an error that only the user can correct."""
        with self._turn:
            if self._closing:
                return
            self._failures += 1
            rest_s = min(FAILING_REST_MAX_S, FAILING_REST_S * 2.0 ** min(self._failures - 1, 10))
            message, suggestion = f"{type(error).__name__}: {error}", "Please report this."
            if isinstance(error, ContextEngineError):
                message, suggestion = error.message, error.suggestion
                if not error.retryable:
                    rest_s = FAILING_REST_MAX_S
                rest_s = max(rest_s, error.details.get("retry_after_s", 0.0))
            self._retry_at = self._now() + rest_s
            self._trouble = EmbedderStatus("failing", message, suggestion)
            self._turn.notify_all()


def _from(keep: Keep, first: int) -> Callable[[np.ndarray], object]:
    return lambda rows: keep(first, rows)


# -- throughput -------------------------------------------------------------------------------------------------------


TEXT_S = 0.05
"""Assumed time of a full text before any was measured, that of the slowest machine tried."""
TEXT_CHARS = 40
"""Characters added to each text for its fixed cost."""
MEASURED_MAX = 5
"""Batches in the median: one slow batch has no effect."""


class ThroughputEstimator:
    """Seconds for each character that a model of `tokens_max` reads. Threads may share it."""

    def __init__(self, tokens_max: int) -> None:
        self._chars_max = tokens_max * CHARS_PER_TOKEN
        self._measured: tuple[float, ...] = ()

    def record(self, texts: Sequence[str], seconds: float) -> None:
        """Record the time of a batch."""
        if texts:
            self._measured = (*self._measured[1 - MEASURED_MAX :], seconds / sum(map(self._chars, texts)))

    def count_fitting(self, texts: Sequence[str], seconds: float, step_s: float) -> int:
        """Return how many of the first texts make a batch of `step_s`: at least one, if that takes at most `seconds`.

        >>> estimator = ThroughputEstimator(128)
        >>> estimator.count_fitting(["x" * 500] * 9, 1.0, 0.15), estimator.count_fitting(["x" * 500], 0.01, 0.15)
        (3, 0)
        """
        pace = median(self._measured or [TEXT_S / (TEXT_CHARS + self._chars_max)])
        spent, count = 0.0, 0
        for text in texts:
            spent += pace * self._chars(text)
            if spent > (min(step_s, seconds) if count else seconds):
                break
            count += 1
        return count

    def _chars(self, text: str) -> int:
        return TEXT_CHARS + min(len(text), self._chars_max)
