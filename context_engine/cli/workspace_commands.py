"""`ctx workspace`: group repositories under one name, list them with the state of their indexes, update all of them."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from context_engine.cli.common_options import AsJson, command_group, print_json
from context_engine.cli.exit_codes import FAILED

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.repo import RepositoryRegistry, WorkspaceMember

COMMIT_CHARS = 10
ERROR_CHARS_MAX = 400

app = command_group("workspace", "Group several repositories and search them together.")

Workspace = Annotated[str, typer.Option("--workspace", "-w", metavar="NAME", help="Which workspace.")]


@app.command("add")
def workspace_add(
    place: Annotated[str, typer.Argument(metavar="PATH|GIT-URL", help="A folder, or the URL to clone.")],
    workspace: Workspace = "default",
    name: Annotated[str, typer.Option("--name", help="Name in the workspace; default: last part of its path.")] = "",
    branch: Annotated[str, typer.Option("--branch", help="Clone this branch instead of the remote's default.")] = "",
    depth: Annotated[int, typer.Option("--depth", min=0, help="Clone only this many commits; 0: all.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Add a repository to a workspace. A URL (https, ssh, file) is cloned into the cache, which is not for editing.

    git runs without password prompts and without hooks: private repositories need ssh keys or a credential helper.

    **Examples**

    - `ctx workspace add ~/src/web`
    - `ctx workspace add https://example.org/team/api.git --depth 100`
    - `ctx workspace add git@example.org:team/lib.git --workspace team --name lib`
    """
    from context_engine.cli.console import print_note, run_with_progress

    repositories = load_repositories()
    member = run_with_progress(
        lambda on_progress, cancel: repositories.add(
            place, workspace=workspace, name=name, branch=branch, depth=depth, on_progress=on_progress, cancel=cancel
        ),
        "cloning",
        unit="objects",
    )
    if as_json:
        print_json({"name": member.name, "workspace": workspace, "root": member.root})
        return
    print(f"{member.name} is in workspace {workspace}: {member.root}")
    option = f"--workspace {workspace}"
    print_note(f"index it with ctx workspace update {option}; serve it with ctx serve {option}")


@app.command("list")
def workspace_list(
    workspace: Annotated[str, typer.Option("--workspace", "-w", metavar="NAME", help="Only this one.")] = "",
    as_json: AsJson = False,
) -> None:
    """List the workspaces with their repositories, folders and the freshness of each index.

    **Examples**

    - `ctx workspace list`
    - `ctx workspace list --workspace team --json`
    """
    import json

    from context_engine.cli.console import print_note, print_table

    repositories = load_repositories()
    if workspace:
        chosen = {workspace: repositories.members(workspace)}
    else:
        chosen = repositories.workspaces()
    if as_json:
        rows = {name: [_json_row(repositories, member) for member in members] for name, members in chosen.items()}
        print(json.dumps(rows, indent=2))
        return
    if not any(chosen.values()):
        print_note("no workspace yet: ctx workspace add PATH")
        return
    cells = [
        (name, member.name, _describe_index(repositories, member), member.address or member.root)
        for name, members in chosen.items()
        for member in members
    ]
    print_table(("workspace", "repository", "index", "place"), cells)


@app.command("remove")
def workspace_remove(
    name: Annotated[str, typer.Argument(help="Its name, or its folder.")],
    workspace: Workspace = "default",
    as_json: AsJson = False,
) -> None:
    """Remove a repository from a workspace. A clone that no workspace uses is deleted, your own folders never.

    **Examples**

    - `ctx workspace remove api`
    - `ctx workspace remove lib --workspace team`
    """
    is_deleted = load_repositories().remove(name, workspace=workspace)
    if as_json:
        print_json({"removed": name, "workspace": workspace, "clone_deleted": is_deleted})
        return
    print(f"{name} is no longer in workspace {workspace}{'; its clone is deleted' if is_deleted else ''}")


