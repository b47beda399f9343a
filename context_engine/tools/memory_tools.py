"""Tools for the knowledge of a team: add, list, update and delete memories, and search all that is known."""

import time
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.context import QUOTED_FROM_REPOSITORY
from context_engine.memory import (
    CONTENT_CHARS_MAX,
    ON_SIMILAR,
    PRIORITIES,
    QUERY_CHARS,
    RESULTS_MAX,
    SCOPES,
    SORTS,
    STATUSES,
    SUBTYPES,
    TAGS_MAX,
    TITLE_CHARS_MAX,
    TYPES,
    KnowledgeQuery,
    MemoryDraft,
    MemoryQuery,
)
from context_engine.secrets import redact_file
from context_engine.text import compact_json, drop_empty, escape_line, format_count, format_cursor
from context_engine.tools.arguments import BooleanArg, ChoiceArg, FractionArg, IntegerArg, TextArg, TextListArg
from context_engine.tools.reply import (
    Listing,
    count_fitting,
    count_rest,
    cut_to_size,
    describe_empty_list,
    pick_fields,
    take_fitting_rows,
)
from context_engine.tools.tool import Reply, tool

if TYPE_CHECKING:
    from context_engine.context import KnowledgeEntry
    from context_engine.engine import Engine
    from context_engine.memory import MemoryEntry

EXCERPT_CHARS = 240
"""Two or three lines: enough to recognize a memory."""

Content = TextArg("What to remember, in a few sentences.", 1, CONTENT_CHARS_MAX)
Title = TextArg("Default: its first line.", 0, TITLE_CHARS_MAX)
Tags = TextListArg("Words to find it by.", most=TAGS_MAX)
Subtype = ChoiceArg("What kind of knowledge it is.", ("", *SUBTYPES))
Priority = ChoiceArg("How important it is.", PRIORITIES)
Expires = TextArg("Date it expires: 2027-01-31.", 0, 40)
LinkedFiles = TextListArg("Files it is about: when they change, it is stale.")


@tool(touches="records")
def add_memory(
    engine: "Engine",
    content: Annotated[str, Content],
    category: Annotated[str, TextArg("preferences, decisions or facts.", 1, 60)],
    title: Annotated[str, Title] = "",
    tags: Annotated[tuple[str, ...], Tags] = (),
    linked_files: Annotated[tuple[str, ...], LinkedFiles] = (),
    supersedes: Annotated[tuple[str, ...], TextListArg("Ids of memories it replaces.")] = (),
    *,
    subtype: Annotated[str, Subtype] = "",
    priority: Annotated[str, Priority] = "helpful",
    source: Annotated[str, TextArg("Person or document it comes from.")] = "",
    linked_symbols: Annotated[tuple[str, ...], TextListArg("Symbols it is about.")] = (),
    linked_plans: Annotated[tuple[str, ...], TextListArg("Plans it belongs to.")] = (),
    evidence: Annotated[str, TextArg("Proof: a command, a line, a link.")] = "",
    owner: Annotated[str, TextArg("Person responsible for it.")] = "",
    expires_at: Annotated[str, Expires] = "",
    on_similar: Annotated[str, ChoiceArg("What to do when a similar one exists.", ON_SIMILAR)] = "warn",
    scope: Annotated[str, ChoiceArg("For this project, or for you everywhere.", SCOPES)] = "project",
    dry_run: Annotated[bool, BooleanArg("Only report what would happen.")] = False,
) -> Reply:
    """Remember a decision, preference or fact across sessions, as a Markdown file that people edit and git merges.

    Reports duplicates and similar memories. Redacts secrets.
    """
    draft = MemoryDraft(**_pick_draft(locals() | {"category": category.strip().lower()}))
    added = engine.memory.memories.add(draft, on_similar=on_similar, dry_run=dry_run)
    notes = {
        "similar": list(map(_similar_row, added.similar)),
        "warnings": list(added.warnings),
        "dry_run": dry_run or None,
    }
    row = pick_fields(added, "id path action") | drop_empty(notes) | pick_fields(added, "redactions indexed")
    return Reply(compact_json({"ok": True} | row))


