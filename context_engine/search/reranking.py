"""PURE. How likely each place of an answer is needed, once its text is read.

A logistic model corrects the chance of each place by what a ranking does not know: comments, names and quoted texts as
the question writes them. Fitted on commits (evals/places/fit_reranking.py, docs/decisions/archive/0126).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import exp, log, log1p
from typing import NamedTuple

from context_engine.model import Hit, group_by_file
from context_engine.search.question import TITLE, Question
from context_engine.text import split_identifier, stem_all

PLACES_MAX = 40
"""Places whose text is read, those with the most chance; 80 gain nothing. The others keep their small chance."""
CHANCE_LEAST = 1e-6
"""Chances are kept this far from 0 and 1, where their odds would have no logarithm."""
QUESTION_CHARS_MAX = 4_000
"""Characters of a question in which names and quoted texts are looked for."""
NAMES_MAX, QUOTED_MAX = 60, 30


class PlaceFacts(NamedTuple):
    """Facts of one place of an answer, each a number.

    - `odds`: logarithm of the odds of its chance before; `best_odds`: the greatest of its file.
    - `title`, `body`: how much of the words of the question's title and of its rest it contains, by their rarity among
      the places; `rare`: the same of the title, where rare words count more; `in_path`: the share of them in its path.
    - `names`, `quoted`: logarithm of 1 + the number of compound names and quoted texts of the question that it contains
      as they are written; `is_named`: its symbol has one of these names.
    - `comments`, `control`: lines that are comments, and words such as `if` and `return`, for each line; at most 1.
    - `lines`: logarithm of 1 + their number; `depth`: how deep its symbol is nested; `has_symbol`: it has one.
    """

    odds: float
    best_odds: float
    title: float
    body: float
    rare: float
    in_path: float
    names: float
    quoted: float
    is_named: float
    comments: float
    control: float
    lines: float
    depth: float
    has_symbol: float


FACT_CONSTANT = -2.79
FACT_WEIGHTS = PlaceFacts(
    odds=0.77,
    best_odds=-0.16,
    title=0.21,
    body=0.25,
    rare=0.06,
    in_path=2.02,
    names=0.51,
    quoted=0.42,
    is_named=0.8,
    comments=-0.96,
    control=0.67,
    lines=0.27,
    depth=0.03,
    has_symbol=0.37,
)
"""Of the facts in the logarithm of the odds. Fitted on 2,064 messages and subjects of 86 repositories: where they are
held out, the first place is right in .406 of them, by `odds` alone in .384."""

_COMMENT = re.compile(r"^[ \t]*(?:#|//|\*|/\*|--|;;|%|\"\"\"|''')", re.MULTILINE)
_CONTROL = re.compile(
    r"\b(?:if|else|for|while|switch|case|match|try|catch|except|return|unless|elif|elsif|when|with)\b"
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
    likely = _sort_by_chance(hits)
    read, unread = likely[:PLACES_MAX], likely[PLACES_MAX:]
    judged = []
    for hit, facts in zip(read, read_facts(question, read), strict=True):
        chance = 1 / (
            1 + exp(-FACT_CONSTANT - sum(weight * fact for weight, fact in zip(FACT_WEIGHTS, facts, strict=True)))
        )
        # The frame of a stack trace may have few words of the question.
        judged.append(replace(hit, chance=max(chance, hit.chance) if hit.is_named else chance))
    of_file = group_by_file(_sort_by_chance([*judged, *unread]))
    best = {path: max(hit.score for hit in own) for path, own in of_file.items()}
    ranked: list[Hit] = []
    is_short = Question.of(question).is_short
    paths = sorted(best, key=lambda path: -best[path]) if is_short else _order_files(of_file, best)
    for path, score in zip(paths, sorted(best.values(), reverse=True), strict=True):
        ranked += _rank_file(of_file[path], score)
    if is_short:
        before = {path: iter(own) for path, own in group_by_file(likely).items()}
        ranked = [replace(hit, chance=next(before[hit.chunk.path]).chance) for hit in ranked]
    return sorted(ranked, key=lambda hit: -hit.score)


def _sort_by_chance(hits: Iterable[Hit]) -> list[Hit]:
    return sorted(hits, key=lambda hit: -hit.chance)


def _order_files(of_file: Mapping[str, Sequence[Hit]], best: Mapping[str, float]) -> list[str]:
    """Return the files by the chance of their first hit; one with a named place keeps those behind it that were."""
    groups: list[list[str]] = [[]]
    for path in sorted(of_file, key=lambda path: -best[path]):
        if any(hit.is_named for hit in of_file[path]):
            groups += [[path], []]
        else:
            groups[-1].append(path)
    return [path for group in groups for path in sorted(group, key=lambda path: -of_file[path][0].chance)]


def _rank_file(hits: Sequence[Hit], best: float) -> list[Hit]:
    """Return the hits of a file, named ones first, with its scores in descending order, the greatest of them `best`.

    The parts of a score are in the proportion of those before; equal ones if these are nothing.
    """
    scores = sorted((hit.score for hit in hits), reverse=True)
    ranked = []
    for hit, old_score in zip(sorted(hits, key=lambda hit: not hit.is_named), scores, strict=True):
        score, whole = best * old_score / (scores[0] or 1.0), sum(hit.why.values())
        shares = {name: value / whole if whole else 1 / len(hit.why) for name, value in hit.why.items()}
        ranked.append(replace(hit, score=score, why={name: score * share for name, share in shares.items()}))
    return ranked


class _QuestionParts(NamedTuple):
    """The parts of a question that are compared: stems of its title and rest with weights, names, quoted texts."""

    title: dict[str, float]
    body: dict[str, float]
    names: frozenset[str]
    quoted: tuple[str, ...]


def read_facts(question: str, hits: Sequence[Hit]) -> list[PlaceFacts]:
    """Return the facts of the places of one answer."""
    parts = _split_question(question)
    counts = _count_stems(hit.chunk.text for hit in hits)
    frequency = Counter(stem for count in counts for stem in count)
    rarity = dict.fromkeys((*parts.title, *parts.body), 0.0)
    for stem in rarity:
        if frequency[stem]:
            rarity[stem] = log((len(hits) + 1) / (frequency[stem] + 0.5))
    odds = [_compute_odds(hit.chance) for hit in hits]
    best_odds: dict[str, float] = {}
    for hit, own in zip(hits, odds, strict=True):
        best_odds[hit.chunk.path] = max(own, best_odds.get(hit.chunk.path, own))
    facts = []
    for hit, own, count in zip(hits, odds, counts, strict=True):
        text, symbol = hit.chunk.text, hit.chunk.title
        lines = text.count("\n") + 1
        place = PlaceFacts(
            odds=own,
            best_odds=best_odds[hit.chunk.path],
            title=_weigh_words(parts.title, rarity, count),
            body=_weigh_words(parts.body, rarity, count),
            rare=sum(rarity[stem] ** 2 for stem in parts.title if stem in count),
            in_path=_weigh_path(hit.chunk.path, parts.title, rarity),
            names=log1p(sum(name in text for name in parts.names)),
            quoted=log1p(sum(quoted in text for quoted in parts.quoted)),
            is_named=float(symbol.rpartition(".")[2] in parts.names),
            comments=min(1.0, len(_COMMENT.findall(text)) / lines),
            control=min(1.0, len(_CONTROL.findall(text)) / lines),
            lines=log1p(lines),
            depth=float(symbol.count(".")),
            has_symbol=float(bool(symbol)),
        )
        facts.append(place)
    return facts


def _split_question(text: str) -> _QuestionParts:
    question = Question.of(text)
    title: dict[str, float] = {}
    body: dict[str, float] = {}
    for stem, weight in zip(stem_all([*question.words]), question.words.values(), strict=True):
        words = title if weight >= TITLE else body
        words[stem] = max(weight, words.get(stem, 0.0))
    beginning = text[:QUESTION_CHARS_MAX]
    names = list(dict.fromkeys(_NAME.findall(beginning)))
    members = [re.split(r"\.|::", name)[-1] for name in names]
    quoted = dict.fromkeys(next(filter(None, groups)) for groups in _QUOTED.findall(beginning))
    return _QuestionParts(title, body, frozenset([*names, *members][:NAMES_MAX]), tuple(quoted)[:QUOTED_MAX])


def _weigh_words(words: Mapping[str, float], rarity: Mapping[str, float], count: Mapping[str, int]) -> float:
    """Return how much of some words a text contains, by their weight and rarity; repetition counts less and less."""
    whole = sum(weight * rarity[stem] for stem, weight in words.items())
    held = sum(weight * rarity[stem] * log1p(count[stem]) for stem, weight in words.items() if stem in count)
    return held / whole if whole else 0.0


def _weigh_path(path: str, title: Iterable[str], rarity: Mapping[str, float]) -> float:
    """Return the share of the title's words, by their rarity, that are in a path."""
    in_path = set(stem_all(split_identifier(path)))
    whole = sum(rarity[stem] for stem in title)
    return sum(rarity[stem] for stem in title if stem in in_path) / whole if whole else 0.0


def _count_stems(texts: Iterable[str]) -> list[Counter[str]]:
    """Return how often each stem is in each text; identifiers count by their parts."""
    parts = [split_identifier(text) for text in texts]
    distinct = list({part for own in parts for part in own})
    stems = dict(zip(distinct, stem_all(distinct), strict=True))
    return [Counter(map(stems.__getitem__, own)) for own in parts]


def _compute_odds(chance: float) -> float:
    chance = min(max(chance, CHANCE_LEAST), 1 - CHANCE_LEAST)
    return log(chance / (1 - chance))
