"""Tools that find code by a question: one search in several formats."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.context import (
    PART_WORTH,
    PLACE_TOKENS_MIN,
    FilePrice,
    ShownLines,
    SnippetOption,
    SnippetPacker,
    fit_budget,
    order_by_value,
)
from context_engine.model import CHUNK_KINDS, QUESTION_CHARS_MAX, ChunkKind, Filter, Hit, Query, group_by_file
from context_engine.text import (
    LineSpan,
    compact_json,
    drop_empty,
    escape_line,
    estimate_tokens,
    fence_for,
    format_cursor,
    hash_page,
    merge_spans,
    parse_cursor,
)
from context_engine.tools.arguments import ENDLESS, ChoiceArg, FractionArg, IntegerArg, TextArg, TextListArg
from context_engine.tools.reply import (
    NOTE_CHARS,
    Excludes,
    Includes,
    clip_line,
    cut_excerpt,
    find_shown,
    first_line,
    join_headline,
    keep_fitting,
    list_shown,
    note_lines,
    pick_fields,
    take_fitting_rows,
)
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.model import Answer

EXCERPT_LINES, EXCERPT_CHARS = 24, 900
"""The best row: about 220 tokens."""
NEXT_LINES, NEXT_CHARS = 12, 480
"""The next rows: the expected code is in the first 500 tokens for 92 % of the questions (87 % with full rows)."""
NAMED_CHARS = 2_600
"""A definition that the query names is whole up to half of a default reply."""
LINE_CHARS_MAX = 160
PLACES_PER_FILE = 10
"""Places of a file that can be shown, if they pay more than the best ones of other files (evals/places)."""
REPLY_TOKENS = 1_300
"""Budget of a reply whose caller names none (decision record ranking)."""
WHOLE_SHARE = 0.4
"""Largest share of a budget for a whole place: others would have no room."""
LINES_SHARE = 0.08
"""Largest share of a stated budget for files that are one line."""
ROW_TOKENS = 30
"""Price of a row without its code."""
WEAK_ROWS = 3
"""Of an answer that is probably about something else, unless the caller gives a budget. Of 19 such answers among 694
questions and commits of the tuning half, 14 have what was asked for there and 3 further down."""
WEAK_NEXT = "Use other words. `token_budget: 2000` shows the code of these places."
USE_NEAR_TAGS = "Use one of these tags, or leave `tags` out."

_Row = Mapping[str, Any]
"""A place or a file, with the fields of the reply."""

Kinds = Annotated[tuple[str, ...], TextListArg("Only these kinds.", CHUNK_KINDS)]
Tags = Annotated[tuple[str, ...], TextListArg("Must have all: language, path part, #tag.")]


@tool(
    touches="nothing",
    always_load=True,
    instead="grep_codebase",
    aliases={"codebase_retrieval": {"detail": "balanced", "format": "json"}},
)
def search_code(
    engine: "Engine",
    call: Call,
    query: Annotated[str, TextArg("Question, issue, trace, words or symbol.", 1, QUESTION_CHARS_MAX)],
    limit: Annotated[int, IntegerArg("Maximum files.", 1, 50), "top_k"] = 10,
    include: Annotated[tuple[str, ...], TextListArg("Only files like src/**, *.py."), "include_paths"] = (),
    exclude: Annotated[tuple[str, ...], TextListArg("Not these files."), "exclude_paths"] = (),
    token_budget: Annotated[
        int, IntegerArg("Reply size in tokens; default 1300.", 0, ENDLESS, clamp=True), "max_tokens"
    ] = 0,
    *,
    detail: Annotated[
        str, ChoiceArg("fast: one line, rich: whole chunks.", ("fast", "balanced", "rich")), "profile"
    ] = "balanced",
    chunk_types: Kinds = (),
    tags: Tags = (),
    languages: Annotated[tuple[str, ...], TextListArg("Only these, such as python or go.")] = (),
    min_score: Annotated[float, FractionArg("Minimum share of the best score.")] = 0,
    format: Annotated[str, ChoiceArg("Of the reply.", ("text", "json"))] = "text",  # noqa: A002 - as in other tools
) -> Reply:
    """Find the code that answers a question, before grep: the best places with their lines.

    Example: {"query": "where are expired sessions removed"}
    """
    chosen = _filter(include, exclude, chunk_types, tags, languages)
    answer = engine.search.find(
        Query(query, limit * PLACES_PER_FILE, chosen, min_score, chunks_per_file=PLACES_PER_FILE, files_max=limit)
    )
    is_brief = bool(answer.weakness) and not token_budget and detail == "balanced"
    detail = "fast" if is_brief else detail
    files = list(group_by_file(answer.hits if token_budget else _shorten_weak(answer)).values())
    write = _format_row if format == "text" else compact_json
    if detail == "balanced":
        rows, more = _RowArranger(files, query, token_budget, write).arrange()
    else:
        rows, more = [_row(hits[0], query, detail) for hits in files], []
    chars_max = engine.settings.result_chars_max
    shown = take_fitting_rows([*rows, *more], chars_max=chars_max, tokens_max=token_budget, least=1, write=write)
    known = find_shown(call, query, limit, detail, chosen, token_budget)
    shown, places = _leave_out_shown(shown, known, call)
    rows, more = shown[: len(rows)], shown[len(rows) :]
    notes = _explain_silence(answer, chosen) | ({"next": WEAK_NEXT} if is_brief else {})
    missing = len(files) - len(rows)
    if missing:
        notes["next"] = f"{missing} more rows did not fit: ask for more tokens"
    notes |= drop_empty({"shown_before": list_shown(places)})
    if format == "text":
        return Reply(_format_places(answer, rows, more, notes))
    head = {"engine": answer.engine, "freshness": answer.freshness, "total": answer.total}
    head |= {"shown": len(rows)} if missing else {}
    nested = [
        {**row} | drop_empty({"more": [_drop_fields(place, "project", "path") for place in below]})
        for row, below in _join_files(rows, more)
    ]
    return Reply(compact_json(head | notes | {"results": nested}))


def _format_places(answer: "Answer", rows: Sequence[_Row], more: Sequence[_Row], notes: Mapping[str, Any]) -> str:
    """Format how weak the answer is, the places with their code by file, a line for each other file, and the notes."""
    places = [place for row, below in _join_files(rows, more) for place in (row, *below) if not _is_named(place)]
    weak = f"weak: {answer.weakness}" if answer.weakness else ""
    head = join_headline("" if rows else "0 places", weak, answer.engine, answer.freshness)
    below = note_lines(_drop_fields(notes, "weak"))
    return "\n".join([*filter(None, [head]), *map(_format_row, (*places, *filter(_is_named, rows))), *below])


def _join_files(rows: Sequence[_Row], more: Sequence[_Row]) -> list[tuple[_Row, list[_Row]]]:
    """Return the row of each file with the rows of its further places; a file without a row has the first of these.

    >>> _join_files([{"path": "a"}], [{"path": "b", "lines": "1"}, {"path": "a", "lines": "9"}])
    [({'path': 'a'}, [{'path': 'a', 'lines': '9'}]), ({'path': 'b', 'lines': '1'}, [])]
    """
    files: dict[tuple[str, str], tuple[_Row, list[_Row]]] = {}
    for row in (*rows, *more):
        file = row.get("project", ""), row["path"]
        if file in files:
            files[file][1].append(row)
        else:
            files[file] = (row, [])
    return list(files.values())


def _drop_fields(row: _Row, *names: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in names}


def _is_named(row: _Row) -> bool:
    """Return whether a row only names a file, by one line; other rows show a place."""
    return "score" in row and "why" not in row


def _format_row(row: _Row) -> str:
    """Format a row as `@@ path:lines of LINES OF ITS CHUNK symbol` and its code; a named file by its place alone."""
    project = f"{row['project']}:" if "project" in row else ""
    of_all = f" of {row['chunk']}" if "chunk" in row else ""
    symbol = f" {row['symbol']}" if "symbol" in row else ""
    edited = " (edited since indexed)" if "stale" in row else ""
    place = f"{project}{escape_line(row['path'])}:{row['lines']}{of_all}{escape_line(symbol)}{edited}"
    if not _is_named(row):
        return f"@@ {place}\n{row['content']}"
    return place if "symbol" in row else f"{place} | {row['content']}"


@tool(touches="nothing", instead="grep_codebase")
def semantic_search(
    engine: "Engine",
    query: Annotated[str, TextArg("What to find, in words or code.", 1, QUESTION_CHARS_MAX)],
    top_k: Annotated[int, IntegerArg("Maximum places.", 1, 50)] = 10,
    mode: Annotated[str, ChoiceArg("fast: relevant lines, deep: whole chunks.", ("fast", "deep"))] = "fast",
    include_paths: Includes = (),
    *,
    exclude_paths: Excludes = (),
) -> Reply:
    """Search code and docs with a question and read the answer as Markdown, grouped by file, best file first.

    The same search as search_code, with scores.
    """
    chosen = _filter(include_paths, exclude_paths)
    answer = engine.search.find(Query(query, top_k, chosen))
    sections = []
    for hits in group_by_file(_shorten_weak(answer)).values():
        parts = [f"## {escape_line(hits[0].chunk.path)}" + (" (edited since indexed)" if hits[0].stale else "")]
        for hit in sorted(hits, key=lambda hit: hit.chunk.span):
            row = _row(hit, query, "rich" if mode == "deep" else "balanced")
            fence = fence_for(row["content"])
            parts.append(f"### {row['lines']} {row.get('symbol', '')} (score {row['score']})".replace("  ", " "))
            parts.append(f"{fence}{hit.chunk.language}\n{row['content']}\n{fence}")
        sections.append("\n".join(parts))
    chars_max = engine.settings.result_chars_max - NOTE_CHARS
    shown = keep_fitting(sections, chars_max, ": lower `top_k` or set `include_paths`", noun="file")
    head = join_headline(answer.engine, answer.freshness)
    return Reply("\n\n".join([*filter(None, [head]), *note_lines(_explain_silence(answer, chosen)), *shown]))


@tool(touches="nothing", instead="grep_codebase")
def cortex_search(
    engine: "Engine",
    call: Call,
    query: Annotated[str, TextArg("Natural language query.", 1, QUESTION_CHARS_MAX, empty_is_malformed=True)],
    limit: Annotated[int, IntegerArg("Results, clamped to 1-100.", 1, 100, clamp=True)] = 15,
    tags: Tags = (),
    chunk_types: Kinds = (),
    *,
    min_score: Annotated[float, FractionArg("Minimum share of the best score.")] = 0,
    cursor: Annotated[str, TextArg("From the last reply.")] = "",
) -> Reply:
    """Search for relevant context in the project codebase and documentation.

    Returns full chunks as JSON with type, tags and metadata; tags are combined with AND, filters apply before
    ranking.
    """
    chosen = _filter(kinds=chunk_types, tags=tags)
    if call.chunks:  # served chunk files, as their indexer wrote them; never a vector
        served = call.chunks().search(Query(query, limit, chosen, min_score))
        found = [(hit.row.to_dict(), hit.score) for hit in served.hits]
        engine_name, freshness = served.engine, served.freshness
        other = "Use other words, or leave `tags` and `chunk_types` out; search_code searches the workspace itself."
        step = USE_NEAR_TAGS if served.near_tags else other
        notes = pick_fields(served, "missing reason") | {"near_tags": list(served.near_tags)}
        notes = drop_empty(notes | {"next": "" if served.hits else step})
    else:
        searched = replace(chosen, kinds=chosen.kinds or _kinds_under(chosen.tags))
        answer = engine.search.find(Query(query, limit, searched, min_score, chunks_per_file=limit))
        stamp = engine.index.indexed_at() if answer.hits else ""
        least = min_score * answer.hits[0].score if answer.hits else 0.0
        hits = [hit for hit in _shorten_weak(answer) if hit.score >= least]  # outlines have a scale of their own
        found = [(_chunk_row(hit, stamp), hit.score) for hit in hits]
        engine_name, freshness, notes = answer.engine, answer.freshness, _explain_silence(answer, chosen)
    best = found[0][1] if found else 0.0
    rows = [{"chunk": chunk, "combined_score": round(score / best, 3) if best else 0.0} for chunk, score in found]
    stamped = hash_page(query, [chunk["id"] for chunk, _ in found])
    start = parse_cursor(cursor, stamped)
    shown = take_fitting_rows(rows[start:], chars_max=engine.settings.result_chars_max, least=1)
    reply: dict[str, Any] = {"results": shown, "total": len(rows), "engine": engine_name}
    stop = start + len(shown)
    if following := format_cursor(stop, stamped, len(rows)):
        reply |= {"cursor": following, "next": f"{len(rows) - stop} more did not fit: cursor goes on there"}
    if freshness != "fresh":
        reply["freshness"] = freshness
    return Reply(compact_json(notes | reply))


def excerpt_hit(hit: Hit, query: str, rank: int = 0) -> tuple[LineSpan, str]:
    """Return the lines and the text of a hit's excerpt; overlong lines are cut around the query.

    The best hit, of rank 0, gets a long excerpt, the others a short one.
    """
    lines_max, chars_max = (NEXT_LINES, NEXT_CHARS) if rank else (EXCERPT_LINES, EXCERPT_CHARS)
    first, lines = hit.chunk.span.first, hit.chunk.text.split("\n")
    defines = [
        (name, range(span.first - first, span.last - first + 1)) for name, span in _find_named(hit, query).items()
    ]
    for _, own in defines:
        chars = len("\n".join(lines[own[0] : own[-1] + 1]))
        if chars <= NAMED_CHARS:
            lines_max, chars_max = max(lines_max, len(own)), max(chars_max, chars)
    heads = sorted({span.first - first for span, _ in hit.chunk.definitions})
    before, text = cut_excerpt(
        hit.chunk.text, query, lines_max=lines_max, chars_max=chars_max, defines=defines, heads=heads
    )
    text = "\n".join(clip_line(line, chars_max, query) for line in text.split("\n"))
    first += before
    return LineSpan(first, max(first, min(first + text.count("\n"), hit.chunk.span.last))), text


def find_best_line(row: Mapping[str, Any], query: str) -> tuple[int, str]:
    """Return the number and the text of the line of a reply's row that an editor should jump to."""
    symbol = str(row.get("symbol", "")).rpartition(".")[2]
    lines = range(row["content"].count("\n") + 1)
    defines = [(symbol, lines)] if symbol and symbol in query else []
    before, best = cut_excerpt(row["content"], query, lines_max=1, chars_max=LINE_CHARS_MAX, defines=defines)
    return int(row["lines"].partition("-")[0]) + before, clip_line(best.split("\n")[0], LINE_CHARS_MAX, query)


