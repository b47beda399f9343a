"""Search one snapshot: the places worth reading for a query, best first, with reasons.

Files are ranked, then each shows its best chunk; further chunks of a file count as much less as they are less likely
needed. For a symbol the chunk that defines it comes first. Filters apply before anything is ranked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from context_engine.index import ROLES, Snapshot, term_hashes
from context_engine.model import CHUNK_KINDS, Filter, Query
from context_engine.repo import qualify
from context_engine.search import fuse
from context_engine.search.file_usage import boost
from context_engine.search.filters import FilterMasks
from context_engine.search.name_completion import NameCompleter
from context_engine.search.named_places import PATH_WEIGHT
from context_engine.search.question import Question
from context_engine.search.rankers import Floats, Mask, RankingView, Signals, compute_signals
from context_engine.search.relevance import EVIDENCE_FILES, Evidence, compare_with_best, estimate_chance
from context_engine.search.semantic_scores import SemanticRanker, SemanticSignals, find_greatest, greatest_of
from context_engine.text import stem_all

BELOW_FACTOR = 0.99
OVERFLOW_CHUNKS = 50
"""Chunks of a file among which further ones are chosen: the greatest limit of a tool, so that a smaller limit shows the
beginning of the same answer."""
IMPLEMENTS_SHARE_MIN = 0.3
"""A source that matches less than that of its header is about something else."""
SHOWN_BY_MEANING = np.float32(0.5)
"""Of the cosine of a chunk, relative to its words, for the choice of the chunk that a file shows.

For 137 commits the chunks that were changed come first as often as by words alone; for questions in the words of a doc
comment more often (docs/decisions/archive/0017)."""
HEAD_FACTOR = np.float32(1e-3)
"""Of the worth of imports and license headers: they are shown if nothing else of their file matches."""
INLINE_TEST_FACTOR = np.float32(0.1)
"""Of the worth of tests inside a source file: they repeat the words of the code (docs/decisions/archive/0123)."""
CODE_KIND = CHUNK_KINDS.index("definitions")
DEFINES_FIRST = np.float32(1_000)
"""Far above any BM25 value: the chunk that defines the requested symbol is shown first."""

LIFTED_PRIOR = np.float32(0.7)
"""A query that says "test" may ask for tests, or be about a test runner: 0.005 NDCG better on whole trees than 1."""
PRIORS: Mapping[str, float] = {
    **dict.fromkeys(("test", "docs", "example", "bench", "compat", "vendor", "generated"), 0.3),
    "init": 0.5,
    "declaration": 0.7,
    "data": 0.7,
}
"""By the role of a file. At 0.7 for data, workflows and tables give way to code: 0.005 NDCG on commits (evals/wide)."""


Usage = Mapping[str, Mapping[str, float]]
"""How much each path is used, 0 to 1, by the name of its repository."""


@dataclass(frozen=True, slots=True)
class Place:
    """A chunk by its number in the snapshot, its score and the addends of it (they sum to the score).

    `chance` is the probability that an answer needs it (0-1). `is_named`: the query names its symbol or a line of it.
    """

    chunk: int
    file: int
    score: float
    why: Mapping[str, float]
    chance: float = 0.0
    is_named: bool = False


@dataclass(frozen=True, slots=True)
class Ranking:
    """Places best first.

    `matching` counts the chunks that pass the filter and match the query. `engine` is `hybrid` when vectors took part,
    else `lexical`; `missing` says why those of the chosen provider did not. `evidence` is what the best files have in
    common with the question, None without static vectors.
    """

    places: tuple[Place, ...]
    matching: int
    engine: str = "lexical"
    evidence: Evidence | None = None
    missing: str = ""


class Searcher:
    """One snapshot, prepared for search; what ranking needs is computed once.

    Without `meaning` only words rank. Thread-safe: cached values are written as a whole.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        meaning: SemanticRanker | None = None,
        used: Callable[[], Usage] = dict,
        previous: Searcher | None = None,
    ) -> None:
        """Prepare a snapshot. `used` returns how much each path of each repository is used, 0 to 1.

        `previous`: the searcher of the snapshot before, of the same workspace.
        """
        self.snapshot = snapshot
        self.meaning = meaning
        self.view = RankingView(snapshot, previous.view if previous else None)
        self.masks = FilterMasks(self.view)
        self.names = NameCompleter(snapshot)
        self._used = used
        self._boosts: tuple[Usage, Floats] = ({}, np.ones(0, np.float32))

    def rank(self, query: Query, *, role_power: float = 1.0) -> Ranking:
        """Return the places worth reading for a query, best first.

        A smaller `role_power` (0-1) lowers the influence of file roles.
        """
        question = Question.of(query.text)
        prior = compute_priors(self.view, question, query.filter)
        if role_power != 1.0:
            prior = np.power(prior, np.float32(role_power))
        used = self._used()
        if any(used.values()):
            prior = prior * self._compute_boosts(used)
        allowed = self.masks.of(query.filter)
        return rank_query(self.view, query, question, allowed, prior, meaning=self.meaning)

    def find_absent_words(self, text: str) -> tuple[str, ...]:
        """Return the words of a question that are in no chunk."""
        words = list(Question.of(text).words)
        frequency = self.snapshot.matches("body", term_hashes(stem_all(words))).frequency
        return tuple(word for word, count in zip(words, frequency.tolist(), strict=True) if not count)

    def _compute_boosts(self, used: Usage) -> Floats:
        """Return the boost of each file by its usage; computed again when the scores changed."""
        known, boosts = self._boosts
        if known != used:
            boosts = np.ones(self.snapshot.files, np.float32)
            for name, shares in used.items():
                for path, share in shares.items():
                    if (file := self.snapshot.by_path.get(qualify(name, path))) is not None:
                        boosts[file] = boost(share)
            self._boosts = used, boosts
        return boosts


