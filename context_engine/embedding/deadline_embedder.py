"""One embedder that may be slow, for answers and for the background: nobody waits for it longer than allowed.

A thread of our own opens it, loads it and embeds what answers need, queries first. Who asks gets what is there when the
time is up, and what is finished later is kept. The background embeds in its own thread, in small batches, and stands
back while an answer is under way. After an idle time the model's memory is given back.

Trouble never reaches an answer: an embedder that fails is left alone for a while, longer each time, and `state` says
why.
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
from typing import Literal, NamedTuple

import numpy as np

from context_engine.embedding.embedder import Embedder, Mode
from context_engine.embedding.throughput import ThroughputEstimator
from context_engine.errors import Cancelled, ContextEngineError, EmbedderFailed

IDLE_S = 600.0
"""A pause in somebody's work; loading again takes half a second, in which answers go by words."""
STEP_S = 0.04
"""A batch of an answer. Another query waits for it at most; on a quick machine 8 texts, on a slow one a single one."""
FILL_STEP_S = 0.1
"""A batch of the background, which shares the processor with a query that comes meanwhile."""
QUIET_S = 0.3
"""Agents ask several questions in a row: so long after an answer the background still stands back."""
LOOK_S = 0.1
"""How often the background looks whether it may go on, or must stop."""
QUERIES_KEPT = 64
FAILING_REST_S = 5.0
"""How long an embedder is left alone after its first failure; doubled each time."""
FAILING_REST_MAX_S = 300.0
ABSENT_REST_S = 30.0
"""How often it is looked for again: somebody may be fetching the model just now."""
HANGING_S = 0.5
"""What is less overdue ends in a moment, and who comes next may wait for it; for anything else nobody waits."""
GIVE_UP_S = 10.0
"""What is so much overdue will not come: it is cancelled, and counts as a failure."""
CLOSE_WAIT_S = 0.5

Keep = Callable[[int, np.ndarray], object]
"""Gets the number of a batch's first text and its rows, in the embedding thread, maybe when nobody waits any more."""


class EmbedderIdentity(NamedTuple):
    """What an opened embedder said of itself: never another one as long as this process lives."""

    name: str
    fingerprint: str
    dimensions: int
    is_local: bool


@dataclass(frozen=True, slots=True)
class EmbedderStatus:
    """Why nothing is embedded, and what a person can do."""

    kind: Literal["absent", "failing"]
    message: str
    suggestion: str


@dataclass(eq=False, slots=True)
class _Task:
    """Texts that somebody waits for until a moment, and no longer."""

    texts: Sequence[str]
    mode: Mode
    until: float
    keep: Callable[[np.ndarray], object] | None = None
    cancel: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    rows: np.ndarray | None = None


