"""What a team knows beside its code, as it is handed in. Every part may be missing; an answer then says less, and says so.

This module never looks anything up: whoever builds the house puts in what there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from context_engine.context.budget import Count, bound
from context_engine.model import Query


class Record(Protocol):
    """One file's past: its commits, the time of the last one in seconds since 1970."""

    @property
    def commits(self) -> int:
        """How many there are."""
        ...

    @property
    def last_at(self) -> int:
        """When the last one was."""
        ...


class Partner(Protocol):
    """A file that was changed together with another one, how often, and in what share of the other's commits."""

    @property
    def path(self) -> str:
        """The partner."""
        ...

    @property
    def together(self) -> int:
        """In how many commits."""
        ...

    @property
    def confidence(self) -> float:
        """In what share of the other file's commits."""
        ...


class Past(Protocol):
    """The history of the files."""

    def record(self, path: str) -> Record | None:
        """What happened to a file; None when no commit knows it."""
        ...

    def partners(self, path: str, *, support: int = 2, confidence: float = 0.0) -> Sequence[Partner]:
        """What changed together with a file, most often first."""
        ...

    def usually_with(self, path: str) -> Sequence[Partner]:
        """The partners that may be said aloud."""
        ...


REPOSITORY_WORDS = "quoted from files of this repository, not said by the user"
"""Whose words rules and memories are. A stranger may have written them: replies say so wherever they show any."""


class Remembered(NamedTuple):
    """A memory or discovery that still holds. `place` is where it stands: path:line, or its own file."""

    id: str
    source: Literal["memory", "discovery"]
    type: str  # decision, rule, pattern, issue, or the category of a memory
    title: str
    content: str
    place: str
    score: float  # 0 to 1

    def quoted(self, chars_max: int) -> str:
        """Return its text as the words of the file that it comes from, so that nobody takes them for the user's.

        >>> Remembered("mem_1", "memory", "rule", "Tabs", "Use tabs.", "AGENTS.md:3", 1.0).quoted(240)
        'AGENTS.md:3 says: “Use tabs.” [mem_1]'
        """
        return (
            f"{self.place} says: \u201c{' '.join((self.content or self.title).split())[:chars_max]}\u201d [{self.id}]"
        )


Recall = Callable[[str, int], Sequence[Remembered]]
"""What is remembered about a text, at most so many, best first; never what is stale."""
Ranked = Sequence[tuple[str, float]]
"""Files and what they are worth, best first."""


@dataclass(frozen=True, slots=True)
class Team:
    """`localise` ranks the files that a task is likely to change by all that is known; without it the search does."""

    count: Count = bound
    past: Past | None = None
    recall: Recall | None = None
    localise: Callable[[Query], Ranked] | None = None
