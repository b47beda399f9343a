"""The commands that are views of a tool: their words and options, and how their replies are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import typer

from context_engine.cli import reply_views as views
from context_engine.cli import shell_completion
from context_engine.cli.common_options import WorkspaceName, Yes
from context_engine.cli.query_commands import CallCommand, ReadCommand, SearchCommand, ask_for_lines, find_target
from context_engine.cli.record_commands import (
    confirm_deletion,
    find_edited,
    find_plan,
    find_progress,
    find_versions,
    learn,
    read_content,
    sort_names,
)
from context_engine.cli.tool_commands import ToolCommand

FILTERS = {"include": "", "exclude": ""}
PLAN = {"plan_id": shell_completion.complete_plans}

QUERIES: Mapping[str, ToolCommand] = {
    "search": SearchCommand(
        tool="search_code",
        help="""Find code by a question, by words or by a symbol. Builds the index if there is none.

        A question needs no quotes. `--kind`, `--tag`, `--lang`, `--include` and `--exclude` take a comma list or are
        repeated. Exit codes: 0 found, 1 nothing found, 2 error.

        **Examples**

        - `ctx search where are passwords hashed`
        - `ctx search RetryPolicy -n 3`
        - `ctx search parse config --lang python,go --exclude 'tests/**'`
        - `ctx search login -l | xargs wc -l`
        - `vim -q <(ctx search login --format vimgrep)`
        - `ctx search login --json | jq .results`
        - `ctx search retry policy --workspace team`
        """,
        words=("*query",),
        options={
            "limit": "-n --limit",
            "chunk_types": "--kind",
            "tags": "--tag",
            "languages": "--lang",
            **FILTERS,
        },
        own={
            "only_paths": (
                Annotated[bool, typer.Option("-l", "--files-with-matches", help="Print only the paths, each once.")],
                False,
            ),
            "format": (
                Annotated[
                    Literal["text", "lines", "vimgrep"],
                    typer.Option("--format", help="Print blocks of code, path:line:text, or path:line:column:text."),
                ],
                "text",
            ),
            "why": (Annotated[bool, typer.Option("--why", help="Show the parts of each score.")], False),
            "workspace": (WorkspaceName, ""),
        },
        prepare=ask_for_lines,
        show=views.show_hits,
        shows_json=True,
        nothing="searched",
    ),
    "context": ToolCommand(
        tool="get_context",
        help="""Print what to read before a task, within a budget.

        The result is Markdown: code, related files, tests, memories and facts. A task needs no quotes.

        **Examples**

        - `ctx context add a retry to the upload client`
        - `ctx context why do sessions expire --budget 3000 | pbcopy`
        """,
        words=("*query",),
        options={"limit": "-n --limit", "token_budget": "--budget"},
        defaults={"limit": 5},
        show=views.show_markdown,
        nothing="bundled",
    ),
    "read": ReadCommand(
        tool="",
        help="""Print files, ranges of their lines, or single definitions. Each is below a line with its path.

        **Examples**

        - `ctx read src/auth.py`
        - `ctx read src/auth.py:10-40 src/tokens.py#sign`
        """,
        own={
            "targets": (
                Annotated[
                    list[str], typer.Argument(help="A file, path:10-40 for its lines, path#name for a definition.")
                ],
                ...,
            )
        },
    ),
    "symbol": ToolCommand(
        tool="symbols",
        help="""Show where a function, class, method or variable is defined.

        Exit codes: 0 found, 1 nothing found, 2 error.

        **Examples**

        - `ctx symbol Engine.search`
        - `ctx symbol '*Error' --kind class`
        - `ctx symbol main --path src`
        """,
        words=("name",),
        options={"kind": "", "path": "", "limit": "-n --limit"},
        show=views.show_definitions,
        shows_json=True,
        nothing="looked up",
    ),
    "trace": ToolCommand(
        tool="symbols",
        help="""Follow callers, callees, imports, impact; list unused definitions.

        Exit codes: 0 found, 1 nothing found, 2 error.

        **Examples**

        - `ctx trace Engine.search`
        - `ctx trace src/auth.py -d importers`
        - `ctx trace hash_password -d impact --depth 3`
        - `ctx trace src -d unused`
        """,
        options={"relation": "-d --direction", "depth": "", "limit": "-n --limit", "possible": ""},
        own={"target": (Annotated[str, typer.Argument(help="A symbol, or the path of a file.")], ...)},
        defaults={"relation": "callers", "limit": 100},
        prepare=find_target,
        nothing="followed",
    ),
    "why": ToolCommand(
        tool="explain",
        help="""Explain why a file or a symbol is in the index or not.

        Names the rule of the ignore file and its line, the limit, or the format that keeps a file out. For a symbol:
        similar names, and files that have it only as text. The exit code is 0 if it is in the index, 1 if not.

        **Examples**

        - `ctx why dist/app.js`
        - `ctx why Engine.serach`
        - `ctx why src --json`
        """,
        words=("target",),
        show=views.show_explanation,
        shows_json=True,
    ),
    "call": CallCommand(
        tool="",
        help="""Call one tool as an agent would and print its reply; without a tool, list all tools.

        On failure, print the error as JSON and exit with code 2.

        **Examples**

        - `ctx call index_status`
        - `ctx call search_code '{"query": "retry policy", "limit": 3}'`
        - `echo '{"items": ["README.md"]}' | ctx call read -`
        - `ctx call symbols '{"name": "main"}' --workspace team`
        - `ctx call list_tools '{"names": ["symbols"]}'` prints a tool's full schema
        """,
        own={
            "tool": (
                Annotated[
                    str, typer.Argument(help="Name of the tool.", autocompletion=shell_completion.complete_tools)
                ],
                "",
            ),
            "arguments": (
                Annotated[str, typer.Argument(help="Its arguments as JSON; - reads them from stdin.")],
                "{}",
            ),
            "workspace": (WorkspaceName, ""),
        },
        has_json=False,
    ),
}
"""The commands that the daemon answers, too."""
RECORDS: Mapping[str, ToolCommand] = {
    "status": ToolCommand(
        tool="index_status",
        help="""Show what is indexed and how fresh it is.

        **Examples**

        - `ctx status`
        - `ctx status --json | jq .stale_files`
        """,
        show=views.show_rows,
        shows_json=True,
    ),
    "history": ToolCommand(
        tool="history",
        help="""Show the commits that changed a file, some lines or a symbol.

        Each has its message. A commit as the target is shown alone. Secrets in diffs are masked.

        **Examples**

        - `ctx history app/pool.py:40-55`
        - `ctx history Pool.close`
        - `ctx history HEAD~2 --diff`
        """,
        words=("?target",),
        options={"limit": "-n --limit", "diff": "-d --diff"},
    ),
    "undo": ToolCommand(
        tool="undo_edit",
        help="""Undo the edits that agents made, newest first.

        Only edits through Context Engine can be undone. A file that someone else changed since is not touched, and the
        command reports it.

        **Examples**

        - `ctx undo --list`
        - `ctx undo`
        - `ctx undo --redo -n 2`
        """,
        options={"steps": "-n --limit", "redo": "", "list": ""},
    ),
}
PLANS: Mapping[str, ToolCommand] = {
    "list": ToolCommand(
        tool="list_plans",
        help="""List plans with their status and progress, the most recently changed first.

        **Examples**

        - `ctx plan list`
        - `ctx plan list --status executing`
        - `ctx plan list --json | jq -r '.plans[].name'`
        """,
        options={"query": "", "status": "", "tags": "--tag", "sort_by": "--sort", "limit": "-n --limit"},
        defaults={"limit": 20},
        prepare=sort_names,
        show=views.show_plans,
        shows_json=True,
    ),
    "create": ToolCommand(
        tool="create_plan",
        help="""Create a plan from this repository: steps with files, tests, risks and questions. Needs no model.

        **Examples**

        - `ctx plan create Rename hash_password to derive_key`
        - `ctx plan create Retry failed requests --include 'src/**' --name retries`
        """,
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
        help="""Show a plan with its progress; by default the one that changed last.

        **Examples**

        - `ctx plan show`
        - `ctx plan show retries > plan.md`
        - `ctx plan show retries --version 2`
        """,
        words=("?plan_id",),
        options={"version": ""},
        complete=PLAN,
        prepare=find_plan,
        show=views.show_markdown,
        format="markdown",
    ),
    "progress": ToolCommand(
        tool="view_progress",
        help="""Show which steps of a plan are done, running, ready or blocked.

        Exit codes with `--watch`: 0 the plan is completed, 1 it failed, 130 stopped before its end.

        **Examples**

        - `ctx plan progress`
        - `ctx plan progress retries --watch`
        """,
        words=("?plan_id",),
        own={
            "watch": (
                Annotated[bool, typer.Option("--watch", "-w", help="Print each change until it ends; Ctrl-C stops.")],
                False,
            )
        },
        complete=PLAN,
        prepare=find_progress,
        show=views.show_progress,
        format="markdown",
    ),
    "history": ToolCommand(
        tool="view_history",
        help="""List the versions of a plan: when and by whom it was changed, and what changed.

        **Examples**

        - `ctx plan history retries`
        """,
        words=("?plan_id",),
        options={"limit": "-n --limit"},
        complete=PLAN,
        prepare=find_plan,
        show=views.show_markdown,
        format="markdown",
    ),
    "diff": ToolCommand(
        tool="compare_plan_versions",
        help="""Show what changed between two versions of a plan, field by field; by default by the newest.

        **Examples**

        - `ctx plan diff`
        - `ctx plan diff retries 1 3`
        """,
        words=("?plan_id", "?from_version", "?to_version"),
        complete=PLAN,
        prepare=find_versions,
        show=views.show_markdown,
        format="markdown",
    ),
}
MEMORIES: Mapping[str, ToolCommand] = {
    "list": ToolCommand(
        tool="list_memories",
        help="""List the memories, also those that are stale, superseded, expired or unreadable.

        **Examples**

        - `ctx memory list`
        - `ctx memory list --status stale`
        - `ctx memory list --category decisions --query "money"`
        """,
        options={"category": "", "query": "", "tags": "--tag", "status": "", "sort": "", "limit": "-n --limit"},
        defaults={"status": "all"},
        show=views.show_memories,
        shows_json=True,
    ),
    "search": ToolCommand(
        tool="search_memory",
        help="""Search memories, and the decisions, rules and issues found in files and commits.

        **Examples**

        - `ctx memory search how are amounts rounded`
        - `ctx memory search deploy --type rule`
        - `ctx memory search timeout --type issue --module src/net`
        """,
        words=("*query",),
        options={"type": "", "path": "--module", "limit": "-n --limit", "include_stale": "--stale"},
        prepare=learn,
        nothing="searched",
    ),
    "add": ToolCommand(
        tool="add_memory",
        help="""Add a decision, a preference or a fact as a Markdown file that people can edit and git can merge.

        **Examples**

        - `ctx memory add decisions "Amounts are whole cents everywhere." --file src/money.py`
        - `ctx memory add preferences "Tests are named by the sentence they prove." --type rule`
        - `git log -1 --format=%B | ctx memory add facts - --tag release`
        """,
        words=("category", "content"),
        options={
            "title": "",
            "tags": "--tag",
            "linked_files": "--file",
            "subtype": "--type",
            "priority": "",
            "source": "",
            "owner": "",
            "expires_at": "--expires",
            "supersedes": "",
            "on_similar": "",
            "scope": "",
        },
        complete={"category": shell_completion.complete_memory_categories},
        prepare=read_content,
        show=views.show_saved_memory,
        shows_json=True,
    ),
    "edit": ToolCommand(
        tool="update_memory",
        help="""Change a memory; fields without an option stay as they are. You can also edit the file by hand.

        **Examples**

        - `ctx memory edit 0c07398f --revalidate`
        - `ctx memory edit 0c07398f --title "Money is counted in cents" --tag billing`
        """,
        words=("id",),
        options={
            "content": "",
            "title": "",
            "category": "",
            "tags": "--tag",
            "linked_files": "--file",
            "priority": "",
            "owner": "",
            "expires_at": "--expires",
            "still_true": "--revalidate",
        },
        prepare=find_edited,
        show=views.show_saved_memory,
        shows_json=True,
    ),
    "delete": ToolCommand(
        tool="delete_memory",
        help="""Delete a memory permanently. A memory that it superseded becomes valid again.

        **Examples**

        - `ctx memory delete 0c07398f`
        """,
        words=("id",),
        own={"yes": (Yes, False)},
        prepare=confirm_deletion,
        show=views.show_deleted_memory,
        shows_json=True,
    ),
}
