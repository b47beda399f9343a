"""PURE.

What a served folder of chunk files answered, as replies: the shape of seed 004, and what `index_status` tells of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from context_engine.tools.tool import Reply
from context_engine.tools.truncate import compact_json, drop_empty, take_fitting_rows

if TYPE_CHECKING:
    from context_engine.search.served_chunks import ChunkAnswer, ChunkStatus


def format_chunk_answer(answer: ChunkAnswer, chars_max: int) -> Reply:
    """Return the reply of `cortex_search`: chunks as their indexer wrote them, never a vector, and the engine that found them."""
    best = answer.hits[0].score if answer.hits else 0.0
    rows = [
        {"chunk": hit.row.to_dict(), "combined_score": round(hit.score / best, 3) if best else 0.0}
        for hit in answer.hits
    ]
    shown = take_fitting_rows(rows, chars_max=chars_max)
    reply: dict[str, Any] = {"results": shown, "total": len(rows), "engine": answer.engine}
    if len(shown) < len(rows):
        reply |= {
            "shown": len(shown),
            "next": f"{len(rows) - len(shown)} more did not fit: narrow with tags or chunk_types",
        }
    told = {
        "missing": answer.missing,
        "freshness": answer.freshness if answer.freshness != "fresh" else "",
        "reason": answer.reason,
        "near_tags": list(answer.near_tags),
    }
    return Reply(compact_json(reply | drop_empty(told) | _next(answer)))


def format_chunk_status(status: ChunkStatus) -> dict[str, Any]:
    """Return what the status reports of a served folder."""
    return drop_empty(
        {
            "folder": status.folder,
            "files": list(status.files),
            "chunks": dict(status.kinds),
            "engine": status.engine,
            "model": status.model,
            "dimensions": status.dimensions,
            "missing": status.missing,
            "skipped": [
                {"path": skipped.path, "reason": skipped.reason, "detail": skipped.detail} for skipped in status.skipped
            ],
            "problem": status.problem,
            "watcher": status.watcher,
            "next": "Write the files again: they are read automatically." if status.problem else "",
        }
    )


def _next(answer: ChunkAnswer) -> dict[str, str]:
    """Return what to do about an answer without hits."""
    if answer.hits:
        return {}
    if answer.near_tags:
        return {"next": "Use one of near_tags, or leave tags out."}
    return {
        "next": "Use other words, or loosen tags and chunk_types; codebase_retrieval searches the workspace itself."
    }
