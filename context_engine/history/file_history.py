"""PURE. What the commits of one head say about its files: how often and how lately each changed, with what, by whom.

A file is one file under all the names it had. Decay is counted from the newest commit, not from the clock, so the same
history always gives the same numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from context_engine.history.commit_facts import CommitTable, HeadCommits
from context_engine.search import K1, B
from context_engine.text import expand_words, query_terms, split_words, unique

HALF_LIFE_S = 14 * 86_400
"""A commit of two weeks ago counts half. Up to half a year finds the same (docs/decisions/archive/0026)."""
TOGETHER_FILES_MAX = 10
"""Files of a larger commit did not change because of each other: a rename, a license line, a release."""
SUPPORT_MIN = 5
CONFIDENCE_MIN = 0.8
"""From here on "you usually change X with Y" may be shown (the design: 868 commits of six repositories)."""
ALIKE_COMMITS_MAX = 50
"""Commits with similar subjects whose files are counted; 10 to 100 rank alike (evals/localisation)."""
ALIKE_ENOUGH = 0.5
"""A best subject with half of the text counts fully; every second task has one (evals/localisation)."""

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]


class CochangedFile(NamedTuple):
    """A file that changed together with another one: in how many commits, and in what share of the other's."""

    path: str
    together: int
    confidence: float


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The history of one file."""

    path: str
    commits: int
    last_at: int
    authors: tuple[tuple[str, int], ...]  # who committed and how often, most first


class FileHistory:
    """The commits of one head as numbers about files. Immutable; expensive numbers are computed when first needed.

    Paths are relative to `under`, a folder of the repository; files outside it are ignored.
    """

    def __init__(self, facts: CommitTable, head: str, *, under: str = "") -> None:
        """Compute nothing yet. A head that the facts do not contain has no history."""
        self._facts = facts
        self._listed = facts.heads.get(head, HeadCommits(np.zeros(0, np.int32)))
        self._below = f"{under.strip('/')}/" if under.strip("/") else ""

    def __len__(self) -> int:
        """Return the number of commits."""
        return len(self._listed.rows)

    # -- one file --

    def record(self, path: str) -> FileRecord | None:
        """Return the record of a file; None when no commit contains it."""
        file = self._file_of.get(path)
        if file is None:
            return None
        commits = self._commits_of(file)
        last_at = int(self._at[commits].max())
        return FileRecord(path, len(commits), last_at, self._authors_of(commits))

    def list_cochanged(self, path: str, *, support: int = 2, confidence: float = 0.0) -> list[CochangedFile]:
        """Return the files that changed together with this one and still exist, most often first.

        Only commits of at most `TOGETHER_FILES_MAX` files count, for `together` as well as for the whole.
        """
        file = self._file_of.get(path)
        if file is None:
            return []
        whole, others, counts = self._together(file)
        found = [
            CochangedFile(self.paths[other], count, count / whole)
            for other, count in zip(others.tolist(), counts.tolist(), strict=True)
            if count >= support and count >= confidence * whole and not self._is_gone[other]
        ]
        return sorted(found, key=lambda partner: (-partner.together, partner.path))

    def list_usual_cochanges(self, path: str) -> list[CochangedFile]:
        """Return the partners so regular that a reply may state them."""
        return self.list_cochanged(path, support=SUPPORT_MIN, confidence=CONFIDENCE_MIN)

    # -- all files --

    def find_similar_changes(self, text: str) -> dict[str, float]:
        """Return the files of earlier commits with similar subjects, each with a value of at most 1.

        A commit of few files says more about each of them; what matches twice as well says four times as much.
        """
        commits, subjects = self._subjects
        match = subjects.matches(text)
        best = np.argsort(-match, kind="stable")[:ALIKE_COMMITS_MAX]
        best = best[match[best] > 0]
        if not len(best):
            return {}
        starts, files = self._by_commit
        value = np.zeros(len(self.paths))
        for at in best.tolist():
            commit = commits[at]
            value[files[starts[commit] : starts[commit + 1]]] += match[at] ** 2 / np.sqrt(self._sizes[commit])
        value *= min(1.0, float(match[best[0]]) / ALIKE_ENOUGH) / max(float(value.max(initial=0.0)), 1e-9)
        found = np.flatnonzero((value > 0) & ~self._is_gone)
        return {self.paths[file]: float(value[file]) for file in found.tolist()}

    def list_hot_files(self, limit: int) -> list[str]:
        """Return the files that were changed most recently and often."""
        here = np.flatnonzero(~self._is_gone)
        order = sorted(here.tolist(), key=lambda file: (-self._recent[file], self.paths[file]))
        return [self.paths[file] for file in order[:limit]]

    def recency(self, paths: Sequence[str]) -> Floats:
        """Return the decayed number of commits of each path; 0 for unknown ones."""
        return self._values(self._recent, paths)

    def frequency(self, paths: Sequence[str]) -> Floats:
        """Return the number of commits of each path; 0 for unknown ones."""
        return self._values(self._counts, paths)

    @cached_property
    def map_renames(self) -> Mapping[str, str]:
        """Old name -> current name, for every file with another name today."""
        names = self._facts.names
        pairs = [(self._inside(names[was]), self._inside(names[events[0][1]])) for was, events in self._events.items()]
        return {old: new for old, new in pairs if old and new in self._living and old not in self._living}

    # -- columns: one entry a commit, newest first --

    @cached_property
    def _at(self) -> npt.NDArray[np.int64]:
        return self._facts.at[self._listed.rows]

    @cached_property
    def _sizes(self) -> npt.NDArray[np.int32]:
        return np.diff(self._facts.starts)[self._listed.rows]

    @cached_property
    def _subjects(self) -> tuple[Places, CommitSearch]:
        """The commits of few files, and their subjects."""
        commits = np.flatnonzero((self._sizes > 0) & (self._sizes <= TOGETHER_FILES_MAX))
        subjects = self._facts.subjects
        return commits, CommitSearch([subjects[row] for row in self._listed.rows[commits].tolist()])

    # -- columns: one entry a touch, newest first --

    @cached_property
    def _touches(self) -> tuple[Places, Places]:
        """(places in the facts' columns, commits) of all touches."""
        starts = self._facts.starts[self._listed.rows].astype(np.intp)
        commits = np.repeat(np.arange(len(self)), self._sizes)
        firsts = np.cumsum(self._sizes) - self._sizes
        return np.arange(len(commits)) - firsts[commits] + starts[commits], commits

    # -- columns: one entry a file --

    @cached_property
    def _touch_owners(self) -> tuple[Places, Places, npt.NDArray[np.bool_]]:
        """(commit, file, is gone) of each touch, files by the number of their current name; no pair twice."""
        places, commits = self._touches
        facts = self._facts
        names = facts.path[places].astype(np.intp)
        events = self._events
        for at in np.flatnonzero(np.isin(names, list(events))).tolist():
            names[at] = _latest(events[int(names[at])], int(names[at]), int(commits[at]))
        _, first = np.unique(commits * max(len(facts.names), 1) + names, return_index=True)
        return commits[first], names[first], facts.is_gone[places][first]

    @cached_property
    def _files(self) -> tuple[tuple[str, ...], Places, Places, npt.NDArray[np.bool_]]:
        """(paths, commit of each touch, file of each touch, is gone) of everything below the requested folder."""
        commits, names, gone = self._touch_owners
        numbers, firsts, files = np.unique(names, return_index=True, return_inverse=True)
        paths = [self._facts.names[number] for number in numbers.tolist()]
        is_gone = gone[firsts]  # what its newest commit says
        if not self._below:
            return tuple(paths), commits, files, is_gone
        inside = np.array([path.startswith(self._below) for path in paths], bool)
        number = np.cumsum(inside) - 1
        kept = inside[files]
        below = tuple(path[len(self._below) :] for path in paths if path.startswith(self._below))
        return below, commits[kept], number[files[kept]], is_gone[inside]

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file in a commit, by its current name; deleted ones, too."""
        return self._files[0]

    @property
    def _is_gone(self) -> npt.NDArray[np.bool_]:
        return self._files[3]

    @cached_property
    def _file_of(self) -> dict[str, int]:
        return {path: file for file, path in enumerate(self.paths)}

    @cached_property
    def _living(self) -> frozenset[str]:
        return frozenset(path for path, gone in zip(self.paths, self._is_gone.tolist(), strict=True) if not gone)

    @cached_property
    def _counts(self) -> Floats:
        return np.bincount(self._files[2], minlength=len(self.paths)).astype(np.float64)

    @cached_property
    def _recent(self) -> Floats:
        _, commits, files, _ = self._files
        newest = self._at.max() if len(self) else 0
        weight = np.exp2((self._at - newest) / HALF_LIFE_S)
        return np.bincount(files, weight[commits], len(self.paths)).astype(np.float64)

    @cached_property
    def _by_file(self) -> tuple[Places, Places]:
        """(where each file's commits begin, commits) in the order of files."""
        paths, commits, files, _ = self._files
        starts = np.searchsorted(np.sort(files), np.arange(len(paths) + 1))
        return starts, commits[np.argsort(files, kind="stable")]

    @cached_property
    def _by_commit(self) -> tuple[Places, Places]:
        """(where each commit's files begin, files) in the order of commits."""
        _, commits, files, _ = self._files
        return np.searchsorted(commits, np.arange(len(self) + 1)), files

    def _commits_of(self, file: int) -> Places:
        starts, commits = self._by_file
        return commits[starts[file] : starts[file + 1]]

    def _together(self, file: int) -> tuple[int, Places, Places]:
        """Return the number of small commits of a file, the other files in them, and in how many each is."""
        starts, files = self._by_commit
        commits = self._commits_of(file)
        commits = commits[self._sizes[commits] <= TOGETHER_FILES_MAX]
        spans = [files[starts[commit] : starts[commit + 1]] for commit in commits.tolist()]
        others, counts = np.unique(np.concatenate(spans) if spans else files[:0], return_counts=True)
        apart = others != file
        return len(commits), others[apart], counts[apart]

    def _authors_of(self, commits: Places) -> tuple[tuple[str, int], ...]:
        facts = self._facts
        rows = self._listed.rows[commits]
        counted = Counter(facts.authors[author] for author in facts.author[rows].tolist())
        return tuple(sorted(counted.items(), key=lambda author_count: (-author_count[1], author_count[0])))

    def _values(self, column: Floats, paths: Sequence[str]) -> Floats:
        return np.array([column[self._file_of[path]] if path in self._file_of else 0.0 for path in paths], np.float64)

    # -- renames --

    @cached_property
    def _events(self) -> Mapping[int, list[tuple[int, int]]]:
        """Name -> (commit, current name of what it was called before that commit), newest first.

        A file that was renamed twice ends where its last rename leads: those are known when older ones are looked at.
        """
        places, commits = self._touches
        renamed = np.flatnonzero(self._facts.was[places] >= 0)
        at = places[renamed]
        columns = (commits[renamed].tolist(), self._facts.was[at].tolist(), self._facts.path[at].tolist())
        events: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for commit, was, now in zip(*columns, strict=True):
            events[was].append((commit, _latest(events.get(now), now, commit)))
        return events

    def _inside(self, path: str) -> str:
        """Return a path of the repository relative to this folder; empty if it is outside."""
        if path.startswith(self._below):
            return path[len(self._below) :]
        return ""


def _latest(events: list[tuple[int, int]] | None, name: int, commit: int) -> int:
    """Return where the next rename after a commit leads; the name itself if there was none.

    Commits count from the newest, so what came after has a smaller number.
    """
    if not events:
        return name
    at = bisect_left(events, (commit, -1))
    if at:
        return events[at - 1][1]
    return name


# -- earlier commits about a text -------------------------------------------------------------------------------------


class CommitSearch:
    """A search index of commit subjects: Okapi BM25. Immutable; 20,000 take some hundred milliseconds.

    >>> search = CommitSearch(["Fix the parser of dates", "Add a logo"])
    >>> search.matches("which dates does the parser take").round(1).tolist()
    [0.4, 0.0]
    """

    def __init__(self, subjects: Sequence[str]) -> None:
        """Index the subjects; from here on they are known by their number."""
        subject_words = [split_words(subject) for subject in subjects]
        known = unique(word for row in subject_words for word in row)
        terms = dict(zip(known, expand_words(known), strict=True))
        number: dict[str, int] = {}
        numbers = {word: [number.setdefault(term, len(number)) for term in terms[word]] for word in known}
        subject_terms = [[term for word in row for term in numbers[word]] for row in subject_words]
        lengths = np.array([len(row) for row in subject_terms], np.int64)
        owners = np.repeat(np.arange(len(subject_terms)), lengths)
        flat = np.array([term for row in subject_terms for term in row], np.int64)
        pairs, counts = np.unique(flat * max(len(subject_terms), 1) + owners, return_counts=True)
        self._number = number
        self._docs, self._counts = pairs % max(len(subject_terms), 1), counts
        self._starts = np.searchsorted(pairs // max(len(subject_terms), 1), np.arange(len(number) + 1))
        self._norms = K1 * (1 - B + B * lengths / max(float(lengths.mean()) if len(lengths) else 1.0, 1e-9))

    def matches(self, text: str) -> Floats:
        """Return how much of the text each subject says: 1 is a subject of mean length that says each word once."""
        score = np.zeros(len(self._norms))
        wanted = 0.0
        for term in query_terms(text):
            number = self._number.get(term)
            start, stop = (0, 0) if number is None else self._starts[number : number + 2]
            docs, counts = self._docs[start:stop], self._counts[start:stop]
            idf = float(np.log1p((len(score) - len(docs) + 0.5) / (len(docs) + 0.5)))
            wanted += idf
            score[docs] += idf * counts * (K1 + 1) / (counts + self._norms[docs])
        return score / max(wanted, 1e-9)
