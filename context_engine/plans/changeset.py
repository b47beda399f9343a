"""Find the files that a task changes, each with its evidence and the probability that the task changes it.

Files that the task names are certain; those that use them, and those that search and history suggest, are judged by
logistic models. Nothing reads what the task asks for: that is for the agent that carries it out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, prod
from typing import Literal

import msgspec

from context_engine.context import (
    BestHit,
    GatheredFiles,
    GatherRequest,
    ProjectKnowledge,
    PromptReference,
    Workspace,
    find_partners,
    gather_files,
    resolve_names,
)
from context_engine.errors import CallError
from context_engine.index import Role, role_of
from context_engine.model import Filter, TextPart, TextQuery
from context_engine.plans.model import PlanEvidence
from context_engine.search import Question
from context_engine.text import STOP_WORDS, dotted_name, split_words


@dataclass(frozen=True, slots=True)
class PlanSources:
    """What a plan is made from; a part that is missing makes it poorer, never impossible."""

    code: Workspace
    team: ProjectKnowledge


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A task, and how far the plan for it may go.

    Without `with_scope` only the caller's own globs say what it is about.
    """

    task: str
    files_max: int = 8
    chosen: Filter = field(default_factory=Filter)
    mvp_only: bool = False
    with_diagrams: bool = False
    with_scope: bool = True


FileRelation = Literal["definition", "reference", "source", "test", "docs"]
"""The relation of a file to the task."""
SURE_KINDS = frozenset(("definition", "named"))
"""Evidence that says more than search and history do."""
SURE_PLACES = 3
"""A named definition was changed in 40 of 49 cases if the search has its file among so many first ones, else
in 2 of 14 (docs/decisions/plans.md)."""
PLACES_MAX, PLACE_SHARE = 2, 0.6
"""Places of a file that a step names, and the least share of the relevance of the best one."""
WITHOUT_INDEX_CHANCE = 0.35
"""The chance of the best hit where none is known: its mean over tasks (evals/planning)."""
RESOLVED_FILES_MAX = 40
"""Files whose uses of a name are resolved, which takes some milliseconds each."""
TESTS_MAX = 2
"""Of one source file: the nearest by its folder, and one more."""
_CHANGELOGS = frozenset("changes changelog history news release releases release-notes release_notes".split())
_NOT_OURS: tuple[Role, ...] = ("generated", "vendor")
"""Roles of files that are not edited by hand."""
_CONTENTS: Mapping[str, str] = {
    **dict.fromkeys("md rst adoc txt".split(), "documentation"),
    **dict.fromkeys("json yaml yml toml ini cfg conf xml properties env".split(), "data"),
}
"""Suffix of a file that is not code -> what it contains."""


@dataclass(frozen=True, slots=True)
class AffectedFile:
    """A file that the task changes: what it is to the task, the probability of that (1: named), and why."""

    path: str
    part: FileRelation
    score: float
    evidence: tuple[PlanEvidence, ...]


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """The affected files, best first, and what the names in the task mean."""

    files: tuple[AffectedFile, ...]
    references: tuple[PromptReference, ...]
    freshness: str
    left_out: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    best: BestHit = field(default_factory=BestHit)
    roles: frozenset[str] = frozenset()  # those that the task asks for by name: test, docs
    has_failure: bool = False  # the task has a stack trace

    def of(self, *parts: FileRelation) -> list[AffectedFile]:
        """Return the files with these relations."""
        return [file for file in self.files if file.part in parts]

    def insists_on(self, file: AffectedFile) -> bool:
        """Return whether a file is probably changed, or the task names it."""
        is_named = not SURE_KINDS.isdisjoint(proof.kind for proof in file.evidence)
        return is_named or file.score >= MUST_CHANCE


