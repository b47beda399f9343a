"""The commands of `ctx store`: list and remove the repositories of a database."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from context_engine.cli.common_options import AsJson, Root, Yes, command_group
from context_engine.cli.screens import process_screen
from context_engine.cli.workspace_choice import print_json, resolve_root
from context_engine.errors import InvalidArgument, NotConfirmed, NotIndexed
from context_engine.index import SCHEMA_VERSION
from context_engine.settings import Settings
from context_engine.team.remote_store import open_backend, serves
from context_engine.text import format_size
from context_engine.timestamps import format_age

if TYPE_CHECKING:  # its library is optional
    from context_engine.team.candidate_store import CandidateStore
    from context_engine.team.postgres_store import PostgresStore

app = command_group("store", "List and remove the indexes of a team's database.")

Store = Annotated[str, typer.Option("--store", help="The database. [env: CTX_STORE_URL]", metavar="ADDRESS")]


@app.command("list")
def store_list(store: Store = "", root: Root = None, as_json: AsJson = False) -> None:
    """List the repositories of a database, their size, and when each was published last."""
    with closing(_open_database(store, root)) as database:
        stored = database.list_repositories()
    named = [(*_split_name(row.name), row) for row in stored]
    if as_json:
        rows = [{"repository": name, "schema": schema} | row._asdict() for schema, name, row in named]
        for row in rows:
            del row["name"]
        print(json.dumps(rows))
        return
    if not stored:
        print(f"no repository is stored on {database.name}")
        return
    cells = []
    for schema, name, row in named:
        size = "" if row.bytes is None else format_size(row.bytes)
        counts = ("" if count is None else f"{count:,}" for count in (row.files, row.chunks))
        committed = format_age(row.committed_at, time.time()) if row.committed_at else "not yet complete"
        release = "" if schema == SCHEMA_VERSION else ", of another release"
        cells.append((name, size, *counts, committed, f"{schema}{release}"))
    process_screen().out.show_table(("repository", "size", "files", "chunks", "committed", "schema"), cells)


@app.command("remove")
def store_remove(
    repository: Annotated[str, typer.Argument(help="As `ctx store list` names it.")],
    store: Store = "",
    schema: Annotated[int, typer.Option(help="The schema of another release, as in the list; 0: this release.")] = 0,
    yes: Yes = False,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Remove the index of a repository from a database, for everybody who uses it there."""
    with closing(_open_database(store, root)) as database:
        question = f"Remove the index of {repository} from {database.name}, for everybody?"
        if not yes and not process_screen().confirm(question):
            raise NotConfirmed("nothing was removed", suggestion="Answer y, or repeat it with --yes.")
        freed = _remove(database, repository, schema or SCHEMA_VERSION)
    if as_json:
        print_json({"removed": repository, "bytes": freed})
    else:
        print(f"removed {repository}" + (f", {format_size(freed)}" if freed else ""))


def _remove(database: PostgresStore | CandidateStore, repository: str, schema: int) -> int:
    """Remove the index of a repository; return the bytes freed. Raises: NotIndexed when there is none."""
    full = f"{schema}/{repository}"
    names = [row.name for row in database.list_repositories()]
    if full not in names:
        near = ", ".join(sorted({_split_name(name)[1] for name in names})) or "none at all"
        raise NotIndexed(
            f"{database.name} has no index of {repository!r} in schema {schema}", suggestion=f"it has those of: {near}"
        )
    return database.remove(full)


def _open_database(address: str, root: Path | None) -> PostgresStore | CandidateStore:
    """Open what has the repositories of a database. Raises: as `choose_address`."""
    chosen = choose_address(address, root)
    return open_backend(chosen, "Store" if serves(chosen, "Store") else "Search")


def choose_address(address: str, root: Path | None) -> str:
    """Return the address that was given, else that of the settings.

    Raises: InvalidArgument where it is not a database.
    """
    chosen = address or Settings.load(resolve_root(root)).store_url
    if chosen in ("", "embedded"):
        raise InvalidArgument(
            "no database is named",
            suggestion="Repeat it with --store postgresql://user@host/database, or set CTX_STORE_URL.",
        )
    return chosen


def _split_name(full: str) -> tuple[int, str]:
    """Return (schema, repository) of a name in the database.

    >>> _split_name("5/github.com/team/app")
    (5, 'github.com/team/app')
    """
    schema, _, repository = full.partition("/")
    return int(schema) if schema.isdigit() else 0, repository
