"""Tools that find code: by a question (one search in three formats), by name, and along the call graph."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.context import PRICE_POWER
from context_engine.errors import InvalidArgument
from context_engine.model import CHUNK_KINDS, QUESTION_CHARS_MAX, ChunkKind, Filter, Hit, Query
from context_engine.text import LineSpan, compact_json, drop_empty, escape_line, estimate_tokens, format_count
from context_engine.tools.arguments import ENDLESS, ChoiceArg, FractionArg, IntegerArg, TextArg, TextListArg, bind
from context_engine.tools.reply import (
    NOTE_CHARS,
    clip_line,
    count_fitting,
    cut_excerpt,
    fence_for,
    first_line,
    take_fitting_rows,
)
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.model import Answer, Definition, Edge, FileOutline
    from context_engine.search import ChunkAnswer

EXCERPT_LINES = 24
EXCERPT_CHARS = 900
"""The best row: about 220 tokens."""
NEXT_LINES = 12
NEXT_CHARS = 480
"""The next rows: the expected code is in the first 500 tokens for 92 % of the questions (87 % with full rows)."""
LINE_CHARS_MAX = 160
PLACES_PER_FILE = 3
"""Places of a file that can be shown; with a budget of the caller more."""
PLACES_IN_BUDGET = 10
FILES_WITH_CODE = 3
"""The best files: the others are one line each, unless the caller gives a budget for more."""
CODE_TOKENS = 1_600
"""Budget of a reply whose caller names none: as long as ten rows with short excerpts."""
LINES_SHARE = 0.08
"""Largest share of a budget for files that are one line."""
ROW_TOKENS = 30
"""Price of a row without its code."""

Includes = Annotated[tuple[str, ...], TextListArg("Only paths like src/** or *.py.")]
Excludes = Annotated[tuple[str, ...], TextListArg("Globs to leave out.")]
Kinds = Annotated[tuple[str, ...], TextListArg("Only these kinds.", CHUNK_KINDS)]
Tags = Annotated[tuple[str, ...], TextListArg("Must have all: language, path part, #tag.")]


@tool(
    touches="nothing", always_load=True, instead="grep_codebase", rare=("chunk_types", "tags", "languages", "min_score")
)
def codebase_retrieval(
    engine: "Engine",
    query: Annotated[
        str,
        TextArg("A question, an issue or trace, words from the code, or a symbol.", 1, QUESTION_CHARS_MAX),
    ],
    top_k: Annotated[int, IntegerArg("Most rows.", 1, 50)] = 10,
    profile: Annotated[
        str, ChoiceArg("fast: one line, rich: whole chunks.", ("fast", "balanced", "rich"))
    ] = "balanced",
    include_paths: Includes = (),
    exclude_paths: Excludes = (),
    chunk_types: Kinds = (),
    tags: Tags = (),
    languages: Annotated[tuple[str, ...], TextListArg("Only these, such as python or go.")] = (),
    min_score: Annotated[float, FractionArg("Minimum share of the best score.")] = 0,
    max_tokens: Annotated[int, IntegerArg("Token budget; 0: the reply limit.", 0, ENDLESS)] = 0,
) -> Reply:
    """Find the code that answers a question: search by words, meaning or symbol, ranked, instead of many greps.

    JSON rows, one a file, with path, lines, symbol, code and why; `more` has further places of these files. Start here.
    """
    chosen = _filter(include_paths, exclude_paths, chunk_types, tags, languages)
    answer = engine.search.find(
        _query_by_file(query, top_k, chosen, min_score, PLACES_IN_BUDGET if max_tokens else PLACES_PER_FILE)
    )
    files = _group_by_file(answer.hits)
    results, more = _arrange_rows(files, query, profile, max_tokens)
    shown = take_fitting_rows([*results, *more], chars_max=_chars_max(engine), tokens_max=max_tokens, least=1)
    results, more = shown[: len(results)], shown[len(results) :]
    engine.search.note_shown(hits[0].chunk.path for hits in files[: len(results)])
    head = {"engine": answer.engine, "freshness": answer.freshness, "total": answer.total}
    if len(results) < len(files):
        head |= {
            "shown": len(results),
            "next": f"{len(files) - len(results)} more rows did not fit: profile fast, or raise max_tokens",
        }
    return Reply(compact_json(head | _silence(answer, chosen) | {"results": results} | drop_empty({"more": more})))


@tool(touches="nothing", instead="grep_codebase", rare=("exclude_paths",))
def semantic_search(
    engine: "Engine",
    query: Annotated[str, TextArg("What to find, in words or code.", 1, QUESTION_CHARS_MAX)],
    top_k: Annotated[int, IntegerArg("Most places.", 1, 50)] = 10,
    mode: Annotated[str, ChoiceArg("fast: the relevant lines, deep: whole chunks.", ("fast", "deep"))] = "fast",
    include_paths: Includes = (),
    exclude_paths: Excludes = (),
) -> Reply:
    """Search code and docs with a question and read the answer as Markdown, grouped by file, best file first.

    The same search as codebase_retrieval, as text instead of JSON.
    """
    chosen = _filter(include_paths, exclude_paths)
    answer = engine.search.find(Query(query, top_k, chosen))
    files = [sorted(hits, key=lambda hit: hit.chunk.span) for hits in _group_by_file(answer.hits)]
    sections = [_section(hits, query, deep=mode == "deep") for hits in files]
    count = count_fitting(sections, chars_max=_chars_max(engine) - NOTE_CHARS, between=2)
    engine.search.note_shown(hits[0].chunk.path for hits in files[:count])
    silence = _silence(answer, chosen)
    lines = [
        _headline(answer.engine, answer.freshness, format_count(answer.total, "match", "matches")),
        *(
            f"{key.replace('_', ' ')}: {value if isinstance(value, str) else ', '.join(value)}"
            for key, value in silence.items()
        ),
        *sections[:count],
    ]
    if count < len(sections):
        lines.append(
            f"… {format_count(len(sections) - count, 'more file')} did not fit: lower top_k or set include_paths."
        )
    return Reply("\n\n".join(lines))


@tool(touches="nothing", instead="grep_codebase", rare=("min_score",))
def cortex_search(
    engine: "Engine",
    call: Call,
    query: Annotated[str, TextArg("Natural language query.", 1, QUESTION_CHARS_MAX, empty_is_malformed=True)],
    limit: Annotated[int, IntegerArg("Results, clamped to 1-100.", 1, 100, clamp=True)] = 15,
    tags: Tags = (),
    chunk_types: Kinds = (),
    min_score: Annotated[float, FractionArg("Minimum share of the best score.")] = 0,
) -> Reply:
    """Search for relevant context in the project codebase and documentation.

    Returns full chunks as JSON with type, tags and metadata; tags are combined with AND, filters apply before
    ranking.
    """
    chosen = _filter(kinds=chunk_types, tags=tags)
    if call.chunks:
        return format_chunk_answer(call.chunks().search(Query(query, limit, chosen, min_score)), _chars_max(engine))
    searched = replace(chosen, kinds=chosen.kinds or _kinds_under(chosen.tags))
    answer = engine.search.find(Query(query, limit, searched, min_score, chunks_per_file=limit))
    stamp = engine.index.indexed_at() if answer.hits else ""
    best = answer.hits[0].score if answer.hits else 1.0
    hits = [hit for hit in answer.hits if hit.score >= min_score * best]  # outlines have a scale of their own
    rows = [{"chunk": _chunk_row(hit, stamp), "combined_score": round(hit.score / best, 3)} for hit in hits]
    shown = take_fitting_rows(rows, chars_max=_chars_max(engine))
    engine.search.note_shown(hit.chunk.path for hit in hits[: len(shown)])
    reply: dict[str, Any] = {"results": shown, "total": len(rows), "engine": answer.engine}
    if len(shown) < len(rows):
        reply |= {
            "shown": len(shown),
            "next": f"{len(rows) - len(shown)} more did not fit: narrow with tags or chunk_types",
        }
    if answer.freshness != "fresh":
        reply["freshness"] = answer.freshness
    return Reply(compact_json(reply | _silence(answer, chosen)))


@tool(touches="nothing", always_load=True, instead="grep_codebase")
def find_symbol(
    engine: "Engine",
    name: Annotated[str, TextArg("Name, qualified name, or glob such as *Handler.")] = "",
    kind: Annotated[str, TextArg("function, class, method, ...")] = "",
    path: Annotated[str, TextArg("Only in this file or folder.")] = "",
    limit: Annotated[int, IntegerArg("Most definitions.", 1, 200)] = 20,
    outline: Annotated[str, TextArg("A file: list its symbols, instead of name.")] = "",
) -> Reply:
    """Find where a function, class, method, type or variable is defined, by name, qualified name or glob.

    Returns signature, lines and doc line; with outline, every symbol of one file.
    """
    if outline:
        return Reply(format_outline(engine.symbols.outline(outline), _chars_max(engine)))
    if not name.strip():
        raise InvalidArgument("name is missing", suggestion="Give name, or outline with the path of a file.")
    found = engine.symbols.find(name, kind=kind or None, path=path or None, limit=limit)
    blocks = [_definition_text(definition) for definition in found.definitions]
    count = count_fitting(blocks, chars_max=_chars_max(engine) - NOTE_CHARS)
    lines = [_headline(format_count(found.total, "definition"), found.freshness), *blocks[:count]]
    if count < found.total:
        lines.append(f"… {found.total - count:,} more: raise limit, or narrow with kind or path.")
    if not found.total:
        near = f"near: {', '.join(found.near)}" if found.near else "no name comes close: try codebase_retrieval"
        lines.append(f"nothing is defined under {name!r}; {near}")
    return Reply("\n".join(lines))


@tool(touches="nothing", instead="grep_codebase")
def trace(
    engine: "Engine",
    symbol: Annotated[str, TextArg("Function, class or method, best qualified.")] = "",
    path: Annotated[str, TextArg("A file, for its imports or importers.")] = "",
    direction: Annotated[
        str,
        ChoiceArg("What to follow.", ("callers", "callees", "imports", "importers", "impact")),
    ] = "callers",
    depth: Annotated[int, IntegerArg("Levels to follow.", 1, 4)] = 1,
) -> Reply:
    """Find references in the code graph: callers, callees, imports, importers, or all that a change affects (impact).

    Each step has path:line and its source line.
    """
    if bool(symbol.strip()) == bool(path.strip()):
        raise InvalidArgument("trace takes a symbol or a path", suggestion="Give exactly one of symbol and path.")
    traced = engine.symbols.trace(symbol or path, direction, depth=depth)  # ty: ignore[invalid-argument-type] - Choice checked it
    blocks = [_edge_text(edge) for edge in traced.edges]
    count = count_fitting(blocks, chars_max=_chars_max(engine) - NOTE_CHARS)
    head = f"{traced.direction} of {traced.target}"
    lines = [_headline(head, format_count(len(traced.edges), "step"), traced.freshness), *blocks[:count]]
    if count < len(blocks) or traced.truncated:
        lines.append("… there is more: lower depth, or trace one of the steps above.")
    lines += [f"note: {note}" for note in traced.notes]
    return Reply("\n".join(lines))


def parse_search_arguments(arguments: Any) -> Query:
    """Return the query that `codebase_retrieval` makes of its arguments. Raises: InvalidArgument."""
    values = bind(codebase_retrieval.parameters, arguments)
    chosen = _filter(
        values["include_paths"], values["exclude_paths"], values["chunk_types"], values["tags"], values["languages"]
    )
    return Query(values["query"], values["top_k"], chosen, values["min_score"])


def excerpt_hit(hit: Hit, query: str, place: int = 0) -> tuple[LineSpan, str]:
    """Return the lines and the text of a hit's excerpt; overlong lines are cut around the query.

    `place` is the row of the hit: the best hit gets a long excerpt, the others a short one.
    """
    lines_max, chars_max = (EXCERPT_LINES, EXCERPT_CHARS) if place == 0 else (NEXT_LINES, NEXT_CHARS)
    is_named = "symbol" in hit.why or "mention" in hit.why  # the query names the symbol of the chunk
    defines = hit.chunk.title.rpartition(".")[2] if is_named else ""
    before, text = cut_excerpt(hit.chunk.text, query, lines_max=lines_max, chars_max=chars_max, defines=defines)
    text = "\n".join(clip_line(line, chars_max, query) for line in text.split("\n"))
    first = hit.chunk.span.first + before
    return LineSpan(first, max(first, min(first + text.count("\n"), hit.chunk.span.last))), text


def format_outline(outline: "FileOutline", chars_max: int) -> str:
    """Format the outline of a file: one indented line for each symbol, with its line range."""
    head = _headline(
        outline.path,
        format_count(outline.lines, "line"),
        outline.language,
        format_count(len(outline.symbols), "symbol"),
    )
    rows = [f"{'  ' * depth}{_span(symbol.span)} {_signature(symbol)}" for depth, symbol in outline.symbols]
    count = count_fitting(rows, chars_max=chars_max - NOTE_CHARS)
    lines = [head, *rows[:count]]
    if count < len(rows):
        more = format_count(len(rows) - count, "more symbol")
        lines.append(f"… {more} from line {outline.symbols[count][1].span.first}")
    lines += [f"problem at line {line}: {message}" for line, message in outline.problems[:3]]
    return "\n".join(lines)


def _filter(
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    kinds: Sequence[Any] = (),
    tags: Sequence[str] = (),
    languages: Sequence[str] = (),
) -> Filter:
    lowered = tuple(sorted({tag.lstrip("#").lower() for tag in tags}))
    return Filter(
        tuple(kinds), tuple(language.lower() for language in languages), lowered, tuple(include), tuple(exclude)
    )


def _kinds_under(tags: Sequence[str]) -> tuple[ChunkKind, ...]:
    """Return all four kinds, so that outlines are found too, or none if a tag names another kind.

    >>> _kinds_under(["python", "symbols"]), _kinds_under(["python", "definitions"])
    (('documentation', 'symbols', 'definitions', 'data'), ())
    """
    return () if ({*CHUNK_KINDS} - {"symbols"}) & {*tags} else CHUNK_KINDS


def _query_by_file(query: str, files_max: int, chosen: Filter, min_score: float, places_max: int) -> Query:
    """Return the query for so many files with so many places each."""
    return Query(query, files_max * places_max, chosen, min_score, places_max, files_max)


def _arrange_rows(
    files: Sequence[Sequence[Hit]], query: str, profile: str, max_tokens: int
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Return a row for each file, and rows for further places of these files, the most likely first.

    Code is shown where it most likely pays for its tokens; a file without has one line. With a budget places are whole.
    """
    firsts = [hits[0] for hits in files]
    if profile != "balanced":
        return [_row(hit, query, profile) for hit in firsts], []
    detail = "rich" if max_tokens else "balanced"
    code = {id(hit): _row(hit, query, detail, place) for place, hit in enumerate(firsts)}
    with_code = files if max_tokens else files[:FILES_WITH_CODE]
    others = sorted((hit for hits in with_code for hit in hits[1:]), key=lambda hit: -hit.chance)
    code |= {id(hit): _without_scores(_row(hit, query, detail, 1)) for hit in others}
    candidates = [*firsts[: len(with_code)], *others]
    pays = _select_paying(candidates, code, max_tokens or CODE_TOKENS, len(files))
    lines: dict[int, Mapping[str, Any]] = {id(hit): _row(hit, query, "line") for hit in firsts if id(hit) not in pays}
    if max_tokens:
        fitting = take_fitting_rows([*lines.values()], chars_max=ENDLESS, tokens_max=int(max_tokens * LINES_SHARE))
        lines = dict(zip(lines, fitting, strict=False))
    shown = {**lines, **{id(hit): code[id(hit)] for hit in firsts if id(hit) in pays}}
    results = [shown[id(hit)] for hit in firsts if id(hit) in shown]
    return results, [code[id(hit)] for hit in others if id(hit) in pays]


