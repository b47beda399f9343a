"""`ctx store`: moves an index from machine to machine with a bar of progress, checks it, mends it."""

from __future__ import annotations

import json
from pathlib import Path

from rich.markup import escape

from context_engine.cli.index import show
from context_engine.cli.places import root_of
from context_engine.cli.screen import err, indexed, note, out, told
from context_engine.engine import Engine
from context_engine.errors import Cancelled
from context_engine.tools.files import size_text

INTERRUPTED = 130
NAMED_MAX = 20
COMMIT_CHARS = 10


def export(file: Path, root: Path | None) -> int:
    """Write the index into a file; the exit code."""
    target = file.expanduser().absolute()
    with Engine.open(root_of(root)) as engine:
        said = told(
            lambda tell, cancel: engine.export_index(target, progress=tell, cancel=cancel), "export", unit="bytes"
        )
    print(f"wrote {said.files:,} files, {said.chunks:,} chunks, {size_text(said.size_bytes)} unpacked: {file}")
    return 0


def take_in(file: Path, root: Path | None) -> int:
    """Take an exported index, then bring it up to date; the exit code."""
    source = file.expanduser().absolute()
    workspace = root_of(root)
    with Engine.open(workspace) as engine:
        try:
            said = told(
                lambda tell, cancel: engine.import_index(source, progress=tell, cancel=cancel), "import", unit="bytes"
            )
            at = f" at {said.commit[:COMMIT_CHARS]}" if said.commit else ""
            note(f"took {said.files:,} files of {said.name}{at}; comparing them with {workspace}")
            report = indexed(engine)
        except Cancelled:
            err.print(f"[yellow]interrupted[/yellow]: ctx store import {escape(str(file))} goes on from there")
            return INTERRUPTED
    show(workspace, report)
    return 0


def migrate(address: str, root: Path | None) -> int:
    """Put the index into another store; the exit code."""
    with Engine.open(root_of(root)) as engine:
        stats = told(
            lambda tell, cancel: engine.move_index(address, progress=tell, cancel=cancel), "move", unit="segments"
        )
    print(f"moved {stats.files:,} files, {stats.chunks:,} chunks")
    note("set CTX_STORE_URL to that address wherever it shall be used")
    return 0


def check(root: Path | None, *, repair: bool, as_json: bool) -> int:
    """Say what is wrong, and mend it when told to; the exit code."""
    with Engine.open(root_of(root)) as engine:
        problems = engine.problems()
        files_read = 0
        if problems and repair:
            mended = engine.mend()
            report = indexed(engine)
            files_read = report.files if mended.is_anew else mended.files_lost
    is_sound = not problems or repair
    if as_json:
        print(
            json.dumps(
                {"ok": is_sound, "problems": problems, "repaired": bool(problems) and repair, "files_read": files_read}
            )
        )
        return 0 if is_sound else 1
    for each in problems[:NAMED_MAX]:
        out.print(f"  {each}", markup=False)
    if not problems:
        print("the index is sound")
    elif repair:
        print(f"mended: {files_read:,} files were read again")
    else:
        note("ctx store check --repair reads what is damaged again")
    return 0 if is_sound else 1