def find_change_set(request: PlanRequest, sources: PlanSources) -> ChangeSet:
    """Find the files that a task affects. Raises: as `Engine.search` does, but never for a missing index."""
    wanted = GatherRequest(
        request.task, request.files_max, request.chosen, spots_per_file=PLACES_MAX, excluded_roles=_NOT_OURS
    )
    found = gather_files(wanted, sources.code, sources.team.predict_changes)
    first = {str(file.path) for file in found.files if 0 <= file.search_place < SURE_PLACES}
    references = tuple(_find_references(request.task, sources.code, first))
    definitions = list(_definitions(references, first))
    likely = list(_list_likely(found))
    judge = _ProbabilityJudge(request.task, found)
    main = definitions or _probable([judge.judge(file) for file in likely if file.part == "source"])
    defined = {file.path for file in definitions}
    uses = [use for reference in references for use in _find_uses(reference, defined, sources.code)]
    judged = [judge.judge(file) for file in _merge_files([*definitions, *uses, *likely, *_tests(main, sources.code)])]
    judged.sort(key=lambda file: (-file.score, file.path))
    affected_paths, question = {file.path for file in judged}, Question.of(request.task)
    # A name of the task that was found answers it, however few of its other words occur.
    is_answered = found.best.is_weak and bool(definitions)
    return ChangeSet(
        tuple(judged),
        references,
        found.freshness,
        tuple(path for path in found.next_files if path not in affected_paths),
        () if is_answered else found.warnings,
        found.best,
        question.lifted,
        any(name.frame for name in question.every_name),
    )


# -- what the task names ----------------------------------------------------------------------------------------------


def _find_references(task: str, code: Workspace, first: Collection[str]) -> Iterator[PromptReference]:
    """Yield the names of the task that certainly mean a place: those marked as code, and members with one definition.

    `first` are the files that the search finds first: of several definitions of a name the one in them is meant.
    """
    question = Question.of(task)
    certain = {name.text for name in question.names if name.certain}
    for reference in resolve_names([*question.names, *question.dotted_names], code):
        # A file may define a symbol several times, as overloads or under conditions; the last one has a body.
        places = list({(place.path, place.symbol or place.line): place for place in reference.places}.values())
        chosen = [place for place in places if str(place.path) in first]
        is_chosen = reference.kind != "path" and len(places) + reference.more > 1 and len(chosen) == 1
        if is_chosen:
            places = chosen
        reference = replace(reference, places=tuple(places), more=0 if is_chosen else reference.more)
        if reference.text in certain or (len(places) == 1 and not reference.more):
            yield reference


def _definitions(references: Iterable[PromptReference], first: Collection[str]) -> Iterator[AffectedFile]:
    """Yield the files that names and paths resolve to, unless a name has several meanings.

    A definition that is not in the first files of the search is another one with a common name. It also has the case
    of the name: GitHub is not a target `github` of a Makefile.
    """
    for reference in references:
        is_place = reference.kind == "path" or reference.is_written
        for place in () if reference.is_ambiguous else reference.places:
            is_first = not first or str(place.path) in first
            if is_place or (is_first and bare_name(reference.text) == bare_name(str(place.symbol))):
                kind = "named" if is_place else "definition"
                proof = PlanEvidence(kind, place.path, place.line, place.symbol)
                yield AffectedFile(place.path, relation_of(place.path, "definition"), 1.0, (proof,))


def _find_uses(reference: PromptReference, defined: Collection[str], code: Workspace) -> Iterator[AffectedFile]:
    """Yield the files that use a defined symbol, as far as its uses can be resolved; else those that contain its name.

    A common word counts only where it is resolved: `Error` is in hundreds of files that mean another one.
    """
    if reference.kind != "symbol" or len(reference.places) != 1 or str(reference.places[0].path) not in defined:
        return
    name, place = bare_name(reference.text), reference.places[0]
    try:
        uses = code.symbols.list_uses(place.path, name, place.line, files_max=RESOLVED_FILES_MAX)
    except CallError:
        uses = None
    lines = {str(path): line for path, line in reversed(uses or ())}
    if "_" in name or name != reference.text or name[1:] != name[1:].lower():  # no text spells a word like that
        written = _find_word(name, code)
        lines = {path: line for path, line in written if uses is None or _content_of(path) != "code"} | lines
    for path, line in lines.items():
        if path != str(place.path):
            proof = PlanEvidence("reference", path, line, name)
            yield AffectedFile(path, relation_of(path, "reference"), 0.0, (proof,))