def _find_named(hit: Hit, query: str) -> dict[str, LineSpan]:
    """Return the names whose definition starts in the chunk of a hit and the query asks for, with their lines in it."""
    from context_engine.search import Question

    asked, chunk = Question.of(query), hit.chunk.span
    named = {name.rpartition(".")[2]: lines for lines, name in reversed(hit.chunk.definitions)}
    return {
        name: LineSpan(lines.first, min(lines.last, chunk.last))
        for name, lines in named.items()
        if lines.first >= chunk.first and asked.is_naming(name)
    }


def _filter(
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    kinds: Sequence[Any] = (),
    tags: Sequence[str] = (),
    languages: Sequence[str] = (),
) -> Filter:
    lowered = tuple(sorted({tag.lstrip("#").lower() for tag in tags}))
    return Filter(tuple(kinds), tuple(map(str.lower, languages)), lowered, tuple(include), tuple(exclude))


def _kinds_under(tags: Sequence[str]) -> tuple[ChunkKind, ...]:
    """Return all four kinds, so that outlines are found too, or none if a tag names another kind.

    >>> _kinds_under(["python", "symbols"]), _kinds_under(["python", "definitions"])
    (('documentation', 'symbols', 'definitions', 'data'), ())
    """
    return () if ({*CHUNK_KINDS} - {"symbols"}) & {*tags} else CHUNK_KINDS


