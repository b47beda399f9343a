"""`ctx chunk`: write the index as chunk files, with progress and one line at the end; print the content of a folder of such files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from context_engine.cli.console import print_note, print_rows, run_index, run_with_progress
from context_engine.cli.workspace_root import resolve_root
from context_engine.engine import Engine
from context_engine.model import ChunkKind
from context_engine.search import FILES, ExportReport, read_folder
from context_engine.text import format_count, format_size


def export(folder: Path, root: Path | None, *, embedder: str) -> int:
    """Bring the index up to date and write it; the exit code."""
    target = folder.expanduser().absolute()
    with Engine.open(resolve_root(root)) as engine:
        run_index(engine)
        report = run_with_progress(
            lambda tell, cancel: engine.search.export_chunks(target, embedder=embedder, progress=tell, cancel=cancel),
            "export",
            unit="chunks",
        )
        if target.is_relative_to(engine.root):
            print_note(
                f"{folder} lies inside the workspace: unless an ignore file names it, it is indexed like other files"
            )
    print(_describe_export(report, folder))
    return 0


def check(folder: Path) -> int:
    """Show what the files hold; the exit code."""
    chunks = read_folder(folder.expanduser())
    why = {skipped.path: skipped.detail for skipped in chunks.skipped}
    counts = {kind: sum(row.kind == kind for row in chunks.rows) for kind in FILES}
    print_rows((name, "ok" if name in chunks.files else why.get(name, "not there")) for name in FILES.values())
    print_rows(
        [
            ("chunks", _count_by_kind(counts)),
            (
                "vectors",
                f"{int(chunks.embedded.sum()):,} of {chunks.dimensions} numbers" if chunks.dimensions else "none",
            ),
            ("model", f"{chunks.model} {chunks.fingerprint}".strip()),
        ]
    )
    return 1 if why else 0


def _describe_export(report: ExportReport, folder: Path) -> str:
    """Return what was written, as a sentence."""
    made = f"vectors of {report.dimensions} numbers by {report.model}" if report.model else "no vectors"
    return f"wrote {_count_by_kind(report.kinds)}, {made}, {format_size(report.size_bytes)}: {folder}"


def _count_by_kind(kinds: Mapping[ChunkKind, int]) -> str:
    """Return the number of chunks, and how many of each kind.

    >>> _count_by_kind({"documentation": 2, "data": 1})
    '3 chunks (2 documentation, 1 data)'
    """
    return f"{format_count(sum(kinds.values()), 'chunk')} ({', '.join(f'{number:,} {kind}' for kind, number in kinds.items())})"
