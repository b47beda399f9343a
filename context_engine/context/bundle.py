"""A bundle: what an agent should have read before it starts, and no token more than it may cost.

Hits are gathered by file, places widened to the symbol they are part of, spans joined, and what brings most for its
tokens is taken first. Beside the code stand the files that belong to it, what the team remembers, and facts. Everything
is a step in one list, the most important first; the answer is the longest beginning of it that keeps the budget as it
is sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from context_engine.context import hints
from context_engine.context.budget import FilePrice, SelectedLines, SnippetOption, SnippetPacker
from context_engine.context.gather import (
    NEXT_FILES,
    FoundFile,
    FoundPlace,
    GatheredFiles,
    GatherRequest,
    extract_stems,
    gather_files,
    read_lines,
)
from context_engine.context.project_knowledge import ProjectKnowledge, RememberedItem
from context_engine.context.related_files import (
    IMPORTERS_MAX,
    IMPORTS_MAX,
    RELATED_MAX,
    RelatedFile,
    list_partner_names,
    merge_related,
    select_partners,
    sort_by_use,
)
from context_engine.context.widen import find_symbol_at, widen_to_symbol
from context_engine.context.workspace import Workspace
from context_engine.errors import CallError
from context_engine.model import Definition, FileOutline, Filter, RelPath, TextQuery
from context_engine.text import LineSpan, merge_spans

if TYPE_CHECKING:
    from context_engine.history import FileHistory

EXTRAS_SHARE = 0.25
"""Of the budget, for all that is no code: a question about code is answered by code."""
TRIES = 4
"""Prices foresee a reply well enough that the second try mostly fits."""
SLACK = 0.1
"""Of the budget: what is left over is not worth another try; Markdown costs up to a third less than was foreseen for
JSON."""
FILE_TOKENS = 30
"""What naming a file costs beside its path and summary."""
ROW_TOKENS = 14
"""What a memory or related file costs beside its texts."""
WIDER_WORTH = 0.5
"""The rest of a symbol around a hit is worth half of what was hit."""
WIDER_SHARE = 1 / 3
"""No symbol is shown for a hit's sake that would take more of the budget."""
WIDER_LINES_MAX = 200
CONTEXT_LINES = 3
"""Around a line that a text search found."""
SYMBOLS_NAMED = 5
SUMMARIES_TOKENS_MIN = 1_000
"""Of a smaller budget, what files define beside what is shown would take the place of code."""
REMEMBERED_MAX = 6
REMEMBERED_CHARS_MAX = 400
"""Of a memory: about 100 tokens; the whole stands where its place says."""
HOT_FILES_MAX = 3
MENTIONS_MAX = 3
LEANED_ON_MIN = 10
"""Files that fewer others import are nothing special."""
COCHANGE_CONFIDENCE = 0.5
COCHANGE_SUPPORT = 3
"""Changed together in half of a file's commits, and not by chance."""


@dataclass(frozen=True, slots=True)
class BundleRequest:
    """What somebody wants to know, and how much of what he may get.

    `known` are facts of his own, told before all others.
    """

    text: str
    files_max: int = 5
    tokens_max: int = 8_000
    filter: Filter = field(default_factory=Filter)
    relevance_min: float = 0.3
    with_related: bool = True
    with_memories: bool = True
    with_summaries: bool = True
    addresses: tuple[str, ...] = ()
    known_facts: tuple[str, ...] = ()


class Snippet(NamedTuple):
    """Lines of a file. `goes_on` is the line at which what was found continues; 0 when it is all there."""

    span: LineSpan
    text: str
    relevance: float
    tokens: int
    symbol: str
    goes_on: int


@dataclass(frozen=True, slots=True)
class BundledFile:
    """A file as a bundle shows it: snippets in the order of lines, none touching another."""

    path: RelPath
    language: str
    relevance: float
    summary: str
    snippets: tuple[Snippet, ...]
    related: tuple[RelatedFile, ...]


class ExternalMention(NamedTuple):
    """An address that the caller named, and the files that mention it. It is never fetched."""

    address: str
    mentioned: tuple[str, ...]


class LeftOut(NamedTuple):
    """What was found and is not shown: places, rows that are no code, files that come next; `unreadable` says why."""

    places: int
    rows: int
    files: tuple[str, ...]
    unreadable: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bundle:
    """What somebody gets to read. `absent` names what nobody could be asked about: memories, history."""

    files: tuple[BundledFile, ...]
    remembered: tuple[RememberedItem, ...]
    external: tuple[ExternalMention, ...]
    hints: tuple[str, ...]
    left_out: LeftOut
    engine: str
    freshness: str
    sources: Mapping[str, int]
    absent: tuple[str, ...]
    warnings: tuple[str, ...]
    reason: str


