"""`ctx chunk`: export the index as chunk files, and check a folder of such files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from context_engine import embedding, search
from context_engine.cli.common_options import AsJson, Root, command_group
from context_engine.cli.progress import run_index, run_with_progress
from context_engine.cli.screens import process_screen
from context_engine.cli.workspace_choice import open_engine, print_json
from context_engine.text import format_count, format_size

if TYPE_CHECKING:
    from context_engine.model import ChunkKind

app = command_group("chunk", "Export the index as JSON chunk files for other programs, and check such files.")


@app.command("export")
def chunk_export(
    folder: Annotated[Path, typer.Argument(help="Folder to write to; created if it does not exist.")],
    root: Root = None,
    no_vectors: Annotated[bool, typer.Option("--no-vectors", help="Leave out the vectors.")] = False,
    provider: Annotated[bool, typer.Option("--provider", help="Use the vectors of the configured provider.")] = False,
    as_json: AsJson = False,
) -> None:
    """Export the index as four JSON files with vectors, for any program that reads such chunk files."""
    from context_engine.engine_parts import read_embedder_config

    target = folder.expanduser().absolute()
    with open_engine(root) as engine:
        chosen = embedding.EmbedderConfig("static")
        if provider:
            chosen = read_embedder_config(engine.settings, os.environ)
        run_index(engine)
        report = run_with_progress(
            lambda on_progress, cancel: search.export_chunks(
                engine.search, target, None if no_vectors else chosen, progress=on_progress, cancel=cancel
            ),
            "export",
            unit="chunks",
        )
        if target.is_relative_to(engine.root):
            step = "unless an ignore file names it, it is indexed like other files"
            process_screen().note(f"{folder} is inside the workspace: {step}")
    if as_json:
        counts = {"chunks": dict(report.kinds), "model": report.model, "dimensions": report.dimensions}
        print_json({"folder": str(target), **counts, "size_bytes": report.size_bytes})
        return
    vectors = f"vectors of {report.dimensions} numbers by {report.model}" if report.model else "no vectors"
    print(f"wrote {_count_by_kind(report.kinds)}, {vectors}, {format_size(report.size_bytes)}: {folder}")


@app.command("check")
def chunk_check(
    folder: Annotated[Path, typer.Argument(help="Folder with the chunk files.")], as_json: AsJson = False
) -> None:
    """Check a folder of chunk files: print its contents and the files that are invalid. Exit code 1 if any is."""
    chunks = search.read_folder(folder.expanduser())
    problems = {skipped.path: skipped.detail for skipped in chunks.skipped}
    counts = {kind: sum(row.kind == kind for row in chunks.rows) for kind in search.FILES}
    names = search.FILES.values()
    if as_json:
        files = {name: name in chunks.files for name in names}
        print_json({"files": files, "problems": problems, "chunks": counts, "model": chunks.model or None})
        raise typer.Exit(1 if problems else 0)
    vectors = "none"
    if chunks.dimensions:
        vectors = f"{int(chunks.embedded.sum()):,} of {chunks.dimensions} numbers"
    out = process_screen().out
    out.show_rows((name, "ok" if name in chunks.files else problems.get(name, "not there")) for name in names)
    model = f"{chunks.model} {chunks.fingerprint}".strip()
    out.show_rows([("chunks", _count_by_kind(counts)), ("vectors", vectors), ("model", model)])
    raise typer.Exit(1 if problems else 0)


def _count_by_kind(kinds: Mapping[ChunkKind, int]) -> str:
    """Format the number of chunks, in all and of each kind.

    >>> _count_by_kind({"documentation": 2, "data": 1})
    '3 chunks (2 documentation, 1 data)'
    """
    counts = ", ".join(f"{number:,} {kind}" for kind, number in kinds.items())
    return f"{format_count(sum(kinds.values()), 'chunk')} ({counts})"
