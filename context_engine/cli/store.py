"""`ctx store`: moves an index from machine to machine with a bar of progress, checks it, mends it, says who lies on a store."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path

from context_engine.cli.console import (
    confirm,
    err,
    escape_text,
    format_age,
    out,
    print_note,
    print_table,
    run_index,
    run_with_progress,
)
from context_engine.cli.index_command import INTERRUPTED, show_report
from context_engine.cli.workspace_root import resolve_root
from context_engine.engine import Engine, Settings
from context_engine.errors import Cancelled, InvalidArgument, NotConfirmed
from context_engine.index.embedded_store import SCHEMA_VERSION
from context_engine.index.index_repair import RepairReport
from context_engine.index.store_factory import depot
from context_engine.index.tenants import Tenant, list_tenants, remove_tenant
from context_engine.sharing.remote_vectors import vector_depot
from context_engine.tools.file_tools import format_size

NAMED_MAX = 20
COMMIT_CHARS = 10


def export(file: Path, root: Path | None) -> int:
    """Write the index into a file; the exit code."""
    target = file.expanduser().absolute()
    with Engine.open(resolve_root(root)) as engine:
        said = run_with_progress(
            lambda tell, cancel: engine.export_index(target, progress=tell, cancel=cancel), "export", unit="bytes"
        )
    print(f"wrote {said.files:,} files, {said.chunks:,} chunks, {format_size(said.size_bytes)} unpacked: {file}")
    return 0


def take_in(file: Path, root: Path | None) -> int:
    """Take an exported index, then bring it up to date; the exit code."""
    source = file.expanduser().absolute()
    workspace = resolve_root(root)
    with Engine.open(workspace) as engine:
        try:
            said = run_with_progress(
                lambda tell, cancel: engine.import_index(source, progress=tell, cancel=cancel), "import", unit="bytes"
            )
            at = f" at {said.commit[:COMMIT_CHARS]}" if said.commit else ""
            print_note(f"took {said.files:,} files of {said.name}{at}; comparing them with {workspace}")
            report = run_index(engine)
        except Cancelled:
            return _interrupted(f"ctx store import {file}")
    show_report(workspace, report)
    return 0


def migrate(address: str, root: Path | None, *, replace: bool) -> int:
    """Put the index into another store; the exit code."""
    with Engine.open(resolve_root(root)) as engine:
        try:
            stats = run_with_progress(
                lambda tell, cancel: engine.move_index(address, replace=replace, progress=tell, cancel=cancel),
                "move",
                unit="bytes",
            )
        except Cancelled:
            return _interrupted("the same command")
    print(f"moved {stats.files:,} files, {stats.chunks:,} chunks")
    print_note(
        "set CTX_STORE_URL to that address wherever it shall be used" if "://" in address else "unset CTX_STORE_URL"
    )
    return 0


def _interrupted(command: str) -> int:
    err.print(f"[yellow]interrupted[/yellow]: what serves is as it was; {escape_text(command)} goes on from there")
    return INTERRUPTED


# -- soundness ----------------------------------------------------------------------------------------------------


def check(root: Path | None, *, repair: bool, as_json: bool) -> int:
    """Say what is wrong, and mend it when told to; the exit code."""
    with Engine.open(resolve_root(root)) as engine:
        try:
            mended = _mended(engine) if repair else RepairReport(problems=(), left=tuple(_examined(engine)))
            report = run_index(engine) if mended.problems else None
        except Cancelled:
            return _interrupted("the same command")
    files_read = 0 if report is None else report.files if mended.is_anew else mended.files_lost
    if as_json:
        print(json.dumps(_as_json(mended, files_read)))
    else:
        _show_soundness(mended, files_read)
    return 1 if mended.left else 0


def _examined(engine: Engine) -> list[str]:
    return run_with_progress(lambda tell, cancel: engine.problems(progress=tell, cancel=cancel), "check", unit="bytes")


def _mended(engine: Engine) -> RepairReport:
    return run_with_progress(lambda tell, cancel: engine.mend(progress=tell, cancel=cancel), "check", unit="bytes")


def _as_json(mended: RepairReport, files_read: int) -> dict[str, object]:
    return {
        "ok": not mended.left,
        "problems": list(mended.problems or mended.left),
        "repaired": bool(mended.problems) and not mended.left,
        "files_read": files_read,
        "fetched": mended.fetched,
        "restored": mended.restored,
    }


def _show_soundness(mended: RepairReport, files_read: int) -> None:
    problems = mended.problems or mended.left
    for each in problems[:NAMED_MAX]:
        out.print(f"  {each}", markup=False)
    if len(problems) > NAMED_MAX:
        out.print(f"  and {len(problems) - NAMED_MAX:,} more", markup=False)
    if not problems:
        print("the index is sound")
    elif not mended.problems:
        print_note("ctx store check --repair mends it")
    elif not mended.left or _deeds(mended, files_read):
        print(
            "mended: " + (_deeds(mended, files_read) or "what was damaged is dropped, and made anew when it is needed")
        )
    if mended.problems and mended.left:
        print_note(
            "what lies on the store is mended by who shares: ctx store check --repair there, or with CTX_STORE_SHARES=1"
        )


def _deeds(mended: RepairReport, files_read: int) -> str:
    """What was done, the cheapest first."""
    done = {
        "segments fetched again": mended.fetched,
        "segments put back on the store": mended.restored,
        "files read again": files_read,
    }
    return ", ".join(f"{what}: {count:,}" for what, count in done.items() if count)


# -- who lies on a store ------------------------------------------------------------------------------------------


def show_tenants(address: str, root: Path | None, *, as_json: bool) -> int:
    """Say which repositories a store has; the exit code."""
    with closing(depot(_named(address, root))) as place:
        found = list_tenants(place)
    if as_json:
        print(json.dumps([each._asdict() for each in found]))
    elif found:
        print_table(("repository", "size", "files", "chunks", "committed", "schema"), map(_row, found))
    else:
        print(f"nothing lies on {place.name}")
    return 0


def _row(tenant: Tenant) -> tuple[str, ...]:
    counts = ("" if count is None else f"{count:,}" for count in (tenant.files, tenant.chunks))
    committed = format_age(tenant.committed_at, time.time()) if tenant.committed_at else "not yet as a whole"
    layout = f"{tenant.schema}" if tenant.schema == SCHEMA_VERSION else f"{tenant.schema}, of another release"
    return (tenant.repository, format_size(tenant.bytes), *counts, committed, layout)


def remove_index(repository: str, address: str, root: Path | None, *, schema: int, yes: bool) -> int:
    """Take a repository off a store, for all who read it there; the exit code."""
    chosen = _named(address, root)
    with closing(depot(chosen)) as place, closing(vector_depot(chosen)) as vectors:
        if not yes and not confirm(f"Take the index of {repository} off {place.name}, for everybody?"):
            raise NotConfirmed("nothing was removed", suggestion="answer y, or say --yes")
        freed = remove_tenant(place, vectors, repository, schema or SCHEMA_VERSION)
    print(f"removed {repository}, {format_size(freed)}")
    return 0


def _named(address: str, root: Path | None) -> str:
    """The address that was named, else the one of the settings. Raises: InvalidArgument where that is no team's store."""
    chosen = address or Settings.load(resolve_root(root)).store_url
    if chosen in ("", "embedded"):
        raise InvalidArgument(
            "no store of a team is named",
            suggestion="say --store postgresql://user@host/database, or set CTX_STORE_URL",
        )
    return chosen