def build_bundle(
    wish: BundleRequest, workspace: Workspace, team: ProjectKnowledge, excess: Callable[[Bundle], int]
) -> Bundle:
    """The best bundle that fits. `excess` says how many tokens a bundle, as it will be sent, is over what it may cost.

    Raises: as `Engine.search` does, but never for a missing index.
    """
    asked = GatherRequest(wish.text, wish.files_max, wish.filter, wish.relevance_min)
    found = gather_files(asked, workspace)
    opened, unreadable = _opened(found.files, workspace, wish)
    extras = list(_extras(opened, workspace, team, wish))
    kit = _Kit(found, opened, team, len(extras), unreadable)
    room = -excess(kit.made(()))
    prices = [_price(each, team) for each in opened]
    options = list(_options(opened, prices, room, extract_stems(wish.text)))
    steps: list[_Step] = []
    fitting: Bundle | None = None
    for _ in range(TRIES):
        steps = _steps(options, prices, extras, room, team)
        over = excess(made := kit.made(steps))
        if over <= 0 and -over <= SLACK * wish.tokens_max:
            return made
        if over <= 0:
            fitting = made
        elif fitting is not None:
            break
        room -= over
    return fitting or _longest(steps, kit.made, excess)


def _steps(
    options: Sequence[SnippetOption],
    prices: Sequence[FilePrice],
    extras: Sequence[_Extra],
    room: int,
    team: ProjectKnowledge,
) -> list[_Step]:
    """What to show in so much room, the most important first: a place of each file, what is no code, the rest."""
    packing = SnippetPacker(prices, room)
    packing.select_first_places(options)
    firsts = len(packing.selected)
    taken = _within(extras, min(packing.room, int(room * EXTRAS_SHARE)), team)
    packing.room -= sum(each.price for each in taken)
    packing.select_best(options)
    return [*packing.selected[:firsts], *taken, *packing.selected[firsts:]]


# -- files opened -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Opened:
    """A found file as it is now: its lines by number, its symbols, and the places to show."""

    path: RelPath
    language: str
    relevance: float
    summary: str
    lines: Mapping[int, str]
    symbols: tuple[Definition, ...]
    spots: tuple[FoundPlace, ...]
    is_stale: bool


def _opened(
    files: Sequence[FoundFile], workspace: Workspace, wish: BundleRequest
) -> tuple[list[_Opened], tuple[str, ...]]:
    """The files that can be read, and why the others cannot."""
    opened, unreadable = [], []
    for file in files:
        try:
            opened.append(_open(file, workspace, wish))
        except CallError as error:
            unreadable.append(f"{file.path}: {error.message}")
    return opened, tuple(unreadable)


def _open(file: FoundFile, workspace: Workspace, wish: BundleRequest) -> _Opened:
    outline = workspace.symbols.outline(file.path)
    lines = read_lines(file, workspace)
    symbols = tuple(each for _, each in outline.symbols)
    spots = tuple(shown for spot in file.spots if (shown := _as_it_is_now(spot, lines)))
    summary = _summary(outline) if wish.with_summaries and wish.tokens_max >= SUMMARIES_TOKENS_MIN else ""
    return _Opened(file.path, outline.language, file.relevance, summary, lines, symbols, spots, file.is_stale)


def _as_it_is_now(spot: FoundPlace, lines: Mapping[int, str]) -> FoundPlace | None:
    """A spot inside the file of today, without blank lines at its ends; a bare line with some around it."""
    span = spot.span if spot.text else spot.span.expand(CONTEXT_LINES)
    written = [number for number in range(span.first, span.last + 1) if lines.get(number, "").strip()]
    return spot._replace(span=LineSpan(written[0], written[-1])) if written else None


def _summary(outline: FileOutline) -> str:
    """What a file defines at its top.

    The headings of a document are what it is about, too.
    """
    names = list(dict.fromkeys(each.name for depth, each in outline.symbols if depth == 0))
    more = f" and {len(names) - SYMBOLS_NAMED} more" if len(names) > SYMBOLS_NAMED else ""
    return f"defines {', '.join(names[:SYMBOLS_NAMED])}{more}" if names else ""


# -- what could be shown ----------------------------------------------------------------------------------------------


def _price(file: _Opened, team: ProjectKnowledge) -> FilePrice:
    known: dict[int, int] = {}

    def line(number: int) -> int:
        if number not in known:
            known[number] = team.count_tokens(json.dumps(file.lines.get(number, "") + "\n", ensure_ascii=False)[1:-1])
        return known[number]

    return FilePrice(FILE_TOKENS + team.count_tokens(f"{file.path} {file.summary}"), line)


