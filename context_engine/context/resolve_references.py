"""Looks up the names of a prompt in the workspace: each leads to places or to similar names, or is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from context_engine.context.budget import find_symbol_at
from context_engine.context.commands import Command
from context_engine.context.prompt_parsing import Mention, MentionKind
from context_engine.context.workspace import Workspace
from context_engine.errors import CallError
from context_engine.index import role_of
from context_engine.model import Definition, TextLine, TextPart, TextQuery
from context_engine.search import list_tails
from context_engine.text import COMMENT_MARKS, LineSpan, dotted_name

CANDIDATES_MAX = 5
"""Places of one name that a question can list."""
NEAR_MAX = 3
SECONDARY_ROLES = frozenset(("test", "example", "bench", "docs", "vendor", "generated"))
"""Definitions in files of these roles count only if no other file defines the name, and there are few of them."""
SECONDARY_MAX = 2
"""A name that ten tests define, such as `base_dir`, means none of them."""
LOOKED_UP_MAX = 3
"""Names without a definition that the text of the files is searched for."""
LINES_READ_MAX, LINE_CHARS_MAX = 20, 200
"""Lines of a file with such a name, and their characters, that are looked at."""


class ReferencePlace(NamedTuple):
    """Where a reference leads. `line` 0 is the file as a whole; `symbol` is the symbol at that line."""

    path: str
    line: int = 0
    symbol: str = ""

    def __str__(self) -> str:
        """Format the place for people.

        >>> str(ReferencePlace("a.py", 3, "f")), str(ReferencePlace("a.py"))
        ('a.py:3 (f)', 'a.py')
        """
        line = f":{self.line}" if self.line else ""
        if self.symbol:
            return f"{self.path}{line} ({self.symbol})"
        return f"{self.path}{line}"


@dataclass(frozen=True, slots=True)
class PromptReference:
    """Something that a prompt names, and its places; several make it ambiguous. `more` counts those not listed.

    Without a place, `near` lists similar names, and `is_missing` says that the name should exist. `is_written`: nothing
    is defined under the name, and code has it as a word.
    """

    text: str
    kind: MentionKind
    places: tuple[ReferencePlace, ...] = ()
    more: int = 0
    near: tuple[str, ...] = ()
    is_missing: bool = False
    note: str = ""
    is_written: bool = False

    @property
    def is_ambiguous(self) -> bool:
        """Whether the user has to choose a place."""
        return len(self.places) + self.more > 1


def resolve_mentions(
    mentions: Iterable[Mention], workspace: Workspace, commands: Sequence[Command] = ()
) -> list[PromptReference]:
    """Look up each mention. `commands` are those of the repository."""
    found = [_resolve(mention, workspace, commands) for mention in mentions]
    missing = [number for number, reference in enumerate(found) if reference.is_missing and reference.kind == "symbol"]
    for number in missing[:LOOKED_UP_MAX]:
        found[number] = _look_up_text(found[number], workspace)
    return found


def _resolve(mention: Mention, workspace: Workspace, commands: Sequence[Command]) -> PromptReference:
    match mention.kind:
        case "path":
            return _resolve_path(mention, workspace)
        case "symbol" | "error":
            return _resolve_symbol(mention, workspace)
        case "command":
            sources = (command.source for command in commands if mention.name.startswith(command.text))
            return PromptReference(mention.text, "command", tuple(map(ReferencePlace, sources))[:1])
    return PromptReference(mention.text, mention.kind)


# -- paths ------------------------------------------------------------------------------------------------------------


def _resolve_path(mention: Mention, workspace: Workspace) -> PromptReference:
    found = _find_files(mention.name, workspace)
    if not found:
        near = _find_near_paths(mention.name, workspace)
        return PromptReference(mention.text, "path", near=near, is_missing=mention.certain)
    if len(found) > 1:
        places = tuple(ReferencePlace(path, mention.line) for path in found[:CANDIDATES_MAX])
        return PromptReference(mention.text, "path", places, len(found) - len(places))
    place, note = _locate_line(found[0], mention.line, workspace, mention.function)
    return PromptReference(mention.text, "path", (place,), note=note)


def _find_files(name: str, workspace: Workspace) -> Sequence[str]:
    """Return the files that the longest known tail of a path names; only the path itself if it is one of them."""
    for tail in list_tails(name):
        found = workspace.symbols.files_named(tail.path)
        if exact := [path for path in found if path in (name, tail.path)]:
            return exact
        if found and not tail.is_whole:
            return found
    return ()


def _find_near_paths(path: str, workspace: Workspace) -> tuple[str, ...]:
    name = path.rpartition("/")[2]
    for prefix in (path.lstrip("/."), name, name.partition(".")[0]):
        if found := workspace.search.complete_path(prefix, limit=NEAR_MAX)[0]:
            return found
    return ()


def _locate_line(path: str, line: int, workspace: Workspace, function: str = "") -> tuple[ReferencePlace, str]:
    """Return the place of a line, and a note if the file has no such line.

    If the line is outside the function that a frame names, the frame is of another version: its place is the function.
    """
    try:
        outline = None
        if line:
            outline = workspace.symbols.outline(path)
    except CallError:
        outline = None
    if outline is None:
        return ReferencePlace(path), ""
    named = [symbol for _, symbol in outline.symbols if function and symbol.name == function]
    if named and not any(symbol.span.first <= line <= symbol.span.last for symbol in named):
        nearest = min(named, key=lambda symbol: abs(symbol.span.first - line))
        return ReferencePlace(path, nearest.span.first, nearest.qualified), ""
    if line > outline.lines:
        return ReferencePlace(path), f"it has {outline.lines} lines, no line {line}"
    symbols = [symbol for _, symbol in outline.symbols]
    return ReferencePlace(path, line, find_symbol_at(LineSpan(line, line), symbols)), ""


# -- symbols ----------------------------------------------------------------------------------------------------------


def _resolve_symbol(mention: Mention, workspace: Workspace) -> PromptReference:
    try:
        definitions, near = _find_definitions(mention.name, workspace)
    except CallError:  # without an index it cannot be called missing
        return PromptReference(mention.text, mention.kind)
    shown = definitions[:CANDIDATES_MAX]
    places = tuple(ReferencePlace(symbol.path, symbol.span.first, symbol.qualified) for symbol in shown)
    is_missing = not definitions and bool(near) and mention.certain and mention.kind == "symbol"
    return PromptReference(mention.text, mention.kind, places, len(definitions) - len(places), near, is_missing)


def _find_definitions(name: str, workspace: Workspace) -> tuple[list[Definition], tuple[str, ...]]:
    """Return the definitions that a name means, and similar names if there are none."""
    found = workspace.symbols.find(name, limit=CANDIDATES_MAX * 4)
    listed = list(found.definitions) or find_in_module(name, workspace)
    last = _split_owner(name)[1]
    exact = [symbol for symbol in listed if symbol.name == last] or listed
    if not exact:
        return [], found.near[:NEAR_MAX]
    main = [symbol for symbol in exact if role_of(symbol.path, "code") not in SECONDARY_ROLES]
    if main or len(exact) <= SECONDARY_MAX:
        return main or exact, ()
    return [], ()


def find_in_module(name: str, workspace: Workspace) -> list[Definition]:
    """Find `auth.login` where `auth` is a file or folder and not a class."""
    owner, last = _split_owner(name)
    if not owner:
        return []
    module = owner.rpartition(".")[2]
    definitions = workspace.symbols.find(last, limit=CANDIDATES_MAX * 4).definitions
    return [symbol for symbol in definitions if _is_in_module(symbol.path, module)]


def _split_owner(name: str) -> tuple[str, str]:
    owner, _, last = dotted_name(name).rpartition(".")
    return owner, last


def _is_in_module(path: str, module: str) -> bool:
    *folders, name = path.split("/")
    return module in (*folders, name.partition(".")[0])


# -- words without a definition ---------------------------------------------------------------------------------------


def _look_up_text(reference: PromptReference, workspace: Workspace) -> PromptReference:
    """Return a reference to a name that code writes without defining it, such as the key of an option or a directive.

    It leads to its place if one source file has it in code, else it only is not missing.
    """
    word = rf"\b{re.escape(reference.text.strip('`'))}\b"
    query = TextQuery((word,), regex=True, case_sensitive=True)
    found = [file.path for file in workspace.text_search.scan(query).files]
    paths = [path for path in found if role_of(path, "code") not in SECONDARY_ROLES]
    if not paths:
        return reference
    parts = [TextPart(path, 0, LINES_READ_MAX) for path in paths[:CANDIDATES_MAX]]
    lines = workspace.text_search.lines(query, parts, chars_max=LINE_CHARS_MAX)
    written = [(path, number) for path in paths[:CANDIDATES_MAX] if (number := _first_code_line(lines.get(path, ())))]
    places = ()
    if len(written) == 1 and len(paths) <= CANDIDATES_MAX:
        places = (_locate_line(*written[0], workspace)[0],)
    note = f"nothing is defined under this name; it is written in {', '.join(map(str, paths[:CANDIDATES_MAX]))}"
    return replace(reference, places=places, near=(), is_missing=False, note=note, is_written=True)


def _first_code_line(lines: Iterable[TextLine]) -> int:
    """Return the number of the first line that is not a comment; 0 if there is none."""
    return next((line.number for line in lines if not line.text.lstrip().startswith(COMMENT_MARKS)), 0)
