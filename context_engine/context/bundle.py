"""A context bundle: the code that an agent should read before it starts, within a token budget.

Hits are grouped by file and widened to whole symbols; spans that touch are joined, and what brings the most for its
tokens comes first. Related files, memories and facts are added. Everything is an entry of one list, the most important
first; the reply is the longest beginning of that list that keeps the budget as it is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from context_engine.context.budget import (
    PART_LINES_MIN,
    PART_WORTH,
    PLACE_TOKENS_MIN,
    FilePrice,
    SelectedLines,
    SnippetOption,
    SnippetPacker,
    count_beginning,
    find_symbol_at,
    fit_budget,
    order_by_value,
    widen_to_symbol,
)
from context_engine.context.localizer import (
    NEXT_FILES,
    FoundFile,
    FoundPlace,
    GatheredFiles,
    GatherRequest,
    extract_stems,
    gather_files,
    read_lines,
)
from context_engine.context.project_knowledge import KnowledgeEntry, ProjectKnowledge, Workspace
from context_engine.context.related_files import RELATED_MAX, RelatedFile, find_partners, merge_related
from context_engine.context.shown_lines import ShownLines
from context_engine.errors import CallError
from context_engine.model import Definition, Filter, RelPath, TextQuery
from context_engine.search import TaskText
from context_engine.text import (
    LineSpan,
    estimate_tokens,
    format_count,
    merge_spans,
    score_lines,
    shorten_prose,
    split_words,
)

if TYPE_CHECKING:
    from context_engine.history import FileHistory

EXTRAS_SHARE = 0.1
"""Share of the budget for everything but code: a question about code is answered by code."""
CHANCE_SHARE = 0.02
"""Places with a smaller share of the chance of the best one are left out: of 8,000 tokens 940 fewer are used, and 0.833
of the hunks are shown instead of 0.850 (evals/places, 60 tasks of 20 repositories)."""
PLACES_KEPT = 3
"""So many places are not left out, however much better the best one is."""
FILE_TOKENS = 30
"""Price of naming a file, without its path and summary."""
ROW_TOKENS = 14
"""Price of a memory or related file, without its texts."""
WIDER_WORTH = 0.5
"""The rest of a symbol around a hit is worth half of the hit."""
WIDER_SHARE = 1 / 3
"""Largest share of the budget for a symbol that is shown because of a hit in it."""
WIDER_LINES_MAX = 200
PART_LINES = 12
"""The best lines of a place are an option of their own: more places fit (evals/places: flat from 10 to 14 lines)."""
LINES_BEFORE = 2
"""They begin that much before the first line that has a word of the question, for they may be cut at their end."""
IMPORTS_WORTH = 0.08
"""Share of the changes of a file that are in its first imports (mean of 13,202 changed files of 145 repositories)."""
CONTEXT_LINES = 3
"""Lines around a line that a text search found."""
SYMBOLS_NAMED = 5
EXTRAS_TOKENS_MIN = 2_000
"""In a smaller budget, summaries, related places and facts of commits would take the place of code (evals/places)."""
REMEMBERED_MAX = 6
NAME_CHARS_MIN = 4
"""Shorter names of files and symbols are the beginnings of too many words."""
REMEMBERED_CHARS_MAX = 400
"""Characters of a memory, about 100 tokens; its place leads to the whole."""
HOT_FILES_MAX = 3
EXPLAINED_FILES = 2
"""The first files, whose best place is shown with its callees, callers and tests."""
MENTIONS_MAX = 3
COCHANGE_CONFIDENCE = 0.5
COCHANGE_SUPPORT = 3
"""Changed together in half of a file's commits, and not by chance."""


@dataclass(frozen=True, slots=True)
class BundleRequest:
    """A task or question, and the limits of its bundle. `known_facts` of the caller come before all others.

    Places that are in `shown` are named instead of repeated.
    """

    text: str
    files_max: int = 10
    tokens_max: int = 8_000
    filter: Filter = field(default_factory=Filter)
    relevance_min: float = 0.3
    with_related: bool = True
    with_memories: bool = True
    with_summaries: bool = True
    addresses: tuple[str, ...] = ()
    known_facts: tuple[str, ...] = ()
    shown: ShownLines = field(default_factory=ShownLines)


class Snippet(NamedTuple):
    """Lines of a file. `goes_on` is the line at which a cut place continues; 0 if it is complete."""

    span: LineSpan
    text: str
    relevance: float
    tokens: int
    symbol: str
    goes_on: int


