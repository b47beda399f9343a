"""Rankers: each gives every file of a snapshot a value of at least 0 for a query.

Okapi BM25 (Robertson & Zaragoza 2009) throughout, over live statistics: document frequencies, lengths and means count
living documents only, so an updated index ranks like a rebuilt one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from math import log
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from context_engine.index import (
    ROLES,
    Matches,
    PathEnd,
    Snapshot,
    StoredOutline,
    StoredSymbol,
    symbol_chain,
    term_hashes,
)
from context_engine.languages import Languages, PathIndex
from context_engine.model import CHUNK_KINDS
from context_engine.search.named_places import NamedPlace
from context_engine.search.question import TITLE, Question
from context_engine.text import compound_term, stem_all

Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

FILE_FIELDS = ("path", "def", "doc")
B = 0.75
K1 = 1.5
K1_FILE = 3.0
"""A whole file repeats its words; a higher k1 lets them count for longer (evals/retrieval)."""
IDF_POWER = 0.6
"""Questions are long: with this power the rarest word does not outvote the rest (1.0 costs 0.008 NDCG,
evals/retrieval)."""
NAME_TELLING_POWER = 0.35
"""Of the rare words of the query that a file name has; 0 lets `application` count as much as `routes_reloader`, 0.5
costs 0.002 NDCG on the questions (evals/retrieval)."""
SYMBOL_WEIGHT_UNIT = 10
"""Symbol weights are stored in tenths."""
SAME_STEM_FACTOR = 1.5
OTHER_SPELLING_FACTOR = 0.5
"""A query `Session` finds `session` too, but after it."""
FUNCTION_KINDS = frozenset(("function", "method", "constructor", "macro"))
SOURCE_ROLE = ROLES.index("source")
SURE_NAME_VALUE = 7.0
"""Mention of a file with a function that the title of a long question names and that is defined once: its share is that
of a named path (docs/decisions/archive/0074)."""
MEMBER_VALUE = 3.0
"""Mention of a file with a function that a long question names with its owner (evals/places)."""
MEMBER_PLACES_MAX = 2
"""A declaration and its implementation: more of one name are overloads, or of several classes."""
EXACT_CHECKS_MAX = 40
"""A name defined in more chunks than this is ranked by its folded form alone."""
HEADER_SIZE_RATIO = 3
"""A header of more than three times its source implements most itself; comments make some twice as long."""
OUTLINES_KEPT = 500
RARE_FILES = 2
"""A word of the query that no more files have names them: their role does not lower them."""
SAME_NAME_MAX = 4
"""A path that more files end with names none of them."""


@dataclass(frozen=True, slots=True)
class Signals:
    """The values of all rankers.

    `files[name]` is a value for each file; `chunk` the BM25 of each chunk; `worth` how much each chunk is worth
    showing, at first its BM25; `title` the weight of the words of the question's title in each chunk, of `title_weight`
    for all of them; `defines` the chunks that define a symbol of the query or have a line that it names, with a weight;
    `rare` the files with a word of the query that hardly another file has.
    """

    files: dict[str, Floats]
    chunk: Floats
    worth: Floats
    title: npt.NDArray[np.float64]
    title_weight: float
    defines: dict[int, float]
    rare: npt.NDArray[np.intp]


class NameWords(NamedTuple):
    """The words of file names.

    `vocabulary` is sorted and may have words of files that are gone; `place` is where each of its words is, and `stems`
    and `rarity` (1: the rarest) belong to it. The word `words[i]` is in the name of the file `files[i]`.
    """

    vocabulary: list[str]
    place: dict[str, int]
    stems: list[str]
    rarity: Floats
    words: npt.NDArray[np.intp]
    files: npt.NDArray[np.intp]


class DeclaringPaths(NamedTuple):
    """The hashes of all living paths, ascending, and those of each declaring and its implementing file."""

    living: npt.NDArray[np.uint64]
    pairs: npt.NDArray[np.uint64]


class RankingView:
    """A snapshot prepared for ranking: means, length norms and the sorted words of file names, computed once."""

    def __init__(self, snapshot: Snapshot, previous: RankingView | None = None) -> None:
        """`previous`: the view of the snapshot before, of the same workspace; what still holds is taken from it."""
        self.snapshot = snapshot
        self.declaring_paths = previous.declaring_paths if previous else None
        self.known_names = previous.known_names if previous else None
        self.chunk_starts: list[int] = snapshot.chunk_starts.tolist()
        self.has_chunks = np.diff(snapshot.chunk_starts) > 0
        self.reduce_at = snapshot.chunk_starts[:-1][self.has_chunks]
        self.countable = self.has_chunks & snapshot.file_alive
        self.roles = np.asarray(snapshot.file_column("role")) if snapshot.files else np.zeros(0, np.uint8)
        self.importance = snapshot.importance.astype(np.float32)
        self._norms: dict[tuple[str, float], tuple[Floats, int]] = {}
        self._outlines: dict[int, StoredOutline] = {}

    def norms(self, field: str, k1: float) -> tuple[Floats, int]:
        """Return `k1 * (1 - b + b * length / mean length)` of each document, and the number of living ones."""
        known = self._norms.get((field, k1))
        if known is None:
            snapshot = self.snapshot
            if field == "file":
                lengths = np.bincount(snapshot.chunk_file, snapshot.lengths("body"), snapshot.files)
            else:
                lengths = snapshot.lengths(field).astype(np.float64)
            count, mean = snapshot.length_statistics(field)
            mean = max(mean, 1e-9)
            known = self._norms[field, k1] = ((k1 * (1 - B + B * lengths / mean)).astype(np.float32), count)
        return known

    @cached_property
    def field_norms(self) -> tuple[Floats, int]:
        """The `norms` of the three file fields, one after the other."""
        norms = [self.norms(field, K1) for field in FILE_FIELDS]
        return np.concatenate([own for own, _ in norms]), norms[0][1]

    def outline(self, file: int) -> StoredOutline:
        """Return the stored outline of a file; the last ones are cached."""
        known = self._outlines.get(file)
        if known is None:
            if len(self._outlines) >= OUTLINES_KEPT:
                self._outlines.clear()
            known = self._outlines[file] = self.snapshot.outline(file)
        return known

    def find_chunks(self, file: int, first: int, last: int) -> list[int]:
        """Return the chunks of a file that have some of these lines."""
        start, stop = self.chunk_starts[file : file + 2]
        firsts, lasts = (self.snapshot.chunk_column(column)[start:stop] for column in ("first", "last"))
        return (np.flatnonzero((firsts <= last) & (lasts >= first)) + start).tolist()

    def find_symbols(self, file: int, chunk: int) -> list[tuple[int, StoredSymbol]]:
        """Return the symbols of a file that begin in one of its chunks, with their numbers."""
        first, last = (self.snapshot.chunk_column(column).item(chunk) for column in ("first", "last"))
        symbols = self.outline(file).symbols
        return [(number, symbol) for number, symbol in enumerate(symbols) if first <= symbol.line <= last]

    def inline_tests(self, file: int) -> list[tuple[int, int]]:
        """Return the first and last line of each test inside a source file: `mod tests` and `fn test_x` of Rust."""
        language = self.snapshot.languages[int(self.snapshot.file_column("language")[file])]
        if language not in _tested_inside() or self.roles[file] != SOURCE_ROLE:
            return []
        return [(symbol.first, symbol.last) for symbol in self.outline(file).symbols if _is_test(symbol)]

    @cached_property
    def _files_at(self) -> tuple[PathIndex, dict[str, list[int]]]:
        by_path: dict[str, list[int]] = {}
        for file in np.flatnonzero(self.snapshot.file_alive).tolist():
            by_path.setdefault(self.snapshot.paths[file], []).append(file)  # repositories may share a path
        return PathIndex(by_path), by_path

    def files_at(self, tail: PathEnd) -> list[int]:
        """Return the living files that the end of a path means: those of exactly this path, else those that end so."""
        index, by_path = self._files_at
        if tail.is_whole or tail.path in by_path:
            return by_path.get(tail.path, [])
        return [file for path in index.by_suffix(tail.path) for file in by_path[path]]

    @cached_property
    def _files_below(self) -> dict[str, list[int]]:
        below: dict[str, list[int]] = {}
        for file, path in enumerate(self.snapshot.paths):
            *folders, last = path.split("/")
            for part in {*map(_fold_name, folders), _fold_name(last.partition(".")[0])}:
                below.setdefault(part, []).append(file)
        return below

    def files_below(self, name: str) -> list[int]:
        """Return the files that have this name without its suffix, or a folder of this name above them.

        Case, dots, dashes and underscores do not count.
        """
        return self._files_below.get(_fold_name(name), [])

    @cached_property
    def _own_tags(self) -> dict[int, list[str]]:
        tags: dict[int, list[str]] = {}
        for postings, base in self.snapshot.postings("tag"):
            names = postings.names.texts()
            terms, ids = postings.pairs()
            for term, number in zip(terms.tolist(), ids.tolist(), strict=True):
                tags.setdefault(number + base, []).append(names[term])
        return tags

    @cached_property
    def is_code(self) -> Mask:
        """The files tagged `code`: those with a chunk of kind `definitions`, which prose and configuration lack."""
        definitions = self.snapshot.chunk_column("kind") == CHUNK_KINDS.index("definitions")
        return np.bincount(self.snapshot.chunk_file[definitions], minlength=self.snapshot.files) > 0

    def tags(self, chunk: int) -> tuple[str, ...]:
        """Return the tags of a chunk: language, folders, kind, `code`, and those in its text."""
        snapshot = self.snapshot
        file, kind = snapshot.chunk_file.item(chunk), CHUNK_KINDS[snapshot.chunk_column("kind").item(chunk)]
        language = snapshot.languages[snapshot.file_column("language").item(file)]
        folders = snapshot.paths[file].lower().split("/")[:-1]
        code = ["code"] if self.is_code[file] else []
        return tuple(sorted({language, kind, *folders, *code, *self._own_tags.get(chunk, ())}))

    @cached_property
    def declarations(self) -> npt.NDArray[np.intp]:
        """A row (declaring file, implementing file) for each header that is not far longer than its source."""
        rows = self._pair_declarations()
        sizes = self.snapshot.file_column("size")[rows]
        return rows[sizes[:, 0] <= HEADER_SIZE_RATIO * sizes[:, 1]]

    def _pair_declarations(self) -> npt.NDArray[np.intp]:
        """Return all pairs: those of the snapshot before, under their new numbers, if no file came or went since."""
        living = np.flatnonzero(self.snapshot.file_alive)
        hashes = self.snapshot.path_hashes
        order = living[np.argsort(hashes[living])]
        known = self.declaring_paths
        if known is None or not np.array_equal(known.living, hashes[order]):
            pairs = pair_declarations(self.snapshot.paths, self.snapshot.file_alive.tolist())
            rows = np.array(pairs, np.intp).reshape(-1, 2)
            self.declaring_paths = DeclaringPaths(hashes[order], hashes[rows])
            return rows
        return order[np.searchsorted(known.living, known.pairs)]

    @cached_property
    def name_words(self) -> NameWords:
        """The words of all file names; how rare each is among living files."""
        spelled = [segment.stem_names for segment in self.snapshot.segments]
        known = self.known_names
        if known and all(map(known.place.__contains__, chain.from_iterable(spelled))):
            vocabulary, place, stems = known[:3]
        else:
            vocabulary = sorted(set(chain.from_iterable(spelled)))
            place = {word: number for number, word in enumerate(vocabulary)}
            stems = stem_all(vocabulary)
        words, files = [np.zeros(0, np.intp)], [np.zeros(0, np.intp)]
        for own, (postings, base) in zip(spelled, self.snapshot.postings("stem"), strict=True):
            terms, ids = postings.pairs()
            words.append(np.fromiter(map(place.__getitem__, own), np.intp, len(own))[terms])
            files.append(ids.astype(np.intp) + base)
        all_words, all_files = np.concatenate(words), np.concatenate(files)
        frequency = np.bincount(all_words[self.snapshot.file_alive[all_files]], minlength=len(vocabulary))
        count = self.snapshot.living_files
        rarity = np.log1p((np.maximum(count - frequency, 0) + 0.5) / (frequency + 0.5)).astype(np.float32)
        rarity[frequency == 0] = 0  # names of files that are gone must not change the ranking
        rarity /= max(float(rarity.max(initial=0.0)), 1e-9)
        self.known_names = NameWords(vocabulary, place, stems, rarity, all_words, all_files)
        return self.known_names


@lru_cache(maxsize=1)
def _tested_inside() -> frozenset[str]:
    """Return the names of languages whose source files have tests of their own."""
    return frozenset(language.name for language in Languages.builtin().listed if language.inline_tests)


def _is_test(symbol: StoredSymbol) -> bool:
    if symbol.kind == "module":
        return symbol.name in ("test", "tests") or symbol.name.endswith(("_test", "_tests"))
    return symbol.kind == "function" and symbol.name.startswith(("test_", "tests_"))


_JOINTS = str.maketrans("", "", "-_.")


def _fold_name(name: str) -> str:
    return name.translate(_JOINTS).lower()


def compute_signals(view: RankingView, question: Question, allowed: Mask | None) -> Signals:
    """Return all signals of one query. `allowed` masks the chunks that may be found; None: all."""
    snapshot = view.snapshot
    body = snapshot.matches("body", question.hashes)
    passing = body
    if allowed is not None:
        keep = allowed[body.docs]
        passing = Matches(body.docs[keep], body.counts[keep], body.terms[keep], body.frequency)
    norms, count = view.norms("body", K1)
    idf = compute_idf(body.frequency, count) * question.weights
    impacts = idf[passing.terms] * (passing.counts * (K1 + 1) / (passing.counts + norms[passing.docs]))
    chunk = np.bincount(passing.docs, impacts, snapshot.chunks).astype(np.float32)
    signals: dict[str, Floats] = {}
    signals["chunk"], signals["top5"] = _top_of_files(view, chunk)
    signals["file"], signals["coverage"], rare = _rank_whole_files(view, body, question.weights)
    signals |= _rank_fields(view, question)
    signals["name"] = _rank_file_names(view, question)
    signals["symbol"], signals["mention"], defines = _rank_symbols(view, question)
    signals["importance"] = view.importance
    if question.scopes:
        signals["scope"] = _rank_scopes(view, question.scopes)
    places = resolve_places(view, question.places)
    if places:
        signals["named"] = _rank_named(view, places, defines)
    if allowed is not None:
        defines = {chunk: weight for chunk, weight in defines.items() if allowed[chunk]}
    of_title = idf * (question.weights >= TITLE)
    title = np.asarray(np.bincount(passing.docs, of_title[passing.terms], snapshot.chunks), np.float64)
    return Signals(signals, chunk, chunk, title, max(float(of_title.sum()), 1e-9), defines, rare)


def compute_idf(frequency: npt.NDArray[np.intp], count: int) -> Floats:
    """Return the rarity of terms that are in so many of `count` documents.

    A database also counts replaced documents, so a frequency may be greater than `count`.

    >>> [f"{rarity:.2f}" for rarity in compute_idf(np.array([1, 10, 11]), 10)]
    ['1.51', '0.16', '0.16']
    """
    living = np.minimum(frequency, count)
    return (np.log1p((count - living + 0.5) / (living + 0.5)) ** IDF_POWER).astype(np.float32)


def _rank_fields(view: RankingView, question: Question) -> dict[str, Floats]:
    """Return BM25 over path words, definition names and leading comments, all three in one pass.

    Field f has the documents f * files onwards and the terms f * terms onwards.
    """
    snapshot = view.snapshot
    found = [snapshot.matches(field, question.hashes) for field in FILE_FIELDS]
    docs = np.concatenate([matches.docs + number * snapshot.files for number, matches in enumerate(found)])
    counts = np.concatenate([matches.counts for matches in found])
    terms = np.concatenate([matches.terms + number * len(question.hashes) for number, matches in enumerate(found)])
    norms, count = view.field_norms
    idf = compute_idf(np.concatenate([matches.frequency for matches in found]), count)
    idf = (idf.reshape(len(FILE_FIELDS), -1) * question.weights).ravel()
    impacts = idf[terms] * (counts * (K1 + 1) / (counts + norms[docs]))
    scores = np.bincount(docs, impacts, snapshot.files * len(FILE_FIELDS)).astype(np.float32)
    return dict(zip(FILE_FIELDS, scores.reshape(len(FILE_FIELDS), -1), strict=True))


def _rank_whole_files(view: RankingView, body: Matches, weights: Floats) -> tuple[Floats, Floats, npt.NDArray[np.intp]]:
    """Return the BM25 of whole files, the share of the query's weight in each, and the files that have its rare words.

    Computed from the chunk postings, which come by term, then chunk, so that those of a file are adjacent.
    """
    snapshot = view.snapshot
    if not len(body.docs):
        return np.zeros(snapshot.files, np.float32), np.zeros(snapshot.files, np.float32), np.zeros(0, np.intp)
    owners = snapshot.chunk_file[body.docs]
    starts = _run_firsts(body.terms * snapshot.files + owners).nonzero()[0]
    counts = np.add.reduceat(body.counts, starts)
    terms, files = body.terms[starts], owners[starts]
    norms, count = view.norms("file", K1_FILE)
    in_files = np.bincount(terms, minlength=len(body.frequency)) if body.in_files is None else body.in_files
    idf = compute_idf(in_files, count) * weights
    worth = idf[terms]
    impacts = worth * (counts * (K1_FILE + 1) / (counts + norms[files]))
    score = np.bincount(files, impacts, snapshot.files).astype(np.float32)
    covered = np.bincount(files, worth, snapshot.files) / max(float(idf.sum()), 1e-9)
    return score, covered.astype(np.float32), files[(in_files[terms] <= RARE_FILES) & view.is_code[files]]


def _top_of_files(view: RankingView, chunk: Floats) -> tuple[Floats, Floats]:
    """Return the best chunk score of each file, and the sum of its five best (equal ones count once)."""
    files = view.snapshot.files
    best, total = np.zeros(files, np.float32), np.zeros(files, np.float32)
    matched = (chunk > 0).nonzero()[0]  # of booleans: ten times as fast
    if not len(matched):
        return best, total
    values, owners = chunk[matched], view.snapshot.chunk_file[matched]
    firsts = _run_firsts(owners)
    starts, groups = firsts.nonzero()[0], firsts.cumsum() - 1
    at = owners[starts]
    top = np.maximum.reduceat(values, starts)
    best[at] = total[at] = top
    for _ in range(4):
        values = values * (values < top[groups])
        top = np.maximum.reduceat(values, starts)
        total[at] += top
    return best, total


def _run_firsts(keys: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """Return where a new run of equal keys begins; `keys` is not empty."""
    firsts = np.empty(len(keys), bool)
    firsts[0] = True
    np.not_equal(keys[1:], keys[:-1], out=firsts[1:])
    return firsts


def _rank_file_names(view: RankingView, question: Question) -> Floats:
    """Return how much of the name of each file the query explains, and how tellingly.

    The mean, over the words of the name, of the best match with a query word: 1 for an equal stem, 0.8 when both begin
    with the same 4 letters, 0.6 when one is the first 3 letters of the other. The mean is multiplied by a power of the
    sum of the matches, each weighed by its rarity among file names: `routes_reloader` says more than `application`.
    """
    names = view.name_words
    vocabulary, stems = names.vocabulary, names.stems
    value = np.zeros(len(vocabulary), np.float32)
    for (word, weight), stem in zip(question.words.items(), stem_all([*question.words]), strict=True):
        if len(word) < 2:
            continue
        at = bisect_left(vocabulary, word[:3])
        while at < len(vocabulary) and vocabulary[at].startswith(word[:3]):
            value[at] = max(value[at], weight * _likeness(word, stem, vocabulary[at], stems[at]))
            at += 1
    snapshot = view.snapshot
    matching = np.flatnonzero((value > 0)[names.words])
    words, files = names.words[matching], names.files[matching]
    mean = np.bincount(files, value[words], snapshot.files) / np.maximum(snapshot.lengths("stem"), 1)
    telling = np.bincount(files, (value * names.rarity)[words], snapshot.files)
    likeness = np.zeros(snapshot.files, np.float32)
    named = (mean > 0).nonzero()[0]  # few files, and a power takes time
    likeness[named] = mean[named] * telling[named] ** NAME_TELLING_POWER
    return likeness


def _likeness(word: str, stem: str, other: str, other_stem: str) -> float:
    if stem == other_stem:
        return 1.0
    shorter = min(len(word), len(other))
    if shorter >= 4 and word[:4] == other[:4]:
        return 0.8
    if shorter == 3 and word[:3] == other[:3]:
        return 0.6
    return 0.0


def _rank_symbols(view: RankingView, question: Question) -> tuple[Floats, Floats, dict[int, float]]:
    """Return the files that define what a query is (`symbol`) or mentions (`mention`), and the chunks that do.

    A long text mentions many names in passing: its other words choose the chunk (0.03 more first places are right on
    275 commit messages, evals/places), except for a function that its title names and that is defined once.
    """
    whole, mention = np.zeros(view.snapshot.files, np.float32), np.zeros(view.snapshot.files, np.float32)
    defines: dict[int, float] = {}
    names = [(question.symbol, 1.0)] if question.symbol else list(question.mentioned)
    for file, chunks in _find_members(view, question.members):
        mention[file] = MEMBER_VALUE
        defines |= dict.fromkeys(chunks, 1.0)
    found = view.snapshot.matches("symbol", term_hashes(name for name, _ in names)) if names else None
    if found is None or not len(found.docs):
        return whole, mention, defines
    target = whole if question.symbol else mention
    for chunk, file, value in _value_definitions(view, question, names, found):
        target[file] = max(target[file], value)
        if question.is_short:
            defines[chunk] = max(defines.get(chunk, 0.0), value)
    for file, chunks in _find_sure_functions(view, names, found):
        mention[file] = max(mention[file], SURE_NAME_VALUE)
        defines |= dict.fromkeys(chunks, 1.0)
    return whole, mention, defines


def _value_definitions(
    view: RankingView, question: Question, names: Sequence[tuple[str, float]], found: Matches
) -> Iterator[tuple[int, int, float]]:
    """Yield the chunks that define the names, with their files and values: a file of that name, and spelling, count."""
    is_compared = bool(question.symbol) and len(found.docs) <= EXACT_CHECKS_MAX
    for chunk, weight, term in zip(found.docs.tolist(), found.counts.tolist(), found.terms.tolist(), strict=True):
        name, trust = names[term]
        file = int(view.snapshot.chunk_file[chunk])
        value = trust * weight / SYMBOL_WEIGHT_UNIT
        if is_compared and all(symbol.name != question.spelled for _, symbol in view.find_symbols(file, chunk)):
            value *= OTHER_SPELLING_FACTOR
        if _compound_stem(view, file) == name:
            value *= SAME_STEM_FACTOR
        yield chunk, file, value


def _compound_stem(view: RankingView, file: int) -> str:
    return compound_term(view.snapshot.paths[file].rpartition("/")[2].partition(".")[0])


def _find_sure_functions(
    view: RankingView, names: Sequence[tuple[str, float]], found: Matches
) -> Iterator[tuple[int, list[int]]]:
    """Yield the file and the chunks of functions that a title names by a compound name and that are defined once.

    Definitions in tests, examples and generated code do not count.
    """
    is_source = view.roles[view.snapshot.chunk_file[found.docs]] == SOURCE_ROLE
    for term, (name, trust) in enumerate(names):
        docs = found.docs[(found.terms == term) & is_source]
        if trust >= TITLE and len(docs) == 1:
            file = int(view.snapshot.chunk_file[docs[0]])
            if chunks := _chunks_of_function(view, file, int(docs[0]), name):
                yield file, chunks


def _find_members(view: RankingView, members: Sequence[tuple[str, str]]) -> Iterator[tuple[int, list[int]]]:
    """Yield the files and chunks of the first function that a question names with its owner: a class, module or file.

    Definitions in tests, examples and generated code do not count, nor do more than `MEMBER_PLACES_MAX` of one name.
    """
    if not members:
        return
    found = view.snapshot.matches("symbol", term_hashes(member for _, member in members))
    for term, (owner, member) in enumerate(members):
        held = []
        for chunk in found.docs[found.terms == term][:EXACT_CHECKS_MAX].tolist():
            file = int(view.snapshot.chunk_file[chunk])
            if view.roles[file] == SOURCE_ROLE and (chunks := _chunks_of_function(view, file, chunk, member, owner)):
                held.append((file, chunks))
        if 0 < len(held) <= MEMBER_PLACES_MAX:
            yield from held
            return


def _chunks_of_function(view: RankingView, file: int, chunk: int, name: str, owner: str = "") -> list[int]:
    """Return the chunks of the function of this name that begins in a chunk; none for a class or a variable.

    With an `owner`, only of a function that this one, or a file of its name, has.
    """
    symbols = view.outline(file).symbols
    for number, symbol in view.find_symbols(file, chunk):
        if symbol.kind in FUNCTION_KINDS and compound_term(symbol.name) == name:
            owners = [compound_term(part) for part in symbol_chain(symbols, number).split(".")[:-1][-1:]]
            if not owner or owner in (*owners, _compound_stem(view, file)):
                return view.find_chunks(file, symbol.line, symbol.last)
    return []


# -- places and scopes ------------------------------------------------------------------------------------------------


class ResolvedPlace(NamedTuple):
    """A file that the query names, by its number, its line (0: none), its weight, 0 to 1, and the line's function."""

    file: int
    line: int
    weight: float
    function: str = ""


