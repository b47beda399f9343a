"""Search several repositories as one: a `MultiRepo` answers as an Engine does, with one ranking for all of them.

    repositories = MultiRepo({"web": web, "api": api})
    for hit in repositories.search.find(Query("where are passwords hashed")).hits:
        print(hit.project, hit.chunk.path)              # api  api:src/auth.py

A path begins with the name of its repository, `api:src/auth.py`; one without a name means that path in each of them. It
has the services that answer questions and none that writes. The Engines belong to the caller, who opens and closes
them.
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
from context_engine.index import (
    REPOSITORY_SEPARATOR,
    ROLES,
    IndexService,
    UnionSnapshot,
)
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
    TreeEntry,
)
from context_engine.references import Neighbor, SymbolService
from context_engine.repo import WorkspaceFile, WorkspaceFiles, path_of_listing
from context_engine.search import HURRY_WAIT_S, Searcher, SearchService, SearchState, TextScanner, answer_query
from context_engine.text import LineSpan, dotted_name

NONE_YET = "no index"

Outcome = TypeVar("Outcome")
Located = TypeVar("Located", FileText, FileOutline, Definition, Edge, TextFile)


class MultiRepo(Workspace):
    """Open Engines by name, in the order that breaks ties. Thread-safe."""

    def __init__(self, engines: Mapping[str, Engine], absent: Mapping[str, str] | None = None) -> None:
        """Use at least one Engine. `absent` are others that are unavailable, and why: each answer reports them."""
        self.engines = dict(engines)
        self.absent: dict[str, str] = dict(absent or {})
        repositories = EngineSet(self.engines, self.absent)
        self.settings = next(iter(self.engines.values())).settings
        self.index = MultiRepoIndex(repositories)
        self.search = MultiRepoSearch(repositories)
        self.text_search = MultiRepoTextSearch(repositories)
        self.symbols = MultiRepoSymbols(repositories)
        self.files = MultiRepoFiles(repositories)
        self.memory = MultiRepoMemory(repositories, self.search)


class EngineSet:
    """The Engines by name: resolves paths to them and collects their answers."""

    def __init__(self, engines: dict[str, Engine], absent: dict[str, str]) -> None:
        self.engines = engines
        self.absent = absent

    def named_by(self, path: str) -> tuple[str, Engine, str]:
        """Return the repository that a path names, and the rest of the path. Raises: InvalidPath."""
        name, rest = _split(path)
        if name not in self.engines:
            raise InvalidPath(
                f"{path[:200]!r} does not say which repository",
                suggestion=f"write {next(iter(self.engines))}:{path[:200]}",
            )
        return name, self.engines[name], rest

    def ask_each(self, path: str | None, ask: Callable[[Engine, str | None], Outcome]) -> dict[str, Outcome]:
        """Return the answer of each repository that has what is asked for, by name: one that is named, else all.

        Raises: what all of them raise.
        """
        name, rest = _split(path or "")
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


class MultiRepoIndex(IndexService):
    """The indexes of all of them."""

    def __init__(self, repositories: EngineSet) -> None:
        self._repositories = repositories

    def indexed_at(self) -> str:
        """Return when the repository indexed longest ago was last indexed as a whole; empty when one never was."""
        return min(engine.index.indexed_at() for engine in self._repositories.engines.values())


class MultiRepoSearch(SearchService):
    """One ranking over all of them."""

    def __init__(self, repositories: EngineSet) -> None:
        self._repositories = repositories
        self._lock = threading.Lock()
        self._joint: Searcher | None = None
        self._usage: tuple[tuple[Mapping[str, float], ...], dict[str, float]] = ((), {})

    def find(self, query: Query) -> Answer:
        """Find the places worth reading in any of them. Raises: NotIndexed when none has an index, InvalidArgument."""
        if not query.text.strip():
            raise InvalidArgument("query is empty", suggestion="say what to find, in words or code")
        self.hurry(query.text)
        standings = {name: engine.search.state() for name, engine in self._repositories.engines.items()}
        present = {name: standing for name, standing in standings.items() if standing}
        by_name = {name: self._freshness(name, standing) for name, standing in standings.items()}
        freshness = self._repositories.join_freshness(by_name)
        if not present:
            return self._none_indexed(freshness)
        trouble = "; ".join(f"{name}: {standing.trouble}" for name, standing in present.items() if standing.trouble)
        joint = SearchState(self._joint_searcher(present), _load_from(present), freshness, trouble)
        answer = answer_query(joint, query)
        return replace(answer, hits=tuple(replace(hit, project=_split(hit.chunk.path)[0]) for hit in answer.hits))

    def hurry(self, text: str, wait_s: float = HURRY_WAIT_S) -> bool:
        """Do the same in each of them whose index is built; together they take no longer."""
        until = time.monotonic() + wait_s
        engines = self._repositories.engines.values()
        are_ready = [engine.search.hurry(text, max(0.0, until - time.monotonic())) for engine in engines]
        return all(are_ready)

    def complete_path(self, typed: str, *, limit: int = 100, folders: bool = False) -> tuple[tuple[str, ...], int]:
        """Complete a path to the files of any of them."""
        found = {
            name: engine.search.complete_path(typed, limit=limit, folders=folders)
            for name, engine in self._repositories.engines.items()
        }
        paths = [_join_path(name, path) for name, (some, _) in found.items() for path in some]
        return tuple(paths[:limit]), sum(total for _, total in found.values())

    def _joint_searcher(self, present: Mapping[str, SearchState]) -> Searcher:
        """Return the searcher over all that is indexed, kept until one of them has something new."""
        snapshots = {name: standing.searcher.snapshot for name, standing in present.items()}
        with self._lock:
            known = self._joint.snapshot if self._joint else None
            if not isinstance(known, UnionSnapshot) or not _are_same(known.parts, snapshots):
                meaning = next(iter(present.values())).searcher.meaning
                self._joint = Searcher(UnionSnapshot(snapshots), ROLES, meaning, self.usage)
            assert self._joint is not None
            return self._joint

    def usage(self) -> Mapping[str, float]:
        """Return how much each file is used, 0 to 1; the same object until that changes."""
        engines = self._repositories.engines
        parts = tuple(engine.usage.ranking_scores() for engine in engines.values())
        with self._lock:
            known, joined = self._usage
            is_known = len(known) == len(parts) and all(old is new for old, new in zip(known, parts, strict=True))
            if not is_known:
                named = zip(engines, parts, strict=True)
                joined = {_join_path(name, path): share for name, part in named for path, share in part.items()}
                self._usage = parts, joined
            return joined

    def _freshness(self, name: str, standing: SearchState | None) -> str:
        if standing:
            return standing.freshness
        index = self._repositories.engines[name].index
        if index.is_building:
            return index.freshness
        return NONE_YET

    def _none_indexed(self, freshness: str) -> Answer:
        if not any(engine.index.is_building for engine in self._repositories.engines.values()):
            raise NotIndexed(
                "none of these repositories has an index yet",
                next_steps=NextStep("index_workspace", "for each of them; it takes seconds"),
            )
        return Answer((), "lexical", freshness, 0, "the indexes are being built: ask again in a moment", ())


class MultiRepoTextSearch(TextScanner):
    """Exact text in all of them."""

    def __init__(self, repositories: EngineSet) -> None:
        self._repositories = repositories

    def scan(self, query: TextQuery, **options: Any) -> Scan:
        """Find which files of any of them have matching lines. `options` and what is raised: as `Scanner.scan`."""

        def scan_one(engine: Engine, under: str | None) -> Scan:
            return engine.text_search.scan(replace(query, under=under or "."), **options)

        scans = self._repositories.ask_each(query.under, scan_one)
        files = _qualify_all((name, file) for name, scan in scans.items() for file in scan.files)
        first_name, first = next(iter(scans.items()))
        return Scan(
            tuple(sorted(files, key=lambda file: file.path)),
            sum(scan.files_searched for scan in scans.values()),
            first.engine,
            all(scan.is_complete for scan in scans.values()),
            _join_path(first_name, first.under) if len(scans) == 1 else "",
            "" if files else first.reason,
            "" if files else first.next_step,
        )

    def lines(self, query: TextQuery, parts: Sequence[TextPart], **options: Any) -> dict[RelPath, list[TextLine]]:
        """Return the matching lines of some files. `options` and what is raised: as `Scanner.lines`."""
        return self._lines(query, parts, lambda engine, own, some: engine.text_search.lines(own, some, **options))

    def keyword_lines(
        self, query: TextQuery, parts: Sequence[TextPart], **options: Any
    ) -> dict[RelPath, list[TextLine]]:
        """Return the lines of some files with each keyword.

        `options` and what is raised: as `Scanner.keyword_lines`.
        """
        return self._lines(
            query, parts, lambda engine, own, some: engine.text_search.keyword_lines(own, some, **options)
        )

    def _lines(
        self,
        query: TextQuery,
        parts: Sequence[TextPart],
        read_lines: Callable[[Engine, TextQuery, list[TextPart]], dict[RelPath, list[TextLine]]],
    ) -> dict[RelPath, list[TextLine]]:
        """Ask each repository for its own files; return them in the order of `parts`."""
        own: dict[str, list[TextPart]] = {}
        for part in parts:
            name, rest = _split(part.path)
            own.setdefault(name, []).append(replace(part, path=path_of_listing(rest)))
        asked = replace(query, under=self._own_folder(query.under))
        found: dict[RelPath, list[TextLine]] = {}
        for name, wanted in own.items():
            lines_of = read_lines(self._repositories.engines[name], asked, wanted)
            found |= {_qualify_path(name, path): lines for path, lines in lines_of.items()}
        return {part.path: found.get(part.path, []) for part in parts}

    def _own_folder(self, under: str) -> str:
        """Return a folder as its own repository calls it."""
        name, rest = _split(under)
        if name in self._repositories.engines:
            return rest
        return under


class MultiRepoSymbols(SymbolService):
    """Definitions in all of them, and imports inside each."""

    def __init__(self, repositories: EngineSet) -> None:
        self._repositories = repositories

    def find(self, name: str, *, kind: str | None = None, path: str | None = None, limit: int = 20) -> Found:
        """Find where a name is defined in any of them, in the order of one. Raises: NotIndexed, InvalidPath."""
        found = self._repositories.ask_each(
            path, lambda engine, under: engine.symbols.find(name, kind=kind, path=under, limit=limit)
        )
        last = dotted_name(name).strip(".").rpartition(".")[2]
        rows = _qualify_all((project, row) for project, part in found.items() for row in part.definitions)
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
        """Trace a symbol or a file inside each repository that has it. Raises: as `SymbolService.trace`."""

        def trace_one(engine: Engine, own: str | None) -> Trace:
            options = {"depth": depth, "limit": limit, "with_possible": with_possible}
            return engine.symbols.trace(own or target, direction, **options)

        traces = self._repositories.ask_each(target, trace_one)
        edges = _qualify_all((name, edge) for name, one in traces.items() for edge in one.edges)
        return Trace(
            target,
            direction,
            tuple(edges[:limit]),
            len(edges) > limit or any(one.truncated for one in traces.values()),
            tuple(dict.fromkeys(note for one in traces.values() for note in one.notes)),
            self._repositories.join_freshness({name: one.freshness for name, one in traces.items()}),
            sum(one.possible for one in traces.values()),
            tuple(_join_path(name, test) for name, one in traces.items() for test in one.tests),
        )

    def outline(self, path: str, *, details: bool = True) -> FileOutline:
        """Outline one file. Raises: as `SymbolService.outline`; InvalidPath for a path without a repository."""
        name, engine, rest = self._repositories.named_by(path)
        return _qualify(name, engine.symbols.outline(rest, details=details))

    def dependencies(self, path: str) -> tuple[RelPath, ...]:
        """List what a file imports of its own repository."""
        name, engine, rest = self._repositories.named_by(path)
        return _qualify_paths(name, engine.symbols.dependencies(rest))

    def importers(self, path: str) -> tuple[RelPath, ...]:
        """List what imports a file in its own repository."""
        name, engine, rest = self._repositories.named_by(path)
        return _qualify_paths(name, engine.symbols.importers(rest))

    def neighbors(self, path: str, span: LineSpan) -> list[Neighbor]:
        """List the definitions next to lines of a file in its own repository."""
        name, engine, rest = self._repositories.named_by(path)
        return [row._replace(path=_join_path(name, row.path)) for row in engine.symbols.neighbors(rest, span)]

    def files_named(self, *names: str) -> tuple[RelPath, ...]:
        """List the files of any of them whose path ends with the components of a name."""
        engines = self._repositories.engines
        asked = [
            (project if project in engines else "", rest, name) for name in names for project, rest in [_split(name)]
        ]
        found: list[RelPath] = []
        for repository, engine in engines.items():
            wanted = [rest if project else name for project, rest, name in asked if project in ("", repository)]
            found += _qualify_paths(repository, engine.symbols.files_named(*wanted))
        return tuple(found)


class MultiRepoFiles(WorkspaceFiles):
    """The files of all of them."""

    def __init__(self, repositories: EngineSet) -> None:
        self._repositories = repositories

    def read(self, path: str, **options: Any) -> FileText:
        """Read one file. `options` and what is raised: as `WorkspaceFiles.read`; InvalidPath without a repository."""
        name, engine, rest = self._repositories.named_by(path)
        return _qualify(name, engine.files.read(rest, **options))

    def list_directory(self, path: str = ".", **options: Any) -> tuple[TreeEntry, ...]:
        """List what a folder of one of them contains.

        `options` and what is raised: as `WorkspaceFiles.list_directory`.
        """
        _, engine, rest = self._repositories.named_by(path)
        return engine.files.list_directory(rest or ".", **options)


class MultiRepoMemory:
    """What is known of all of them."""

    def __init__(self, repositories: EngineSet, search: MultiRepoSearch) -> None:
        self._repositories = repositories
        self._search = search

    def get_project_knowledge(self, wait_s: float = 0.0) -> ProjectKnowledge:
        """Return what all teams remember, and how tokens are counted; the history of each stays with its repository."""
        engines = self._repositories.engines
        teams = {name: engine.memory.get_project_knowledge(wait_s) for name, engine in engines.items()}

        def recall(text: str, limit: int, files: Collection[str] | None = None) -> Sequence[RememberedItem]:
            found: list[RememberedItem] = []
            for name, team in teams.items():
                own = None if files is None else _paths_in(name, files)
                rows = team.recall(text, limit, own) if team.recall else ()
                found += [row._replace(place=_join_path(name, row.place)) for row in rows]
            return sorted(found, key=lambda row: -row.score)[:limit]

        def localise(query: Query) -> Sequence[tuple[str, float]]:
            return [(hit.chunk.path, hit.score) for hit in self._search.find(query).hits]

        is_partial = any(team.is_partial for team in teams.values())
        return ProjectKnowledge(None, recall, localise, is_partial)

    def get_knowledge(self) -> MultiRepoMemory:
        """Return what can be searched, as `KnowledgeService.get_knowledge`."""
        return self

    def search(self, sought: KnowledgeQuery) -> KnowledgeResults:
        """Search what is known in any of them, best first. Raises: as `Knowledge.search`."""
        found = {
            name: engine.memory.get_knowledge().search(sought) for name, engine in self._repositories.engines.items()
        }
        results = [replace(row, project=name) for name, part in found.items() for row in part.results]
        results.sort(key=lambda row: -row.score)
        warnings = dict.fromkeys(warning for part in found.values() for warning in part.warnings)
        engines = {part.engine for part in found.values()}
        return KnowledgeResults(
            tuple(results[: sought.limit]),
            sum(part.total for part in found.values()),
            sum(part.left_out for part in found.values()),
            "hybrid" if engines == {"hybrid"} else "lexical",
            tuple(warnings),
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


def _load_from(present: Mapping[str, SearchState]) -> Callable[[str], WorkspaceFile | None]:
    def load(path: str) -> WorkspaceFile | None:
        name, rest = _split(path)
        return present[name].read(rest)

    return load


def _are_same(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    return list(one) == list(other) and all(one[name] is other[name] for name in one)


def _join_path(name: str, path: str) -> str:
    return f"{name}{REPOSITORY_SEPARATOR}{path}"


def _paths_in(name: str, paths: Iterable[str]) -> list[str]:
    """Return the paths of one repository, as they are in it.

    >>> _paths_in("web", ["web:src/app.py", "api:src/app.py"])
    ['src/app.py']
    """
    return [path for project, path in map(_split, paths) if project == name]


def _qualify(name: str, found: Located) -> Located:
    """Return something with a path, as it is called among all repositories."""
    return replace(found, path=_qualify_path(name, found.path))


def _qualify_all(rows: Iterable[tuple[str, Located]]) -> list[Located]:
    return [_qualify(name, row) for name, row in rows]


def _qualify_path(name: str, path: str) -> RelPath:
    return path_of_listing(_join_path(name, path))


def _qualify_paths(name: str, paths: Iterable[str]) -> tuple[RelPath, ...]:
    return tuple(_qualify_path(name, path) for path in paths)


def _split(path: str) -> tuple[str, str]:
    """Return (repository, path in it); no repository where none is named.

    >>> _split("web:src/app.py"), _split("src/app.py")
    (('web', 'src/app.py'), ('', 'src/app.py'))
    """
    name, between, rest = path.partition(REPOSITORY_SEPARATOR)
    if between:
        return (name, rest)
    return ("", path)