@app.command("update")
def workspace_update(
    names: Annotated[list[str] | None, typer.Argument(help="Only these; default: all.")] = None,
    workspace: Workspace = "default",
    as_json: AsJson = False,
) -> None:
    """Fetch new commits for the clones of a workspace and update the index of each repository.

    Exit code 2 when one of them fails; the others are updated all the same.

    **Examples**

    - `ctx workspace update`
    - `ctx workspace update api lib --workspace team`
    """
    from context_engine.cli.console import print_note

    repositories = load_repositories()
    chosen = repositories.members(workspace, names=names or ())
    failed = [member for member in chosen if not _update_member(repositories, member, is_quiet=as_json)]
    if as_json:
        names_failed = [member.name for member in failed]
        print_json({"updated": [one.name for one in chosen if one not in failed], "failed": names_failed})
    elif not chosen:
        print_note(f"workspace {workspace} is empty: ctx workspace add PATH --workspace {workspace}")
    raise typer.Exit(FAILED if failed else 0)


def _update_member(repositories: RepositoryRegistry, member: WorkspaceMember, *, is_quiet: bool) -> bool:
    """Fetch and index one repository and print a line about it; return whether that worked."""
    from context_engine.cli.console import print_rows, run_index, run_with_progress
    from context_engine.engine import Engine
    from context_engine.errors import ContextEngineError
    from context_engine.text import format_count

    fetched = run_with_progress(
        lambda on_progress, cancel: repositories.update(member, on_progress=on_progress, cancel=cancel),
        f"fetching {member.name}",
        unit="objects",
    )
    if fetched.problem:
        _print_member_error(member, fetched.problem)
        return False
    try:
        with Engine.open(member.root) as engine:
            report = run_index(engine)
    except ContextEngineError as error:
        _print_member_error(member, error.message)
        return False
    if fetched.before == fetched.after:
        commit = ""
    else:
        commit = f"now {fetched.after[:COMMIT_CHARS]}, "
    changed = report.added + report.changed + report.removed
    summary = (
        f"{commit}{format_count(report.files, 'file')}, {changed:,} of them new or changed, {report.seconds:.1f} s"
    )
    if not is_quiet:
        print_rows([(member.name, summary)])
    return True


def _print_member_error(member: WorkspaceMember, message: str) -> None:
    from context_engine.cli.console import err, escape_text
    from context_engine.text import shorten_line

    err.print(f"[red]error:[/red] {escape_text(member.name)}: {escape_text(shorten_line(message, 0, ERROR_CHARS_MAX))}")


# -- also for `ctx search` and `ctx call` ----------------------------------------------------------------------------


@contextmanager
def open_workspace(workspace: str) -> Generator[dict[str, Engine]]:
    """Open the repositories of a workspace that exist, by name."""
    from context_engine.engine import Engine

    with ExitStack() as stack:
        roots = load_repositories().roots(workspace)
        yield {name: stack.enter_context(Engine.open(root)) for name, root in roots.items()}


def index_missing(engines: Mapping[str, Engine]) -> None:
    """Build the indexes that do not exist yet. Raises: Cancelled."""
    from context_engine.cli.console import print_note, run_index

    for name, engine in engines.items():
        if engine.status().state == "absent":
            print_note(f"no index of {name} yet: building it once, later searches start at once")
            run_index(engine)


def load_repositories() -> RepositoryRegistry:
    """Load the user's workspaces; their clones are in the cache folder that the settings name."""
    from context_engine.cli.common_options import find_project
    from context_engine.repo import RepositoryRegistry
    from context_engine.settings import Settings
    from context_engine.storage import user_cache_folder, user_config_folder

    cache = Settings.load(find_project(Path.cwd())).cache_folder or user_cache_folder()
    return RepositoryRegistry(user_config_folder(), cache)


def _json_row(repositories: RepositoryRegistry, member: WorkspaceMember) -> dict[str, object]:
    """Return one repository as a program reads it."""
    row = {
        "name": member.name,
        "root": member.root,
        "url": member.address,
        "branch": member.branch,
        "depth": member.depth,
    }
    return {key: value for key, value in row.items() if value} | {"index": _describe_index(repositories, member)}


def _describe_index(repositories: RepositoryRegistry, member: WorkspaceMember) -> str:
    """Describe in a few words how fresh the index of a repository is."""
    from context_engine.engine import Engine
    from context_engine.text import format_count

    if not repositories.is_there(member):
        if member.address:
            return "gone: ctx workspace update fetches it"
        return "its folder is gone"
    with Engine.open(member.root) as engine:
        status = engine.status()
    if status.state == "absent":
        return "none yet"
    if status.stale:
        return f"{len(status.stale):,} of {format_count(status.files, 'file')} edited since"
    return f"fresh, {format_count(status.files, 'file')}"
