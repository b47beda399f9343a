"""PURE. Work packets: everything needed to carry out one step, within a budget of tokens.

A packet contains the definitions that the evidence and the text of the step name, whole, and the code around its other
places. It contains the acceptance criteria, and nothing about how to meet them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

import msgspec

from context_engine.context import (
    BriefSection,
    PromptReference,
    Workspace,
    build_brief,
    estimate_max_tokens,
    find_symbol_at,
    glob_for_path,
    resolve_names,
    widen_to_symbol,
)
from context_engine.errors import CallError
from context_engine.model import Definition, FileOutline, Filter, Query
from context_engine.plans.model import Plan, PlanStep
from context_engine.search import Mention, TaskText
from context_engine.text import LineSpan, count_lines, dotted_name, escape_line, merge_spans, slice_lines

PACKET_TOKENS_MAX = 2_000
"""Of one packet, as the contract has it, unless it names a definition that is longer."""
WHOLE_TOKENS_MAX = 8_000
"""Of a packet with the definitions that its step names: half a function cannot be changed."""
SNIPPET_TOKENS = 24
"""Tokens of a snippet in addition to its lines."""
FIELDS_TOKENS = 200
"""Tokens of a packet in addition to the text of its step and its files: field names, and how to undo."""
TRIES = 4
"""Each try is smaller by what the last one was too large by, and as a rule the second fits."""
SHA_CHARS = 12
FILE_TOKENS = 36
"""Tokens for naming a file, with a hash of twelve digits and the names of the fields."""
HEADS_SHARE = 0.5
"""Share of the budget for naming files: a packet of names alone is useless."""
WIDENED_LINES_MAX = 60
"""Of a longer definition the lines around the place are shown."""
CONTEXT_LINES = 3
ABOVE_LINES = 40
"""A definition is found at the first line of the comment above it."""
BELOW_LINES = 20
"""Lines below a place that is in no definition."""
FILES_MAX = 40
SYMBOLS_MAX = 30
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
    symbols: tuple[str, ...] = ()
    acceptance_criteria: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    rollback: str

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


class _Place(NamedTuple):
    """Lines of a file to show, and whether they are a definition that the step names, which is shown whole."""

    path: str
    span: LineSpan
    is_named: bool = False


def build_packet(plan: Plan, step: PlanStep, code: Workspace, status: str = "") -> WorkPacket:
    """Build the packet of a step. A file that is gone or unreadable is named, without its text.

    It costs `PACKET_TOKENS_MAX` as JSON, or `WHOLE_TOKENS_MAX` with the definitions that the step names.
    """
    room = PACKET_TOKENS_MAX - FIELDS_TOKENS
    for _ in range(TRIES):
        packet, tokens_max = _fill_packet(plan, step, code, room, status)
        over = estimate_max_tokens(msgspec.json.encode(packet).decode()) - tokens_max
        if over <= 0:
            return packet
        room -= over
    return msgspec.structs.replace(packet, why=step.title, files=packet.files[:1])


def _fill_packet(plan: Plan, step: PlanStep, code: Workspace, room: int, status: str) -> tuple[WorkPacket, int]:
    """Return a packet whose words, files and lines cost so much, and what it may cost as JSON."""
    number = plan.step_numbers()
    words = "\n".join((step.title, step.description, *step.acceptance_criteria, *step.checks))
    names = TaskText(f"{step.title}\n{step.description}").names
    references = _resolve(names, code)
    heads = _list_files(step, references, code)
    room -= estimate_max_tokens(words)
    shown = _select_files(heads, room * HEADS_SHARE)
    room -= sum(map(_price, shown))
    readable = [head.path for head in shown if head.sha and head.change != "delete"]
    places = [_find_places(path, step, names, references, code) for path in readable]
    # The first place of each file comes before the second of any, and named definitions before all others.
    ordered = [place for turn in zip_longest(*places) for place in turn if place]
    spans: dict[str, list[LineSpan]] = defaultdict(list)
    for place in sorted(ordered, key=lambda place: not place.is_named):
        cost = SNIPPET_TOKENS + estimate_max_tokens(_read_span(place.path, place.span, code))
        if cost <= room + (WHOLE_TOKENS_MAX - PACKET_TOKENS_MAX) * place.is_named:
            room -= cost
            spans[place.path].append(place.span)
    symbols = dict.fromkeys(proof.symbol for proof in step.evidence if proof.symbol and proof.symbol not in step.files)
    packet = WorkPacket(
        step=number[step.uid],
        uid=step.uid,
        title=step.title,
        status=status,
        why=step.description,
        waits_for=tuple(sorted(number[uid] for uid in step.depends_on if uid in number)),
        files=tuple(
            msgspec.structs.replace(head, snippets=_read_snippets(head.path, spans[head.path], code)) for head in shown
        ),
        files_left_out=len(heads) - len(shown),
        symbols=tuple(symbols)[:SYMBOLS_MAX],
        acceptance_criteria=step.acceptance_criteria,
        checks=step.checks,
        rollback="apply_changes answers with backup_id: undo_edit with undo_id set to it takes everything back",
    )
    return packet, WHOLE_TOKENS_MAX if room < 0 and spans else PACKET_TOKENS_MAX


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


def _price(head: PacketFile) -> int:
    return FILE_TOKENS + estimate_max_tokens(f"{head.path} {head.why}")


# -- places ------------------------------------------------------------------------------------------------------------


def _find_places(
    path: str, step: PlanStep, names: Iterable[Mention], references: Iterable[PromptReference], code: Workspace
) -> list[_Place]:
    """Return the places of a step in a file: named definitions, other evidence, else what search finds in it."""
    try:
        outline = code.symbols.outline(path)
    except CallError:
        return []
    symbols = [symbol for _, symbol in outline.symbols if symbol.kind != "section"]
    named = [_Place(path, symbol.span, True) for symbol in _named_definitions(names, symbols)]
    known = [(proof.line, proof.symbol) for proof in step.evidence if proof.path == path]
    known += [(place.line, place.symbol) for place in (found.places[0] for found in references) if place.path == path]
    around = [
        _place_at(path, line, symbol, symbols, outline.lines)
        for line, symbol in dict.fromkeys(known)
        if 0 < line <= outline.lines
    ]
    return list(dict.fromkeys([*named, *around] or _search_file(path, step, outline, code)))


def _named_definitions(names: Iterable[Mention], symbols: Sequence[Definition]) -> list[Definition]:
    """Return the definitions of a file that the text of a step names, in the order in which it does."""
    found: dict[Definition, None] = {}
    for name in (dotted_name(mention.name) for mention in names if mention.kind in ("symbol", "error")):
        exact = [symbol for symbol in symbols if f".{symbol.qualified}".endswith(f".{name}")]
        same = exact or [symbol for symbol in symbols if symbol.name == name.rpartition(".")[2]]
        found |= dict.fromkeys(same[:NAMESAKES_MAX])
    return list(found)


def _place_at(path: str, line: int, name: str, symbols: Sequence[Definition], last: int) -> _Place:
    """Return the definition with this name at or below a line, or the enclosing one; else some lines."""
    here = LineSpan(line, line)
    for symbol in symbols:
        is_near = symbol.span.contains(here) or line <= symbol.span.first <= line + ABOVE_LINES
        if symbol.qualified == name and is_near:
            return _Place(path, LineSpan(min(line, symbol.span.first), symbol.span.last), True)
    span, found = widen_to_symbol(here, symbols, lines_max=WIDENED_LINES_MAX)
    around = LineSpan(max(1, line - CONTEXT_LINES), min(last, line + BELOW_LINES))
    return _Place(path, span if found else around)


def _search_file(path: str, step: PlanStep, outline: FileOutline, code: Workspace) -> list[_Place]:
    """Return the best place of a file for the text of a step; without an index its first definition."""
    try:
        query = Query(f"{step.title} {step.description}", 1, Filter(include_paths=(glob_for_path(path),)))
        hits = code.search.find(query).hits
    except CallError:
        hits = ()
    if not outline.lines:
        return []
    symbols = [symbol for _, symbol in outline.symbols]
    best = LineSpan(1, BELOW_LINES)
    if hits:
        best, _ = widen_to_symbol(hits[0].chunk.span, symbols, lines_max=WIDENED_LINES_MAX)
    first = min((symbol.span.first for symbol in symbols), default=1)  # behind a license
    if best.last < first:
        best = LineSpan(first, first + BELOW_LINES)
    return [_Place(path, LineSpan(max(best.first, first), min(best.last, outline.lines)))]


def _read_snippets(path: str, spans: Sequence[LineSpan], code: Workspace) -> tuple[PacketSnippet, ...]:
    if not spans:
        return ()
    symbols = [symbol for _, symbol in code.symbols.outline(path).symbols]
    return tuple(
        PacketSnippet(str(span), find_symbol_at(span, symbols), _read_span(path, span, code))
        for span in merge_spans(spans)
    )


def _read_span(path: str, span: LineSpan, code: Workspace) -> str:
    try:
        text = code.files.read(path).text
    except CallError:
        return ""
    return slice_lines(text, span.first, min(span.last, count_lines(text)))
