"""`ctx index`: run it, then print a table of what was done and what was skipped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from context_engine.cli.console import err, out, print_rows, run_index, run_with_progress
from context_engine.cli.workspace_root import find_project, resolve_root
from context_engine.engine import Engine
from context_engine.errors import Cancelled, InvalidArgument, InvalidPath
from context_engine.settings import Settings
from context_engine.text import escape_line, format_count

if TYPE_CHECKING:
    from context_engine.model import IndexReport

INTERRUPTED = 130
"""What shells say of a program that Ctrl-C ended."""
UNREMARKABLE = frozenset({"ignored", "hidden"})
"""Skipped on purpose: counted in the table, not named below it."""
NAMED_MAX = 5


def index(
    path: Path | None, root: Path | None, *, force: bool, embed: bool = False, store: str = "", share: bool = False
) -> int:
    """Index a workspace, or a folder of it, and have the model read it when told to; the exit code.

    `store` and `share` take the place of what the environment says of the store, for this run.
    """
    workspace, part = _resolve_target(path, root)
    with Engine.open(workspace, settings=choose_store(Settings.load(workspace), store, share=share)) as engine:
        try:
            report = run_index(engine, path=part, force=force)
        except Cancelled:
            kept = engine.status()
            err.print(f"[yellow]interrupted[/yellow]: {kept.files:,} files are indexed; ctx index goes on from there")
            return INTERRUPTED
        show_report(workspace, report)
        for what, step in engine.settings.notes():
            err.print(f"[yellow]note[/yellow]: {escape(f'{what}. {step}')}", soft_wrap=True)
        return _embed(engine) if embed else 0


def choose_store(settings: Settings, store: str, *, share: bool) -> Settings:
    """Return the settings with the given store.

    Raises: InvalidArgument where no other machine could read what is shared.
    """
    address = store.strip() or settings.store_url
    if share and address in ("", "embedded"):
        raise InvalidArgument(
            "--share needs a database, and the index of this machine is none",
            suggestion="name it, as --store postgresql://user@host/database, or set CTX_STORE_URL",
        )
    return replace(settings, store_url=address, store_shares=share or settings.store_shares)


def _embed(engine: Engine) -> int:
    """Embed what the model has not seen; return the exit code."""
    try:
        files, chunks = run_with_progress(
            lambda tell, cancel: engine.embeddings.embed_all(progress=tell, cancel=cancel), "embedding", unit="texts"
        )
    except Cancelled:
        err.print("[yellow]interrupted[/yellow]: what was embedded is kept; ctx index --embed goes on from there")
        return INTERRUPTED
    state = engine.status().embeddings
    taken = f", {state.taken:,} of the vectors from the team" if state.taken else ""
    print_rows(
        [("embedded", f"{format_count(files, 'file')}, {format_count(chunks, 'chunk')} by {state.model}{taken}")]
    )
    return 0


def show_report(workspace: Path, report: IndexReport) -> None:
    """The summary of a run."""
    changed = f"{report.added:,} added, {report.changed:,} changed, {report.removed:,} removed"
    told = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in report.count_skipped().items())
    print_rows(
        [
            ("indexed", f"{format_count(report.files, 'file')} in {workspace}"),
            ("this run", f"{changed}, {report.unchanged:,} unchanged"),
            ("contains", f"{format_count(report.chunks, 'chunk')}, {format_count(report.symbols, 'symbol')}"),
            ("skipped", told),
            ("took", f"{report.seconds:.2f} s"),
        ]
    )
    remarkable = [skipped for skipped in report.skipped if skipped.reason not in UNREMARKABLE]
    for skipped in remarkable[:NAMED_MAX]:
        out.print(
            f"  {skipped.reason.replace('_', ' ')}: {escape_line(skipped.path)} {escape_line(skipped.detail)}".rstrip(),
            markup=False,
        )
    if not report.files:
        err.print("[yellow]nothing to index here[/yellow]: is this the right folder? See ctx index --help")


def _resolve_target(path: Path | None, root: Path | None) -> tuple[Path, str | None]:
    """Return (workspace, folder of it): a path alone is a workspace, unless it is inside one that is named or found."""
    if path is None:
        return resolve_root(root), None
    target = path.expanduser().absolute()
    workspace = root.expanduser().absolute() if root else find_project(target)
    if target == workspace:
        return workspace, None
    if not target.is_relative_to(workspace):
        raise InvalidPath(f"{path} is not inside {workspace}", suggestion="Leave out --root, or name a folder of it.")
    return workspace, target.relative_to(workspace).as_posix()
