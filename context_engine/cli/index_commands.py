"""`ctx index`: update the index, report the run, and make missing vectors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import context_engine
from context_engine import engine_parts
from context_engine.cli.command_runner import INTERRUPTED
from context_engine.cli.progress import run_index, run_with_progress
from context_engine.cli.screens import Screen, process_screen
from context_engine.cli.workspace_choice import find_project, note_settings, print_json, resolve_root, warn_of_index
from context_engine.errors import Cancelled, InvalidArgument, InvalidPath
from context_engine.repo import check_workspace_root
from context_engine.settings import Settings
from context_engine.text import format_count

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.model import IndexReport

NAMED_MAX = 5


def index(
    path: Path | None = None,
    root: Path | None = None,
    *,
    force: bool = False,
    embed: bool = False,
    store: str = "",
    share: bool = False,
    as_json: bool = False,
) -> int:
    """Index a repository, or update its index; return the exit code. `app.py` has the options."""
    screen = process_screen()
    workspace, part = _resolve_target(path, root)
    settings = choose_store(Settings.load(workspace), store, share=share)
    report = None if force or embed or part else engine_parts.report_unchanged(workspace, settings)
    if report is not None:
        _show_outcome(workspace, report, settings, screen, as_json=as_json)
        return 0
    with context_engine.Engine.open(workspace, settings=settings) as engine:
        try:
            report = run_index(engine, path=part, force=force)
        except Cancelled:
            files = engine.status().files
            screen.warn("interrupted", f"{files:,} files are indexed; ctx index goes on from there")
            return INTERRUPTED
        finally:
            warn_of_index(engine, screen)
        _show_outcome(workspace, report, settings, screen, as_json=as_json)
        return _embed(engine, screen, is_silent=as_json or screen.is_quiet) if embed else 0


def choose_store(settings: Settings, store: str, *, share: bool) -> Settings:
    """Return the settings with the given store. Raises: InvalidArgument for an index that nobody else could read."""
    address = store.strip() or settings.store_url
    if share and address in ("", "embedded"):
        raise InvalidArgument(
            "--share needs a database, and the index of this machine is not one",
            suggestion="name it, as --store postgresql://user@host/database, or set CTX_STORE_URL",
        )
    return replace(settings, store_url=address, store_shares=share or settings.store_shares)


def _embed(engine: Engine, screen: Screen, *, is_silent: bool) -> int:
    """Embed all texts that have no vector yet; return the exit code."""
    try:
        chunks = run_with_progress(
            lambda on_progress, cancel: engine.embeddings.embed_all(progress=on_progress, cancel=cancel),
            "embedding",
            unit="texts",
        )
    except Cancelled:
        screen.warn("interrupted", "what was embedded is kept; ctx index --embed goes on from there")
        return INTERRUPTED
    if not is_silent:
        model = engine.status().embeddings.model
        screen.out.show_rows([("embedded", f"{format_count(chunks, 'chunk')} by {model}")])
    return 0


def _show_outcome(workspace: Path, report: IndexReport, settings: Settings, screen: Screen, *, as_json: bool) -> None:
    """Print the summary of a run, and which settings are ignored."""
    if as_json:
        print_json(_format_report(workspace, report))
    elif not screen.is_quiet:
        _show_report(workspace, report, screen)
    note_settings(settings.notes(), screen)


def _format_report(workspace: Path, report: IndexReport) -> dict[str, object]:
    names = ("files", "chunks", "symbols", "added", "changed", "removed", "unchanged")
    counts = {name: getattr(report, name) for name in names}
    return {"root": str(workspace), **counts, "skipped": report.skipped, "seconds": round(report.seconds, 3)}


def _show_report(workspace: Path, report: IndexReport, screen: Screen) -> None:
    """Print the summary of a run."""
    changed = f"{report.added:,} added, {report.changed:,} changed, {report.removed:,} removed"
    screen.out.show_rows(
        [
            ("indexed", f"{format_count(report.files, 'file')} in {workspace}"),
            ("this run", f"{changed}, {report.unchanged:,} unchanged"),
            ("contains", f"{format_count(report.chunks, 'chunk')}, {format_count(report.symbols, 'symbol')}"),
            ("skipped", ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in report.skipped.items())),
            ("took", f"{report.seconds:.2f} s"),
        ]
    )
    remarkable = [entry for entry in report.skipped_examples if entry.reason != "ignored"]
    for entry in remarkable[:NAMED_MAX]:
        screen.out.show(f"  {entry}")
    if any(entry.reason == "too_large" for entry in remarkable):
        screen.note("CTX_INDEX_BYTES_MAX raises the limit; `ctx read FILE:1-100` reads a part without an index")
    if not report.files:
        screen.warn("nothing to index here", "is this the right folder? See ctx index --help")


def _resolve_target(path: Path | None, root: Path | None) -> tuple[Path, str | None]:
    """Return the workspace, and the folder of it to index. A path alone is a workspace, unless it is inside one."""
    if path is None:
        return resolve_root(root), None
    target = path.expanduser().absolute()
    workspace = root.expanduser().absolute() if root else find_project(target)
    if target == workspace:
        return check_workspace_root(workspace, allow_any=True), None
    if not target.is_relative_to(workspace):
        raise InvalidPath(f"{path} is not inside {workspace}", suggestion="Leave out --root, or name a folder of it.")
    return workspace, target.relative_to(workspace).as_posix()
