"""Find the files that a task changes, each with the evidence for it.

Files that the task names, and files that refer to them, are certain. Files that only search and history suggest are
likely and come after those.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
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
from context_engine.text import STOP_WORDS, split_words

if TYPE_CHECKING:
    from context_engine.context import ReferencePlace
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


TaskKind = Literal[
    "add", "fix", "refactor", "rename", "remove", "upgrade", "test", "docs", "perf", "security", "change"
]

_VERBS: Mapping[TaskKind, str] = {
    "rename": "rename",
    "remove": "remove delete drop strip revert",
    "upgrade": "upgrade bump migrate modernise modernize",
    "fix": "fix repair correct resolve prevent handle avoid stop guard bugfix hotfix",
    "refactor": "refactor simplify extract move split restructure clean cleanup reuse merge unify inline tidy replace",
    "add": "add allow support implement introduce create expose enable extend provide feat feature",
    "perf": "optimise optimize perf speed accelerate",
    "docs": "document docs doc explain",
    "test": "test tests cover",
    "security": "harden secure sanitise sanitize security",
}
"""The word that a task begins with, in its plain form; a commit's prefix (`fix(core):`) is one as well."""
_ABOUT_TESTS = re.compile(r"\b(?:unit |integration |regression )?(?:tests?|coverage)\b", re.IGNORECASE)
_SUBJECTS: tuple[tuple[TaskKind, re.Pattern[str]], ...] = (
    ("docs", re.compile(r"\b(?:docs?|documentation|readme|docstrings?|changelog|typos?)\b", re.IGNORECASE)),
    ("test", _ABOUT_TESTS),
    ("security", re.compile(r"\b(?:CVE-\d+|vulnerab\w+|injection|XSS|CSRF|traversal|exploit)\b", re.IGNORECASE)),
    ("perf", re.compile(r"\b(?:performance|faster|slow(?:er)?|speed|latency|memory usage)\b", re.IGNORECASE)),
)
"""If the verb fits anything, the subject of the task decides its kind."""
_FITS_ANYTHING = frozenset({"add", "fix", "refactor", "change", "upgrade", "remove"})
_TROUBLE = re.compile(
    r"\b(?:bug|crash(?:es|ing)?|fails?|failing|failure|broken|wrong|incorrect|regression|error when|raises? when)\b",
    re.IGNORECASE,
)
_NOUN = (
    r"(?:function|method|class|module|variable|constant|field|property|attribute|option|setting|flag|command|tool|type|struct"
    r"|interface|trait|enum|macro|parameter|argument|endpoint|route|column|table|file)"
)
_NAME = r"`?(?P<name>[A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)*)(?:\(\))?`?"
_NAME_PATTERNS = (
    re.compile(rf"(?<![\w.]){_NOUN} {_NAME}", re.IGNORECASE),
    re.compile(rf"(?:^|[\s(]){_NAME} {_NOUN}\b", re.IGNORECASE),
)
_RENAME = re.compile(
    rf"\brenam(?:e|es|ed|ing)\s+(?:the\s+)?(?:{_NOUN}\s+)?{_NAME}(?:\s+{_NOUN})?(?:\s+(?:to|into|as|->|=>)\s+`?(?P<new>[\w$.:#]+?)(?:\(\))?`?(?=[\s.,;]|$))?",
    re.IGNORECASE,
)
_REMOVE = re.compile(
    rf"\b(?:remove|delete|drop)\s+(?:the\s+)?(?:unused\s+|deprecated\s+|old\s+)*(?:{_NOUN}\s+)?{_NAME}\s*(?:$|[.,;](?=\s|$))",
    re.IGNORECASE,
)
_MEMBER = re.compile(r"(?<![\w./`@:-])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?![\w/`:(-])")
"""`typer.Argument`: a member, a module, the name of a site or of a product; it counts only where it is defined."""
_PLAIN = frozenset(
    "a an the to for of in on with from that this these those some all any new old same other default optional "
    "missing is are be unused deprecated everywhere again only also too every no name names its their our your "
    "first last each when where which it and or not no if by as at".split()
)
"""Words next to such a noun that are not names."""
_IS_NOUN = re.compile(_NOUN, re.IGNORECASE).fullmatch
_PREFIX = re.compile(r"^(?P<kind>[a-z]+)(?:\([^)]*\))?!?:\s*", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]+")


