r"""PURE. The scripted agent: one fixed policy for every client and set-up. It decides by what a model would see alone.

Constants were chosen before the first run and are not tuned; README.md states the policy in words.

>>> choose_terms("Fix `parse_args`: drop stale workers\n\nHttpClient should retry twice when workers die.")
('parse_args', 'HttpClient', 'workers', 'stale', 'retry', 'twice')
>>> find_matches("src/a.py:12:def f():\nsrc/a.py-13-    return 1")
[Match(path='src/a.py', line=12)]
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

TERMS_MAX = 6
SEARCHES_MAX = 3
READS_MAX = 4
WINDOW_LINES = 120
SATISFIED_SHARE = 0.5
"""Of the terms that are not known to be absent, this share in the code that was seen ends the exploration."""
FILES_MANY = 10
"""An agent that was not told to ask the tool first asks it when its own searches found no file, or more than these."""

_IDENTIFIER = re.compile(
    r"`([^`\s]{3,60})`|\b(\w+(?:_\w+)+)\b|\b([A-Za-z]?[a-z0-9]+[A-Z]\w*)\b|\b(\w{2,40})\(\)|\b([A-Z][a-z]+[A-Z]\w*)\b"
)
_WORD = re.compile(r"[A-Za-z]{5,}")
_NAME = re.compile(r"\w{3,}")
_SUPPORTING = re.compile(
    r"(?i)(?:^|[/_.-])(?:tests?|specs?|docs?|examples?|changelog|changes|history|readme)(?:[/_.-]|$)|\.md$"
)
COMMON = frozenset(
    """about above added adding adds after again allow allows already also always another avoid based because before
    being between cannot change changed changes check class code commit could correctly currently default different
    does doesn either ensure error every example exist existing false feature field fields files first fixed fixes
    following found from function functions given handle happen have having helper however implement implementation
    improve incorrect incorrectly input inside instead internal issue large leading longer makes making method methods
    missing module multiple never object only option optional options other otherwise output parameter previous
    previously private properly provide provided public rather really refactor release remove removed removes rename
    replace return returned returns right same should simple since single something still string support supported
    supports tests their them there these thing this those though through under unless until update updated usage used
    user users uses using value values version warning wasn when where whether which while will with within without
    work works would wrong""".split()
)
"""Words of commit messages that an agent would not search for."""


class Match(NamedTuple):
    """A line that a search found."""

    path: str
    line: int


@dataclass(frozen=True, slots=True)
class Search:
    """Look for a text with the client's own means, or those of the set-up."""

    term: str


@dataclass(frozen=True, slots=True)
class Read:
    """Read lines of a file."""

    path: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Ask:
    """Put the task to the context tool."""

    query: str


@dataclass(frozen=True, slots=True)
class Edit:
    """The exploration is over: the next thing would be the first edit."""


Action = Search | Read | Ask | Edit


@dataclass(frozen=True, slots=True)
class Means:
    """What the agent has: whether a context tool is listed, and whether it was told to ask that first."""

    has_tool: bool = False
    told_first: bool = False


@dataclass(slots=True)
class Knowledge:
    """What the agent has seen so far."""

    terms: tuple[str, ...]
    absent: set[str] = field(default_factory=set)
    searched: set[str] = field(default_factory=set)
    matches: dict[str, list[Match]] = field(default_factory=dict)
    windows: list[Read] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    asked: bool = False

    @property
    def covered(self) -> set[str]:
        """The terms in the code that was seen."""
        seen = "\n".join(self.code).lower()
        return {term for term in self.terms if term.lower() in seen}

    @property
    def is_satisfied(self) -> bool:
        """Whether enough of the terms are in the code that was seen."""
        sought = set(self.terms) - self.absent
        return bool(self.code) and len(self.covered) >= SATISFIED_SHARE * len(sought)


def choose_terms(task: str) -> tuple[str, ...]:
    """Return what to search for: names of code in the order of the task, then its longest words that are not common."""
    names = [next(filter(None, groups)) for groups in _IDENTIFIER.findall(task)]
    names = [max(_NAME.findall(name), key=len, default="") for name in names]
    counts: dict[str, int] = {}
    for word in _WORD.findall(task):
        counts[word.lower()] = counts.get(word.lower(), 0) + 1
    words = sorted((word for word in counts if word not in COMMON), key=lambda word: (-counts[word], -len(word)))
    chosen: dict[str, str] = {}
    for term in [*names, *words]:
        if len(term) >= 3 and term.lower() not in COMMON and not any(term.lower() in name for name in chosen):
            chosen[term.lower()] = term
    return tuple(chosen.values())[:TERMS_MAX]


def decide(task: str, means: Means, given: str, history: Sequence[tuple[Action, str]]) -> Action:
    """Return the next action. `given` is the code that the client put into the request without being asked."""
    known = learn(task, given, history)
    searches = sum(isinstance(action, Search) for action, _ in history)
    reads = sum(isinstance(action, Read) for action, _ in history)
    if known.is_satisfied:
        return Edit()
    if means.has_tool and not known.asked and (means.told_first or _searches_failed(known, searches)):
        return Ask(task)
    covered = known.covered
    waiting = [term for term in known.terms if term not in known.searched and term not in covered]
    term = waiting[0] if waiting and searches < SEARCHES_MAX else ""
    window = best_window(known) if reads < READS_MAX else None
    newest = history[-1][0] if history else None
    is_decisive = isinstance(newest, Search) and 0 < len(_files(known.matches[newest.term])) <= FILES_MANY
    if window and (is_decisive or not term):
        return window
    return Search(term) if term else Edit()


