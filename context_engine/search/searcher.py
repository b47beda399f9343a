"""Search one snapshot: the places worth reading for a query, best first, with reasons.

Files are ranked, then each shows its best chunk; further chunks of a file count as much less as they are less likely
needed. For a symbol the chunk that defines it comes first. Filters apply before anything is ranked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from context_engine.index import Snapshot, term_hashes
from context_engine.model import CHUNK_KINDS, Filter, Query
from context_engine.search import fuse
from context_engine.search.file_usage import boost
from context_engine.search.filters import FilterMasks
from context_engine.search.named_places import PATH_WEIGHT
from context_engine.search.question import Question
from context_engine.search.rankers import RankingView, Signals, compute_signals
from context_engine.search.relevance import EVIDENCE_FILES, Evidence, compare_with_best, estimate_chance
from context_engine.search.semantic_scores import (
    SemanticRanker,
    SemanticSignals,
    compute_shares_of_best,
    greatest_of,
)
from context_engine.search.vector_search import find_greatest
from context_engine.text import stem_all

Row = tuple[float, str, int, int, int, float, float]
"""(score, path, first line, chunk, file, factor, chance) of a chunk; the factor is its share of the file's score."""
BELOW_FACTOR = 0.99
OVERFLOW_CHUNKS = 50
"""Chunks of a file among which further ones are chosen: the greatest limit of a tool, so that a smaller limit shows the
beginning of the same answer."""
IMPLEMENTS_SHARE_MIN = 0.3
"""A source that matches less than that of its header is about something else."""
SHOWN_BY_MEANING = np.float32(0.5)
"""Of the cosine of a chunk, relative to its words, for the choice of the chunk that a file shows.

For 137 commits the chunks that were changed come first as often as by words alone; for questions in the words of a doc
comment more often (docs/decisions/0017)."""
HEAD_FACTOR = np.float32(1e-3)
"""Of the worth of imports and license headers: they are shown if nothing else of their file matches."""
INLINE_TEST_FACTOR = np.float32(0.1)
"""Of the worth of tests inside a source file: they repeat the words of the code (docs/decisions/0123)."""
CODE_KIND = CHUNK_KINDS.index("definitions")
DEFINES_FIRST = np.float32(1_000)
"""Far above any BM25 value: the chunk that defines the requested symbol is shown first."""
SCORE_DIGITS = 6
"""Scores are rounded before they are compared, so that the order of floating-point sums cannot break a tie."""

LIFTED_PRIOR = np.float32(0.7)
"""A query that says "test" may ask for tests, or be about a test runner: 0.005 NDCG better on whole trees than 1."""

