"""The commands of `ctx workspace`: several repositories under one name, folders of yours and clones of others'."""

from __future__ import annotations

from typing import Annotated

import typer

from context_engine.cli.common_options import AsJson

app = typer.Typer(
    name="workspace",
    help="Several repositories under one name: folders of yours, clones of others'; searched together.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

Named = Annotated[str, typer.Option("--workspace", "-w", metavar="NAME", help="Which workspace.")]


@app.command("add")
def workspace_add(
    place: Annotated[str, typer.Argument(metavar="PATH|GIT-URL", help="A folder, or where git fetches it from.")],
    workspace: Named = "default",
    name: Annotated[
        str, typer.Option("--name", help="What it is called here; default: the last part of its path.")
    ] = "",
    branch: Annotated[str, typer.Option("--branch", help="Of a URL: this branch, not the remote's own.")] = "",
    depth: Annotated[int, typer.Option("--depth", min=0, help="Of a URL: only so many commits; 0: all.")] = 0,
) -> None:
    """Add a repository to a workspace. One named by URL (https, ssh, file) is cloned into the cache; nobody edits there.

    git is run so that it asks for no password and starts no hook: private repositories need ssh keys or a credential helper.

    **Examples**

    - `ctx workspace add ~/src/web`
    - `ctx workspace add https://example.org/team/api.git --depth 100`
    - `ctx workspace add git@example.org:team/lib.git --workspace team --name lib`
    """
    from context_engine.cli.workspaces import add

    raise typer.Exit(add(place, workspace, name=name, branch=branch, depth=depth))


@app.command("list")
def workspace_list(
    workspace: Annotated[str, typer.Option("--workspace", "-w", metavar="NAME", help="Only this one.")] = "",
    as_json: AsJson = False,
) -> None:
    """List the workspaces, their repositories, where they lie and how fresh the index of each is.

    **Examples**

    - `ctx workspace list`
    - `ctx workspace list --workspace team --json`
    """
    from context_engine.cli.workspaces import list_workspaces

    raise typer.Exit(list_workspaces(workspace, as_json=as_json))


@app.command("remove")
def workspace_remove(
    name: Annotated[str, typer.Argument(help="Its name, or its folder.")],
    workspace: Named = "default",
) -> None:
    """Take a repository out of a workspace. A clone that nothing else names is deleted, a folder of yours never.

    **Examples**

    - `ctx workspace remove api`
    - `ctx workspace remove lib --workspace team`
    """
    from context_engine.cli.workspaces import remove

    raise typer.Exit(remove(name, workspace))


@app.command("update")
def workspace_update(
    names: Annotated[list[str] | None, typer.Argument(help="Only these; default: all.")] = None,
    workspace: Named = "default",
) -> None:
    """Fetch what is new for the clones of a workspace and bring the index of each repository up to date.

    Exit code 1 when one of them could not be; the others are done all the same.

    **Examples**

    - `ctx workspace update`
    - `ctx workspace update api lib --workspace team`
    """
    from context_engine.cli.workspaces import update

    raise typer.Exit(update(names or (), workspace))
