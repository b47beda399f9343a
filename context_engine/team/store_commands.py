"""The commands of `ctx store`: check and repair the index, list and remove the repositories of a database.

Everything that only one command needs is imported inside it, so that `ctx --help` stays quick.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from context_engine.cli.common_options import (
    INTERRUPTED,
    NOTHING_FOUND,
    AsJson,
    Root,
    Yes,
    command_group,
    open_engine,
    print_json,
    resolve_root,
)

if TYPE_CHECKING:
    from context_engine.index import RepairReport
    from context_engine.team.index_stores import Tenant

PROBLEMS_SHOWN_MAX = 20

app = command_group("store", "Check and repair the index; list and remove the indexes of a team's database.")

Store = Annotated[str, typer.Option("--store", help="The database. [env: CTX_STORE_URL]", metavar="ADDRESS")]


# -- repair -------------------------------------------------------------------------------------------------------


@app.command("check")
def store_check(
    root: Root = None,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Repair it: from the database where a team shares it, else from the files."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read every byte of the index and report the problems. Exit code 1 when there are any that were not repaired.

    Of a shared index the bytes in the database are read as well. What is damaged on this machine is fetched again. What
    is damaged in the database is indexed from the files again by a machine that publishes.

    **Examples**

    - `ctx store check`
    - `ctx store check --repair`
    """
    from context_engine.cli.console import notes, run_index, run_with_progress
    from context_engine.errors import Cancelled
    from context_engine.index import RepairReport

    with open_engine(root) as engine:
        try:
            if repair:
                result = run_with_progress(
                    lambda on_progress, cancel: engine.index.repair(progress=on_progress, cancel=cancel),
                    "check",
                    unit="bytes",
                )
            else:
                problems = run_with_progress(
                    lambda on_progress, cancel: engine.index.find_problems(progress=on_progress, cancel=cancel),
                    "check",
                    unit="bytes",
                )
                result = RepairReport(problems=(), left=tuple(problems))
            report = None
            if result.problems:
                report = run_index(engine, force=result.needs_rebuild)
        except Cancelled:
            notes.print("[yellow]interrupted[/yellow]: the index in use did not change; run the same command again")
            raise typer.Exit(INTERRUPTED) from None
    files_read = 0
    if report is not None and result.needs_rebuild:
        files_read = report.files
    if as_json:
        print(json.dumps(_format_json(result, files_read)))
    else:
        _show_result(result, files_read)
    raise typer.Exit(1 if result.left else 0)


def _format_json(result: RepairReport, files_read: int) -> dict[str, object]:
    return {
        "ok": not result.left,
        "problems": list(result.problems or result.left),
        "repaired": bool(result.problems) and not result.left,
        "files_read": files_read,
        "fetched": result.fetched,
    }


def _show_result(result: RepairReport, files_read: int) -> None:
    from context_engine.cli.console import out, print_note

    problems = result.problems or result.left
    repairs = _list_repairs(result, files_read)
    for problem in problems[:PROBLEMS_SHOWN_MAX]:
        out.print(f"  {problem}", markup=False)
    if len(problems) > PROBLEMS_SHOWN_MAX:
        out.print(f"  and {len(problems) - PROBLEMS_SHOWN_MAX:,} more", markup=False)
    if not problems:
        print("the index is sound")
    elif not result.problems:
        print_note("ctx store check --repair repairs it")
    elif repairs or not result.left:
        print(f"repaired: {repairs or 'damaged data was dropped; it is made again when it is needed'}")
    if result.problems and result.left:
        print_note(
            "damage in the database is repaired by a machine that publishes: "
            "ctx store check --repair with CTX_STORE_SHARES=1"
        )


def _list_repairs(result: RepairReport, files_read: int) -> str:
    """Return what was done, the cheapest first."""
    counts = {
        "segments fetched again": result.fetched,
        "files read again": files_read,
    }
    return ", ".join(f"{repair}: {count:,}" for repair, count in counts.items() if count)


# -- the repositories of a database -------------------------------------------------------------------------------


@app.command("list")
def store_list(store: Store = "", root: Root = None, as_json: AsJson = False) -> None:
    """List the repositories of a database, their size, and when each was published last.

    **Examples**

    - `ctx store list`
    - `ctx store list --store postgresql://ci@db/context`
    """
    from context_engine.cli.console import print_table
    from context_engine.team.index_stores import list_tenants, open_tenants

    with closing(open_tenants(choose_address(store, root))) as remote:
        tenants = list_tenants(remote)
    if as_json:
        print(json.dumps([tenant._asdict() for tenant in tenants]))
    elif tenants:
        print_table(
            ("repository", "size", "files", "chunks", "committed", "schema"),
            [_format_row(tenant) for tenant in tenants],
        )
    else:
        print(f"no repository is stored on {remote.name}")


