"""Tools that build, rebuild, clear and inspect the index, and explain why a file or a name is in it or not."""

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.errors import CallError, Cancelled, NotConfirmed, StorageBusy
from context_engine.model import Skipped, TextQuery
from context_engine.text import compact_json, dotted_name, drop_empty, escape_line, format_count, join_first
from context_engine.tools.arguments import BooleanArg, ChoiceArg, TextArg
from context_engine.tools.reply import pick_fields
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.model import Status

EXAMPLES_MAX = 20
"""Skipped or stale files that a reply lists as examples; the counts are always complete."""
EXAMPLES_SHOWN = 5
"""Skipped files that an agent or a person sees; of one that is missed, `explain` says why."""
FOR_PROGRAMS, NOT_THERE = ("versions", "generation", "disk_bytes"), (0, "off")
"""Facts about the index that neither an agent nor a person has a use for."""
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
    return _index(engine, call, path=path, force=force, background=background and not path)


@tool(touches="index")
def reindex_workspace(
    engine: "Engine", call: Call, background: Annotated[bool, BooleanArg("Return at once.")] = False
) -> Reply:
    """Rebuild the whole index from scratch; the old one answers searches until the new one is complete.

    Memories and plans stay. Rarely needed: index_workspace follows edits.
    """
    return _index(engine, call, force=True, background=background)


def _index(engine: "Engine", call: Call, *, path: str = "", force: bool, background: bool) -> Reply:
    """Index once a running indexing is done: the server starts one by itself, and the caller wants the result."""
    if background:
        started = engine.index.update_in_background(force=force)
        reason = {} if started else {"reason": "another indexing is running"}
        return Reply(compact_json({"started": started, "next": "index_status shows its progress"} | reason))
    until = time.monotonic() + BUSY_PATIENCE_S
    while True:
        try:
            report = engine.index.update(path=path or None, force=force, progress=call.progress, cancel=call.cancel)
            break
        except StorageBusy:
            if time.monotonic() > until:
                raise
        if call.cancel.wait(0.2):
            raise Cancelled("canceled during another indexing run")
    row = {
        **pick_fields(report, "files chunks symbols added changed removed unchanged"),
        "seconds": round(report.seconds, 3),
        "skipped": report.skipped,
        "skipped_examples": _examples(report.skipped_examples),
        "next": "" if report.files else "No file here can be indexed: check the root and the ignore files.",
        "warning": engine.index.store_warning,
    }
    return Reply(compact_json(drop_empty(row)))


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
    if call.is_brief:
        row = shorten_status(row)
    if engine.index.store_problem:
        row["next"] = engine.index.STORE_STEP
    if call.chunks:
        chunks = call.chunks().status()
        row["chunk_files"] = drop_empty(
            pick_fields(chunks, "folder engine model dimensions missing problem watcher")
            | {"files": list(chunks.files), "chunks": dict(chunks.kinds), "skipped": _examples(chunks.skipped)}
            | {"next": "Write the files again: they are read automatically." if chunks.problem else ""}
        )
    if include_stats and call.metrics:
        row["stats"] = dict(call.metrics())
    return Reply(compact_json(row))


def status_row(status: "Status") -> dict[str, Any]:
    """Return the state of the index as a reply row."""
    steps = {"absent": "Not indexed yet: call index_workspace."}
    if status.stale:
        steps["ready"] = "Call index_workspace to index the edits."
    vectors, (done, total) = status.embeddings, status.embeddings.chunks
    embeddings = {
        **pick_fields(vectors, "static model state"),
        "chunks_embedded": f"{done:,} of {total:,}" if total else "",
        "next": vectors.suggestion,
    }
    row: dict[str, Any] = {
        "root": Path(status.root).name,
        "state": status.state,
        "building": f"{status.building_share:.0%}" if status.state == "building" else "",
        "engine": status.engine,
        "missing": "static vectors: words, names and structure answer alone" if status.engine == "lexical" else "",
        "embeddings": drop_empty(embeddings),
        **pick_fields(status, "files chunks symbols"),
        "languages": dict(status.languages),
        **pick_fields(status, "branch commit indexed_at"),
        "stale": len(status.stale),
        "stale_files": list(status.stale[:EXAMPLES_MAX]),
        "skipped": dict(status.skipped),
        "skipped_examples": _examples(status.skipped_examples),
        "disk_bytes": status.disk_bytes,
        **pick_fields(status, "generation watcher last_error"),
        "versions": dict(status.versions),
        "next": steps.get(status.state, ""),
    }
    return drop_empty(row)


def shorten_status(row: dict[str, Any]) -> dict[str, Any]:
    """Return the state of the index as an agent or a person reads it."""
    kept = {name: value for name, value in row.items() if name not in FOR_PROGRAMS and value not in NOT_THERE}
    examples = [str(Skipped(**file)) for file in row.get("skipped_examples", ())]
    return kept | drop_empty({"skipped_examples": examples[:EXAMPLES_SHOWN]})


