"""Find the files that a task changes, each with the evidence for it.

Files that the task names are certain. Files that use what it names, and files that search and history suggest, have the
probability that the task changes them. Nothing reads what the task asks for: that is for the agent that carries it out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from context_engine.context import (
    NO_HIT,
    BestHit,
    Command,
    GatheredFiles,
    GatherRequest,
    Mention,
    ProjectKnowledge,
    PromptReference,
    Workspace,
    find_partners,
    gather_files,
    parse_mentions,
    resolve_mentions,
)
from context_engine.errors import CallError
from context_engine.index import Role, role_of
from context_engine.model import Filter, TextPart, TextQuery
from context_engine.plans.change_probability import FileFacts, estimate_change, find_bar
from context_engine.plans.model import PlanEvidence
from context_engine.search import Question
from context_engine.text import STOP_WORDS, split_words

if TYPE_CHECKING:
    from context_engine.history import FileHistory


@dataclass(frozen=True, slots=True)
class PlanSources:
    """All of it; a part that is missing makes a plan poorer, never impossible."""

    code: Workspace
    team: ProjectKnowledge
    past: FileHistory | None = None


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


FileRelation = Literal["definition", "reference", "source", "partner", "config", "migration", "test", "docs"]
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
_MEMBER = re.compile(r"(?<![\w./`@:-])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?![\w/`:(-])")
"""`typer.Argument`: a member, a module, the name of a site or of a product; it counts only where it is defined."""
_CHANGELOG = re.compile(
    r"(?:^|/)(?:changes|changelog|history|news|releases?|release[-_]notes)(?:\.\w+)?$", re.IGNORECASE
)
_MIGRATION = re.compile(r"(?:^|/)(?:migrations?|db/migrate|alembic/versions)/", re.IGNORECASE)
_NOT_OURS: tuple[Role, ...] = ("generated", "vendor")
"""Roles of files that are not edited by hand."""


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
    leader: str = ""  # the first file of the ranking
    best: BestHit = NO_HIT
    roles: frozenset[str] = frozenset()  # those that the task asks for by name: test, docs

    def of(self, *parts: FileRelation) -> list[AffectedFile]:
        """Return the files with these relations."""
        return [file for file in self.files if file.part in parts]

    def insists_on(self, file: AffectedFile) -> bool:
        """Return whether a file is probably changed, or the task names it."""
        is_named = not SURE_KINDS.isdisjoint(proof.kind for proof in file.evidence)
        return is_named or file.score >= find_bar(other.score for other in self.files)

    def main(self) -> list[AffectedFile]:
        """Return the files that the task is about: those it names, else those that it probably changes."""
        return self.of("definition") or _probable(self.of("source"))


def find_change_set(request: PlanRequest, known: Sequence[Command], sources: PlanSources) -> ChangeSet:
    """Find the files that a task affects. Raises: as `Engine.search` does, but never for a missing index."""
    names = find_mentions(request.task)
    wanted = GatherRequest(
        request.task, request.files_max, request.chosen, spots_per_file=PLACES_MAX, excluded_roles=_NOT_OURS
    )
    found = gather_files(wanted, sources.code, sources.team.predict_changes)
    first = {str(file.path) for file in found.files if 0 <= file.search_place < SURE_PLACES}
    certain = {name.text for name in names if name.certain}
    references = tuple(_choose_references(resolve_mentions(names, sources.code, known), certain, first))
    definitions = list(_definitions(references, first))
    likely = list(_list_likely(found))
    judge = _ProbabilityJudge(request.task, found)
    main = definitions or _probable([judge.judge(file) for file in likely if file.part == "source"])
    defined = {file.path for file in definitions}
    uses = [use for reference in references for use in _find_uses(reference, defined, sources)]
    related = [*_tests(main, sources), *_partners(main, sources)]
    judged = [judge.judge(file) for file in _merge_files([*definitions, *uses, *likely, *related])]
    bar = find_bar(file.score for file in judged)
    judged = [_with_paired_test(file, main[:1], bar) for file in judged]
    judged.sort(key=lambda file: (-file.score, file.path))
    # The most probable file is what the task is about, be it configuration or a partner.
    if judged and judged[0].part in ("config", "partner"):
        judged[0] = replace(judged[0], part="source")
    affected_paths = {file.path for file in judged}
    # A name of the task that was found answers it, however few of its other words occur.
    is_answered = found.best.is_weak and bool(definitions)
    return ChangeSet(
        tuple(judged),
        references,
        found.freshness,
        tuple(path for path in found.next_files if path not in affected_paths),
        () if is_answered else found.warnings,
        str(found.files[0].path) if found.files else "",
        found.best,
        Question.of(request.task).lifted,
    )


# -- what the task names ----------------------------------------------------------------------------------------------


def find_mentions(task: str) -> list[Mention]:
    """Return all names in a task: those spelled or marked like code, and members with an owner.

    >>> [mention.text for mention in find_mentions("Give `parse` in src/io.py a timeout, as io.Reader has it")]
    ['parse', 'src/io.py', 'io.Reader']
    """
    found = parse_mentions(task)
    known = {mention.name for mention in found}
    members = dict.fromkeys(match.group() for match in _MEMBER.finditer(task))
    return [*found, *(Mention(name, "symbol", name, certain=False) for name in members if name not in known)]


def _choose_references(
    resolved: Iterable[PromptReference], sure: Collection[str], first: Collection[str]
) -> Iterator[PromptReference]:
    """Yield the names of the task that certainly mean a place.

    `sure` are names that the task marks as code, `first` the files that the search finds first.
    """
    for reference in map(_drop_duplicates, resolved):
        if reference.kind not in ("path", "symbol", "error"):
            continue
        if reference.text in sure or _is_spelled_like_code(reference.text):
            reference = _choose_by_search(reference, first)
        if reference.text in sure or (len(reference.places) == 1 and not reference.more):
            yield reference


def _drop_duplicates(reference: PromptReference) -> PromptReference:
    """Drop duplicate places: a symbol that a file defines several times, as overloads or under conditions, is one.

    The last place is kept: it is the one with a body.
    """
    last = {(place.path, place.symbol or place.line): place for place in reference.places}
    return replace(reference, places=tuple(last.values()))


def _choose_by_search(reference: PromptReference, first: Collection[str]) -> PromptReference:
    """Return a name that several files define with the one place that is in the first files of the search."""
    chosen = [place for place in reference.places if str(place.path) in first]
    if reference.kind == "path" or not reference.is_ambiguous or len(chosen) != 1:
        return reference
    return replace(reference, places=tuple(chosen), more=0)


def _definitions(references: Iterable[PromptReference], first: Collection[str]) -> Iterator[AffectedFile]:
    """Yield the files that names and paths resolve to, unless a name has several meanings.

    A definition that is not in the first files of the search is another one with a common name. It also has the case
    of the name: GitHub is not a target `github` of a Makefile.
    """
    for reference in references:
        is_place = reference.kind == "path" or reference.is_written
        for place in () if reference.is_ambiguous else reference.places:
            is_first = not first or str(place.path) in first
            is_alike = bare_name(reference) == last_part(str(place.symbol))
            if is_place or (is_first and is_alike):
                kind = "named" if is_place else "definition"
                proof = PlanEvidence(kind, place.path, place.line, place.symbol, 1.0)
                yield AffectedFile(place.path, _relation_of(place.path, "definition"), 1.0, (proof,))


def _find_uses(reference: PromptReference, defined: Collection[str], sources: PlanSources) -> Iterator[AffectedFile]:
    """Yield the files that use a defined symbol, as far as its uses can be resolved; else those that contain its name.

    A common word counts only where it is resolved: `Error` is in hundreds of files that mean another one.
    """
    if reference.kind != "symbol" or len(reference.places) != 1 or str(reference.places[0].path) not in defined:
        return
    name, place = bare_name(reference), reference.places[0]
    try:
        uses = sources.code.symbols.list_uses(place.path, name, place.line, files_max=RESOLVED_FILES_MAX)
    except CallError:
        uses = None
    first = {str(path): line for path, line in reversed(uses or ())}
    found = [_use_in(path, line, name) for path, line in first.items()]
    written = _find_word(name, sources) if _is_spelled_like_code(reference.text) else ()
    found += [file for file in written if uses is None or _content_of(file.path) != "code"]
    yield from (file for file in found if file.path != str(place.path))


def _find_word(name: str, sources: PlanSources) -> Iterator[AffectedFile]:
    """Yield every file of ours that contains a name as a word, with its first line."""
    query = TextQuery((rf"\b{re.escape(name)}\b",), regex=True, case_sensitive=True)
    found = [file.path for file in sources.code.text_search.scan(query).files]
    paths = [path for path in found if role_of(path, _content_of(path)) not in _NOT_OURS]
    lines = sources.code.text_search.lines(query, [TextPart(path, 0, 1) for path in paths], chars_max=200)
    for path in paths:
        yield _use_in(path, lines[path][0].number if lines.get(path) else 0, name)


def _use_in(path: str, line: int, name: str) -> AffectedFile:
    return AffectedFile(path, _relation_of(path, "reference"), 0.0, (PlanEvidence("reference", path, line, name, 1.0),))


def bare_name(reference: PromptReference) -> str:
    """Return the last part of what a reference names, as it occurs in code."""
    return last_part(reference.text)


def last_part(name: str) -> str:
    """Return the last part of a qualified name.

    >>> last_part("Cage.lock_gate()"), last_part("std::vec"), last_part("gate")
    ('lock_gate', 'vec', 'gate')
    """
    return re.split(r"::|[.#]|->", name.strip("`").removesuffix("()"))[-1] or name


def _is_spelled_like_code(text: str) -> bool:
    """Whether no text would spell a word like that.

    >>> [_is_spelled_like_code(text) for text in ("`run`", "run_all", "runAll", "Cage.run", "Error", "hundreds")]
    [True, True, True, True, False, False]
    """
    return bool(re.search(r"[`_$.:#(]|[a-z0-9][A-Z]", text))


# -- what is likely ---------------------------------------------------------------------------------------------------


def _list_likely(found: GatheredFiles) -> Iterator[AffectedFile]:
    for file in found.files:
        path = str(file.path)
        proofs = [PlanEvidence("history", path, 0, "", file.relevance)]
        if file.spots and not _CHANGELOG.search(path):  # its old entries are no place to look at
            best = file.spots[0].relevance
            spots = [spot for spot in file.spots if spot.relevance >= PLACE_SHARE * best]
            proofs = [PlanEvidence("search", path, spot.span.first, spot.symbol, file.relevance) for spot in spots]
        yield AffectedFile(path, _relation_of(path, "source"), file.relevance, tuple(proofs))


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
        shared = len(words & self._words)
        content = _content_of(file.path)
        facts = FileFacts(
            search_place=found.search_place if found else -1,
            predicted_place=place,
            predicted_share=found.relevance if found else 0.0,
            best_chance=self._chance,
            is_test=role_of(file.path, content) == "test",
            is_docs=role_of(file.path, content) == "docs" and not _CHANGELOG.search(file.path),
            is_data=content == "data",
            is_test_of_main="test" in kinds,
            path_words=shared / max(1, len(words)),
            task_words=shared / max(1, len(self._words)),
        )
        return replace(file, score=round(estimate_change(facts), 3))


def significant_words(text: str) -> set[str]:
    """Return the words of a text that may say something, in lower case."""
    lowered = {word.lower() for word in split_words(text)}
    return {word for word in lowered if word not in STOP_WORDS and len(word) > 2}


def _probable(files: Sequence[AffectedFile]) -> list[AffectedFile]:
    """Return the files that are probably changed, at least the most probable one."""
    ranked = sorted(files, key=lambda file: (-file.score, file.path))
    bar = find_bar(file.score for file in ranked)
    return [file for file in ranked if file.score >= bar] or ranked[:1]


# -- what belongs to it -----------------------------------------------------------------------------------------------


def _tests(main: Iterable[AffectedFile], sources: PlanSources) -> Iterator[AffectedFile]:
    """Yield the tests that are named after the main files."""
    for file in main:
        for path in find_tests(file.path, sources)[:TESTS_MAX]:
            yield AffectedFile(path, "test", file.score * 0.7, (PlanEvidence("test", path, 0, file.path, 1.0),))


def _with_paired_test(file: AffectedFile, first: Sequence[AffectedFile], bar: float) -> AffectedFile:
    """Return the test that is named after the first main file as one that a plan insists on."""
    named_after = {proof.symbol for proof in file.evidence if proof.kind == "test"}
    if any(main.path in named_after for main in first):
        return replace(file, score=max(file.score, bar))
    return file


def find_tests(path: str, sources: PlanSources) -> list[str]:
    """Return the tests that are named after a source file, nearest first."""
    return [] if role_of(path, "code") == "test" else find_partners(path, sources.code.symbols.files_named)


def _partners(main: Iterable[AffectedFile], sources: PlanSources) -> Iterator[AffectedFile]:
    """Yield files that were nearly always changed together with a main file."""
    for file in main if sources.past else ():
        for partner in sources.past.list_usual_cochanges(file.path) if sources.past else ():
            proof = PlanEvidence("co_change", partner.path, 0, file.path, round(partner.confidence, 3))
            score = file.score * partner.confidence * 0.6
            yield AffectedFile(partner.path, _relation_of(partner.path, "partner"), score, (proof,))


# -- together ---------------------------------------------------------------------------------------------------------


def _relation_of(path: str, otherwise: FileRelation) -> FileRelation:
    """Return the relation that the path of a file implies; else the one it was found with."""
    if _MIGRATION.search(path):
        return "migration"
    role = role_of(path, _content_of(path))
    if role in ("test", "docs"):
        return role
    if role == "data" and otherwise != "definition":
        return "config"
    return otherwise


def _content_of(path: str) -> str:
    """Return by the suffix whether a file contains code, data or documentation."""
    name = path.rpartition("/")[2]
    suffix = name.rpartition(".")[2].lower() if "." in name else ""
    if suffix in ("md", "rst", "adoc", "txt"):
        return "documentation"
    if suffix in ("json", "yaml", "yml", "toml", "ini", "cfg", "conf", "xml", "properties", "env"):
        return "data"
    return "code"


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


# -- groups ------------------------------------------------------------------------------------------------------------

Imports = Mapping[str, Collection[str]]
"""The files that each file imports; files outside the given ones are ignored."""


class FileGroup(NamedTuple):
    """Files that are changed in one step. `needs` are the places, in the list, of the groups they import."""

    paths: tuple[str, ...]
    needs: tuple[int, ...]


def group_files(paths: Sequence[str], imports: Imports) -> list[FileGroup]:
    """Group files by folder; imported groups come first, and of a cycle the one that is named first comes last.

    >>> groups = group_files(["web/app.py", "core/db.py", "core/sql.py"], {"web/app.py": {"core/db.py"}})
    >>> [(group.paths, group.needs) for group in groups]
    [(('core/db.py', 'core/sql.py'), ()), (('web/app.py',), (0,))]
    """
    members: dict[str, list[str]] = {}
    for path in paths:
        members.setdefault(folder_of(path), []).append(path)
    groups: dict[str, FileGroup] = {}
    pending: set[str] = set()

    def add(folder: str) -> None:
        pending.add(folder)
        targets = {str(target) for path in members[folder] for target in imports.get(path, ())}
        needs = [other for other in members if other != folder and not targets.isdisjoint(members[other])]
        for other in needs:
            if other not in pending:
                add(other)
        place = {name: at for at, name in enumerate(groups)}
        waits = tuple(sorted(place[other] for other in needs if other in place))
        groups[folder] = FileGroup(tuple(members[folder]), waits)

    for folder in members:
        if folder not in pending:
            add(folder)
    return list(groups.values())


def folder_of(path: str) -> str:
    """Return the folder of a path; empty at the top.

    >>> folder_of("a/b/c.py"), folder_of("c.py")
    ('a/b', '')
    """
    return path.rpartition("/")[0]