def _without_scores(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in ("score", "why")}


def _select_paying(hits: Sequence[Hit], rows: Mapping[int, dict[str, Any]], tokens: int, files: int) -> set[int]:
    """Return which hits have code: the first, then those with the most chance for their price, while there is room."""
    prices = {id(hit): estimate_tokens(compact_json(rows[id(hit)])) + 1 for hit in hits}
    room = tokens - min(files * ROW_TOKENS, int(tokens * LINES_SHARE))
    chosen: set[int] = set()
    for hit in [*hits[:1], *sorted(hits[1:], key=lambda hit: -hit.chance / prices[id(hit)] ** PRICE_POWER)]:
        if not chosen or prices[id(hit)] <= room:
            chosen.add(id(hit))
            room -= prices[id(hit)]
    return chosen


def _row(hit: Hit, query: str, profile: str, place: int = 0) -> dict[str, Any]:
    """Return one row of `codebase_retrieval`. If only a part is shown, `chunk` has the lines of the whole chunk.

    Profile `line` is `fast` for a file that is only named.
    """
    chunk = hit.chunk
    span, text = chunk.span, chunk.text
    if profile in ("fast", "line"):
        text = clip_line(first_line(text), LINE_CHARS_MAX, query)
    elif profile == "balanced":
        span, text = excerpt_hit(hit, query, place)
    return drop_empty(
        {
            "project": hit.project,
            "path": chunk.path.removeprefix(f"{hit.project}:") if hit.project else chunk.path,
            "lines": _span(span),
            "chunk": _span(chunk.span) if span != chunk.span else "",
            "symbol": chunk.title if chunk.title != chunk.path else "",
            "content": text,
            "score": round(hit.score, 3),
            "why": hit.main_parts() if profile in ("balanced", "rich") else {},
            "stale": hit.stale or None,
        }
    )