@dataclass(frozen=True, slots=True)
class BundledFile:
    """A file of a bundle. Its snippets do not touch; the most relevant comes first."""

    path: RelPath
    language: str
    relevance: float
    summary: str
    snippets: tuple[Snippet, ...]
    related: tuple[RelatedFile, ...]


class ShownPlace(NamedTuple):
    """Lines that the client was shown before, and the tokens that they would cost again."""

    path: RelPath
    span: LineSpan
    tokens: int


class ExternalMention(NamedTuple):
    """An address that the caller named, and the files that mention it. It is never fetched."""

    address: str
    mentioned: tuple[str, ...]


class LeftOut(NamedTuple):
    """What was found and is not shown: the next files, and unreadable files with the reason."""

    files: tuple[str, ...]
    unreadable: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bundle:
    """The content of a reply. `absent` names the sources that were not available: memories, history."""

    files: tuple[BundledFile, ...]
    remembered: tuple[KnowledgeEntry, ...]
    external: tuple[ExternalMention, ...]
    hints: tuple[str, ...]
    left_out: LeftOut
    shown_before: tuple[ShownPlace, ...]
    engine: str
    freshness: str
    sources: Mapping[str, int]
    absent: tuple[str, ...]
    warnings: tuple[str, ...]
    reason: str


def build_bundle(
    request: BundleRequest, workspace: Workspace, team: ProjectKnowledge, excess: Callable[[Bundle], int]
) -> Bundle:
    """Return the best bundle that fits. `excess` returns the tokens by which a bundle, as sent, is over its budget.

    Raises: as `Engine.search` does, but never for a missing index.
    """
    gather = GatherRequest(request.text, request.files_max, request.filter, request.relevance_min)
    found = gather_files(gather, workspace)
    opened, unreadable = [], []
    for file in found.files:
        try:
            opened.append(_open_file(file, workspace, request))
        except CallError as error:
            unreadable.append(f"{file.path}: {error.message}")
    extras = list(_list_extras(opened, workspace, team, request))
    builder = _BundleBuilder(found, opened, team, tuple(unreadable), request.shown)
    room = -excess(builder.build(()))
    prices = [_price_file(file) for file in opened]
    stems = extract_stems(request.text)
    options = order_by_value(_list_options(opened, prices, room, stems), prices)

    def build(room: float) -> Bundle:
        return builder.build(_select_entries(options, prices, extras, room))

    def exceed(bundle: Bundle) -> int:  # the room of places that were shown before stays empty: the next matter less
        return excess(bundle) + sum(place.tokens for place in bundle.shown_before)

    if fitting := fit_budget(build, exceed, room):
        return fitting
    entries = _select_entries(options, prices, extras, room)
    return builder.build(entries[: count_beginning(len(entries), lambda n: excess(builder.build(entries[:n])) <= 0)])


def _select_entries(
    options: Sequence[SnippetOption], prices: Sequence[FilePrice], extras: Sequence[_Extra], room: float
) -> list[_Entry]:
    """Return what to show, the most important first: the best place, the extras, the other places."""
    packer = SnippetPacker(prices, room)
    packer.select_first(options)
    first_count = len(packer.selected)
    chosen_extras = _fit_extras(extras, min(packer.room, int(room * EXTRAS_SHARE)))
    packer.room -= sum(extra.price for extra in chosen_extras)
    packer.select_best(options)
    packer.fill(options, shortest=PART_LINES_MIN)
    return [*packer.selected[:first_count], *chosen_extras, *packer.selected[first_count:]]


# -- opening files ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _OpenedFile:
    """A found file as it is now: lines by number, symbols, and the places to show."""

    path: RelPath
    language: str
    relevance: float
    summary: str
    lines: Mapping[int, str]
    symbols: tuple[Definition, ...]
    imports: list[LineSpan]
    places: tuple[FoundPlace, ...]
    is_stale: bool

    def join(self, span: LineSpan) -> str:
        """Return the text of these lines."""
        return "\n".join(self.lines.get(number, "") for number in range(span.first, span.last + 1))


