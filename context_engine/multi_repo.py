"""Several repositories asked as one: an `Across` answers what an Engine answers, out of all of them, ranked together.

    across = Across({"web": web, "api": api})
    for hit in across.search(Query("where are passwords hashed")).hits:
        print(hit.project, hit.chunk.path)              # api  api:src/auth.py

A path begins with the name of its repository, `api:src/auth.py`; one without a name means that path in each of them. It
offers what questions need and nothing that writes. The Engines are somebody else's, who opens and closes them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from context_engine.context.project_knowledge import Ranked, Remembered, Team
from context_engine.engine import Engine
from context_engine.errors import CallError, FileNotFound, InvalidArgument, InvalidPath, NotIndexed
from context_engine.index.file_roles import ROLES
from context_engine.index.union_snapshot import REPOSITORY_SEPARATOR, UnionSnapshot
from context_engine.memory.knowledge import Findings
from context_engine.memory.memory_requests import Sought
from context_engine.model import (
    Answer,
    FileOutline,
    FileText,
    Found,
    Query,
    RelPath,
    Scan,
    TextLine,
    TextPart,
    TextQuery,
    TreeEntry,
)
from context_engine.repo.paths import listed
from context_engine.search.hit_reading import Source
from context_engine.search.search_service import Standing, answered
from context_engine.search.searcher import Searcher
from context_engine.settings import Settings

NONE_YET = "no index"

Outcome = TypeVar("Outcome")


class Across:
    """Some open Engines by name, in the order that breaks ties. Thread-safe."""

    def __init__(self, engines: Mapping[str, Engine], absent: Mapping[str, str] | None = None) -> None:
        """At least one. `absent` are others that cannot be asked, and why: each answer says so."""
        self.engines = dict(engines)
        self.absent = dict(absent or {})
        self._first = next(iter(self.engines.values()))
        self._lock = threading.Lock()
        self._searcher: Searcher | None = None
        self._used: tuple[tuple[Mapping[str, float], ...], dict[str, float]] = ((), {})
        self.knowledge = _Known(self.engines)
        """What the teams know, asked together."""

    @property
    def settings(self) -> Settings:
        """Those of the first: how long a reply may be is the same question for all."""
        return self._first.settings

    # -- searching --

    def search(self, query: Query) -> Answer:
        """The places worth reading in any of them, by one ranking. Raises: NotIndexed when none has an index, InvalidArgument."""
        if not query.text.strip():
            raise InvalidArgument("query is empty", suggestion="say what to find, in words or code")
        standings = {name: engine.standing() for name, engine in self.engines.items()}
        there = {name: standing for name, standing in standings.items() if standing}
        freshness = told({name: self._freshness(name, each) for name, each in standings.items()} | self.absent)
        if not there:
            return self._not_yet(freshness)
        trouble = "; ".join(f"{name}: {each.trouble}" for name, each in there.items() if each.trouble)
        standing = Standing(self._joint(there), self._reading(there), freshness, trouble)
        answer = answered(standing, query)
        return replace(answer, hits=tuple(replace(hit, project=_split(hit.chunk.path)[0]) for hit in answer.hits))

    def _joint(self, there: Mapping[str, Standing]) -> Searcher:
        """The searcher over all that is there; kept until one of them has something new."""
        snapshots = {name: each.searcher.snapshot for name, each in there.items()}
        with self._lock:
            known = self._searcher.snapshot if self._searcher else None
            if not isinstance(known, UnionSnapshot) or not _are_same(known.parts, snapshots):
                meaning = next(iter(there.values())).searcher.meaning
                self._searcher = Searcher(UnionSnapshot(snapshots), ROLES, meaning, self.used)
            assert self._searcher is not None
            return self._searcher

    def used(self) -> Mapping[str, float]:
        """How much each file is used, 0 to 1; the same object until that changes."""
        parts = tuple(engine.used() for engine in self.engines.values())
        with self._lock:
            known, joined = self._used
            if len(known) != len(parts) or any(one is not other for one, other in zip(known, parts, strict=True)):
                named = zip(self.engines, parts, strict=True)
                joined = {_joined(name, path): share for name, part in named for path, share in part.items()}
                self._used = parts, joined
            return joined

    def _reading(self, there: Mapping[str, Standing]) -> Callable[[str], Source | None]:
        def read(path: str) -> Source | None:
            name, rest = _split(path)
            return there[name].read(rest)

        return read

    def _freshness(self, name: str, standing: Standing | None) -> str:
        if standing:
            return standing.freshness
        engine = self.engines[name]
        return engine.freshness if engine.is_building else NONE_YET

    def _not_yet(self, freshness: str) -> Answer:
        if not any(engine.is_building for engine in self.engines.values()):
            raise NotIndexed(
                "none of these repositories has an index yet",
                suggestion="call index_workspace for each (at a terminal: ctx workspace update); it takes seconds",
            )
        return Answer((), "lexical", freshness, 0, "the indexes are being built: ask again in a moment", ())

    def find_symbol(self, name: str, *, kind: str | None = None, path: str | None = None, limit: int = 20) -> Found:
        """Where a name is defined in any of them, in the order of one. Raises: NotIndexed, InvalidPath."""
        found = self._each(path, lambda engine, under: engine.find_symbol(name, kind=kind, path=under, limit=limit))
        asked = name.replace("::", ".").replace("#", ".").strip(".").rpartition(".")[2].removesuffix("()")
        rows = [
            replace(row, path=_named(project, row.path)) for project, each in found.items() for row in each.definitions
        ]
        rows.sort(key=lambda row: (row.name != asked, row.qualified.count(".")))
        near = tuple(dict.fromkeys(one for each in found.values() for one in each.near))
        freshness = told({project: each.freshness for project, each in found.items()} | self.absent)
        return Found(tuple(rows[:limit]), sum(each.total for each in found.values()), () if rows else near, freshness)

    # -- texts --

    def scan(self, query: TextQuery, **how: Any) -> Scan:
        """Which files of any of them hold matching lines, exactly. `how` and what is raised: as `Engine.scan`."""

        def scanned(engine: Engine, under: str | None) -> Scan:
            return engine.scan(replace(query, under=under or "."), **how)

        scans = self._each(query.under, scanned)
        files = [replace(file, path=_named(name, file.path)) for name, scan in scans.items() for file in scan.files]
        silent = next(iter(scans.values()))
        return Scan(
            tuple(sorted(files, key=lambda file: file.path)),
            sum(scan.files_searched for scan in scans.values()),
            silent.engine,
            all(scan.is_complete for scan in scans.values()),
            _joined(*next((name, scan.under) for name, scan in scans.items())) if len(scans) == 1 else "",
            "" if files else silent.reason,
            "" if files else silent.next_step,
        )

    def grep(self, query: TextQuery, parts: Sequence[TextPart], **how: Any) -> dict[RelPath, list[TextLine]]:
        """The matching lines of some files. `how` and what is raised: as `Engine.grep`."""
        return self._lines(query, parts, lambda engine, asked, own: engine.grep(asked, own, **how))

    def keyword_lines(self, query: TextQuery, parts: Sequence[TextPart], **how: Any) -> dict[RelPath, list[TextLine]]:
        """The lines of some files on which each keyword stands. `how` and what is raised: as `Engine.keyword_lines`."""
        return self._lines(query, parts, lambda engine, asked, own: engine.keyword_lines(asked, own, **how))

    def _lines(
        self,
        query: TextQuery,
        parts: Sequence[TextPart],
        look: Callable[[Engine, TextQuery, list[TextPart]], dict[RelPath, list[TextLine]]],
    ) -> dict[RelPath, list[TextLine]]:
        """Each repository asked for its own files, in the order of `parts`."""
        own: dict[str, list[TextPart]] = {}
        for part in parts:
            name, rest = _split(part.path)
            own.setdefault(name, []).append(replace(part, path=listed(rest)))
        found = {
            _named(name, path): lines
            for name, wanted in own.items()
            for path, lines in look(self.engines[name], replace(query, under=self._own(query.under)), wanted).items()
        }
        return {part.path: found.get(part.path, []) for part in parts}

    def _own(self, under: str) -> str:
        """A folder as its own repository calls it."""
        name, rest = _split(under)
        return rest if name in self.engines else under

    # -- files --

    def read(self, path: str) -> FileText:
        """One file. Raises: as `Engine.read`; InvalidPath for a path without the name of a repository."""
        name, engine, rest = self._meant(path)
        read = engine.read(rest)
        return replace(read, path=_named(name, read.path))

    def outline(self, path: str) -> FileOutline:
        """One file's skeleton. Raises: as `Engine.outline`, `read`."""
        name, engine, rest = self._meant(path)
        found = engine.outline(rest)
        return replace(found, path=_named(name, found.path))

    def dependencies(self, path: str) -> tuple[RelPath, ...]:
        """What a file imports of its own repository."""
        name, engine, rest = self._meant(path)
        return _all_named(name, engine.dependencies(rest))

    def importers(self, path: str) -> tuple[RelPath, ...]:
        """What imports a file in its own repository."""
        name, engine, rest = self._meant(path)
        return _all_named(name, engine.importers(rest))

    def files_named(self, name: str) -> tuple[RelPath, ...]:
        """The files of any whose path ends with these components."""
        project, rest = _split(name)
        asked = {project: self.engines[project]} if project in self.engines else self.engines
        wanted = rest if project in self.engines else name
        return tuple(path for one, engine in asked.items() for path in _all_named(one, engine.files_named(wanted)))

    def complete_path(self, typed: str, *, limit: int = 100) -> tuple[tuple[str, ...], int]:
        """The files of any that a half-typed path may become."""
        found = {name: engine.complete_path(typed, limit=limit) for name, engine in self.engines.items()}
        paths = [_joined(name, path) for name, (some, _) in found.items() for path in some]
        return tuple(paths[:limit]), sum(total for _, total in found.values())

    def list_directory(self, path: str = ".", **how: Any) -> tuple[TreeEntry, ...]:
        """What a folder of one of them holds. `how` and what is raised: as `Engine.list_directory`, `read`."""
        _, engine, rest = self._meant(path)
        return engine.list_directory(rest or ".", **how)

    # -- teams --

    def team(self) -> Team:
        """What all teams remember, and how tokens are counted; the history of each stays with its repository."""
        teams = {name: engine.team() for name, engine in self.engines.items()}

        def recall(text: str, count: int) -> Sequence[Remembered]:
            found = [
                row._replace(place=_joined(name, row.place))
                for name, team in teams.items()
                for row in (team.recall(text, count) if team.recall else ())
            ]
            return sorted(found, key=lambda row: -row.score)[:count]

        def localise(query: Query) -> Ranked:
            return [(hit.chunk.path, hit.score) for hit in self.search(query).hits]

        return Team(teams[next(iter(teams))].count, None, recall, localise)

    def showed(self, paths: Iterable[str]) -> None:
        """Hits in these files were shown to somebody."""
        for path in dict.fromkeys(paths):
            name, rest = _split(path)
            self.engines[name].showed([rest])

    def indexed_at(self) -> str:
        """When the one that waits longest was last indexed as a whole; empty when one never was."""
        return min(engine.indexed_at() for engine in self.engines.values())

    # -- which of them --

    def _meant(self, path: str) -> tuple[str, Engine, str]:
        """The repository that a path names, and the rest of it. Raises: InvalidPath."""
        name, rest = _split(path)
        if name not in self.engines:
            raise InvalidPath(
                f"{path[:200]!r} does not say which repository",
                suggestion=f"write {next(iter(self.engines))}:{path[:200]}",
            )
        return name, self.engines[name], rest

    def _each(self, path: str | None, ask: Callable[[Engine, str | None], Outcome]) -> dict[str, Outcome]:
        """The answer of each repository that has the path, by name. Raises: what all of them raise."""
        name, rest = _split(path or "")
        if name in self.engines:
            return {name: ask(self.engines[name], rest or None)}
        answers: dict[str, Outcome] = {}
        refusals: list[CallError] = []
        for one, engine in self.engines.items():
            try:
                answers[one] = ask(engine, path)
            except (FileNotFound, NotIndexed) as error:  # another one may have it
                refusals.append(error)
        if not answers:
            raise refusals[0]
        return answers


