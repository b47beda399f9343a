"""PURE. How likely each place of an answer is needed, once its text is read.

A logistic model corrects the chance of each place by what a ranking does not know: words that follow each other,
comments, names and quoted texts as the question writes them. Fitted on commits (evals/places/fit_reranking.py,
docs/decisions/archive/0126).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, pairwise
from math import exp, log, log1p
from operator import mul
from typing import NamedTuple

from context_engine.model import Hit, group_by_file
from context_engine.search.question import TITLE, Question
from context_engine.text import split_identifier, split_words, stem_all

PLACES_MAX = 40
"""Places whose text is read, those with the most chance; 80 gain nothing. The others keep their small chance."""
CHANCE_LEAST = 1e-6
"""Chances are kept this far from 0 and 1, where their odds would have no logarithm."""
QUESTION_CHARS_MAX = 4_000
"""Characters of a question in which names and quoted texts are looked for."""
NAMES_MAX, QUOTED_MAX = 60, 30
WORDS_KEPT = 16_384
"""Words whose stems are kept, some megabytes: nine of ten words of an answer were in the answers before."""


class PlaceFacts(NamedTuple):
    """Facts of one place of an answer, each a number.

    - `odds`: logarithm of the odds of its chance before.
    - `words`: the squared rarity, among the places, of the words of the question's title that it contains; `pairs`: the
      rarity of two words that follow each other in the question and in the place; `in_path`: the share of the title's
      words, by their rarity, that are in its path.
    - `quoted`: logarithm of 1 + the number of quoted texts of the question that it contains as they are written;
      `is_named`: its symbol has a compound name that the question writes.
    - `comments`, `control`: lines that are comments, and words such as `if` and `return`, for each line; at most 1.
    - `lines`: logarithm of 1 + their number; `has_symbol`: it has one.
    """

    odds: float
    words: float
    pairs: float
    in_path: float
    quoted: float
    is_named: float
    comments: float
    control: float
    lines: float
    has_symbol: float


FACT_CONSTANT = -3.47
FACT_WEIGHTS = PlaceFacts(
    odds=0.56,
    words=0.05,
    pairs=0.16,
    in_path=1.63,
    quoted=0.44,
    is_named=0.84,
    comments=-0.9,
    control=0.33,
    lines=0.42,
    has_symbol=0.34,
)
"""Of the facts in the logarithm of the odds. Fitted on 3,323 messages and subjects of 114 permissive
repositories: where they are held out, the first place is right in .331 of them, by `odds` alone in .302."""

_COMMENT = re.compile(r"\n[ \t]*(?:#|//|\*|/\*|--|;;|%|\"\"\"|''')")
_CONTROL_WORDS = frozenset(
    "if else for while switch case match try catch except return unless elif elsif when with".split()
)
_NAME = re.compile(
    r"\b(?:[A-Za-z_$][\w$]*(?:(?:\.|::)[A-Za-z_$][\w$]*)+|[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*|[A-Za-z]\w*_\w+)\b"
)
_QUOTED = re.compile(r"`([^`\n]{2,60})`|\"([^\"\n]{3,60})\"|'([\w.:-]{3,60})'")


def rerank(question: str, hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits of one answer in the order that their texts give them, best first.

    The places of a file come by their chance, named ones before. The files of a long question come by their most likely
    place, but none overtakes a file with a place that the question names. Those of a short one keep their order, and
    its chances are those of the answer. So are the scores: a file has that of its new rank, a place that of its rank in
    the file.
    """
    likely = sorted(hits, key=lambda hit: -hit.chance)
    judged = likely.copy()
    for number, facts in enumerate(read_facts(question, likely[:PLACES_MAX])):
        hit, chance = likely[number], 1 / (1 + exp(-FACT_CONSTANT - sum(map(mul, FACT_WEIGHTS, facts))))
        # The frame of a stack trace may have few words of the question.
        judged[number] = replace(hit, chance=max(chance, hit.chance) if hit.is_named else chance)
    before, of_file = group_by_file(likely), group_by_file(sorted(judged, key=lambda hit: -hit.chance))
    best = {path: max(hit.score for hit in own) for path, own in of_file.items()}
    ranked: list[Hit] = []
    is_short = Question.of(question).is_short
    paths = sorted(best, key=lambda path: -best[path]) if is_short else _order_files(of_file, best)
    for path, score in zip(paths, sorted(best.values(), reverse=True), strict=True):
        places = sorted(of_file[path], key=lambda hit: not hit.is_named)
        ranked += _rank_file(places, score, [hit.chance for hit in (before[path] if is_short else places)])
    return sorted(ranked, key=lambda hit: -hit.score)


