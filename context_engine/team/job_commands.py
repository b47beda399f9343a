"""`ctx job`: the queue of repositories that workers index into a team's PostgreSQL, and the worker itself."""

from __future__ import annotations

import json
import os
import platform
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from context_engine.cli.command_runner import FAILED, INTERRUPTED
from context_engine.cli.common_options import AsJson, Root, command_group
from context_engine.cli.progress import run_with_progress
from context_engine.cli.screens import process_screen
from context_engine.cli.workspace_choice import print_json
from context_engine.cli.workspace_commands import load_repositories
from context_engine.errors import Cancelled, ContextEngineError, InvalidArgument, StoreUnavailable
from context_engine.team.index_jobs import IndexSource, IndexWorker, QueuedJob
from context_engine.team.remote_store import open_backend
from context_engine.team.store_commands import Store, choose_address
from context_engine.text import format_count, shorten_line
from context_engine.timestamps import format_age

if TYPE_CHECKING:  # its library is optional
    from context_engine.team.postgres_jobs import JobLease, PostgresJobs

ERROR_CHARS_MAX = 400
POLL_S = 2.0
"""How often an idle worker looks: a query of a millisecond."""
UNAVAILABLE_POLL_S = 15.0

app = command_group("job", "Index the repositories of an organization: a queue in PostgreSQL, and workers.")

Branch = Annotated[str, typer.Option("--branch", help="This branch instead of the remote's default.")]


