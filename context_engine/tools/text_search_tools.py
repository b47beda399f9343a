"""Tools that search the text of the files as it is now: one for agents to read, two in the JSON of upstream specs.

No index needed.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.errors import InvalidArgument
from context_engine.model import RelPath, Scan, TextFile, TextLine, TextPart, TextQuery
from context_engine.search import hash_search, rank_files, select_page, sort_by_keywords
from context_engine.text import compact_json, drop_empty, escape_line, format_count, format_cursor, parse_cursor
from context_engine.tools.arguments import BooleanArg, IntegerArg, TextArg, TextListArg
from context_engine.tools.reply import NOTE_CHARS, count_rest, note_lines, reply_size, take_fitting_rows
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from context_engine.engine import Engine

GREP_CONTEXT = 2
"""Lines before and after, as in the example of upstream spec 003."""
PREVIEW_CHARS = 80
"""Upstream spec 000: about 80 characters, trimmed."""
ROW_CHARS = 130
"""Average size of a scout match as JSON; only used to estimate how many matches each file may show."""
FILE_CHARS = 90
"""Average size of the JSON around the matches of one file."""


@tool(
    touches="nothing",
    always_load=True,
    instead="search_code",
    aliases={"search_files": {"queries": (), "case_sensitive": False}},
)
def search_text(
    engine: "Engine",
    call: Call,
    query: Annotated[str, TextArg("Text to find.")] = "",
    path: Annotated[str, TextArg("Folder or file.")] = "",
    regex: Annotated[bool, BooleanArg("query is a regex, no look-around.")] = False,
    include: Annotated[tuple[str, ...], TextListArg("Only files like src/**, *.py."), "includes"] = (),
    context: Annotated[int, IntegerArg("Lines around.", 0, 20, clamp=True)] = 0,
    limit: Annotated[int, IntegerArg("Maximum lines.", 1, 1_000, clamp=True)] = 50,
    cursor: Annotated[str, TextArg("From the last reply.")] = "",
    *,
    queries: Annotated[tuple[str, ...], TextListArg("Several texts.")] = (),
    exclude: Annotated[tuple[str, ...], TextListArg("Globs to leave out."), "excludes"] = (),
    case_sensitive: Annotated[bool, BooleanArg("Match case.")] = False,
) -> Reply:
    """Grep: find all lines with a text or regex, best files first.

    Example: {"query": "def close", "path": "src"}
    """
    texts = tuple(dict.fromkeys([query, *queries] if query else queries))
    if not texts or not all(text.strip() for text in texts):
        raise InvalidArgument("query is empty", suggestion="Give query, or queries with several texts.")
    asked = TextQuery(texts, regex, case_sensitive, under=path, includes=include, excludes=exclude)
    scan = engine.text_search.scan(asked, definitions=True, progress=call.progress, cancel=call.cancel)
    files = rank_files(scan.files, asked.queries)
    stamped = hash_search(asked, files)
    start = parse_cursor(cursor, stamped)
    parts = select_page(files, start, limit)
    lines = engine.text_search.lines(asked, parts, context=context, chars_max=240, cancel=call.cancel)
    room = engine.settings.result_chars_max - 2 * NOTE_CHARS
    rows, shown = _fit_files(scan, parts, lines, room, compact_json if call.structured else _line_text)
    more = scan.lines - start - shown
    cursor = format_cursor(start + shown, stamped, scan.lines)
    if call.structured:
        head = {"total": scan.lines, "files_searched": scan.files_searched, "files": rows}
        return Reply(compact_json(head | drop_empty({"cursor": cursor}) | _silence(scan)))
    many = len(scan.files) if scan.lines else scan.files_searched
    texts = (f"{format_count(scan.lines, 'match', 'matches')} in {format_count(many, 'file')}", *map(_file_text, rows))
    rest = count_rest(more, f": cursor {cursor}")
    return Reply("\n".join([*texts, *rest, *note_lines(_silence(scan))]))


def _fit_files(
    scan: Scan,
    parts: Sequence[TextPart],
    lines: Mapping[RelPath, Sequence[TextLine]],
    room: int,
    write: Callable[[dict[str, Any]], str],
) -> tuple[list[dict[str, Any]], int]:
    """Return the files with their lines as far as they fit as they are written, and how many matches these are."""
    files = {file.path: file for file in scan.files}
    rows: list[dict[str, Any]] = []
    shown = 0
    for part in parts:
        row: dict[str, Any] = {"path": part.path, "total": files[part.path].lines}
        row |= drop_empty({"encoding": files[part.path].encoding}) | {"lines": []}
        room -= reply_size(compact_json(row))
        matches = 0
        for line in lines[part.path]:
            found = {"line": line.number, "text": line.text} | ({"column": line.column} if line.column else {})
            room -= reply_size(write(found)) + 1
            if room < 0:
                return [*rows, row] if matches else rows, shown + matches
            row["lines"].append(found)
            matches += line.column > 0
        rows.append(row)
        shown += max(matches, part.take)
    return rows, shown


def _line_text(line: Mapping[str, Any]) -> str:
    return f"{line['line']}{':' if 'column' in line else '-'}{line['text']}"


def _file_text(row: Mapping[str, Any]) -> str:
    """Format a file with its lines; a match has a colon after its number."""
    if not row["lines"]:
        return f"{escape_line(row['path'])} · changed since it was counted"
    matches = sum("column" in line for line in row["lines"])
    of_all = f" · {matches:,} of {format_count(row['total'], 'match', 'matches')}" if matches < row["total"] else ""
    encoding = f" · {row['encoding']}" if "encoding" in row else ""
    return "\n".join([f"{escape_line(row['path'])}{encoding}{of_all}", *map(_line_text, row["lines"])])


@tool(touches="nothing", instead="search_code")
def scout(
    engine: "Engine",
    call: Call,
    keywords: Annotated[tuple[str, ...], TextListArg("Literal search terms.")],
    root_path: Annotated[str, TextArg("Folder to search.")] = ".",
    file_patterns: Annotated[tuple[str, ...], TextListArg("Globs below root_path.")] = ("**/*",),
    exclude_patterns: Annotated[tuple[str, ...], TextListArg("Globs to leave out.")] = (),
    case_sensitive: Annotated[bool, BooleanArg("Match case.")] = False,
    max_results: Annotated[int, IntegerArg("Files, 1-1000.", 1, 1_000)] = 100,
    *,
    max_matches_per_file: Annotated[int, IntegerArg("Matches listed per file, 1-1000.", 1, 1_000)] = 50,
) -> Reply:
    """Find the files and lines that contain keywords, as JSON with line, column and preview.

    Files with most of the keywords come first; a match is one keyword on one line.
    """
    if not keywords:
        raise InvalidArgument("keywords is empty", suggestion='Write keywords: ["one", "two"].')
    asked = TextQuery(
        queries=keywords,
        case_sensitive=case_sensitive,
        under=root_path,
        includes=() if file_patterns == ("**/*",) else file_patterns,
        excludes=exclude_patterns,
        globs_from_under=True,
    )
    scan = engine.text_search.scan(asked, progress=call.progress, cancel=call.cancel)
    files = sort_by_keywords(scan.files)[:max_results]
    most = matches_per_file(files, max_matches_per_file, engine.settings.result_chars_max)
    parts = [TextPart(file.path, 0, min(most, sum(file.by_query))) for file in files]
    lines = engine.text_search.keyword_lines(asked, parts, chars_max=PREVIEW_CHARS, cancel=call.cancel)
    rows = [_scout_row(file, scan.under, keywords, lines[file.path]) for file in files]
    shown = take_fitting_rows(rows, chars_max=engine.settings.result_chars_max)
    left = len(scan.files) - len(shown)
    total = sum(sum(file.by_query) for file in scan.files)
    steps = [f"{format_count(left, 'more file')}: ask for more results, or name file patterns"] if left else []
    if most < max_matches_per_file:
        steps.append(f"at most {format_count(most, 'match', 'matches')} a file fit")
    reply = {"files": shown, "totalMatches": total, "truncated": bool(left)}
    notes = drop_empty({"next": "; ".join(steps)}) if shown else {}
    return Reply(compact_json(reply | notes | _silence(scan)))


def _scout_row(file: TextFile, under: str, keywords: Sequence[str], lines: Iterable[TextLine]) -> dict[str, Any]:
    """Return a file in the fields of upstream spec 000; its path is relative to the searched folder."""
    matches = [
        {"keyword": keywords[line.query], "line": line.number, "column": line.column, "preview": line.text.strip()}
        for line in lines
    ]
    inside = file.path.removeprefix(f"{under}/" if under else "")
    path = file.path.rpartition("/")[2] if file.path == under else inside
    return {"path": path, "matches": matches, "fileSize": file.size_bytes}


def matches_per_file(files: Sequence[TextFile], wanted: int, chars_max: int) -> int:
    """Return how many matches each file may show so that all files fit: at most `wanted`, at least one."""
    room = chars_max - NOTE_CHARS - sum(FILE_CHARS + len(file.path) for file in files)
    totals = [sum(file.by_query) for file in files]
    most = wanted
    while most > 1 and sum(min(total, most) for total in totals) * ROW_CHARS > room:
        most = (most + 1) // 2 if most > 2 else 1
    return most


@tool(touches="nothing", instead="search_code")
def grep_codebase(
    engine: "Engine",
    call: Call,
    pattern: Annotated[str, TextArg("Regex to search for.", 1, 200)],
    file_pattern: Annotated[str, TextArg('Glob of the files to search, e.g. "**/*.ts".')] = "",
    case_sensitive: Annotated[bool, BooleanArg("Case-sensitive search.")] = False,
    limit: Annotated[int, IntegerArg("Matches to return, 1-100.", 1, 100)] = 50,
) -> Reply:
    """Fast text search across the codebase by regex, for exact matches or when semantic search finds nothing.

    Returns JSON: file, line, column, text and two lines of context on either side; totals are exact.
    """
    began = time.perf_counter()
    asked = TextQuery((pattern,), True, case_sensitive, includes=(file_pattern,) if file_pattern.strip() else ())
    scan = engine.text_search.scan(asked, progress=call.progress, cancel=call.cancel)
    parts = select_page(scan.files, 0, limit)
    lines = engine.text_search.lines(asked, parts, context=GREP_CONTEXT, chars_max=300, cancel=call.cancel)
    rows = [row for part in parts for row in _grep_rows(part.path, lines[part.path])]
    shown = take_fitting_rows(rows, chars_max=engine.settings.result_chars_max)
    reply: dict[str, Any] = {
        "matches": shown,
        "pattern": pattern,
        "totalMatches": scan.lines,
        "filesSearched": scan.files_searched,
        "searchTime": round((time.perf_counter() - began) * 1_000),
    }
    if len(shown) < scan.lines:
        reply |= {
            "truncated": True,
            "next": f"{scan.lines - len(shown):,} more: raise `limit`, name a file pattern, or page with search_text",
        }
    if not scan.lines:
        reply["message"] = f"No matches found for pattern '{pattern}'"
    return Reply(compact_json(reply | _silence(scan)))


def _grep_rows(path: str, lines: Sequence[TextLine]) -> Iterator[dict[str, Any]]:
    """Yield the matches of one file in the fields of upstream spec 003."""
    texts = {line.number: line.text for line in lines}
    for line in lines:
        if line.column:
            at = line.number
            sides = {"before": range(at - GREP_CONTEXT, at), "after": range(at + 1, at + GREP_CONTEXT + 1)}
            near = {side: [texts[one] for one in numbers if one in texts] for side, numbers in sides.items()}
            yield {"file": path, "line": at, "column": line.column, "text": line.text, "context": near}


def _silence(scan: Scan) -> dict[str, str]:
    """Return why nothing was found and what to do next, and whether some files could not be searched."""
    note = "" if scan.is_complete else "some files vanished or could not be read during the search"
    return drop_empty({"reason": scan.reason, "next": scan.next_step, "note": note})