def _find_word(name: str, code: Workspace) -> Iterator[tuple[str, int]]:
    """Yield every file of ours that contains a name as a word, with its first line."""
    query = TextQuery((rf"\b{re.escape(name)}\b",), regex=True, case_sensitive=True)
    found = [file.path for file in code.text_search.scan(query).files]
    paths = [path for path in found if _role_of(path) not in _NOT_OURS]
    lines = code.text_search.lines(query, [TextPart(path, 0, 1) for path in paths], chars_max=200)
    for path in paths:
        yield path, lines[path][0].number if lines.get(path) else 0


def bare_name(name: str) -> str:
    """Return the last part of a qualified name, as it occurs in code.

    >>> bare_name("Cage.lock_gate()"), bare_name("std::vec"), bare_name("`gate`")
    ('lock_gate', 'vec', 'gate')
    """
    return dotted_name(name.strip("`").replace("->", ".")).rpartition(".")[2] or name


# -- what is likely ---------------------------------------------------------------------------------------------------


def _list_likely(found: GatheredFiles) -> Iterator[AffectedFile]:
    for file in found.files:
        path = str(file.path)
        proofs = [PlanEvidence("history", path)]
        if file.spots and not is_changelog(path):  # its old entries are no place to look at
            least = PLACE_SHARE * file.spots[0].relevance
            spots = [spot for spot in file.spots if spot.relevance >= least]
            proofs = [PlanEvidence("search", path, spot.span.first, spot.symbol) for spot in spots]
        yield AffectedFile(path, relation_of(path, "source"), file.relevance, tuple(proofs))


def _tests(main: Iterable[AffectedFile], code: Workspace) -> Iterator[AffectedFile]:
    """Yield the tests that are named after the main files."""
    for file in main:
        tests = [] if role_of(file.path, "code") == "test" else find_partners(file.path, code.symbols.files_named)
        for path in tests[:TESTS_MAX]:
            yield AffectedFile(path, "test", 0.0, (PlanEvidence("test", path, 0, file.path),))


def relation_of(path: str, otherwise: FileRelation = "source") -> FileRelation:
    """Return the relation that the path of a file implies; else the one it was found with."""
    role = _role_of(path)
    return role if role in ("test", "docs") else otherwise


def _role_of(path: str) -> Role:
    return role_of(path, _content_of(path))


def _content_of(path: str) -> str:
    return _CONTENTS.get(path.rpartition("/")[2].rpartition(".")[2].lower(), "code")


def is_changelog(path: str) -> bool:
    """Return whether a file lists changes, and changes with everything."""
    return path.rpartition("/")[2].partition(".")[0].lower() in _CHANGELOGS


def _merge_files(listed: Iterable[AffectedFile]) -> list[AffectedFile]:
    """Merge the findings of each file: its first relation, all its evidence; plain strings, so that it is encoded."""
    known: dict[str, AffectedFile] = {}
    for file in listed:
        proofs = [
            msgspec.structs.replace(proof, path=str(proof.path), symbol=str(proof.symbol)) for proof in file.evidence
        ]
        before = known.get(file.path, replace(file, path=str(file.path), evidence=()))
        evidence = tuple(dict.fromkeys((*before.evidence, *proofs)))
        known[file.path] = replace(before, score=max(before.score, file.score), evidence=evidence)
    return list(known.values())


# -- how likely: two logistic models, fitted on 216 tasks of 17 repositories (evals/planning) --------------------------