class TaskIntent(NamedTuple):
    """The kind of a task, the names in it that are plain words, and the new name of a rename."""

    kind: TaskKind
    names: tuple[str, ...] = ()
    new_name: str = ""


def parse_intent(task: str) -> TaskIntent:
    """Return what a task asks for. Nothing is looked up, so a name may not exist in this repository.

    >>> parse_intent("rename function foo to bar")
    TaskIntent(kind='rename', names=('foo',), new_name='bar')
    >>> parse_intent("fix(router): handle trailing slashes").kind, parse_intent("Add tests for the parser").kind
    ('fix', 'test')
    >>> parse_intent("Sorting").kind
    'change'
    """
    headline = task.strip().split("\n", 1)[0]
    renamed = _RENAME.search(headline)  # the body of a message says what else is renamed
    if renamed and renamed["name"].lower() not in _PLAIN:
        return TaskIntent("rename", (renamed["name"],), (renamed["new"] or "").rstrip("."))
    return TaskIntent(_parse_kind(task), tuple(dict.fromkeys(_find_plain_names(task))))


def find_mentions(task: str, task_intent: TaskIntent) -> list[Mention]:
    """Return all names in a task: those spelled or marked like code, plain words used as names, members with an owner.

    >>> task = "Give the parse function a timeout in src/io.py, as io.Reader has it"
    >>> [mention.text for mention in find_mentions(task, parse_intent(task))]
    ['src/io.py', 'parse', 'io.Reader']
    """
    found = parse_mentions(task)
    known = {mention.name for mention in found} | {task_intent.new_name}
    sure = task_intent.kind in ("rename", "remove")
    plain = [
        Mention(name, "symbol", name.replace("::", "."), certain=sure)
        for name in task_intent.names
        if name not in known
    ]
    known.update(mention.name for mention in plain)
    members = dict.fromkeys(match.group() for match in _MEMBER.finditer(task))
    dotted = [Mention(name, "symbol", name, certain=False) for name in members if name not in known]
    written = [mention for mention in found if not task_intent.new_name or mention.name != task_intent.new_name]
    return [*written, *plain, *dotted]


def strip_commit_prefix(task: str) -> str:
    """Return a task without the prefix of a commit message.

    >>> strip_commit_prefix("fix(core): keep the order"), strip_commit_prefix("Keep the order: it matters")
    ('keep the order', 'Keep the order: it matters')
    """
    prefix = _PREFIX.match(task)
    is_kind = prefix and (
        _kind_of_verb(prefix["kind"]) != "change" or prefix["kind"].lower() in ("chore", "style", "ci", "build")
    )
    if prefix and is_kind:
        return task[prefix.end() :]
    return task


def _parse_kind(task: str) -> TaskKind:
    """Return the kind by the first verb, unless the subject is more specific."""
    prefix = _PREFIX.match(task)
    first = _WORD.search(task if not prefix else prefix["kind"])
    kind = _kind_of_verb(first.group()) if first else "change"
    if prefix and kind == "change":
        rest = _WORD.search(task, prefix.end())
        kind = _kind_of_verb(rest.group()) if rest else "change"
    if kind in _FITS_ANYTHING:
        headline = task.strip().split("\n", 1)[0]
        subject_kind = next((subject for subject, pattern in _SUBJECTS if pattern.search(headline)), None)
        # In `feat(test): ...` the part of the product is called test; `add: tests for ...` is about tests.
        is_scope = bool(prefix) and kind == "add" and not _ABOUT_TESTS.search(strip_commit_prefix(headline))
        if subject_kind and not (subject_kind == "test" and (kind == "fix" or is_scope)):
            return subject_kind
    if kind == "change" and _TROUBLE.search(task):
        return "fix"
    return kind


def _kind_of_verb(word: str) -> TaskKind:
    """Return the kind of a verb in any of its forms.

    >>> _kind_of_verb("Fixes"), _kind_of_verb("adding"), _kind_of_verb("Removed"), _kind_of_verb("The")
    ('fix', 'add', 'remove', 'change')
    """
    forms = {word.lower(), *(word.lower().removesuffix(ending) for ending in ("s", "es", "d", "ed", "ing"))}
    forms |= {f"{form}e" for form in forms} | {form[:-1] for form in forms if form[-1:] == form[-2:-1]}
    return next((kind for kind, verbs in _VERBS.items() if forms & set(verbs.split())), "change")


