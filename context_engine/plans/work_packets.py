"""PURE. Work packets: everything needed to carry out one step, within a budget of tokens.

A packet contains the definitions that the evidence and the text of the step name, whole, and the code around its other
places. It contains the acceptance criteria, and nothing about how to meet them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

import msgspec

from context_engine.context import (
    BriefSection,
    PromptReference,
    Workspace,
    build_brief,
    find_symbol_at,
    glob_for_path,
    resolve_names,
    widen_to_symbol,
)
from context_engine.errors import CallError
from context_engine.model import Definition, Filter, Query
from context_engine.plans.model import Plan, PlanStep
from context_engine.search import Mention, TaskText
from context_engine.text import (
    LineSpan,
    count_lines,
    dotted_name,
    escape_line,
    estimate_tokens,
    merge_spans,
    slice_lines,
)

PACKET_TOKENS_MAX = 2_000
"""Of one packet, as the contract has it, unless it names a definition that is longer."""
WHOLE_TOKENS_MAX = 8_000
"""Of a packet with the definitions that its step names: half a function cannot be changed."""
FIELD_TOKENS = 8
"""Tokens for the name and the brackets of the snippets of a file."""
SHA_CHARS = 12
HEADS_SHARE = 0.5
"""Share of the budget for naming files: a packet of names alone is useless."""
WIDENED_LINES_MAX = 60
"""Of a longer definition the lines around the place are shown."""
FOUND_LINES_MAX = 200
"""Of a definition that only search found, to be shown whole."""
CONTEXT_LINES = 3
ABOVE_LINES = 40
"""A definition is found at the first line of the comment above it."""
BELOW_LINES = 20
"""Lines below a place that is in no definition."""
FILES_MAX = 40
READ_MAX = 3
"""Files that the text of a step mentions without listing them among its files."""
NAMESAKES_MAX = 3
"""Definitions of one name in one file."""
STEP_TASK = (
    "Write the changes of one step of a plan, as JSON by the schema, and nothing that belongs to another step. Quote "
    "text to be replaced exactly as it is below; give new files whole. Do not guess: leave out a file that you do not "
    "know."
)


class PacketSnippet(msgspec.Struct, frozen=True, omit_defaults=True):
    """Lines of a file, and the definition that they are a part of."""

    lines: str
    symbol: str = ""
    text: str = ""


class PacketFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of a step. `sha` is empty if it cannot be read; `why` is its evidence; not all lines may be shown."""

    path: str
    change: str  # modify | create | delete | read
    sha: str = ""
    why: str = ""
    note: str = ""
    snippets: tuple[PacketSnippet, ...] = ()


