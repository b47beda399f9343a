"""The views of replies for a person: places with their code, definitions, tables, Markdown."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from context_engine import timestamps
from context_engine.cli.exit_codes import INTERRUPTED, NOTHING_FOUND
from context_engine.cli.screens import Screen, one_line
from context_engine.cli.tool_commands import ShownReply, call_for_text, exit_code_of

if TYPE_CHECKING:
    from context_engine.cli.console import Cell

SEARCH_HITS_MAX, ROWS_MAX = 50, 200
"""The largest --limit of a search, and of lists."""
STATUS_STYLES = {
    "executing": "blue", "completed": "green", "failed": "red", "stalled": "red", "damaged": "red", "invalid": "red",
    "needs_clarification": "yellow", "stale": "yellow", "approved": "cyan", "active": "green",
    "archived": "dim", "draft": "dim", "superseded": "dim", "expired": "dim",
}  # fmt: skip
PRIORITY_MARKS = {"critical": "! ", "archive": "~ "}
BAR_CHARS = 10
WATCH_S = 1.0
"""A person would not notice a shorter interval, and each look reads two small files."""
ENDED = frozenset({"completed", "failed", "stalled", "archived"})
"""In these statuses nothing changes any more unless a step is reopened."""


def describe_rest(shown: int, total: int, limit_max: int) -> str:
    """Describe what a list left out, and the option that shows more of it.

    >>> describe_rest(10, 45, 200), describe_rest(10, 4_000, 50), describe_rest(50, 4_000, 50)
    ('35 more: -n 45', '3,990 more: -n 50 shows the first 50', '3,950 more')
    """
    left_out = f"{total - shown:,} more"
    if shown >= limit_max:
        return left_out
    if total > limit_max:
        return f"{left_out}: -n {limit_max} shows the first {limit_max}"
    return f"{left_out}: -n {total}"


def show_rows(shown: ShownReply) -> int:
    """Show a line for each field of a reply, and the settings that are ignored."""
    from context_engine.cli.console import print_rows
    from context_engine.cli.next_commands import name_commands

    for what, step in shown.engine.settings.notes():
        shown.screen.warn("note", f"{what}. {step}")
    print_rows((name.replace("_", " "), name_commands(_format_value(value))) for name, value in shown.row.items())
    return 0


def _format_value(value: Any) -> str:
    """Format a value of a reply on one line.

    >>> _format_value({"python": 1_200, "go": 3}), _format_value(["a", "b"]), _format_value(7_000)
    ('python 1,200, go 3', 'a, b', '7,000')
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_format_value(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_format_value, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def show_markdown(shown: ShownReply) -> int:
    """Show Markdown: rendered on a terminal, unchanged in a pipe."""
    print_markdown(shown.text, shown.screen)
    return 0


def print_markdown(text: str, screen: Screen) -> None:
    """Print Markdown to a screen."""
    if screen.out.is_terminal:
        from rich.markdown import Markdown

        screen.out.render(Markdown(text, hyperlinks=False), soft_wrap=False)
    else:
        screen.out.write(text, end="" if text.endswith("\n") else "\n")


# -- code -------------------------------------------------------------------------------------------------------------


def show_hits(shown: ShownReply) -> int:
    """Show the places of a search, best first, and notes about the answer on stderr."""
    row, screen, values = shown.row, shown.screen, shown.values
    query = " ".join(values["query"])
    hits = [
        {"path": file["path"], **place, "project": file.get("project", "")}
        for file in row["results"]
        for place in (file, *(file.get("more", ()) if values["format"] == "text" else ()))
    ]
    if values["only_paths"]:
        for name in dict.fromkeys(map(_name_file, hits)):
            screen.out.show((name, "cyan"))
    else:
        for number, hit in enumerate(hits):
            if values["format"] != "text":
                _show_line(hit, screen, query, has_column=values["format"] == "vimgrep")
            else:
                _show_hit(hit, screen, is_first=not number, why=values["why"])
    _note_folders(query, shown)
    if not hits:
        _warn_of_nothing(row, screen)
    else:
        for label in ("weak", "vectors"):
            if row.get(label):
                screen.warn(label, row[label])
        note_freshness(row["freshness"], screen)
        if len(row["results"]) < row["total"]:
            screen.note(describe_rest(len(row["results"]), row["total"], SEARCH_HITS_MAX))
    return exit_code_of(row)


def _name_file(hit: Mapping[str, Any]) -> str:
    return one_line(f"{hit['project']}:{hit['path']}" if hit["project"] else hit["path"])


def _show_line(hit: Mapping[str, Any], screen: Screen, query: str, *, has_column: bool) -> None:
    """Show the best line of a place as editors read it: `path:line:text`, or `path:line:column:text`."""
    from context_engine.tools import find_best_line

    line, text = find_best_line(hit, query)
    column = f"{len(text) - len(text.lstrip()) + 1}:" if has_column else ""
    screen.out.show((_name_file(hit), "cyan"), ":", (str(line), "green"), f":{column}", one_line(text.rstrip()))


def _show_hit(hit: Mapping[str, Any], screen: Screen, *, is_first: bool, why: bool) -> None:
    """Show a line `path:first-last  symbol`, and the code below it; a file that is only named has no code."""
    has_code = "why" in hit or "score" not in hit
    if has_code and not is_first:
        screen.out.show()
    symbol = f"  {one_line(hit['symbol'])}" if hit.get("symbol") else ""
    stale = " (edited since indexed)" if hit.get("stale") else ""
    screen.out.show((_name_file(hit), "bold cyan"), ":", (hit["lines"], "green"), symbol, (stale, "yellow"))
    if why and "why" in hit:
        parts = ", ".join(f"{name} {share:g}" for name, share in hit["why"].items())
        screen.out.show((f"  {hit['score']:.3f} = {parts}", "dim"))
    if has_code:
        _show_code(hit["content"], screen, hit["path"], int(hit["lines"].partition("-")[0]))


def _show_code(code: str, screen: Screen, path: str, first: int) -> None:
    from context_engine.text import escape_controls

    text = escape_controls(code)
    if not screen.out.is_terminal:
        screen.out.write(text)
        return
    from rich.syntax import Syntax

    language = Syntax.guess_lexer(path)
    screen.out.render(Syntax(text, language, line_numbers=True, start_line=first, theme="ansi_dark", word_wrap=False))


def _note_folders(query: str, shown: ShownReply) -> None:
    """Note that a folder at the end of a question, as grep takes one, is a word of it here."""
    *words, last = query.split()
    if words and "/" in last and (shown.place.folder / last).is_dir():
        other = f"`ctx -C {shlex.quote(last)} search ...`"
        if not last.startswith(("/", "..")):
            other = f"--include {shlex.quote(last.rstrip('/') + '/')}"
        shown.screen.note(f"{last} is a word of the question; {other} searches only there")


def _warn_of_nothing(row: Mapping[str, Any], screen: Screen) -> None:
    """Say why nothing was found, and what to try."""
    from context_engine.cli.next_commands import name_commands

    reason = row.get("reason", "")
    tags = f" Tags that exist: {', '.join(row['near_tags'])}." if row.get("near_tags") else ""
    step = "Is this the right folder?" if reason.startswith("the index is empty") else "Try other words, or ctx symbol."
    screen.warn("nothing found", f"{name_commands(reason)}.{tags} {step}")


def show_definitions(shown: ShownReply) -> int:
    """Show a line `path:first-last  kind name` for each definition, its signature and its first doc line below."""
    row, screen = shown.row, shown.screen
    for definition in row["definitions"]:
        lines = (":", (str(definition["lines"]), "green"), f"  {definition['kind']} ")
        screen.out.show((one_line(definition["path"]), "bold cyan"), *lines, (one_line(definition["name"]), "bold"))
        for detail, style in ((definition.get("signature"), ""), (definition.get("doc"), "dim")):
            if detail:
                screen.out.show((f"    {one_line(detail)}", style))
    if not row["definitions"]:
        near = [one_line(other) for other in row.get("near", ())]
        step = f"`ctx search {one_line(shown.values['name'])}` looks in the text"
        if near:
            step = f"did you mean {', '.join(near[:-1])}{' or ' if near[1:] else ''}{near[-1]}?"
        screen.warn("nothing found", f"nothing is defined as {one_line(shown.values['name'])!r}; {step}")
    if len(row["definitions"]) < row["total"]:
        screen.note(describe_rest(len(row["definitions"]), row["total"], ROWS_MAX))
    else:
        note_freshness(row["freshness"], screen)
    return exit_code_of(row)


def note_freshness(freshness: str, screen: Screen) -> None:
    """Note that the index is not fresh; of the store a warning was shown before."""
    from context_engine.index import WITHOUT_STORE

    phrase = str(freshness).removesuffix(WITHOUT_STORE)
    if phrase != "fresh":
        screen.note(phrase)


def show_explanation(shown: ShownReply) -> int:
    """Show why a file or a name is in the index; return 1 if it is not."""
    from context_engine.cli.next_commands import name_commands
    from context_engine.tools import format_explanation

    row = shown.row
    shown.screen.out.write(name_commands(format_explanation(row)))
    return 0 if row.get("in_index") or row["state"] == "defined" else NOTHING_FOUND


# -- plans and memories -----------------------------------------------------------------------------------------------


def show_plans(shown: ShownReply) -> int:
    """Show a table of plans."""
    from context_engine.cli.console import print_table

    row, slugs = shown.row, plan_slugs(shown.engine)
    cells: list[list[Cell]] = [
        [
            (slugs[plan["id"]], "bold cyan"), _format_status(plan), format_bar(plan["progress"]),
            str(plan["step_count"]), _format_age(plan, shown), plan.get("goal") or plan["name"],
        ]
        for plan in row["plans"]
    ]  # fmt: skip
    if cells:
        print_table(("plan", "status", "progress", "steps", "changed", "goal"), cells)
    return _note_rest(row, "plans", shown, "ctx plan create makes one")


def plan_slugs(engine: Any) -> Mapping[str, str]:
    """Return the short name of every plan by its id."""
    from context_engine.plans import PlanQuery
    from context_engine.text import make_slugs

    rows = engine.plans.repository.list_page(PlanQuery(limit=1_000_000)).rows
    return make_slugs((row.id, row.name) for row in rows)


def format_bar(percentage: float) -> str:
    """Format a percentage as a bar of ten characters.

    >>> format_bar(0), format_bar(43.2), format_bar(99.9)
    ('░░░░░░░░░░   0 %', '████░░░░░░  43 %', '█████████░  99 %')
    """
    filled = int(percentage * BAR_CHARS / 100)
    return f"{'█' * filled}{'░' * (BAR_CHARS - filled)} {int(percentage):>3} %"


def show_memories(shown: ShownReply) -> int:
    """Show a table of memories."""
    from context_engine.cli.console import print_table
    from context_engine.text import short_id

    row = shown.row
    cells: list[list[Cell]] = []
    for memory in row["memories"]:
        if "id" not in memory:
            cells.append([("-", "dim"), "", _format_status(memory), "", f"{memory['path']}: {memory['error']}"])
            continue
        why = f" ({memory['stale_reason']})" if memory.get("stale_reason") else ""
        title = f"{PRIORITY_MARKS.get(memory['priority'], '')}{memory['title']}{why}"
        head = [(short_id(memory["id"]), "bold cyan"), memory["category"], _format_status(memory)]
        cells.append([*head, _format_age(memory, shown), title])
    if cells:
        print_table(("id", "category", "status", "changed", "what"), cells)
    return _note_rest(row, "memories", shown, "ctx memory add writes one")


def _format_status(row: Mapping[str, Any]) -> Cell:
    return row["status"].replace("_", " "), STATUS_STYLES.get(row["status"], "")


def _format_age(row: Mapping[str, Any], shown: ShownReply) -> str:
    from context_engine.cli.console import format_age

    return format_age(timestamps.parse_timestamp(row["updated_at"]), shown.engine.now())


def _note_rest(row: Mapping[str, Any], name: str, shown: ShownReply, hint: str) -> int:
    """Note warnings, what a list left out, and why it is empty; return the exit code."""
    from context_engine.cli.next_commands import name_commands

    for warning in row.get("warnings", ()):
        shown.screen.warn("warning", warning)
    if not row[name]:
        shown.screen.warn("nothing found", name_commands(row.get("next", "")) or hint)
    elif len(row[name]) < row["total"]:
        shown.screen.note(describe_rest(len(row[name]), row["total"], ROWS_MAX))
    return exit_code_of(row)


def show_created_plan(shown: ShownReply) -> int:
    """Show a plan that was just made, and the commands that go on from it."""
    row = shown.row
    print_markdown(
        call_for_text(shown.engine, "load_plan", {"plan_id": row["plan_id"], "format": "markdown"}), shown.screen
    )
    slug = plan_slugs(shown.engine)[row["plan_id"]]
    for warning in row.get("warnings", ()):
        shown.screen.warn("warning", warning)
    shown.screen.note(f"saved as {slug}: ctx plan show {slug}; ctx plan approve {slug}")
    return 0


def show_progress(shown: ShownReply) -> int:
    """Show the progress of a plan; with --watch print each change until the plan ends, which decides the exit code."""
    print_markdown(shown.text, shown.screen)
    if not shown.values["watch"]:
        return 0
    arguments = {"plan_id": _find_id(shown), "include_steps": True}
    before: dict[str, str] = {}
    try:
        while True:
            now = ShownReply(
                shown.values, call_for_text(shown.engine, "view_progress", arguments), shown.place, shown.engine
            )
            steps = {f"step {step['step_number']}, {step['title']}": step["status"] for step in now.row["steps"]}
            for change in _list_changes(before, steps) if before else ():
                moment = timestamps.format_timestamp(shown.engine.now())[11:19]
                shown.screen.out.write(f"{moment}  {now.row['percentage']:>3.0f} %  {change}")
            if now.row["status"] in ENDED:
                return 0 if now.row["status"] == "completed" else NOTHING_FOUND
            before = steps
            time.sleep(WATCH_S)
    except KeyboardInterrupt:
        shown.screen.note("no longer watching; the plan goes on")
        return INTERRUPTED


def _find_id(shown: ShownReply) -> str:
    from context_engine.cli.record_commands import resolve_plan

    return resolve_plan(shown.engine, shown.values["plan_id"])


def _list_changes(before: Mapping[str, str], now: Mapping[str, str]) -> Iterable[str]:
    """Return a line for each step whose status changed.

    >>> list(_list_changes({"step 1, A": "ready"}, {"step 1, A": "in_progress"}))
    ['in progress: step 1, A']
    """
    changed = (step for step in now if now[step] != before.get(step))
    return (f"{now[step].replace('_', ' ')}: {step}" for step in changed)


def show_saved_memory(shown: ShownReply) -> int:
    """Show where a memory was written, and what is similar to it or was redacted in it."""
    from context_engine.text import format_count, short_id

    row, screen = shown.row, shown.screen
    action = row.get("action") or f"changed {', '.join(row['changed']).replace('_', ' ') or 'nothing'}"
    screen.out.show(f"{action}: ", (short_id(row["id"]), "bold cyan"), f"  {one_line(row['path'])}")
    for label, name in (("similar", "similar"), ("may contradict", "possible_conflicts")):
        for other in row.get(name, ()):
            why = f" ({other['why']})" if other.get("why") else ""
            screen.warn(label, f"{short_id(other['id'])} {other['title']}{why}" if "id" in other else other["path"])
    for warning in row.get("warnings", ()):
        screen.warn("warning", warning)
    if row.get("redactions"):
        screen.note(f"{format_count(row['redactions'], 'secret')} redacted")
    return 0


def show_deleted_memory(shown: ShownReply) -> int:
    """Show which file was deleted."""
    shown.screen.out.write(f"deleted: {one_line(shown.row['deleted'])}")
    return 0