def _chunk_row(hit: Hit, stamp: str) -> dict[str, Any]:
    """Return a chunk in the fields of upstream spec 004, without its vector."""
    chunk = hit.chunk
    return {
        "id": chunk.id,
        "chunk_type": chunk.kind,
        "title": chunk.title,
        "text": chunk.text,
        "tags": list(chunk.tags),
        "metadata": {
            "source": "markdown" if chunk.kind == "documentation" else "code",
            "file_path": chunk.path,
            "language": chunk.language,
            "line_start": chunk.span.first,
            "line_end": chunk.span.last,
            **(count_listed_symbols(chunk.text) if chunk.kind == "symbols" else {}),
        },
        "created_at": stamp,
        "updated_at": stamp,
    }


def _silence(answer: "Answer", chosen: Filter) -> dict[str, Any]:
    """Return why an answer is empty or weak, and what to do next; nothing if it has good hits."""
    if answer.hits:
        return drop_empty({"weak": answer.weakness})
    return drop_empty({"reason": answer.reason, "near_tags": list(answer.near_tags), "next": _next(answer, chosen)})


def _next(answer: "Answer", chosen: Filter) -> str:
    if "building" in answer.freshness:
        return "Ask again in a moment; index_status shows the progress."
    if answer.near_tags:
        return "Use one of near_tags, or leave tags out."
    if not chosen.is_empty:
        return "Loosen the filters: paths, tags, languages or chunk_types."
    return "Use other words, or a symbol with find_symbol; index_status shows what is skipped."


