"""`ctx index` and `ctx status`: update the index and report it, or report its present state."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from context_engine.cli.common_options import INTERRUPTED, find_project, print_json, resolve_root
from context_engine.cli.console import err, escape_text, notes, out, print_rows, run_index, run_with_progress
from context_engine.cli.screens import is_quiet, process_screen
from context_engine.cli.tool_commands import warn_of_store
from context_engine.engine import Engine
from context_engine.errors import Cancelled, InvalidArgument, InvalidPath
from context_engine.repo import check_workspace_root
from context_engine.settings import Settings
from context_engine.text import format_count

if TYPE_CHECKING:
    from context_engine.model import IndexReport

UNREMARKABLE = frozenset({"ignored", "hidden"})
"""Skipped on purpose: counted in the table, not named below it."""
NAMED_MAX = 5
LANGUAGES_MAX = 8


def index(
    path: Path | None,
    root: Path | None,
    *,
    force: bool,
    embed: bool = False,
    store: str = "",
    share: bool = False,
    as_json: bool = False,
) -> int:
    """Index a workspace or a folder of it, and embed everything if `embed`; return the exit code.

    `store` and `share` replace the settings of the store for this run.
    """
    workspace, part = _resolve_target(path, root)
    with Engine.open(workspace, settings=choose_store(Settings.load(workspace), store, share=share)) as engine:
        warn_of_store(engine, process_screen(os.environ))
        try:
            report = run_index(engine, path=part, force=force)
        except Cancelled:
            files = engine.status().files
            notes.print(f"[yellow]interrupted[/yellow]: {files:,} files are indexed; ctx index goes on from there")
            return INTERRUPTED
        if as_json:
            print_json(_format_report(workspace, report))
        elif not is_quiet(os.environ):
            show_report(workspace, report)
        for what, step in engine.settings.notes():
            notes.print(f"[yellow]note[/yellow]: {escape_text(f'{what}. {step}')}")
        if engine.index.live.last_error:
            err.print(f"[yellow]warning[/yellow]: {escape_text(engine.index.live.last_error)}")
        if embed:
            return _embed(engine, is_silent=as_json or is_quiet(os.environ))
        return 0


def choose_store(settings: Settings, store: str, *, share: bool) -> Settings:
    """Return the settings with the given store. Raises: InvalidArgument for an index that nobody else could read."""
    address = store.strip() or settings.store_url
    if share and address in ("", "embedded"):
        raise InvalidArgument(
            "--share needs a database, and the index of this machine is not one",
            suggestion="name it, as --store postgresql://user@host/database, or set CTX_STORE_URL",
        )
    return replace(settings, store_url=address, store_shares=share or settings.store_shares)


def _embed(engine: Engine, *, is_silent: bool = False) -> int:
    """Embed all texts that have no vector yet; return the exit code."""
    try:
        chunks = run_with_progress(
            lambda on_progress, cancel: engine.embeddings.embed_all(progress=on_progress, cancel=cancel),
            "embedding",
            unit="texts",
        )
    except Cancelled:
        notes.print("[yellow]interrupted[/yellow]: what was embedded is kept; ctx index --embed goes on from there")
        return INTERRUPTED
    state = engine.status().embeddings
    counts = f"{format_count(chunks, 'chunk')} by {state.model}"
    if not is_silent:
        print_rows([("embedded", counts)])
    return 0


def _format_report(workspace: Path, report: IndexReport) -> dict[str, object]:
    names = ("files", "chunks", "symbols", "added", "changed", "removed", "unchanged")
    counts = {name: getattr(report, name) for name in names}
    return {"root": str(workspace), **counts, "skipped": report.count_skipped(), "seconds": round(report.seconds, 3)}


def show_report(workspace: Path, report: IndexReport) -> None:
    """Print the summary of a run."""
    changed = f"{report.added:,} added, {report.changed:,} changed, {report.removed:,} removed"
    skipped = report.count_skipped().items()
    print_rows(
        [
            ("indexed", f"{format_count(report.files, 'file')} in {workspace}"),
            ("this run", f"{changed}, {report.unchanged:,} unchanged"),
            ("contains", f"{format_count(report.chunks, 'chunk')}, {format_count(report.symbols, 'symbol')}"),
            ("skipped", ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in skipped)),
            ("took", f"{report.seconds:.2f} s"),
        ]
    )
    remarkable = [entry for entry in report.skipped if entry.reason not in UNREMARKABLE]
    for entry in remarkable[:NAMED_MAX]:
        reason = entry.reason.replace("_", " ")
        out.print(f"  {escape_text(f'{reason}: {entry.path} {entry.detail}')}".rstrip())
    if any(entry.reason == "too_large" for entry in remarkable):
        notes.print("CTX_INDEX_BYTES_MAX raises the limit; `ctx read FILE:1-100` reads a part without an index")
    if not report.files:
        notes.print("[yellow]nothing to index here[/yellow]: is this the right folder? See ctx index --help")


def _resolve_target(path: Path | None, root: Path | None) -> tuple[Path, str | None]:
    """Return the workspace, and the folder of it to index. A path alone is a workspace, unless it is inside one."""
    if path is None:
        return resolve_root(root), None
    target = path.expanduser().absolute()
    if root:
        workspace = root.expanduser().absolute()
    else:
        workspace = find_project(target)
    if target == workspace:
        return check_workspace_root(workspace, allow_any=True), None
    if not target.is_relative_to(workspace):
        raise InvalidPath(f"{path} is not inside {workspace}", suggestion="Leave out --root, or name a folder of it.")
    return workspace, target.relative_to(workspace).as_posix()
