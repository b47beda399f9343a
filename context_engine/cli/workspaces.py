"""`ctx workspace`: puts repositories together, lists them with the state of their indexes, brings all of them up to date."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from context_engine.cli.console import (
    err,
    escape_text,
    print_note,
    print_rows,
    print_table,
    run_index,
    run_with_progress,
)
from context_engine.cli.workspace_root import find_project
from context_engine.engine import Engine
from context_engine.errors import ContextEngineError
from context_engine.repo.repositories import Repositories
from context_engine.repo.repository_registry import Member, removed
from context_engine.server.dispatcher import Gate
from context_engine.server.profiles import Shown
from context_engine.server.projects import path_of
from context_engine.settings import Settings
from context_engine.storage.index_folders import user_cache_folder, user_config_folder
from context_engine.text.lines import around

COMMIT_CHARS = 10


def add(place: str, workspace: str, *, name: str, branch: str, depth: int) -> int:
    """Add a repository; the exit code."""
    kept = load_repositories()
    member = run_with_progress(
        lambda tell, cancel: kept.add(
            place, workspace=workspace, name=name, branch=branch, depth=depth, tell=tell, cancel=cancel
        ),
        "cloning",
        unit="objects",
    )
    print(f"{member.name} is in workspace {workspace}: {member.root}")
    print_note(
        f"index it with ctx workspace update --workspace {workspace}; serve it with ctx serve --workspace {workspace}"
    )
    return 0


def list_workspaces(workspace: str, *, as_json: bool) -> int:
    """Show the workspaces; the exit code."""
    kept = load_repositories()
    chosen = {workspace: kept.members(workspace)} if workspace else kept.workspaces()
    if as_json:
        print(json.dumps({name: [_row(kept, each) for each in members] for name, members in chosen.items()}, indent=2))
        return 0
    if not any(chosen.values()):
        print_note("no workspace yet: ctx workspace add PATH")
        return 0
    cells = [
        (name, each.name, _state(kept, each), each.address or each.root)
        for name, members in chosen.items()
        for each in members
    ]
    print_table(("workspace", "repository", "index", "place"), cells)
    return 0


def remove(name: str, workspace: str) -> int:
    """Take one out; the exit code."""
    went = load_repositories().remove(name, workspace=workspace)
    print(f"{name} is no longer in workspace {workspace}{'; its clone is deleted' if went else ''}")
    return 0


def update(names: Sequence[str], workspace: str) -> int:
    """Fetch and index; the exit code."""
    kept = load_repositories()
    members = kept.members(workspace)
    for name in names:
        removed(members, name)  # refuses a name that is none of theirs
    chosen = [each for each in members if not names or each.name in names or each.root in names]
    failed = [each.name for each in chosen if not _brought_up_to_date(kept, each)]
    if not chosen:
        print_note(f"workspace {workspace} is empty: ctx workspace add PATH --workspace {workspace}")
    return 1 if failed else 0


def _brought_up_to_date(kept: Repositories, member: Member) -> bool:
    """One of them, and a line about it; whether it could be."""
    fetched = run_with_progress(
        lambda tell, cancel: kept.update(member, tell=tell, cancel=cancel), f"fetching {member.name}", unit="objects"
    )
    if fetched.problem:
        err.print(f"[red]error:[/red] {escape_text(member.name)}: {escape_text(around(fetched.problem, 0, 400))}")
        return False
    try:
        with Engine.open(member.root) as engine:
            report = run_index(engine)
    except ContextEngineError as error:
        err.print(f"[red]error:[/red] {escape_text(member.name)}: {escape_text(around(error.message, 0, 400))}")
        return False
    news = "" if fetched.before == fetched.after else f"now {fetched.after[:COMMIT_CHARS]}, "
    changed = report.added + report.changed + report.removed
    print_rows(
        [(member.name, f"{news}{report.files:,} files, {changed:,} of them new or changed, {report.seconds:.1f} s")]
    )
    return True


@contextmanager
def open_workspace(workspace: str) -> Generator[dict[str, Engine]]:
    """The repositories of a workspace that are there, by name, open until the end."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(Engine.open(root)) for name, root in load_repositories().roots(workspace).items()
        }


def build_workspace_dispatcher(engines: Mapping[str, Engine]) -> Gate:
    """What a client of a server with these projects passes; at the terminal no tool is hidden."""
    paths = {str(engine.root): name for name, engine in engines.items()}
    chosen = {name: path for path, name in paths.items()}
    return Gate(
        lambda project: engines[paths[path_of(chosen, project)]],
        shown=Shown(profiles=("all",)),
        names=lambda: tuple(engines),
    )


def index_missing(engines: Mapping[str, Engine]) -> None:
    """Build the indexes that are not there yet. Raises: Cancelled."""
    for name, engine in engines.items():
        if engine.status().state == "absent":
            print_note(f"no index of {name} yet: building it once, later searches start at once")
            run_index(engine)


def load_repositories() -> Repositories:
    """The workspaces of this user, their clones in the cache that the settings around here name."""
    cache = Settings.load(find_project(Path.cwd())).cache_folder or user_cache_folder()
    return Repositories(user_config_folder(), cache)


def _row(kept: Repositories, member: Member) -> dict[str, object]:
    """One repository for programs."""
    row = {
        "name": member.name,
        "root": member.root,
        "url": member.address,
        "branch": member.branch,
        "depth": member.depth,
    }
    return {key: value for key, value in row.items() if value} | {"index": _state(kept, member)}


def _state(kept: Repositories, member: Member) -> str:
    """How fresh its index is, in a few words."""
    if not kept.is_there(member):
        return "gone: ctx workspace update fetches it" if member.address else "its folder is gone"
    with Engine.open(member.root) as engine:
        status = engine.status()
    if status.state == "absent":
        return "none yet"
    return (
        f"{len(status.stale):,} of {status.files:,} files edited since"
        if status.stale
        else f"fresh, {status.files:,} files"
    )
