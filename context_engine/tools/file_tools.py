"""The folder tool, and what a reply shows of a whole file: its JSON, its imports. Only the Engine opens files."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, Literal

from context_engine.errors import ContextEngineError
from context_engine.text import compact_json, drop_empty, escape_line, format_count, format_size, split_lines
from context_engine.tools.arguments import BooleanArg, IntegerArg, TextArg
from context_engine.tools.reply import NOTE_CHARS, clip_line, count_fitting, reply_size
from context_engine.tools.symbol_tools import format_outline
from context_engine.tools.tool import Reply, tool

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.model import FileOutline, FileText, TreeEntry

SHA_CHARS = 12
IMPORTS_SHARE = 4
"""One part in four of a reply is reserved for the imports of a file, if the caller asks for them."""
PROBLEMS_MAX = 3
LINE_CHARS_MAX = 160
AROUND = "search_text shows it around a word"


@tool(touches="nothing", rare=("sizes",))
def list_directory(
    engine: "Engine",
    path: Annotated[str, TextArg("Folder to list.")] = ".",
    depth: Annotated[int, IntegerArg("Levels, 1-10.", 1, 10)] = 2,
    max_items: Annotated[int, IntegerArg("Entries, 1-2000.", 1, 2_000)] = 200,
    include_hidden: Annotated[bool, BooleanArg("Show dot files too.")] = False,
    sizes: Annotated[bool, BooleanArg("Show file sizes.")] = False,
) -> Reply:
    """List a directory as a tree without ignored files: the quick way to see how a project is laid out.

    Folders that are cut count their hidden items.
    """
    return Reply(format_tree(engine, path or ".", depth, max_items, include_hidden=include_hidden, sizes=sizes))


def format_tree(
    engine: "Engine", path: str, depth: int, max_items: int, *, include_hidden: bool = False, sizes: bool = False
) -> str:
    """Format a folder as a tree under a header. Raises: as `WorkspaceFiles.list_directory`."""
    entries = engine.files.list_directory(path, depth=depth, max_items=max_items, include_hidden=include_hidden)
    if not entries:
        unlisted = "ignored" if include_hidden else "ignored and hidden"
        return f"{escape_line(path)} · empty ({unlisted} files are not listed)"
    rows = draw_tree(entries, sizes=sizes)
    count = count_fitting(rows, chars_max=engine.settings.result_chars_max - NOTE_CHARS)
    shown = sum(not entry.hidden_items for entry in entries[:count])
    lines = [f"{escape_line(path)} · {format_count(shown, 'item')}", *rows[:count]]
    if count < len(rows):
        lines.append(f"… {format_count(len(rows) - count, 'more line')}: list a folder of it, or lower depth.")
    return "\n".join(lines)


def draw_tree(entries: Sequence["TreeEntry"], *, sizes: bool) -> list[str]:
    """Draw the lines of a tree with its branches.

    An entry is the last of its folder if no entry of its depth follows before a less deep one: they are read from the
    end.
    """
    rows: list[str] = []
    open_levels: set[int] = set()  # those with a later entry below the same folder
    base = min((entry.depth for entry in entries), default=0)
    for entry in reversed(entries):
        bars = "".join("│   " if level in open_levels else "    " for level in range(base, entry.depth))
        rows.append(f"{bars}{'├── ' if entry.depth in open_levels else '└── '}{_label(entry, sizes=sizes)}")
        open_levels = {level for level in open_levels if level < entry.depth} | {entry.depth}
    return rows[::-1]


def _label(entry: "TreeEntry", *, sizes: bool) -> str:
    if entry.hidden_items:
        return f"... {entry.hidden_items:,} more"
    if entry.is_folder:
        return f"{escape_line(entry.name.rstrip('/'))}/"
    size = f" ({entry.note or format_size(entry.size_bytes)})" if sizes else ""
    return f"{escape_line(entry.name)}{size}"


def list_problems(outline: "FileOutline") -> list[str]:
    """Return the parse errors of a file, since its list of imports may be incomplete."""
    shown = [f"line {line}: {message}; imports may be missing" for line, message in outline.problems[:PROBLEMS_MAX]]
    return [clip_line(problem, LINE_CHARS_MAX) for problem in shown]


def format_file_json(engine: "Engine", read: "FileText", imported: Sequence[str], notes: Sequence[str]) -> str:
    """Format the file, its imports as far as they fit, and its metadata, as in upstream spec 003."""
    file = {"path": read.path, "content": "", "size": read.size_bytes, "lines": read.lines, "language": read.language}
    folder = read.path.rpartition("/")[0].rpartition("/")[2]
    metadata = {"module": folder or "root", "role": _role(read.path), "lastModified": read.modified_at}
    row: dict[str, Any] = {"file": file, "dependencies": [], "metadata": metadata}
    room = engine.settings.result_chars_max - NOTE_CHARS - reply_size(compact_json([row, notes]))
    file |= _content(read, room - room // IMPORTS_SHARE if imported else room)
    room -= reply_size(compact_json(file["content"]))
    shown, left = fit_dependencies(
        engine, imported, room, lambda dependency: reply_size(compact_json(dependency.row)) + 1
    )
    row["dependencies"] = [dependency.row for dependency in shown]
    return compact_json(row | drop_empty({"notes": [*note_unlisted(left), *notes]}))


def _content(read: "FileText", room: int) -> dict[str, Any]:
    """Return a file's text as far as its JSON fits the room, and the next line if it is cut."""
    if reply_size(compact_json(read.text)) <= room:
        return {"content": read.text}
    lines = split_lines(read.text)
    count = count_fitting((compact_json(line) for line in lines), chars_max=room, between=0)
    if count:
        return {"content": "\n".join([*lines[:count], ""]), "nextLine": read.span.first + count}
    shown = lines[0][:room]
    while reply_size(compact_json(shown)) > room:  # escapes take more room than characters
        shown = shown[: len(shown) // 2]
    rest = {"nextLine": read.span.first + 1} if len(lines) > 1 else {}
    return {"content": shown, "cut": f"line {read.span.first} is {len(lines[0]):,} characters long; {AROUND}"} | rest


def note_unlisted(left: int) -> list[str]:
    """Return a note on the imports that are not even named."""
    note = f"{format_count(left, 'more import')} did not fit: symbols names them (relation imports)"
    return [note] if left else []


def _role(path: str) -> str:
    """Return the role of a file, as far as its path shows it."""
    parts = path.lower().split("/")
    if any(part in ("test", "tests", "spec", "specs", "__tests__") or part.startswith("test_") for part in parts):
        return "test"
    if "docs" in parts or parts[-1].endswith((".md", ".rst")):
        return "documentation"
    if parts[-1].endswith((".toml", ".yml", ".yaml", ".json", ".ini", ".cfg")):
        return "config"
    return "core"


NO_ROOM = "did not fit: read it"
SIGNATURES_CHARS_MAX = 4_000
"""About a hundred signatures."""
HEAD_CHARS = 200
"""An outline's head, and the line that says how many symbols it leaves out."""
SIGNATURES_CHARS_MIN = 2 * HEAD_CHARS
"""With less room, an outline shows hardly any symbol."""
WRITTEN_PER_CENT = 85
"""As JSON, a text grows by its escaped line feeds and quotes, signatures by a tenth."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """One imported file with its content, its signatures, or the reason for neither."""

    path: str
    detail: Literal["content", "signatures", "omitted"]
    text: str

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


def fit_dependencies(
    engine: "Engine", paths: Sequence[str], room: int, cost: Callable[[Dependency], int]
) -> tuple[list[Dependency], int]:
    """Return the files that fit into the room, in the given order, and the number that are not even named.

    All names come first. Then the smallest file is expanded first, and each file may use an even share of the room that
    is left. So many small files appear whole, and large ones by their signatures.
    """
    names = [Dependency(path, "omitted", NO_ROOM) for path in paths]
    costs = [*accumulate(cost(name) for name in names)]
    count = bisect_right(costs, room)
    room -= costs[count - 1] if count else 0
    shown = [_read_dependency(engine, name) for name in names[:count]]
    by_size = sorted(range(count), key=lambda number: cost(shown[number]))
    for turn, number in enumerate(by_size):
        share = cost(names[number]) + room // (count - turn)
        shown[number] = _fit_dependency(engine, shown[number], names[number], share, cost)
        room -= cost(shown[number]) - cost(names[number])
    return shown, len(paths) - count


def _read_dependency(engine: "Engine", name: Dependency) -> Dependency:
    """Return a file with its content, or with the reason why it cannot be read."""
    try:
        return Dependency(name.path, "content", engine.files.read(name.path).text)
    except ContextEngineError as error:
        return Dependency(name.path, "omitted", error.message)


def _fit_dependency(
    engine: "Engine", whole: Dependency, name: Dependency, share: int, cost: Callable[[Dependency], int]
) -> Dependency:
    """Return the most complete form of a file that fits its share of the room."""
    if whole.detail == "content" and cost(whole) > share:
        whole = _dependency_signatures(engine, name, share)
    return whole if cost(whole) <= share else name


def _dependency_signatures(engine: "Engine", name: Dependency, share: int) -> Dependency:
    """Return the signatures of a file, or only its name if it has none or they do not fit."""
    if share < SIGNATURES_CHARS_MIN:
        return name
    try:
        outline = engine.symbols.outline(name.path)
    except ContextEngineError as error:  # deleted since it was read
        return Dependency(name.path, "omitted", error.message)
    chars_max = min(SIGNATURES_CHARS_MAX, share * WRITTEN_PER_CENT // 100 - HEAD_CHARS)
    text = format_outline(outline, chars_max + NOTE_CHARS)
    return Dependency(name.path, "signatures", text) if outline.symbols else name
