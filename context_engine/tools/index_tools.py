"""Tools that build, rebuild, clear and inspect the index."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.errors import Cancelled, NotConfirmed, StorageBusy
from context_engine.text import compact_json, drop_empty
from context_engine.tools.arguments import BooleanArg, TextArg
from context_engine.tools.reply import pick_fields
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.model import EmbeddingStatus, IndexReport, Skipped, Status
    from context_engine.search import ChunkStatus

EXAMPLES_MAX = 20
"""Skipped or stale files that a reply lists as examples; the counts are always complete."""
WORDS_ALONE = "static vectors: answers come from words, names and structure alone"
BUSY_EVERY_S = 0.2
BUSY_PATIENCE_S = 600.0
"""How long a call waits for a running indexing; its client receives keep-alives meanwhile and may cancel."""


@tool(touches="index")
def index_workspace(
    engine: "Engine",
    call: Call,
    path: Annotated[str, TextArg("Only this folder; empty: everything.")] = "",
    force: Annotated[bool, BooleanArg("Rebuild everything.")] = False,
    background: Annotated[bool, BooleanArg("Return at once.")] = False,
) -> Reply:
    """Index the workspace so that its code and docs can be searched.

    Incremental, by content; searches work meanwhile. Reports what was added, changed, removed and skipped, and why.
    """
    if background and not path:
        return _start_in_background(engine, force=force)
    return _report(engine, _run_index(engine, call, path=path or None, force=force))


@tool(touches="index")
def reindex_workspace(
    engine: "Engine",
    call: Call,
    background: Annotated[bool, BooleanArg("Return at once.")] = False,
) -> Reply:
    """Rebuild the whole index from scratch; the old one answers searches until the new one is complete.

    Memories and plans stay. Rarely needed: index_workspace follows edits.
    """
    if background:
        return _start_in_background(engine, force=True)
    return _report(engine, _run_index(engine, call, force=True))


@tool(touches="index", destructive=True)
def clear_index(engine: "Engine", confirm: Annotated[bool, BooleanArg("Must be true.")] = False) -> Reply:
    """Delete the search index of this workspace to free its disk space.

    Source files, memories and plans stay; index_workspace rebuilds it.
    """
    if not confirm:
        raise NotConfirmed("clear_index deletes the index", suggestion="Call it again with confirm: true.")
    row = {"cleared": True, "freed_bytes": engine.clear_index(), "next": "index_workspace rebuilds it"}
    return Reply(compact_json(row))


@tool(touches="nothing")
def index_status(
    engine: "Engine",
    call: Call,
    include_stats: Annotated[bool, BooleanArg("Add calls, errors, latencies per tool.")] = False,
) -> Reply:
    """Show what is indexed and how fresh it is: files, symbols, branch, stale and skipped files.

    Ask it when a search misses something.
    """
    row = status_row(engine.status())
    if engine.index.store_problem:
        row["next"] = engine.index.store_step
    if call.chunks:
        row["chunk_files"] = format_chunk_status(call.chunks().status())
    if include_stats and call.metrics:
        row["stats"] = dict(call.metrics())
    return Reply(compact_json(row))


def _run_index(engine: "Engine", call: Call, *, path: str | None = None, force: bool = False) -> "IndexReport":
    """Index once a running indexing is done: the server starts one by itself, and the caller wants the result."""
    until = time.monotonic() + BUSY_PATIENCE_S
    while True:
        try:
            return engine.index.update(path=path, force=force, progress=call.progress, cancel=call.cancel)
        except StorageBusy:
            if time.monotonic() > until:
                raise
        if call.cancel.wait(BUSY_EVERY_S):
            raise Cancelled("canceled during another indexing run")


def _report(engine: "Engine", report: "IndexReport") -> Reply:
    return Reply(compact_json(report_row(report) | drop_empty({"warning": engine.index.store_warning})))


def report_row(report: "IndexReport") -> dict[str, Any]:
    """Return the report of an indexing run as a reply row."""
    row = {
        **pick_fields(report, "files chunks symbols added changed removed unchanged"),
        "seconds": round(report.seconds, 3),
        "skipped": report.count_skipped(),
        "skipped_examples": _examples(report.skipped),
    }
    if not report.files:
        row["next"] = "No file here can be indexed: check the root and the ignore files."
    return drop_empty(row)


def status_row(status: "Status") -> dict[str, Any]:
    """Return the state of the index as a reply row."""
    steps = {"absent": "Not indexed yet: call index_workspace."}
    if status.stale:
        steps["ready"] = "Call index_workspace to index the edits."
    row: dict[str, Any] = {
        "root": str(status.root),
        "state": status.state,
        "building": f"{status.building_share:.0%}" if status.state == "building" else "",
        "engine": status.engine,
        "missing": WORDS_ALONE if status.engine == "lexical" else "",
        "embeddings": embeddings_row(status.embeddings),
        **pick_fields(status, "files chunks symbols"),
        "languages": dict(status.languages),
        **pick_fields(status, "branch commit indexed_at"),
        "stale": len(status.stale),
        "stale_files": list(status.stale[:EXAMPLES_MAX]),
        "skipped": dict(status.skipped),
        "skipped_examples": _examples(status.skipped_examples),
        "disk_bytes": status.disk_bytes,
        "cache_folder": str(status.cache_folder),
        **pick_fields(status, "generation watcher last_error"),
        "versions": dict(status.versions),
        "next": steps.get(status.state, ""),
    }
    return drop_empty(row)


def embeddings_row(status: "EmbeddingStatus") -> dict[str, Any]:
    """Return the state of the embeddings as a reply row."""
    done, total = status.chunks
    share = f"{done:,} of {total:,}" if total else ""
    row = {**pick_fields(status, "static model state"), "chunks_embedded": share, "next": status.suggestion}
    return drop_empty(row)


def _start_in_background(engine: "Engine", *, force: bool) -> Reply:
    started = engine.index.update_in_background(force=force)
    row: Mapping[str, Any] = {"started": started, "next": "index_status shows its progress"}
    return Reply(compact_json(row if started else {**row, "reason": "another indexing is running"}))


def _examples(skipped: Sequence["Skipped"]) -> list[dict[str, str]]:
    """Return some skipped files with their reasons; files that are only ignored come last."""
    files = sorted(skipped, key=lambda file: (file.reason == "ignored", file.path))
    return [drop_empty(pick_fields(file, "path reason detail")) for file in files[:EXAMPLES_MAX]]


def format_chunk_status(status: "ChunkStatus") -> dict[str, Any]:
    """Return what the status reports of a served folder."""
    row = {
        "folder": status.folder,
        "files": list(status.files),
        "chunks": dict(status.kinds),
        **pick_fields(status, "engine model dimensions missing"),
        "skipped": _examples(status.skipped),
        **pick_fields(status, "problem watcher"),
        "next": "Write the files again: they are read automatically." if status.problem else "",
    }
    return drop_empty(row)
