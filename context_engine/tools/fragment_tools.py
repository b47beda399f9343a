"""Tools that read parts of files: by words, names and lines (read_fragment), or by line ranges (read_regions)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.errors import ContextEngineError, InvalidArgument, InvalidLineRange, TooLarge
from context_engine.model import TextPart, TextQuery
from context_engine.text import (
    CHARS_PER_TOKEN,
    LineSpan,
    SpanGroup,
    compact_json,
    escape_line,
    estimate_tokens,
    format_count,
    group_spans,
    shorten_line,
    split_lines,
)
from context_engine.tools.arguments import IntegerArg, LineRangesArg, TextArg, TextListArg
from context_engine.tools.file_tools import AROUND, SHA_CHARS
from context_engine.tools.fragment_selection import (
    LABEL_CHARS_MAX,
    Fragment,
    FragmentBody,
    FragmentKind,
    FragmentPlace,
    FragmentSelection,
    find_keyword_places,
    fit_regions,
    match_symbols,
    parse_line_range,
    select_fragments,
    shorten_lines,
    suggest_symbols,
)
from context_engine.tools.reply import NOTE_CHARS, clip_line, count_fitting, reply_size
from context_engine.tools.search_tools import format_outline
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.model import Definition, FileText

FILES_MAX = 20
"""Most files of one call."""
LINE_CHARS_MAX = 400
"""Longer lines are generated; the match is in the middle of this many characters."""
NOTES_CHARS = 1_300
"""Reserved for the notes: what was cut, dropped, not found, not read."""
HEAD_TOKENS = 30
"""Tokens of a file's header without its path: counts, language and hash."""
MATCHES_MAX = 10_000
"""More lines of one file than fit any reply."""
ADVISED_MAX = 5
"""Words with suggestions: similar names for more would not fit, and take long in a file with ten thousand symbols."""
LINES_NAMED_MAX = 10
"""Lines listed for one word; the others are counted."""


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
    if not (lines or symbols or patterns or keywords):
        return Reply(_outlines(engine, names, max_tokens))
    files, refused = _open_files(engine, names, with_symbols=bool(symbols))
    for file in files:
        engine.edits.note_read(file.read.path, file.read.sha256, session=call.session, kind="fragment")
    places, missing = _find_places(
        engine, call, files, {"lines": lines, "symbol": symbols, "pattern": patterns, "keyword": keywords}
    )
    room = (engine.settings.result_chars_max - NOTES_CHARS) // CHARS_PER_TOKEN
    bodies = [_body(file, [place for place in places if place.file == number]) for number, file in enumerate(files)]
    taken = select_fragments(places, bodies, context=context, tokens_max=min(max_tokens or room, room))
    text = [*_page(files, bodies, taken), *_notes(files, taken), *_absent(files, missing, refused)]
    return Reply("\n".join(text))


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
        raise _no_such_lines(read, wrong[0])
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


# -- read_fragment: finding -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _FragmentFile:
    """A file with its lines without line feeds, and its symbols if the caller asks for some."""

    read: "FileText"
    lines: list[str]
    symbols: "tuple[Definition, ...]" = ()


def _open_files(engine: "Engine", names: Iterable[str], *, with_symbols: bool) -> tuple[list[_FragmentFile], list[str]]:
    """Read the files, each once; return the errors of the others. Raises: the first error if no file can be read."""
    files: dict[str, _FragmentFile] = {}
    refused: list[ContextEngineError] = []
    for name in names:
        try:
            read = engine.files.read(name, first=1)
            symbols = tuple(symbol for _, symbol in engine.symbols.outline(name).symbols) if with_symbols else ()
        except ContextEngineError as error:  # one unreadable file must not hide the others
            refused.append(error)
        else:
            files[read.path] = _FragmentFile(read, split_lines(read.text), symbols)
    if not files:
        raise refused[0]
    return list(files.values()), _refusals(refused)


def _refusals(refused: Iterable[ContextEngineError]) -> list[str]:
    return [f"not read: {error.message}. {error.suggestion}".rstrip() for error in refused]


