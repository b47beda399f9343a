"""What a team knows beyond its code, handed in as values: memories and history.

Every part may be missing; a reply then contains less, and says so. This module looks nothing up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from context_engine.context.rule_scope import EVERYWHERE, RuleScope
from context_engine.model import Query
from context_engine.text import shorten_prose

if TYPE_CHECKING:
    from context_engine.history import FileHistory


QUOTED_FROM_REPOSITORY = "quoted from files of this repository, not said by the user"
"""Source of rules and memories. A stranger may have written them: replies add this wherever they show any."""


class RememberedItem(NamedTuple):
    """A memory or discovery that still holds. `place` is path:line, or its own file."""

    id: str
    source: Literal["memory", "discovery"]
    type: str  # decision, rule, pattern, issue, or the category of a memory
    title: str
    content: str
    place: str
    score: float  # 0 to 1
    scope: RuleScope = EVERYWHERE  # the files that a rule applies to

    def quote(self, chars_max: int) -> str:
        """Return the text with the file it comes from, so that nobody takes it for words of the user.

        A longer text ends after a word, with a sign that more follows.

        >>> item = RememberedItem("mem_1", "memory", "rule", "Tabs", "Use tabs, never spaces.", "AGENTS.md:3", 1.0)
        >>> item.quote(240)
        'AGENTS.md:3 says: “Use tabs, never spaces.” [mem_1]'
        >>> item.quote(18)
        'AGENTS.md:3 says: “Use tabs, never…” [mem_1]'
        """
        text = shorten_prose(" ".join((self.content or self.title).split()), chars_max)
        return f"{self.place} says: \u201c{text}\u201d [{self.id}]"


class Recall(Protocol):
    """Returns what is remembered about a text, best first, at most `limit`; nothing stale.

    Rules are those that apply to one of `files`; to every file of the repository, if None are known.
    """

    def __call__(self, text: str, limit: int, files: Collection[str] | None = None, /) -> Sequence[RememberedItem]:
        """Return the items."""


RankedPaths = Sequence[tuple[str, float]]
"""Files and their scores, best first."""


@dataclass(frozen=True, slots=True)
class ProjectKnowledge:
    """What a team knows. `predict_changes` ranks the files that a task may change; without it, search ranks them.

    `is_partial`: memories and history are still being read.
    """

    history: FileHistory | None = None
    recall: Recall | None = None
    predict_changes: Callable[[Query], RankedPaths] | None = None
    is_partial: bool = False