def _group_by_file(hits: Sequence[Hit]) -> list[list[Hit]]:
    """Group hits by file: files in the order of their best hit, the hits of a file best first."""
    groups: dict[str, list[Hit]] = {}
    for hit in hits:
        groups.setdefault(hit.chunk.path, []).append(hit)
    return list(groups.values())


def _section(hits: Sequence[Hit], query: str, *, deep: bool) -> str:
    """Format one file of the Markdown answer."""
    parts = [f"## {escape_line(hits[0].chunk.path)}" + (" (edited since indexed)" if hits[0].stale else "")]
    for hit in hits:
        row = _row(hit, query, "rich" if deep else "balanced")
        fence = fence_for(row["content"])
        parts.append(f"### {row['lines']} {row.get('symbol', '')} (score {row['score']})".replace("  ", " "))
        parts.append(f"{fence}{hit.chunk.language}\n{row['content']}\n{fence}")
    return "\n".join(parts)


def _definition_text(definition: "Definition") -> str:
    head = f"{escape_line(definition.path)}:{_span(definition.span)} {definition.kind} {definition.qualified}"
    rest = [clip_line(line, LINE_CHARS_MAX) for line in (definition.signature, definition.doc) if line]
    return "\n    ".join([head, *rest])


def _edge_text(edge: "Edge") -> str:
    indent = "  " * (edge.depth - 1)
    evidence = clip_line(edge.evidence.strip(), LINE_CHARS_MAX)
    return f"{indent}{escape_line(edge.path)}:{edge.line} {edge.source} -> {edge.target} | {evidence}"


