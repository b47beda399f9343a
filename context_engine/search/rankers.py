"""Candidates: each ranker looks at a snapshot from one side and gives every file a value of at least 0.

Okapi BM25 (Robertson & Zaragoza 2009) throughout, over live statistics: document frequencies, lengths and means count
living documents only, so an index that was updated ranks like one built anew.
"""

from __future__ import annotations

import os.path
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from context_engine.search.asked import Asked
from context_engine.store.segment import term_hashes
from context_engine.store.snapshot import Matches, Snapshot
from context_engine.text.words import compound, stem_all

Floats = npt.NDArray[np.float32]

B = 0.75
K1 = 1.5
K1_FILE = 3.0
"""A whole file repeats its words; a higher k1 lets them count for longer (evals/retrieval)."""
IDF_POWER = 0.6
"""Questions are long: dampened, the rarest word of one does not outvote the rest (1.0 costs .008 NDCG, evals/retrieval)."""
SYMBOL_WEIGHT_UNIT = 10
"""Symbol weights are stored in tenths."""
SAME_STEM_FACTOR = 1.5


@dataclass(frozen=True, slots=True)
class Signals:
    """What the rankers found: `files[name]` is a value per file; `chunk` the BM25 of each chunk; `defines` the chunks
    that hold the definition of a symbol the query names, with its weight."""

    files: dict[str, Floats]
    chunk: Floats
    defines: dict[int, float]


class View:
    """A snapshot made ready for ranking: means, length norms and the sorted words of file names, computed once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._norms: dict[tuple[str, float], tuple[Floats, int]] = {}
        self.has_chunks = np.diff(snapshot.chunk_starts) > 0
        self.reduce_at = snapshot.chunk_starts[:-1][self.has_chunks]
        self._stems: tuple[list[str], list[str], npt.NDArray[np.intp], npt.NDArray[np.intp]] | None = None

    def norms(self, field: str, k1: float) -> tuple[Floats, int]:
        """`k1 * (1 - b + b * length / mean length)` of each document, and how many live."""
        known = self._norms.get((field, k1))
        if known is None:
            snapshot = self.snapshot
            if field == "file":
                lengths = np.bincount(snapshot.chunk_file, snapshot.lengths("body"), snapshot.files)
            else:
                lengths = snapshot.lengths(field).astype(np.float64)
            alive = snapshot.chunk_alive if field == "body" else snapshot.file_alive
            count = int(alive.sum())
            mean = max(float(lengths[alive].mean()) if count else 1.0, 1e-9)
            known = self._norms[field, k1] = ((k1 * (1 - B + B * lengths / mean)).astype(np.float32), count)
        return known

    def stems(self) -> tuple[list[str], list[str], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Words of file names, sorted; their stems; and (word, file) pairs of all files."""
        if self._stems is None:
            vocabulary = self.snapshot.names("stem")
            place = {word: number for number, word in enumerate(vocabulary)}
            words, files = [np.zeros(0, np.intp)], [np.zeros(0, np.intp)]
            for postings, base in self.snapshot.postings("stem"):
                own = np.array([place[name] for name in postings.names.texts()], np.intp)
                terms, ids = postings.pairs()
                words.append(own[terms])
                files.append(ids.astype(np.intp) + base)
            self._stems = (vocabulary, stem_all(vocabulary), np.concatenate(words), np.concatenate(files))
        return self._stems


def rank(view: View, asked: Asked, allowed: npt.NDArray[np.bool_] | None) -> Signals:
    """All signals of one query. `allowed` masks the chunks that may be found; None: all."""
    snapshot = view.snapshot
    body = snapshot.matches("body", asked.hashes)
    if allowed is None:
        passing = body
    else:
        keep = allowed[body.docs]
        passing = Matches(body.docs[keep], body.counts[keep], body.terms[keep], body.frequency)
    idf = _idf(body.frequency, view.norms("body", K1)[1])
    norms = view.norms("body", K1)[0]
    impacts = idf[passing.terms] * (passing.counts * (K1 + 1) / (passing.counts + norms[passing.docs]))
    chunk = np.bincount(passing.docs, impacts, snapshot.chunks).astype(np.float32)
    best, top3 = _top_of_files(view, chunk)
    signals = {"chunk": best, "top3": top3}
    signals["file"], signals["coverage"] = _whole_files(view, body)
    for field in ("path", "def", "doc"):
        signals[field] = _bm25(view, field, asked.hashes)
    signals["name"] = _file_name(view, asked)
    signals["symbol"], signals["mention"], defines = _symbols(view, asked, allowed)
    signals["importance"] = snapshot.importance.astype(np.float32)
    return Signals(signals, chunk, defines)


def _idf(frequency: npt.NDArray[np.intp], count: int) -> Floats:
    return (np.log1p((count - frequency + 0.5) / (frequency + 0.5)) ** IDF_POWER).astype(np.float32)