def rank_query(
    view: RankingView,
    query: Query,
    question: Question,
    allowed: Mask | None,
    prior: Floats,
    *,
    weights: Mapping[str, float] = fuse.WEIGHTS,
    meaning: SemanticRanker | None = None,
) -> Ranking:
    """Rank one query. `allowed` masks the chunks that pass the filter (None: all), `prior` weighs each file."""
    signals = compute_signals(view, question, allowed)
    fusion = _Fusion(view, question, lift_asked(prior, signals, question), weights, allowed, signals)
    matching = int(np.count_nonzero(signals.chunk > 0))
    engine = "hybrid" if meaning and fusion.add_semantic(meaning, question.focus) else "lexical"
    if not question.symbol:
        fusion.lower_declarations()
    candidates = _find_best_files(view, fusion.score, query)
    chooser = _ChunkChooser(view, fusion.found, allowed, asks_for_tests="test" in question.lifted)
    rows = _select_rows(fusion, chooser, candidates, query.chunks_per_file)
    if len(rows) < query.limit > query.chunks_per_file and not query.files_max:
        rows += _select_overflow(rows, _select_rows(fusion, chooser, candidates, max(query.limit, OVERFLOW_CHUNKS)))
    if query.min_score and rows:
        rows = [row for row in rows if row.score >= query.min_score * rows[0].score]
    return Ranking(
        places=_make_places(rows[: query.limit], fusion),
        matching=matching,
        engine=engine,
        evidence=_gather_evidence(fusion.found.files, fusion.score),
        missing=fusion.missing,
    )


def _gather_evidence(signals: Mapping[str, Floats], score: Floats) -> Evidence | None:
    """Return what the best files have in common with the question; None without static vectors."""
    if "static" not in signals:
        return None
    best = find_greatest(score, EVIDENCE_FILES, score > 0)
    greatest = {name: float(values[best].max(initial=0.0)) for name, values in signals.items()}
    named = max(greatest.get(name, 0.0) for name in ("symbol", "mention", "named"))
    return Evidence(greatest["coverage"], greatest["static"], greatest["static_card"], named)


# -- the score of files -----------------------------------------------------------------------------------------------


def compute_priors(view: RankingView, question: Question, wanted: Filter) -> Floats:
    """Return the prior of each file by its role; a role that the query names or the filter selects is not lowered."""
    table = np.array([PRIORS.get(role, 1.0) for role in ROLES], np.float32)
    selected: set[str] = set()
    if "documentation" in wanted.kinds or "documentation" in wanted.tags:
        selected.add("docs")
    if "data" in wanted.kinds:
        selected.add("data")
    if wanted.include_paths:
        selected |= {"test", "docs", "example", "bench", "vendor", "data"}
    for lifted, prior in ((question.lifted, LIFTED_PRIOR), (selected, np.float32(1.0))):
        for number, role in enumerate(ROLES):
            if role in lifted:
                table[number] = max(table[number], prior)
    return table[view.roles]


