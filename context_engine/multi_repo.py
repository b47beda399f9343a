"""Search several repositories as one: a `MultiRepo` answers as an Engine does, with one ranking for all of them.

A path begins with the name of its repository, `api:src/auth.py`; one without a name means that path in each of them. It
has the services that answer questions and none that writes. The Engines belong to the caller, who opens and closes
them. What a method raises, and options without a description, are those of the service that it represents.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from context_engine.context import ProjectKnowledge, RememberedItem, Workspace
from context_engine.engine import Engine
from context_engine.errors import (
    CallError,
    FileNotFound,
    InvalidArgument,
    InvalidPath,
    NextStep,
    NotIndexed,
    SymbolNotFound,
)
from context_engine.index import REPOSITORY_SEPARATOR, IndexService, UnionSnapshot
from context_engine.memory import KnowledgeQuery, KnowledgeResults
from context_engine.model import (
    Answer,
    Definition,
    Direction,
    Edge,
    FileOutline,
    FileText,
    Found,
    Query,
    RelPath,
    Scan,
    TextFile,
    TextLine,
    TextPart,
    TextQuery,
    Trace,
)
from context_engine.references import Neighbor, SymbolService
from context_engine.repo import WorkspaceFile, WorkspaceFiles, path_of_listing
from context_engine.search import HURRY_WAIT_S, Searcher, SearchService, SearchState, TextScanner
from context_engine.text import LineSpan, dotted_name

Outcome = TypeVar("Outcome")
Located = TypeVar("Located", FileText, FileOutline, Definition, Edge, TextFile)


class MultiRepo(Workspace):
    """Open Engines by name, in the order that breaks ties. Thread-safe."""

    def __init__(self, engines: Mapping[str, Engine], absent: Mapping[str, str] | None = None) -> None:
        """Use at least one Engine. `absent` are others that are unavailable, and why: each answer reports them."""
        self.engines, self.absent = dict(engines), dict(absent or {})
        self.settings = next(iter(self.engines.values())).settings
        self.index = MultiRepoIndex(self)
        self.search = MultiRepoSearch(self)
        self.text_search = MultiRepoTextSearch(self)
        self.symbols = MultiRepoSymbols(self)
        self.files = MultiRepoFiles(self)
        self.memory = MultiRepoMemory(self)

    def named_by(self, path: str) -> tuple[str, Engine, str]:
        """Return the repository that a path names, and the rest of the path. Raises: InvalidPath."""
        name, rest = split_path(path)
        if name not in self.engines:
            raise InvalidPath(
                f"{path[:200]!r} does not say which repository",
                suggestion=f"write {next(iter(self.engines))}:{path[:200]}",
            )
        return name, self.engines[name], rest

    def ask_all(self, ask: Callable[[Engine], Outcome]) -> dict[str, Outcome]:
        """Return the answer of each repository, by name."""
        return {name: ask(engine) for name, engine in self.engines.items()}

    def ask_owners(self, path: str | None, ask: Callable[[Engine, str | None], Outcome]) -> dict[str, Outcome]:
        """Return the answer of each repository that has what is asked for, by name: one that is named, else all.

        Raises: what all of them raise.
        """
        name, rest = split_path(path or "")
        if name in self.engines:
            return {name: ask(self.engines[name], rest or None)}
        answers: dict[str, Outcome] = {}
        refusals: list[CallError] = []
        for repository, engine in self.engines.items():
            try:
                answers[repository] = ask(engine, path)
            except (FileNotFound, NotIndexed, SymbolNotFound) as error:  # another one may have it
                refusals.append(error)
        if not answers:
            raise refusals[0]
        return answers

    def join_freshness(self, by_name: Mapping[str, str]) -> str:
        """Return how fresh the answers of the repositories are, and which of them are unavailable."""
        return format_freshness({**by_name, **self.absent})


class MultiRepoService:
    """A service of all of them, in place of that of one."""

    def __init__(self, repositories: MultiRepo) -> None:
        self._repositories = repositories


class MultiRepoIndex(MultiRepoService, IndexService):
    """The indexes of all of them."""

    def indexed_at(self) -> str:
        """Return when the repository indexed longest ago was last indexed as a whole; empty when one never was."""
        return min(self._repositories.ask_all(lambda engine: engine.index.indexed_at()).values())


class MultiRepoSearch(MultiRepoService, SearchService):
    """One ranking over all of them."""

    def __init__(self, repositories: MultiRepo) -> None:
        super().__init__(repositories)
        self._lock = threading.Lock()
        self._joint: Searcher | None = None
        self._usage: tuple[dict[str, Mapping[str, float]], dict[str, float]] = ({}, {})

    def find(self, query: Query) -> Answer:
        """Find the places worth reading in any of them. Raises: NotIndexed when none has an index, InvalidArgument."""
        if not query.text.strip():
            raise InvalidArgument("query is empty", suggestion="say what to find, in words or code")
        self.hurry(query.text)
        present: dict[str, SearchState] = {}
        freshness: dict[str, str] = {}
        for name, engine in self._repositories.engines.items():
            state = engine.search.state()
            if state:
                present[name], freshness[name] = state, state.freshness
            else:
                freshness[name] = (
                    engine.index.live.describe_freshness() if engine.index.live.is_building else "no index"
                )
        joined = self._repositories.join_freshness(freshness)
        if not present:
            if not any(self._repositories.ask_all(lambda engine: engine.index.live.is_building).values()):
                raise NotIndexed(
                    "none of these repositories has an index yet",
                    next_steps=NextStep("index_workspace", "for each of them; it takes seconds"),
                )
            return Answer((), "lexical", joined, 0, "the indexes are being built: ask again in a moment", ())

        def load(path: str) -> WorkspaceFile | None:
            name, rest = split_path(path)
            return present[name].read(rest)

        trouble = "; ".join(f"{name}: {state.trouble}" for name, state in present.items() if state.trouble)
        answer = SearchState(self._join_searchers(present), load, joined, trouble).answer(query)
        return replace(answer, hits=tuple(replace(hit, project=split_path(hit.chunk.path)[0]) for hit in answer.hits))

    def hurry(self, text: str, wait_s: float = HURRY_WAIT_S) -> bool:
        """Do the same in each of them whose index is built; together they take no longer."""
        until = time.monotonic() + wait_s
        are_ready = self._repositories.ask_all(
            lambda engine: engine.search.hurry(text, max(0.0, until - time.monotonic()))
        )
        return all(are_ready.values())

    def complete_path(self, typed: str, *, limit: int = 100, folders: bool = False) -> tuple[tuple[str, ...], int]:
        """Complete a path to the files of any of them."""
        found = self._repositories.ask_all(
            lambda engine: engine.search.complete_path(typed, limit=limit, folders=folders)
        )
        paths = [join_path(name, path) for name, (some, _) in found.items() for path in some]
        return tuple(paths[:limit]), sum(total for _, total in found.values())

    def _join_searchers(self, present: Mapping[str, SearchState]) -> Searcher:
        """Return the searcher over all that is indexed, kept until one of them has something new."""
        snapshots = {name: state.searcher.snapshot for name, state in present.items()}
        with self._lock:
            known = self._joint.snapshot if self._joint else None
            if self._joint is None or not isinstance(known, UnionSnapshot) or not _are_same(known.parts, snapshots):
                meaning = next(iter(present.values())).searcher.meaning
                self._joint = Searcher(UnionSnapshot(snapshots), meaning, self.usage)
            return self._joint

    def usage(self) -> Mapping[str, float]:
        """Return how much each file is used, 0 to 1; the same object until that changes."""
        parts = self._repositories.ask_all(lambda engine: engine.usage.ranking_scores())
        with self._lock:
            known, joined = self._usage
            if not _are_same(known, parts):
                joined = {join_path(name, path): share for name, part in parts.items() for path, share in part.items()}
                self._usage = parts, joined
            return joined


class MultiRepoTextSearch(MultiRepoService, TextScanner):
    """Exact text in all of them."""

    def scan(self, query: TextQuery, **options: Any) -> Scan:
        """Find which files of any of them have matching lines."""
        scans = self._repositories.ask_owners(
            query.under, lambda engine, under: engine.text_search.scan(replace(query, under=under or "."), **options)
        )
        files = [_qualify(name, file) for name, scan in scans.items() for file in scan.files]
        first_name, first = next(iter(scans.items()))
        return Scan(
            tuple(sorted(files, key=lambda file: file.path)),
            sum(scan.files_searched for scan in scans.values()),
            first.engine,
            all(scan.is_complete for scan in scans.values()),
            join_path(first_name, first.under) if len(scans) == 1 else "",
            "" if files else first.reason,
            "" if files else first.next_step,
        )

    def lines(self, query: TextQuery, parts: Sequence[TextPart], **options: Any) -> dict[RelPath, list[TextLine]]:
        """Return the matching lines of some files."""
        return self._read_own(parts, lambda scanner, own: scanner.lines(query, own, **options))

    def keyword_lines(
        self, query: TextQuery, parts: Sequence[TextPart], **options: Any
    ) -> dict[RelPath, list[TextLine]]:
        """Return the lines of some files with each keyword."""
        return self._read_own(parts, lambda scanner, own: scanner.keyword_lines(query, own, **options))

    def _read_own(
        self, parts: Sequence[TextPart], read: Callable[[TextScanner, list[TextPart]], dict[RelPath, list[TextLine]]]
    ) -> dict[RelPath, list[TextLine]]:
        """Ask each repository for its own files; return them in the order of `parts`."""
        found: dict[RelPath, list[TextLine]] = {}
        for name, engine in self._repositories.engines.items():
            own = [replace(part, path=path_of_listing(path)) for part in parts for path in paths_in(name, [part.path])]
            if own:
                by_path = read(engine.text_search, own)
                found |= {_qualify_path(name, path): lines for path, lines in by_path.items()}
        return {part.path: found.get(part.path, []) for part in parts}


class MultiRepoSymbols(MultiRepoService, SymbolService):
    """Definitions in all of them, and imports inside each."""

    def find(self, name: str, *, kind: str | None = None, path: str | None = None, limit: int = 20) -> Found:
        """Find where a name is defined in any of them, in the order of one."""
        found = self._repositories.ask_owners(
            path, lambda engine, under: engine.symbols.find(name, kind=kind, path=under, limit=limit)
        )
        last = dotted_name(name).strip(".").rpartition(".")[2]
        rows = [_qualify(project, row) for project, part in found.items() for row in part.definitions]
        rows.sort(key=lambda row: (row.name != last, row.qualified.count(".")))
        near = tuple(dict.fromkeys(name for part in found.values() for name in part.near))
        freshness = self._repositories.join_freshness({project: part.freshness for project, part in found.items()})
        total = sum(part.total for part in found.values())
        return Found(tuple(rows[:limit]), total, () if rows else near, freshness)

    def trace(
        self,
        target: str,
        direction: Direction = "callers",
        *,
        depth: int | None = None,
        limit: int = 100,
        with_possible: bool = False,
    ) -> Trace:
        """Trace a symbol or a file inside each repository that has it."""
        traces = self._repositories.ask_owners(
            target,
            lambda engine, own: engine.symbols.trace(
                own or target, direction, depth=depth, limit=limit, with_possible=with_possible
            ),
        )
        edges = [_qualify(name, edge) for name, one in traces.items() for edge in one.edges]
        return Trace(
            target,
            direction,
            tuple(edges[:limit]),
            len(edges) > limit or any(one.truncated for one in traces.values()),
            tuple(dict.fromkeys(note for one in traces.values() for note in one.notes)),
            self._repositories.join_freshness({name: one.freshness for name, one in traces.items()}),
            sum(one.possible for one in traces.values()),
            tuple(join_path(name, test) for name, one in traces.items() for test in one.tests),
        )

    def outline(self, path: str, *, details: bool = True) -> FileOutline:
        """Outline one file. Raises also: InvalidPath for a path without a repository, as the methods below."""
        name, engine, rest = self._repositories.named_by(path)
        return _qualify(name, engine.symbols.outline(rest, details=details))

    def neighbors(self, path: str, span: LineSpan) -> list[Neighbor]:
        """List the definitions next to lines of a file in its own repository."""
        name, engine, rest = self._repositories.named_by(path)
        return [row._replace(path=join_path(name, row.path)) for row in engine.symbols.neighbors(rest, span)]

    def files_named(self, *names: str) -> tuple[RelPath, ...]:
        """List the files of any of them whose path ends with the components of a name."""
        engines = self._repositories.engines
        found: list[RelPath] = []
        for repository, engine in engines.items():
            others = [name for name in names if split_path(name)[0] not in engines]
            own = engine.symbols.files_named(*paths_in(repository, names), *others)
            found += [_qualify_path(repository, path) for path in own]
        return tuple(found)


class MultiRepoFiles(MultiRepoService, WorkspaceFiles):
    """The files of all of them."""

    def read(self, path: str, **options: Any) -> FileText:
        """Read one file. Raises also: InvalidPath without a repository."""
        name, engine, rest = self._repositories.named_by(path)
        return _qualify(name, engine.files.read(rest, **options))


class MultiRepoMemory(MultiRepoService):
    """What is known of all of them."""

    def get_project_knowledge(self, wait_s: float = 0.0) -> ProjectKnowledge:
        """Return what all teams remember, and how tokens are counted; the history of each stays with its repository."""
        teams = self._repositories.ask_all(lambda engine: engine.memory.get_project_knowledge(wait_s))

        def recall(text: str, limit: int, files: Collection[str] | None = None) -> Sequence[RememberedItem]:
            found: list[RememberedItem] = []
            for name, team in teams.items():
                own = None if files is None else paths_in(name, files)
                rows = team.recall(text, limit, own) if team.recall else ()
                found += [row._replace(place=join_path(name, row.place)) for row in rows]
            return sorted(found, key=lambda row: -row.score)[:limit]

        def localise(query: Query) -> Sequence[tuple[str, float]]:
            return [(hit.chunk.path, hit.score) for hit in self._repositories.search.find(query).hits]

        return ProjectKnowledge(None, recall, localise, any(team.is_partial for team in teams.values()))

    def get_knowledge(self) -> MultiRepoMemory:
        """Return what can be searched, as `KnowledgeService.get_knowledge`."""
        return self

    def search(self, sought: KnowledgeQuery) -> KnowledgeResults:
        """Search what is known in any of them, best first."""
        found = self._repositories.ask_all(lambda engine: engine.memory.get_knowledge().search(sought))
        results = [replace(row, project=name) for name, part in found.items() for row in part.results]
        results.sort(key=lambda row: -row.score)
        return KnowledgeResults(
            tuple(results[: sought.limit]),
            sum(part.total for part in found.values()),
            sum(part.left_out for part in found.values()),
            "hybrid" if all(part.engine == "hybrid" for part in found.values()) else "lexical",
            tuple(dict.fromkeys(warning for part in found.values() for warning in part.warnings)),
        )


def format_freshness(freshness: Mapping[str, str]) -> str:
    """Format the freshness of each repository, those that are fresh in one word.

    >>> format_freshness({"web": "fresh", "api": "fresh"})
    'fresh'
    >>> format_freshness({"web": "fresh", "api": "2 files edited since index"})
    'api: 2 files edited since index; others fresh'
    """
    stale = [f"{name}: {text}" for name, text in freshness.items() if text != "fresh"]
    if stale and len(stale) < len(freshness):
        stale.append("others fresh")
    return "; ".join(stale) or "fresh"


def join_path(name: str, path: str) -> str:
    """Return a path as it is called among all repositories."""
    return f"{name}{REPOSITORY_SEPARATOR}{path}"


def split_path(path: str) -> tuple[str, str]:
    """Return (repository, path in it); no repository where none is named.

    >>> split_path("web:src/app.py"), split_path("src/app.py")
    (('web', 'src/app.py'), ('', 'src/app.py'))
    """
    name, between, rest = path.partition(REPOSITORY_SEPARATOR)
    return (name, rest) if between else ("", path)


def paths_in(name: str, paths: Iterable[str]) -> list[str]:
    """Return the paths of one repository, as they are in it.

    >>> paths_in("web", ["web:src/app.py", "api:src/app.py"])
    ['src/app.py']
    """
    return [rest for project, rest in map(split_path, paths) if project == name]


def _are_same(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    return list(one) == list(other) and all(one[name] is other[name] for name in one)


def _qualify(name: str, found: Located) -> Located:
    """Return something with a path, as it is called among all repositories."""
    return replace(found, path=_qualify_path(name, found.path))


def _qualify_path(name: str, path: str) -> RelPath:
    return path_of_listing(join_path(name, path))
