"""`ctx memory`: read, search, write and delete what the team knows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from context_engine.cli import shell_completion
from context_engine.cli.common_options import (
    INTERRUPTED,
    NOTHING_FOUND,
    AsJson,
    Root,
    Yes,
    command_group,
    open_engine,
    print_json,
)

if TYPE_CHECKING:
    from context_engine.cli.console import Cell
    from context_engine.engine import Engine
    from context_engine.memory import AddResult, KnowledgeResult, MemoryEntry, MemoryRow, SimilarMemory

RULES_CHARS_MAX = 100_000
"""Of the page with all rules: more than anyone reads, and a limit all the same."""
LISTED_MAX, RESULTS_MAX = 200, 20
"""The largest --limit of each command."""
STATUS_STYLES = {"active": "green", "stale": "yellow", "superseded": "dim", "expired": "dim", "invalid": "red"}
TYPE_STYLES = {"rule": "magenta", "decision": "cyan", "pattern": "green", "issue": "yellow"}
PRIORITY_MARKS = {"critical": "! ", "archive": "~ "}

app = command_group("memory", "Read and write what the team knows.")

Id = Annotated[str, typer.Argument(metavar="ID", help="As ctx memory list shows it, or the whole id.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="A word to find it by; repeatable.")]
Files = Annotated[list[str] | None, typer.Option("--file", help="A file that it is about; repeatable.")]
Priority = Literal["critical", "helpful", "archive"]
Subtype = Literal["", "pattern", "rule", "decision", "issue"]


@app.command("list")
def memory_list(
    root: Root = None,
    category: Annotated[str, typer.Option("--category", help="preferences, decisions or facts.")] = "",
    query: Annotated[str, typer.Option("--query", help="Only memories that match these words.")] = "",
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Must have this tag; repeatable.")] = None,
    status: Annotated[
        Literal["active", "stale", "superseded", "expired", "invalid", "all"],
        typer.Option("--status", help="Only this status."),
    ] = "all",
    sort: Annotated[
        Literal["", "relevance", "updated", "priority", "access"],
        typer.Option("--sort", help="Sort by this; default: relevance with --query, else updated."),
    ] = "",
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=LISTED_MAX, help="Most memories to list.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List the memories, also those that are stale, superseded, expired or unreadable.

    **Examples**

    - `ctx memory list`
    - `ctx memory list --status stale`
    - `ctx memory list --category decisions --query "money"`
    """
    from context_engine.cli.console import notes, print_note, print_table
    from context_engine.cli.query_commands import describe_rest, drop_unset, print_reply, split_lists
    from context_engine.memory import MemoryQuery

    wanted = MemoryQuery(category.strip().lower(), query, tuple(split_lists(tag or ())), status, sort=sort, limit=limit)
    with open_engine(root) as engine:
        if as_json:
            arguments = drop_unset(category=wanted.category, query=query, tags=wanted.tags, status=status)
            raise typer.Exit(print_reply(engine, "list_memories", arguments | {"limit": limit}))
        page, now_s = engine.memory.memories.list_page(wanted), engine.now()
    if not page.rows:
        others = ", ".join(f"{count} {other}" for other, count in page.by_status.items() if other != status)
        hint = "ctx memory add writes one"
        if others:
            hint = f"there are {others}"
        notes.print(f"[yellow]no memories[/yellow]: {hint}")
        raise typer.Exit(NOTHING_FOUND)
    print_table(("id", "category", "status", "changed", "what"), [_table_row(row, now_s) for row in page.rows])
    for warning in page.warnings:
        print_note(warning)
    if len(page.rows) < page.total:
        print_note(describe_rest(len(page.rows), page.total, LISTED_MAX))