def resolve_places(view: RankingView, named: Iterable[NamedPlace]) -> list[ResolvedPlace]:
    """Return the files that share the longest end of each path of a query; several share its weight.

    The best place with a line weighs 1, so the frames of libraries, which are not here, take nothing from the frame
    that called them.
    """
    places = []
    for place in named:
        for tail in PathEnd.list_of(place.path):
            files = view.files_at(tail)
            if files:
                weight = place.weight * tail.trust / len(files)
                if len(files) <= SAME_NAME_MAX:
                    places += [ResolvedPlace(file, place.line, weight, place.function) for file in files]
                break
    nearest = max((place.weight for place in places if place.line), default=1.0)
    return [place._replace(weight=place.weight / nearest) if place.line else place for place in places]


def _rank_named(view: RankingView, places: Sequence[ResolvedPlace], defines: dict[int, float]) -> Floats:
    """Return the files that a query names, and add the chunks with the lines that it names to `defines`."""
    named = np.zeros(view.snapshot.files, np.float32)
    for place in places:
        named[place.file] = max(named[place.file], place.weight)
        for chunk in _chunks_at(view, place) if place.line else ():
            defines[chunk] = max(defines.get(chunk, 0.0), place.weight)
    return named


def _chunks_at(view: RankingView, place: ResolvedPlace) -> list[int]:
    """Return the chunk with a line; if the line is outside its function, the chunks of the function.

    A trace is often of another version of the file, in which the lines had other numbers.
    """
    line, symbols = place.line, view.outline(place.file).symbols if place.function else ()
    functions = [symbol for symbol in symbols if symbol.name == place.function and symbol.kind in FUNCTION_KINDS]
    if functions and not any(symbol.line <= line <= symbol.last for symbol in functions):
        nearest = min(functions, key=lambda symbol: abs(symbol.line - line))
        return view.find_chunks(place.file, nearest.line, nearest.last)
    return view.find_chunks(place.file, line, line)[-1:]


