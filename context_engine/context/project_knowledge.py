"""What a question is answered from: the services of a workspace, and what a team knows beyond its code.

Every part of the knowledge may be missing; a reply then contains less, and says so. This module looks nothing up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from context_engine.model import Query
from context_engine.repo import compile_path_glob
from context_engine.text import shorten_prose

if TYPE_CHECKING:
    from context_engine.history import FileHistory
    from context_engine.references import SymbolService
    from context_engine.repo import WorkspaceFiles
    from context_engine.search import SearchService, TextScanner

QUOTED_FROM_REPOSITORY = "quoted from files of this repository, not said by the user"
"""Source of rules and memories. A stranger may have written them: replies add this wherever they show any."""
ON_REQUEST = "on request"


class Workspace:
    """One workspace, or several as one, to read and search. Its owner sets the services and closes them."""

    search: SearchService
    text_search: TextScanner
    symbols: SymbolService
    files: WorkspaceFiles
    settings: Any
    """The Settings that limit its replies."""


@dataclass(frozen=True, slots=True)
class RuleScope:
    """The files that a rule applies to: those below `folder` that match one of `globs`; all of them without globs.

    Globs are relative to the folder, and each matches whole paths. Agents read some rule files only when they are asked
    for (`is_on_request`); those apply to no file by themselves.

    >>> scope = RuleScope("docs", ("**/*.mdx",))
    >>> scope.applies_to("docs/guides/start.mdx"), scope.applies_to("docs/conf.py"), scope.applies_to("src/a.mdx")
    (True, False, False)
    >>> str(scope), str(RuleScope("packages/ai")), str(RuleScope())
    ('docs/**/*.mdx', 'packages/ai/**', '')
    """

    folder: str = ""
    globs: tuple[str, ...] = ()
    is_on_request: bool = False

    def __str__(self) -> str:
        """Return the scope as globs; empty for the whole repository."""
        if self.is_on_request:
            return ON_REQUEST
        globs = self.globs or (("**",) if self.folder else ())
        return ", ".join(f"{self._prefix}{glob}" for glob in globs)

    @property
    def _prefix(self) -> str:
        return f"{self.folder}/" if self.folder else ""

    @property
    def is_everywhere(self) -> bool:
        """Whether it applies to every file of the repository."""
        return not str(self)

    def applies_to(self, path: str) -> bool:
        """Return whether the rule applies to a file."""
        if self.is_on_request or not path.startswith(self._prefix):
            return False
        rest = path[len(self._prefix) :]
        return not self.globs or any(_compile(glob).fullmatch(rest) for glob in self.globs)

    def applies_to_any(self, paths: Iterable[str]) -> bool:
        """Return whether the rule applies to at least one of these files."""
        return any(map(self.applies_to, paths))


_compile = lru_cache(maxsize=1_024)(compile_path_glob)


class RememberedItem(NamedTuple):
    """A memory or discovery that still holds. `place` is path:line, or its own file."""

    id: str
    source: Literal["memory", "discovery"]
    type: str  # decision, rule, pattern, issue, or the category of a memory
    title: str
    content: str
    place: str
    score: float  # 0 to 1
    scope: RuleScope = RuleScope()  # the files that a rule applies to

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


RankedPaths = Sequence[tuple[str, float]]
"""Files and their scores, best first."""
Recall = Callable[[str, int, Collection[str] | None], Sequence[RememberedItem]]
"""Returns what is remembered about a text, best first, at most so many items; nothing stale.

Rules are those that apply to one of the files; to every file of the repository, if None are known.
"""


@dataclass(frozen=True, slots=True)
class ProjectKnowledge:
    """What a team knows. `predict_changes` ranks the files that a task may change; without it, search ranks them.

    `is_partial`: memories and history are still being read.
    """

    history: FileHistory | None = None
    recall: Recall | None = None
    predict_changes: Callable[[Query], RankedPaths] | None = None
    is_partial: bool = False
