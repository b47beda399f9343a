"""`ctx status`: print what is indexed and how fresh it is, as a table or as the JSON that agents get."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from context_engine.cli.console import print_rows
from context_engine.cli.workspace_root import resolve_root
from context_engine.engine import Engine
from context_engine.text import format_count, format_size

if TYPE_CHECKING:
    from context_engine.model import EmbeddingStatus, Status

LANGUAGES_MAX = 8
STALE_MAX = 5


def status(root: Path | None, *, as_json: bool) -> int:
    """Print the state of the index; return the exit code."""
    workspace = resolve_root(root)
    with Engine.open(workspace) as engine:
        if as_json:
            from context_engine.cli.call_command import print_reply

            return print_reply(engine, "index_status", {})
        notes = [("settings", f"{what}. {step}") for what, step in engine.settings.notes()]
        print_rows([*_rows(engine.status()), *notes])
    return 0


def _meaning(state: EmbeddingStatus) -> str:
    """Describe the static vectors and the progress of a model."""
    if not state.model:
        return f"static vectors {state.static}"
    (files, all_files), (chunks, all_chunks) = state.cards, state.chunks
    share = f", {files:,} of {all_files:,} files and {chunks:,} of {all_chunks:,} chunks embedded" if all_files else ""
    step = f"; {state.suggestion}" if state.suggestion else ""
    return f"static vectors {state.static}; {state.model} {state.state}{share}{step}"


def _rows(state: Status) -> list[tuple[str, str]]:
    """Return name and value of each line; empty values are left out."""
    if state.state == "absent":
        return [("root", str(state.root)), ("index", "none yet: ctx index builds it")]
    languages = ", ".join(f"{name} {count:,}" for name, count in list(state.languages.items())[:LANGUAGES_MAX])
    stale = ", ".join(state.stale[:STALE_MAX]) + (", ..." if len(state.stale) > STALE_MAX else "")
    share = f" {state.building_share:.0%}" if state.state == "building" else ""
    return [
        ("root", str(state.root)),
        ("index", f"{state.state}{share}, {state.engine}, from {state.indexed_at or 'unknown'}"),
        (
            "contains",
            f"{format_count(state.files, 'file')}, {format_count(state.chunks, 'chunk')}, {format_count(state.symbols, 'symbol')}",
        ),
        ("meaning", _meaning(state.embeddings)),
        ("languages", languages),
        ("branch", " at ".join(part for part in (state.branch, (state.commit or "")[:12]) if part)),
        ("stale", f"{format_count(len(state.stale), 'file')}: {stale}" if state.stale else "no"),
        ("skipped", ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in state.skipped.items())),
        ("disk", f"{format_size(state.disk_bytes)} in {state.cache_folder}"),
        ("watcher", state.watcher),
        ("last error", state.last_error or ""),
    ]
