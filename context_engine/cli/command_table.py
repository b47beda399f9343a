"""The commands that are views of a tool: their words and options, and how their replies are shown."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

import typer

from context_engine.cli import query_commands as queries
from context_engine.cli import record_commands as records
from context_engine.cli import reply_views as views
from context_engine.cli import shell_completion
from context_engine.cli.common_options import WorkspaceName, Yes
from context_engine.cli.tool_commands import ToolCommand, show_reply

LIMIT, TAGS, BUDGET = {"limit": "-n --limit"}, {"tags": "--tag"}, {"token_budget": "--budget"}
FILTERS = {"chunk_types": "--kind", **TAGS, "languages": "--lang", "include": "", "exclude": ""}
PLAN = {"plan_id": shell_completion.complete_plans}


def _option(kind: Any, default: Any, *names: str, help: str) -> tuple[Any, Any]:  # noqa: A002 - as typer names it
    return Annotated[kind, typer.Option(*names, help=help)], default


def _argument(kind: Any, default: Any, help: str, **more: Any) -> tuple[Any, Any]:  # noqa: A002 - the same
    return Annotated[kind, typer.Argument(help=help, **more)], default


FORMAT_HELP = "Print blocks of code, path:line:text, or path:line:column:text."
QUERIES: Mapping[str, ToolCommand] = {
    "search": queries.SearchCommand(
        tool="search_code",
        words=("*query",),
        options=LIMIT | BUDGET | FILTERS,
        own={
            "only_paths": _option(bool, False, "-l", "--files-with-matches", help="Print only the paths, each once."),
            "format": _option(Literal["text", "lines", "vimgrep"], "text", "--format", help=FORMAT_HELP),
            "why": _option(bool, False, "--why", help="Show the parts of each score."),
            "workspace": (WorkspaceName, ""),
        },
        prepare=queries.ask_for_lines,
        show=views.show_hits,
        shows_json=True,
        nothing="searched",
    ),
    "context": ToolCommand(
        tool="get_context",
        words=("*query",),
        options=LIMIT | BUDGET,
        defaults={"limit": 5},
        show=views.show_markdown,
        nothing="bundled",
    ),
    "read": ToolCommand(
        tool="read",
        options={"token_budget": "-t --tokens", "context": ""},
        own={
            "targets": _argument(list[str], ..., "A file, path:10-40 for its lines, path#name for a definition."),
        },
        prepare=queries.name_items,
        show=show_reply,
    ),
    "symbol": ToolCommand(
        tool="symbols",
        words=("name",),
        options={"kind": "", "path": "", **LIMIT},
        show=partial(show_reply, in_columns=True),
        nothing="looked up",
    ),
    "trace": ToolCommand(
        tool="symbols",
        options={"relation": "-d --direction", "depth": "", **LIMIT, "possible": ""},
        own={"target": _argument(str, ..., "A symbol, or the path of a file.")},
        defaults={"relation": "callers", "limit": 100},
        prepare=queries.find_target,
        show=partial(show_reply, in_columns=True),
        nothing="followed",
    ),
    "why": ToolCommand(tool="explain", words=("target",), show=views.show_explanation, shows_json=True),
    "status": ToolCommand(tool="index_status", show=views.show_status, shows_json=True),
    "history": ToolCommand(tool="history", words=("?target",), options={**LIMIT, "diff": "-d --diff"}),
    "call": queries.CallCommand(
        tool="",
        own={
            "tool": _argument(str, "", "Name of the tool.", autocompletion=shell_completion.complete_tools),
            "arguments": _argument(str, "{}", "Its arguments as JSON; - reads them from stdin."),
            "workspace": (WorkspaceName, ""),
        },
    ),
}
"""The commands that the daemon answers, too."""
RECORDS: Mapping[str, ToolCommand] = {
    "undo": ToolCommand(tool="undo_edit", options={"steps": "-n --limit", "redo": "", "list": ""}),
}
PLANS: Mapping[str, ToolCommand] = {
    "list": ToolCommand(
        tool="list_plans",
        options={"query": "", "status": "", **TAGS, "sort_by": "--sort", **LIMIT},
        defaults={"limit": 20},
        prepare=records.sort_names,
        show=views.show_plans,
        shows_json=True,
    ),
    "create": ToolCommand(
        tool="create_plan",
        words=("*task",),
        options={
            "save_name": "--name",
            "save_tags": "--tag",
            "max_context_files": "--files",
            "include_paths": "--include",
            "exclude_paths": "--exclude",
        },
        show=views.show_created_plan,
        shows_json=True,
        nothing="planned",
    ),
    "show": ToolCommand(
        tool="load_plan",
        words=("?plan_id",),
        options={"version": ""},
        complete=PLAN,
        prepare=records.find_plan,
        show=views.show_markdown,
    ),
    "progress": ToolCommand(
        tool="view_progress",
        words=("?plan_id",),
        own={
            "watch": _option(bool, False, "--watch", "-w", help="Print each change until it ends; Ctrl-C stops."),
        },
        complete=PLAN,
        prepare=records.find_progress,
        show=views.show_progress,
    ),
    "history": ToolCommand(
        tool="view_history",
        words=("?plan_id",),
        options=LIMIT,
        complete=PLAN,
        prepare=records.find_plan,
        show=views.show_markdown,
    ),
    "diff": ToolCommand(
        tool="compare_plan_versions",
        words=("?plan_id", "?from_version", "?to_version"),
        complete=PLAN,
        prepare=records.find_versions,
        show=views.show_markdown,
    ),
}
MEMORIES: Mapping[str, ToolCommand] = {
    "list": ToolCommand(
        tool="list_memories",
        options={"category": "", "query": "", **TAGS, "status": "", "sort": "", **LIMIT},
        defaults={"status": "all"},
        show=views.show_memories,
        shows_json=True,
    ),
    "search": ToolCommand(
        tool="search_memory",
        words=("*query",),
        options={"type": "", "path": "--module", **LIMIT, "include_stale": "--stale"},
        prepare=records.learn,
        nothing="searched",
    ),
    "add": ToolCommand(
        tool="add_memory",
        words=("category", "content"),
        options={
            "title": "",
            **TAGS,
            "linked_files": "--file",
            "subtype": "--type",
            **dict.fromkeys(("priority", "source", "owner"), ""),
            "expires_at": "--expires",
            **dict.fromkeys(("supersedes", "on_similar", "scope"), ""),
        },
        complete={"category": shell_completion.complete_memory_categories},
        prepare=records.read_content,
    ),
    "edit": ToolCommand(
        tool="update_memory",
        words=("id",),
        options={
            **dict.fromkeys(("content", "title", "category"), ""),
            **TAGS,
            "linked_files": "--file",
            **dict.fromkeys(("priority", "owner"), ""),
            "expires_at": "--expires",
            "still_true": "--revalidate",
        },
        prepare=records.find_edited,
    ),
    "delete": ToolCommand(
        tool="delete_memory",
        words=("id",),
        own={"yes": (Yes, False)},
        prepare=records.confirm_deletion,
    ),
}
GROUPS = {"ctx": {**QUERIES, **RECORDS}, "ctx memory": MEMORIES, "ctx plan": PLANS}
"""All of them, by what is typed before their names."""