def _pick_draft(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that are fields of a memory."""
    return {field.name: arguments[field.name] for field in fields(MemoryDraft) if field.name in arguments}


def _similar_row(similar: "MemoryEntry") -> dict[str, Any]:
    memory = similar.memory
    if memory is None:
        return {"path": similar.path}
    row = {"id": memory.id, "title": memory.title, "score": round(similar.score or 0.0, 3)}
    return drop_empty(row | {"excerpt": _excerpt(memory.content)})


def _excerpt(content: str) -> str:
    return _shorten(" ".join(redact_file(content).split()), EXCERPT_CHARS)


def _shorten(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else cut_to_size(text, chars_max - 1) + "…"


@tool(touches="nothing")
def list_memories(
    engine: "Engine",
    category: Annotated[str, TextArg("Only this category.")] = "",
    query: Annotated[str, TextArg("Only what matches these words.")] = "",
    tags: Annotated[tuple[str, ...], TextListArg("Must have all of these.")] = (),
    status: Annotated[str, ChoiceArg("Only this status.", STATUSES)] = "active",
    limit: Annotated[int, IntegerArg("Maximum rows.", 1, 200)] = 50,
    cursor: Annotated[str, TextArg("next_cursor of the last reply.")] = "",
    *,
    linked_file: Annotated[str, TextArg("Only memories about this file.")] = "",
    sort: Annotated[str, ChoiceArg("Default: relevance with a query, else updated.", ("", *SORTS))] = "",
    full: Annotated[bool, BooleanArg("Whole contents instead of excerpts.")] = False,
) -> Reply:
    """List memories: decisions, preferences and facts, also those that are stale, superseded, expired or unreadable.

    query searches by words and meaning.
    """
    wanted = MemoryQuery(category.strip().lower(), query, tags, status, linked_file, sort, limit, cursor)
    listed = engine.memory.memories.list_page(wanted)
    rows = [_memory_row(row, full=full) for row in listed.rows]
    shown = take_fitting_rows(rows, chars_max=engine.settings.result_chars_max)
    empty = describe_empty_list(listed.by_status, status, "all", "memories yet: add_memory writes the first one")
    notes = {
        "next_cursor": format_cursor(listed.first + len(shown), listed.stamp, listed.total),
        "warnings": list(listed.warnings),
        "next": "" if rows else empty,
    }
    head = {"ok": True, "total": listed.total, "counts_by_category": listed.by_category}
    return Reply(compact_json(head | drop_empty(notes) | {"memories": shown}))


def _memory_row(entry: "MemoryEntry", *, full: bool) -> dict[str, Any]:
    memory = entry.memory
    if memory is None:
        return {"path": entry.path, "status": entry.status, "error": entry.why}
    fields = {
        **pick_fields(memory, "id title category subtype priority"),
        "tags": list(memory.tags),
        **({"content": memory.content} if full else {"excerpt": _excerpt(memory.content)}),
        **pick_fields(memory, "created_at updated_at expires_at"),
        "status": entry.status,
        "stale_reason": entry.why,
        "linked_files": [link.path for link in memory.linked_files],
        **pick_fields(entry, "path version"),
        "score": None if entry.score is None else round(entry.score, 3),
    }
    extra = pick_fields(memory, "owner source evidence") | {"scope": entry.scope} if full else {}
    return drop_empty(fields | extra)


@tool(touches="records")
def update_memory(
    engine: "Engine",
    id: Annotated[str, TextArg("Id of the memory.", 1, 100)],  # noqa: A002 - the name in the replies
    content: Annotated[str | None, Content] = None,
    title: Annotated[str | None, Title] = None,
    tags: Annotated[tuple[str, ...] | None, Tags] = None,
    linked_files: Annotated[tuple[str, ...] | None, LinkedFiles] = None,
    still_true: Annotated[bool, BooleanArg("Confirm it: still valid although its files changed.")] = False,
    *,
    category: Annotated[str | None, TextArg("Move it to this category.", 0, 60)] = None,
    subtype: Annotated[str | None, Subtype] = None,
    priority: Annotated[str | None, Priority] = None,
    evidence: Annotated[str | None, TextArg("Proof: a command, a line, a link.")] = None,
    owner: Annotated[str | None, TextArg("Person responsible for it.")] = None,
    expires_at: Annotated[str | None, Expires] = None,
    expected_version: Annotated[str, TextArg("The listed version; an error if it changed.", 0, 40)] = "",
) -> Reply:
    """Edit a memory, or confirm that a stale one is still valid. Other fields stay as they are, byte for byte."""
    changes = {name: value for name, value in _pick_draft(locals()).items() if value is not None}
    memories = engine.memory.memories
    updated = memories.update(id, changes, still_true=still_true, expected_version=expected_version)
    row = {"ok": True, "id": id, **pick_fields(updated.entry, "path version"), "changed": list(updated.changed)}
    return Reply(compact_json(row | {"redactions": updated.redactions}))


@tool(touches="records", destructive=True)
def delete_memory(
    engine: "Engine",
    id: Annotated[str, TextArg("Id of the memory.", 1, 100)],  # noqa: A002 - the name in the replies
    *,
    expected_version: Annotated[str, TextArg("The listed version; an error if it changed.", 0, 40)] = "",
) -> Reply:
    """Delete a memory permanently; the reply has its content. What it superseded becomes valid again."""
    deleted = engine.memory.memories.delete(id, expected_version=expected_version)
    row: dict[str, Any] = {"ok": True, "id": id, "deleted": deleted.path}
    if memory := deleted.memory:
        row |= {"title": memory.title, "category": memory.category, "content": memory.content}
    return Reply(compact_json(row))


@tool(touches="nothing", instead="grep_codebase", aliases={"context_search": {"format": "json"}})
def search_memory(
    engine: "Engine",
    query: Annotated[str, TextArg("What to find out.", *QUERY_CHARS)],
    type: Annotated[str, ChoiceArg("Only this type.", TYPES)] = "all",  # noqa: A002 - the name in the upstream spec
    path: Annotated[str, TextArg("Folder, file or name."), "module"] = "",
    limit: Annotated[int, IntegerArg("Maximum results.", 1, RESULTS_MAX)] = 5,
    *,
    include_stale: Annotated[bool, BooleanArg("Include what is no longer valid.")] = False,
    min_score: Annotated[float, FractionArg("Minimum score.")] = 0,
    format: Annotated[str, ChoiceArg("Of the reply.", ("text", "json"))] = "text",  # noqa: A002 - as in other tools
) -> Reply:
    """Search decisions, rules and known issues: memories, ADRs, agent rules, git.

    Example: {"query": "why are sessions stored in files"}
    """
    began = time.perf_counter()
    found = engine.memory.get_knowledge().search(KnowledgeQuery(query, type, path, limit, include_stale, min_score))
    fields = {
        "query": query,
        "totalFound": found.total,
        "searchTime": round((time.perf_counter() - began) * 1000),
        "engine": found.engine,
    }
    notes = {
        "warnings": [*found.warnings, *engine.memory.find_unread()],
        "note": f"Contents are {QUOTED_FROM_REPOSITORY}." if found.results else "",
        "next": "" if found.results else "Use other words or `type: all`; search_code searches the code itself.",
    }
    head = f"{len(found.results)} of {format_count(found.total, 'result')}"
    results = engine.memory.date_issues(found.results)
    texts, rows = map(_result_text, results), map(_result_row, results)
    listing = Listing(head, fields, "results", texts, rows, notes)
    return listing.write(engine.settings.result_chars_max, as_json=format == "json")


_ALWAYS = ("id", "type", "content", "module", "session", "date", "score", "source")
"""Fields that the upstream spec requires in each row, also when empty."""


def _result_row(known: "KnowledgeEntry") -> dict[str, Any]:
    row = pick_fields(known, "project id type title content module date source status")
    row |= {"title": known.title if known.title not in known.content else "", "session": None}
    row |= {"score": round(known.score, 3), "links": list(known.links), "applies_to": str(known.scope)}
    return {key: value for key, value in (row | {"stale_reason": known.why}).items() if value or key in _ALWAYS}


def _result_text(known: "KnowledgeEntry") -> str:
    """Format a paragraph: what it is, where it comes from, what it says."""
    title = f" {escape_line(known.title)}" if known.title not in known.content else ""
    status = f" · {known.status}" if known.status not in ("", "active") else ""
    project = f"{known.project}:" if known.project else ""
    scope = f" · for {escape_line(str(known.scope))}" if str(known.scope) else ""
    return (
        f"@@ {known.type} {project}{escape_line(known.place)} {known.date[:10]}{scope}{status}{title}\n{known.content}"
    )


ROW_CHARS_MAX = 400
"""A rule is a sentence or two; its source has the full text."""
TITLES = {"rule": "Rules", "decision": "Decisions"}


def render_rules_page(engine: "Engine", *, chars_max: int) -> str:
    """Render as many rules and decisions as fit, and the number of the others."""
    known = engine.memory.get_knowledge().list_binding()
    rows = list(map(_rule_row, known))
    count = count_fitting(rows, chars_max=max(chars_max - 200, 0))
    lines = [f"These are {QUOTED_FROM_REPOSITORY}.", ""] if known else []
    for kind, title in TITLES.items():
        if section := [row for row, item in zip(rows[:count], known, strict=False) if item.type == kind]:
            lines += [f"## {title}", "", *section, ""]
    if rest := count_rest(len(known) - count, ": search_memory finds them by words."):
        lines += ["", *rest]
    return "\n".join(lines).strip() or (
        "No rules or decisions are known yet. They come from AGENTS.md, CONTRIBUTING.md and the like, decision records "
        "and breaking commits; add_memory adds one."
    )


def _rule_row(known: "KnowledgeEntry") -> str:
    content = " ".join(known.content.split())
    title = "" if known.title in content else f"**{known.title}**: "
    scope = f", for {known.scope}" if str(known.scope) else ""
    return f"- {title}{_shorten(content, ROW_CHARS_MAX)} ({known.place}{escape_line(scope)})"