def _find_places(
    engine: "Engine", call: Call, files: Sequence[_FragmentFile], asked: Mapping[FragmentKind, Sequence[str]]
) -> tuple[list[FragmentPlace], list[tuple[FragmentKind, str]]]:
    """Return the places of all that the caller asks for, and the words that are in none of the files."""
    find: dict[FragmentKind, Callable[[Sequence[_FragmentFile], str], list[FragmentPlace]]] = {
        "lines": _lines,
        "symbol": _symbols,
        "pattern": partial(_matches, engine, call),
        "keyword": _keywords,
    }
    places: list[FragmentPlace] = []
    missing: list[tuple[FragmentKind, str]] = []
    for kind, words in asked.items():
        for word in words:
            here = find[kind](files, word)
            places += here
            missing += [] if here else [(kind, word)]
    return places, missing


def _lines(files: Sequence[_FragmentFile], word: str) -> list[FragmentPlace]:
    spans = (parse_line_range(word, len(file.lines)).clip(len(file.lines)) for file in files)
    return [FragmentPlace("lines", word, number, span) for number, span in enumerate(spans) if span]


def _symbols(files: Sequence[_FragmentFile], word: str) -> list[FragmentPlace]:
    return [
        FragmentPlace("symbol", symbol.qualified, number, symbol.span)
        for number, file in enumerate(files)
        for symbol in match_symbols(file.symbols, word)
    ]


def _matches(engine: "Engine", call: Call, files: Sequence[_FragmentFile], pattern: str) -> list[FragmentPlace]:
    """Search all files in one pass with the engine of search_files: a caller's pattern never runs in this process."""
    parts = [TextPart(file.read.path, 0, MATCHES_MAX) for file in files]
    found = engine.text_search.lines(
        TextQuery((pattern,), regex=True), parts, context=0, chars_max=1, cancel=call.cancel
    )
    return [
        FragmentPlace("pattern", pattern, number, LineSpan(line.number, line.number), line.column)
        for number, file in enumerate(files)
        for line in found.get(file.read.path, ())
    ]


def _keywords(files: Sequence[_FragmentFile], word: str) -> list[FragmentPlace]:
    return [place for number, file in enumerate(files) for place in find_keyword_places(number, file.lines, word)]


# -- read_fragment: showing -------------------------------------------------------------------------------------------


def _body(file: _FragmentFile, places: Iterable[FragmentPlace]) -> FragmentBody:
    return FragmentBody(
        shorten_lines(file.lines, places, LINE_CHARS_MAX), estimate_tokens(file.read.path) + HEAD_TOKENS
    )


def _page(files: Sequence[_FragmentFile], bodies: Sequence[FragmentBody], taken: FragmentSelection) -> Iterator[str]:
    """Yield a header and the fragments of each file with fragments; a single file always has its header."""
    for number, (file, body) in enumerate(zip(files, bodies, strict=True)):
        fragments = [fragment for fragment in taken.fragments if fragment.file == number]
        if fragments or len(files) == 1:
            yield _head(file, fragments)
        for fragment in fragments:
            yield f"@@ {fragment.span} · {' · '.join(_format_reasons(fragment.places))}"
            yield from body.lines[fragment.span.first - 1 : fragment.span.last]


def _head(file: _FragmentFile, fragments: Sequence[Fragment]) -> str:
    shown = sum(fragment.span.lines for fragment in fragments)
    counts = f"{format_count(len(fragments), 'fragment')}, {shown:,} of {format_count(len(file.lines), 'line')}"
    return f"{escape_line(file.read.path)} · {counts} · {file.read.language} · sha256 {file.read.sha256[:SHA_CHARS]}"


def _format_reasons(places: Iterable[FragmentPlace]) -> list[str]:
    """Format why lines are shown: each label once, with its lines."""
    lines_by_label: dict[str, list[str]] = {}
    for place in places:
        lines_by_label.setdefault(place.label, []).append("" if place.kind == "lines" else str(place.span))
    return [f"{label} {_first_few(dict.fromkeys(lines))}".rstrip() for label, lines in lines_by_label.items()]


def _first_few(lines: Iterable[str]) -> str:
    listed = list(lines)
    more = f" +{len(listed) - LINES_NAMED_MAX}" if len(listed) > LINES_NAMED_MAX else ""
    return ", ".join(listed[:LINES_NAMED_MAX]) + more


