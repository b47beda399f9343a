"""The commands of `ctx store`: list, search and remove the repositories of a database."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from context_engine.cli.command_runner import NOTHING_FOUND
from context_engine.cli.common_options import AsJson, Root, Yes, command_group, print_json, resolve_root
from context_engine.cli.screens import process_screen
from context_engine.errors import InvalidArgument, NotConfirmed
from context_engine.index import SCHEMA_VERSION, StaticEncoder
from context_engine.secrets import redact_reply
from context_engine.settings import Settings
from context_engine.team.candidate_store import open_candidate_store
from context_engine.team.index_stores import list_tenants, open_tenants, remove_tenant
from context_engine.team.remote_search import RemoteRepositories, list_searchable
from context_engine.text import format_size
from context_engine.timestamps import format_age
from context_engine.tools import Call, search_code, split_list

app = command_group("store", "List, search and remove the indexes of a team's database.")

Store = Annotated[str, typer.Option("--store", help="The database. [env: CTX_STORE_URL]", metavar="ADDRESS")]


@app.command("list")
def store_list(store: Store = "", root: Root = None, as_json: AsJson = False) -> None:
    """List the repositories of a database, their size, and when each was published last."""
    with closing(open_tenants(choose_address(store, root))) as remote:
        tenants = list_tenants(remote)
    if as_json:
        print(json.dumps([tenant._asdict() for tenant in tenants]))
        return
    if not tenants:
        print(f"no repository is stored on {remote.name}")
        return
    cells = []
    for tenant in tenants:
        size = "" if tenant.bytes is None else format_size(tenant.bytes)
        counts = ("" if count is None else f"{count:,}" for count in (tenant.files, tenant.chunks))
        committed = format_age(tenant.committed_at, time.time()) if tenant.committed_at else "not yet complete"
        release = "" if tenant.schema == SCHEMA_VERSION else ", of another release"
        cells.append((tenant.repository, size, *counts, committed, f"{tenant.schema}{release}"))
    process_screen().out.show_table(("repository", "size", "files", "chunks", "committed", "schema"), cells)


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
    """Search the repositories of a database, without a copy of their indexes on this machine."""
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
    """Remove the index of a repository from a database, for everybody who uses it there."""
    address = choose_address(store, root)
    with closing(open_tenants(address)) as remote:
        question = f"Remove the index of {repository} from {remote.name}, for everybody?"
        if not yes and not process_screen().confirm(question):
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
    chosen = address or Settings.load(resolve_root(root)).store_url
    if chosen in ("", "embedded"):
        raise InvalidArgument(
            "no database is named",
            suggestion="Repeat it with --store postgresql://user@host/database, or set CTX_STORE_URL.",
        )
    return chosen
