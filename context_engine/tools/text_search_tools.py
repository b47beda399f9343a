"""Tools that search the text of the files as it is now: one for agents to read, two in the JSON of upstream specs.

No index needed.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.errors import InvalidArgument
from context_engine.model import RelPath, Scan, TextFile, TextLine, TextPart, TextQuery
from context_engine.search import format_cursor, hash_search, parse_cursor, rank_files, select_page, sort_by_keywords
from context_engine.text import compact_json, drop_empty, escape_line, format_count
from context_engine.tools.arguments import BooleanArg, IntegerArg, TextArg, TextListArg
from context_engine.tools.reply import NOTE_CHARS, reply_size, take_fitting_rows
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from context_engine.engine import Engine

SEARCH_LINE_CHARS = 240
"""Nine of ten lines of code have fewer than 100 characters; a sentence on one line should still be readable."""
GREP_LINE_CHARS = 300
GREP_CONTEXT = 2
"""Lines before and after, as in the example of upstream spec 003."""
PREVIEW_CHARS = 80
"""Upstream spec 000: about 80 characters, trimmed."""
ROW_CHARS = 130
"""Average size of a scout match as JSON; only used to estimate how many matches each file may show."""
FILE_CHARS = 90
"""Average size of the JSON around the matches of one file."""
INCOMPLETE = "some files vanished or could not be read during the search"


@tool(
    touches="nothing",
    always_load=True,
    instead="search_code",
    aliases={"search_files": {"queries": (), "case_sensitive": False}},
    rare=("queries", "exclude", "case_sensitive"),
)
def search_text(
    engine: "Engine",
    call: Call,
    query: Annotated[str, TextArg("Text to find.")] = "",
    queries: Annotated[tuple[str, ...], TextListArg("Several texts.")] = (),
    path: Annotated[str, TextArg("Folder or file.")] = "",
    regex: Annotated[bool, BooleanArg("query is a Rust regex.")] = False,
    include: Annotated[tuple[str, ...], TextListArg("Only these: src/**, *.py."), "includes"] = (),
    exclude: Annotated[tuple[str, ...], TextListArg("Globs to leave out."), "excludes"] = (),
    context: Annotated[int, IntegerArg("Lines around.", 0, 20, clamp=True)] = 0,
    case_sensitive: Annotated[bool, BooleanArg("Match case.")] = False,
    limit: Annotated[int, IntegerArg("Most lines.", 1, 1_000, clamp=True)] = 50,
    cursor: Annotated[str, TextArg("From the last reply.")] = "",
) -> Reply:
    """Grep: find all lines with a text or regex, best files first.

    Example: {"query": "def close", "path": "src"}
    """
    asked = TextQuery(
        queries=_queries(query, queries),
        regex=regex,
        case_sensitive=case_sensitive,
        under=path,
        includes=include,
        excludes=exclude,
    )
    scan = engine.text_search.scan(asked, definitions=True, progress=call.progress, cancel=call.cancel)
    files = rank_files(scan.files, asked.queries)
    stamped = hash_search(asked, files)
    start = parse_cursor(cursor, stamped)
    parts = select_page(files, start, limit)
    lines = engine.text_search.lines(asked, parts, context=context, chars_max=SEARCH_LINE_CHARS, cancel=call.cancel)
    chars_max = engine.settings.result_chars_max
    texts, shown = (_file_rows if call.structured else _file_blocks)(scan, parts, lines, chars_max)
    more = scan.lines - start - shown
    cursor = format_cursor(start + shown, stamped) if more > 0 else ""
    if call.structured:
        head = {"total": scan.lines, "files_searched": scan.files_searched, "files": texts}
        return Reply(compact_json(head | drop_empty({"cursor": cursor}) | _silence(scan)))
    if cursor:
        texts.append(f"… {more:,} more: cursor {cursor}")
    if not scan.is_complete:
        texts.append(f"note: {INCOMPLETE}")
    return Reply("\n".join(texts))


@tool(touches="nothing", instead="search_code", rare=("max_matches_per_file",))
def scout(
    engine: "Engine",
    call: Call,
    keywords: Annotated[tuple[str, ...], TextListArg("Literal search terms.")],
    root_path: Annotated[str, TextArg("Folder to search.")] = ".",
    file_patterns: Annotated[tuple[str, ...], TextListArg("Globs of files to search, relative to root_path.")] = (
        "**/*",
    ),
    exclude_patterns: Annotated[tuple[str, ...], TextListArg("Globs to leave out.")] = (),
    case_sensitive: Annotated[bool, BooleanArg("Match case.")] = False,
    max_results: Annotated[int, IntegerArg("Files, 1-1000.", 1, 1_000)] = 100,
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
    reply: dict[str, Any] = {
        "files": shown,
        "totalMatches": sum(sum(file.by_query) for file in scan.files),
        "truncated": len(shown) < len(scan.files),
    }
    if shown and (len(shown) < len(scan.files) or most < max_matches_per_file):
        reply["next"] = _scout_next(len(scan.files), len(shown), most, max_matches_per_file)
    return Reply(compact_json(reply | _silence(scan)))


@tool(touches="nothing", instead="search_code")
def grep_codebase(
    engine: "Engine",
    call: Call,
    pattern: Annotated[str, TextArg("Regex pattern to search for.", 1, 200)],
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
    lines = engine.text_search.lines(asked, parts, context=GREP_CONTEXT, chars_max=GREP_LINE_CHARS, cancel=call.cancel)
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
            "next": f"{scan.lines - len(shown):,} more: raise limit, narrow with filePattern, or page with search_text",
        }
    if not scan.lines:
        reply["message"] = f"No matches found for pattern '{pattern}'"
    return Reply(compact_json(reply | _silence(scan)))


def matches_per_file(files: Sequence[TextFile], wanted: int, chars_max: int) -> int:
    """Return how many matches each file may show so that all files fit: at most `wanted`, at least one."""
    room = chars_max - NOTE_CHARS - sum(FILE_CHARS + len(file.path) for file in files)
    totals = [sum(file.by_query) for file in files]
    most = wanted
    while most > 1 and sum(min(total, most) for total in totals) * ROW_CHARS > room:
        most = (most + 1) // 2 if most > 2 else 1
    return most


def _queries(query: str, queries: Sequence[str]) -> tuple[str, ...]:
    texts = tuple(dict.fromkeys([query, *queries] if query else queries))
    if not texts or not all(text.strip() for text in texts):
        raise InvalidArgument("query is empty", suggestion="Give query, or queries with several texts.")
    return texts


def _file_blocks(
    scan: Scan, parts: Sequence[TextPart], lines: Mapping[RelPath, Sequence[TextLine]], chars_max: int
) -> tuple[list[Any], int]:
    """Return a header and the files with their lines as far as they fit, and how many matches these are."""
    text = [f"{format_count(scan.lines, 'match', 'matches')} in {format_count(len(scan.files), 'file')}"]
    if not scan.lines:
        text = [f"0 matches in {format_count(scan.files_searched, 'file')}", scan.reason, scan.next_step]
    room = chars_max - NOTE_CHARS - reply_size(text[0])
    counts = {file.path: file.lines for file in scan.files}
    shown = 0
    for part in parts:
        block, matches = _block(part, counts[part.path], lines[part.path], room)
        text += block
        shown += matches
        room -= sum(reply_size(line) + 1 for line in block)
        if matches < part.take:
            break
    return text, shown


def _file_rows(
    scan: Scan, parts: Sequence[TextPart], lines: Mapping[RelPath, Sequence[TextLine]], chars_max: int
) -> tuple[list[Any], int]:
    """Return whole files as far as they fit, the first one cut if it alone is too long; and their matches."""
    totals = {file.path: file.lines for file in scan.files}
    rows: list[dict[str, Any]] = [
        {"path": part.path, "total": totals[part.path], "lines": _line_rows(lines[part.path])} for part in parts
    ]
    files = take_fitting_rows(rows, chars_max=chars_max)
    if files or not rows:
        return files, sum(part.take for part in parts[: len(files)])
    fitting = take_fitting_rows(rows[0]["lines"], chars_max=chars_max - NOTE_CHARS)
    return [{**rows[0], "lines": fitting}], max(1, sum("column" in line for line in fitting))


def _line_rows(lines: Iterable[TextLine]) -> list[dict[str, Any]]:
    """Return the lines of a file; only a match has a column."""
    return [
        {"line": line.number, "text": line.text} | ({"column": line.column} if line.column else {}) for line in lines
    ]


def _block(part: TextPart, total: int, lines: Sequence[TextLine], room: int) -> tuple[list[str], int]:
    """Return the lines of one file as far as they fit, and the number of matches among them."""
    if not lines:
        return [f"{escape_line(part.path)} · changed since it was counted"], part.take
    of_all = f" · {part.take:,} of {format_count(total, 'match', 'matches')}" if part.take < total else ""
    block, matches = [f"{escape_line(part.path)}{of_all}"], 0
    room -= reply_size(block[0]) + 1
    for line in lines:
        written = f"{line.number}{':' if line.column else '-'}{line.text}"
        room -= reply_size(written) + 1
        if room < 0:
            return (block if matches else []), matches
        block.append(written)
        matches += line.column > 0
    return block, max(matches, part.take)


def _scout_row(file: TextFile, under: str, keywords: Sequence[str], lines: Iterable[TextLine]) -> dict[str, Any]:
    """Return a file in the fields of upstream spec 000."""
    matches = [
        {"keyword": keywords[line.query], "line": line.number, "column": line.column, "preview": line.text.strip()}
        for line in lines
    ]
    return {"path": _below(file.path, under), "matches": matches, "fileSize": file.size_bytes}


def _below(path: str, under: str) -> str:
    """Return the path relative to the searched folder; a file that was searched alone is its name."""
    if path == under:
        return path.rpartition("/")[2]
    return path[len(under) + 1 :] if under else path


def _scout_next(files: int, shown: int, most: int, wanted: int) -> str:
    notes = []
    if shown < files:
        notes.append(f"{format_count(files - shown, 'more file')}: raise maxResults or narrow with filePatterns")
    if most < wanted:
        notes.append(f"at most {format_count(most, 'match', 'matches')} a file fit")
    return "; ".join(notes)


def _grep_rows(path: str, lines: Sequence[TextLine]) -> list[dict[str, Any]]:
    """Return the matches of one file in the fields of upstream spec 003."""
    texts = {line.number: line.text for line in lines}

    def near(numbers: range) -> list[str]:
        return [texts[number] for number in numbers if number in texts]

    return [
        {
            "file": path,
            "line": line.number,
            "column": line.column,
            "text": line.text,
            "context": {
                "before": near(range(line.number - GREP_CONTEXT, line.number)),
                "after": near(range(line.number + 1, line.number + GREP_CONTEXT + 1)),
            },
        }
        for line in lines
        if line.column
    ]


def _silence(scan: Scan) -> dict[str, str]:
    """Return why nothing was found and what to do next, and whether some files could not be searched."""
    note = "" if scan.is_complete else INCOMPLETE
    return drop_empty({"reason": scan.reason, "next": scan.next_step, "note": note})