def _options(
    opened: Sequence[_Opened], prices: Sequence[FilePrice], room: int, stems: Sequence[str]
) -> Iterator[SnippetOption]:
    """Every spot, and every spot with the symbol around it that a reader can be asked to read."""
    for number, (file, price) in enumerate(zip(opened, prices, strict=True)):
        for place, spot in enumerate(file.spots):
            yield SnippetOption(
                number, spot.span, spot.relevance, place == 0, find_best_line(spot.span, file.lines, stems)
            )
            wide, _ = widen_to_symbol(spot.span, file.symbols, lines_max=WIDER_LINES_MAX)
            is_there = wide.first in file.lines and wide.last in file.lines
            if wide != spot.span and is_there and price.of(wide) <= room * WIDER_SHARE:
                yield SnippetOption(number, wide, spot.relevance * WIDER_WORTH)


def find_best_line(span: LineSpan, lines: Mapping[int, str], stems: Sequence[str]) -> int:
    """The first of the lines that hold most words of the question: where what must be cut begins.

    >>> find_best_line(LineSpan(1, 3), {1: "# Licence", 2: "def drain(pool):", 3: "    pool.drain()"}, ["drain", "pool"])
    2
    """

    def held(number: int) -> int:
        lowered = lines.get(number, "").lower()
        return sum(stem in lowered for stem in stems)

    return max(range(span.first, span.last + 1), key=lambda number: (held(number), -number))


class _Extra(NamedTuple):
    """Something beside the code: of `file` when it belongs to one."""

    what: RememberedItem | RelatedFile | ExternalMention | str
    file: int
    price: int = 0


def _within(extras: Sequence[_Extra], room: int, team: ProjectKnowledge) -> list[_Extra]:
    """Those that fit into the room, in their order."""
    taken = []
    for each in extras:
        price = ROW_TOKENS + team.count_tokens(
            each.what if isinstance(each.what, str) else " ".join(map(str, each.what))
        )
        if price <= room:
            taken.append(each._replace(price=price))
            room -= price
    return taken


def _extras(
    opened: Sequence[_Opened], workspace: Workspace, team: ProjectKnowledge, wish: BundleRequest
) -> Iterator[_Extra]:
    """What the caller knows, what the team remembers, what belongs to each file, where addresses are mentioned, then facts."""
    yield from (_Extra(each, -1) for each in wish.known_facts)
    if wish.with_memories and team.recall:
        for each in team.recall(wish.text, REMEMBERED_MAX):
            yield _Extra(each._replace(content=_beginning(each.content), score=round(each.score, 3)), -1)
    importers = [_importers(file, workspace) for file in opened[:HOT_FILES_MAX] if wish.with_related]
    shown = {file.path for file in opened}
    if wish.with_related:
        for number, file in enumerate(opened):
            others = importers[number] if number < len(importers) else ()
            related = merge_related(file.path, _related(file, others, workspace, team.history))
            yield from (_Extra(each, number) for each in related if each.path not in shown)
    yield from (_Extra(_external(each, workspace), -1) for each in wish.addresses)
    yield from (_Extra(hint, -1) for hint in _hints(opened, importers, team.history))


def _beginning(text: str) -> str:
    return text if len(text) <= REMEMBERED_CHARS_MAX else f"{text[:REMEMBERED_CHARS_MAX].rstrip()}…"


def _external(address: str, workspace: Workspace) -> ExternalMention:
    """Which files mention an address."""
    scan = workspace.text_search.scan(TextQuery((address.rstrip("/"),)))
    return ExternalMention(address, tuple(file.path for file in scan.files[:MENTIONS_MAX]))


# -- what belongs to a file -------------------------------------------------------------------------------------------


def _related(
    file: _Opened, importers: Sequence[RelPath], workspace: Workspace, past: FileHistory | None
) -> Iterator[RelatedFile]:
    """Tests, what changes with it, what it imports where it was found, what imports it."""
    named = [other for name in sorted(list_partner_names(file.path)) for other in workspace.symbols.files_named(name)]
    yield from (RelatedFile(other, "paired by name") for other in select_partners(file.path, named)[:RELATED_MAX])
    partners = past.list_cochanged(file.path, support=COCHANGE_SUPPORT, confidence=COCHANGE_CONFIDENCE) if past else ()
    for each in partners[:RELATED_MAX]:
        yield RelatedFile(each.path, f"changed with it in {each.confidence:.0%} of its commits")
    text = "\n".join(spot.text for spot in file.spots)
    imports = sort_by_use(_asked(workspace.symbols.dependencies, file.path), text)
    yield from (RelatedFile(other, "imported by it") for other in imports[:IMPORTS_MAX])
    yield from (RelatedFile(other, "imports it") for other in importers[:IMPORTERS_MAX])


def _importers(file: _Opened, workspace: Workspace) -> tuple[RelPath, ...]:
    return _asked(workspace.symbols.importers, file.path)


