"""PURE. Requests to memories and knowledge, and their limits: values alone, so that callers need no other module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec

CATEGORIES = ("preferences", "decisions", "facts")
PRIORITIES = ("critical", "helpful", "archive")
"""Most important first."""
SUBTYPES = ("pattern", "rule", "decision", "issue")
SCOPES = ("project", "user")

CONTENT_CHARS_MAX = 5_000
TITLE_CHARS_MAX = 200
TAGS_MAX = 20
TAG_CHARS_MAX = 50
ON_SIMILAR = ("warn", "reject", "supersede", "allow")
"""What to do if a similar memory exists."""
STATUSES = ("active", "stale", "superseded", "expired", "invalid", "all")
SORTS = ("relevance", "updated", "priority", "access")
TYPES = ("all", "pattern", "rule", "decision", "issue")
QUERY_CHARS = (3, 500)
RESULTS_MAX = 20


LINKS_MAX = 50
"""Linked files, symbols or plans; more say nothing about each."""
TEXT_CHARS_MAX = 2_000
"""Characters of evidence, source and owner."""

Content = Annotated[str, msgspec.Meta(min_length=1, max_length=CONTENT_CHARS_MAX)]
Title = Annotated[str, msgspec.Meta(max_length=TITLE_CHARS_MAX)]
Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARS_MAX)]
Tag = Annotated[str, msgspec.Meta(max_length=TAG_CHARS_MAX)]
Tags = Annotated[tuple[Tag, ...], msgspec.Meta(max_length=TAGS_MAX)]
Links = Annotated[tuple[str, ...], msgspec.Meta(max_length=LINKS_MAX)]


@dataclass(frozen=True, slots=True)
class MemoryDraft:
    """A memory to add. `linked_files` are paths as the caller wrote them, `supersedes` are ids."""

    category: str
    content: Content
    title: Title = ""
    tags: Tags = ()
    subtype: str = ""
    priority: str = "helpful"
    source: Text = ""
    owner: Text = ""
    evidence: Text = ""
    expires_at: str = ""
    linked_files: Links = ()
    linked_symbols: Links = ()
    linked_plans: Links = ()
    supersedes: Links = ()
    scope: str = "project"


@dataclass(frozen=True, slots=True)
class MemoryQuery:
    """A filter of memories; empty parts do not filter.

    `tags`: all of them. `sort` empty: by relevance if there is a query.
    """

    category: str = ""
    query: str = ""
    tags: tuple[str, ...] = ()
    status: str = "active"
    linked_file: str = ""
    sort: str = ""
    limit: int = 50
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class KnowledgeQuery:
    """A question. `module`: a folder, a file or the name of either. `min_score`: 0 to 1."""

    query: str
    type: str = "all"
    module: str = ""
    limit: int = 5
    include_stale: bool = False
    min_score: float = 0.0
