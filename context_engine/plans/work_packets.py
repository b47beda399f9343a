"""PURE. Work packets: everything needed to carry out one step, within a budget of tokens.

A packet contains the definitions that the evidence and the text of the step name, whole, and the code around its other
places. It contains the acceptance criteria, and nothing about how to meet them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from context_engine.context import (
    BriefSection,
    PromptReference,
    Workspace,
    build_brief,
    estimate_max_tokens,
    find_symbol_at,
    glob_for_path,
    parse_mentions,
    resolve_mentions,
    widen_to_symbol,
)
from context_engine.errors import CallError
from context_engine.model import Definition, FileOutline, Filter, Query
from context_engine.plans.model import Plan, PlanStep
from context_engine.text import LineSpan, count_lines, escape_line, merge_spans, slice_lines

PACKET_TOKENS_MAX = 2_000
"""Of one packet, as the contract has it, unless it names a definition that is longer."""
WHOLE_TOKENS_MAX = 8_000
"""Of a packet with the definitions that its step names: half a function cannot be changed."""
SNIPPET_TOKENS = 24
"""Tokens of a snippet in addition to its lines."""
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


class PacketSnippet(NamedTuple):
    """Lines of a file, and the definition that they are a part of."""

    span: LineSpan
    text: str
    symbol: str


class PacketFile(NamedTuple):
    """A file of a step. `sha` is empty if it does not exist yet; `why` is its evidence; not all lines may be shown."""

    path: str
    sha: str
    change: str  # modify | create | delete | read
    why: str
    snippets: tuple[PacketSnippet, ...]


@dataclass(frozen=True, slots=True)
class WorkPacket:
    """One step, ready to be worked on. `left_out` counts the files that had no room.

    `tokens_max` is what the packet may cost: more with definitions that the step names, which are never cut.
    """

    number: int
    step: PlanStep
    files: tuple[PacketFile, ...]
    symbols: tuple[str, ...]
    waits_for: tuple[int, ...]
    left_out: int = 0
    tokens_max: int = PACKET_TOKENS_MAX

    def brief(self, context: str = "") -> str:
        """Return the prompt for a model that writes the changes, the most important part first."""
        code = [
            f"{escape_line(file.path)}:{snippet.span} {snippet.symbol}\n{snippet.text.rstrip()}"
            for file in self.files
            for snippet in file.snippets
        ]
        sections = [
            BriefSection("Step", [self.step.title, *self.step.description.split("\n")[:1]]),
            BriefSection("What the caller adds", [context] if context.strip() else []),
            BriefSection("Done when", list(self.step.acceptance_criteria)),
            BriefSection("Files", [f"{escape_line(file.path)} ({file.change})" for file in self.files]),
            BriefSection("Code", code),
        ]
        return build_brief(STEP_TASK, sections)


def build_packet(plan: Plan, step: PlanStep, code: Workspace, *, tokens_max: int = PACKET_TOKENS_MAX) -> WorkPacket:
    """Build the packet of a step. A file that is gone or unreadable is named, without its text."""
    number = plan.step_numbers()
    words = "\n".join((step.title, step.description, *step.acceptance_criteria, *step.checks))
    chosen = _SnippetChoice(step, code, tokens_max - estimate_max_tokens(words))
    symbols = dict.fromkeys(proof.symbol for proof in step.evidence if proof.symbol and proof.symbol not in step.files)
    waits = tuple(sorted(number[uid] for uid in step.depends_on if uid in number))
    return WorkPacket(
        number[step.uid],
        step,
        chosen.files(),
        tuple(symbols)[:SYMBOLS_MAX],
        waits,
        chosen.left_out,
        WHOLE_TOKENS_MAX if chosen.is_longer else PACKET_TOKENS_MAX,
    )


class _WantedSpan(NamedTuple):
    """Lines to show. `is_named`: a definition that the step names, which is shown whole."""

    span: LineSpan
    is_named: bool = False


class _SnippetChoice:
    """Selects as many files as fit, and their snippets: the first place of each before the second of any."""

    def __init__(self, step: PlanStep, code: Workspace, room: int) -> None:
        self._code = code
        self._room = room
        self.is_longer = False
        mentioned = _resolve_text(step, code)
        changes = [*_paths_by_change(step), ("read", _mentioned_paths(mentioned, step))]
        heads = [_file_head(path, change, step, code) for change, paths in changes for path in paths]
        self._shown = self._select_heads(heads[:FILES_MAX])
        self.left_out = len(heads) - len(self._shown)
        readable = [head.path for head in self._shown if head.sha and head.change != "delete"]
        self._spans = self._select_spans({path: _wanted_spans(path, step, mentioned, code) for path in readable})

    def files(self) -> tuple[PacketFile, ...]:
        """Return the files with their snippets."""
        return tuple(
            head._replace(snippets=_read_snippets(head.path, self._spans[head.path], self._code))
            for head in self._shown
        )

    def _select_heads(self, heads: Iterable[PacketFile]) -> list[PacketFile]:
        names = self._room * HEADS_SHARE
        shown: list[PacketFile] = []
        for head in heads:
            cost = FILE_TOKENS + estimate_max_tokens(f"{head.path} {head.why}")
            if cost > names and shown:  # the first file is always named
                break
            names -= cost
            self._room -= cost
            shown.append(head)
        return shown

    def _select_spans(self, wanted: Mapping[str, Sequence[_WantedSpan]]) -> Mapping[str, list[LineSpan]]:
        """Select the named definitions first; they may go beyond the budget, all else has to fit into it."""
        chosen: dict[str, list[LineSpan]] = defaultdict(list)
        extra = WHOLE_TOKENS_MAX - PACKET_TOKENS_MAX
        ordered = sorted(_round_robin(wanted), key=lambda place: not place[1].is_named)  # stable
        for path, place in ordered:
            cost = SNIPPET_TOKENS + estimate_max_tokens(_read_span(path, place.span, self._code))
            if cost <= self._room + (extra if place.is_named else 0):
                self._room -= cost
                self.is_longer = self.is_longer or self._room < 0
                chosen[path].append(place.span)
        return chosen


def _paths_by_change(step: PlanStep) -> Iterator[tuple[str, Sequence[str]]]:
    yield "modify", step.files_to_modify
    yield "create", step.files_to_create
    yield "delete", step.files_to_delete


def _file_head(path: str, change: str, step: PlanStep, code: Workspace) -> PacketFile:
    why = ", ".join(dict.fromkeys(proof.kind for proof in step.evidence if proof.path == path))
    try:
        return PacketFile(path, code.files.read(path).sha256, change, why, ())
    except CallError:
        return PacketFile(path, "", change, why, ())


def _round_robin(wanted: Mapping[str, Sequence[_WantedSpan]]) -> Iterator[tuple[str, _WantedSpan]]:
    rows = ([(path, place) for place in places] for path, places in wanted.items())
    for turn in zip_longest(*rows):
        yield from (place for place in turn if place)


def _resolve_text(step: PlanStep, code: Workspace) -> list[PromptReference]:
    """Return what the paths and names in the text of a step mean, as far as each means one place."""
    try:
        found = resolve_mentions(parse_mentions(f"{step.title}\n{step.description}"), code)
    except CallError:
        return []
    return [reference for reference in found if len(reference.places) == 1 and not reference.more]


def _mentioned_paths(mentioned: Iterable[PromptReference], step: PlanStep) -> list[str]:
    """Return the files that the text of a step mentions beyond those that it lists."""
    paths = dict.fromkeys(str(reference.places[0].path) for reference in mentioned)
    return [path for path in paths if path not in step.files][:READ_MAX]


def _wanted_spans(
    path: str, step: PlanStep, mentioned: Sequence[PromptReference], code: Workspace
) -> list[_WantedSpan]:
    """Return the places of a step in a file: named definitions, other evidence, else what search finds in it."""
    try:
        outline = code.symbols.outline(path)
    except CallError:
        return []
    named = [symbol.span for symbol in _named_definitions(step, outline)]
    places = [reference.places[0] for reference in mentioned if reference.places[0].path == path]
    evidence = [(proof.line, proof.symbol) for proof in step.evidence if proof.path == path]
    known = [*evidence, *((place.line, place.symbol) for place in places)]
    spans = [
        _surrounding_span(line, symbol, outline) for line, symbol in dict.fromkeys(known) if 0 < line <= outline.lines
    ]
    wanted = [*(_WantedSpan(span, True) for span in named), *spans] or _search_file(path, step, outline, code)
    return list(dict.fromkeys(wanted))


_IDENTIFIER = re.compile(r"(?P<mark>`?)(?P<name>[A-Za-z_$][\w$]*(?:(?:\.|::|#|->)[A-Za-z_$][\w$]*)*)(?P<call>\(?)")


def _named_definitions(step: PlanStep, outline: FileOutline) -> list[Definition]:
    """Return the definitions of a file that the text of a step names, in the order in which it does.

    A word that is spelled like any other word counts only in backticks, before a parenthesis, or as a part of a name.
    """
    symbols = [symbol for _, symbol in outline.symbols if symbol.kind != "section"]
    found: dict[Definition, None] = {}
    for match in _IDENTIFIER.finditer(f"{step.title}\n{step.description}"):
        name = re.sub(r"::|#|->", ".", match["name"])
        last = name.rpartition(".")[2]
        if not (match["mark"] or match["call"] or _is_spelled_like_code(name)):
            continue
        exact = [symbol for symbol in symbols if f".{symbol.qualified}".endswith(f".{name}")]
        same = exact or [symbol for symbol in symbols if symbol.name == last]
        found |= dict.fromkeys(same[:NAMESAKES_MAX])
    return list(found)


def _is_spelled_like_code(name: str) -> bool:
    """Return whether a name has the marks of code.

    >>> [_is_spelled_like_code(name) for name in ("list", "Change", "indexArg", "parse_args", "Options", "a.b")]
    [False, False, True, True, False, True]
    """
    return any(mark in name for mark in "._$") or (len(name) > 1 and not name[1:].islower())


def _search_file(path: str, step: PlanStep, outline: FileOutline, code: Workspace) -> list[_WantedSpan]:
    """Return the best place of a file for the text of a step; without an index its first definition."""
    try:
        query = Query(f"{step.title} {step.description}", 1, Filter(include_paths=(glob_for_path(path),)))
        hits = code.search.find(query).hits
    except CallError:
        hits = ()
    if not outline.lines:
        return []
    best = hits[0].chunk.span if hits else LineSpan(1, BELOW_LINES)
    if hits:
        best, _ = widen_to_symbol(best, [symbol for _, symbol in outline.symbols], lines_max=WIDENED_LINES_MAX)
    first = min((symbol.span.first for _, symbol in outline.symbols), default=1)  # behind a license
    if best.last < first:
        best = LineSpan(first, first + BELOW_LINES)
    return [_WantedSpan(LineSpan(max(best.first, first), min(best.last, outline.lines)))]


def _surrounding_span(line: int, symbol: str, outline: FileOutline) -> _WantedSpan:
    """Return the definition with this name at or below a line, or the enclosing one; else some lines."""
    symbols = [definition for _, definition in outline.symbols if definition.kind != "section"]
    own = [
        candidate.span
        for candidate in symbols
        if candidate.qualified == symbol
        and (candidate.span.contains(LineSpan(line, line)) or line <= candidate.span.first <= line + ABOVE_LINES)
    ]
    if own:
        return _WantedSpan(LineSpan(min(line, own[0].first), own[0].last), True)
    span, name = widen_to_symbol(LineSpan(line, line), symbols, lines_max=WIDENED_LINES_MAX)
    if name:
        return _WantedSpan(span)
    return _WantedSpan(LineSpan(max(1, line - CONTEXT_LINES), min(outline.lines, line + BELOW_LINES)))


def _read_snippets(path: str, spans: Sequence[LineSpan], code: Workspace) -> tuple[PacketSnippet, ...]:
    if not spans:
        return ()
    symbols = [symbol for _, symbol in code.symbols.outline(path).symbols]
    return tuple(
        PacketSnippet(span, _read_span(path, span, code), find_symbol_at(span, symbols)) for span in merge_spans(spans)
    )


def _read_span(path: str, span: LineSpan, code: Workspace) -> str:
    try:
        text = code.files.read(path).text
    except CallError:
        return ""
    return slice_lines(text, span.first, min(span.last, count_lines(text)))


STEP_TASK = (
    "Write the changes of one step of a plan, as JSON by the schema, and nothing that belongs to another step. Quote "
    "text to be replaced exactly as it is below; give new files whole. Do not guess: leave out a file that you do not "
    "know."
)