class WorkPacket(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One step, ready to be worked on, as a reply has it. `files_left_out` counts the files that had no room."""

    step: int
    uid: str
    title: str
    status: str = ""
    why: str = ""
    waits_for: tuple[int, ...] = ()
    files: tuple[PacketFile, ...] = ()
    files_left_out: int = 0
    acceptance_criteria: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()

    def brief(self, context: str = "") -> str:
        """Return the prompt for a model that writes the changes, the most important part first."""
        code = [
            f"{escape_line(file.path)}:{snippet.lines} {snippet.symbol}\n{snippet.text.rstrip()}"
            for file in self.files
            for snippet in file.snippets
        ]
        sections = [
            BriefSection("Step", [self.title, *self.why.split("\n")[:1]]),
            BriefSection("What the caller adds", [context] if context.strip() else []),
            BriefSection("Done when", self.acceptance_criteria),
            BriefSection("Files", [f"{escape_line(file.path)} ({file.change})" for file in self.files]),
            BriefSection("Code", code),
        ]
        return build_brief(STEP_TASK, sections)


@dataclass(frozen=True, slots=True, eq=False)
class _OpenFile:
    """A file of a step with its text and definitions; without them if it is not to be shown."""

    head: PacketFile
    text: str = ""
    symbols: Sequence[Definition] = ()

    def read_snippet(self, span: LineSpan) -> PacketSnippet:
        """Return these lines of it."""
        text = slice_lines(self.text, span.first, min(span.last, count_lines(self.text)))
        return PacketSnippet(str(span), find_symbol_at(span, self.symbols), text)


class _Place(NamedTuple):
    """Lines of a file to show, and whether they are a definition that the step names, which is shown whole."""

    file: _OpenFile
    span: LineSpan
    is_named: bool = False


def build_packet(plan: Plan, step: PlanStep, code: Workspace, status: str = "") -> WorkPacket:
    """Build the packet of a step. A file that is gone or unreadable is named, without its text.

    It costs `PACKET_TOKENS_MAX` as JSON, or `WHOLE_TOKENS_MAX` with the definitions that the step names.
    """
    names = TaskText(f"{step.title}\n{step.description}").names
    references = _resolve(names, code)
    heads = _list_files(step, references, code)
    packet = WorkPacket(
        step=plan.step_numbers()[step.uid],
        uid=step.uid,
        title=step.title,
        status=status,
        why=step.description or plan.goal,
        waits_for=tuple(plan.list_numbers(step.depends_on)),
        files_left_out=len(heads),
        acceptance_criteria=step.acceptance_criteria,
        checks=step.checks,
    )
    if (room := PACKET_TOKENS_MAX - _price(packet)) < 0:
        packet = msgspec.structs.replace(packet, why=step.title)
        room = PACKET_TOKENS_MAX - _price(packet)
    shown = _select_files(heads, room * HEADS_SHARE)
    room -= sum(map(_price, shown)) + FIELD_TOKENS * len(shown)
    opened = [_open_file(head, code) for head in shown]
    places = [_find_places(file, step, names, references, code) for file in opened]
    # The first place of each file comes before the second of any, and named definitions before all others.
    ordered = [place for turn in zip_longest(*places) for place in turn if place]
    spans: dict[str, list[LineSpan]] = defaultdict(list)
    for place in sorted(ordered, key=lambda place: not place.is_named):
        cost = _price(place.file.read_snippet(place.span))
        if cost <= room + (WHOLE_TOKENS_MAX - PACKET_TOKENS_MAX) * place.is_named:
            room -= cost
            spans[place.file.head.path].append(place.span)
    files = []
    for file in opened:
        snippets = tuple(map(file.read_snippet, merge_spans(spans[file.head.path])))
        files.append(msgspec.structs.replace(file.head, snippets=snippets))
    return msgspec.structs.replace(packet, files=tuple(files), files_left_out=len(heads) - len(files))


def _price(value: msgspec.Struct) -> int:
    """Return the tokens of a part of a packet as JSON."""
    return estimate_tokens(msgspec.json.encode(value).decode())


def _resolve(names: Iterable[Mention], code: Workspace) -> list[PromptReference]:
    """Return what the names in the text of a step mean, as far as each means one place."""
    try:
        found = resolve_names(names, code)
    except CallError:
        return []
    return [reference for reference in found if len(reference.places) == 1 and not reference.more]


# -- files -------------------------------------------------------------------------------------------------------------


def _list_files(step: PlanStep, references: Iterable[PromptReference], code: Workspace) -> list[PacketFile]:
    """Return the files of a step, and some that its text mentions beyond those."""
    mentioned = dict.fromkeys(str(reference.places[0].path) for reference in references)
    paths: Mapping[str, Sequence[str]] = {
        "modify": step.files_to_modify,
        "create": step.files_to_create,
        "delete": step.files_to_delete,
        "read": [path for path in mentioned if path not in step.files][:READ_MAX],
    }
    listed = []
    for change, path in [(change, path) for change, names in paths.items() for path in names]:
        why = ", ".join(dict.fromkeys(proof.kind for proof in step.evidence if proof.path == path))
        try:
            sha = code.files.read(path).sha256
        except CallError:
            sha = ""
        note = "it is not there now" if not sha and change != "create" else ""
        listed.append(PacketFile(path, change, sha[:SHA_CHARS], why, note))
    return listed


def _select_files(heads: Sequence[PacketFile], room: float) -> list[PacketFile]:
    """Return the files that can be named; the first one always."""
    shown: list[PacketFile] = []
    for head in heads[:FILES_MAX]:
        room -= _price(head)
        if room < 0 and shown:
            break
        shown.append(head)
    return shown


def _open_file(head: PacketFile, code: Workspace) -> _OpenFile:
    if not head.sha or head.change == "delete":
        return _OpenFile(head)
    try:
        symbols = [symbol for _, symbol in code.symbols.outline(head.path).symbols]
        return _OpenFile(head, code.files.read(head.path).text, symbols)
    except CallError:
        return _OpenFile(head)


# -- places ------------------------------------------------------------------------------------------------------------


def _find_places(
    file: _OpenFile,
    step: PlanStep,
    names: Iterable[Mention],
    references: Iterable[PromptReference],
    code: Workspace,
) -> list[_Place]:
    """Return the places of a step in a file: named definitions, other evidence, else what search finds in it."""
    path, lines = file.head.path, count_lines(file.text)
    symbols = [symbol for symbol in file.symbols if symbol.kind != "section"]
    named = [_Place(file, symbol.span, True) for symbol in _named_definitions(names, symbols)]
    # A search that finds the head of a long class does not ask for all of it.
    long = {symbol.qualified for symbol in symbols if symbol.span.last - symbol.span.first >= FOUND_LINES_MAX}
    evidence = [proof for proof in step.evidence if proof.path == path]
    known = [
        (proof.line, "" if proof.kind == "search" and proof.symbol in long else proof.symbol) for proof in evidence
    ]
    known += [(place.line, place.symbol) for place in (found.places[0] for found in references) if place.path == path]
    around = [
        _place_at(file, line, symbol, symbols, lines) for line, symbol in dict.fromkeys(known) if 0 < line <= lines
    ]
    return list(dict.fromkeys([*named, *around])) or _search_file(file, step, lines, code)


def _named_definitions(names: Iterable[Mention], symbols: Sequence[Definition]) -> list[Definition]:
    """Return the definitions of a file that the text of a step names, in the order in which it does."""
    found: dict[Definition, None] = {}
    for name in (dotted_name(mention.name) for mention in names if mention.kind in ("symbol", "error")):
        exact = [symbol for symbol in symbols if f".{symbol.qualified}".endswith(f".{name}")]
        same = exact or [symbol for symbol in symbols if symbol.name == name.rpartition(".")[2]]
        found |= dict.fromkeys(same[:NAMESAKES_MAX])
    return list(found)


def _place_at(file: _OpenFile, line: int, name: str, symbols: Sequence[Definition], last: int) -> _Place:
    """Return the definition with this name at or below a line, or the enclosing one; else some lines."""
    here = LineSpan(line, line)
    for symbol in symbols:
        is_near = symbol.span.contains(here) or line <= symbol.span.first <= line + ABOVE_LINES
        if symbol.qualified == name and is_near:
            return _Place(file, LineSpan(min(line, symbol.span.first), symbol.span.last), True)
    span, found = widen_to_symbol(here, symbols, lines_max=WIDENED_LINES_MAX)
    around = LineSpan(max(1, line - CONTEXT_LINES), min(last, line + BELOW_LINES))
    return _Place(file, span if found else around)


def _search_file(file: _OpenFile, step: PlanStep, lines: int, code: Workspace) -> list[_Place]:
    """Return the best place of a file for the text of a step; without an index its first definition."""
    if not lines:
        return []
    try:
        only = Filter(include_paths=(glob_for_path(file.head.path),))
        hits = code.search.find(Query(f"{step.title} {step.description}", 1, only)).hits
    except CallError:
        hits = ()
    best = LineSpan(1, BELOW_LINES)
    if hits:
        best, _ = widen_to_symbol(hits[0].chunk.span, file.symbols, lines_max=WIDENED_LINES_MAX)
    first = min((symbol.span.first for symbol in file.symbols), default=1)  # behind a license
    if best.last < first:
        best = LineSpan(first, first + BELOW_LINES)
    return [_Place(file, LineSpan(max(best.first, first), min(best.last, lines)))]