class DeadlineEmbedder:
    """The embedder that `opened` gives, None for none. Thread-safe; nothing is opened before somebody asks.

    Moments are those of `time.monotonic`; `now` is handed in for tests.
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
        self._turn = threading.Condition()  # guards all below, and is told of every change
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
        """What the embedder says of itself; None as long as it was never opened."""
        return self._identity

    @property
    def is_local(self) -> bool:
        """Whether texts stay on this machine, as far as is known: no text leaves it before that."""
        return self._identity is None or self._identity.is_local

    @property
    def state(self) -> str:
        """`asleep`, `loading`, `ready`, or `absent: ` and `failing: ` with the reason. Asks for nothing."""
        with self._turn:
            if self._trouble:
                return f"{self._trouble.kind}: {self._trouble.message}"
            return "ready" if self._loaded else "loading" if self._wish else "asleep"

    @property
    def suggestion(self) -> str:
        """What a person can do about an absent or failing embedder; empty for any other."""
        with self._turn:
            return self._trouble.suggestion if self._trouble else ""

    def ensure_open(self, until: float = 0.0) -> bool:
        """Have it opened, and wait for that until a moment; whether its identity is known. Loads nothing."""
        self._prepared("open", until)
        return self._identity is not None

    def ensure_loaded(self, until: float = 0.0) -> bool:
        """Have it loaded, and wait for that until a moment; whether it is."""
        self._prepared("load", until)
        return self._loaded

    # -- for answers --

    @contextmanager
    def answering(self) -> Generator[None]:
        """An answer is under way, to which the background yields. Every query and every batch of passages is one."""
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
        """The vector of a query; None when it cannot be had until then.

        While the embedder is loading that is at once.
        """
        with self.answering():
            with self._turn:
                if text in self._recent:
                    self._recent.move_to_end(text)
                    return self._recent[text]
            rows = self._rows_in_time(_Task([text], "query", until))
        return None if rows is None else rows[0]

    def embed_passages(self, texts: Sequence[str], until: float, keep: Keep) -> np.ndarray:
        """Rows of the first texts, as many as can be made until then; none where the texts would leave this machine.

        Every finished batch goes to `keep`, too, after whoever waits for it has got it, so that no answer waits for a
        disk. What our errors `keep` raises are dropped.
        """
        made = [self._no_rows()]
        done = 0
        with self.answering():
            while done < len(texts) and self.is_local:
                count = self._pace.count_fitting(texts[done:], until - self._now(), STEP_S)
                batch = texts[done : done + count]
                rows = self._rows_in_time(_Task(batch, "passage", until, _from(keep, done))) if count else None
                if rows is None:
                    break
                made.append(rows)
                done += count
        return np.concatenate(made)

    # -- for the background --

    def embed_in_background(self, texts: Sequence[str], cancel: threading.Event) -> np.ndarray:
        """Rows of the texts, made in this thread whenever no answer is under way, however long it takes.

        Loading and failures are waited out. Fewer rows than texts, the first ones, come back only when it was cancelled
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
            rows = self._embedded(batch, "passage", cancel)
            if rows is not None:
                made.append(rows)
                done += len(batch)
        return np.concatenate([part for part in made if len(part)] or [self._no_rows()])

    def wait_until_idle(self, cancel: threading.Event) -> bool:
        """Wait until no answer is under way nor was a moment ago; False when it was cancelled or closed meanwhile."""
        while not (cancel.is_set() or self._closing):
            with self._turn:
                rest = LOOK_S if self._answers else self._answered_at + self._quiet_s - self._now()
                if rest <= 0:
                    return True
                self._turn.wait(min(rest, LOOK_S))
        return False

    def close(self) -> None:
        """End the thread and free the model, soon even when a remote one hangs; who waits gets nothing."""
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

    def _prepared(self, wish: Literal["open", "load"], until: float) -> None:
        with self._turn:
            self._want(wish)
            self._turn.wait_for(lambda: self._closing or not self._wish, max(0.0, until - self._now()))

    def _want(self, wish: Literal["open", "load"]) -> None:
        """Have the thread open or load, unless that is done or trouble is too young. The lock is held."""
        done = self._loaded or (wish == "open" and self._identity is not None)
        if done or self._closing or self._now() < self._retry_at:
            return
        self._wish = max(self._wish, wish, key=("", "open", "load").index)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="ctx-embedder", daemon=True)
            self._thread.start()
        self._turn.notify_all()

    def _is_ready(self) -> bool:
        """Whether a text can be embedded now; if not, it is seen to."""
        with self._turn:
            self._want("load")
            return self._loaded and not self._closing and self._now() >= self._retry_at

    def _rows_in_time(self, task: _Task) -> np.ndarray | None:
        """The rows of a task, None if they are not there in time; where something hangs, at once."""
        if not self._is_ready() or self._hangs():
            return None
        with self._turn:
            self._asked += 1
            heappush(self._tasks, (task.mode != "query", self._asked, task))
            self._turn.notify_all()
        task.done.wait(max(0.0, task.until - self._now()))
        return task.rows

    def _hangs(self) -> bool:
        """Whether the thread is at something that nobody waits for any more, and that will not end soon."""
        with self._turn:
            overdue_s = self._now() - self._running.until if self._running else -1.0
            if self._running and overdue_s > GIVE_UP_S and not self._running.cancel.is_set():
                self._running.cancel.set()
                self._failed(
                    EmbedderFailed(
                        "it did not answer in time", suggestion="It is asked again later; search goes on by words."
                    )
                )
            return overdue_s > HANGING_S

    def _fill_count(self, texts: Sequence[str]) -> int:
        """A small batch where the processor is shared; what is asked of another machine is asked at once."""
        return self._pace.count_fitting(texts, math.inf, FILL_STEP_S) if self.is_local else len(texts)

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
            except Exception as error:  # noqa: BLE001 - a thread has nobody to raise to; `state` tells it
                self._failed(error)
        self._fall_asleep()

    def _next(self) -> Callable[[], None] | None:
        """What the thread does next, None when it ends."""
        with self._turn:
            while not self._closing:
                if self._wish:
                    return self._prepare
                if self._tasks:
                    task = heappop(self._tasks)[-1]
                    return lambda: self._serve(task)
                rest = self._idle_s if self._uses else self._used_at + self._idle_s - self._now()
                if self._loaded and rest <= 0:
                    return self._fall_asleep
                self._turn.wait(rest if self._loaded else None)
            return None

    def _prepare(self) -> None:
        """Open, and load if that is wanted. An embedder that gets no texts gets ready for some."""
        try:
            if self._embedder is None:
                self._open()
            if self._embedder is not None and self._wish == "load":
                self._embedded([], "query", threading.Event())
        finally:
            with self._turn:
                self._wish = ""
                self._turn.notify_all()

    def _open(self) -> None:
        """Open the embedder and learn who it is: another one than before would mix vectors, and is refused."""
        try:
            embedder = self._open_one()
        except ContextEngineError as error:
            return self._absent(error.message, error.suggestion)
        if embedder is None:
            return self._absent("no embedder is configured", "Configure one; search goes on by words.")
        try:
            identity = EmbedderIdentity(embedder.name, embedder.fingerprint, embedder.dimensions, embedder.is_local)
        except BaseException:
            embedder.close()
            raise
        if self._identity not in (None, identity):
            embedder.close()
            return self._absent(f"{identity.name} is another model than before", "Restart, and it is used.")
        with self._turn:
            if self._identity is None:
                self._pace = ThroughputEstimator(embedder.tokens_max)
            self._embedder, self._identity, self._trouble = embedder, identity, None
        return None

    def _serve(self, task: _Task) -> None:
        """Embed for whoever still waits."""
        with self._turn:
            if task.until <= self._now() or self._closing:
                task.done.set()
                return
            self._running = task
        try:
            task.rows = self._embedded(task.texts, task.mode, task.cancel)
        finally:
            with self._turn:
                self._running = None
                if task.rows is not None and task.mode == "query":
                    self._remember(task.texts[0], task.rows[0])
            task.done.set()
        if task.rows is not None and task.keep is not None:
            with suppress(ContextEngineError):
                task.keep(task.rows)

    def _embedded(self, texts: Sequence[str], mode: Mode, cancel: threading.Event) -> np.ndarray | None:
        """The rows of the texts; None, and a note of it, when the embedder fails."""
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
            self._failed(error)
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
        """Free the model's memory, unless somebody is using it."""
        with self._turn:
            if self._uses and not self._closing:
                return
            embedder, self._embedder, self._loaded = self._embedder, None, False
        if embedder is not None:
            embedder.close()

    # -- inside: trouble --

    def _absent(self, message: str, suggestion: str) -> None:
        with self._turn:
            self._trouble = EmbedderStatus("absent", message, suggestion)
            self._retry_at = self._now() + ABSENT_REST_S

    def _failed(self, error: Exception) -> None:
        """Leave the embedder alone for a while: what only a person can mend for the longest."""
        ours = error if isinstance(error, ContextEngineError) else None
        with self._turn:
            if self._closing:
                return
            self._failures += 1
            rest_s = min(FAILING_REST_MAX_S, FAILING_REST_S * 2.0 ** min(self._failures - 1, 10))
            if ours and not ours.retryable:
                rest_s = FAILING_REST_MAX_S
            stated_s = ours.details.get("retry_after_s", 0.0) if ours else 0.0
            self._retry_at = self._now() + max(rest_s, stated_s)
            message = ours.message if ours else f"{type(error).__name__}: {error}"
            self._trouble = EmbedderStatus("failing", message, ours.suggestion if ours else "Please report this.")
            self._turn.notify_all()


def _from(keep: Keep, first: int) -> Callable[[np.ndarray], object]:
    return lambda rows: keep(first, rows)
