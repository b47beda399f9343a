r"""What a prompt names: paths, symbols, errors, stack frames; and where each of them leads.

A name that only its capitals mark as code ("GitHub") is not `certain`: no error is reported if it is not defined. Items
and objective are the words of the prompt itself.

>>> prompt = "Why does `login()` fail at src/auth.py:12 with a KeyError?"
>>> [(mention.text, mention.kind, mention.line) for mention in parse_mentions(prompt)]
[('login()', 'symbol', 0), ('src/auth.py:12', 'path', 12), ('KeyError', 'error', 0)]
>>> extract_items("Do this:\n1. rename `foo`\n- [ ] update the docs"), extract_objective("Login is slow. Fix it.")
(['rename `foo`', 'update the docs'], 'Login is slow.')
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from context_engine.context.budget import find_symbol_at
from context_engine.context.project_knowledge import Workspace
from context_engine.errors import CallError
from context_engine.index import role_of
from context_engine.model import Definition, TextPart, TextQuery
from context_engine.search import drop_lead_in, find_paths, list_tails
from context_engine.text import COMMENT_MARKS, LineSpan, dotted_name, shorten_prose

MentionKind = Literal["path", "symbol", "error"]

MENTIONS_MAX = 24
"""A prompt that names more is a listing; the first names show what it is about."""
FOUND_MAX = 200
"""Most candidates that are examined; many of them are the same name."""
NAME_CHARS_MAX = 200
ITEMS_MAX = 8
ITEM_CHARS_MAX = 160
OBJECTIVE_CHARS_MAX = 200


class Mention(NamedTuple):
    """Something that a prompt names: its text, the `name` it means, and the line it gives (0 for none).

    `function`: the name of the function that a stack frame gives with the line.
    """

    text: str
    kind: MentionKind
    name: str
    line: int = 0
    certain: bool = True
    function: str = ""


_Found = tuple[int, int, Mention]
"""A mention, and where it starts and stops."""
_FENCE = re.compile(r"^(```|~~~).*?(?:^\1|\Z)", re.MULTILINE | re.DOTALL)


def parse_mentions(prompt: str) -> list[Mention]:
    """Return everything that a prompt names, once each, in its order. Of two readings of the same words one wins.

    An address names nothing here. A mention in a code fence is not certain: the code may be from anywhere.
    """
    prompt = _URL.sub(lambda url: " " * len(url[0]), prompt)
    found: list[_Found] = []
    for find in (_find_paths, _find_symbols):
        for start, stop, mention in find(prompt):
            fits = len(found) < FOUND_MAX and len(mention.name) <= NAME_CHARS_MAX
            if fits and not any(start < other[1] and other[0] < stop for other in found):
                found.append((start, stop, mention))
    fences = [match.span() for match in _FENCE.finditer(prompt)]
    mentions: dict[tuple[str, str, int], Mention] = {}
    for start, _, mention in sorted(found):
        if any(first <= start < last for first, last in fences):
            mention = mention._replace(certain=False)
        key = mention.kind, mention.name, mention.line
        known = mentions.setdefault(key, mention)
        if mention.certain and not known.certain:
            mentions[key] = mention
    return list(mentions.values())[:MENTIONS_MAX]


_URL = re.compile(r"https?://[^\s<>\"'`]+")
_SYMBOL = re.compile(
    r"(?<![\w./@$-])(?P<name>[A-Za-z_$][\w$]*(?:(?:\.|::|#|->)[A-Za-z_$][\w$]*)*)(?P<call>\(\))?(?![\w/-])"
)
_CAMEL_CASE = re.compile(r"[a-z0-9][A-Z]")
_ABBREVIATIONS = frozenset(("e.g", "i.e", "a.k.a", "etc", "vs"))


def _find_paths(prompt: str) -> Iterator[_Found]:
    """Find paths and frames; a bare `Node.js` may be something else, and is not certain."""
    for found in find_paths(prompt):
        is_code = _is_inline_code(prompt, found.start, found.stop)
        certain = bool("/" in found.path or found.line or "_" in found.path or is_code)
        text = prompt[found.start : found.stop]
        yield found.start, found.stop, Mention(text, "path", found.path, found.line, certain, found.function)


def _find_symbols(prompt: str) -> Iterator[_Found]:
    """Find names of errors, names in backticks or that are called, and those that no natural language spells so."""
    for match in _SYMBOL.finditer(prompt):
        name = match["name"]
        if name.lower() in _ABBREVIATIONS or len(name.strip("_$")) < 2:
            continue
        is_code = _is_inline_code(prompt, *match.span())
        is_error = name[0].isupper() and name.isidentifier() and name.endswith(("Error", "Exception"))
        is_error = is_error and name not in ("Error", "Exception")
        is_joined = any(mark in name for mark in ("::", "#", "->")) or "_" in name.strip("_")
        if is_code or match["call"] or is_joined or is_error or _CAMEL_CASE.search(name):
            kind: MentionKind = "error" if is_error else "symbol"
            certain = is_code or (is_joined and not is_error)
            yield *match.span(), Mention(match.group(), kind, name.replace("->", "."), certain=certain)


def _is_inline_code(prompt: str, start: int, stop: int) -> bool:
    return prompt[max(0, start - 1) : start] == "`" and prompt[stop : stop + 1] == "`"


_ITEM = re.compile(r"^[ \t]*(?:[-*+\u2022]|\d{1,2}[.)])[ \t]+(?:\[[ xX]?\][ \t]+)?(\S[^\n]*)", re.MULTILINE)


def extract_items(prompt: str) -> list[str]:
    """Return the items of the lists of a prompt, outside code fences."""
    items = (match[1].rstrip() for match in _ITEM.finditer(_FENCE.sub("\n", prompt)))
    return list(dict.fromkeys(shorten_prose(item, ITEM_CHARS_MAX) for item in items))[:ITEMS_MAX]


def extract_objective(prompt: str) -> str:
    """Return the first sentence."""
    text = _FENCE.sub("\n", drop_lead_in(prompt)).strip()
    first = re.split(r"(?<=[.!?])\s|\n", text, maxsplit=1)[0].strip()
    return shorten_prose(first, OBJECTIVE_CHARS_MAX)


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


def resolve_mentions(mentions: Iterable[Mention], workspace: Workspace) -> list[PromptReference]:
    """Look up each mention."""
    found = [
        _resolve_path(mention, workspace) if mention.kind == "path" else _resolve_symbol(mention, workspace)
        for mention in mentions
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
    for tail in list_tails(name):
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
        outline = workspace.symbols.outline(path) if line else None
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
