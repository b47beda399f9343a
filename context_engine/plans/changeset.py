"""Find the files that a task changes, each with its evidence and the probability that the task changes it.

A logistic model judges the files that search and history suggest, and the tests that are named after the main ones;
files that the task names are sure. Nothing reads what the task asks for: that is for the agent that carries it out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import exp
from typing import Literal

import msgspec

from context_engine.context import (
    GatheredFiles,
    GatherRequest,
    ProjectKnowledge,
    PromptReference,
    Workspace,
    find_partners,
    gather_files,
    resolve_names,
)
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


FileRelation = Literal["definition", "source", "test", "docs"]
"""The relation of a file to the task."""
SURE_PLACES = 3
"""A named definition was changed in 40 of 49 cases if the search has its file among so many first ones, else
in 2 of 14 (docs/decisions/plans.md)."""
PLACES_MAX, PLACE_SHARE = 2, 0.6
"""Places of a file that a step names, and the least share of the relevance of the best one."""
USES_MAX = 40
"""A plain word in more files means something else in most of them."""
TESTS_MAX = 2
"""Of one source file: the nearest by its folder, and one more."""
_CHANGELOGS = frozenset("changes changelog history news release releases release-notes release_notes".split())
_NOT_OURS: tuple[Role, ...] = ("generated", "vendor")
"""Roles of files that are not edited by hand."""
_DOCUMENT_SUFFIXES = (".md", ".rst", ".adoc", ".txt")


@dataclass(frozen=True, slots=True)
class AffectedFile:
    """A file that the task changes: what it is to the task, the probability of that, and why."""

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
    roles: frozenset[str] = frozenset()  # those that the task asks for by name: test, docs
    has_failure: bool = False  # the task has a stack trace

    def of(self, *parts: FileRelation) -> list[AffectedFile]:
        """Return the files with these relations."""
        return [file for file in self.files if file.part in parts]

    def insists_on(self, file: AffectedFile) -> bool:
        """Return whether a file is probably changed, or is the most probable test and not improbable."""
        return file.score >= MUST_CHANCE or (file.score >= TEST_CHANCE and self.of("test")[:1] == [file])


def find_change_set(request: PlanRequest, sources: PlanSources) -> ChangeSet:
    """Find the files that a task affects. Raises: as `Engine.search` does, but never for a missing index."""
    wanted = GatherRequest(
        request.task, request.files_max, request.chosen, spots_per_file=PLACES_MAX, excluded_roles=_NOT_OURS
    )
    found = gather_files(wanted, sources.code, sources.team.predict_changes)
    first = {str(file.path) for file in found.files if 0 <= file.search_place < SURE_PLACES}
    references = tuple(_find_references(request.task, sources.code, first))
    definitions = list(_definitions(references, first))
    judge = _ProbabilityJudge(request.task, found)
    likely = [judge.judge(file) for file in _list_likely(found)]
    main = definitions or _probable([file for file in likely if file.part == "source"])
    tests = [judge.judge(test, source.score) for source in main for test in _list_tests(source.path, sources.code)]
    defined = {file.path for file in definitions}
    uses = [judge.judge(use) for reference in references for use in _find_uses(reference, defined, sources.code)]
    files = sorted(_merge_files([*definitions, *likely, *tests, *uses]), key=lambda file: (-file.score, file.path))
    affected_paths, question = {file.path for file in files}, Question.of(request.task)
    # A name of the task that was found answers it, however few of its other words occur.
    is_answered = found.is_weak and bool(definitions)
    return ChangeSet(
        tuple(files),
        references,
        found.freshness,
        tuple(path for path in found.next_files if path not in affected_paths),
        () if is_answered else found.warnings,
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
                yield AffectedFile(place.path, relation_of(place.path, "definition"), NAMED_CHANCE, (proof,))


def _find_uses(reference: PromptReference, defined: Collection[str], code: Workspace) -> Iterator[AffectedFile]:
    """Yield the files of ours that contain the name of a defined symbol; if it may be a plain word, unless many do."""
    if reference.kind != "symbol" or len(reference.places) != 1 or str(reference.places[0].path) not in defined:
        return
    name = bare_name(reference.text)
    query = TextQuery((rf"\b{re.escape(name)}\b",), regex=True, case_sensitive=True)
    found = [file.path for file in code.text_search.scan(query).files]
    paths = [path for path in found if _role_of(path) not in _NOT_OURS and path != str(reference.places[0].path)]
    is_plain = name == reference.text and name.isalpha() and name[1:].islower()
    if len(paths) <= USES_MAX or not is_plain:
        lines = code.text_search.lines(query, [TextPart(path, 0, 1) for path in paths], chars_max=200)
        for path in paths:
            proof = PlanEvidence("reference", path, lines[path][0].number if lines.get(path) else 0, name)
            yield AffectedFile(path, relation_of(path), 0.0, (proof,))


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
        yield AffectedFile(path, relation_of(path), 0.0, tuple(proofs))


def _list_tests(source: str, code: Workspace) -> Iterator[AffectedFile]:
    """Yield the tests that are named after a source file."""
    tests = [] if role_of(source, "code") == "test" else find_partners(source, code.symbols.files_named)
    for path in tests[:TESTS_MAX]:
        yield AffectedFile(path, "test", 0.0, (PlanEvidence("test", path, 0, source),))


def relation_of(path: str, otherwise: FileRelation = "source") -> FileRelation:
    """Return the relation that the path of a file implies; else the one it was found with."""
    role = _role_of(path)
    return role if role in ("test", "docs") else otherwise


def _role_of(path: str) -> Role:
    return role_of(path, "documentation" if path.lower().endswith(_DOCUMENT_SUFFIXES) else "code")


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


# -- how likely (evals/planning) ---------------------------------------------------------------------------------------

MUST_CHANCE = 0.4
"""A plan insists on files from this probability on."""
TEST_CHANCE = 0.15
"""And on its most probable test from this one on: which test it is can be known better than whether there is any."""
READY_MIN = 0.65
"""The least probability of a file in the first steps of a plan that asks nothing."""
NAMED_CHANCE = 0.9
"""Of 54 files whose path or symbol the task named, 49 were changed."""
WEAK_CHANCE = 0.5
"""The most for a file that the task does not name, if the search probably has no answer: that plan is not ready."""
BIAS, MARGIN, NAMED_AFTER, PATH_WORDS = -0.8, 3.8, 3.3, 2.1


class _ProbabilityJudge:
    """Gives files the probability that a task changes them, by a logistic model of three facts."""

    def __init__(self, task: str, found: GatheredFiles) -> None:
        self._words = significant_words(task)
        self._shares = {str(file.path): file.relevance for file in found.files}
        self._most = WEAK_CHANCE if found.is_weak else 1.0

    def judge(self, file: AffectedFile, source: float = 0.0) -> AffectedFile:
        """Return a file with its probability as its score; `source` is that of the file that it is named after.

        The facts are how far its share of the best score is above that of every other file, `source`, and the share of
        the words of its path that are in the task.
        """
        others = (share for path, share in self._shares.items() if path != file.path)
        margin = self._shares.get(file.path, 0.0) - max(others, default=0.0)
        words = {word.lower() for word in split_words(file.path)}
        named = len(words & self._words) / max(1, len(words))
        log_odds = BIAS + MARGIN * margin + NAMED_AFTER * source + PATH_WORDS * named
        return replace(file, score=round(min(1 / (1 + exp(-log_odds)), self._most), 3))


def significant_words(text: str) -> set[str]:
    """Return the words of a text that may say something, in lower case."""
    lowered = {word.lower() for word in split_words(text)}
    return {word for word in lowered if word not in STOP_WORDS and len(word) > 2}


def _probable(files: Sequence[AffectedFile]) -> list[AffectedFile]:
    """Return the files that are probably changed, at least the most probable one."""
    ranked = sorted(files, key=lambda file: (-file.score, file.path))
    return [file for file in ranked if file.score >= MUST_CHANCE] or ranked[:1]
