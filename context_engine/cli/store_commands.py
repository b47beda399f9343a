"""The commands of `ctx store`: an index moved to another machine or a database, checked, mended; who lies on a database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from context_engine.cli.common_options import AsJson, Root

app = typer.Typer(
    name="store",
    help="The index itself: move it to another machine or a team's database, check it, mend it.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

File = Annotated[Path, typer.Argument(help="The archive.")]
Store = Annotated[str, typer.Option("--store", help="The database; CTX_STORE_URL when left out.", metavar="ADDRESS")]


@app.command("export")
def store_export(file: File, root: Root = None) -> None:
    """Write the index into one file, with checksums: for a machine that shall not build it itself.

    Where a team shares its index that is the one that this machine sees.

    **Examples**

    - `ctx store export web.ctx-index`
    """
    from context_engine.cli.store import export

    raise typer.Exit(export(file, root))


@app.command("import")
def store_import(file: File, root: Root = None) -> None:
    """Take an exported index for this repository, then read the files that differ from it.

    Interrupted, it goes on where it stopped when it is run again. An archive of another version is refused. Where a team shares
    its index this puts another one in its place for all, which only a machine that shares may do (CTX_STORE_SHARES=1).

    **Examples**

    - `ctx store import web.ctx-index`
    - `ctx store import /ci/web.ctx-index --root ~/src/web`
    """
    from context_engine.cli.store import take_in

    raise typer.Exit(take_in(file, root))


@app.command("migrate")
def store_migrate(
    address: Annotated[str, typer.Argument(help="A database of a team, or embedded: this machine.")],
    root: Root = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put it in the place of an index that is there already.")
    ] = False,
) -> None:
    """Put the index into another store.

    It appears there as a whole or not at all. Interrupted, it goes on where it stopped when it is run again: what has arrived is
    not sent a second time. Keep passwords out of the address: `~/.pgpass` is read.

    **Examples**

    - `ctx store migrate postgresql://ci@db/context`
    - `CTX_STORE_URL=postgresql://ci@db/context ctx store migrate embedded`
    """
    from context_engine.cli.store import migrate

    raise typer.Exit(migrate(address, root, replace=replace))


@app.command("check")
def store_check(
    root: Root = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend it: from the other side where a team shares it, else from the files.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read every byte of the index and say what is wrong. Exit code 1 when something is, and was not repaired.

    Of an index that a team shares the bytes on the database are read as well. What is damaged on this machine is fetched again;
    what is damaged there is put back by a machine that shares and has it whole; what nobody has is read from the files again.

    **Examples**

    - `ctx store check`
    - `ctx store check --repair`
    """
    from context_engine.cli.store import check

    raise typer.Exit(check(root, repair=repair, as_json=as_json))


@app.command("list")
def store_list(store: Store = "", root: Root = None, as_json: AsJson = False) -> None:
    """Say which repositories lie on a database, how much they take, and when each was shared last.

    **Examples**

    - `ctx store list`
    - `ctx store list --store postgresql://ci@db/context`
    """
    from context_engine.cli.store import show_tenants

    raise typer.Exit(show_tenants(store, root, as_json=as_json))


@app.command("remove")
def store_remove(
    repository: Annotated[str, typer.Argument(help="As `ctx store list` names it.")],
    store: Store = "",
    schema: Annotated[int, typer.Option(help="That of another release, as the list has it; 0: ours.")] = 0,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    root: Root = None,
) -> None:
    """Take the index of a repository off a database, for all who read it there. It needs the right to write.

    **Examples**

    - `ctx store remove github.com/team/app`
    - `ctx store remove github.com/team/app --schema 4 --yes`
    """
    from context_engine.cli.store import remove_index

    raise typer.Exit(remove_index(repository, store, root, schema=schema, yes=yes))
