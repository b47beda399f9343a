"""PURE. Work packets: everything needed to carry out one step, within a budget of tokens.

A packet contains the code around the evidence of the step, each place widened to the enclosing definition, in the order
of the evidence. It contains the acceptance criteria, and nothing about how to meet them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from context_engine.context import BriefSection, TokenCounter, Workspace, build_brief, find_symbol_at, widen_to_symbol
from context_engine.errors import CallError
from context_engine.model import FileOutline
from context_engine.plans.model import Plan, PlanStep
from context_engine.text import LineSpan, count_lines, escape_line, merge_spans, slice_lines

PACKET_TOKENS_MAX = 2_000
"""Of one packet, as the contract has it."""
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
HEAD_LINES = 20
"""Of a file that no place is known in, its beginning."""
FILES_MAX = 40
SYMBOLS_MAX = 30


class PacketSnippet(NamedTuple):
    """Lines of a file, and the definition that they are a part of."""

    span: LineSpan
    text: str
    symbol: str


class PacketFile(NamedTuple):
    """A file of a step. `sha` is empty if it does not exist yet; `why` is its evidence; not all lines may be shown."""

    path: str
    sha: str
    change: str  # modify | create | delete
    why: str
    snippets: tuple[PacketSnippet, ...]


@dataclass(frozen=True, slots=True)
class WorkPacket:
    """One step, ready to be worked on. `left_out` counts the files that had no room."""

    number: int
    step: PlanStep
    files: tuple[PacketFile, ...]
    symbols: tuple[str, ...]
    waits_for: tuple[int, ...]
    left_out: int = 0

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


def build_packet(
    plan: Plan, step: PlanStep, code: Workspace, count: TokenCounter, *, tokens_max: int = PACKET_TOKENS_MAX
) -> WorkPacket:
    """Build the packet of a step. A file that is gone or unreadable is named, without its text."""
    number = plan.step_numbers()
    room = tokens_max - count("\n".join((step.title, step.description, *step.acceptance_criteria, *step.checks)))
    files, left_out = _select_files(step, code, count, room)
    symbols = dict.fromkeys(proof.symbol for proof in step.evidence if proof.symbol and proof.symbol not in step.files)
    waits = tuple(sorted(number[uid] for uid in step.depends_on if uid in number))
    return WorkPacket(number[step.uid], step, files, tuple(symbols)[:SYMBOLS_MAX], waits, left_out)


def _select_files(
    step: PlanStep, code: Workspace, count: TokenCounter, room: int
) -> tuple[tuple[PacketFile, ...], int]:
    """Select as many files as fit, and their snippets: the first place of each before the second of any."""
    names = room * HEADS_SHARE
    heads = [_file_head(path, change, step, code) for change, paths in _paths_by_change(step) for path in paths]
    shown: list[PacketFile] = []
    for head in heads[:FILES_MAX]:
        cost = FILE_TOKENS + count(f"{head.path} {head.why}")
        if cost > names and shown:  # the first file is always named
            break
        names -= cost
        room -= cost
        shown.append(head)
    wanted = {
        head.path: _relevant_spans(head.path, step, code) for head in shown if head.sha and head.change != "delete"
    }
    chosen_spans: dict[str, list[LineSpan]] = defaultdict(list)
    for path, span in _round_robin(wanted):
        cost = SNIPPET_TOKENS + count(_read_span(path, span, code))
        if cost <= room:
            room -= cost
            chosen_spans[path].append(span)
    files = tuple(head._replace(snippets=_read_snippets(head.path, chosen_spans[head.path], code)) for head in shown)
    return files, len(heads) - len(shown)


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


def _round_robin(wanted: Mapping[str, Sequence[LineSpan]]) -> Iterator[tuple[str, LineSpan]]:
    rows = ([(path, span) for span in spans] for path, spans in wanted.items())
    for turn in zip_longest(*rows):
        yield from (place for place in turn if place)


def _relevant_spans(path: str, step: PlanStep, code: Workspace) -> list[LineSpan]:
    """Return the places of a step in a file, each widened to its surroundings."""
    try:
        outline = code.symbols.outline(path)
    except CallError:
        return []
    places = [
        (proof.line, proof.symbol) for proof in step.evidence if proof.path == path and 0 < proof.line <= outline.lines
    ]
    if not places:
        if outline.lines:
            return [LineSpan(1, min(HEAD_LINES, outline.lines))]
        return []
    return list(dict.fromkeys(_surrounding_span(*place, outline) for place in dict.fromkeys(places)))


def _surrounding_span(line: int, symbol: str, outline: FileOutline) -> LineSpan:
    """Return the definition with this name at or below a line, or the enclosing one; else some lines."""
    symbols = [definition for _, definition in outline.symbols]
    own = [
        candidate.span
        for candidate in symbols
        if candidate.qualified == symbol and line <= candidate.span.first <= line + ABOVE_LINES
    ]
    if own and own[0].last - line < WIDENED_LINES_MAX:
        return LineSpan(line, own[0].last)
    span, name = widen_to_symbol(LineSpan(line, line), symbols, lines_max=WIDENED_LINES_MAX)
    if name:
        return span
    return LineSpan(max(1, line - CONTEXT_LINES), min(outline.lines, line + HEAD_LINES))


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
