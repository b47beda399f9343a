"""The commands of `ctx memories`: what can be typed. What they do stands in `memories.py`, imported when one of them runs."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from context_engine.cli import shell_completion
from context_engine.cli.common_options import AsJson, Root

app = typer.Typer(
    name="memories",
    help="Memories: what the team knows and wrote down, and what the repository tells of itself.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

Id = Annotated[str, typer.Argument(metavar="ID", help="As ctx memories list shows it, or the whole id.")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="To find it by; repeatable.")]
Files = Annotated[list[str] | None, typer.Option("--file", help="It speaks of this file; repeatable.")]
Priority = Literal["critical", "helpful", "archive"]
Subtype = Literal["", "pattern", "rule", "decision", "issue"]


@app.command("list")
def memories_list(
    root: Root = None,
    category: Annotated[str, typer.Option("--category", help="preferences, decisions or facts.")] = "",
    query: Annotated[str, typer.Option("--query", help="Only what these words find.")] = "",
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Must carry this tag; repeatable.")] = None,
    status: Annotated[
        Literal["active", "stale", "superseded", "expired", "invalid", "all"],
        typer.Option("--status", help="Which of them."),
    ] = "all",
    sort: Annotated[
        Literal["", "relevance", "updated", "priority", "access"], typer.Option("--sort", help="By what.")
    ] = "",
    number: Annotated[int, typer.Option("-n", "--number", min=1, max=200, help="How many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List what was written down, with what is stale, superseded, expired or unreadable.

    **Examples**

    - `ctx memories list`
    - `ctx memories list --status stale`
    - `ctx memories list --category decisions --query "money"`
    """
    from context_engine.cli.memory_actions import list_memories
    from context_engine.memory.memory_requests import Wanted

    wanted = Wanted(category.strip().lower(), query, tuple(tag or ()), status, sort=sort, limit=number)
    raise typer.Exit(list_memories(root, wanted, as_json=as_json))


@app.command("search")
def memories_search(
    query: Annotated[str, typer.Argument(help="What to find out.")],
    root: Root = None,
    kind: Annotated[
        Literal["all", "pattern", "rule", "decision", "issue"], typer.Option("--type", help="Only these.")
    ] = "all",
    module: Annotated[str, typer.Option("--module", help="Only of this folder, file or name.")] = "",
    stale: Annotated[bool, typer.Option("--stale", help="Also what no longer holds.")] = False,
    number: Annotated[int, typer.Option("-n", "--number", min=1, max=20, help="How many.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Search all that is known: memories, and the decisions, rules and issues that files and commits tell of.

    **Examples**

    - `ctx memories search "how are amounts rounded"`
    - `ctx memories search deploy --type rule`
    - `ctx memories search timeout --type issue --module src/net`
    """
    from context_engine.cli.memory_actions import search
    from context_engine.memory.memory_requests import Sought

    sought = Sought(query, kind, module, number, include_stale=stale)
    raise typer.Exit(search(root, sought, as_json=as_json))


@app.command("show")
def memories_show(memory: Id, root: Root = None, as_json: AsJson = False) -> None:
    """Show one memory, whole, and whether it still holds.

    **Examples**

    - `ctx memories show 0c07398f`
    """
    from context_engine.cli.memory_actions import show

    raise typer.Exit(show(root, memory, as_json=as_json))


@app.command("add")
def memories_add(
    category: Annotated[
        str,
        typer.Argument(
            help="preferences, decisions or facts.", autocompletion=shell_completion.complete_memory_categories
        ),
    ],
    content: Annotated[str, typer.Argument(help="What to remember, in a few sentences; - reads stdin.")],
    root: Root = None,
    title: Annotated[str, typer.Option("--title", help="A headline; default: its first line.")] = "",
    tag: Tags = None,
    file: Files = None,
    subtype: Annotated[Subtype, typer.Option("--type", help="What it tells.")] = "",
    priority: Annotated[Priority, typer.Option("--priority", help="How much it matters.")] = "helpful",
    source: Annotated[str, typer.Option("--source", help="Who or what says so.")] = "",
    owner: Annotated[str, typer.Option("--owner", help="Who answers for it.")] = "",
    expires: Annotated[str, typer.Option("--expires", help="When it stops holding: 2027-01-31.")] = "",
    supersedes: Annotated[
        list[str] | None, typer.Option("--supersedes", help="Id of one that no longer holds; repeatable.")
    ] = None,
    on_similar: Annotated[
        Literal["warn", "reject", "merge", "supersede", "allow"],
        typer.Option("--on-similar", help="When one says nearly the same."),
    ] = "warn",
    mine: Annotated[bool, typer.Option("--mine", help="For me in every project, not for this one.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write down a decision, a preference or a fact: a Markdown file that people can edit and git can merge.

    **Examples**

    - `ctx memories add decisions "Amounts are whole cents everywhere." --file src/money.py`
    - `ctx memories add preferences "Tests are named by the sentence they prove." --type rule`
    - `git log -1 --format=%B | ctx memories add facts - --tag release`
    """
    from context_engine.cli.memory_actions import add, read_content
    from context_engine.memory.memory_requests import Draft

    draft = Draft(
        category=category.strip().lower(), content=read_content(content), title=title, tags=tuple(tag or ()),
        subtype=subtype, priority=priority, source=source, owner=owner, expires_at=expires,
        linked_files=tuple(file or ()), supersedes=tuple(supersedes or ()), scope="user" if mine else "project",
    )  # fmt: skip
    raise typer.Exit(add(root, draft, on_similar, as_json=as_json))


@app.command("edit")
def memories_edit(
    memory: Id,
    root: Root = None,
    content: Annotated[str | None, typer.Option("--content", help="What it says now; - reads stdin.")] = None,
    title: Annotated[str | None, typer.Option("--title", help="Its headline.")] = None,
    category: Annotated[str | None, typer.Option("--category", help="Move it there.")] = None,
    tag: Tags = None,
    file: Files = None,
    priority: Annotated[Priority | None, typer.Option("--priority", help="How much it matters.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Who answers for it.")] = None,
    expires: Annotated[str | None, typer.Option("--expires", help="When it stops holding.")] = None,
    still_true: Annotated[
        bool, typer.Option("--still-true", help="Its files changed, but it holds: no longer stale.")
    ] = False,
) -> None:
    """Change a memory; what is not named stays as it is. The file can be edited by hand just as well.

    **Examples**

    - `ctx memories edit 0c07398f --still-true`
    - `ctx memories edit 0c07398f --title "Money is counted in cents" --tag billing`
    """
    from context_engine.cli.memory_actions import edit, read_content
    from context_engine.memory.memory_requests import Revision

    revision = Revision(
        category=category, content=None if content is None else read_content(content), title=title,
        tags=None if tag is None else tuple(tag), linked_files=None if file is None else tuple(file),
        priority=priority, owner=owner, expires_at=expires, still_true=still_true,
    )  # fmt: skip
    raise typer.Exit(edit(root, memory, revision))


@app.command("delete")
def memories_delete(
    memory: Id, root: Root = None, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False
) -> None:
    """Delete a memory for good. What it superseded holds again.

    **Examples**

    - `ctx memories delete 0c07398f`
    """
    from context_engine.cli.memory_actions import delete

    raise typer.Exit(delete(root, memory, is_sure=yes))


@app.command("rules")
def memories_rules(root: Root = None) -> None:
    """Print every rule and decision that holds here, with the place of each: what an agent should know before it begins.

    **Examples**

    - `ctx memories rules`
    - `ctx memories rules > RULES.md`
    """
    from context_engine.cli.memory_actions import rules

    raise typer.Exit(rules(root))