def _find_plain_names(task: str) -> Iterator[str]:
    """Find names that only the word next to them marks as names."""
    for pattern in (*_NAME_PATTERNS, _REMOVE):
        for match in pattern.finditer(task):
            if (
                match["name"].lower() not in _PLAIN
                and not _IS_NOUN(match["name"])
                and _kind_of_verb(match["name"]) == "change"
            ):
                yield match["name"]


Imports = Mapping[str, Collection[str]]
"""The files that each file imports; files outside the given ones are ignored."""


class FileGroup(NamedTuple):
    """Files that are changed in one step. `needs` are the places, in the list, of the groups they import."""

    paths: tuple[str, ...]
    needs: tuple[int, ...]


def group_files(paths: Sequence[str], imports: Imports) -> list[FileGroup]:
    """Group files by folder; folders that import each other in a cycle are one group.

    Imported groups come before the groups that import them; otherwise the order of the paths decides.

    >>> groups = group_files(["web/app.py", "core/db.py", "core/sql.py"], {"web/app.py": {"core/db.py"}})
    >>> [(group.paths, group.needs) for group in groups]
    [(('core/db.py', 'core/sql.py'), ()), (('web/app.py',), (0,))]
    """
    folders = list(dict.fromkeys(folder_of(path) for path in paths))
    needs = {folder: _imported_folders(folder, paths, imports) for folder in folders}
    circles = _find_cycles(folders, needs)
    order = _sort_cycles(circles, needs)
    place = {folder: at for at, circle in enumerate(order) for folder in circle}
    return [
        FileGroup(
            tuple(path for path in paths if folder_of(path) in circle),
            tuple(sorted({place[other] for folder in circle for other in needs[folder]} - {at})),
        )
        for at, circle in enumerate(order)
    ]


def folder_of(path: str) -> str:
    """Return the folder of a path; empty at the top.

    >>> folder_of("a/b/c.py"), folder_of("c.py")
    ('a/b', '')
    """
    return path.rpartition("/")[0]


def _imported_folders(folder: str, paths: Sequence[str], imports: Imports) -> set[str]:
    """Return the other folders that the files of a folder import from."""
    here = set(paths)
    targets = (target for path in paths if folder_of(path) == folder for target in imports.get(path, ()))
    return {folder_of(target) for target in targets if target in here} - {folder}


def _find_cycles(folders: Sequence[str], needs: Mapping[str, set[str]]) -> list[tuple[str, ...]]:
    """Group folders that import each other in a cycle; every other folder is a group of its own.

    All pairs are tried, because plans have few folders.
    """
    reached = {folder: _reachable_folders(folder, needs) for folder in folders}
    circles: dict[str, tuple[str, ...]] = {}
    for folder in folders:
        if not any(folder in circle for circle in circles.values()):
            same = (
                other for other in folders if other == folder or (other in reached[folder] and folder in reached[other])
            )
            circles[folder] = tuple(same)
    return list(circles.values())


