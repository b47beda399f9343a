"""The commands of `ctx store`: an index moved to another machine, checked, mended."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from context_engine.cli.options import AsJson, Root

app = typer.Typer(
    name="store",
    help="The index itself: move it to another machine, check it, mend it.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

File = Annotated[Path, typer.Argument(help="The archive.")]


@app.command("export")
def store_export(file: File, root: Root = None) -> None:
    """Write the index into one file, with checksums: for a machine that shall not build it itself.

    **Examples**

    - `ctx store export web.ctx-index`
    """
    from context_engine.cli.store import export

    raise typer.Exit(export(file, root))


@app.command("import")
def store_import(file: File, root: Root = None) -> None:
    """Take an exported index for this repository, then read the files that differ from it.

    Interrupted, it goes on where it stopped when it is run again. An archive of another version is refused.

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
) -> None:
    """Put the index into another store, in the place of what that has of this repository.

    It appears there as a whole or not at all. Keep passwords out of the address: `~/.pgpass` is read.

    **Examples**

    - `ctx store migrate postgresql://ci@db/context`
    - `CTX_STORE_URL=postgresql://ci@db/context ctx store migrate embedded`
    """
    from context_engine.cli.store import migrate

    raise typer.Exit(migrate(address, root))


@app.command("check")
def store_check(
    root: Root = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Forget what is damaged and read those files again.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read every byte of the index and say what is wrong. Exit code 1 when something is, and was not repaired.

    **Examples**

    - `ctx store check`
    - `ctx store check --repair`
    """
    from context_engine.cli.store import check

    raise typer.Exit(check(root, repair=repair, as_json=as_json))
