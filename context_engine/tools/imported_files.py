"""The project files that a file imports, told as far as there is room: whole, else by their signatures, else by name."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

from context_engine.errors import ContextEngineError
from context_engine.text.visible_text import escape_line
from context_engine.tools.search_tools import format_outline
from context_engine.tools.truncate import NOTE_CHARS

if TYPE_CHECKING:
    from context_engine.engine import Engine

NO_ROOM = "did not fit: read it with read_file"
SIGNATURES_CHARS_MAX = 4_000
"""About a hundred signatures; the bodies of so large a file are looked into with read_fragment."""
HEAD_CHARS = 200
"""An outline's head, and the line that says how many symbols it leaves out."""
SIGNATURES_CHARS_MIN = 2 * HEAD_CHARS
"""In less room an outline shows hardly a symbol."""
WRITTEN_PER_CENT = 85
"""Written as JSON, a text grows by its line feeds and quotes; signatures by a tenth."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """One imported file, and how it is told: its content, its signatures, or why neither."""

    path: str
    detail: Literal["content", "signatures", "omitted"]
    text: str

    @property
    def row(self) -> dict[str, Any]:
        """In the words of seed 003."""
        return {"path": self.path, "type": "import", "level": 1, self.detail: self.text}

    @property
    def block(self) -> str:
        """For reading."""
        if self.detail == "omitted":
            return f"@@ import {escape_line(self.path)} · {self.text}"
        how = " · signatures" if self.detail == "signatures" else ""
        return f"@@ import {escape_line(self.path)}{how}\n{self.text}"


def fit_dependencies(
    engine: "Engine", paths: Sequence[str], room: int, cost: Callable[[Dependency], int]
) -> tuple[list[Dependency], int]:
    """(what fits into the room, in the order given; how many are not even named).

    All are named before any is told at length. Then the smallest comes first, and each may take an even share of what
    the smaller ones left: many small files are told whole, the large ones by their signatures.
    """
    names = [Dependency(path, "omitted", NO_ROOM) for path in paths]
    costs = [*accumulate(cost(each) for each in names)]
    count = bisect_right(costs, room)
    room -= costs[count - 1] if count else 0
    told = [_content(engine, name) for name in names[:count]]
    by_size = sorted(range(count), key=lambda number: cost(told[number]))
    for turn, number in enumerate(by_size):
        share = cost(names[number]) + room // (count - turn)
        told[number] = _within(engine, told[number], names[number], share, cost)
        room -= cost(told[number]) - cost(names[number])
    return told, len(paths) - count


def _content(engine: "Engine", name: Dependency) -> Dependency:
    """A file whole, or why it cannot be read."""
    try:
        return Dependency(name.path, "content", engine.files.read(name.path).text)
    except ContextEngineError as error:
        return Dependency(name.path, "omitted", error.message)


def _within(
    engine: "Engine", whole: Dependency, name: Dependency, share: int, cost: Callable[[Dependency], int]
) -> Dependency:
    """The fullest way to tell of a file within a share of the room."""
    if whole.detail == "content" and cost(whole) > share:
        whole = _signatures(engine, name, share)
    return whole if cost(whole) <= share else name


def _signatures(engine: "Engine", name: Dependency, share: int) -> Dependency:
    """What a file defines; its name alone when that is nothing or there is no room to speak of."""
    if share < SIGNATURES_CHARS_MIN:
        return name
    try:
        outline = engine.symbols.outline(name.path)
    except ContextEngineError as error:  # gone since it was read
        return Dependency(name.path, "omitted", error.message)
    chars_max = min(SIGNATURES_CHARS_MAX, share * WRITTEN_PER_CENT // 100 - HEAD_CHARS)
    text = format_outline(outline, chars_max + NOTE_CHARS)
    return Dependency(name.path, "signatures", text) if outline.symbols else name