# -- what is shown ----------------------------------------------------------------------------------------------------


class _RowArranger:
    """Spends a budget on the places of an answer, as they are written; a file that shows no code has one line.

    Without a stated budget each file has at least its line.
    """

    def __init__(
        self, files: Sequence[Sequence[Hit]], query: str, token_budget: int, write: Callable[[_Row], str]
    ) -> None:
        """Read the lines of the files' most likely places."""
        self._files, self._query, self._write = files, query, write
        self._budget, self._is_stated = token_budget or REPLY_TOKENS, token_budget > 0
        self._numbers = {str(hits[0].chunk.path): number for number, hits in enumerate(files)}
        others = sorted((hit for hits in files for hit in hits[1:]), key=lambda hit: -hit.chance)
        places = [*(hits[0] for hits in files), *others[: self._budget // PLACE_TOKENS_MIN]]
        self._lines: list[dict[int, str]] = [{} for _ in files]
        for hit in places:
            shown = (clip_line(line, EXCERPT_CHARS, query) for line in hit.chunk.text.split("\n"))
            self._lines[self._numbers[hit.chunk.path]] |= enumerate(shown, hit.chunk.span.first)
        tokens = [{number: estimate_tokens(f"{line}\n") for number, line in own.items()} for own in self._lines]
        self._prices = [FilePrice(0, lambda number, own=own: own.get(number, 0)) for own in tokens]
        self._options = order_by_value(self._list_options(places), self._prices)

    def arrange(self) -> tuple[list[_Row], list[_Row]]:
        """Return a row for each file, the best first, and rows for further places of these files."""
        return fit_budget(self._build, self._excess, self._budget) or self._build(self._budget)

    def _list_options(self, places: Sequence[Hit]) -> Iterator[SnippetOption]:
        """Yield the excerpt of each place, and the whole place if the budget has room for it."""
        named = sum(hit.is_named for hit in places)
        for rank, hit in enumerate(places):
            file, whole = self._numbers[hit.chunk.path], _written_lines(hit)
            part, text = excerpt_hit(hit, self._query, rank)
            if not text:
                continue
            worth = max(hit.chance, 1 / named) if hit.is_named else hit.chance
            yield SnippetOption(file, part, worth * PART_WORTH, is_first=rank == file)
            if self._prices[file].price_span(whole) <= WHOLE_SHARE * self._budget:
                yield SnippetOption(file, whole, worth, best_line=part.first)

    def _build(self, room: float) -> tuple[list[_Row], list[_Row]]:
        """Return the rows that a room is enough for."""
        reserved = len(self._files) * ROW_TOKENS
        if self._is_stated:
            reserved = min(reserved, int(room * LINES_SHARE))
        packer = SnippetPacker(self._prices, room - reserved, ROW_TOKENS)
        packer.select_first(self._options)
        packer.select_best(self._options)
        packer.fill(self._options)
        shown: dict[int, _Row] = {}
        more: list[_Row] = []
        for number, hits in enumerate(self._files):
            own = [chosen.span for chosen in packer.selected if chosen.file == number]
            found = [
                self._show(number, hit, span)
                for hit in hits
                for span in merge_spans(span for span in own if hit.chunk.span.contains(span))
            ]
            more += [_drop_fields(row, "score", "why") for row in found[1:]]
            if found:
                shown[number] = found[0]
        named = [number for number in range(len(self._files)) if number not in shown]
        rows = [_row(self._files[number][0], self._query, "line") for number in named]
        if self._is_stated:
            most, least = int(self._budget * LINES_SHARE), int(not shown)
            rows = take_fitting_rows(rows, chars_max=ENDLESS, tokens_max=most, least=least, write=self._write)
        shown |= dict(zip(named, rows, strict=False))
        return [shown[number] for number in sorted(shown)], more

    def _show(self, file: int, hit: Hit, span: LineSpan) -> _Row:
        lines = self._lines[file]
        return _place_row(
            hit, span, "\n".join(lines.get(line, "") for line in range(span.first, span.last + 1)).rstrip("\n")
        )

    def _excess(self, made: tuple[list[_Row], list[_Row]]) -> int:
        rows, more = made
        return sum(estimate_tokens(self._write(row)) for row in (*rows, *more)) - self._budget


def _leave_out_shown(rows: Sequence[_Row], known: ShownLines, call: Call) -> tuple[list[_Row], list[str]]:
    """Return the rows with one line instead of code that the client was shown, and the places of this code."""
    kept: list[_Row] = []
    places: list[str] = []
    for row in rows:
        path, first = ":".join(filter(None, (row.get("project"), row["path"]))), int(row["lines"].partition("-")[0])
        if "\n" in row["content"] and known.includes(path, first, row["content"]):
            places.append(f"{escape_line(path)}:{row['lines']}")
            kept.append({**row, "content": clip_line(first_line(row["content"]), LINE_CHARS_MAX)})
        else:
            call.shown.add(path, first, row["content"])
            kept.append(row)
    return kept, places


def _row(hit: Hit, query: str, profile: str, rank: int = 0) -> dict[str, Any]:
    """Return one row of `search_code`. If only a part is shown, `chunk` has the lines of the whole chunk.

    Profile `line` is `fast` for a file that is only named.
    """
    chunk = hit.chunk
    span, text = _written_lines(hit), chunk.text
    if profile in ("fast", "line"):
        span = next(iter(_find_named(hit, query).values()), span)
        lines = text.split("\n")[span.first - chunk.span.first :]
        text = clip_line(first_line("\n".join(lines)), LINE_CHARS_MAX, query)
    elif profile == "balanced":
        span, text = excerpt_hit(hit, query, rank)
    row = _place_row(hit, span, text)
    return row if profile in ("balanced", "rich") else _drop_fields(row, "why")


def _place_row(hit: Hit, span: LineSpan, text: str) -> dict[str, Any]:
    """Return a row with these lines of a hit."""
    chunk = hit.chunk
    head = {
        "project": hit.project,
        "path": chunk.path.removeprefix(f"{hit.project}:") if hit.project else chunk.path,
        "lines": str(span),
        "chunk": str(whole) if span != (whole := _written_lines(hit)) else "",
        "symbol": name if (name := chunk.name_at(span)) != chunk.path else "",
    }
    shown = {"content": text, "score": round(hit.score, 3)}  # no content: the file is shorter than when it was indexed
    return drop_empty(head) | shown | drop_empty({"why": hit.main_parts(), "stale": hit.stale or None})


def _written_lines(hit: Hit) -> LineSpan:
    """Return the lines of a hit's chunk without the blank ones at its end."""
    first = hit.chunk.span.first
    return LineSpan(first, first + hit.chunk.text.rstrip().count("\n"))


def _explain_silence(answer: "Answer", chosen: Filter) -> dict[str, Any]:
    """Return why an answer is empty or weak, and what to do next; nothing if it has good hits."""
    if answer.hits:
        return drop_empty({"weak": answer.weakness, "vectors": answer.missing})
    step = "Use other words, or the name of a symbol; index_status shows what is skipped."
    if "building" in answer.freshness:
        step = "Ask again in a moment; index_status shows the progress."
    elif answer.near_tags:
        step = USE_NEAR_TAGS
    elif not chosen.is_empty:
        step = "Leave the filter out, or loosen it."
    near = list(answer.near_tags)
    return drop_empty({"reason": answer.reason, "near_tags": near, "vectors": answer.missing, "next": step})


def _shorten_weak(answer: "Answer") -> Sequence[Hit]:
    """Return the hits of an answer: of one that is probably about something else, the best ones of three files."""
    if not answer.weakness:
        return answer.hits
    return [hits[0] for hits in group_by_file(answer.hits).values()][:WEAK_ROWS]


# -- chunks in the fields of upstream spec 004 ------------------------------------------------------------------------

TYPES = ("class", "interface", "struct", "enum", "trait", "type")
FUNCTIONS = ("function", "method", "constructor", "macro")


def _chunk_row(hit: Hit, stamp: str) -> dict[str, Any]:
    """Return a chunk, without its vector."""
    chunk = hit.chunk
    return {
        "id": chunk.id,
        "chunk_type": chunk.kind,
        **pick_fields(chunk, "title text"),
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


def count_listed_symbols(text: str) -> dict[str, Any]:
    r"""Return the package, and count imports and symbols; types and functions too, unless the list was cut.

    >>> count_listed_symbols("function drain (lines 1-2)\n... 7 more")
    {'imports_count': 0, 'symbols_count': 8}
    """
    lines = text.split("\n")
    head = dict(line.split(": ") for line in lines[:2] if line.startswith(("package: ", "imports: ")))
    kinds = Counter(line.split(maxsplit=1)[0] for line in lines if line.endswith(")") and " (lines " in line)
    more = int(lines[-1].split()[1]) if lines[-1].startswith("... ") else 0
    counts = {"package": head.get("package", ""), "imports_count": int(head.get("imports", 0))}
    counts = drop_empty(counts) | {"symbols_count": kinds.total() + more}
    if more:
        return counts
    types, functions = (sum(kinds[kind] for kind in group) for group in (TYPES, FUNCTIONS))
    return counts | {"types_count": types, "functions_count": functions}
