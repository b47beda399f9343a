"""PURE. Render a context bundle: as JSON for agents, or as Markdown for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from context_engine.context.project_knowledge import REPOSITORY_WORDS
from context_engine.text.visible_text import escape_line
from context_engine.tools.truncate import compact_json, drop_empty, fence_for, format_count

if TYPE_CHECKING:
    from context_engine.context.bundle import Bundle, BundledFile, LeftOut, Snippet
    from context_engine.context.project_knowledge import Remembered


class ReplyMeta(NamedTuple):
    """Facts about the reply itself: the question, the token budget, the tokens used, the time taken."""

    query: str
    budget: int
    tokens: int
    ms: int


def render_bundle_json(bundle: Bundle, meta: ReplyMeta) -> str:
    """Render the bundle as one JSON object."""
    return compact_json(
        {
            "summary": _summary(bundle),
            "query": meta.query,
            "files": [_file(file) for file in bundle.files],
            "memories": [_memory_row(memory) for memory in bundle.remembered if memory.source == "memory"],
            "discoveries": [_memory_row(memory) for memory in bundle.remembered if memory.source == "discovery"],
            "external_hints": [
                {"url": source.address, "mentioned_in": list(source.mentioned), "fetched": False}
                for source in bundle.external
            ],
            "hints": list(bundle.hints),
            "metadata": _metadata(bundle, meta),
        }
        | drop_empty({"warnings": list(bundle.warnings), "reason": bundle.reason, "note": _note(bundle)})
    )


def _note(bundle: Bundle) -> str:
    """Return the note on where memories and discoveries come from; empty if there are none."""
    return f"Memories and discoveries are {REPOSITORY_WORDS}." if bundle.remembered else ""


def render_bundle_markdown(bundle: Bundle, meta: ReplyMeta) -> str:
    """Render the bundle as Markdown."""
    parts = [f"{_summary(bundle)} · {bundle.engine} · {bundle.freshness}"]
    parts += [f"warning: {warning}" for warning in bundle.warnings]
    parts += [f"reason: {bundle.reason}"] if bundle.reason else []
    parts += [_section(file) for file in bundle.files]
    parts += _bullet_section(f"Remembered, {REPOSITORY_WORDS}", (_memory_line(memory) for memory in bundle.remembered))
    parts += _bullet_section("Named sources, not fetched", (_source_line(*source) for source in bundle.external))
    parts += _bullet_section("Facts", map(escape_line, bundle.hints))
    footer = f"{meta.tokens:,} of {meta.budget:,} tokens"
    left_out = [
        f"{key.replace('_', ' ')}: {value if isinstance(value, int) else ', '.join(value)}"
        for key, value in _left_out(bundle.left_out).items()
    ]
    if left_out:
        footer += f" · left out: {' · '.join(left_out)}"
    return "\n\n".join([*parts, footer])


# -- as JSON ----------------------------------------------------------------------------------------------------------


def _summary(bundle: Bundle) -> str:
    """Summarize the bundle and name the place to begin."""
    if not bundle.files:
        return "nothing was found"
    first = bundle.files[0]
    symbol = first.snippets[0].symbol if len(first.snippets) == 1 else ""
    places = sum(len(file.snippets) for file in bundle.files)
    where = f"{escape_line(first.path)}{f' ({symbol})' if symbol else ''}"
    return f"{format_count(places, 'place')} in {format_count(len(bundle.files), 'file')}; begin with {where}"


def _file(file: BundledFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "language": file.language,
        "relevance": file.relevance,
        **drop_empty({"summary": file.summary}),
        "snippets": [_snippet(snippet) for snippet in file.snippets],
        "related": [{"path": related.path, "why": related.why} for related in file.related],
    }


def _snippet(snippet: Snippet) -> dict[str, Any]:
    return {"text": snippet.text, "lines": f"{snippet.span.first}-{snippet.span.last}"} | drop_empty(
        {
            "relevance": snippet.relevance,
            "tokens": snippet.tokens,
            "symbol": snippet.symbol,
            "goes_on_at_line": snippet.goes_on or None,
        }
    )


def _memory_row(one: Remembered) -> dict[str, Any]:
    return drop_empty(
        {
            "id": one.id,
            "type": one.type,
            "title": one.title,
            "content": one.content,
            "where": one.place,
            "score": one.score,
        }
    )


def _metadata(bundle: Bundle, meta: ReplyMeta) -> dict[str, Any]:
    left_out = _left_out(bundle.left_out)
    return {
        "total_files": len(bundle.files),
        "total_snippets": sum(len(file.snippets) for file in bundle.files),
        "total_tokens": meta.tokens,
        "token_budget": meta.budget,
        "truncated": bool(left_out),
        "search_ms": meta.ms,
        "engine": bundle.engine,
        "freshness": bundle.freshness,
        "sources": dict(bundle.sources),
    } | drop_empty({"left_out": left_out, "absent": list(bundle.absent)})


def _left_out(left_out: LeftOut) -> Mapping[str, Any]:
    counts = {name: count for name, count in (("places", left_out.places), ("rows", left_out.rows)) if count}
    return counts | drop_empty({"next_files": list(left_out.files), "unreadable": list(left_out.unreadable)})


# -- as Markdown ------------------------------------------------------------------------------------------------------


def _section(file: BundledFile) -> str:
    head = f"## {escape_line(file.path)} · {file.relevance}{f' · {file.summary}' if file.summary else ''}"
    related = [f"- {escape_line(item.path)}: {escape_line(item.why)}" for item in file.related]
    return "\n\n".join([head, *(_block(snippet, file.language) for snippet in file.snippets), *_lines(related)])


def _block(snippet: Snippet, language: str) -> str:
    more = f" · goes on at line {snippet.goes_on}" if snippet.goes_on else ""
    head = f"lines {snippet.span}{f' · {snippet.symbol}' if snippet.symbol else ''}{more}"
    fence = fence_for(snippet.text)
    return f"{head}\n{fence}{language}\n{snippet.text}\n{fence}"


def _bullet_section(title: str, lines: Iterable[str]) -> list[str]:
    rows = [f"- {line}" for line in lines]
    return [f"## {title}\n\n" + "\n".join(rows)] if rows else []


def _lines(rows: list[str]) -> list[str]:
    return ["\n".join(rows)] if rows else []


def _memory_line(one: Remembered) -> str:
    title = f"{escape_line(one.title)}: " if one.title and one.title not in one.content else ""
    return f"{one.type} {one.id} ({escape_line(one.place)}): {title}{one.content}"


def _source_line(address: str, files: tuple[str, ...]) -> str:
    return f"{address}: " + (f"mentioned in {', '.join(files)}" if files else "no file mentions it")
