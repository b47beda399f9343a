"""Synchronizes vectors with the remote store of a team: fetches what others embedded, publishes what is made here.

Every machine fetches; only publishers send, because a wrong vector would mislead all. While the remote store does not
answer nothing is exchanged. It is asked again later, and embedding goes on without it.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from context_engine.embedding import Keys, VectorRows, VectorSpace
from context_engine.errors import ContextEngineError
from context_engine.index import Snapshot
from context_engine.semantic.missing_vectors import CARDS, KINDS, Mask, MissingVectors
from context_engine.semantic.vector_store import VectorStore
from context_engine.sharing import RemoteVectorStore

AT_ONCE = 4_096
"""Vectors between two checks for cancellation: 1.7 MB of 384 numbers, a tenth of a second with a database nearby."""
GIVE_REST_S = 5.0
"""Interval of publishing while much is embedded: a machine that fills at the same time repeats little of it."""
RETRY_S = 60.0
"""Rest after a failure of the remote store: its user is informed, and texts are embedded here."""
RELOOK_S = 3_600.0
"""Interval for checking whether the remote store still has what it got: a second of a database for 100,000 keys."""
STAMP_DAYS = 7
"""Age at which a vector's day is written again: a seventh of the rows a day, and not all of them."""
KEPT_DAYS = 60
"""Age at which unused vectors are dropped: longer than a release branch rests between two fixes."""
DAY_S = 86_400

Answer = TypeVar("Answer")


class VectorSync:
    """Exchanges the vectors of one workspace and one model with a remote store, in a thread of its own.

    Any thread may read `fetched_count` and `error`.

    `opened` gives the remote store, None where there is no team; `today` the day since 1970.
    """

    def __init__(
        self,
        opened: Callable[[], RemoteVectorStore] | None = None,
        repository: str = "",
        *,
        publishes: bool = False,
        now: Callable[[], float] = time.monotonic,
        today: Callable[[], int] = lambda: int(time.time() // DAY_S),
    ) -> None:
        self.fetched_count = 0
        """Vectors that came from the team since this was made."""
        self.error: ContextEngineError | None = None
        """Why nothing is exchanged at present."""
        self.publishes = publishes and opened is not None
        self._opened, self._repository, self._now, self._today = opened, repository, now, today
        self._remote: RemoteVectorStore | None = None
        self._gaps = MissingVectors()
        self._retry_at = 0.0
        self._gave_at = self._looked_at = now()
        self._tidied_on = 0
        self._given: weakref.ref[Snapshot] | None = None

    # -- taking --

    def fetch(self, vectors: VectorStore, keys: Keys, cancel: threading.Event) -> int:
        """Store here what the team has of some keys; return how many vectors came."""
        before = self.fetched_count
        for start in range(0, len(keys), AT_ONCE):
            portion = keys[start : start + AT_ONCE]
            answer = self._query(lambda remote, some=portion: remote.fetch(self._repository, vectors.space, some))
            if answer is None or cancel.is_set():
                break
            rows, found = answer
            self.fetched_count += vectors.put_rows(portion[found], _some(rows, found))
        return self.fetched_count - before

    # -- giving --

    def publish(self, snapshot: Snapshot, vectors: VectorStore) -> bool:
        """Publish what the team lacks of a snapshot; return False if the remote store is not available."""
        if self.publishes and self._query(lambda remote: self._settle(remote, snapshot, vectors)):
            self._given = weakref.ref(snapshot)
        elif self.error:
            some = CARDS.keys(snapshot)[:1]
            self._query(lambda remote: remote.contains(self._repository, vectors.space, some))  # is it back?
        return self.error is None

    def publish_periodically(self, snapshot: Snapshot, vectors: VectorStore) -> None:
        """Publish while filling, if the last time was some seconds ago."""
        if self.publishes and self._now() - self._gave_at >= GIVE_REST_S:
            self._query(lambda remote: self._give(remote, snapshot, vectors))

    def has_published(self, snapshot: Snapshot) -> bool:
        """Return whether all vectors of a snapshot were published, or none are published from here."""
        return not self.publishes or (self._given is not None and self._given() is snapshot)

    def _settle(self, remote: RemoteVectorStore, snapshot: Snapshot, vectors: VectorStore) -> bool:
        """Publish what is lacking and, once a day, mark what is in use and delete what was not used for long."""
        self._give(remote, snapshot, vectors)
        today = self._today()
        if today != self._tidied_on:
            keys = np.concatenate([part.keys(snapshot)[part.alive(snapshot)] for part in KINDS])
            remote.mark_used(self._repository, vectors.space, keys, today, today - STAMP_DAYS)
            remote.delete_unused(self._repository, today - KEPT_DAYS)
            self._tidied_on = today
        return True

    def _give(self, remote: RemoteVectorStore, snapshot: Snapshot, vectors: VectorStore) -> bool:
        there = _There(remote, self._repository, vectors.space)
        self._look_again(there)
        for part in KINDS:
            keys = part.keys(snapshot)
            lacking = np.flatnonzero(self._gaps.find_missing(part, snapshot, there))
            here = lacking[~vectors.missing(keys[lacking])]
            for start in range(0, len(here), AT_ONCE):
                portion = here[start : start + AT_ONCE]
                rows, found = vectors.get(keys[portion])
                own = keys[portion][found]
                remote.put(self._repository, vectors.space, own, _some(rows, found), self._today())
                self._gaps.update(part, snapshot, there, portion)
        self._gave_at = self._now()
        return True

    def _look_again(self, there: _There) -> None:
        """Look again now and then: the remote store may have been emptied."""
        if self._now() - self._looked_at >= RELOOK_S:
            self._looked_at = self._now()
            self._gaps.refresh(there, at_all=True)

    # -- the remote store --

    def retry_now(self) -> None:
        """Ask the remote store at once, whatever failed before, because a caller waits."""
        self.error, self._retry_at = None, 0.0

    def _query(self, question: Callable[[RemoteVectorStore], Answer]) -> Answer | None:
        """Return the answer of the remote store; None without one, while it fails, and for a while after."""
        if self._opened is None or self._now() < self._retry_at:
            return None
        try:
            self._remote = self._remote or self._opened()
            answer = question(self._remote)
        except ContextEngineError as error:
            self.error, self._retry_at = error, self._now() + RETRY_S
            return None
        self.error = None
        return answer

    def close(self) -> None:
        """Close the connections."""
        if self._remote is not None:
            self._remote.close()


class _There:
    """The missing vectors of a remote store, for `MissingVectors`."""

    def __init__(self, remote: RemoteVectorStore, repository: str, space: VectorSpace) -> None:
        self.space = space
        self._remote, self._repository = remote, repository

    def missing(self, keys: Keys) -> Mask:
        """Return which keys have no vector there."""
        return ~self._remote.contains(self._repository, self.space, keys)


def _some(rows: VectorRows, found: Mask) -> VectorRows:
    return VectorRows(rows.values[found], rows.scales[found])