@app.command("add")
def job_add(
    places: Annotated[list[str] | None, typer.Argument(metavar="PATH|GIT-URL...", help="Folders, or URLs.")] = None,
    branch: Branch = "",
    name: Annotated[str, typer.Option("--name", help="Its name in the database; default: where it comes from.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Queue every repository again.")] = False,
    store: Store = "",
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Ask for repositories to be indexed. One that is in the queue already is indexed again, once."""
    named = places or []
    if bool(named) == everything:
        raise InvalidArgument("no repository is named", suggestion="Name folders or URLs, or pass --all.")
    if branch and not name:
        raise InvalidArgument(
            "a branch needs a name of its own in the database, different from the default branch's",
            suggestion=f"Repeat it with --name, such as --name example.org/team/app@{branch}.",
        )
    if name and len(named) > 1:
        raise InvalidArgument("one name cannot stand for several repositories", suggestion="Add them one by one.")
    repositories = load_repositories()
    members = [repositories.describe(place, branch=branch) for place in named]
    sources = [IndexSource(member.address or member.root, branch, name) for member in members]
    with closing(_open_queue(choose_address(store, root))) as jobs:
        for source in sources:
            jobs.add(source)
        count = jobs.add_all() if everything else len(sources)
    if as_json:
        print_json({"added": count})
    else:
        print(f"asked for {format_count(count, 'repository', 'repositories')}")
        process_screen().note("ctx job list shows how far they are; ctx job work starts a worker on this machine")


@app.command("list")
def job_list(store: Store = "", root: Root = None, as_json: AsJson = False) -> None:
    """List the repositories of the queue: what runs and where, what waits, what failed and why."""
    with closing(_open_queue(choose_address(store, root))) as jobs:
        listed = jobs.list_jobs()
    if as_json:
        print(json.dumps([_json_row(job) for job in listed]))
    elif listed:
        now_s = time.time()
        cells = []
        for job in listed:
            branch = f" ({job.source.branch})" if job.source.branch else ""
            age = format_age(job.finished_at.timestamp(), now_s) if job.finished_at else "never"
            cells.append((f"{job.source.place}{branch}", job.state, _describe(job), age))
        process_screen().out.show_table(("repository", "state", "details", "indexed"), cells)
    else:
        process_screen().note(f"the queue on {jobs.name} is empty: ctx job add PATH|GIT-URL")


@app.command("remove")
def job_remove(
    place: Annotated[str, typer.Argument(metavar="PATH|GIT-URL", help="As `ctx job list` names it.")],
    branch: Branch = "",
    store: Store = "",
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Remove a repository from the queue. Its index stays in the database: `ctx store remove` deletes that."""
    with closing(_open_queue(choose_address(store, root))) as jobs:
        if not any(jobs.remove(one, branch) for one in (place, str(Path(place).absolute()))):
            raise InvalidArgument(
                f"no job is for {place[:200]!r}{f' and branch {branch}' if branch else ''}",
                suggestion="`ctx job list` names them all.",
            )
    if as_json:
        print_json({"removed": place})
    else:
        print(f"removed {place}; its index stays, until ctx store remove")


@app.command("work")
def job_work(
    until_empty: Annotated[bool, typer.Option("--until-empty", help="End when no job is due.")] = False,
    store: Store = "",
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Process the queue: fetch, index and publish one repository at a time, until Ctrl-C or SIGTERM."""
    address = choose_address(store, root)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a container that stops gives its job back
    worker = IndexWorker(load_repositories(), address)
    own_name = f"{platform.node()}:{os.getpid()}"
    failed = 0
    with closing(_open_queue(address)) as jobs:
        try:
            for lease in _claim_jobs(jobs, own_name, until_empty=until_empty):
                failed += not _run_job(worker, lease, as_json=as_json)
        except (Cancelled, KeyboardInterrupt):
            jobs.release(own_name)
            process_screen().note("stopped; an unfinished job was given back to the queue")
            raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(FAILED if failed else 0)


def _open_queue(address: str) -> PostgresJobs:
    """Open the queue of a database. Raises: InvalidArgument where it is not a PostgreSQL, UnsupportedHost."""
    return open_backend(address, "Jobs")


def _claim_jobs(jobs: PostgresJobs, own_name: str, *, until_empty: bool) -> Iterator[JobLease]:
    """Yield the jobs that are due, and wait for further ones; with `until_empty` end, or raise, instead of waiting."""
    while True:
        try:
            lease = jobs.claim(own_name)
        except StoreUnavailable as error:
            if until_empty:
                raise
            process_screen().note(f"{error.message}; looking again in {UNAVAILABLE_POLL_S:.0f} s")
            time.sleep(UNAVAILABLE_POLL_S)
            continue
        if lease is not None:
            yield lease
        elif until_empty:
            return
        else:
            time.sleep(POLL_S)


def _run_job(worker: IndexWorker, lease: JobLease, *, as_json: bool) -> bool:
    """Do one job and print a line about it; return whether it succeeded. Raises: Cancelled on Ctrl-C."""
    place = lease.source.place
    try:
        result = run_with_progress(lambda *watch: worker.run(lease, *watch), place)
    except Cancelled:
        raise
    except ContextEngineError as error:
        if as_json:
            print_json({"source": place, "error": error.message})
        else:
            message = shorten_line(error.message, 0, ERROR_CHARS_MAX)
            process_screen().err.show(("error:", "red"), f" {place}: {message}")
        return False
    if as_json:
        print_json({"source": place, "result": result})
    else:
        process_screen().out.show_rows([(place, result)])
    return True


def _describe(job: QueuedJob) -> str:
    """Return what matters in the state of a job."""
    progress = job.progress
    if job.state == "running":
        share = f" {progress.done:,} of {progress.total:,}" if progress.total else ""
        return f"{job.worker}: {progress.stage or 'starting'}{share}"
    if job.error:
        return f"attempt {job.attempts}: {job.error}"
    return job.result


def _json_row(job: QueuedJob) -> dict[str, object]:
    progress = job.progress
    row: dict[str, object] = {
        **job.source._asdict(),
        "state": job.state,
        "worker": job.worker,
        "attempts": job.attempts,
        "error": job.error,
        "result": job.result,
        "asked_at": job.asked_at.isoformat(timespec="seconds"),
        "indexed_at": job.finished_at.isoformat(timespec="seconds") if job.finished_at else "",
    }
    if job.state == "running":
        row["progress"] = {"stage": progress.stage, "done": progress.done, "total": progress.total}
    return {key: value for key, value in row.items() if value != ""}