def _reachable_folders(start: str, needs: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    wave = {start}
    while wave:
        wave = {other for folder in wave for other in needs[folder]} - found
        found |= wave
    return found


def _sort_cycles(circles: Sequence[tuple[str, ...]], needs: Mapping[str, set[str]]) -> list[tuple[str, ...]]:
    """Sort cycles so that each comes after those it needs; otherwise by the order in which they were given."""
    of = {folder: at for at, circle in enumerate(circles) for folder in circle}
    needed = [{of[other] for folder in circle for other in needs[folder]} for circle in circles]
    sorter = TopologicalSorter({at: others - {at} for at, others in enumerate(needed)})
    sorter.prepare()
    order: list[int] = []
    ready: list[int] = []
    while sorter.is_active():
        ready = sorted([*ready, *sorter.get_ready()])
        order.append(ready.pop(0))
        sorter.done(order[-1])
    return [circles[at] for at in order]


FileRelation = Literal[
    "definition", "reference", "source", "registry", "partner", "config", "migration", "test", "docs"
]
"""The relation of a file to the task. Plans list files in this order, except for a test that has to fail first."""
SURE_KINDS = frozenset(("definition", "named", "reference", "registry", "mention"))
"""Evidence that says more than search and history do."""
SURE_PLACES = 3
"""A named definition was changed in 40 of 49 cases if the search has its file among so many first ones, else
in 2 of 14 (docs/decisions/0120)."""
PLACES_MAX, PLACE_SHARE = 2, 0.6
"""Places of a file that a step names, and the least share of the relevance of the best one."""
WITHOUT_INDEX_CHANCE = 0.35
"""The chance of the best hit where none is known: its mean over tasks (evals/planning)."""
RENAMING_KINDS = ("rename", "remove")
"""Every place that names the old thing has to change."""
CALLER_KINDS = ("refactor", "upgrade")
"""Callers may have to change with what they call."""
RESOLVED_FILES_MAX = 40
"""Files whose uses of a name are resolved, which takes some milliseconds each."""
CALLERS_MAX = 12
"""Files with callers; a plan that lists more of them is not useful."""
DOCUMENTED_KINDS = ("docs", "refactor", "upgrade")
"""Documents that speak of what is changed have to change too; for other tasks 2 in 23 did (evals/planning)."""
DOCS_MAX = 2
REGISTRIES_MAX = 2
TESTS_MAX = 2
"""Of one source file: the nearest by its folder, and one more."""
_REGISTRY = re.compile(
    r"(?:^|/)(?:__init__|index|mod|lib|routes?|router|urls|cli|commands|registry|catalogue|catalog|main|app|plugins)\.\w+$"
)
"""Files in which the parts of a package are listed."""
_MENTIONS_REGISTRY = re.compile(
    r"\b(?:expos\w+|export\w*|register\w*|public|commands?|routes?|endpoints?|plugins?|tools?|modules?)\b",
    re.IGNORECASE,
)
"""A task with these words needs a new entry in a registry."""
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
    """The affected files, best first. `curve` has the scores of the ranking as shares of the best score."""

    files: tuple[AffectedFile, ...]
    curve: tuple[float, ...]
    references: tuple[PromptReference, ...]
    freshness: str
    left_out: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    leader: str = ""  # the first file of the ranking
    best: BestHit = NO_HIT

    def of(self, *parts: FileRelation) -> list[AffectedFile]:
        """Return the files with these relations."""
        return [file for file in self.files if file.part in parts]

    def insists_on(self, file: AffectedFile) -> bool:
        """Return whether a file is probably changed, or more than its rank and its name suggests that it is."""
        is_certain = not SURE_KINDS.isdisjoint(proof.kind for proof in file.evidence)
        return is_certain or file.score >= find_bar(other.score for other in self.files)

    def main(self) -> list[AffectedFile]:
        """Return the files that the task is about: those it names, else those that it probably changes."""
        return self.of("definition") or _probable(self.of("source"))


def find_change_set(
    request: PlanRequest, wanted: TaskIntent, names: Sequence[Mention], known: Sequence[Command], sources: PlanSources
) -> ChangeSet:
    """Find the files that a task affects. Raises: as `Engine.search` does, but never for a missing index."""
    resolved = resolve_mentions(names, sources.code, known)
    found = _find_files(request, sources)
    first = {str(file.path) for file in found.files if 0 <= file.search_place < SURE_PLACES}
    references = tuple(_choose_references(resolved, wanted, {name.text for name in names if name.certain}, first))
    certain = [*_definitions(wanted, references, first), *_references(wanted, references, sources)]
    # A rename or removal with found references needs no guesses: the text search finds every place.
    is_exact = wanted.kind in RENAMING_KINDS and any(file.part != "definition" for file in certain)
    likely = [] if is_exact else list(_list_likely(found))
    judge = _ProbabilityJudge(request.task, found)
    main = [file for file in certain if file.part == "definition"] or _probable(
        [judge.judge(file) for file in likely if file.part == "source"]
    )
    related = [*_tests(main, sources), *_registries(request, wanted, main, sources), *_partners(main, sources)]
    merged = _merge_files([*certain, *likely, *related, *_docs(wanted, references, sources)])
    judged = [judge.judge(file) for file in merged]
    bar = find_bar(file.score for file in judged)
    judged = [_with_test_of_fix(file, main, wanted, bar) for file in judged]
    judged.sort(key=lambda file: (-file.score, file.path))
    files = _lead_with_first(judged, wanted)
    affected_paths = {file.path for file in files}
    left_out = tuple(path for path in found.next_files if path not in affected_paths)
    leader = str(found.files[0].path) if found.files else ""
    # A name of the task that was found answers it, however few of its other words occur.
    is_answered = found.best.is_weak and any(file.part == "definition" for file in certain)
    warnings = () if is_answered else found.warnings
    return ChangeSet(tuple(files), found.curve, references, found.freshness, left_out, warnings, leader, found.best)


def _choose_references(
    resolved: Iterable[PromptReference], wanted: TaskIntent, sure: Collection[str], first: Collection[str]
) -> Iterator[PromptReference]:
    """Yield the names of the task that certainly mean a place.

    `sure` are names that the task marks as code, `first` the files that the search finds first.
    """
    for reference in map(_drop_duplicates, resolved):
        if reference.kind not in ("path", "symbol", "error"):
            continue
        is_code = reference.text in sure or _is_spelled_like_code(reference.text)
        if is_code and wanted.kind not in RENAMING_KINDS:
            reference = _choose_by_search(reference, first)
        if reference.text in sure or (len(reference.places) == 1 and not reference.more):
            yield reference


def _drop_duplicates(reference: PromptReference) -> PromptReference:
    """Drop duplicate places: a symbol that a file defines several times, as overloads or under conditions, is one.

    The last place is kept: it is the one with a body.
    """
    last = {(place.path, place.symbol or place.line): place for place in reference.places}
    return replace(reference, places=tuple(last.values()))


# -- what the task names ----------------------------------------------------------------------------------------------


def _choose_by_search(reference: PromptReference, first: Collection[str]) -> PromptReference:
    """Return a name that several files define with the one place that is in the first files of the search."""
    chosen = [place for place in reference.places if str(place.path) in first]
    if reference.kind == "path" or not reference.is_ambiguous or len(chosen) != 1:
        return reference
    return replace(reference, places=tuple(chosen), more=0)


def _definitions(
    wanted: TaskIntent, references: Iterable[PromptReference], first: Collection[str]
) -> Iterator[AffectedFile]:
    """Yield the files that names and paths resolve to.

    Of an ambiguous name all are meant if each has to change, else none. A definition that is not in the first files of
    the search is another one with a common name, unless each use of the name has to change.
    """
    for reference in references:
        is_meant = not reference.is_ambiguous or (wanted.kind in RENAMING_KINDS and reference.kind == "symbol")
        for place in reference.places if is_meant else ():
            if reference.kind == "path" or reference.is_written:
                kind = "named"
            else:
                kind = "definition"
            is_first = wanted.kind in RENAMING_KINDS or not first or str(place.path) in first
            if kind == "definition" and not (is_first and _is_spelled_alike(wanted, reference, place)):
                continue
            proof = PlanEvidence(kind, place.path, place.line, place.symbol, 1.0)
            yield AffectedFile(place.path, _relation_of(place.path, "definition"), 1.0, (proof,))


def _is_spelled_alike(wanted: TaskIntent, reference: PromptReference, place: ReferencePlace) -> bool:
    """Whether a definition has the case of the name: GitHub is not a target `github` of a Makefile."""
    return wanted.kind in RENAMING_KINDS or bare_name(reference) == last_part(str(place.symbol))


def _references(
    wanted: TaskIntent, references: Iterable[PromptReference], sources: PlanSources
) -> Iterator[AffectedFile]:
    """Yield the users of the named symbols, for tasks that change them too."""
    symbols = [reference for reference in references if reference.kind == "symbol"]
    for this_symbol in symbols if wanted.kind in RENAMING_KINDS else ():
        yield from _find_uses(this_symbol, sources)
    for symbol in symbols if wanted.kind in CALLER_KINDS else ():
        if symbol.places:
            yield from _find_callers(symbol, sources)


def bare_name(reference: PromptReference) -> str:
    """Return the last part of what a reference names, as it occurs in code."""
    return last_part(reference.text)


def last_part(name: str) -> str:
    """Return the last part of a qualified name.

    >>> last_part("Cage.lock_gate()"), last_part("std::vec"), last_part("gate")
    ('lock_gate', 'vec', 'gate')
    """
    return re.split(r"::|[.#]|->", name.strip("`").removesuffix("()"))[-1] or name


def _find_uses(reference: PromptReference, sources: PlanSources) -> Iterator[AffectedFile]:
    """Yield the files that use a symbol, as far as its uses can be resolved; else those that contain its name.

    A common word counts only where it is resolved: `Error` is in hundreds of files that mean another one.
    """
    name, uses = bare_name(reference), None
    if not reference.is_ambiguous and reference.places:
        place = reference.places[0]
        try:
            uses = sources.code.symbols.list_uses(place.path, name, place.line, files_max=RESOLVED_FILES_MAX)
        except CallError:
            uses = None
        first: dict[str, int] = {}
        for path, line in uses or ():
            first.setdefault(str(path), line)
        for path, line in first.items():
            proof = PlanEvidence("reference", path, line, name, 1.0)
            yield AffectedFile(path, _relation_of(path, "reference"), 0.9, (proof,))
    written = _find_word(name, sources) if _is_spelled_like_code(reference.text) else ()
    yield from (file for file in written if uses is None or _content_of(file.path) != "code")


def _is_spelled_like_code(text: str) -> bool:
    """Whether no text would spell a word like that.

    >>> [_is_spelled_like_code(text) for text in ("`run`", "run_all", "runAll", "Cage.run", "Error", "hundreds")]
    [True, True, True, True, False, False]
    """
    return bool(re.search(r"[`_$.:#(]|[a-z0-9][A-Z]", text))


def _find_word(name: str, sources: PlanSources) -> Iterator[AffectedFile]:
    """Yield every file of ours that contains a name as a word, with its first line."""
    query = TextQuery((rf"\b{re.escape(name)}\b",), regex=True, case_sensitive=True)
    found = [file.path for file in sources.code.text_search.scan(query).files]
    paths = [path for path in found if role_of(path, _content_of(path)) not in _NOT_OURS]
    lines = sources.code.text_search.lines(query, [TextPart(path, 0, 1) for path in paths], chars_max=200)
    for path in paths:
        first = lines[path][0].number if lines.get(path) else 0
        proof = PlanEvidence("reference", path, first, name, 1.0)
        yield AffectedFile(path, _relation_of(path, "reference"), 0.9, (proof,))


def _find_callers(reference: PromptReference, sources: PlanSources) -> Iterator[AffectedFile]:
    """Yield the files with callers, if there are few enough for a plan."""
    try:
        traced = sources.code.symbols.trace(reference.places[0].symbol or bare_name(reference), "callers", limit=200)
    except CallError:
        return
    first = {edge.path: edge for edge in reversed(traced.edges)}
    own = {place.path for place in reference.places}
    calling = [edge for path, edge in sorted(first.items()) if path not in own]
    for edge in calling if len(calling) <= CALLERS_MAX else ():
        proof = PlanEvidence("reference", edge.path, edge.line, edge.source, 0.8)
        yield AffectedFile(edge.path, _relation_of(edge.path, "reference"), 0.5, (proof,))


# -- what is likely ---------------------------------------------------------------------------------------------------


def _find_files(request: PlanRequest, sources: PlanSources) -> GatheredFiles:
    """Return the likely files with the best place in each, in the order of the history if there is one."""
    wanted = GatherRequest(
        request.task, request.files_max, request.chosen, spots_per_file=PLACES_MAX, excluded_roles=_NOT_OURS
    )
    return gather_files(wanted, sources.code, sources.team.predict_changes)


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
        self._words = _task_words(task)
        self._found = {str(file.path): (place, file) for place, file in enumerate(found.files)}
        self._chance = found.best.chance or WITHOUT_INDEX_CHANCE

    def judge(self, file: AffectedFile) -> AffectedFile:
        """Return a file with its probability as its score; what the task names or refers to keeps its own."""
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


def _task_words(text: str) -> set[str]:
    lowered = {word.lower() for word in split_words(text)}
    return {word for word in lowered if word not in STOP_WORDS and len(word) > 2}


def _probable(files: Sequence[AffectedFile]) -> list[AffectedFile]:
    """Return the files that are probably changed, at least the most probable one."""
    ranked = sorted(files, key=lambda file: (-file.score, file.path))
    bar = find_bar(file.score for file in ranked)
    return [file for file in ranked if file.score >= bar] or ranked[:1]


def _with_test_of_fix(file: AffectedFile, main: Sequence[AffectedFile], wanted: TaskIntent, bar: float) -> AffectedFile:
    """Return the test that is named after the first main file as one that a fix changes: it fails before."""
    named_after = next((proof.symbol for proof in file.evidence if proof.kind == "test"), "")
    if wanted.kind == "fix" and main and named_after == main[0].path:
        return replace(file, score=max(file.score, bar))
    return file


def _lead_with_first(files: Sequence[AffectedFile], wanted: TaskIntent) -> list[AffectedFile]:
    """Return the files; the most probable one is what the task is about, be it configuration or a list of parts."""
    first = next(iter(files), None)
    if first and first.part in ("config", "registry", "partner") and wanted.kind not in ("docs", "test"):
        return [replace(first, part="source"), *files[1:]]
    return list(files)


# -- what belongs to it -----------------------------------------------------------------------------------------------


def _tests(main: Iterable[AffectedFile], sources: PlanSources) -> Iterator[AffectedFile]:
    """Yield the tests that are named after the main files."""
    for file in main:
        for path in find_tests(file.path, sources)[:TESTS_MAX]:
            yield AffectedFile(path, "test", file.score * 0.7, (PlanEvidence("test", path, 0, file.path, 1.0),))


def find_tests(path: str, sources: PlanSources) -> list[str]:
    """Return the tests that are named after a source file, nearest first."""
    if role_of(path, "code") == "test":
        return []
    return find_partners(path, sources.code.symbols.files_named)


def _registries(
    request: PlanRequest, wanted: TaskIntent, main: Sequence[AffectedFile], sources: PlanSources
) -> Iterator[AffectedFile]:
    """Yield the files here or above that list the parts of the package: a new part must be added there."""
    for file in main[:REGISTRIES_MAX] if wanted.kind == "add" and _MENTIONS_REGISTRY.search(request.task) else ():
        try:
            importing = [str(path) for path in sources.code.symbols.importers(file.path) if _REGISTRY.search(path)]
        except CallError:
            continue
        above = [path for path in importing if file.path.startswith(folder_of(path))]
        for path in sorted(above, key=lambda path: (-path.count("/"), path))[:REGISTRIES_MAX]:
            yield AffectedFile(path, "registry", file.score * 0.4, (PlanEvidence("registry", path, 0, file.path, 0.5),))


def _partners(main: Iterable[AffectedFile], sources: PlanSources) -> Iterator[AffectedFile]:
    """Yield files that were nearly always changed together with a main file."""
    for file in main if sources.past else ():
        for partner in sources.past.list_usual_cochanges(file.path) if sources.past else ():
            proof = PlanEvidence("co_change", partner.path, 0, file.path, round(partner.confidence, 3))
            yield AffectedFile(
                partner.path, _relation_of(partner.path, "partner"), file.score * partner.confidence * 0.6, (proof,)
            )


def _docs(wanted: TaskIntent, references: Iterable[PromptReference], sources: PlanSources) -> Iterator[AffectedFile]:
    """Yield documents that mention what the task names."""
    for reference in references if wanted.kind in DOCUMENTED_KINDS else ():
        if reference.kind != "symbol" or len(reference.places) != 1 or len(bare_name(reference)) < 4:
            continue
        query = TextQuery((rf"\b{re.escape(bare_name(reference))}\b",), regex=True, case_sensitive=True)
        found = sources.code.text_search.scan(replace(query, includes=("*.md", "*.rst", "*.adoc", "docs/**"))).files
        for file in sorted(found, key=lambda file: (-file.lines, file.path))[:DOCS_MAX]:
            if role_of(file.path, "documentation") == "docs":
                yield AffectedFile(
                    file.path, "docs", 0.3, (PlanEvidence("mention", file.path, 0, bare_name(reference), 0.3),)
                )


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
    if "." in path.rpartition("/")[2]:
        suffix = path.rpartition(".")[2].lower()
    else:
        suffix = ""
    if suffix in ("md", "rst", "adoc", "txt"):
        return "documentation"
    is_data = suffix in ("json", "yaml", "yml", "toml", "ini", "cfg", "conf", "xml", "properties", "env")
    if is_data:
        return "data"
    return "code"


def _merge_files(listed: Iterable[AffectedFile]) -> list[AffectedFile]:
    """Merge the findings of each file: its first relation, all its evidence; the surest first."""
    known: dict[str, AffectedFile] = {}
    for item in map(_with_plain_paths, listed):
        before = known.get(item.path)
        if before is None:
            known[item.path] = item
        else:
            proofs = tuple(dict.fromkeys((*before.evidence, *item.evidence)))
            known[item.path] = replace(before, score=max(before.score, item.score), evidence=proofs)
    return sorted(known.values(), key=lambda file: (-file.score, file.path))


def _with_plain_paths(file: AffectedFile) -> AffectedFile:
    """Return the file with plain strings as paths, so that a plan can be encoded."""
    proofs = tuple(
        msgspec.structs.replace(proof, path=str(proof.path), symbol=str(proof.symbol)) for proof in file.evidence
    )
    return replace(file, path=str(file.path), evidence=proofs)