def _signature(symbol: "Definition") -> str:
    return clip_line(symbol.signature or f"{symbol.kind} {symbol.name}", LINE_CHARS_MAX)


def _headline(*parts: str) -> str:
    return " · ".join(escape_line(part) for part in parts if part)


def _span(span: tuple[int, int]) -> str:
    return _lines(*span)


def _lines(first: int, last: int) -> str:
    return f"{first}-{last}" if last > first else str(first)


def _chars_max(engine: "Engine") -> int:
    return engine.settings.result_chars_max


def format_chunk_answer(answer: "ChunkAnswer", chars_max: int) -> Reply:
    """Return the reply of `cortex_search` about served chunk files, as their indexer wrote them; never a vector."""
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
    notes = {
        "missing": answer.missing,
        "freshness": answer.freshness if answer.freshness != "fresh" else "",
        "reason": answer.reason,
        "near_tags": list(answer.near_tags),
    }
    return Reply(compact_json(reply | drop_empty(notes) | _next_chunk_step(answer)))


def _next_chunk_step(answer: "ChunkAnswer") -> dict[str, str]:
    """Return what to do about an answer without hits."""
    if answer.hits:
        return {}
    if answer.near_tags:
        return {"next": "Use one of near_tags, or leave tags out."}
    return {
        "next": "Use other words, or loosen tags and chunk_types; codebase_retrieval searches the workspace itself."
    }


TYPES = ("class", "interface", "struct", "enum", "trait", "type")
FUNCTIONS = ("function", "method", "constructor", "macro")

_SYMBOL = re.compile(r"^ *(\w+) .*\(lines \d+-\d+\)$", re.MULTILINE)
_IMPORTS = re.compile(r"\Aimports: (\d+)$", re.MULTILINE)
_MORE = re.compile(r"^\.\.\. (\d+) more\Z", re.MULTILINE)


def count_listed_symbols(text: str) -> dict[str, int]:
    r"""Count imports and symbols; types and functions too, unless the list was cut.

    >>> count_listed_symbols("function drain (lines 1-2)\n... 7 more")
    {'imports_count': 0, 'symbols_count': 8}
    """
    kinds = Counter(_SYMBOL.findall(text))
    imports, more = _IMPORTS.search(text), _MORE.search(text)
    counts = {
        "imports_count": int(imports[1]) if imports else 0,
        "symbols_count": kinds.total() + (int(more[1]) if more else 0),
    }
    if more:
        return counts
    return counts | {
        "types_count": sum(kinds[kind] for kind in TYPES),
        "functions_count": sum(kinds[kind] for kind in FUNCTIONS),
    }
