"""`ctx memories`: what a team knows, to read, to search, and to keep true."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from context_engine.cli.call_command import answered, given, printed
from context_engine.cli.console import Cell, ago, err, note, out, plain, read, ready, rows, sure, table
from context_engine.cli.workspace_root import root_of
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


def listed(root: Path | None, wanted: Wanted, *, as_json: bool) -> int:
    """Memories as a table; the exit code."""
    with Engine.open(root_of(root)) as engine:
        if as_json:
            asked = given(category=wanted.category, query=wanted.query, tags=wanted.tags, status=wanted.status)
            return printed(engine, "list_memories", asked | {"limit": wanted.limit})
        found, now = engine.memories.listed(wanted), engine.now()
    if not found.rows:
        others = ", ".join(f"{count} {status}" for status, count in found.by_status.items() if status != wanted.status)
        err.print(f"[yellow]no memories[/yellow]: {f'there are {others}' if others else 'ctx memories add writes one'}")
        return NOTHING_FOUND
    table(("id", "category", "status", "changed", "what"), [_row(row, now) for row in found.rows])
    for warning in found.warnings:
        note(warning)
    if len(found.rows) < found.total:
        note(f"{len(found.rows)} of {found.total:,} memories")
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
        ago(timestamps.seconds(held.updated_at), now),
        f"{mark}{held.title}{why}",
    ]


def search(root: Path | None, sought: Sought, *, as_json: bool) -> int:
    """What is known about something, best first: memories, rules, decisions and issues; the exit code."""
    with Engine.open(root_of(root)) as engine:
        if not _learned(engine):
            return INTERRUPTED
        if as_json:
            asked = given(type=sought.type, module=sought.module, limit=sought.limit)
            return printed(
                engine, "context_search", asked | {"query": sought.query, "include_stale": sought.include_stale}
            )
        found = engine.knowledge.search(sought)
    for number, each in enumerate(found.results):
        if number:
            out.print()
        _show_result(each)
    for warning in found.warnings:
        note(warning)
    if not found.results:
        left = f" {found.left_out} no longer hold: --stale shows them." if found.left_out else ""
        err.print(f"[yellow]nothing known[/yellow]: use other words; ctx search finds code.{left}")
        return NOTHING_FOUND
    if len(found.results) < found.total:
        note(f"{len(found.results)} of {found.total:,} results")
    return 0


def _show_result(each: Result) -> None:
    """A line with the kind and the place, then what it says."""
    known = each.known
    title = "" if known.title in known.content else one_line(known.title)
    place = one_line(known.place)
    stale = f"  [yellow]{each.status}: {plain(each.why)}[/yellow]" if each.why else ""
    head = f"[{TYPES.get(known.type, 'bold')}]{known.type}[/] [bold]{plain(place)}[/bold]  {plain(title)}"
    out.print(head.rstrip() + stale)
    for line in known.content.strip().splitlines():
        out.print(f"   {plain(line)}".rstrip())
    told = f"{known.date[:10]} {known.source} {each.score:.2f}".strip()
    out.print(f"   [dim]{plain(told)}[/dim]")


def show(root: Path | None, which: str, *, as_json: bool) -> int:
    """One memory, whole; the exit code."""
    with Engine.open(root_of(root)) as engine:
        entry = _meant(engine, which)
        standing = engine.memories.standings()(entry)
        held = entry.memory
    assert held
    if as_json:
        return _print_memory(entry, standing.status, standing.why)
    out.print(f"[bold]{plain(held.title)}[/bold]")
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
    rows((name, value) for name, value in told)
    out.print()
    read(held.content)
    return 0


def _print_memory(entry: Entry, status: str, why: str) -> int:
    import dataclasses

    from context_engine.tools.truncate import compact, thrifty

    assert entry.memory
    told = dataclasses.asdict(entry.memory) | {"status": status, "stale_reason": why}
    print(compact({"ok": True} | thrifty(told | {"path": entry.path, "version": entry.version})))
    return 0


def rules(root: Path | None) -> int:
    """Every rule and decision that holds, as one page; the exit code."""
    from context_engine.tools.rules_page import rules_page

    with Engine.open(root_of(root)) as engine:
        if not _learned(engine):
            return INTERRUPTED
        page = rules_page(engine, chars_max=PAGE_CHARS)
    read(page)
    return 0


def _learned(engine: Engine) -> bool:
    """Have all derived that files and commits tell; False when somebody interrupted the index."""
    if not ready(engine, "searched"):
        return False
    engine.learn()
    return True


def context(root: Path | None, task: str, *, files: int, budget: int, as_json: bool) -> int:
    """What to read before a task, within a budget of tokens; the exit code."""
    with Engine.open(root_of(root)) as engine:
        if not ready(engine, "bundled"):
            return INTERRUPTED
        asked = {"query": task, "max_files": files, "token_budget": budget}
        if as_json:
            return printed(engine, "get_context_for_prompt", asked)
        told = answered(engine, "get_context_for_prompt", asked | {"format": "markdown"})
    read(told)
    return 0


# -- writing ----------------------------------------------------------------------------------------------------------


def add(root: Path | None, draft: Draft, on_similar: str, *, as_json: bool) -> int:
    """Write a memory down; the exit code. `-` as its content reads stdin."""
    with Engine.open(root_of(root)) as engine:
        added = engine.memories.add(draft, on_similar=on_similar)
    if as_json:
        from context_engine.tools.truncate import compact

        told = {"id": added.id, "path": added.path, "action": added.action, "redactions": added.redactions}
        print(compact({"ok": True} | told | {"warnings": list(added.warnings)}))
        return 0
    out.print(f"{added.action}: [bold cyan]{short(added.id)}[/bold cyan]  {plain(added.path)}")
    _tell_beside(added)
    return 0


def _tell_beside(added: Added) -> None:
    """What stands near a new memory, and what was taken out of it."""
    for what, others in (("similar", added.similar), ("may contradict", added.conflicts)):
        for each in others:
            err.print(f"[yellow]{what}:[/yellow] {plain(_named(each))}")
    for warning in added.warnings:
        err.print(f"[yellow]warning:[/yellow] {plain(warning)}")
    if added.redactions:
        note(f"{added.redactions} secrets were masked")


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
    with Engine.open(root_of(root)) as engine:
        entry = _meant(engine, which)
        assert entry.memory
        updated = engine.memories.update(entry.memory.id, revision, expected_version=entry.version)
    changed = ", ".join(name.replace("_", " ") for name in updated.changed) or "nothing"
    out.print(f"changed: {changed}  {plain(updated.entry.path)}")
    return 0


def delete(root: Path | None, which: str, *, is_sure: bool) -> int:
    """Delete a memory for good, after asking; the exit code. Raises: InvalidArgument where nobody can be asked."""
    with Engine.open(root_of(root)) as engine:
        entry = _meant(engine, which)
        held = entry.memory
        assert held
        if not (is_sure or sys.stdin.isatty()):
            raise InvalidArgument("this is no terminal, so nobody can be asked", suggestion="Repeat it with --yes.")
        if not is_sure and not sure(f"Delete {held.title!r} for good?"):
            err.print("nothing was deleted")
            return NOTHING_FOUND
        engine.memories.delete(held.id, expected_version=entry.version)
    out.print(f"deleted: {plain(entry.path)}")
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


def written(content: str) -> str:
    """The content that was typed; `-` stands for what comes over stdin."""
    return sys.stdin.read() if content == "-" else content
