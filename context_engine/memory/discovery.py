"""PURE.

A discovery: a pattern, rule, decision or issue that the repository itself tells of, with the place it stands at.

Discoveries are derived. They are made anew from files and history whenever those change, have ids that follow from what
they say, and are written into no file; what a person writes is a memory and is never touched by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from context_engine.text import uuid8

DiscoveryType = Literal["pattern", "rule", "decision", "issue"]
DiscoverySource = Literal["discovery", "git"]


@dataclass(frozen=True, slots=True)
class Discovery:
    """One thing found.

    `line` is 0 and `path` empty where no file holds it; `commit` and `date` are empty where unknown.

    `confidence` is the share of what its importer finds that a reader called right (`importers`). `status` is `active`,
    or `superseded` for what its author no longer stands by.
    """

    id: str
    type: DiscoveryType
    title: str
    content: str
    source: DiscoverySource
    path: str = ""
    line: int = 0
    commit: str = ""
    date: str = ""
    confidence: float = 1.0
    status: str = "active"

    @property
    def provenance(self) -> str:
        """Where it comes from: `path:line@commit`, as far as known.

        >>> make_discovery("rule", "", "Use tabs.", "discovery", path="AGENTS.md", line=3, commit="1a2b3c4d5e6f7").provenance
        'AGENTS.md:3@1a2b3c4d5e6f'
        """
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}@{self.commit[:12]}" if self.commit else place


def make_discovery(
    type: DiscoveryType,  # noqa: A002 - the word of the reply
    title: str,
    content: str,
    source: DiscoverySource,
    *,
    path: str = "",
    line: int = 0,
    commit: str = "",
    date: str = "",
    confidence: float = 1.0,
    status: str = "active",
    twin: int = 0,
) -> Discovery:
    """A discovery with the id that follows from what it says and which file says it, not from the line: lines move.

    `twin` counts those of one file that say the same.
    """
    held_by = path or commit
    name = f"dis_{uuid8(type, held_by, content, str(twin))}"
    return Discovery(name, type, title, content, source, path, line, commit, date, confidence, status)