def _bm25(view: View, field: str, hashes: npt.NDArray[np.uint64]) -> Floats:
    matches = view.snapshot.matches(field, hashes)
    norms, count = view.norms(field, K1)
    impacts = _idf(matches.frequency, count)[matches.terms] * (
        matches.counts * (K1 + 1) / (matches.counts + norms[matches.docs])
    )
    return np.bincount(matches.docs, impacts, view.snapshot.files).astype(np.float32)


def _whole_files(view: View, body: Matches) -> tuple[Floats, Floats]:
    """BM25 of whole files, and the share of the query's weight that stands anywhere in the file.

    Folded from the chunk postings, which come by term, then chunk, so that a file's stand together.
    """
    snapshot = view.snapshot
    if not len(body.docs):
        return np.zeros(snapshot.files, np.float32), np.zeros(snapshot.files, np.float32)
    keys = body.terms * snapshot.files + snapshot.chunk_file[body.docs]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    counts = np.add.reduceat(body.counts, starts)
    terms, files = body.terms[starts], snapshot.chunk_file[body.docs[starts]]
    norms, count = view.norms("file", K1_FILE)
    idf = _idf(np.bincount(terms, minlength=len(body.frequency)), count)
    weights = idf[terms]
    impacts = weights * (counts * (K1_FILE + 1) / (counts + norms[files]))
    score = np.bincount(files, impacts, snapshot.files).astype(np.float32)
    covered = np.bincount(files, weights, snapshot.files) / max(float(idf.sum()), 1e-9)
    return score, covered.astype(np.float32)


def _top_of_files(view: View, chunk: Floats) -> tuple[Floats, Floats]:
    """The best chunk's score of each file, and the sum of its three best (equal ones count once)."""
    files = view.snapshot.files
    best, total = np.zeros(files, np.float32), np.zeros(files, np.float32)
    if not len(view.reduce_at):
        return best, total
    left = chunk
    for number in range(3):
        top = np.zeros(files, np.float32)
        top[view.has_chunks] = np.maximum.reduceat(left, view.reduce_at)
        total += top
        if number == 0:
            best = top
        left = np.where(left >= top[view.snapshot.chunk_file], 0, left)
    return best, total


def _file_name(view: View, asked: Asked) -> Floats:
    """How much of the file's name the query explains: the mean, over the name's words, of the best match with a query
    word (1 for an equal stem, .8 when both begin with the same 4 letters, .6 when one is the other's first 3)."""
    vocabulary, stems, words, files = view.stems()
    value = np.zeros(len(vocabulary), np.float32)
    for word, stem in zip(asked.words, stem_all(asked.words), strict=True):
        if len(word) < 2:
            continue
        at = bisect_left(vocabulary, word[:3])
        while at < len(vocabulary) and vocabulary[at].startswith(word[:3]):
            value[at] = max(value[at], _likeness(word, stem, vocabulary[at], stems[at]))
            at += 1
    snapshot = view.snapshot
    total = np.bincount(files, value[words], snapshot.files)
    return (total / np.maximum(snapshot.lengths("stem"), 1)).astype(np.float32)


def _likeness(word: str, stem: str, other: str, other_stem: str) -> float:
    if stem == other_stem:
        return 1.0
    shared = len(os.path.commonprefix((word, other)))
    if shared >= 4:
        return 0.8
    return 0.6 if shared == 3 == min(len(word), len(other)) else 0.0


def _symbols(
    view: View, asked: Asked, allowed: npt.NDArray[np.bool_] | None
) -> tuple[Floats, Floats, dict[int, float]]:
    """Files that define a symbol which the query is (`symbol`) or mentions (`mention`), and the chunks that do."""
    snapshot = view.snapshot
    whole, mention = np.zeros(snapshot.files, np.float32), np.zeros(snapshot.files, np.float32)
    names = [(asked.symbol, 1.0)] if asked.symbol else list(asked.mentioned)
    defines: dict[int, float] = {}
    if not names:
        return whole, mention, defines
    found = snapshot.matches("symbol", term_hashes(name for name, _ in names))
    for doc, weight, term in zip(found.docs.tolist(), found.counts.tolist(), found.terms.tolist(), strict=True):
        name, trust = names[term]
        file = int(snapshot.chunk_file[doc])
        value = trust * weight / SYMBOL_WEIGHT_UNIT
        stem = snapshot.paths[file].rpartition("/")[2].partition(".")[0]
        if compound(stem) == name:
            value *= SAME_STEM_FACTOR
        target = whole if asked.symbol else mention
        target[file] = max(target[file], value)
        if allowed is None or allowed[doc]:
            defines[doc] = max(defines.get(doc, 0.0), value)
    return whole, mention, defines
