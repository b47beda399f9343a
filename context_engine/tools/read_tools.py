"""Tools that read files and folders: `read` takes any items within one budget; the others ask the same reader."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from context_engine.context import FilePrice, SnippetPacker
from context_engine.errors import (
    ContextEngineError,
    FileNotFound,
    InvalidArgument,
    InvalidLineRange,
    NotIndexed,
    TooLarge,
)
from context_engine.index import role_of
from context_engine.model import Query
from context_engine.text import (
    LineSpan,
    SpanGroup,
    compact_json,
    drop_empty,
    escape_line,
    format_count,
    group_spans,
    split_lines,
)
from context_engine.tools.arguments import BooleanArg, ChoiceArg, IntegerArg, LineRangesArg, TextArg, TextListArg
from context_engine.tools.fragment_reader import FragmentReader, format_tree
from context_engine.tools.fragment_selection import FragmentKind, FragmentPlace
from context_engine.tools.reply import NOTE_CHARS, clip_line, count_fitting, cut_to_json, reply_size
from context_engine.tools.symbol_tools import format_outline
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.model import FileText

FILES_MAX = 20
"""Most items or files of one call."""
FOUND_MAX = 5
"""Places that a question in the items is answered with, as far as they fit."""
_LINES = re.compile(r"(.+?)(?::|#L)(\d{1,9}(?:-(?:L?\d{1,9})?)?)(?::\d{1,9})?")
"""`src/app.py:10-40`, `src/app.py:10:5` as search tools write it, `src/app.py#L10-L40` as web pages do."""
_SYMBOL = re.compile(r"([^#]*?)(?:#|::)(#?[^#\s]+(?:\.#[^#\s]+)?)")
"""`src/app.py#Class.method`, `src/app.js#Class.#private`, or `#Class.method` in any file."""


@tool(touches="nothing", always_load=True)
def read(
    engine: "Engine",
    call: Call,
    items: Annotated[
        tuple[str, ...],
        TextListArg("path, path:10-40, path#Symbol, folder, question.", most=FILES_MAX),
        *("paths", "path", "file_path"),
    ],
    token_budget: Annotated[int, IntegerArg("Reply size in tokens.", 1, 100_000, clamp=True), "max_tokens"] = 8_000,
    *,
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
            reader.refused.append(error)
    return Reply(reader.render_json(context=context) if call.structured else reader.render(context=context))


def _add_item(engine: "Engine", reader: FragmentReader, item: str) -> None:
    """Add what an item means: lines or a symbol of a file, a file or folder, a name, or a question."""
    try:
        if lines := _LINES.fullmatch(item):
            reader.add("lines", lines[2].replace("L", ""), [reader.add_file(lines[1])])
        elif (symbol := _SYMBOL.fullmatch(item)) and symbol[1]:
            reader.add("symbol", symbol[2], [reader.add_file(symbol[1])])
        else:
            reader.add_whole(item)
        return
    except FileNotFound as missing:
        is_question = " " in item.strip()
        if item.isdecimal():
            raise InvalidArgument(f"there is no {item!r}", suggestion="Lines follow a colon: `path:1-10`.") from None
        if not is_question and ("/" in item or "\\" in item):
            raise
        try:
            found = () if is_question else engine.symbols.find(item.removeprefix("#"), limit=FOUND_MAX).definitions
        except NotIndexed:
            raise missing from None
        if not (found or is_question) and "." in item:
            raise
    for definition in found:
        file = reader.add_file(definition.path)
        reader.places.append(FragmentPlace("symbol", definition.qualified, file, definition.span))
    if not found:
        answer = engine.search.find(Query(item, FOUND_MAX))
        for hit in answer.hits:
            file = reader.add_file(hit.chunk.path)
            reader.places.append(FragmentPlace("found", hit.chunk.symbol, file, hit.chunk.span))
        if problem := answer.weakness if answer.hits else answer.reason or "nothing found":
            reader.notes.append(f"{escape_line(item[:60])}: {problem}")


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
    context: Annotated[int, IntegerArg("Lines around.", 0, 100, clamp=True), "context_lines"] = 2,
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
    if any(kinds.values()):
        files = list(dict.fromkeys(reader.read_each(names, reader.add_file)))
        for kind, words in kinds.items():
            for word in words:
                reader.add(kind, word, files)
    else:
        reader.add_outlines(names)
        reader.notes.append("… these are outlines: ask for symbols, lines, keywords or patterns")
    return Reply(reader.render(context=context))


@tool(touches="nothing")
def list_directory(
    engine: "Engine",
    path: Annotated[str, TextArg("Folder to list.")] = ".",
    depth: Annotated[int, IntegerArg("Levels, 1-10.", 1, 10)] = 2,
    max_items: Annotated[int, IntegerArg("Entries, 1-2000.", 1, 2_000)] = 200,
    include_hidden: Annotated[bool, BooleanArg("Show dot files too.")] = False,
    *,
    sizes: Annotated[bool, BooleanArg("Show file sizes.")] = False,
) -> Reply:
    """List a directory as a tree without ignored files: the quick way to see how a project is laid out.

    Folders that are cut count their hidden items.
    """
    return Reply(format_tree(engine, path or ".", depth, max_items, include_hidden=include_hidden, sizes=sizes))


# -- read_regions -----------------------------------------------------------------------------------------------------

AROUND = "search_text shows it around a word"


@tool(touches="nothing")
def read_regions(
    engine: "Engine",
    call: Call,
    file_path: Annotated[str, TextArg("File path.")],
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

    def row(region: SpanGroup, content: str) -> dict[str, Any]:
        """Return one region in the fields of upstream spec 000, with the ranges it was made of."""
        origins = [_ends(regions[number]) for number in region.members]
        return _ends(region.span) | {"content": content, "originalRanges": origins}

    room = engine.settings.result_chars_max - NOTE_CHARS - len(read.path)
    # the quotes of a line as JSON count for its escaped line feed
    price = FilePrice(0, lambda number: reply_size(compact_json(lines[number - 1])))
    packer = SnippetPacker([price], room, frame=0)
    kept, next_line = _fit_regions(
        groups, packer, max_total_lines, lambda region: reply_size(compact_json(row(region, "")))
    )
    rows = []
    for region in kept:
        content = "\n".join(lines[region.span.first - 1 : region.span.last]).removesuffix("\r")
        call.shown.add(read.path, region.span.first, content)
        rows.append(row(region, content))
    reply: dict[str, Any] = {"filePath": read.path, "totalLines": len(lines), "regions": rows}
    reply["merged"] = any(len(region.members) > 1 for region in groups)
    if next_line and not kept:  # its first line alone is over the limit
        first = groups[0]._replace(span=LineSpan(next_line, next_line))
        line = lines[next_line - 1]
        note = {"cut": f"line {next_line} is {len(line):,} characters long; {AROUND}"}
        left = room - reply_size(compact_json(row(first, "") | note))
        if left < 0:
            raise TooLarge(
                f"{format_count(len(first.members), 'range')} at once are too many", suggestion="Ask for fewer."
            )
        reply["regions"] = [row(first, cut_to_json(line, left)) | note]
        next_line += 1
    return Reply(compact_json(reply | _describe_truncation(groups, next_line)))


def _fit_regions(
    groups: Iterable[SpanGroup], packer: SnippetPacker, lines_max: int, label: Callable[[SpanGroup], int]
) -> tuple[list[SpanGroup], int]:
    """Return the groups of lines that fit, and the line before which they end (0 if all fit)."""
    kept: list[SpanGroup] = []
    for group in groups:
        span = group.span.clip(group.span.first + lines_max - 1)
        last = packer.select_beginning(0, span, label=label(group)) if span else 0
        if last:
            kept.append(group._replace(span=LineSpan(group.span.first, last)))
            lines_max -= kept[-1].span.lines
        if last < group.span.last:
            return kept, max(last + 1, group.span.first)
    return kept, 0


def _ends(span: LineSpan) -> dict[str, Any]:
    return {"start": span.first, "end": span.last}


def _describe_truncation(groups: Sequence[SpanGroup], next_line: int) -> dict[str, Any]:
    """Return the fields that say that the reply was cut, and the next line; none if `next_line` is 0."""
    left = [region for region in groups if region.span.last >= next_line > 0]
    if not left:
        return {"truncated": True} if next_line else {}
    next_line = max(next_line, left[0].span.first)
    how = f"{format_count(len(left), 'region')} did not fit: ask for the lines from {next_line} on"
    return {"truncated": True, "nextLine": next_line, "next": how}


# -- read_file --------------------------------------------------------------------------------------------------------

IMPORTS_SHARE = 4
"""One part in four of a reply is reserved for the imports of a file, if the caller asks for them."""
PROBLEM_CHARS_MAX = 160
SIGNATURES_CHARS_MAX = 4_000
"""About a hundred signatures."""
HEAD_CHARS = 200
"""An outline's head, and the line that says how many symbols it leaves out."""
WRITTEN_PER_CENT = 85
"""As JSON, a text grows by its escaped line feeds and quotes, signatures by a tenth."""


