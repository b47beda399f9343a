"""The search of one workspace: it ranks chunks for a query and completes names."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import NamedTuple, Self

from context_engine.errors import ContextEngineError, InvalidArgument, NextStep, NotIndexed
from context_engine.index import IndexService, Snapshot, StaticEncoder, UnionSnapshot
from context_engine.model import Answer, Filter, Hit, Query
from context_engine.repo import JointService, ReadFile, WorkspaceFile, WorkspaceFiles, name_each
from context_engine.search.file_usage import FileUsage
from context_engine.search.hit_reading import HitReader, asks_for_comments
from context_engine.search.name_completion import Completions
from context_engine.search.question import Question
from context_engine.search.relevance import KEPT_FILES, KEPT_SHARE, explain_weakness
from context_engine.search.reranking import rerank
from context_engine.search.searcher import Place, Ranking, Searcher, Usage
from context_engine.search.semantic_scores import ProviderVectors, SemanticRanker
from context_engine.search.text_scanner import TextScanner
from context_engine.secrets import redact
from context_engine.text import format_count

OUTLINE_FACTOR = 0.35
"""The worth of the `symbols` chunk of a file relative to its best chunk, when both are requested."""
HURRY_WAIT_S = 3.0
"""How long the first answer to a question waits for its files while the index is built: as long as for a first part."""
HURRIED_WORDS_MAX, HURRIED_CHARS_MIN = 6, 3
"""Each word is a pass over the text of all files: .2 s for 40,000 of them."""
HURRIED_FILES_MAX = 200
QUESTIONS_KEPT = 64


class SearchState(NamedTuple):
    """The current searcher, what reads the files, and how far the index agrees with them."""

    searcher: Searcher
    read: ReadFile
    freshness: str
    trouble: str = ""  # why the index could not be brought up to date
    prepare: Callable[[Sequence[str]], None] | None = None  # gets the files of the hits before they are read

    def answer(self, query: Query) -> Answer:
        """Return the places worth reading for a query, or why there are none.

        A `symbols` chunk is made from an outline.
        """
        searcher, kinds, tags = self.searcher, query.filter.kinds, query.filter.tags
        reader = HitReader(searcher.view, self.read)
        weakness, probability = "", 0.0
        if "symbols" in kinds or ("symbols" in tags and not kinds):
            ranking, hits, total = _find_outlines(self, reader, query)
        else:
            ranking = searcher.rank(query)
            places = drop_distant(ranking.places, query.min_score)
            _prepare_files(self, places)
            hits, total = _read_hits(reader, places, query.text), ranking.matching
            evidence = ranking.evidence
            if evidence:
                probability = evidence.probability
            if (
                evidence and evidence.is_weak and query.filter.is_empty and ranking.places
            ):  # a filter knows what it asks for
                weakness = explain_weakness(evidence, searcher.find_absent_words(redact(query.text).text))
        return Answer(
            hits=tuple(hits),
            engine=ranking.engine,
            freshness=self.freshness,
            total=total,
            reason="" if hits else _explain_no_hits(self, query),
            near_tags=() if hits else searcher.masks.similar_tags(tags),
            weakness=weakness,
            probability=probability,
            missing=ranking.missing,
        )


class SearchService(JointService):
    """Searches one workspace, or several by one ranking. Thread-safe; every answer is of one snapshot."""

    def __init__(
        self,
        index: IndexService,
        files: WorkspaceFiles,
        access: FileUsage,
        encoder: StaticEncoder | None,
        provider: ProviderVectors,
        scanner: TextScanner,
    ) -> None:
        """`access` counts which files are used; without an `encoder` only words rank; `provider` has other vectors.

        `scanner` finds the files to index first when a question comes before the index is complete.
        """
        self.index = index
        self._live = index.live
        self.files = files
        self._access = access
        self._scanner = scanner
        self._hurried: dict[str, None] = {}  # questions whose files were put first
        self._meaning = None if encoder is None else SemanticRanker(encoder.query, provider)
        self._lock = threading.Lock()
        self._searcher: Searcher | None = None

    @classmethod
    def join(cls, services: Mapping[str, Self], absent: Mapping[str, str]) -> Self:
        """Return the search of several repositories, whose files are ranked together."""
        joint = super().join(services, absent)
        joint._meaning = next(iter(services.values()))._meaning
        joint._lock, joint._searcher = threading.Lock(), None
        return joint

    # -- ranking --

    def find(self, query: Query) -> Answer:
        """Find the places worth reading for a query. Filters apply before ranking.

        Raises: NotIndexed when there is no index and none is being built, InvalidArgument for an empty query.
        """
        if not query.text.strip():
            raise InvalidArgument("query is empty", suggestion="say what to find, in words or code")
        self.hurry(query.text)
        freshness = self._refresh()
        state = self._state(freshness)
        if state is None:
            return self._answer_without_index(freshness)
        answer = state.answer(query)
        # An answer that says how many files were edited may show some of them; one that knows of none takes them in.
        stale = frozenset(str(hit.chunk.path) for hit in answer.hits if hit.stale and answer.freshness == "fresh")
        was_indexed = self.ask_owners(stale, lambda one, paths: one._live.index_shown(frozenset(paths)))
        if any(was_indexed.values()) and (state := self.state()) is not None:
            answer = state.answer(query)
        return answer

    def hurry(self, text: str, wait_s: float = HURRY_WAIT_S) -> bool:
        """While the index is built, have the files with the words of a question indexed next, and wait for them.

        Return whether they are all indexed. The same question is not waited for twice.
        """
        until = time.monotonic() + wait_s
        are_ready = [one._hurry(text, until) for one in self.members.values()]
        return all(are_ready)

    def _hurry(self, text: str, until: float) -> bool:
        if not self._live.is_long_run or text in self._hurried:
            return not self._live.is_building
        question = Question.of(text)
        weights = {question.spelled: 1.0} if question.symbol else question.words
        rarest = sorted(weights, key=lambda word: (-weights[word], -len(word)))[:HURRIED_WORDS_MAX]
        words = {word: weights[word] for word in rarest if len(word) >= HURRIED_CHARS_MIN}
        paths = self._live.pending_files(until)
        with suppress(ContextEngineError):  # the answer is then of what is indexed
            found = self._scanner.find_by_words(words, paths, wait_s=(until - time.monotonic()) / 2)
            self._hurried = dict.fromkeys([*self._hurried, text][-QUESTIONS_KEPT:])
            return self._live.hurry(found[:HURRIED_FILES_MAX], until)
        return False

    def state(self) -> SearchState | None:
        """Return the current state after checking for edits; None without an index."""
        return self._state(self._refresh())

    def _refresh(self) -> str:
        """Check for edits, and return how fresh a snapshot is that is read after this."""
        freshness = {name: one._live.refresh() for name, one in self.members.items()}
        for name, one in self.joined.items():
            if one._live.snapshot() is None and not one._live.is_building:
                freshness[name] = "no index"
        return self.join_freshness(freshness)

    def _state(self, freshness: str) -> SearchState | None:
        searcher = self.searcher()
        if searcher is None:
            return None
        errors = {name: error for name, one in self.members.items() if (error := one._live.last_error)}
        return SearchState(searcher, self._load, freshness, "; ".join(name_each(errors)))

    def _load(self, path: str) -> WorkspaceFile | None:
        _, owner, path_in_it = self.find_owner(path)
        return owner.files.load(path_in_it)

    def searcher(self) -> Searcher | None:
        """Return the searcher of the newest snapshot, kept until another is published; None without an index."""
        snapshots = {name: snapshot for name, one in self.members.items() if (snapshot := one._live.snapshot())}
        with self._lock:
            known = self._searcher
            snapshot = self._unite(snapshots) if self.joined else snapshots.get("")
            if snapshot is None:
                self._searcher = None
            elif known is None or known.snapshot is not snapshot:
                previous = None if self.joined else known  # repositories may share a path
                self._searcher = Searcher(snapshot, self._meaning, self._usage, previous)
            return self._searcher

    def _unite(self, snapshots: Mapping[str, Snapshot]) -> Snapshot | None:
        """Return the snapshots as one, which is kept until one of them is another; None if there is none."""
        known = self._searcher.snapshot if self._searcher else None
        if isinstance(known, UnionSnapshot) and known.parts == snapshots:
            return known
        return UnionSnapshot(snapshots) if snapshots else None

    def _usage(self) -> Usage:
        return {name: one._access.ranking_scores() for name, one in self.members.items()}

    def forget(self) -> None:
        """Release the snapshot of an index that is about to be deleted."""
        with self._lock:
            self._searcher = None

    def _answer_without_index(self, freshness: str) -> Answer:
        lives = [one._live for one in self.members.values()]
        if any(live.is_building for live in lives):
            return Answer((), "lexical", freshness, 0, "the index is being built: ask again in a moment", ())
        errors = [live.last_error for live in lives if live.last_error]
        raise NotIndexed(
            "none of these repositories has an index yet" if self.joined else "this workspace has no index yet",
            next_steps=NextStep("index_workspace", "to build it; that takes seconds"),
            details={"last_error": "; ".join(errors)} if errors else {},
        )

    # -- completion --

    def complete_path(self, typed: str, *, limit: int = 100, folders: bool = False) -> Completions:
        """Complete a path to indexed files (and folders), best first, with their number; none without an index.

        It looks at no file: completing must be immediate.
        """
        searcher = self.searcher()
        return searcher.names.paths(typed, limit, folders=folders) if searcher else ((), 0)

    def complete_symbol(self, typed: str, *, limit: int = 100) -> Completions:
        """Complete a name, or a member after `Owner.`, with the number of candidates; none without an index."""
        searcher = self.searcher()
        return searcher.names.symbols(typed, limit) if searcher else ((), 0)

    # -- what is indexed --

    def language_counts(self) -> dict[str, int]:
        """Count the indexed files by language, most first."""
        snapshot = self._live.snapshot()
        if snapshot is None:
            return {}
        codes = snapshot.file_column("language")[snapshot.file_alive].tolist()
        return {snapshot.languages[code]: count for code, count in Counter(codes).most_common()}


def _find_outlines(state: SearchState, reader: HitReader, query: Query) -> tuple[Ranking, list[Hit], int]:
    """Return the outlines of the best files, among the chunks of the other requested kinds, and how many match."""
    kinds, tags = query.filter.kinds, query.filter.tags
    others = () if "symbols" in tags else tuple(kind for kind in kinds if kind != "symbols")
    of_any_kind = replace(query.filter, kinds=(), tags=tuple(tag for tag in tags if tag != "symbols"))
    by_file = state.searcher.rank(replace(query, filter=of_any_kind, chunks_per_file=1))
    _prepare_files(state, by_file.places)
    hits = reader.outlines(by_file.places, OUTLINE_FACTOR if others else 1.0)
    total = len(hits)
    if others:
        rest = state.searcher.rank(replace(query, filter=replace(query.filter, kinds=others)))
        _prepare_files(state, rest.places)
        hits += reader.hits(rest.places)
        total += rest.matching
    hits.sort(key=lambda hit: (-hit.score, hit.chunk.path, hit.chunk.span))
    return by_file, hits[: query.limit], total


def _prepare_files(state: SearchState, places: Sequence[Place]) -> None:
    if state.prepare:
        snapshot = state.searcher.snapshot
        state.prepare([snapshot.key(file) for file in dict.fromkeys(place.file for place in places)])


def _read_hits(reader: HitReader, places: Sequence[Place], question: str) -> list[Hit]:
    """Return the hits of places, ranked again by their texts.

    A question about comments wants the comments, not the code below them.
    """
    if asks_for_comments(question):
        return reader.hits(places)
    return rerank(question, reader.hits(reader.skip_comments(places)))


def drop_distant(places: Sequence[Place], share: float) -> list[Place]:
    """Return the places of the first files, and of those with `share` of the best score (0: `KEPT_SHARE`)."""
    scores: dict[int, float] = {}
    for place in places:
        scores[place.file] = max(place.score, scores.get(place.file, 0.0))
    least = (share or KEPT_SHARE) * max(scores.values(), default=0.0)
    kept = {file for rank, (file, score) in enumerate(scores.items()) if rank < KEPT_FILES or score >= least}
    return [place for place in places if place.file in kept]


def _explain_no_hits(state: SearchState, query: Query) -> str:
    if not state.searcher.snapshot.living_files:
        return "the index is empty: no readable text files were found (index_status lists what was skipped)"
    if not query.filter.is_empty:
        unfiltered = state.searcher.rank(replace(query, filter=Filter(), min_score=0.0))
        if unfiltered.places:
            cause = _explain_filter(state.searcher, query.filter) or "the filter"
            return f"{cause} removed all of {format_count(unfiltered.matching, 'matching chunk')}"
    trouble = [text for text in (state.freshness, state.trouble) if text not in ("", "fresh")]
    ending = f" ({'; '.join(trouble)})" if trouble else ""
    return f"no indexed text contains any word of the query{ending}"


def _explain_filter(searcher: Searcher, wanted: Filter) -> str:
    """Name the part of a filter that no chunk of the index passes alone; empty if each passes some."""
    for part in fields(Filter):
        values = getattr(wanted, part.name)
        alone = searcher.masks.of(Filter(**{part.name: values})) if values and part.name != "exclude_paths" else None
        if alone is not None and not alone.any():
            names = ", ".join(map(repr, values))
            known = f" (there are {', '.join(searcher.snapshot.languages)})" if part.name == "languages" else ""
            return f"the filter {names}, which no indexed file passes{known},"
    return ""