PRIORS: Mapping[str, float] = {
    "test": 0.3,
    "docs": 0.3,
    "example": 0.3,
    "bench": 0.3,
    "compat": 0.3,
    "vendor": 0.3,
    "generated": 0.3,
    "init": 0.5,
    "declaration": 0.7,
    "data": 0.7,
}
"""By the role of a file. At 0.7 for data, workflows and tables give way to code: 0.005 NDCG on commits (evals/wide)."""


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

    `passing` counts the chunks that passed the filter, `matching` those of them that match the query. `engine` is
    `hybrid` when vectors took part, else `lexical`; `missing` says why those of the chosen provider did not. `evidence`
    is what the best files have in common with the question, None without static vectors.
    """

    places: tuple[Place, ...]
    matching: int
    passing: int
    engine: str = "lexical"
    evidence: Evidence | None = None
    missing: str = ""


class Searcher:
    """One snapshot, prepared for search; what ranking needs is computed once.

    `roles` names the file roles as the snapshot numbers them; without `meaning` only words rank. Thread-safe: cached
    values are written as a whole.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        roles: tuple[str, ...],
        meaning: SemanticRanker | None = None,
        used: Callable[[], Mapping[str, float]] = dict,
        previous: Searcher | None = None,
    ) -> None:
        """Prepare a snapshot. `used` returns how much each path is used, 0 to 1.

        `previous`: the searcher of the snapshot before, of the same workspace.
        """
        self.snapshot = snapshot
        self.meaning = meaning
        self._used = used
        self._boosts: tuple[Mapping[str, float], npt.NDArray[np.float32] | None] = ({}, None)
        self.view = RankingView(snapshot, previous.view if previous else None)
        self.masks = FilterMasks(self.view)
        self._roles = roles

    def rank(self, query: Query, *, weights: Mapping[str, float] = fuse.WEIGHTS, role_power: float = 1.0) -> Ranking:
        """Return the places worth reading for a query, best first.

        A smaller `role_power` (0-1) lowers the influence of file roles.
        """
        asked = Question.of(query.text)
        prior = compute_priors(self.view, self._roles, asked, query.filter)
        if role_power != 1.0:
            prior = np.power(prior, np.float32(role_power))
        prior = self._apply_usage(prior)
        return search(
            self.view, query, asked, self.masks.of(query.filter), prior, weights=weights, meaning=self.meaning
        )

    def find_absent_words(self, text: str) -> tuple[str, ...]:
        """Return the words of a question that are in no chunk."""
        words = Question.of(text).words
        frequency = self.snapshot.matches("body", term_hashes(stem_all(words))).frequency
        return tuple(word for word, count in zip(words, frequency.tolist(), strict=True) if not count)

    def _apply_usage(self, prior: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the prior of each file times its boost by usage; computed again when the scores changed."""
        used = self._used()
        if not used:
            return prior
        known, boosts = self._boosts
        if boosts is None or known is not used:
            boosts = np.ones(self.snapshot.files, np.float32)
            for path, share in used.items():
                if (file := self.snapshot.by_path.get(path)) is not None:
                    boosts[file] = boost(share)
            self._boosts = used, boosts
        return prior * boosts


def search(
    view: RankingView,
    query: Query,
    asked: Question,
    allowed: npt.NDArray[np.bool_] | None,
    prior: npt.NDArray[np.float32],
    *,
    weights: Mapping[str, float] = fuse.WEIGHTS,
    meaning: SemanticRanker | None = None,
) -> Ranking:
    """Rank one query. `allowed` masks the chunks that pass the filter (None: all), `prior` weighs each file."""
    snapshot = view.snapshot
    signals = compute_signals(view, asked, allowed)
    fusion = _Fusion(view, lift_asked(prior, signals, asked), weights, allowed, signals, is_symbol=bool(asked.symbol))
    matching = int(np.count_nonzero(fusion.found.chunk > 0))
    if meaning and fusion.add_semantic(meaning, asked.focus):
        engine = "hybrid"
    else:
        engine = "lexical"
    if not asked.symbol:
        fusion.lower_declarations()
    score = fusion.score
    candidates = _find_best_files(view, score, query)
    chunks = _ChunkChooser(view, fusion, allowed, asks_for_tests="test" in asked.lifted)
    rows = _select_rows(view, query.chunks_per_file, score, candidates, chunks)
    if len(rows) < query.limit > query.chunks_per_file and not query.files_max:
        per_file = max(query.limit, OVERFLOW_CHUNKS)
        rows += _select_overflow(rows, _select_rows(view, per_file, score, candidates, chunks))
    if query.min_score and rows:
        rows = [row for row in rows if row[0] >= query.min_score * rows[0][0]]
    places = _make_places(rows[: query.limit], fusion)
    if allowed is None:
        passing = snapshot.living_chunks
    else:
        passing = int(np.count_nonzero(allowed))
    evidence = _gather_evidence(fusion.found.files, score)
    return Ranking(places, matching, passing, engine, evidence, fusion.missing)


def _gather_evidence(signals: Mapping[str, npt.NDArray[np.float32]], score: npt.NDArray[np.float32]) -> Evidence | None:
    """Return what the best files have in common with the question; None without static vectors."""
    if "static" not in signals:
        return None
    best = find_greatest(score, EVIDENCE_FILES, score > 0)
    greatest = {name: float(values[best].max(initial=0.0)) for name, values in signals.items()}
    named = max(greatest.get(name, 0.0) for name in ("symbol", "mention", "named"))
    return Evidence(greatest["coverage"], greatest["static"], greatest["static_card"], named)


class _Fusion:
    """The score of each file, as one signal after the other is added.

    A file counts when it is alive, has a chunk that passes the filter, and matches the query by words or vectors;
    importance alone finds nothing. The score of the others is 0.
    """

    def __init__(
        self,
        view: RankingView,
        prior: npt.NDArray[np.float32],
        weights: Mapping[str, float],
        allowed: npt.NDArray[np.bool_] | None,
        found: Signals,
        *,
        is_symbol: bool,
    ) -> None:
        """Add up the signals of words. `is_symbol`: the query is one name, so files are not found by vectors alone."""
        self._is_symbol = is_symbol
        self._view = view
        self._prior = prior
        self._weights = weights
        self._allowed = allowed
        self.found = found
        self.shares = fuse.compute_shares(found.files, prior, weights)
        held = np.zeros(view.snapshot.files, np.float32)
        for name, values in self.shares.items():
            if name != "importance":
                held += values
        self._may = _may_be_found(view, allowed)
        self._counts = held > 0
        self.score = self._sum_shares()
        self.missing = ""

    def add_semantic(self, meaning: SemanticRanker, text: str) -> bool:
        """Add the signals of vectors; return whether there were any."""
        near = meaning.by_static(self._view, text, self.score, self._allowed)
        if near is not None:
            self._add_signals(near)
        nearer, self.missing = meaning.by_provider(self._view, text, self._allowed)
        if nearer is not None:
            self._add_signals(nearer)
        return near is not None or nearer is not None

    def _add_signals(self, near: SemanticSignals) -> None:
        """Add signals."""
        self.shares |= fuse.compute_shares(near.files, self._prior, self._weights)
        if not self._is_symbol:
            self._counts |= near.brings
        self.score = self._sum_shares()
        worth = compute_shares_of_best(self.found.worth)
        worth[near.compared] += SHOWN_BY_MEANING * compute_shares_of_best(near.chunk[near.compared])
        self.found = replace(self.found, files={**self.found.files, **near.files}, worth=worth)

    def lower_declarations(self) -> None:
        """Put a header below its implementation where both match: questions ask how things work."""
        declaring, implementing = self._view.declarations().T
        headers, sources = self.score[declaring], self.score[implementing]
        is_above = (headers > sources) & (sources > IMPLEMENTS_SHARE_MIN * headers)
        if not is_above.any():
            return
        factor = np.ones(self._view.snapshot.files, np.float32)
        factor[declaring[is_above]] = BELOW_FACTOR * sources[is_above] / headers[is_above]
        self.shares = {name: values * factor for name, values in self.shares.items()}
        self.score = self._sum_shares()

    def _sum_shares(self) -> npt.NDArray[np.float32]:
        return fuse.sum_shares(self.shares, self._view.snapshot.files) * (self._counts & self._may)


def _may_be_found(view: RankingView, allowed: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_]:
    """Return the files that are alive and have a chunk that passes the filter."""
    if allowed is None or not len(view.reduce_at):
        return view.countable
    passing = np.zeros(view.snapshot.files, bool)
    passing[view.has_chunks] = np.logical_or.reduceat(allowed, view.reduce_at)
    return view.countable & passing


def compute_priors(
    view: RankingView, roles: tuple[str, ...], asked: Question, wanted: Filter
) -> npt.NDArray[np.float32]:
    """Return the prior of each file by its role; a role that the query names or the filter selects is not lowered."""
    table = np.array([PRIORS.get(role, 1.0) for role in roles], np.float32)
    selected: set[str] = set()
    if "documentation" in wanted.kinds or "documentation" in wanted.tags:
        selected.add("docs")
    if "data" in wanted.kinds:
        selected.add("data")
    if wanted.include_paths:
        selected |= {"test", "docs", "example", "bench", "vendor", "data"}
    for roles_lifted, prior in ((asked.lifted, LIFTED_PRIOR), (selected, np.float32(1.0))):
        for role in roles_lifted:
            table[roles.index(role)] = max(table[roles.index(role)], prior)
    return table[view.roles]


def _find_best_files(view: RankingView, score: npt.NDArray[np.float32], query: Query) -> npt.NDArray[np.intp]:
    """Return the numbers of the files that can be in the answer; with `files_max` exactly those that are."""
    candidates = (score > 0).nonzero()[0]
    most = query.files_max or query.limit
    if len(candidates) > most:
        values = score[candidates]
        candidates = candidates[values >= float(np.partition(values, -most)[-most]) - 1e-6]
    if not query.files_max:
        return candidates
    best = sorted(
        candidates.tolist(), key=lambda file: (-round(float(score[file]), SCORE_DIGITS), view.snapshot.paths[file])
    )
    return np.array(best[:most], np.intp)


def lift_asked(prior: npt.NDArray[np.float32], found: Signals, asked: Question) -> npt.NDArray[np.float32]:
    """Return the priors so that no role weighs against a name that was asked for.

    Among the files that define a name of the query, or that it names itself, the role counts; it does not weigh
    against them where all have a lower prior than other files. A long question says in passing which tests it ran.
    """
    is_asked = (found.files["symbol"] > 0) | (found.files["mention"] >= 1)
    if "named" in found.files:
        is_asked |= found.files["named"] > (0 if asked.is_short else PATH_WEIGHT)
    greatest = float(prior[is_asked].max(initial=0.0))
    if 0 < greatest < 1:
        return np.where(is_asked, prior / np.float32(greatest), prior)
    return prior


def _select_rows(
    view: RankingView,
    chunks_per_file: int,
    score: npt.NDArray[np.float32],
    candidates: npt.NDArray[np.intp],
    chooser: _ChunkChooser,
) -> list[Row]:
    """Return the chunks worth showing, best first."""
    snapshot = view.snapshot
    first_lines = snapshot.chunk_column("first")
    values = score[candidates].tolist()
    top = max(values, default=1.0)
    rows = []
    for file, value in zip(candidates.tolist(), values, strict=True):
        chunks = chooser.choose(file, chunks_per_file)
        shares = [(chooser.share(chunk), chooser.title_share(chunk)) for chunk in chunks]
        factor = 1.0
        for rank, (chunk, own) in enumerate(zip(chunks, shares, strict=True)):
            factor = min(factor, compare_with_best(shares[0], own, rank))
            chance = estimate_chance(file_share=value / top, chunk_share=own[0], title_share=own[1], rank=rank)
            first = int(first_lines[chunk])
            rows.append((round(value * factor, SCORE_DIGITS), snapshot.paths[file], first, chunk, file, factor, chance))
    rows.sort(key=_rank_key)
    return rows


def _select_overflow(rows: list[Row], more: list[Row]) -> list[Row]:
    """Return further chunks of the same files where files are too few: they rank below all of `rows`."""
    if not rows:
        return []
    shown = {row[3] for row in rows}
    further = [row for row in more if row[3] not in shown and row[0] > 0]
    scale = min(1.0, rows[-1][0] * BELOW_FACTOR / max((row[0] for row in further), default=1.0))
    lowered = [(round(row[0] * scale, SCORE_DIGITS), *row[1:5], row[5] * scale, row[6]) for row in further]
    return sorted(lowered, key=_rank_key)


def _rank_key(row: Row) -> tuple[float, str, int, int]:
    return -row[0], row[1], row[2], row[3]


def _make_places(rows: Sequence[Row], fusion: _Fusion) -> tuple[Place, ...]:
    """Return the rows with the addends of their scores."""
    files = [row[4] for row in rows]
    columns = [values[files].tolist() for values in fusion.shares.values()]
    names = list(fusion.shares)
    places = []
    for number, (value, _, _, chunk, file, factor, chance) in enumerate(rows):
        why = {name: column[number] * factor for name, column in zip(names, columns, strict=True) if column[number]}
        places.append(Place(chunk, file, value, why, chance, is_named=chunk in fusion.found.defines))
    return tuple(places)


class _ChunkChooser:
    """Chooses the chunks of a file to show."""

    def __init__(
        self, view: RankingView, fusion: _Fusion, allowed: npt.NDArray[np.bool_] | None, *, asks_for_tests: bool
    ) -> None:
        self._view = view
        self._found = fusion.found
        self._allowed = allowed
        self._asks_for_tests = asks_for_tests
        self._greatest = greatest_of(self._found.worth)

    def choose(self, file: int, most: int) -> list[int]:
        """Return the chunks of a file to show, best first: defining ones, then by worth.

        These are all that match the query; else only the best.
        """
        found, start, stop = self._found, self._view.chunk_starts[file], self._view.chunk_starts[file + 1]
        value = found.worth[start:stop] * self._head_factors(start, stop) * self._test_factors(file, start, stop)
        if found.defines or self._allowed is not None:
            for chunk, weight in found.defines.items():
                if start <= chunk < stop:
                    value[chunk - start] += DEFINES_FIRST * weight
            if self._allowed is not None:
                value[~self._allowed[start:stop]] = -1
        if most == 1:
            best = int(value.argmax())
            if value[best] >= 0:
                return [start + best]
            return []
        order = [start + number for number in np.argsort(-value, kind="stable")[:most].tolist() if value[number] >= 0]
        matching = [chunk for chunk in order if found.chunk[chunk] > 0 or chunk in found.defines]
        return matching or order[:1]

    def _head_factors(self, start: int, stop: int) -> npt.NDArray[np.float32]:
        """Return the factors of chunks: those before the first definition of code are imports and license headers."""
        kinds, symbols = (self._view.snapshot.chunk_column(column)[start:stop] for column in ("kind", "symbol"))
        factors = np.ones(stop - start, np.float32)
        defining = np.flatnonzero(symbols >= 0)
        if len(defining):
            factors[: defining[0]][kinds[: defining[0]] == CODE_KIND] = HEAD_FACTOR
        return factors

    def _test_factors(self, file: int, start: int, stop: int) -> npt.NDArray[np.float32]:
        """Return the factors of chunks: those of tests inside a source file are lowered, unless tests are asked for."""
        factors = np.ones(stop - start, np.float32)
        tests = [] if self._asks_for_tests else self._view.inline_tests(file)
        if tests:
            ends = self._view.snapshot.chunk_column("last")[start:stop]  # an attribute may precede the module
            for first, last in tests:
                factors[(first < ends) & (ends <= last + 1)] = INLINE_TEST_FACTOR
        return factors

    def share(self, chunk: int) -> float:
        """Return the worth of a chunk relative to the best; 1 for one that the query names."""
        if chunk in self._found.defines:
            return 1.0
        return float(self._found.worth[chunk] / self._greatest)

    def title_share(self, chunk: int) -> float:
        """Return how much of the question's title is in a chunk, 0 to 1."""
        return self._found.title_share(chunk)