@tool(touches="nothing", aliases={"get_file": {}})
def read_file(
    engine: "Engine",
    call: Call,
    path: Annotated[str, TextArg("File to read.")],
    start_line: Annotated[int | None, IntegerArg("First line.", 1, 10**9)] = None,
    end_line: Annotated[int | None, IntegerArg("Last line, included.", 1, 10**9)] = None,
    include_deps: Annotated[bool, BooleanArg("Add what it imports; JSON.")] = False,
    *,
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
    notes: list[str] = []
    if include_deps and max_depth:
        imported = engine.symbols.dependencies(path)
        problems = engine.symbols.outline(path).problems[:3]
        notes = [
            clip_line(f"line {line}: {message}; imports may be missing", PROBLEM_CHARS_MAX)
            for line, message in problems
        ]
    number = reader.add_file(path)
    if (format or ("json" if include_deps else "text")) == "json":
        row = _file_row(engine, file, imported, notes)
        if row["file"]["content"] == file.text:
            call.shown.add(file.path, file.span.first, file.text)
        return Reply(compact_json(row))
    if file.lines:
        kind: FragmentKind = "whole" if file.span.lines == file.lines else "lines"
        reader.places.append(FragmentPlace(kind, "", number, file.span))
    text = reader.render()
    room = engine.settings.result_chars_max - NOTE_CHARS - reply_size(text) - sum(map(reply_size, notes))
    shown, unlisted = _fit_imports(engine, imported, room, lambda file: file.block)
    return Reply("\n".join([text, *(file.block for file in shown), *unlisted, *(f"note: {note}" for note in notes)]))


def _file_row(engine: "Engine", read: "FileText", imported: Sequence[str], notes: Sequence[str]) -> dict[str, Any]:
    """Return the file, its imports as far as they fit, and its metadata, as in upstream spec 003."""
    file = {"path": read.path, "content": "", "size": read.size_bytes, "lines": read.lines, "language": read.language}
    folder = read.path.rpartition("/")[0].rpartition("/")[2]
    language = engine.languages.detect(read.path, b"")
    role = role_of(read.path, language.content if language else "").replace("source", "core")
    metadata = {"module": folder or "root", "role": role, "lastModified": read.modified_at}
    row: dict[str, Any] = {"file": file, "dependencies": [], "metadata": metadata}
    room = engine.settings.result_chars_max - NOTE_CHARS - reply_size(compact_json([row, notes]))
    file |= _content(read, room - room // IMPORTS_SHARE if imported else room)
    room -= reply_size(compact_json(file["content"]))
    shown, unlisted = _fit_imports(engine, imported, room, lambda file: compact_json(file.row))
    row["dependencies"] = [file.row for file in shown]
    return row | drop_empty({"notes": [*unlisted, *notes]})


def _content(read: "FileText", room: int) -> dict[str, Any]:
    """Return a file's text as far as its JSON fits the room, and the next line if it is cut."""
    if reply_size(compact_json(read.text)) <= room:
        return {"content": read.text}
    lines = split_lines(read.text)
    count = count_fitting(map(compact_json, lines), chars_max=room, between=0)
    if count:
        return {"content": "\n".join([*lines[:count], ""]), "nextLine": read.span.first + count}
    rest = {"nextLine": read.span.first + 1} if len(lines) > 1 else {}
    note = f"line {read.span.first} is {len(lines[0]):,} characters long; {AROUND}"
    return {"content": cut_to_json(lines[0], room), "cut": note} | rest


class _Import(NamedTuple):
    """One imported file with its content, its signatures, or the reason for neither."""

    path: str
    detail: Literal["content", "signatures", "omitted"] = "omitted"
    text: str = "did not fit: read it"

    @property
    def row(self) -> dict[str, Any]:
        """The fields of upstream spec 003."""
        return {"path": self.path, "type": "import", "level": 1, self.detail: self.text}

    @property
    def block(self) -> str:
        """The text for a plain reply."""
        if self.detail == "omitted":
            return f"@@ import {escape_line(self.path)} · {self.text}"
        how = " · signatures" if self.detail == "signatures" else ""
        return f"@@ import {escape_line(self.path)}{how}\n{self.text}"


def _fit_imports(
    engine: "Engine", paths: Sequence[str], room: int, write: Callable[[_Import], str]
) -> tuple[list[_Import], list[str]]:
    """Return the files that fit into the room as they are written, in the given order, and a note on the others.

    All names come first. Then the smallest file is expanded first, and each file may use an even share of the room that
    is left. So many small files appear whole, and large ones by their signatures.
    """

    def size(file: _Import) -> int:
        return reply_size(write(file)) + 1

    names = [_Import(path) for path in paths]
    names = names[: count_fitting(map(write, names), chars_max=room)]
    room -= sum(map(size, names))
    shown = [_read_import(engine, name) for name in names]
    for turn, number in enumerate(sorted(range(len(names)), key=lambda number: size(shown[number]))):
        share = size(names[number]) + room // (len(names) - turn)
        forms = _import_forms(engine, shown[number], names[number], share)
        shown[number] = next(form for form in forms if form == names[number] or size(form) <= share)
        room -= size(shown[number]) - size(names[number])
    left = len(paths) - len(names)
    note = f"{format_count(left, 'more import')} did not fit: symbols names them (relation imports)"
    return shown, [note] if left else []


def _read_import(engine: "Engine", name: _Import) -> _Import:
    try:
        return _Import(name.path, "content", engine.files.read(name.path).text)
    except ContextEngineError as error:
        return _Import(name.path, "omitted", error.message)


def _import_forms(engine: "Engine", whole: _Import, name: _Import, share: int) -> Iterator[_Import]:
    """Yield a file as a whole, by its signatures unless there is hardly room for one, and by its name."""
    yield whole
    if whole.detail == "content" and share >= 2 * HEAD_CHARS:
        chars_max = min(SIGNATURES_CHARS_MAX, share * WRITTEN_PER_CENT // 100 - HEAD_CHARS)
        try:
            outline = engine.symbols.outline(name.path)
        except ContextEngineError as error:  # deleted since it was read
            yield _Import(name.path, "omitted", error.message)
        else:
            if outline.symbols:
                yield _Import(name.path, "signatures", format_outline(outline, chars_max + NOTE_CHARS))
    yield name