def _rank_scopes(view: RankingView, scopes: Iterable[str]) -> Floats:
    """Return the files in what a query calls its scope: 1 for a file alone, less the more files share the name."""
    files = view.snapshot.files
    inside = np.zeros(files, np.float32)
    for scope in scopes:
        if below := view.files_below(scope):
            inside[below] = np.maximum(inside[below], log(files / len(below)) / log(max(files, 2)))
    return inside


_C = (".c", ".cc", ".cpp", ".cxx", ".c++", ".m", ".mm")
IMPLEMENTATIONS = {
    **dict.fromkeys((".h", ".hh", ".hpp", ".hxx", ".h++"), _C),
    ".mli": (".ml",),
    ".pyi": (".py", ".pyx"),
    ".hs-boot": (".hs",),
}
"""The suffixes of the files that implement what a file of the suffix declares."""
_GROUPS = {suffix: kinds[0] for kinds in IMPLEMENTATIONS.values() for suffix in kinds}
"""The group of each implementing suffix: those of one group implement the same kinds of file."""


def pair_declarations(paths: Sequence[str], alive: Iterable[bool] | None = None) -> list[tuple[int, int]]:
    """Return (declaring file, implementing file) by their numbers: files of one stem, in one folder or alike.

    A folder is alike when it has the same name (`include/zoo` and `src/zoo`); if there is only one candidate, it may
    be anywhere. Of several the first counts. Files that are not `alive` do not count.
    """
    declaring: list[tuple[int, str, tuple[str, str]]] = []
    in_folder: dict[tuple[tuple[str, str], str], int] = {}
    in_like: dict[tuple[tuple[str, str], str], int] = {}  # by the name of the folder alone
    anywhere: dict[tuple[str, str], int] = {}  # -1: several
    for number, (path, lives) in enumerate(zip(paths, alive or [True] * len(paths), strict=True)):
        folder, _, name = path.rpartition("/")
        stem, dot, suffix = name.rpartition(".")
        if not lives or not stem:
            continue
        suffix = dot + suffix
        if suffix in IMPLEMENTATIONS:
            declaring.append((number, folder, (IMPLEMENTATIONS[suffix][0], stem)))
        elif suffix in _GROUPS:
            key = (_GROUPS[suffix], stem)
            in_folder.setdefault((key, folder), number)
            in_like.setdefault((key, folder.rpartition("/")[2]), number)
            anywhere[key] = -1 if key in anywhere else number
    pairs = []
    for number, folder, key in declaring:
        if key in anywhere:
            near = in_folder.get((key, folder))
            if near is None:
                near = in_like.get((key, folder.rpartition("/")[2]), anywhere[key])
            if near >= 0:
                pairs.append((number, near))
    return pairs
