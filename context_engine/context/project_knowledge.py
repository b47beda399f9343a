"""What a team knows beside its code, as it is handed in.

Every part may be missing; an answer then says less, and says so.

This module never looks anything up: whoever builds the house puts in what there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from context_engine.context.budget import TokenCounter, estimate_max_tokens
from context_engine.model import Query

if TYPE_CHECKING:
    from context_engine.history import FileHistory


QUOTED_FROM_REPOSITORY = "quoted from files of this repository, not said by the user"
"""Whose words rules and memories are. A stranger may have written them: replies say so wherever they show any."""


class RememberedItem(NamedTuple):
    """A memory or discovery that still holds. `place` is where it stands: path:line, or its own file."""

    id: str
    source: Literal["memory", "discovery"]
    type: str  # decision, rule, pattern, issue, or the category of a memory
    title: str
    content: str
    place: str
    score: float  # 0 to 1

    def quote(self, chars_max: int) -> str:
        """Return its text as the words of the file that it comes from, so that nobody takes them for the user's.

        >>> RememberedItem("mem_1", "memory", "rule", "Tabs", "Use tabs.", "AGENTS.md:3", 1.0).quote(240)
        'AGENTS.md:3 says: “Use tabs.” [mem_1]'
        """
        return (
            f"{self.place} says: \u201c{' '.join((self.content or self.title).split())[:chars_max]}\u201d [{self.id}]"
        )


Recall = Callable[[str, int], Sequence[RememberedItem]]
"""What is remembered about a text, at most so many, best first; never what is stale."""
RankedPaths = Sequence[tuple[str, float]]
"""Files and what they are worth, best first."""


@dataclass(frozen=True, slots=True)
class ProjectKnowledge:
    """`localise` ranks the files that a task is likely to change by all that is known; without it the search does."""

    count_tokens: TokenCounter = estimate_max_tokens
    history: FileHistory | None = None
    recall: Recall | None = None
    predict_changes: Callable[[Query], RankedPaths] | None = None
