"""The project files that a file imports, as far as they fit a reply: whole, else their signatures, else their names."""

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
"""About a hundred signatures; read_fragment shows the bodies of such a large file."""
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
    shown = [_content(engine, name) for name in names[:count]]
    by_size = sorted(range(count), key=lambda number: cost(shown[number]))
    for turn, number in enumerate(by_size):
        share = cost(names[number]) + room // (count - turn)
        shown[number] = _within(engine, shown[number], names[number], share, cost)
        room -= cost(shown[number]) - cost(names[number])
    return shown, len(paths) - count


def _content(engine: "Engine", name: Dependency) -> Dependency:
    """Return a file with its content, or with the reason why it cannot be read."""
    try:
        return Dependency(name.path, "content", engine.files.read(name.path).text)
    except ContextEngineError as error:
        return Dependency(name.path, "omitted", error.message)


def _within(
    engine: "Engine", whole: Dependency, name: Dependency, share: int, cost: Callable[[Dependency], int]
) -> Dependency:
    """Return the most complete form of a file that fits its share of the room."""
    if whole.detail == "content" and cost(whole) > share:
        whole = _signatures(engine, name, share)
    return whole if cost(whole) <= share else name


def _signatures(engine: "Engine", name: Dependency, share: int) -> Dependency:
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