def _format_row(tenant: Tenant) -> Sequence[str]:
    from context_engine.cli.console import format_age
    from context_engine.index import SCHEMA_VERSION
    from context_engine.text import format_size

    counts = ("" if count is None else f"{count:,}" for count in (tenant.files, tenant.chunks))
    committed = "not yet complete"
    if tenant.committed_at:
        committed = format_age(tenant.committed_at, time.time())
    if tenant.schema == SCHEMA_VERSION:
        other_release = ""
    else:
        other_release = ", of another release"
    size = "" if tenant.bytes is None else format_size(tenant.bytes)
    return tenant.repository, size, *counts, committed, f"{tenant.schema}{other_release}"


@app.command("search")
def store_search(
    query: Annotated[list[str], typer.Argument(metavar="QUERY...", help="A question, words, or a symbol.")],
    repository: Annotated[
        list[str] | None,
        typer.Option("--repository", help="Only this repository, as `ctx store list` names it; none: all."),
    ] = None,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=50, help="Most results.")] = 10,
    kind: Annotated[list[str] | None, typer.Option("--kind", help="Only this kind, as for `ctx search`.")] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Must have this tag; of several tags, all.")] = None,
    lang: Annotated[list[str] | None, typer.Option("--lang", help="Only this language.")] = None,
    include: Annotated[list[str] | None, typer.Option("--include", help="Only paths that match this glob.")] = None,
    exclude: Annotated[list[str] | None, typer.Option("--exclude", help="No paths that match this glob.")] = None,
    store: Store = "",
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Search the repositories of a database, without a copy of their indexes on this machine.

    It finds what was published to a Qdrant, or to a PostgreSQL with CTX_STORE_SEARCH=1. Exit codes: 0 found, 1 nothing
    found, 2 error.

    **Examples**

    - `ctx store search where are sessions closed`
    - `ctx store search RetryPolicy --repository github.com/team/app --lang python`
    """
    from context_engine.index import StaticEncoder
    from context_engine.secrets import redact_reply
    from context_engine.settings import Settings
    from context_engine.team.candidate_store import open_candidate_store
    from context_engine.team.remote_search import RemoteRepositories, list_searchable
    from context_engine.tools import Call, search_code, split_list

    filters = {"chunk_types": kind, "tags": tag, "languages": lang, "include": include, "exclude_paths": exclude}
    given = {name: [part for one in values for part in split_list(one)] for name, values in filters.items() if values}
    arguments = {"query": " ".join(query), "limit": limit, **given}
    settings = Settings.load(resolve_root(root))
    encoder = None if settings.embedder == "none" else StaticEncoder()
    with closing(open_candidate_store(choose_address(store, root))) as database:
        remote = RemoteRepositories(database, repository or list_searchable(database), settings, encoder)
        found = json.loads(search_code.call(remote, arguments | {"format": "json"}, Call()).text)
        reply = json.dumps(found) if as_json else search_code.call(remote, arguments, Call()).text
    print(redact_reply(reply).text)
    raise typer.Exit(0 if found["results"] else NOTHING_FOUND)


@app.command("remove")
def store_remove(
    repository: Annotated[str, typer.Argument(help="As `ctx store list` names it.")],
    store: Store = "",
    schema: Annotated[int, typer.Option(help="The schema of another release, as in the list; 0: this release.")] = 0,
    yes: Yes = False,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Remove the index of a repository from a database, for everybody who uses it there. It needs the right to write.

    **Examples**

    - `ctx store remove github.com/team/app`
    - `ctx store remove github.com/team/app --schema 4 --yes`
    """
    from context_engine.cli.console import confirm
    from context_engine.errors import NotConfirmed
    from context_engine.index import SCHEMA_VERSION
    from context_engine.team.index_stores import open_tenants, remove_tenant
    from context_engine.text import format_size

    address = choose_address(store, root)
    with closing(open_tenants(address)) as remote:
        if not yes and not confirm(f"Remove the index of {repository} from {remote.name}, for everybody?"):
            raise NotConfirmed("nothing was removed", suggestion="Answer y, or repeat it with --yes.")
        freed = remove_tenant(remote, repository, schema or SCHEMA_VERSION)
    if as_json:
        print_json({"removed": repository, "bytes": freed})
    else:
        print(f"removed {repository}" + (f", {format_size(freed)}" if freed else ""))


def choose_address(address: str, root: Path | None) -> str:
    """Return the address that was given, else that of the settings.

    Raises: InvalidArgument where it is not a database.
    """
    from context_engine.errors import InvalidArgument
    from context_engine.settings import Settings

    chosen = address or Settings.load(resolve_root(root)).store_url
    if chosen in ("", "embedded"):
        raise InvalidArgument(
            "no database is named",
            suggestion="Repeat it with --store postgresql://user@host/database, or set CTX_STORE_URL.",
        )
    return chosen