def _examples(skipped: Sequence[Skipped]) -> list[dict[str, str]]:
    """Return some skipped files with their reasons."""
    return [drop_empty(pick_fields(file, "path reason detail")) for file in skipped[:EXAMPLES_MAX]]


PLACES_SHOWN = 3
NAME_CHARS_MAX = 200
_NAME = re.compile(r"[^\W\d][\w$]*(?:(?:\.|::|#)[^\W\d][\w$]*)*(?:\(\))?")
STATES = {
    "indexed": "in the index",
    "edited": "in the index, edited since",
    "waiting": "not in the index yet",
    "excluded": "not in the index",
    "folder": "a folder of the index",
    "missing": "there is no such file",
    "outside": "outside of this workspace",
    "defined": "defined",
    "undefined": "not defined in the index",
}
"""The words for each state of a path or a name."""


@tool(touches="nothing")
def explain(
    engine: "Engine",
    call: Call,
    target: Annotated[str, TextArg("A path, or a symbol.", 1), "path"],
    *,
    format: Annotated[str, ChoiceArg("text or json.", ("text", "json"))] = "text",  # noqa: A002 - the argument
) -> Reply:
    """Explain why a file is in the index or not, by which ignore rule or limit; or why a name is not found.

    Example: {"target": "dist/app.js"}
    """
    found = engine.index.path_explainer().explain(target)
    row = drop_empty(
        pick_fields(found, "path state")
        | {"in_index": found.is_indexed}
        | pick_fields(found, "reason detail")
        | {"because_of": found.cause, "notes": list(found.notes)}
    )
    if found.state == "missing" and len(target) <= NAME_CHARS_MAX and _NAME.fullmatch(target):  # not a path: a name?
        is_file_name = "." in target and engine.languages.detect(target, b"") is not None
        of_symbol = _explain_symbol(engine, target, call)
        if of_symbol["state"] == "defined" or not is_file_name:
            row = of_symbol
    return Reply(compact_json(row) if format == "json" else format_explanation(row))


def _explain_symbol(engine: "Engine", name: str, call: Call) -> dict[str, Any]:
    """Return why a name is found or not: similar names, lines with it as text, files outside of the index."""
    found = engine.symbols.find(name, limit=PLACES_SHOWN)
    row: dict[str, Any] = {"symbol": name, "state": "defined" if found.total else "undefined"}
    if found.total:
        places = [f"{one.path}:{one.span.first} {one.kind} {one.qualified}" for one in found.definitions]
        return row | {"definitions": places, "count": found.total}
    word = dotted_name(name).rpartition(".")[2]
    notes = _explain_text(engine, word, call)
    unindexed = engine.index.path_explainer().find_word(word)
    if unindexed:
        shown = "; ".join(f"{path} ({why})" for path, why in unindexed[:PLACES_SHOWN])
        notes.append(f"{format_count(len(unindexed), 'file')} outside of the index with the name: {shown}")
    freshness = found.freshness if found.freshness != "fresh" else ""
    return drop_empty(row | {"near": list(found.near), "notes": notes, "freshness": freshness})


def _explain_text(engine: "Engine", word: str, call: Call) -> list[str]:
    """Return what the text of the files says of a word that no outline defines."""
    query = TextQuery(queries=(rf"\b{re.escape(word)}\b",), regex=True, case_sensitive=True)
    try:
        scan = engine.text_search.scan(query, progress=call.progress, cancel=call.cancel)
    except CallError as error:
        return [error.message]
    if not scan.files:
        return [f"no line of this workspace has {word}"]
    notes = [f"{format_count(scan.lines, 'line')} of {format_count(len(scan.files), 'file')} have it only as text"]
    notes.append(f"for example {', '.join(file.path for file in scan.files[:PLACES_SHOWN])}")
    languages = {file.path: engine.languages.detect(file.path, b"") for file in scan.files}
    plain = [path for path, language in languages.items() if language is None or not language.grammar]
    if plain:
        notes.append(f"{join_first(plain, 1)}: a language without a grammar, so its definitions are not known")
    return notes


def format_explanation(row: dict[str, Any]) -> str:
    """Format an explanation: the target and its state, then each fact on a line."""
    reason = str(row.get("reason", "")).replace("_", " ")
    cause = f", because of its folder {escape_line(row['because_of'])}" if "because_of" in row else ""
    head = f"{escape_line(row.get('path') or row['symbol'])}: {STATES[row['state']]}"
    facts = [row.get("detail", ""), *row.get("definitions", ()), *row.get("notes", ())]
    if "near" in row:
        facts.append(f"similar names: {', '.join(row['near'])}")
    facts.append(row.get("freshness", ""))
    lines = [f"  {escape_line(fact)}" for fact in facts if fact]
    return "\n".join([f"{head}: {reason}{cause}" if reason else f"{head}{cause}", *lines])
