"""PURE. The kind of a change, its risk, and its hotspots, by a formula that names the source of each point.

Risk is 1 plus the points of these, at most 5:

    size      0 up to 50 changed lines, 1 up to 400, 2 above        what a person reads in ten minutes, in an hour
    spread    1 above ten files
    heat      1 when it changes one of the files that change most (the top tenth of the repository)
    kind      1 when it touches migrations, deployment, dependencies or access rights
    tests     1 when code changes and no test does
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

SMALL_LINES, LARGE_LINES = 50, 400
"""A person reads some 400 lines an hour with care; reviewers find little in longer changes."""
MANY_FILES = 10
RISK_MAX = 5
HOTSPOTS_MAX = 5

DOCS = re.compile(r"(?i)\.(?:md|rst|txt|adoc)$|(?:^|/)docs?/|(?:^|/)(?:license|changelog|authors|notice)[^/]*$")
DEPENDENCIES = re.compile(
    r"(?:^|/)(?:package(?:-lock)?\.json|yarn\.lock|pnpm-lock\.yaml|pyproject\.toml|poetry\.lock|uv\.lock"
    r"|setup\.(?:py|cfg)|requirements[^/]*\.txt|go\.(?:mod|sum)|Cargo\.(?:toml|lock)|Gemfile(?:\.lock)?"
    r"|composer\.(?:json|lock)|pom\.xml|[^/]*\.gradle(?:\.kts)?)$"
)
DEPLOYMENT = re.compile(
    r"(?:^|/)(?:\.github|\.gitlab-ci|\.circleci|deploy\w*|k8s|helm|terraform)|Dockerfile|docker-compose|Jenkinsfile|\.tf$"
)
MIGRATIONS = re.compile(r"(?:^|/)(?:migrations?|alembic|db/migrate)/")
ACCESS = re.compile(
    r"(?i)(?:^|[/_.-])(?:auth\w*|login|permissions?|session|crypto|secrets?|security|password|token)(?:[/_.-]|$)"
)
KINDS = (("dependencies", DEPENDENCIES), ("migration", MIGRATIONS), ("deployment", DEPLOYMENT), ("docs", DOCS))
RISKY_KINDS = (
    ("migrations", MIGRATIONS),
    ("deployment", DEPLOYMENT),
    ("dependencies", DEPENDENCIES),
    ("access", ACCESS),
)


class FileStats(NamedTuple):
    """One file of a change, in numbers."""

    path: str
    added: int
    removed: int
    is_test: bool
    is_code: bool

    @property
    def kind(self) -> str:
        """The kind of the file: tests, code, data, or a kind that its path names."""
        if self.is_test:
            return "tests"
        named = next((name for name, pattern in KINDS if pattern.search(self.path)), "")
        return named or ("code" if self.is_code else "data")


@dataclass(frozen=True, slots=True)
class ChangeSummary:
    """A change in short. `factors` name the source of each point of the risk."""

    classification: str = "empty"
    risk: int = 1
    factors: tuple[str, ...] = ()
    hotspots: tuple[str, ...] = ()
    files: int = 0
    added: int = 0
    removed: int = 0


def summarize_change(files: Sequence[FileStats], hot_paths: Iterable[str] = ()) -> ChangeSummary:
    """Return the summary of a change.

    >>> code, test = FileStats("a.py", 3, 1, False, True), FileStats("test_a.py", 9, 0, True, True)
    >>> summarize_change([code, test]).classification
    'code'
    """
    added, removed = sum(file.added for file in files), sum(file.removed for file in files)
    hotspots = sorted(set(hot_paths) & {file.path for file in files})
    factors = list(_find_factors(files, added + removed, hotspots))
    return ChangeSummary(
        classification=_classify(files),
        risk=min(RISK_MAX, 1 + sum(points for points, _ in factors)),
        factors=tuple(reason for _, reason in factors),
        hotspots=tuple(hotspots[:HOTSPOTS_MAX]),
        files=len(files),
        added=added,
        removed=removed,
    )


def _classify(files: Sequence[FileStats]) -> str:
    """Return one word for a change: the kind of all its files, else what they mostly are."""
    kinds = {file.kind for file in files}
    if len(kinds) <= 1:
        if kinds:
            return kinds.pop()
        return "empty"
    return "code" if "code" in kinds else "mixed"


def _find_factors(files: Sequence[FileStats], lines: int, hotspots: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield points of the risk, with their reasons."""
    if lines > SMALL_LINES:
        yield 2 if lines > LARGE_LINES else 1, f"size: {lines:,} changed lines"
    if len(files) > MANY_FILES:
        yield 1, f"spread: {len(files)} files"
    if hotspots:
        yield 1, f"heat: {', '.join(hotspots[:3])} are among the files that change most"
    paths = [file.path for file in files if not file.is_test]
    if kinds := [name for name, pattern in RISKY_KINDS if any(map(pattern.search, paths))]:
        yield 1, f"kind: {', '.join(kinds)}"
    if any(file.kind == "code" for file in files) and not any(file.is_test for file in files):
        yield 1, "tests: code changes and no test does"