def learn(task: str, given: str, history: Iterable[tuple[Action, str]]) -> Knowledge:
    """Return what is known after a history."""
    known = Knowledge(choose_terms(task))
    if given:
        known.code.append(given)
    for action, result in history:
        if isinstance(action, Search):
            found = find_matches(result)
            known.searched.add(action.term)
            known.matches[action.term] = found
            if not found:
                known.absent.add(action.term)
        elif isinstance(action, Read):
            known.windows.append(action)
            known.code.append(result)
        elif isinstance(action, Ask):
            known.asked = True
            known.code.append(_without_echo(result, action.query))
    return known


def _without_echo(result: str, query: str) -> str:
    """Return a reply without the question that it repeats: its words are no code."""
    for as_ascii in (True, False):
        echo = query
        for _ in range(3):  # as it is, in JSON, and in JSON inside of JSON
            result = result.replace(echo, "")
            echo = json.dumps(echo, ensure_ascii=as_ascii)[1:-1]
    return result


def _searches_failed(known: Knowledge, searches: int) -> bool:
    """Return whether two searches left the agent with no file, or with too many to read."""
    files = {path for matches in known.matches.values() for path in _files(matches)}
    return searches >= 2 and (not files or len(files) > FILES_MANY)


def _files(matches: Iterable[Match]) -> set[str]:
    return {match.path for match in matches}


def best_window(known: Knowledge) -> Read | None:
    """Return the lines with the most and rarest matches that were not read yet, in the file with most of them.

    It is to change code, so it does not read tests, documents and examples.
    """
    weights = {
        term: 1 / math.log2(2 + len({match.path for match in matches})) for term, matches in known.matches.items()
    }
    lines: dict[str, dict[int, float]] = {}
    scores: dict[str, float] = {}
    for term, matches in known.matches.items():
        code = [match for match in matches if not _SUPPORTING.search(match.path)]
        for match in code:
            if not any(read.path == match.path and read.first <= match.line <= read.last for read in known.windows):
                rows = lines.setdefault(match.path, {})
                rows[match.line] = rows.get(match.line, 0.0) + weights[term]
        for path in _files(code):
            scores[path] = scores.get(path, 0.0) + weights[term]
    ranked = sorted(lines, key=lambda path: (-scores[path] * _path_weight(path, known.terms), path))
    return _densest(ranked[0], lines[ranked[0]]) if ranked else None


def _path_weight(path: str, terms: Iterable[str]) -> float:
    named = sum(term.lower() in path.lower() for term in terms)
    return 1 + 0.5 * named


def _densest(path: str, rows: Mapping[int, float]) -> Read:
    """Return the window of `WINDOW_LINES` around the lines that weigh the most together."""

    def weight(first: int) -> float:
        return sum(value for line, value in rows.items() if first <= line < first + WINDOW_LINES)

    best = max(sorted(rows), key=lambda line: (weight(line), -line))
    inside = [line for line in rows if best <= line < best + WINDOW_LINES]
    first = max(1, (min(inside) + max(inside)) // 2 - WINDOW_LINES // 2)
    return Read(path, first, first + WINDOW_LINES - 1)


# -- reading results --------------------------------------------------------------------------------------------------

_GREP_LINE = re.compile(r"(?:\./)?([^\s:][^:\n]{0,300}?):(\d{1,7}):")
_FILE_LINE = re.compile(r"(?:File: )?((?:/|[\w.@-])[^:\n]{0,300}):?\s*$")
_LINE_BELOW = re.compile(r"\s*(?:Line |L)(\d{1,7}):")
_PLACE_HEAD = re.compile(r"[^\s:]{1,300}:\d{1,7}-\d{1,7}\b")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")


def find_matches(result: str) -> list[Match]:
    """Return the lines that a search found: `path:line:` each, or lines below the name of their file."""
    found: list[Match] = []
    path = ""
    for line in result.split("\n"):
        if hit := _GREP_LINE.match(line):
            found.append(Match(hit[1], int(hit[2])))
        elif path and (below := _LINE_BELOW.match(line)):
            found.append(Match(path, int(below[1])))
        elif head := _FILE_LINE.match(line):
            path = head[1]
    return found


def find_given_code(words: str) -> str:
    """Return the code in the words of a request that is under a heading with its place, `path:first-last`."""
    return "\n".join(_fenced(words.split("\n")))


def _fenced(lines: Iterable[str]) -> Iterator[str]:
    is_headed, fence = False, ""
    for line in lines:
        if fence:
            if line.strip() == fence:
                fence = ""
            else:
                yield line
        elif is_headed and (found := _FENCE.match(line)):
            fence = found[1]
        is_headed = bool(_PLACE_HEAD.match(line)) if not fence else False