def lift_asked(prior: Floats, found: Signals, question: Question) -> Floats:
    """Return the priors so that no role weighs against a name that was asked for, or a word that few files have.

    Among the files that define a name of the query, or that it names itself, the role counts; it does not weigh
    against them where all have a lower prior than other files. A long question says in passing which tests it ran.
    """
    least = 1e-9 if question.is_short else 1
    is_asked = (found.files["symbol"] > 0) | (found.files["mention"] >= least)
    if "named" in found.files:
        is_asked |= found.files["named"] > (0 if question.is_short else PATH_WEIGHT)
    for group in [is_asked, found.rare] if question.is_short else [is_asked]:
        greatest = prior[group].max(initial=0)
        if 0 < greatest < 1:
            prior = prior.copy()
            prior[group] /= greatest
    return prior


class _Fusion:
    """The score of each file, as one signal after the other is added.

    A file counts when it is alive, has a chunk that passes the filter, and matches the query by words or vectors;
    importance alone finds nothing. The score of the others is 0.
    """

    def __init__(
        self,
        view: RankingView,
        question: Question,
        prior: Floats,
        weights: Mapping[str, float],
        allowed: Mask | None,
        found: Signals,
    ) -> None:
        """Add up the signals of words."""
        self.view = view
        self.found = found
        self.missing = ""
        self._is_symbol = bool(question.symbol)  # one name: files are not found by vectors alone
        self._prior, self._weights, self._allowed = prior, weights, allowed
        self._may_be_found = view.countable
        if allowed is not None and len(view.reduce_at):
            passing = np.zeros(view.snapshot.files, bool)
            passing[view.has_chunks] = np.logical_or.reduceat(allowed, view.reduce_at)
            self._may_be_found = view.countable & passing
        self.shares = fuse.compute_shares(found.files, prior, weights)
        by_words = {name: values for name, values in self.shares.items() if name != "importance"}
        self._counts = fuse.sum_shares(by_words, np.zeros_like(prior)) > 0
        self.score = self._sum_shares()

    def add_semantic(self, meaning: SemanticRanker, text: str) -> bool:
        """Add the signals of vectors; return whether there were any."""
        static = meaning.by_static(self.view, text, self.score, self._allowed)
        if static is not None:
            self._add_signals(static)
        provided, self.missing = meaning.by_provider(self.view, text, self._allowed)
        if provided is not None:
            self._add_signals(provided)
        return static is not None or provided is not None

    def _add_signals(self, near: SemanticSignals) -> None:
        self.shares |= fuse.compute_shares(near.files, self._prior, self._weights)
        if not self._is_symbol:
            self._counts |= near.brings
        self.score = self._sum_shares()
        worth = self.found.worth / greatest_of(self.found.worth)
        cosines = near.chunk[near.compared]
        worth[near.compared] += SHOWN_BY_MEANING * (cosines / greatest_of(cosines))
        self.found = replace(self.found, files={**self.found.files, **near.files}, worth=worth)

    def lower_declarations(self) -> None:
        """Put a header below its implementation where both match: questions ask how things work."""
        declaring, implementing = self.view.declarations.T
        headers, sources = self.score[declaring], self.score[implementing]
        is_above = (headers > sources) & (sources > IMPLEMENTS_SHARE_MIN * headers)
        if is_above.any():
            factor = np.ones(self.view.snapshot.files, np.float32)
            factor[declaring[is_above]] = BELOW_FACTOR * sources[is_above] / headers[is_above]
            self.shares = {name: values * factor for name, values in self.shares.items()}
            self.score = self._sum_shares()

    def _sum_shares(self) -> Floats:
        return fuse.sum_shares(self.shares, np.zeros_like(self._prior)) * (self._counts & self._may_be_found)


def _find_best_files(view: RankingView, score: Floats, query: Query) -> list[int]:
    """Return the numbers of the files that can be in the answer; with `files_max` exactly those that are."""
    candidates = (score > 0).nonzero()[0]
    most = query.files_max or query.limit
    if len(candidates) > most:
        values = score[candidates]
        candidates = candidates[values >= float(np.partition(values, -most)[-most]) - 1e-6]
    files: list[int] = candidates.tolist()
    if query.files_max:
        files.sort(key=lambda file: (-round(float(score[file]), fuse.SCORE_DIGITS), view.snapshot.paths[file]))
        del files[most:]
    return files


# -- the chunks of files ----------------------------------------------------------------------------------------------


class _Row(NamedTuple):
    """A chunk with the score that orders it; `factor` is its share of the score of its file."""

    score: float
    path: str
    first: int
    chunk: int
    file: int
    factor: float
    chance: float


def _sort_rows(rows: list[_Row]) -> list[_Row]:
    return sorted(rows, key=lambda row: (-row.score, row.path, row.first, row.chunk))


