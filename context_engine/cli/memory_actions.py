"""`ctx memories`: what a team knows, to read, to search, and to keep true."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from context_engine.cli.call_command import call_for_text, drop_unset, print_reply
from context_engine.cli.console import (
    Cell,
    confirm,
    ensure_index,
    err,
    escape_text,
    format_age,
    out,
    print_markdown,
    print_note,
    print_rows,
    print_table,
)
from context_engine.cli.workspace_root import resolve_root
from context_engine.engine import Engine
from context_engine.errors import InvalidArgument
from context_engine.memory.memory_requests import Draft, Revision, Sought, Wanted
from context_engine.storage import timestamps
from context_engine.text.readable_names import ending, short
from context_engine.text.visible_text import one_line

if TYPE_CHECKING:
    from context_engine.memory.knowledge import Result
    from context_engine.memory.memories import Added, Similar
    from context_engine.memory.memory_folder import Entry
    from context_engine.memory.memory_listing import Row

INTERRUPTED = 130
NOTHING_FOUND = 1
"""As grep: an empty answer is exit code 1."""
PAGE_CHARS = 100_000
"""Of all rules: more than anybody reads, and a bound all the same."""
STYLES = {"active": "green", "stale": "yellow", "superseded": "dim", "expired": "dim", "invalid": "red"}
TYPES = {"rule": "magenta", "decision": "cyan", "pattern": "green", "issue": "yellow"}


# -- reading ----------------------------------------------------------------------------------------------------------


def list_memories(root: Path | None, wanted: Wanted, *, as_json: bool) -> int:
    """Memories as a table; the exit code."""
    with Engine.open(resolve_root(root)) as engine:
        if as_json:
            asked = drop_unset(category=wanted.category, query=wanted.query, tags=wanted.tags, status=wanted.status)
            return print_reply(engine, "list_memories", asked | {"limit": wanted.limit})
        found, now = engine.memories.listed(wanted), engine.now()
    if not found.rows:
        others = ", ".join(f"{count} {status}" for status, count in found.by_status.items() if status != wanted.status)
        err.print(f"[yellow]no memories[/yellow]: {f'there are {others}' if others else 'ctx memories add writes one'}")
        return NOTHING_FOUND
    print_table(("id", "category", "status", "changed", "what"), [_row(row, now) for row in found.rows])
    for warning in found.warnings:
        print_note(warning)
    if len(found.rows) < found.total:
        print_note(f"{len(found.rows)} of {found.total:,} memories")
    return 0


def _row(row: Row, now: float) -> list[Cell]:
    held, status = row.entry.memory, row.standing
    if held is None:
        return [("-", "dim"), "", (status.status, STYLES[status.status]), "", f"{row.entry.path}: {status.why}"]
    mark = {"critical": "! ", "archive": "~ "}.get(held.priority, "")
    why = f" ({status.why})" if status.why else ""
    return [
        (short(held.id), "bold cyan"),
        held.category,
        (status.status, STYLES[status.status]),
        format_age(timestamps.seconds(held.updated_at), now),
        f"{mark}{held.title}{why}",
    ]


def search(root: Path | None, sought: Sought, *, as_json: bool) -> int:
    """What is known about something, best first: memories, rules, decisions and issues; the exit code."""
    with Engine.open(resolve_root(root)) as engine:
        if not _learned(engine):
            return INTERRUPTED
        if as_json:
            asked = drop_unset(type=sought.type, module=sought.module, limit=sought.limit)
            return print_reply(
                engine, "context_search", asked | {"query": sought.query, "include_stale": sought.include_stale}
            )
        found = engine.knowledge.search(sought)
    for number, each in enumerate(found.results):
        if number:
            out.print()
        _show_result(each)
    for warning in found.warnings:
        print_note(warning)
    if not found.results:
        left = f" {found.left_out} no longer hold: --stale shows them." if found.left_out else ""
        err.print(f"[yellow]nothing known[/yellow]: use other words; ctx search finds code.{left}")
        return NOTHING_FOUND
    if len(found.results) < found.total:
        print_note(f"{len(found.results)} of {found.total:,} results")
    return 0


def _show_result(each: Result) -> None:
    """A line with the kind and the place, then what it says."""
    known = each.known
    title = "" if known.title in known.content else one_line(known.title)
    place = one_line(known.place)
    stale = f"  [yellow]{each.status}: {escape_text(each.why)}[/yellow]" if each.why else ""
    head = f"[{TYPES.get(known.type, 'bold')}]{known.type}[/] [bold]{escape_text(place)}[/bold]  {escape_text(title)}"
    out.print(head.rstrip() + stale)
    for line in known.content.strip().splitlines():
        out.print(f"   {escape_text(line)}".rstrip())
    told = f"{known.date[:10]} {known.source} {each.score:.2f}".strip()
    out.print(f"   [dim]{escape_text(told)}[/dim]")


def show(root: Path | None, which: str, *, as_json: bool) -> int:
    """One memory, whole; the exit code."""
    with Engine.open(resolve_root(root)) as engine:
        entry = _meant(engine, which)
        standing = engine.memories.standings()(entry)
        held = entry.memory
    assert held
    if as_json:
        return _print_memory(entry, standing.status, standing.why)
    out.print(f"[bold]{escape_text(held.title)}[/bold]")
    told = (
        ("id", held.id),
        ("category", " / ".join(part for part in (held.category, held.subtype) if part)),
        ("status", " - ".join(part for part in (standing.status, standing.why) if part)),
        ("priority", held.priority),
        ("tags", ", ".join(held.tags)),
        ("files", ", ".join(link.path for link in held.linked_files)),
        ("symbols", ", ".join(held.linked_symbols)),
        ("source", held.source),
        ("owner", held.owner),
        ("evidence", held.evidence),
        ("expires", held.expires_at),
        ("changed", held.updated_at),
        ("file", entry.path),
    )
    print_rows((name, value) for name, value in told)
    out.print()
    print_markdown(held.content)
    return 0


def _print_memory(entry: Entry, status: str, why: str) -> int:
    import dataclasses

    from context_engine.tools.truncate import compact_json, drop_empty

    assert entry.memory
    told = dataclasses.asdict(entry.memory) | {"status": status, "stale_reason": why}
    print(compact_json({"ok": True} | drop_empty(told | {"path": entry.path, "version": entry.version})))
    return 0


def rules(root: Path | None) -> int:
    """Every rule and decision that holds, as one page; the exit code."""
    from context_engine.tools.rules_page import render_rules_page

    with Engine.open(resolve_root(root)) as engine:
        if not _learned(engine):
            return INTERRUPTED
        page = render_rules_page(engine, chars_max=PAGE_CHARS)
    print_markdown(page)
    return 0


def _learned(engine: Engine) -> bool:
    """Have all derived that files and commits tell; False when somebody interrupted the index."""
    if not ensure_index(engine, "searched"):
        return False
    engine.learn()
    return True


def context(root: Path | None, task: str, *, files: int, budget: int, as_json: bool) -> int:
    """What to read before a task, within a budget of tokens; the exit code."""
    with Engine.open(resolve_root(root)) as engine:
        if not ensure_index(engine, "bundled"):
            return INTERRUPTED
        asked = {"query": task, "max_files": files, "token_budget": budget}
        if as_json:
            return print_reply(engine, "get_context_for_prompt", asked)
        told = call_for_text(engine, "get_context_for_prompt", asked | {"format": "markdown"})
    print_markdown(told)
    return 0


# -- writing ----------------------------------------------------------------------------------------------------------


def add(root: Path | None, draft: Draft, on_similar: str, *, as_json: bool) -> int:
    """Write a memory down; the exit code. `-` as its content reads stdin."""
    with Engine.open(resolve_root(root)) as engine:
        added = engine.memories.add(draft, on_similar=on_similar)
    if as_json:
        from context_engine.tools.truncate import compact_json

        told = {"id": added.id, "path": added.path, "action": added.action, "redactions": added.redactions}
        print(compact_json({"ok": True} | told | {"warnings": list(added.warnings)}))
        return 0
    out.print(f"{added.action}: [bold cyan]{short(added.id)}[/bold cyan]  {escape_text(added.path)}")
    _tell_beside(added)
    return 0


def _tell_beside(added: Added) -> None:
    """What stands near a new memory, and what was taken out of it."""
    for what, others in (("similar", added.similar), ("may contradict", added.conflicts)):
        for each in others:
            err.print(f"[yellow]{what}:[/yellow] {escape_text(_named(each))}")
    for warning in added.warnings:
        err.print(f"[yellow]warning:[/yellow] {escape_text(warning)}")
    if added.redactions:
        print_note(f"{added.redactions} secrets were masked")


def _named(each: Similar) -> str:
    held = each.entry.memory
    title = f"{short(held.id)} {held.title}" if held else each.entry.path
    return f"{title} ({each.why})" if each.why else title


def edit(root: Path | None, which: str, revision: Revision) -> int:
    """Change what is named, and nothing else; the exit code. Raises: InvalidArgument when nothing is."""
    if revision == Revision():
        raise InvalidArgument(
            "nothing is said about what to change",
            suggestion="Pass --content, --title, --tag, ... or --still-true; its file can be edited, too: ctx memories show.",
        )
    with Engine.open(resolve_root(root)) as engine:
        entry = _meant(engine, which)
        assert entry.memory
        updated = engine.memories.update(entry.memory.id, revision, expected_version=entry.version)
    changed = ", ".join(name.replace("_", " ") for name in updated.changed) or "nothing"
    out.print(f"changed: {changed}  {escape_text(updated.entry.path)}")
    return 0


def delete(root: Path | None, which: str, *, is_sure: bool) -> int:
    """Delete a memory for good, after asking; the exit code. Raises: InvalidArgument where nobody can be asked."""
    with Engine.open(resolve_root(root)) as engine:
        entry = _meant(engine, which)
        held = entry.memory
        assert held
        if not (is_sure or sys.stdin.isatty()):
            raise InvalidArgument("this is no terminal, so nobody can be asked", suggestion="Repeat it with --yes.")
        if not is_sure and not confirm(f"Delete {held.title!r} for good?"):
            err.print("nothing was deleted")
            return NOTHING_FOUND
        engine.memories.delete(held.id, expected_version=entry.version)
    out.print(f"deleted: {escape_text(entry.path)}")
    return 0


def _meant(engine: Engine, which: str) -> Entry:
    """The memory of an id, or of the end of one. Raises: MemoryNotFound, InvalidArgument when several end like that."""
    ids = [entry.memory.id for entry in engine.memories.entries() if entry.memory]
    found = [which] if which in ids else ending(which, ids)
    if len(found) > 1:
        raise InvalidArgument(
            f"{len(found)} memories end with {which!r}", suggestion=f"Write more: {', '.join(found[:3])}."
        )
    return engine.memories.get(found[0] if found else which)


def read_content(content: str) -> str:
    """The content that was typed; `-` stands for what comes over stdin."""
    return sys.stdin.read() if content == "-" else content
