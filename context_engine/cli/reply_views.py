"""The views of replies for a person: places with their code, definitions, tables, Markdown."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from context_engine import plans, timestamps, tools
from context_engine.cli.command_runner import INTERRUPTED, NOTHING_FOUND
from context_engine.cli.record_commands import resolve_plan
from context_engine.cli.screens import Part, Screen
from context_engine.cli.tool_commands import ShownReply, call_for_text, exit_code_of
from context_engine.cli.workspace_choice import note_settings
from context_engine.text import escape_controls, make_slugs, short_id

LINE_NUMBER_CHARS = 5
"""What Rich puts around the number of a line."""
TAB_CHARS = 4
ROWS_MAX = 200
"""The largest --limit of a list."""
STATUS_STYLES = {
    "executing": "blue", "completed": "green", "failed": "red", "stalled": "red", "damaged": "red", "invalid": "red",
    "needs_clarification": "yellow", "stale": "yellow", "approved": "cyan", "active": "green",
    "draft": "dim", "superseded": "dim", "expired": "dim",
}  # fmt: skip
PRIORITY_MARKS = {"critical": "! ", "archive": "~ "}
WATCH_S = 1.0
"""A person would not notice a shorter interval, and each look reads two small files."""
ENDED = frozenset({"completed", "failed", "stalled"})
"""In these statuses nothing changes any more unless a step is reopened."""


def show_status(shown: ShownReply) -> int:
    """Show a line for each fact about the index, and the settings that are ignored."""
    note_settings(shown.engine.notes(), shown.screen)
    row = tools.shorten_status(shown.row)
    row |= {"root": str(shown.engine.root), "cache_folder": str(shown.engine.cache_folder)}
    shown.screen.out.show_rows(
        (name.replace("_", " "), f"{value:,}" if isinstance(value, int) else shown.reword(tools.format_value(value)))
        for name, value in row.items()
    )
    return 0


def show_markdown(shown: ShownReply) -> int:
    """Show Markdown: rendered on a terminal, unchanged in a pipe."""
    shown.screen.out.show_markdown(shown.text)
    return 0


# -- code -------------------------------------------------------------------------------------------------------------


def show_hits(shown: ShownReply) -> int:
    """Show the places of a search, best first, and notes about the answer on stderr."""
    row, screen, values = shown.row, shown.screen, shown.values
    query, is_text = " ".join(values["query"]), values["format"] == "text"
    if row.get("weak"):
        screen.warn("weak", row["weak"])
    hits = [
        {"path": file["path"], **place, "file": f"{project}:{file['path']}" if project else file["path"]}
        for file in row["results"]
        for project in (file.get("project", ""),)
        for place in (file, *(file.get("more", ()) if is_text else ()))
    ]
    if values["only_paths"]:
        for name in dict.fromkeys(hit["file"] for hit in hits):
            screen.out.show((name, "cyan"))
    else:
        for number, hit in enumerate(hits):
            if is_text:
                _show_hit(hit, screen, query, is_first=not number, why=values["why"])
                continue
            # as editors read it: `path:line:text`, or `path:line:column:text`
            line, text = tools.find_best_line(hit, query)
            column = f"{len(text) - len(text.lstrip()) + 1}:" if values["format"] == "vimgrep" else ""
            screen.out.show((hit["file"], "cyan"), ":", (str(line), "green"), f":{column}", text.rstrip())
    if not hits:
        tags = f" Tags that exist: {', '.join(row['near_tags'])}." if row.get("near_tags") else ""
        screen.warn("nothing found", shown.reword(f"{row.get('reason', '')}.{tags} {row['next']}"))
        return exit_code_of(row)
    if row.get("vectors"):
        screen.warn("vectors", row["vectors"])
    if row["freshness"] != "fresh":
        screen.note(row["freshness"])
    return exit_code_of(row)


def _show_hit(hit: Mapping[str, Any], screen: Screen, query: str, *, is_first: bool, why: bool) -> None:
    """Show a line `path:first-last  symbol`, and the code below it; a file that is only named has no code."""
    has_code = "why" in hit or "score" not in hit
    if has_code and not is_first:
        screen.out.show()
    symbol = f"  {hit['symbol']}" if hit.get("symbol") else ""
    stale = " (edited since indexed)" if hit.get("stale") else ""
    screen.out.show((hit["file"], "bold cyan"), ":", (hit["lines"], "green"), symbol, (stale, "yellow"))
    if why and "why" in hit:
        parts = ", ".join(f"{name} {share:g}" for name, share in hit["why"].items())
        screen.out.show((f"  {hit['score']:.3f} = {parts}", "dim"))
    if not has_code:
        return
    text = escape_controls(hit["content"])
    console = screen.out.console
    if console is None or not console.is_terminal:
        screen.out.write(text)
        return
    from rich.syntax import Syntax

    language, (first, last) = Syntax.guess_lexer(hit["path"]), (hit["lines"].partition("-")[::2])
    room = console.width - len(last or first) - LINE_NUMBER_CHARS
    lines = [line if len(line) <= room else f"{line[: room - 1]}…" for line in text.expandtabs(TAB_CHARS).split("\n")]
    code = Syntax("\n".join(lines), language, line_numbers=True, start_line=int(first), theme="ansi_dark")
    for number, line in enumerate(lines, 1):
        for found in tools.find_matches(line, query):
            code.stylize_range("bold red", (number, found.start()), (number, found.end()))
    screen.out.render(code)


def show_explanation(shown: ShownReply) -> int:
    """Show why a file or a name is in the index; return 1 if it is not."""
    row = shown.row
    shown.screen.out.write(shown.reword(tools.format_explanation(row)))
    return 0 if row.get("in_index") or row["state"] == "defined" else NOTHING_FOUND


# -- plans and memories -----------------------------------------------------------------------------------------------


def show_plans(shown: ShownReply) -> int:
    """Show a table of plans."""
    slugs = plan_slugs(shown.engine)
    cells: list[list[Part]] = [
        [
            (slugs[plan["id"]], "bold cyan"), _format_status(plan), format_bar(plan["progress"]),
            str(plan["step_count"]), _format_age(plan, shown), plan.get("goal") or plan["name"],
        ]
        for plan in shown.row["plans"]
    ]  # fmt: skip
    return _show_list(
        shown, "plans", ("plan", "status", "progress", "steps", "changed", "goal"), cells, "ctx plan create makes one"
    )


def plan_slugs(engine: Any) -> Mapping[str, str]:
    """Return the short name of every plan by its id."""
    rows = engine.plans.repository.list_page(plans.PlanQuery(limit=1_000_000)).rows
    return make_slugs((row.id, row.name) for row in rows)


def format_bar(percentage: float) -> str:
    """Format a percentage as a bar of ten characters.

    >>> format_bar(0), format_bar(43.2), format_bar(99.9)
    ('░░░░░░░░░░   0 %', '████░░░░░░  43 %', '█████████░  99 %')
    """
    filled = int(percentage / 10)
    return f"{'█' * filled}{'░' * (10 - filled)} {int(percentage):>3} %"


def show_memories(shown: ShownReply) -> int:
    """Show a table of memories."""
    cells: list[list[Part]] = []
    for memory in shown.row["memories"]:
        if "id" not in memory:
            cells.append([("-", "dim"), "", _format_status(memory), "", f"{memory['path']}: {memory['error']}"])
            continue
        why = f" ({memory['stale_reason']})" if memory.get("stale_reason") else ""
        title = f"{PRIORITY_MARKS.get(memory['priority'], '')}{memory['title']}{why}"
        head = [(short_id(memory["id"]), "bold cyan"), memory["category"], _format_status(memory)]
        cells.append([*head, _format_age(memory, shown), title])
    columns = ("id", "category", "status", "changed", "what")
    return _show_list(shown, "memories", columns, cells, "ctx memory add writes one")


def _format_status(row: Mapping[str, Any]) -> Part:
    return row["status"].replace("_", " "), STATUS_STYLES.get(row["status"], "")


def _format_age(row: Mapping[str, Any], shown: ShownReply) -> str:
    return timestamps.format_age(timestamps.parse_timestamp(row["updated_at"]), shown.engine.now())


def _show_list(shown: ShownReply, name: str, head: tuple[str, ...], cells: list[list[Part]], hint: str) -> int:
    """Show a table, warnings, what a list left out, and why it is empty; return the exit code."""
    row = shown.row
    if cells:
        shown.screen.out.show_table(head, cells)
    for warning in row.get("warnings", ()):
        shown.screen.warn("warning", warning)
    if not row[name]:
        shown.screen.warn("nothing found", shown.reword(row.get("next", "")) or hint)
    elif len(row[name]) < row["total"]:
        shown.screen.note(f"{row['total'] - len(row[name]):,} more: -n {min(row['total'], ROWS_MAX)}")
    return exit_code_of(row)


def show_created_plan(shown: ShownReply) -> int:
    """Show a plan that was just made, and the commands that go on from it."""
    row, screen = shown.row, shown.screen
    screen.out.show_markdown(call_for_text(shown.engine, "load_plan", {"plan_id": row["plan_id"]}))
    slug = plan_slugs(shown.engine)[row["plan_id"]]
    for warning in row.get("warnings", ()):
        screen.warn("warning", warning)
    screen.note(f"saved as {slug}: ctx plan show {slug}; ctx plan approve {slug}")
    return 0


def show_progress(shown: ShownReply) -> int:
    """Show the progress of a plan; with --watch print each change until the plan ends, which decides the exit code."""
    show_markdown(shown)
    if not shown.values["watch"]:
        return 0
    arguments = {"plan_id": resolve_plan(shown.engine, shown.values["plan_id"]), "include_steps": True}
    before: dict[str, str] = {}
    try:
        while True:
            row = json.loads(call_for_text(shown.engine, "view_progress", arguments, structured=True))
            steps = {f"step {step['step_number']}, {step['title']}": step["status"] for step in row["steps"]}
            moment = timestamps.format_timestamp(shown.engine.now())[11:19]
            for step in [step for step in steps if before and steps[step] != before.get(step)]:
                change = f"{steps[step].replace('_', ' ')}: {step}"
                shown.screen.out.write(f"{moment}  {row['percentage']:>3.0f} %  {change}")
            if row["status"] in ENDED:
                return 0 if row["status"] == "completed" else NOTHING_FOUND
            before = steps
            time.sleep(WATCH_S)
    except KeyboardInterrupt:
        shown.screen.note("no longer watching; the plan goes on")
        return INTERRUPTED