MUST_CHANCE = 0.35
"""A plan insists on files from this probability on: about half of those were changed (evals/planning)."""
BIAS = -6.04
SEARCH_PLACE, PREDICTED_SHARE, PREDICTED_PLACE = 1.57, 2.78, 1.02
TEST, DOCS, TEST_OF_MAIN, DATA = 0.77, 0.95, 2.21, 0.9
PATH_WORDS, TASK_WORDS, BEST_CHANCE = 1.16, 1.4, 2.24
"""The coefficients. Tests and documents begin lower in the search than they should: they have few words of code."""

READY_MIN = 0.7
"""Of 95 plans that reach it, 74 name a changed file in their first two steps; of 43 others, 37 (evals/planning)."""
NAMED_CHANCE = 0.82
"""Of 88 plans whose task names a symbol or path that was found, 79 named a changed file in their first two steps."""
WEAK_CHANCE = 0.5
"""The most for a task that the search probably does not answer: it is less than `READY_MIN`, so that no plan is called
ready under that warning."""
READY_BIAS, READY_CHANCE = -1.7, 4.27
CHANCES_MAX, CHANCE_MAX = 4, 0.9
"""Files of the first steps that count, and the most that one of them counts for."""


class _ProbabilityJudge:
    """Gives files the probability that a task changes them."""

    def __init__(self, task: str, found: GatheredFiles) -> None:
        self._words = significant_words(task)
        self._found = {str(file.path): (place, file) for place, file in enumerate(found.files)}
        self._chance = found.best.chance or WITHOUT_INDEX_CHANCE

    def judge(self, file: AffectedFile) -> AffectedFile:
        """Return a file with its probability as its score; what the task names keeps its own."""
        kinds = {proof.kind for proof in file.evidence}
        if not kinds.isdisjoint(SURE_KINDS):
            return file
        place, found = self._found.get(file.path, (-1, None))
        words = {word.lower() for word in split_words(file.path)}
        shared, role = len(words & self._words), _role_of(file.path)
        log_odds = BIAS + BEST_CHANCE * self._chance
        if found:
            log_odds += SEARCH_PLACE * _discount(found.search_place) + PREDICTED_PLACE * _discount(place)
            log_odds += PREDICTED_SHARE * found.relevance
        log_odds += TEST * (role == "test") + DATA * (_content_of(file.path) == "data")
        log_odds += DOCS * (role == "docs" and not is_changelog(file.path))  # that one changes with everything
        log_odds += TEST_OF_MAIN * ("test" in kinds)
        log_odds += PATH_WORDS * shared / max(1, len(words)) + TASK_WORDS * shared / max(1, len(self._words))
        return replace(file, score=round(_logistic(log_odds), 3))


def significant_words(text: str) -> set[str]:
    """Return the words of a text that may say something, in lower case."""
    lowered = {word.lower() for word in split_words(text)}
    return {word for word in lowered if word not in STOP_WORDS and len(word) > 2}


def _probable(files: Sequence[AffectedFile]) -> list[AffectedFile]:
    """Return the files that are probably changed, at least the most probable one."""
    ranked = sorted(files, key=lambda file: (-file.score, file.path))
    return [file for file in ranked if file.score >= MUST_CHANCE] or ranked[:1]


def estimate_readiness(chances: Iterable[float], *, is_named: bool = False, is_weak: bool = False) -> float:
    """Return the probability that the first steps name a file that the task changes, by the chances of their files.

    `is_named`: the task names a symbol or path that was found. `is_weak`: probably nothing here answers the task.

    >>> estimate_readiness([0.75]) > READY_MIN > estimate_readiness([0.4])
    True
    """
    best = sorted(chances, reverse=True)[:CHANCES_MAX]
    combined = 1 - prod((1 - min(chance, CHANCE_MAX) for chance in best), start=1.0)
    chance = _logistic(READY_BIAS + READY_CHANCE * combined)
    if is_named:
        return max(chance, NAMED_CHANCE)
    return min(chance, WEAK_CHANCE) if is_weak else chance


def _discount(place: int) -> float:
    return 1 / (1 + place) if place >= 0 else 0.0


def _logistic(log_odds: float) -> float:
    return 1 / (1 + exp(-log_odds))