def _open_file(file: FoundFile, workspace: Workspace, request: BundleRequest) -> _OpenedFile:
    """Return a file with what it defines at its top level; for a document, its headings."""
    outline = workspace.symbols.outline(file.path, details=False)
    lines = read_lines(file, workspace)
    names = list(dict.fromkeys(symbol.name for depth, symbol in outline.symbols if depth == 0))
    with_summary = names and request.with_summaries and request.tokens_max >= EXTRAS_TOKENS_MIN
    more = f" and {len(names) - SYMBOLS_NAMED} more" if len(names) > SYMBOLS_NAMED else ""
    imported = outline.imports if TaskText(request.text).is_task else ()  # a question edits nothing
    places = []
    for place in file.spots:  # within the file of today; a short one gets some lines around it
        is_short = not place.text or place.span.lines < PART_LINES_MIN
        span = place.span.expand(CONTEXT_LINES) if is_short else place.span
        written = [number for number in range(span.first, span.last + 1) if lines.get(number, "").strip()]
        if written:
            places.append(place._replace(span=LineSpan(written[0], written[-1])))
    return _OpenedFile(
        path=outline.path,
        language=outline.language,
        relevance=file.relevance,
        summary=f"defines {', '.join(names[:SYMBOLS_NAMED])}{more}" if with_summary else "",
        lines=lines,
        symbols=tuple(symbol for _, symbol in outline.symbols),
        imports=merge_spans(LineSpan(line, line + 1) for _, line in imported if {line, line + 1} <= lines.keys()),
        places=tuple(places),
        is_stale=file.is_stale,
    )


# -- what could be shown ----------------------------------------------------------------------------------------------


def _price_file(file: _OpenedFile) -> FilePrice:
    """Return the prices of a file: its name and summary, and its lines."""

    @cache
    def price_line(number: int) -> float:
        return estimate_tokens(f"{file.lines.get(number, '')}\n")

    return FilePrice(FILE_TOKENS + estimate_tokens(f"{file.path} {file.summary}"), price_line)


