"""PURE. A discovery: a pattern, rule, decision or issue that the repository itself states, with its place.

Discoveries are derived again from files and history whenever those change. Their ids follow from their content, and
they are never written to a file. What a person writes is a memory, which they never touch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from context_engine.text import uuid8

DiscoveryType = Literal["pattern", "rule", "decision", "issue"]
DiscoverySource = Literal["discovery", "git"]


@dataclass(frozen=True, slots=True)
class Discovery:
    """One discovery. `line` is 0 and `path` empty if no file contains it; `commit` and `date` are empty if unknown.

    `confidence` is the share of its importer's findings that a reader called right (`importers`). `status` is `active`,
    or `superseded` if its author has withdrawn it.
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
        """Its source as `path:line@commit`, as far as known.

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
    """Return a discovery whose id follows from its content and its file, but not from its line, because lines move.

    `twin` counts the discoveries of one file with the same content.
    """
    held_by = path or commit
    name = f"dis_{uuid8(type, held_by, content, str(twin))}"
    return Discovery(name, type, title, content, source, path, line, commit, date, confidence, status)
