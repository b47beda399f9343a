"""Tools that read files out and list folders. Nothing here opens a file: the Engine does, behind its path rules."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.errors import CallError, TooLarge
from context_engine.tools.arguments import Choice, Flag, Text, Whole
from context_engine.tools.fit import NOTE_CHARS, compact, counted, how_many_fit
from context_engine.tools.retrieval import outline_text
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.model import FileText, TreeEntry

SHA_CHARS = 12


@tool(touches="nothing", aliases=("get_file",))
def read_file(
    engine: "Engine",
    call: Call,  # noqa: ARG001 - every tool takes it
    path: Annotated[str, Text("File, relative to the workspace root.", 1)],
    start_line: Annotated[int | None, Whole("First line to read, from 1; empty: the start.", 1, 10**9)] = None,
    end_line: Annotated[int | None, Whole("Last line to read, included; empty: the end.", 1, 10**9)] = None,
    include_deps: Annotated[bool, Flag("Add the project files it imports; JSON.")] = False,
    max_depth: Annotated[int, Whole("How far to follow imports, 0-1.", 0, 1)] = 1,
    format: Annotated[str | None, Choice("text or json; empty: text, json with deps.", ("text", "json"))] = None,  # noqa: A002 - the contract's name
) -> Reply:
    """Read a file, or a range of its lines, after one header line with path, lines, language and hash.

    Files over 1 MB answer with their outline and how to read parts. include_deps adds the project files it imports.
    """
    try:
        read = engine.read(path, first=start_line, last=end_line)
    except TooLarge as error:
        return _too_large(engine, path, error)
    if (format or ("json" if include_deps else "text")) == "text":
        return Reply(_file_text(read, engine.settings.result_chars_max))
    dependencies = engine.dependencies(path) if include_deps and max_depth else ()
    return Reply(_file_json(engine, read, dependencies))


@tool(touches="nothing")
def list_directory(
    engine: "Engine",
    call: Call,  # noqa: ARG001 - every tool takes it
    path: Annotated[str, Text("Folder, relative to the workspace root.")] = ".",
    depth: Annotated[int, Whole("Levels, 1-10.", 1, 10)] = 2,
    max_items: Annotated[int, Whole("Entries, 1-2000.", 1, 2_000)] = 200,
    include_hidden: Annotated[bool, Flag("Show dot files too.")] = False,
    sizes: Annotated[bool, Flag("Show file sizes.")] = False,
) -> Reply:
    """List a directory as a tree, ignore rules applied: the quick way to see how a project is laid out.

    Folders that were cut short say how many items they hold back.
    """
    entries = engine.list_directory(path or ".", depth=depth, max_items=max_items, include_hidden=include_hidden)
    if not entries:
        return Reply(f"{path} · empty (ignored{'' if include_hidden else ' and hidden'} files are not listed)")
    rows = tree_rows(entries, sizes=sizes)
    count = how_many_fit(rows, chars_max=engine.settings.result_chars_max - NOTE_CHARS)
    shown = sum(not entry.hidden_items for entry in entries[:count])
    lines = [f"{path} · depth {depth} · {counted(shown, 'item')}", *rows[:count]]
    if count < len(rows):
        lines.append(f"… {counted(len(rows) - count, 'more line')}: list a folder of it, or lower depth.")
    return Reply("\n".join(lines))


def tree_rows(entries: Sequence["TreeEntry"], *, sizes: bool) -> list[str]:
    """The lines of a tree with its branches drawn.

    An entry is the last of its folder when nothing of its depth follows before something less deep.
    """
    rows: list[str] = []
    open_levels: dict[int, bool] = {}
    last = _is_last(entries)
    base = min((entry.depth for entry in entries), default=0)
    for entry, ends in zip(entries, last, strict=True):
        bars = "".join("│   " if open_levels.get(level) else "    " for level in range(base, entry.depth))
        open_levels[entry.depth] = not ends
        rows.append(f"{bars}{'└── ' if ends else '├── '}{_label(entry, sizes=sizes)}")
    return rows


def _is_last(entries: Sequence["TreeEntry"]) -> list[bool]:
    """Whether each entry ends its folder; read from the end, one level is open while a sibling was seen."""
    last: list[bool] = []
    seen: set[int] = set()
    for entry in reversed(entries):
        seen = {level for level in seen if level <= entry.depth}
        last.append(entry.depth not in seen)
        seen.add(entry.depth)
    return last[::-1]


def _label(entry: "TreeEntry", *, sizes: bool) -> str:
    if entry.hidden_items:
        return f"... {entry.hidden_items:,} more"
    if entry.is_folder:
        return f"{entry.name.rstrip('/')}/"
    return f"{entry.name} ({size_text(entry.size_bytes)})" if sizes else entry.name


def size_text(size_bytes: int) -> str:
    """A size a person can read.

    >>> size_text(512), size_text(2048), size_text(3_400_000)
    ('512 B', '2.0 kB', '3.2 MB')
    """
    size, unit = float(size_bytes), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            break
        size /= 1024
    return f"{size_bytes} B" if unit == "B" else f"{size:.1f} {unit}"


def _file_text(read: "FileText", chars_max: int) -> str:
    """Header, then whole lines; what does not fit is named with the line to go on from."""
    lines = read.text.split("\n")
    if lines and lines[-1] == "" and read.text:
        lines.pop()
    count = how_many_fit(lines, chars_max=chars_max - NOTE_CHARS)
    first, last = read.span
    note = ""
    if count == 0 and lines:
        lines[0] = lines[0][: chars_max - NOTE_CHARS]
        count, note = 1, f"\n… line {first} is {len(read.text.split(chr(10))[0]):,} characters long and was cut here"
    if count < len(lines):
        note += f"\n… {counted(len(lines) - count, 'more line')} did not fit: read_file with start_line {first + count}"
    until = first + count - 1 if count < len(lines) else last
    shown = f"lines {first}-{until} of {read.lines}" if read.lines else "empty"
    head = f"{read.path} · {shown} · {read.language or 'text'} · sha256 {read.sha256[:SHA_CHARS]}"
    return "\n".join([head, *lines[:count]]) + note


def _file_json(engine: "Engine", read: "FileText", dependencies: Sequence[str]) -> str:
    """The shape of seed 003: the file, what it imports with content while there is room, and what is known of it."""
    row: dict[str, Any] = {
        "file": {
            "path": read.path,
            "content": read.text,
            "size": read.size_bytes,
            "lines": read.lines,
            "language": read.language,
        },
        "dependencies": [],
        "metadata": {"module": _module(read.path), "role": _role(read.path), "lastModified": read.modified_at},
    }
    room = engine.settings.result_chars_max - NOTE_CHARS - len(compact(row))
    if room < 0:
        lines = counted(read.lines, "line")
        raise TooLarge(
            f"{read.path} as JSON is over the limit of {engine.settings.result_chars_max:,} characters",
            suggestion=f"Read parts of its {lines} with start_line and end_line, or use format text.",
            details={"lines": read.lines, "size": read.size_bytes},
        )
    for dependency in dependencies:
        entry = _dependency(engine, dependency, room)
        room -= len(compact(entry)) + 1
        row["dependencies"].append(entry)
    return compact(row)


def _dependency(engine: "Engine", path: str, room: int) -> dict[str, Any]:
    """One imported file, with its content while it fits; a file that cannot be read is still named."""
    entry: dict[str, Any] = {"path": path, "type": "import", "level": 1}
    try:
        content = engine.read(path).text
    except CallError as error:
        return entry | {"omitted": error.message}
    if len(compact(content)) > room:
        return entry | {"omitted": "did not fit; read it with read_file"}
    return entry | {"content": content}


def _too_large(engine: "Engine", path: str, error: TooLarge) -> Reply:
    """The skeleton of a file that is over the limit, and how to read it."""
    try:
        skeleton = outline_text(engine.outline(path), engine.settings.result_chars_max - NOTE_CHARS)
    except CallError:
        raise error from None  # not even an outline: the limit is what the caller must hear of
    return Reply(f"{skeleton}\n{error.message}; read parts of it with start_line and end_line.")


def _module(path: str) -> str:
    parts = path.split("/")
    return parts[-2] if len(parts) > 1 else "root"


def _role(path: str) -> str:
    """What a file is for, as far as its path tells."""
    parts = path.lower().split("/")
    if any(part in ("test", "tests", "spec", "specs", "__tests__") or part.startswith("test_") for part in parts):
        return "test"
    if "docs" in parts or parts[-1].endswith((".md", ".rst")):
        return "documentation"
    return "config" if parts[-1].endswith((".toml", ".yml", ".yaml", ".json", ".ini", ".cfg")) else "core"
