"""What may go wrong with a change, told by data: who leans on a file, how often and by whom it is changed, who tests it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from context_engine.errors import CallError
from context_engine.plans.changeset import RENAMING_KINDS, AffectedFile, ChangeSet
from context_engine.plans.intent import TaskIntent
from context_engine.plans.model import PlanRisk
from context_engine.plans.plan_sources import PlanSources

RISKS_MAX = 8
FILES_ASSESSED_MAX = 5
"""Main files that are asked about; a plan with more has its risks elsewhere."""
HOT_SHARE = 10
"""One file in ten is hot: those that are changed most these days."""
HOT_MAX = 50
LONG_LINES = 300
"""Churn alone is work, churn in a long file is where mistakes are made (churn x size predicts them best of what is cheap)."""
IMPORTERS_MIN = 10
AUTHORS_MIN = 4
"""From here on nobody knows a file alone."""
AUTHOR_COMMITS_MIN = 2
"""Whoever changed it once does not count as one who knows it."""
_SECRET = re.compile(
    r"(?:^|[/_.-])(?:auth\w*|login|session|passwords?|secrets?|tokens?|crypto?\w*|permissions?|acl|oauth\w*|jwt|csrf|sso)(?:[/_.-]|$)",
    re.IGNORECASE,
)


def find_risks(wanted: TaskIntent, change: ChangeSet, sources: PlanSources) -> tuple[PlanRisk, ...]:
    """What the data say, the likeliest first."""
    main = change.main()[:FILES_ASSESSED_MAX]
    told = [
        *_task_risks(wanted, change),
        *(risk for each in main for risk in _file_risks(each, wanted, change, sources)),
    ]
    order = {"high": 0, "medium": 1, "low": 2}
    return tuple(sorted(dict.fromkeys(told), key=lambda risk: order[risk.likelihood]))[:RISKS_MAX]


def _task_risks(wanted: TaskIntent, change: ChangeSet) -> Iterator[PlanRisk]:
    migrations = change.of("migration")
    if migrations:
        yield PlanRisk(
            f"{migrations[0].path} belongs to the migrations: data that exists has to survive",
            "Write the way back as well, and try both on a copy of real data.",
            "high",
        )
    if wanted.kind in RENAMING_KINDS and change.of("reference"):
        count = len(change.of("reference"))
        yield PlanRisk(
            f"{_files(count)} name{'s' if count == 1 else ''} it in the text; names that are put together at run time are not seen",
            "Search for parts of the name, in strings, templates and configuration too.",
            "medium",
        )


def _file_risks(each: AffectedFile, wanted: TaskIntent, change: ChangeSet, sources: PlanSources) -> Iterator[PlanRisk]:
    yield from _import_risks(each, wanted, sources)
    yield from _churn_risks(each, sources)
    if each.part in ("definition", "source") and not change.of("test"):
        yield PlanRisk(
            f"no test goes by the name of {each.path}, and none was found for the task",
            "Write a test of what it does today before it is changed.",
            "high",
        )
    if _SECRET.search(each.path):
        yield PlanRisk(
            f"{each.path} guards access or keeps secrets",
            "Have somebody else look at the change; test what must be refused.",
            "medium",
        )


def _import_risks(each: AffectedFile, wanted: TaskIntent, sources: PlanSources) -> Iterator[PlanRisk]:
    """A file that many import is an interface, whatever it is called."""
    try:
        importers = len(sources.code.importers(each.path))
    except CallError:
        return
    if importers >= IMPORTERS_MIN:
        yield PlanRisk(
            f"{importers} files import {each.path}",
            "Keep the names and arguments that others use, or change all of them in the same commit.",
            "high" if wanted.kind in ("refactor", "remove", "rename", "upgrade") else "medium",
        )


def _churn_risks(each: AffectedFile, sources: PlanSources) -> Iterator[PlanRisk]:
    record = sources.past.record(each.path) if sources.past else None
    if record is None or sources.past is None:
        return
    hot = [getattr(one, "path", "") for one in sources.past.hot(HOT_MAX)]
    lines = _lines(each.path, sources)
    if each.path in hot[: max(1, len(hot) // HOT_SHARE)] and lines >= LONG_LINES:
        yield PlanRisk(
            f"{each.path} has {lines:,} lines and is among the files that change most these days ({record.commits} commits)",
            "Keep the change small and bring it in soon: others are changing the same file.",
            "medium",
        )
    authors = [name for name, commits in record.authors if commits >= AUTHOR_COMMITS_MIN]
    if len(authors) >= AUTHORS_MIN:
        yield PlanRisk(
            f"{len(authors)} people have changed {each.path} more than once",
            f"Ask {authors[0]}, who changed it most, before its behaviour changes.",
            "low",
        )


def _lines(path: str, sources: PlanSources) -> int:
    try:
        return sources.code.outline(path).lines
    except CallError:
        return 0


def _files(count: int) -> str:
    return f"{count} file{'s' * (count != 1)}"