def _notes(files: Sequence[_FragmentFile], taken: FragmentSelection) -> Iterator[str]:
    """Yield notes on places that were found but are not shown, and how to read them."""
    if taken.cut:
        path, rest = files[taken.cut.file].read.path, LineSpan(taken.next_line, taken.cut.span.last)
        yield f'… {taken.cut.label} was cut: the rest is lines "{rest}" of {escape_line(path)}'
    if taken.dropped:
        left = [
            f"{escape_line(file.read.path)}: {name}"
            for number, file in enumerate(files)
            for name in _format_reasons(place for place in taken.dropped if place.file == number)
        ]
        yield f"… no room for {_join_capped(left, 400)} - ask for those lines, or raise max_tokens"
    shown = (
        (fragment.file, line - 1)
        for fragment in taken.fragments
        for line in range(fragment.span.first, fragment.span.last + 1)
    )
    if any(len(files[file].lines[at]) > LINE_CHARS_MAX for file, at in shown):
        yield f"… lines over {LINE_CHARS_MAX} characters are cut: read_file shows one whole"


def _absent(
    files: Sequence[_FragmentFile], missing: Sequence[tuple[FragmentKind, str]], refused: Sequence[str]
) -> Iterator[str]:
    """Yield notes on the words that were not found; the first few have suggestions."""
    if missing:
        notes = [f"{kind} {shorten_line(word, 0, LABEL_CHARS_MAX)}" for kind, word in missing]
        for number, (kind, word) in enumerate(missing[:ADVISED_MAX]):
            notes[number] += _suggest(kind, word, files)
        yield f"not found: {_join_capped(notes, 200)}"
    if refused:
        yield _join_capped(refused, 200)


def _suggest(kind: FragmentKind, word: str, files: Sequence[_FragmentFile]) -> str:
    """Return what a caller can do about a word that was not found."""
    if kind == "lines":
        counts = [f"{escape_line(file.read.path)} has {len(file.lines):,}" for file in files[:LINES_NAMED_MAX]]
        return f" ({', '.join(counts)})"
    if kind == "pattern":
        other = [file.read.path for file in files if not file.read.encoding.startswith("utf")]
        return (
            f" (in {', '.join(map(escape_line, other))}, which is not Unicode, only ASCII is searched)" if other else ""
        )
    if kind == "symbol":
        near = suggest_symbols((symbol for file in files for symbol in file.symbols), word)
        return f" (near: {', '.join(near)})" if near else " (find_symbol searches all files)"
    return ""


def _join_capped(items: Sequence[str], chars_max: int) -> str:
    """Join the items that fit in one line and count the others; the first is always shown, as far as it fits."""
    count = max(1, count_fitting(items, chars_max=chars_max, between=2))
    more = f" and {len(items) - count:,} more" if count < len(items) else ""
    return clip_line("; ".join(items[:count]), chars_max) + more


def _outlines(engine: "Engine", names: Sequence[str], max_tokens: int | None) -> str:
    """Format the outlines of files, with equal shares of the room."""
    files, refused = [], []
    for name in names:
        try:
            files.append(engine.symbols.outline(name))
        except ContextEngineError as error:  # one unreadable file must not hide the others
            refused.append(error)
    if not files:
        raise refused[0]
    chars_max = engine.settings.result_chars_max
    share = min(chars_max - NOTES_CHARS, (max_tokens or chars_max) * CHARS_PER_TOKEN) // len(files)
    texts = [format_outline(file, share + NOTE_CHARS) for file in files]
    count = count_fitting(texts, chars_max=chars_max - NOTES_CHARS // 2)
    ask = "… these are outlines: ask for symbols, lines, keywords or patterns"
    left = [f"not shown: {escape_line(file.path)}" for file in files[count:]] + _refusals(refused)
    return "\n".join([*texts[:count], *([_join_capped(left, 400)] if left else []), ask])


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


def _no_such_lines(read: "FileText", wrong: LineSpan) -> InvalidLineRange:
    return InvalidLineRange(
        f"{read.path} has no lines {wrong.first}-{wrong.last}: it has {format_count(read.lines, 'line')}",
        suggestion=f"Ask for lines between 1 and {read.lines}, the lower first." if read.lines else "It is empty.",
        details={"path": read.path, "lines": read.lines},
    )
