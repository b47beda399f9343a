"""`ctx workspace`: group repositories under one name, list them with the state of their indexes, update all of them."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from context_engine import repo
from context_engine.cli.command_runner import FAILED
from context_engine.cli.common_options import AsJson, command_group
from context_engine.cli.progress import run_index, run_with_progress
from context_engine.cli.screens import process_screen
from context_engine.cli.workspace_choice import find_project, print_json
from context_engine.errors import ContextEngineError
from context_engine.settings import Settings
from context_engine.storage import user_cache_folder, user_config_folder
from context_engine.text import format_count, shorten_line

if TYPE_CHECKING:
    from context_engine.engine import Engine

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
    """Add a repository to a workspace. A URL (https, ssh, file) is cloned into the cache, which is not for editing."""
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
    process_screen().note(f"index it with ctx workspace update {option}; serve it with ctx serve {option}")


@app.command("list")
def workspace_list(
    workspace: Annotated[str, typer.Option("--workspace", "-w", metavar="NAME", help="Only this one.")] = "",
    as_json: AsJson = False,
) -> None:
    """List the workspaces with their repositories, folders and the freshness of each index."""
    repositories, screen = load_repositories(), process_screen()
    chosen = {workspace: repositories.members(workspace)} if workspace else repositories.workspaces()
    rows: dict[str, list[dict[str, object]]] = {}
    cells = []
    for name, members in chosen.items():
        rows[name] = []
        for member in members:
            state = _describe_index(repositories, member)
            facts = {"url": member.address, "branch": member.branch, "depth": member.depth}
            known = {key: value for key, value in facts.items() if value}
            rows[name].append({"name": member.name, "root": member.root, **known, "index": state})
            cells.append((name, member.name, state, member.address or member.root))
    if as_json:
        print(json.dumps(rows, indent=2))
    elif cells:
        screen.out.show_table(("workspace", "repository", "index", "place"), cells)
    else:
        screen.note("no workspace yet: ctx workspace add PATH")


@app.command("remove")
def workspace_remove(
    name: Annotated[str, typer.Argument(help="Its name, or its folder.")],
    workspace: Workspace = "default",
    as_json: AsJson = False,
) -> None:
    """Remove a repository from a workspace. A clone that no workspace uses is deleted, your own folders never."""
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
    """Fetch new commits for the clones of a workspace and update the index of each repository."""
    repositories, screen = load_repositories(), process_screen()
    chosen = repositories.members(workspace, names=names or ())
    updated, failed = [], []
    for member in chosen:
        try:
            summary = _update_member(repositories, member)
        except ContextEngineError as error:
            failed.append(member.name)
            problem = shorten_line(error.message, 0, ERROR_CHARS_MAX)
            screen.err.show(("error:", "red"), f" {member.name}: {problem}")
            continue
        updated.append(member.name)
        if not as_json:
            screen.out.show_rows([(member.name, summary)])
    if as_json:
        print_json({"updated": updated, "failed": failed})
    elif not chosen:
        screen.note(f"workspace {workspace} is empty: ctx workspace add PATH --workspace {workspace}")
    raise typer.Exit(FAILED if failed else 0)


def _update_member(repositories: repo.RepositoryRegistry, member: repo.WorkspaceMember) -> str:
    """Fetch and index one repository, and return a line about it. Raises: ContextEngineError."""
    from context_engine.engine import Engine

    fetched = run_with_progress(
        lambda on_progress, cancel: repositories.update(member, on_progress=on_progress, cancel=cancel),
        f"fetching {member.name}",
        unit="objects",
    )
    if fetched.problem:
        raise ContextEngineError(fetched.problem)
    with Engine.open(member.root) as engine:
        report = run_index(engine)
    commit = "" if fetched.before == fetched.after else f"now {fetched.after[:COMMIT_CHARS]}, "
    changed = report.added + report.changed + report.removed
    files = format_count(report.files, "file")
    return f"{commit}{files}, {changed:,} of them new or changed, {report.seconds:.1f} s"


@contextmanager
def open_workspace(workspace: str) -> Generator[dict[str, Engine]]:
    """Open the repositories of a workspace that exist, by name."""
    from context_engine.engine import Engine

    with ExitStack() as stack:
        roots = load_repositories().roots(workspace)
        yield {name: stack.enter_context(Engine.open(root)) for name, root in roots.items()}


def index_missing(engines: Mapping[str, Engine]) -> None:
    """Build the indexes that do not exist yet. Raises: Cancelled."""
    for name, engine in engines.items():
        if engine.status().state == "absent":
            process_screen().note(f"no index of {name} yet: building it once, later searches start at once")
            run_index(engine)


def load_repositories() -> repo.RepositoryRegistry:
    """Load the user's workspaces; their clones are in the cache folder that the settings name."""
    cache = Settings.load(find_project(Path.cwd())).cache_folder or user_cache_folder()
    return repo.RepositoryRegistry(user_config_folder(), cache)


def _describe_index(repositories: repo.RepositoryRegistry, member: repo.WorkspaceMember) -> str:
    """Describe in a few words how fresh the index of a repository is."""
    from context_engine.engine import Engine

    if not repositories.is_there(member):
        return "gone: ctx workspace update fetches it" if member.address else "its folder is gone"
    with Engine.open(member.root) as engine:
        status = engine.status()
    if status.state == "absent":
        return "none yet"
    if status.stale:
        return f"{len(status.stale):,} of {format_count(status.files, 'file')} edited since"
    return f"fresh, {format_count(status.files, 'file')}"
