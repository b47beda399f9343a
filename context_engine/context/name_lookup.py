"""Where the names of a question lead: its paths to files and lines, its symbols to their definitions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from context_engine.context.budget import find_symbol_at
from context_engine.context.project_knowledge import Workspace
from context_engine.errors import CallError
from context_engine.index import PathEnd, role_of
from context_engine.model import Definition, TextPart, TextQuery
from context_engine.search import Mention, MentionKind
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
        line, symbol = f":{self.line}" if self.line else "", f" ({self.symbol})" if self.symbol else ""
        return f"{self.path}{line}{symbol}"


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


def resolve_names(names: Iterable[Mention], workspace: Workspace) -> list[PromptReference]:
    """Look up each name."""
    found = [
        _resolve_path(name, workspace) if name.kind == "path" else _resolve_symbol(name, workspace) for name in names
    ]
    missing = [number for number, reference in enumerate(found) if reference.is_missing and reference.kind == "symbol"]
    for number in missing[:LOOKED_UP_MAX]:
        found[number] = _look_up_text(found[number], workspace)
    return found


def _resolve_path(mention: Mention, workspace: Workspace) -> PromptReference:
    found = _find_files(mention.name, workspace)
    if not found:
        name = mention.name.rpartition("/")[2]
        prefixes = (mention.name.lstrip("/."), name, name.partition(".")[0])
        completed = (workspace.search.complete_path(prefix, limit=NEAR_MAX)[0] for prefix in prefixes)
        near = next(filter(None, completed), ())
        return PromptReference(mention.text, "path", near=near, is_missing=mention.certain)
    if len(found) > 1:
        places = tuple(ReferencePlace(path, mention.line) for path in found[:CANDIDATES_MAX])
        return PromptReference(mention.text, "path", places, len(found) - len(places))
    place, note = _locate_line(found[0], mention.line, workspace, mention.function)
    return PromptReference(mention.text, "path", (place,), note=note)


def _find_files(name: str, workspace: Workspace) -> Sequence[str]:
    """Return the files that the longest known tail of a path names; only the path itself if it is one of them."""
    for tail in PathEnd.list_of(name):
        found = workspace.symbols.files_named(tail.path)
        if exact := [path for path in found if path in (name, tail.path)]:
            return exact
        if found and not tail.is_whole:
            return found
    return ()


def _locate_line(path: str, line: int, workspace: Workspace, function: str = "") -> tuple[ReferencePlace, str]:
    """Return the place of a line, and a note if the file has no such line.

    If the line is outside the function that a frame names, the frame is of another version: its place is the function.
    """
    try:
        outline = workspace.symbols.outline(path, details=False) if line else None
    except CallError:
        outline = None
    if outline is None:
        return ReferencePlace(path), ""
    symbols = [symbol for _, symbol in outline.symbols]
    named = [symbol for symbol in symbols if function and symbol.name == function]
    if named and not any(symbol.span.first <= line <= symbol.span.last for symbol in named):
        nearest = min(named, key=lambda symbol: abs(symbol.span.first - line))
        return ReferencePlace(path, nearest.span.first, nearest.qualified), ""
    if line > outline.lines:
        return ReferencePlace(path), f"it has {outline.lines} lines, no line {line}"
    return ReferencePlace(path, line, find_symbol_at(LineSpan(line, line), symbols)), ""


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
    """Return the definitions that a name means, and similar names if there are none.

    `auth.login` may mean the file or folder `auth` instead of a class.
    """
    owner, _, last = dotted_name(name).rpartition(".")
    found = workspace.symbols.find(name, limit=CANDIDATES_MAX * 4)
    listed = list(found.definitions)
    if owner and not listed:
        module = owner.rpartition(".")[2]
        candidates = workspace.symbols.find(last, limit=CANDIDATES_MAX * 4).definitions
        listed = [symbol for symbol in candidates if _is_in_module(symbol.path, module)]
    exact = [symbol for symbol in listed if symbol.name == last] or listed
    if not exact:
        return [], found.near[:NEAR_MAX]
    main = [symbol for symbol in exact if role_of(symbol.path, "code") not in SECONDARY_ROLES]
    return main or (exact if len(exact) <= SECONDARY_MAX else []), ()


def _is_in_module(path: str, module: str) -> bool:
    *folders, name = path.split("/")
    return module in (*folders, name.partition(".")[0])


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
    listed = paths[:CANDIDATES_MAX]
    parts = [TextPart(path, 0, LINES_READ_MAX) for path in listed]
    lines = workspace.text_search.lines(query, parts, chars_max=LINE_CHARS_MAX)
    rows = [(path, row) for path in listed for row in lines.get(path, ())]
    code = [(path, row.number) for path, row in rows if not row.text.lstrip().startswith(COMMENT_MARKS)]
    written = list(dict(reversed(code)).items())  # the first line of each file
    is_clear = len(written) == 1 and len(paths) <= CANDIDATES_MAX
    places = (_locate_line(*written[0], workspace)[0],) if is_clear else ()
    note = f"nothing is defined under this name; it is written in {', '.join(map(str, listed))}"
    return replace(reference, places=places, near=(), is_missing=False, note=note, is_written=True)
