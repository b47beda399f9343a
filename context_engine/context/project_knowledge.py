"""What a question is answered from: the services of a workspace, and what a team knows beyond its code.

Every part of the knowledge may be missing; a reply then contains less, and says so. This module looks nothing up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

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


@dataclass(frozen=True, slots=True)
class KnowledgeEntry:
    """One thing that is known: what a file or a commit states, or what a person wrote down as a memory.

    What is found has a `score` from 0 to 1, `why` it is stale, and the `project` it is from if several were searched.
    `line` is 0 and `path` empty if no file contains it; `commit` and `date` are empty if unknown. `confidence` is the
    share of its importer's findings that a reader called right. `status` is `stale` if its author has withdrawn it.
    """

    id: str
    type: str  # pattern, rule, decision or issue
    title: str
    content: str
    source: str  # discovery, git or memory
    path: str = ""
    line: int = 0
    commit: str = ""
    date: str = ""
    confidence: float = 1.0
    status: str = "active"
    scope: RuleScope = field(default_factory=RuleScope)  # the files that a rule applies to
    linked_files: tuple[str, ...] = ()
    linked_names: tuple[str, ...] = ()  # the symbols and plans that a memory links
    tags: tuple[str, ...] = ()
    score: float = 0.0
    why: str = ""
    project: str = ""

    @property
    def is_memory(self) -> bool:
        """Whether a person or an agent wrote it down as a memory."""
        return self.source == "memory"

    @property
    def place(self) -> str:
        """Its provenance as `path:line@commit`, as far as known.

        >>> KnowledgeEntry("", "rule", "", "", "discovery", "A.md", 3, "1a2b3c4d5e6f7").place
        'A.md:3@1a2b3c4d5e6f'
        """
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}@{self.commit[:12]}" if self.commit else place

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that it is about."""
        if self.is_memory:
            return self.linked_files
        return (self.path,) if self.path else ()

    @property
    def links(self) -> tuple[str, ...]:
        """Its place, and everything that it links."""
        return (self.place, *self.linked_files, *self.linked_names)

    @property
    def module(self) -> str:
        """The folder of its first file, else its first tag."""
        return self.paths[0].rpartition("/")[0] if self.paths else "".join(self.tags[:1])

    def quote(self, chars_max: int) -> str:
        """Return the text with the file it comes from, so that nobody takes it for words of the user.

        A longer text ends after a word, with a sign that more follows.

        >>> known = KnowledgeEntry("mem_1", "rule", "Tabs", "Use tabs, never spaces.", "memory", "AGENTS.md", 3)
        >>> known.quote(240)
        'AGENTS.md:3 says: “Use tabs, never spaces.” [mem_1]'
        >>> known.quote(18)
        'AGENTS.md:3 says: “Use tabs, never…” [mem_1]'
        """
        text = shorten_prose(" ".join((self.content or self.title).split()), chars_max)
        return f"{self.place} says: \u201c{text}\u201d [{self.id}]"


RankedPaths = Sequence[tuple[str, float]]
"""Files and their scores, best first."""
Recall = Callable[[str, int, Collection[str] | None], Sequence[KnowledgeEntry]]
"""Returns what is remembered about a text, best first, at most so many items; nothing stale.

Rules are those that apply to one of the files; to every file of the repository, if None are known.
"""


@dataclass(frozen=True, slots=True)
class ProjectKnowledge:
    """What a team knows. `predict_changes` ranks the files that a task may change; without it, search ranks them."""

    history: FileHistory | None = None
    recall: Recall | None = None
    predict_changes: Callable[[Query], RankedPaths] | None = None