@app.command("search")
def memory_search(
    query: Annotated[list[str], typer.Argument(metavar="QUERY...", help="What to find out; it needs no quotes.")],
    root: Root = None,
    kind: Annotated[
        Literal["all", "pattern", "rule", "decision", "issue"], typer.Option("--type", help="Only this type.")
    ] = "all",
    module: Annotated[str, typer.Option("--module", help="Only about this folder, file or name.")] = "",
    stale: Annotated[bool, typer.Option("--stale", help="Include what is no longer valid.")] = False,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=RESULTS_MAX, help="Most results.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Search memories, and the decisions, rules and issues found in files and commits.

    **Examples**

    - `ctx memory search how are amounts rounded`
    - `ctx memory search deploy --type rule`
    - `ctx memory search timeout --type issue --module src/net`
    """
    from context_engine.cli.console import notes, out, print_note
    from context_engine.cli.query_commands import describe_rest, drop_unset, print_reply
    from context_engine.memory import KnowledgeQuery
    from context_engine.text import format_count

    question = " ".join(query)

    with open_engine(root) as engine:
        if not _collect_knowledge(engine):
            raise typer.Exit(INTERRUPTED)
        if as_json:
            arguments = drop_unset(query=question, type=kind, module=module, limit=limit) | {"include_stale": stale}
            raise typer.Exit(print_reply(engine, "search_memory", arguments | {"format": "json"}))
        found = engine.memory.get_knowledge().search(KnowledgeQuery(question, kind, module, limit, include_stale=stale))
    for number, result in enumerate(found.results):
        if number:
            out.print()
        _print_result(result)
    for warning in found.warnings:
        print_note(warning)
    if not found.results:
        left_out = ""
        if found.left_out:
            left_out = f" {format_count(found.left_out, 'result')} no longer valid: --stale shows all."
        notes.print(f"[yellow]nothing found[/yellow]: use other words; ctx search finds code.{left_out}")
        raise typer.Exit(NOTHING_FOUND)
    if len(found.results) < found.total:
        print_note(describe_rest(len(found.results), found.total, RESULTS_MAX))


@app.command("show")
def memory_show(memory: Id, root: Root = None, as_json: AsJson = False) -> None:
    """Show one memory in full, with its status.

    **Examples**

    - `ctx memory show 0c07398f`
    """
    from context_engine.cli.console import escape_text, out, print_markdown, print_rows

    with open_engine(root) as engine:
        entry = _find_memory(engine, memory)
        standing = engine.memory.memories.start_status_check()(entry)
    found = entry.memory
    assert found
    if as_json:
        _print_json(entry, standing.status, standing.why)
        return
    out.print(f"[bold]{escape_text(found.title)}[/bold]")
    rows = {
        "id": found.id,
        "category": " / ".join(filter(None, (found.category, found.subtype))),
        "status": " - ".join(filter(None, (standing.status, standing.why))),
        "priority": found.priority,
        "tags": ", ".join(found.tags),
        "files": ", ".join(link.path for link in found.linked_files),
        "symbols": ", ".join(found.linked_symbols),
        "source": found.source,
        "owner": found.owner,
        "evidence": found.evidence,
        "expires": found.expires_at,
        "changed": found.updated_at,
        "file": entry.path,
    }
    print_rows(rows.items())
    out.print()
    print_markdown(found.content)


@app.command("add")
def memory_add(
    category: Annotated[
        str,
        typer.Argument(
            help="preferences, decisions or facts.", autocompletion=shell_completion.complete_memory_categories
        ),
    ],
    content: Annotated[str, typer.Argument(help="What to remember, in a few sentences; - reads stdin.")],
    root: Root = None,
    title: Annotated[str, typer.Option("--title", help="Headline; default: the first line.")] = "",
    tag: Tags = None,
    file: Files = None,
    subtype: Annotated[Subtype, typer.Option("--type", help="What kind of knowledge it is.")] = "",
    priority: Annotated[Priority, typer.Option("--priority", help="How important it is.")] = "helpful",
    source: Annotated[str, typer.Option("--source", help="Where it comes from.")] = "",
    owner: Annotated[str, typer.Option("--owner", help="Person who is responsible for it.")] = "",
    expires: Annotated[str, typer.Option("--expires", help="Date it expires: 2027-01-31.")] = "",
    supersedes: Annotated[
        list[str] | None, typer.Option("--supersedes", help="Id of a memory that it replaces; repeatable.")
    ] = None,
    on_similar: Annotated[
        Literal["warn", "reject", "merge", "supersede", "allow"],
        typer.Option("--on-similar", help="What to do when a similar memory exists."),
    ] = "warn",
    scope: Annotated[
        Literal["project", "user"], typer.Option("--scope", help="For this project, or for you in every project.")
    ] = "project",
    as_json: AsJson = False,
) -> None:
    """Add a decision, a preference or a fact as a Markdown file that people can edit and git can merge.

    **Examples**

    - `ctx memory add decisions "Amounts are whole cents everywhere." --file src/money.py`
    - `ctx memory add preferences "Tests are named by the sentence they prove." --type rule`
    - `git log -1 --format=%B | ctx memory add facts - --tag release`
    """
    from context_engine.cli.console import escape_text, out
    from context_engine.memory import MemoryDraft
    from context_engine.text import compact_json, short_id

    draft = MemoryDraft(
        category=category.strip().lower(), content=_read_content(content), title=title, tags=tuple(tag or ()),
        subtype=subtype, priority=priority, source=source, owner=owner, expires_at=expires,
        linked_files=tuple(file or ()), supersedes=tuple(supersedes or ()), scope=scope,
    )  # fmt: skip
    with open_engine(root) as engine:
        added = engine.memory.memories.add(draft, on_similar=on_similar)
    if as_json:
        row = {"id": added.id, "path": added.path, "action": added.action, "redactions": added.redactions}
        print(compact_json({"ok": True} | row | {"warnings": list(added.warnings)}))
        return
    out.print(f"{added.action}: [bold cyan]{short_id(added.id)}[/bold cyan]  {escape_text(added.path)}")
    _print_warnings(added)


@app.command("edit")
def memory_edit(
    memory: Id,
    root: Root = None,
    content: Annotated[str | None, typer.Option("--content", help="New text; - reads stdin.")] = None,
    title: Annotated[str | None, typer.Option("--title", help="New headline.")] = None,
    category: Annotated[str | None, typer.Option("--category", help="Move it to this category.")] = None,
    tag: Tags = None,
    file: Files = None,
    priority: Annotated[Priority | None, typer.Option("--priority", help="How important it is.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Person who is responsible for it.")] = None,
    expires: Annotated[str | None, typer.Option("--expires", help="Date it expires.")] = None,
    revalidate: Annotated[
        bool, typer.Option("--revalidate", help="Confirm that it is still valid although its files changed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Change a memory; fields without an option stay as they are. You can also edit the file by hand.

    **Examples**

    - `ctx memory edit 0c07398f --revalidate`
    - `ctx memory edit 0c07398f --title "Money is counted in cents" --tag billing`
    """
    from context_engine.cli.console import escape_text, out
    from context_engine.errors import InvalidArgument
    from context_engine.memory import MemoryRevision

    revision = MemoryRevision(
        category=category, content=None if content is None else _read_content(content), title=title,
        tags=None if tag is None else tuple(tag), linked_files=None if file is None else tuple(file),
        priority=priority, owner=owner, expires_at=expires, still_true=revalidate,
    )  # fmt: skip
    if revision == MemoryRevision():
        raise InvalidArgument(
            "no option says what to change",
            suggestion="Pass --content, --title, --tag, ... or --revalidate; `ctx memory show` names its file.",
        )
    with open_engine(root) as engine:
        entry = _find_memory(engine, memory)
        assert entry.memory
        updated = engine.memory.memories.update(entry.memory.id, revision, expected_version=entry.version)
    if as_json:
        print_json({"id": entry.memory.id, "path": updated.entry.path, "changed": list(updated.changed)})
        return
    changed = ", ".join(name.replace("_", " ") for name in updated.changed) or "nothing"
    out.print(f"changed: {changed}  {escape_text(updated.entry.path)}")


@app.command("delete")
def memory_delete(memory: Id, root: Root = None, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a memory permanently. A memory that it superseded becomes valid again.

    **Examples**

    - `ctx memory delete 0c07398f`
    """
    from context_engine.cli.console import confirm, err, escape_text, out
    from context_engine.errors import InvalidArgument

    with open_engine(root) as engine:
        entry = _find_memory(engine, memory)
        found = entry.memory
        assert found
        if not (yes or sys.stdin.isatty()):
            raise InvalidArgument("stdin is not a terminal, so you cannot be asked", suggestion="Repeat it with --yes.")
        if not yes and not confirm(f"Delete {found.title!r} permanently?"):
            err.print("nothing was deleted")
            raise typer.Exit(NOTHING_FOUND)
        engine.memory.memories.delete(found.id, expected_version=entry.version)
    if as_json:
        print_json({"id": found.id, "deleted": entry.path})
    else:
        out.print(f"deleted: {escape_text(entry.path)}")


@app.command("rules")
def memory_rules(root: Root = None, as_json: AsJson = False) -> None:
    """Print all valid rules and decisions with their sources: what an agent should know before it begins.

    **Examples**

    - `ctx memory rules`
    - `ctx memory rules > RULES.md`
    """
    from context_engine.cli.console import print_markdown
    from context_engine.secrets import redact_file
    from context_engine.tools import render_rules_page

    with open_engine(root) as engine:
        if not _collect_knowledge(engine):
            raise typer.Exit(INTERRUPTED)
        page = render_rules_page(engine, chars_max=RULES_CHARS_MAX)
    page = page.replace("add_memory", "ctx memory add")
    if as_json:
        print_json({"markdown": redact_file(page)})
    else:
        print_markdown(page)


# -- shared steps -----------------------------------------------------------------------------------------------------


def _collect_knowledge(engine: Engine) -> bool:
    """Derive all that files and commits say; return False when the user interrupts the indexing."""
    from context_engine.cli.console import ensure_index

    if not ensure_index(engine, "searched"):
        return False
    engine.memory.run_to_end()
    return True


def _find_memory(engine: Engine, name: str) -> MemoryEntry:
    """Return the memory with this id, or with this end of an id.

    Raises: MemoryNotFound, InvalidArgument when several ids end like that.
    """
    from context_engine.errors import InvalidArgument
    from context_engine.text import ids_ending_with

    ids = [entry.memory.id for entry in engine.memory.memories.entries() if entry.memory]
    if name in ids:
        found = [name]
    else:
        found = ids_ending_with(name, ids)
    if len(found) > 1:
        raise InvalidArgument(
            f"{len(found)} memories end with {name!r}", suggestion=f"Write more: {', '.join(found[:3])}."
        )
    return engine.memory.memories.get(found[0] if found else name)


def _read_content(content: str) -> str:
    """Return the typed content; `-` reads stdin."""
    if content == "-":
        return sys.stdin.read()
    return content


# -- printing ---------------------------------------------------------------------------------------------------------


def _table_row(row: MemoryRow, now_s: float) -> list[Cell]:
    from context_engine import timestamps
    from context_engine.cli.console import format_age
    from context_engine.text import short_id

    memory, standing = row.entry.memory, row.status
    status: Cell = (standing.status, STATUS_STYLES[standing.status])
    if memory is None:
        return [("-", "dim"), "", status, "", f"{row.entry.path}: {standing.why}"]
    why = f" ({standing.why})" if standing.why else ""
    return [
        (short_id(memory.id), "bold cyan"),
        memory.category,
        status,
        format_age(timestamps.parse_timestamp(memory.updated_at), now_s),
        f"{PRIORITY_MARKS.get(memory.priority, '')}{memory.title}{why}",
    ]


def _print_result(result: KnowledgeResult) -> None:
    """Print a line with type and source, then the content."""
    from context_engine.cli.console import escape_text, out
    from context_engine.text import escape_line

    known = result.entry
    if known.title in known.content:
        title = ""
    else:
        title = escape_line(known.title)
    stale = ""
    if result.why:
        stale = f"  [yellow]{result.status}: {escape_text(result.why)}[/yellow]"
    place = f"[bold]{escape_text(escape_line(known.place))}[/bold]"
    head = f"[{TYPE_STYLES.get(known.type, 'bold')}]{known.type}[/] {place}  {escape_text(title)}"
    out.print(head.rstrip() + stale)
    for line in known.content.strip().splitlines():
        out.print(f"   {escape_text(line)}".rstrip())
    origin = f"{known.date[:10]} {known.source} {result.score:.2f}".strip()
    out.print(f"   [dim]{escape_text(origin)}[/dim]")


def _print_json(entry: MemoryEntry, status: str, why: str) -> None:
    import dataclasses

    from context_engine.text import compact_json, drop_empty

    assert entry.memory
    row = dataclasses.asdict(entry.memory) | {"status": status, "stale_reason": why}
    print(compact_json({"ok": True} | drop_empty(row | {"path": entry.path, "version": entry.version})))


def _print_warnings(added: AddResult) -> None:
    """Print which memories are similar to a new one, and what was redacted in it."""
    from context_engine.cli.console import escape_text, notes, print_note
    from context_engine.text import format_count

    for label, others in (("similar", added.similar), ("may contradict", added.conflicts)):
        for other in others:
            notes.print(f"[yellow]{label}:[/yellow] {escape_text(_describe_similar(other))}")
    for warning in added.warnings:
        notes.print(f"[yellow]warning:[/yellow] {escape_text(warning)}")
    if added.redactions:
        print_note(f"{format_count(added.redactions, 'secret')} redacted")


def _describe_similar(similar: SimilarMemory) -> str:
    from context_engine.text import short_id

    memory = similar.entry.memory
    if memory:
        title = f"{short_id(memory.id)} {memory.title}"
    else:
        title = similar.entry.path
    if similar.why:
        return f"{title} ({similar.why})"
    return title