def _select_rows(fusion: _Fusion, chooser: _ChunkChooser, files: Sequence[int], chunks_per_file: int) -> list[_Row]:
    snapshot = fusion.view.snapshot
    first_lines = snapshot.chunk_column("first")
    values = fusion.score[files].tolist()
    top = max(values, default=1.0)
    rows = []
    for file, value in zip(files, values, strict=True):
        chunks = chooser.choose(file, chunks_per_file)
        shares = [chooser.compute_shares(chunk) for chunk in chunks]
        factor = 1.0
        for rank, (chunk, own) in enumerate(zip(chunks, shares, strict=True)):
            factor = min(factor, compare_with_best(shares[0], own, rank))
            chance = estimate_chance(file_share=value / top, chunk_share=own[0], title_share=own[1], rank=rank)
            score = round(value * factor, fuse.SCORE_DIGITS)
            rows.append(_Row(score, snapshot.paths[file], int(first_lines[chunk]), chunk, file, factor, chance))
    return _sort_rows(rows)


def _select_overflow(rows: list[_Row], more: list[_Row]) -> list[_Row]:
    """Return further chunks of the same files where files are too few: they rank below all of `rows`."""
    if not rows:
        return []
    shown = {row.chunk for row in rows}
    further = [row for row in more if row.chunk not in shown and row.score > 0]
    scale = min(1.0, rows[-1].score * BELOW_FACTOR / max((row.score for row in further), default=1.0))
    lowered = [
        row._replace(score=round(row.score * scale, fuse.SCORE_DIGITS), factor=row.factor * scale) for row in further
    ]
    return _sort_rows(lowered)


def _make_places(rows: Sequence[_Row], fusion: _Fusion) -> tuple[Place, ...]:
    files = [row.file for row in rows]
    columns = {name: values[files].tolist() for name, values in fusion.shares.items()}
    places = []
    for number, row in enumerate(rows):
        why = {name: column[number] * row.factor for name, column in columns.items() if column[number]}
        is_named = row.chunk in fusion.found.defines
        places.append(Place(row.chunk, row.file, row.score, why, row.chance, is_named))
    return tuple(places)


class _ChunkChooser:
    def __init__(self, view: RankingView, found: Signals, allowed: Mask | None, *, asks_for_tests: bool) -> None:
        self._view = view
        self._found = found
        self._allowed = allowed
        self._asks_for_tests = asks_for_tests
        self._greatest = greatest_of(found.worth)
        self._columns = [view.snapshot.chunk_column(name) for name in ("kind", "symbol", "last")]

    def choose(self, file: int, most: int) -> list[int]:
        """Return the chunks of a file to show, best first: defining ones, then by worth.

        These are all that match the query; else only the best.
        """
        found, start, stop = self._found, *self._view.chunk_starts[file : file + 2]
        value = found.worth[start:stop] * self._compute_factors(file, start, stop)
        for chunk, weight in found.defines.items():
            if start <= chunk < stop:
                value[chunk - start] += DEFINES_FIRST * weight
        if self._allowed is not None:
            value[~self._allowed[start:stop]] = -1
        if most == 1:
            best = int(value.argmax())
            return [start + best] if value[best] >= 0 else []
        order = [start + number for number in np.argsort(-value, kind="stable")[:most].tolist() if value[number] >= 0]
        matching = [chunk for chunk in order if found.chunk[chunk] > 0 or chunk in found.defines]
        return matching or order[:1]

    def compute_shares(self, chunk: int) -> tuple[float, float]:
        """Return the worth of a chunk relative to the best, 1 for a named one, and its share of the title's words."""
        found = self._found
        share = 1.0 if chunk in found.defines else float(found.worth[chunk] / self._greatest)
        return share, float(np.float32(found.title[chunk] / found.title_weight))

    def _compute_factors(self, file: int, start: int, stop: int) -> Floats:
        """Return factors that lower what precedes the first definition, imports and licenses, and inline tests."""
        kinds, symbols, lasts = (column[start:stop] for column in self._columns)
        factors = np.ones(stop - start, np.float32)
        defining = np.flatnonzero(symbols >= 0)
        if len(defining):
            factors[: defining[0]][kinds[: defining[0]] == CODE_KIND] = HEAD_FACTOR
        for first, last in () if self._asks_for_tests else self._view.inline_tests(file):
            factors[(first < lasts) & (lasts <= last + 1)] *= INLINE_TEST_FACTOR  # an attribute may precede the module
        return factors
