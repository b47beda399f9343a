"""Tools that read files: `read` takes any items within one budget; the older ones ask the same reader."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.errors import ContextEngineError, FileNotFound, InvalidArgument, InvalidLineRange, TooLarge
from context_engine.model import Query
from context_engine.text import LineSpan, SpanGroup, compact_json, escape_line, format_count, group_spans, split_lines
from context_engine.tools.arguments import BooleanArg, ChoiceArg, IntegerArg, LineRangesArg, TextArg, TextListArg
from context_engine.tools.file_tools import AROUND, fit_dependencies, format_file_json, list_problems, note_unlisted
from context_engine.tools.fragment_reader import FragmentReader
from context_engine.tools.fragment_selection import FragmentKind, fit_regions
from context_engine.tools.reply import NOTE_CHARS, reply_size
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from context_engine.engine import Engine

FILES_MAX = 20
"""Most items or files of one call."""
FOUND_MAX = 5
"""Places that a question in the items is answered with, as far as they fit."""
_LINES = re.compile(r"(.+?)(?::|#L)(\d{1,9}(?:-(?:L?\d{1,9})?)?)(?::\d{1,9})?")
"""`src/app.py:10-40`, `src/app.py:10:5` as search tools write it, `src/app.py#L10-L40` as web pages do."""
_SYMBOL = re.compile(r"([^#]*?)(?:#|::)(#?[^#\s]+(?:\.#[^#\s]+)?)")
"""`src/app.py#Class.method`, `src/app.js#Class.#private`, or `#Class.method` in any file."""


@tool(touches="nothing", always_load=True, rare=("context",))
def read(
    engine: "Engine",
    call: Call,
    items: Annotated[
        tuple[str, ...],
        TextListArg("path, path:10-40, path#Symbol, folder or question.", most=FILES_MAX),
        *("paths", "path", "file_path"),
    ],
    token_budget: Annotated[int, IntegerArg("Most tokens.", 1, 100_000, clamp=True), "max_tokens"] = 8_000,
    context: Annotated[int, IntegerArg("Lines around each.", 0, 100, clamp=True)] = 0,
) -> Reply:
    """Read files, lines, definitions and folders, several at once.

    Example: {"items": ["src/app.py:10-40", "src/db.py#Pool.close"]}
    """
    if not items:
        raise InvalidArgument("items is empty", suggestion='Write items: ["src/app.py:10-40"].')
    reader = FragmentReader(engine, call, tokens_max=token_budget)
    for item in items:
        try:
            _add_item(engine, reader, item)
        except ContextEngineError as error:  # one unreadable item must not hide the others
            reader.refuse(error)
    return Reply(reader.render_json(context=context) if call.structured else reader.render(context=context))


@tool(touches="nothing", aliases={"get_file": {}}, rare=("max_depth", "format"))
def read_file(
    engine: "Engine",
    call: Call,
    path: Annotated[str, TextArg("File to read.", 1)],
    start_line: Annotated[int | None, IntegerArg("First line.", 1, 10**9)] = None,
    end_line: Annotated[int | None, IntegerArg("Last line, included.", 1, 10**9)] = None,
    include_deps: Annotated[bool, BooleanArg("Add what it imports; JSON.")] = False,
    max_depth: Annotated[int, IntegerArg("Import levels.", 0, 1)] = 1,
    format: Annotated[str | None, ChoiceArg("Empty: text, json with deps.", ("text", "json"))] = None,  # noqa: A002 - the name in the contract
) -> Reply:
    """Read a file, or a range of its lines, under one header line with path, lines and hash.

    Over 1 MB: its outline. include_deps adds the project files it imports, whole or as signatures.
    """
    reader = FragmentReader(engine, call)
    try:
        file = engine.files.read(path, first=start_line, last=end_line)
    except TooLarge:
        reader.add_whole(path)
        return Reply(reader.render())
    imported: Sequence[str] = ()
    notes: Sequence[str] = ()
    if include_deps and max_depth:
        imported = engine.symbols.dependencies(path)
        notes = list_problems(engine.symbols.outline(path))
    number = reader.add_file(path)
    if (format or ("json" if include_deps else "text")) == "json":
        text = format_file_json(engine, file, imported, notes)
        if compact_json(file.text)[1:-1] in text:  # whole
            call.shown.add(file.path, file.span.first, file.text)
        return Reply(text)
    if file.lines:
        reader.add_span("whole" if file.span.lines == file.lines else "lines", "", number, file.span)
    return Reply(_with_imports(engine, reader.render(), imported, notes))


@tool(touches="nothing")
def read_fragment(
    engine: "Engine",
    call: Call,
    path: Annotated[str, TextArg("One file.")] = "",
    paths: Annotated[tuple[str, ...], TextListArg("Several files.", most=FILES_MAX)] = (),
    keywords: Annotated[tuple[str, ...], TextListArg("Literal words.")] = (),
    patterns: Annotated[tuple[str, ...], TextListArg("Regexes.")] = (),
    lines: Annotated[tuple[str, ...], TextListArg('"7", "10-20", "90-".')] = (),
    symbols: Annotated[tuple[str, ...], TextListArg("Symbol names.")] = (),
    context: Annotated[int, IntegerArg("Lines around.", 0, 100, clamp=True)] = 2,
    max_tokens: Annotated[int | None, IntegerArg("Token budget.", 1, 100_000, clamp=True)] = None,
) -> Reply:
    """Read only the parts of files you need: symbols, lines, keyword and regex matches (any case), with context.

    Over budget the least important are only named. Without any: the outline.
    """
    names = tuple(dict.fromkeys([*([path] if path.strip() else []), *paths]))
    if not names:
        raise InvalidArgument("path is missing", suggestion="Give path, or paths for several files.")
    reader = FragmentReader(engine, call, tokens_max=max_tokens)
    kinds: dict[FragmentKind, Sequence[str]]
    kinds = {"lines": lines, "symbol": symbols, "pattern": patterns, "keyword": keywords}
    if wanted := [(kind, word) for kind, words in kinds.items() for word in words]:
        files = reader.add_files(names)
        for kind, word in wanted:
            reader.add(kind, word, files)
    else:
        reader.add_outlines(names)
        reader.note("… these are outlines: ask for symbols, lines, keywords or patterns")
    return Reply(reader.render(context=context))


@tool(touches="nothing")
def read_regions(
    engine: "Engine",
    call: Call,
    file_path: Annotated[str, TextArg("File path.", 1)],
    regions: Annotated[tuple[LineSpan, ...], LineRangesArg("Lines, from 1, both included.")],
    context_lines: Annotated[int, IntegerArg("Lines added around each.", 0, 1_000)] = 3,
    max_total_lines: Annotated[int, IntegerArg("Lines in all.", 1, 10_000)] = 500,
) -> Reply:
    """Read several ranges of lines of one file at once, as JSON; ranges that overlap or touch are joined.

    An answer that was cut names nextLine, the line to ask for next.
    """
    read = engine.files.read(file_path, first=1)
    lines = split_lines(read.text)
    if wrong := [region for region in regions if not 1 <= region.first <= min(region.last, len(lines))]:
        raise InvalidLineRange(
            f"{read.path} has no lines {wrong[0].first}-{wrong[0].last}: it has {format_count(read.lines, 'line')}",
            suggestion=f"Ask for lines between 1 and {read.lines}, the lower first." if read.lines else "It is empty.",
            details={"path": read.path, "lines": read.lines},
        )
    engine.edits.note_read(read.path, read.sha256, session=call.session, kind="fragment")
    groups = group_spans(regions, context=context_lines, last_line=len(lines))
    room = engine.settings.result_chars_max - NOTE_CHARS - len(read.path)
    kept, next_line = fit_regions(
        groups,
        lines_max=max_total_lines,
        chars_max=room,
        chars=lambda line: reply_size(compact_json(lines[line - 1])),  # the quotes count for the escaped line feed
        around=lambda region: reply_size(compact_json(_region(region, regions, ""))),
    )
    for region in kept:
        call.shown.add(read.path, region.span.first, _content(lines, region.span))
    reply: dict[str, Any] = {
        "filePath": read.path,
        "totalLines": len(lines),
        "regions": [_region(region, regions, _content(lines, region.span)) for region in kept],
        "merged": any(len(region.members) > 1 for region in groups),
    }
    if next_line and not kept:
        reply["regions"] = [_one_line(lines, groups[0], regions, room)]
        next_line += 1
    return Reply(compact_json(reply | (_describe_truncation(groups, next_line) if next_line else {})))


# -- read -------------------------------------------------------------------------------------------------------------


def _add_item(engine: "Engine", reader: FragmentReader, item: str) -> None:
    """Add what an item means: lines or a symbol of a file, a file or folder, a name, or a question."""
    try:
        if lines := _LINES.fullmatch(item):
            reader.add("lines", lines[2].replace("L", ""), [reader.add_file(lines[1])])
        elif (symbol := _SYMBOL.fullmatch(item)) and symbol[1]:
            reader.add("symbol", symbol[2], [reader.add_file(symbol[1])])
        else:
            reader.add_whole(item)
    except FileNotFound:
        name = item.removeprefix("#")
        is_question = " " in item.strip()
        if not is_question and ("/" in item or "\\" in item):
            raise
        found = () if is_question else engine.symbols.find(name, limit=FOUND_MAX).definitions
        for definition in found:
            reader.add_span("symbol", definition.qualified, reader.add_file(definition.path), definition.span)
        if found:
            return
        if not is_question and "." in item:
            raise
        _add_answers(engine, reader, item)


def _add_answers(engine: "Engine", reader: FragmentReader, question: str) -> None:
    """Add the places that the search finds for a question."""
    answer = engine.search.find(Query(question, FOUND_MAX))
    for hit in answer.hits:
        reader.add_span("found", hit.chunk.symbol, reader.add_file(hit.chunk.path), hit.chunk.span)
    if problem := answer.weakness if answer.hits else answer.reason or "nothing found":
        reader.note(f"{escape_line(question[:60])}: {problem}")


def _with_imports(engine: "Engine", text: str, imported: Sequence[str], notes: Sequence[str]) -> str:
    """Return the text of a file with what it imports, as far as that fits."""
    room = engine.settings.result_chars_max - NOTE_CHARS - reply_size(text) - sum(map(reply_size, notes))
    shown, left = fit_dependencies(engine, imported, room, lambda dependency: reply_size(dependency.block) + 1)
    blocks = [dependency.block for dependency in shown]
    return "\n".join([text, *blocks, *note_unlisted(left), *(f"note: {note}" for note in notes)])


# -- read_regions -----------------------------------------------------------------------------------------------------


def _region(region: SpanGroup, asked: Sequence[LineSpan], content: str) -> dict[str, Any]:
    """Return one region in the fields of upstream spec 000, with the ranges it was made of."""
    origins = [{"start": asked[number].first, "end": asked[number].last} for number in region.members]
    return {"start": region.span.first, "end": region.span.last, "content": content, "originalRanges": origins}


def _content(lines: Sequence[str], span: LineSpan) -> str:
    """Return the lines as they are in the file, without the last line end."""
    return "\n".join(lines[span.first - 1 : span.last]).removesuffix("\r")


def _one_line(lines: Sequence[str], region: SpanGroup, asked: Sequence[LineSpan], room: int) -> dict[str, Any]:
    """Return the beginning of a region's first line if that line alone is over the limit, and its length."""
    first, line = region.span.first, lines[region.span.first - 1]
    one = region._replace(span=LineSpan(first, first))
    note = {"cut": f"line {first} is {len(line):,} characters long; {AROUND}"}
    room -= reply_size(compact_json(_region(one, asked, "") | note))
    if room < 0:
        raise TooLarge(
            f"{format_count(len(region.members), 'range')} at once are too many", suggestion="Ask for fewer."
        )
    shown = line[:room]
    while reply_size(compact_json(shown)) > room and shown:
        shown = shown[: len(shown) // 2]  # escapes take more room than characters
    return _region(one, asked, shown) | note


def _describe_truncation(groups: Sequence[SpanGroup], next_line: int) -> dict[str, Any]:
    """Return the fields that say that the reply was cut, and the next line."""
    left = [region for region in groups if region.span.last >= next_line]
    if not left:
        return {"truncated": True}
    next_line = max(next_line, left[0].span.first)
    how = f"{format_count(len(left), 'region')} did not fit: ask for the lines from {next_line} on"
    return {"truncated": True, "nextLine": next_line, "next": how}