def _order_files(of_file: Mapping[str, Sequence[Hit]], best: Mapping[str, float]) -> list[str]:
    """Return the files by the chance of their first hit; one with a named place keeps those behind it that were."""
    groups: list[list[str]] = [[]]
    for path in sorted(of_file, key=lambda path: -best[path]):
        if any(hit.is_named for hit in of_file[path]):
            groups += [[path], []]
        else:
            groups[-1].append(path)
    return [path for group in groups for path in sorted(group, key=lambda path: -of_file[path][0].chance)]


def _rank_file(hits: Sequence[Hit], best: float, chances: Sequence[float]) -> Iterator[Hit]:
    """Yield the hits of a file with these chances and its scores in descending order, the greatest of them `best`.

    The parts of a score are in the proportion of those before; equal ones if these are nothing.
    """
    scores = sorted((hit.score for hit in hits), reverse=True)
    for hit, old_score, chance in zip(hits, scores, chances, strict=True):
        score, whole = best * old_score / (scores[0] or 1.0), sum(hit.why.values())
        why = {name: score * (value / whole if whole else 1 / len(hit.why)) for name, value in hit.why.items()}
        yield replace(hit, score=score, why=why, chance=chance)


class _QuestionParts(NamedTuple):
    """The parts of a question that are compared: stems of its title, stems in a row, names, quoted texts."""

    title: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    names: frozenset[str]
    quoted: tuple[str, ...]


def read_facts(question: str, hits: Sequence[Hit]) -> Iterator[PlaceFacts]:
    """Yield the facts of each place of one answer."""
    parts = _split_question(question)
    words = [split_words(hit.chunk.text) for hit in hits]
    stems = _list_stems(words, parts.title.union(*parts.pairs))
    found = [(parts.title & set(own), parts.pairs & set(pairwise(own))) for own in stems]
    frequency = Counter(chain.from_iterable(chain(*own) for own in found))
    rarity = {part: log((len(hits) + 1) / (count + 0.5)) for part, count in frequency.items()}
    whole = sum(rarity.get(stem, 0.0) for stem in parts.title) or 1.0
    for hit, own_words, (title, pairs) in zip(hits, words, found, strict=True):
        text, symbol = hit.chunk.text, hit.chunk.title
        lines = text.count("\n") + 1
        yield PlaceFacts(
            odds=_compute_odds(hit.chance),
            words=sum(rarity[stem] ** 2 for stem in title),
            pairs=sum(rarity[pair] for pair in pairs),
            in_path=sum(rarity.get(stem, 0.0) for stem in parts.title & set(_stem_parts(hit.chunk.path))) / whole,
            quoted=log1p(sum(quoted in text for quoted in parts.quoted)),
            is_named=float(symbol.rpartition(".")[2] in parts.names),
            comments=min(1.0, len(_COMMENT.findall(f"\n{text}")) / lines),
            control=min(1.0, sum(map(_CONTROL_WORDS.__contains__, own_words)) / lines),
            lines=log1p(lines),
            has_symbol=float(bool(symbol)),
        )


def _split_question(text: str) -> _QuestionParts:
    question = Question.of(text)
    stems = dict(zip(stem_all([*question.words]), question.words.values(), strict=True))
    beginning = text[:QUESTION_CHARS_MAX]
    in_order = pairwise(chain.from_iterable(map(_stem_parts, split_words(beginning))))
    names = list(dict.fromkeys(_NAME.findall(beginning)))
    members = [re.split(r"\.|::", name)[-1] for name in names]
    quoted = dict.fromkeys(next(filter(None, groups)) for groups in _QUOTED.findall(beginning))
    return _QuestionParts(
        title=frozenset(stem for stem, weight in stems.items() if weight >= TITLE),
        pairs=frozenset(pair for pair in in_order if pair[0] != pair[1] and stems.keys() >= {*pair}),
        names=frozenset([*names, *members][:NAMES_MAX]),
        quoted=tuple(quoted)[:QUOTED_MAX],
    )


def _list_stems(texts: Sequence[Sequence[str]], stems: frozenset[str]) -> list[list[str]]:
    """Return the stems of each text, given by its words, in order; "" for a word that has none of `stems`."""
    words = set(chain.from_iterable(texts))
    parts = {word: own for word in words if not stems.isdisjoint(own := _stem_parts(word))}
    return [list(chain.from_iterable(parts.get(word, ("",)) for word in text)) for text in texts]


@lru_cache(WORDS_KEPT)
def _stem_parts(word: str) -> tuple[str, ...]:
    return tuple(stem_all(split_identifier(word)))


def _compute_odds(chance: float) -> float:
    chance = min(max(chance, CHANCE_LEAST), 1 - CHANCE_LEAST)
    return log(chance / (1 - chance))