class _Known:
    """What several teams know, asked as one."""

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self._engines = engines

    def search(self, sought: Sought) -> Findings:
        """What is known about a question in any of them, best first. Raises: as `Knowledge.search`."""
        found = {name: engine.knowledge.search(sought) for name, engine in self._engines.items()}
        results = [replace(row, project=name) for name, each in found.items() for row in each.results]
        results.sort(key=lambda row: -row.score)
        warnings = dict.fromkeys(one for each in found.values() for one in each.warnings)
        engines = {each.engine for each in found.values()}
        return Findings(
            tuple(results[: sought.limit]),
            sum(each.total for each in found.values()),
            sum(each.left_out for each in found.values()),
            "hybrid" if engines == {"hybrid"} else "lexical",
            tuple(warnings),
        )


def told(freshness: Mapping[str, str]) -> str:
    """The freshness of each repository, those that are fresh in one word.

    >>> told({"web": "fresh", "api": "fresh"}), told({"web": "fresh", "api": "2 files edited since index"})
    ('fresh', 'api: 2 files edited since index; others fresh')
    """
    others = [f"{name}: {each}" for name, each in freshness.items() if each != "fresh"]
    return "; ".join([*others, *["others fresh"] * (0 < len(others) < len(freshness))]) or "fresh"


def _are_same(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    return list(one) == list(other) and all(one[name] is other[name] for name in one)


def _joined(name: str, path: str) -> str:
    return f"{name}{REPOSITORY_SEPARATOR}{path}"


def _named(name: str, path: str) -> RelPath:
    return listed(_joined(name, path))


def _all_named(name: str, paths: Iterable[str]) -> tuple[RelPath, ...]:
    return tuple(_named(name, path) for path in paths)


def _split(path: str) -> tuple[str, str]:
    """(repository, path in it); no repository where none is named.

    >>> _split("web:src/app.py"), _split("src/app.py")
    (('web', 'src/app.py'), ('', 'src/app.py'))
    """
    name, between, rest = path.partition(REPOSITORY_SEPARATOR)
    return (name, rest) if between else ("", path)
