"""Tools for what a team knows: write a memory down, list, change and delete memories, and search all that is known."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.context.project_knowledge import REPOSITORY_WORDS
from context_engine.memory.memory_requests import (
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
    Draft,
    Revision,
    Sought,
    Wanted,
)
from context_engine.secrets.masked_text import redact_file
from context_engine.tools.arguments import BooleanArg, ChoiceArg, FractionArg, IntegerArg, TextArg, TextListArg
from context_engine.tools.tool import Call, Reply, tool
from context_engine.tools.truncate import compact_json, cut_to_size, drop_empty, take_fitting_rows

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.memory.knowledge import Known, Result
    from context_engine.memory.memories import Similar
    from context_engine.memory.memory_listing import Row


EXCERPT_CHARS = 240
"""Two or three lines: enough to know whether it is the one."""
LIST_MAX = 200

Content = TextArg("What to remember, in a few sentences.", 1, CONTENT_CHARS_MAX)
Title = TextArg("A headline; else its first line.", 0, TITLE_CHARS_MAX)
Tags = TextListArg("Words to find it by.", most=TAGS_MAX)
Subtype = ChoiceArg("What it tells.", ("", *SUBTYPES))
Priority = ChoiceArg("How much it matters.", PRIORITIES)
Expires = TextArg("When it stops holding: 2027-01-31.", 0, 40)
LinkedFiles = TextListArg("Files it speaks of: when they change, it is stale.")


@tool(
    touches="records",
    rare=(
        *("subtype", "priority", "source", "linked_symbols", "linked_plans", "evidence", "owner"),
        *("expires_at", "on_similar", "scope", "dry_run"),
    ),
)
def add_memory(
    engine: "Engine",
    call: Call,  # noqa: ARG001 - every tool takes it
    content: Annotated[str, Content],
    category: Annotated[str, TextArg("preferences, decisions or facts.", 1, 60)],
    title: Annotated[str, Title] = "",
    tags: Annotated[tuple[str, ...], Tags] = (),
    subtype: Annotated[str, Subtype] = "",
    priority: Annotated[str, Priority] = "helpful",
    source: Annotated[str, TextArg("Who or what says so.")] = "",
    linked_files: Annotated[tuple[str, ...], LinkedFiles] = (),
    linked_symbols: Annotated[tuple[str, ...], TextListArg("Symbols it speaks of.")] = (),
    linked_plans: Annotated[tuple[str, ...], TextListArg("Plans it belongs to.")] = (),
    evidence: Annotated[str, TextArg("How it is known: a command, a line, a link.")] = "",
    owner: Annotated[str, TextArg("Who answers for it.")] = "",
    expires_at: Annotated[str, Expires] = "",
    supersedes: Annotated[tuple[str, ...], TextListArg("Ids of memories that no longer hold.")] = (),
    on_similar: Annotated[str, ChoiceArg("When one says nearly the same.", ON_SIMILAR)] = "warn",
    scope: Annotated[str, ChoiceArg("Who it is for.", SCOPES)] = "project",
    dry_run: Annotated[bool, BooleanArg("Only say what would happen.")] = False,
) -> Reply:
    """Remember a decision, preference or fact across sessions, as a Markdown file that people can edit and git can merge.

    Duplicates are not written twice; similar and contradicting memories are named. Secrets are masked.
    """
    draft = Draft(
        category=category.strip().lower(),
        content=content,
        title=title,
        tags=tags,
        subtype=subtype,
        priority=priority,
        source=source,
        owner=owner,
        evidence=evidence,
        expires_at=expires_at,
        linked_files=linked_files,
        linked_symbols=linked_symbols,
        linked_plans=linked_plans,
        supersedes=supersedes,
        scope=scope,
    )
    added = engine.memory.memories.add(draft, on_similar=on_similar, dry_run=dry_run)
    told = {
        "similar": [_similar(each) for each in added.similar],
        "possible_conflicts": [_similar(each) for each in added.conflicts],
        "warnings": list(added.warnings),
        "dry_run": dry_run or None,
    }
    head = {"ok": True, "id": added.id, "path": added.path, "action": added.action}
    return Reply(compact_json(head | drop_empty(told) | {"redactions": added.redactions, "indexed": added.indexed}))


@tool(touches="nothing", rare=("linked_file", "sort", "full"))
def list_memories(
    engine: "Engine",
    call: Call,  # noqa: ARG001 - every tool takes it
    category: Annotated[str, TextArg("Only this one.")] = "",
    query: Annotated[str, TextArg("Only what these words find.")] = "",
    tags: Annotated[tuple[str, ...], TextListArg("Must carry all.")] = (),
    status: Annotated[str, ChoiceArg("Which of them.", STATUSES)] = "active",
    linked_file: Annotated[str, TextArg("Only those that speak of this file.")] = "",
    sort: Annotated[str, ChoiceArg("Else relevance with a query, updated without.", ("", *SORTS))] = "",
    limit: Annotated[int, IntegerArg("Rows.", 1, LIST_MAX)] = 50,
    cursor: Annotated[str, TextArg("To go on.")] = "",
    full: Annotated[bool, BooleanArg("Whole contents instead of excerpts.")] = False,
) -> Reply:
    """List what was remembered: decisions, preferences and facts, with what is stale, superseded, expired or unreadable.

    Search by words and meaning with query.
    """
    wanted = Wanted(category.strip().lower(), query, tags, status, linked_file, sort, limit, cursor)
    listed = engine.memory.memories.listed(wanted)
    rows = [_memory_row(row, full=full) for row in listed.rows]
    shown = take_fitting_rows(rows, chars_max=engine.settings.result_chars_max)
    told = {
        "next_cursor": listed.cursor_after(len(shown)),
        "warnings": list(listed.warnings),
        "next": "" if rows else _where_else(listed.by_status, status),
    }
    head = {"ok": True, "total": listed.total, "counts_by_category": listed.by_category}
    return Reply(compact_json(head | drop_empty(told) | {"memories": shown}))


@tool(
    touches="records", rare=("category", "subtype", "priority", "evidence", "owner", "expires_at", "expected_version")
)
def update_memory(
    engine: "Engine",
    call: Call,  # noqa: ARG001 - every tool takes it
    id: Annotated[str, TextArg("Its id.", 1, 100)],  # noqa: A002 - the word of the replies
    content: Annotated[str | None, Content] = None,
    title: Annotated[str | None, Title] = None,
    category: Annotated[str | None, TextArg("Moves it there.", 0, 60)] = None,
    tags: Annotated[tuple[str, ...] | None, Tags] = None,
    subtype: Annotated[str | None, Subtype] = None,
    priority: Annotated[str | None, Priority] = None,
    evidence: Annotated[str | None, TextArg("How it is known.")] = None,
    owner: Annotated[str | None, TextArg("Who answers for it.")] = None,
    expires_at: Annotated[str | None, Expires] = None,
    linked_files: Annotated[tuple[str, ...] | None, LinkedFiles] = None,
    still_true: Annotated[bool, BooleanArg("Its linked files changed, but it holds: no longer stale.")] = False,
    expected_version: Annotated[str, TextArg("As listed; refused if it changed since.", 0, 40)] = "",
) -> Reply:
    """Edit a memory, or say that a stale one still holds. What is not named stays as it is, byte for byte."""
    revision = Revision(
        category=category,
        content=content,
        title=title,
        tags=tags,
        subtype=subtype,
        priority=priority,
        evidence=evidence,
        owner=owner,
        expires_at=expires_at,
        linked_files=linked_files,
        still_true=still_true,
    )
    updated = engine.memory.memories.update(id, revision, expected_version=expected_version)
    told = {"ok": True, "id": id, "path": updated.entry.path, "changed": list(updated.changed)}
    return Reply(compact_json(told | {"version": updated.entry.version, "redactions": updated.redactions}))


@tool(touches="records", destructive=True, rare=("expected_version",))
def delete_memory(
    engine: "Engine",
    call: Call,  # noqa: ARG001 - every tool takes it
    id: Annotated[str, TextArg("Its id.", 1, 100)],  # noqa: A002 - the word of the replies
    expected_version: Annotated[str, TextArg("As listed; refused if it changed since.", 0, 40)] = "",
) -> Reply:
    """Delete a memory for good; the reply holds what it said. What it superseded holds again."""
    deleted = engine.memory.memories.delete(id, expected_version=expected_version)
    held = deleted.memory
    told = {"title": held.title, "category": held.category, "content": held.content} if held else {}
    return Reply(compact_json({"ok": True, "id": id, "deleted": deleted.path} | told))


@tool(touches="nothing", instead="grep_codebase", rare=("include_stale", "min_score"))
def context_search(
    engine: "Engine",
    call: Call,  # noqa: ARG001 - every tool takes it
    query: Annotated[str, TextArg("What to find out, 3 to 500 characters.", 1, QUERY_CHARS[1])],
    type: Annotated[str, ChoiceArg("Only these.", TYPES)] = "all",  # noqa: A002 - the seed's word
    module: Annotated[str, TextArg("Only of this folder, file or name.")] = "",
    limit: Annotated[int, IntegerArg("Results.", 1, RESULTS_MAX)] = 5,
    include_stale: Annotated[bool, BooleanArg("Also what no longer holds.")] = False,
    min_score: Annotated[float, FractionArg("Least score.")] = 0,
) -> Reply:
    """Search what the project knows: decisions, rules, patterns and known issues, out of memories, ADRs, agent rules, TODOs and history.

    Ask it before changing something, to learn why it is as it is.
    """
    began = time.perf_counter()
    found = engine.memory.informed().search(Sought(query, type, module, limit, include_stale, min_score))
    shown = take_fitting_rows([_result(each) for each in found.results], chars_max=engine.settings.result_chars_max)
    took_ms = round((time.perf_counter() - began) * 1000)
    told = {
        "warnings": list(found.warnings),
        "note": f"Contents are {REPOSITORY_WORDS}." if shown else "",
        "next": "" if found.results else "Use other words or type all; codebase_retrieval searches the code itself.",
    }
    reply = {"results": shown, "query": query, "totalFound": found.total, "searchTime": took_ms, "engine": found.engine}
    return Reply(compact_json(reply | drop_empty(told)))


def _similar(each: "Similar") -> dict[str, Any]:
    held = each.entry.memory
    if held is None:
        return {"path": each.entry.path}
    row = {"id": held.id, "title": held.title, "score": round(each.score, 3), "why": each.why}
    return drop_empty(row | {"excerpt": _excerpt(held.content)})


def _memory_row(row: "Row", *, full: bool) -> dict[str, Any]:
    entry, held, status = row.entry, row.entry.memory, row.standing
    if held is None:
        return {"path": entry.path, "status": status.status, "error": status.why}
    told = {
        "id": held.id,
        "title": held.title,
        "category": held.category,
        "subtype": held.subtype,
        "priority": held.priority,
        "tags": list(held.tags),
        "content" if full else "excerpt": held.content if full else _excerpt(held.content),
        "created_at": held.created_at,
        "updated_at": held.updated_at,
        "expires_at": held.expires_at,
        "status": status.status,
        "stale_reason": status.why,
        "linked_files": [link.path for link in held.linked_files],
        "path": entry.path,
        "version": entry.version,
        "score": None if row.score is None else round(row.score, 3),
    }
    extra = {"owner": held.owner, "source": held.source, "evidence": held.evidence, "scope": entry.scope}
    return drop_empty(told | (extra if full else {}))


def _result(found: "Result") -> dict[str, Any]:
    known: Known = found.known
    row = {
        "project": found.project,
        "id": known.id,
        "type": known.type,
        "title": known.title if known.title not in known.content else "",
        "content": known.content,
        "module": known.module,
        "session": None,
        "date": known.date,
        "score": round(found.score, 3),
        "source": known.source,
        "status": found.status,
        "links": list(known.links),
        "stale_reason": found.why,
    }
    return {key: row[key] for key in row if row[key] or key in _ALWAYS}


_ALWAYS = ("id", "type", "content", "module", "session", "date", "score", "source")
"""What the seed promises in each row, known or not."""


def _excerpt(content: str) -> str:
    plain = " ".join(redact_file(content).split())
    return plain if len(plain) <= EXCERPT_CHARS else cut_to_size(plain, EXCERPT_CHARS - 1) + "…"


def _where_else(by_status: Mapping[str, int], status: str) -> str:
    """What to try when nothing is listed."""
    others: Sequence[str] = [f"{count} {name}" for name, count in by_status.items() if name != status]
    if others and status != "all":
        return f"There are {', '.join(others)}: status all shows them."
    return "Use other words." if by_status else "Nothing is remembered yet: add_memory writes the first one."
