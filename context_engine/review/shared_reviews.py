"""The interface of reviews that a team shares; without a team there are none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import apsw


class SharedReviews(ABC):
    """The reviews of one repository on all machines, for the store of one machine, which calls it under its lock."""

    @abstractmethod
    def pull(self, opened: Callable[[], apsw.Connection]) -> None:
        """Pull the changes of the others, unless that was done a moment ago. Never fails: the problem is reported."""

    @abstractmethod
    def writing(self, db: apsw.Connection, session_id: str, units: Iterable[int]) -> AbstractContextManager[None]:
        """Be the only writer of a session and of some of its units, on all machines. Raises: StorageBusy."""

    @abstractmethod
    def push_kept(self, db: apsw.Connection, name: str) -> None:
        """Share what a second call continues from; after a failure it stays on this machine."""