def _asked(question: Callable[[str], tuple[RelPath, ...]], path: str) -> tuple[RelPath, ...]:
    """The answer; none where there is no index to answer."""
    try:
        return question(path)
    except CallError:
        return ()


def _hints(opened: Sequence[_Opened], importers: Sequence[Sequence[str]], past: FileHistory | None) -> Iterator[str]:
    """Facts, the most telling kind first."""
    for file in opened if past else ():
        for each in past.list_usual_cochanges(file.path) if past else ():
            yield hints.together(file.path, each.path, each.together, each.confidence)
    yield from (hints.stale(file.path) for file in opened if file.is_stale)
    for file in opened[:HOT_FILES_MAX]:
        record = past.record(file.path) if past else None
        if record:
            yield hints.commits(file.path, record.commits, f"{datetime.fromtimestamp(record.last_at, UTC):%Y-%m-%d}")
    for file, others in zip(opened, importers, strict=False):
        if len(others) >= LEANED_ON_MIN:
            yield hints.importers(file.path, len(others))


# -- as much as fits --------------------------------------------------------------------------------------------------

_Step = SelectedLines | _Extra


def _longest(
    steps: Sequence[_Step], made: Callable[[Sequence[_Step]], Bundle], excess: Callable[[Bundle], int]
) -> Bundle:
    """The bundle of the longest beginning that fits; of none of them when not even the first does."""
    count = len(steps)
    while count:
        tried = made(steps[:count])
        over = excess(tried)
        if over <= 0:
            return tried
        while count and over > 0:
            count -= 1
            over -= steps[count].price
    return made(())


@dataclass(frozen=True, slots=True)
class _Kit:
    """All that a bundle is made of, whatever part of it is shown."""

    found: GatheredFiles
    opened: Sequence[_Opened]
    team: ProjectKnowledge
    rows: int  # that are no code, shown or not
    unreadable: tuple[str, ...]

    def made(self, steps: Sequence[_Step]) -> Bundle:
        """The bundle of these steps."""
        extras = [each for each in steps if isinstance(each, _Extra)]
        files = tuple(self._file(number, steps) for number in range(len(self.opened)))
        shown = tuple(file for file in files if file.snippets)
        return Bundle(
            files=shown,
            remembered=tuple(each.what for each in extras if isinstance(each.what, RememberedItem)),
            external=tuple(each.what for each in extras if isinstance(each.what, ExternalMention)),
            hints=tuple(each.what for each in extras if isinstance(each.what, str)),
            left_out=self._left_out(files, self.rows - len(extras)),
            engine=self.found.engine,
            freshness=self.found.freshness,
            sources={**self.found.sources, "history": self._from_history(shown)},
            absent=self._absent(),
            warnings=self.found.warnings,
            reason=self.found.reason,
        )

    def _file(self, number: int, steps: Sequence[_Step]) -> BundledFile:
        file = self.opened[number]
        spans = merge_spans(each.span for each in steps if isinstance(each, SelectedLines) and each.file == number)
        related = tuple(
            each.what
            for each in steps
            if isinstance(each, _Extra) and each.file == number and isinstance(each.what, RelatedFile)
        )
        snippets = tuple(_snippet(file, span, self.team) for span in spans)
        return BundledFile(file.path, file.language, file.relevance, file.summary, snippets, related)

    def _left_out(self, files: Sequence[BundledFile], rows: int) -> LeftOut:
        places = sum(
            not any(snippet.span.touches(spot.span) for snippet in file.snippets)
            for file, opened in zip(files, self.opened, strict=True)
            for spot in opened.spots
        )
        hidden = [file.path for file in files if not file.snippets]
        return LeftOut(places, rows, (*hidden, *self.found.next_files)[:NEXT_FILES], self.unreadable)

    def _absent(self) -> tuple[str, ...]:
        parts = {"memories": self.team.recall, "history": self.team.history}
        return tuple(name for name, part in parts.items() if part is None)

    def _from_history(self, files: Sequence[BundledFile]) -> int:
        """How many related files only history knows of."""
        return sum("changed with it" in each.why for file in files for each in file.related)


def _snippet(file: _Opened, span: LineSpan, team: ProjectKnowledge) -> Snippet:
    inside = [spot for spot in file.spots if spot.span.first <= span.last and span.first <= spot.span.last]
    names = list(dict.fromkeys(spot.symbol for spot in sorted(inside) if spot.symbol))
    symbol = ", ".join(names[:3]) or find_symbol_at(span, file.symbols)
    cut = any(spot.span.first <= span.last < spot.span.last for spot in inside)
    text = "\n".join(file.lines.get(number, "") for number in range(span.first, span.last + 1))
    best = max((spot.relevance for spot in inside), default=file.relevance)
    return Snippet(span, text, best, team.count_tokens(text), symbol, span.last + 1 if cut else 0)