def _list_options(
    opened: Sequence[_OpenedFile], prices: Sequence[FilePrice], room: int, stems: Sequence[str]
) -> Iterator[SnippetOption]:
    """Yield the places that the room could be for, their best parts, symbols around them if not too long, imports."""
    ranked = sorted((place.chance for file in opened for place in file.places), reverse=True)
    likely = [chance for chance in ranked if chance >= CHANCE_SHARE * ranked[0]]
    most = min(max(1, room // PLACE_TOKENS_MIN), max(PLACES_KEPT, len(likely)))
    least = ranked[:most][-1] if ranked else 0.0
    for number, (file, price) in enumerate(zip(opened, prices, strict=True)):
        shown = [place for place in file.places if place.chance >= least]
        for rank, place in enumerate(shown):
            part = find_best_lines(place.span, file.lines, stems, PART_LINES)
            yield SnippetOption(number, place.span, place.chance, rank == 0, part.first)
            if place.span.lines > PART_LINES:
                yield SnippetOption(number, part, place.chance * PART_WORTH)
            wide, _ = widen_to_symbol(place.span, file.symbols, lines_max=WIDER_LINES_MAX)
            is_there = wide.first in file.lines and wide.last in file.lines
            if wide != place.span and is_there and price.price_span(wide) <= room * WIDER_SHARE:
                yield SnippetOption(number, wide, place.chance * WIDER_WORTH)
        if shown and file.imports:  # a file is edited if any of its places is
            edited = 1 - prod(1 - place.chance for place in file.places)
            yield SnippetOption(number, file.imports[0], edited * IMPORTS_WORTH, is_addition=True)


def find_best_lines(span: LineSpan, lines: Mapping[int, str], stems: Sequence[str], count: int) -> LineSpan:
    """Return `count` consecutive lines of a span that have the most of the question, from just before it on.

    >>> lines = {1: "# License", 2: "def drain(pool):", 3: "    pool.close()"}
    >>> find_best_lines(LineSpan(1, 3), lines, ["drain", "pool"], 1)
    LineSpan(first=2, last=2)
    """
    if span.lines <= count:
        return span
    text = "\n".join(lines.get(number, "") for number in range(span.first, span.last + 1))
    sums = [0.0, *accumulate(score_lines(text, stems))]
    values = [round(after - before, 6) for before, after in zip(sums, sums[count:], strict=False)]
    first = values.index(max(values))
    equal = next((n for n, value in enumerate(values[first:]) if value != values[first]), len(values) - first)
    first += span.first + max(0, equal - 1 - LINES_BEFORE)
    return LineSpan(first, first + count - 1)


class _Extra(NamedTuple):
    """A row that is not code. `file` is the number of the file it belongs to, or -1."""

    content: KnowledgeEntry | RelatedFile | ExternalMention | str
    file: int = -1
    price: int = 0


_Entry = SelectedLines | _Extra


def _fit_extras(extras: Sequence[_Extra], room: float) -> list[_Extra]:
    chosen = []
    for extra in extras:
        content = extra.content
        if isinstance(content, KnowledgeEntry):
            kind = "memory" if content.is_memory else "discovery"
            row = (content.id, kind, content.type, content.title, content.content, content.place, content.score)
            text = " ".join(map(str, (*row, content.scope)))
        else:
            text = content if isinstance(content, str) else " ".join(map(str, content))
        price = ROW_TOKENS + estimate_tokens(text)
        if price <= room:
            chosen.append(extra._replace(price=price))
            room -= price
    return chosen


def _list_extras(
    opened: Sequence[_OpenedFile], workspace: Workspace, team: ProjectKnowledge, request: BundleRequest
) -> Iterator[_Extra]:
    """Yield facts of the caller, memories, files related to each file, files that mention an address, and hints."""
    yield from map(_Extra, request.known_facts)
    is_small = request.tokens_max < EXTRAS_TOKENS_MIN
    if request.with_memories and team.recall:
        for item in team.recall(request.text, REMEMBERED_MAX, [file.path for file in opened]):
            is_derived = not item.is_memory and item.type != "rule"
            if not is_derived or (not is_small and _speaks_of(item, opened)):
                content = shorten_prose(item.content, REMEMBERED_CHARS_MAX)
                yield _Extra(replace(item, content=content, score=round(item.score, 3)))
    if request.with_related and not is_small:
        shown = {file.path for file in opened}
        for number, file in enumerate(opened):
            if number < EXPLAINED_FILES:
                yield from (_Extra(other, number) for other in _list_neighbors(file, opened, workspace))
            related = merge_related(file.path, _list_related(file, workspace, team.history))
            yield from (_Extra(other, number) for other in related if other.path not in shown)
    for address in request.addresses:
        scan = workspace.text_search.scan(TextQuery((address.rstrip("/"),)))
        yield _Extra(ExternalMention(address, tuple(file.path for file in scan.files[:MENTIONS_MAX])))
    if not is_small:
        yield from map(_Extra, _list_hints(opened, team.history))


def _speaks_of(item: KnowledgeEntry, opened: Sequence[_OpenedFile]) -> bool:
    """Return whether a remembered text names one of the files, or what is defined at one of its places."""
    text = f"{item.title} {item.content} {item.place}"
    if any(file.path in text for file in opened):
        return True
    stems = (file.path.rpartition("/")[2].partition(".")[0] for file in opened)
    symbols = (place.symbol.rpartition(".")[2] for file in opened for place in file.places)
    names = tuple({name.lower() for name in (*stems, *symbols) if len(name) >= NAME_CHARS_MIN})
    return any(word.lower().startswith(names) for word in split_words(text))


def _list_neighbors(file: _OpenedFile, opened: Sequence[_OpenedFile], workspace: Workspace) -> Iterator[RelatedFile]:
    """Yield what the best place of a file uses, what uses it, and its tests, a line each, beyond the places found."""
    found = {str(other.path): [place.span for place in other.places] for other in opened}
    try:
        neighbors = workspace.symbols.neighbors(file.path, file.places[0].span) if file.places else ()
    except CallError:  # without an index
        return
    for row in neighbors:
        if not any(span.first <= row.line <= span.last for span in found.get(row.path, ())):
            yield RelatedFile(row.path, row.relation, row.line, row.text)


def _list_related(file: _OpenedFile, workspace: Workspace, history: FileHistory | None) -> Iterator[RelatedFile]:
    for other in find_partners(file.path, workspace.symbols.files_named)[:RELATED_MAX]:
        yield RelatedFile(other, "paired by name")
    if history:
        cochanged = history.list_cochanged(file.path, support=COCHANGE_SUPPORT, confidence=COCHANGE_CONFIDENCE)
        for partner in cochanged[:RELATED_MAX]:
            yield RelatedFile(partner.path, f"changed with it in {partner.confidence:.0%} of its commits")


def _list_hints(opened: Sequence[_OpenedFile], history: FileHistory | None) -> Iterator[str]:
    """Yield facts that the code does not show, the most useful kind first. Never advice or a guess."""
    for file in opened if history else ():
        for partner in history.list_usual_cochanges(file.path) if history else ():
            commits = format_count(round(partner.together / partner.confidence), "commit")
            yield f"{file.path}: changed together with {partner.path} in {partner.together} of {commits}"
    for file in opened:
        if file.is_stale:
            yield f"{file.path}: edited since it was indexed; lines are those of today"
    for file in opened[:HOT_FILES_MAX]:
        record = history.record(file.path) if history else None
        if record:
            last_on = f"{datetime.fromtimestamp(record.last_at, UTC):%Y-%m-%d}"
            yield f"{file.path}: {format_count(record.commits, 'commit')}, the last on {last_on}"


# -- building the bundle ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _BundleBuilder:
    """Builds a bundle from the entries that are shown."""

    found: GatheredFiles
    opened: Sequence[_OpenedFile]
    team: ProjectKnowledge
    unreadable: tuple[str, ...]
    known: ShownLines

    def build(self, entries: Sequence[_Entry]) -> Bundle:
        """Return the bundle of these entries."""
        rows = [entry.content for entry in entries if isinstance(entry, _Extra)]
        shown_before = self._find_shown(entries)
        files = tuple(self._build_file(number, entries, shown_before) for number in range(len(self.opened)))
        shown = tuple(file for file in files if file.snippets)
        from_history = sum("changed with it" in related.why for file in shown for related in file.related)
        sources = {"memories": self.team.recall, "history": self.team.history}
        return Bundle(
            files=shown,
            remembered=tuple(row for row in rows if isinstance(row, KnowledgeEntry)),
            external=tuple(row for row in rows if isinstance(row, ExternalMention)),
            hints=tuple(row for row in rows if isinstance(row, str)),
            left_out=self._list_left_out(files, shown_before),
            shown_before=tuple(shown_before),
            engine=self.found.engine,
            freshness=self.found.freshness,
            sources={**self.found.sources, "history": from_history},
            absent=tuple(name for name, source in sources.items() if source is None),
            warnings=self.found.warnings,
            reason=self.found.reason,
        )

    def _find_shown(self, entries: Sequence[_Entry]) -> list[ShownPlace]:
        found: dict[int, list[LineSpan]] = {}
        for entry in entries:
            if isinstance(entry, SelectedLines):
                file = self.opened[entry.file]
                if self.known.includes(file.path, entry.span.first, file.join(entry.span)):
                    found.setdefault(entry.file, []).append(entry.span)
        return [
            ShownPlace(self.opened[number].path, span, estimate_tokens(self.opened[number].join(span)))
            for number, spans in sorted(found.items())
            for span in merge_spans(spans)
        ]

    def _build_file(self, number: int, entries: Sequence[_Entry], shown_before: Sequence[ShownPlace]) -> BundledFile:
        file = self.opened[number]
        known = [place.span for place in shown_before if place.path == file.path]
        own = [entry for entry in entries if entry.file == number]
        selected = [entry.span for entry in own if isinstance(entry, SelectedLines)]
        spans = merge_spans(span for span in selected if not any(place.contains(span) for place in known))
        rows = [entry.content for entry in own if isinstance(entry, _Extra)]
        related = tuple(row for row in rows if isinstance(row, RelatedFile))
        snippets = [_build_snippet(file, span) for span in spans]
        snippets.sort(key=lambda snippet: (-snippet.relevance, snippet.span))
        return BundledFile(file.path, file.language, file.relevance, file.summary, tuple(snippets), related)

    def _list_left_out(self, files: Sequence[BundledFile], shown_before: Sequence[ShownPlace]) -> LeftOut:
        known = {place.path for place in shown_before}
        hidden = [file.path for file in files if not file.snippets and file.path not in known]
        return LeftOut((*hidden, *self.found.next_files)[:NEXT_FILES], self.unreadable)


def _build_snippet(file: _OpenedFile, span: LineSpan) -> Snippet:
    inside = [place for place in file.places if place.span.first <= span.last and span.first <= place.span.last]
    names = list(dict.fromkeys(place.symbol for place in sorted(inside) if place.symbol))
    symbol = ", ".join(names[:3]) or find_symbol_at(span, file.symbols)
    is_cut = any(place.span.first <= span.last < place.span.last for place in inside)
    text = file.join(span)
    relevance = max((place.relevance for place in inside), default=0.0)
    return Snippet(span, text, relevance, estimate_tokens(text), symbol, span.last + 1 if is_cut else 0)
