"""PURE.

What kind of change this is, how risky it is, and where it is hot; by a formula that says of each point where it comes
from.

Risk is 1 plus the points of these, at most 5:

    size      0 up to 50 changed lines, 1 up to 400, 2 above        what a person reads in ten minutes, in an hour
    spread    1 above ten files
    heat      1 when one of the files that are changed most is among them (the top tenth of the repository)
    kind      1 when it touches migrations, deployment, dependencies or who may do what
    tests     1 when code changes and no test does
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

SMALL_LINES, LARGE_LINES = 50, 400
"""A person reads some 400 lines an hour with care; reviewers find little in what is longer."""
MANY_FILES = 10
RISK_MAX = 5
HOTSPOTS_MAX = 5


class FileStats(NamedTuple):
    """One file of a change, in numbers."""

    path: str
    added: int
    removed: int
    is_test: bool
    is_code: bool


@dataclass(frozen=True, slots=True)
class ChangeSummary:
    """What a change is, in short. `factors` say where each point of the risk comes from."""

    classification: str = "empty"
    risk: int = 1
    factors: tuple[str, ...] = ()
    hotspots: tuple[str, ...] = ()
    files: int = 0
    added: int = 0
    removed: int = 0


DOCS = re.compile(r"(?i)\.(?:md|rst|txt|adoc)$|(?:^|/)docs?/|(?:^|/)(?:license|changelog|authors|notice)[^/]*$")
DEPENDENCIES = re.compile(
    r"(?:^|/)(?:package(?:-lock)?\.json|yarn\.lock|pnpm-lock\.yaml|pyproject\.toml|poetry\.lock|uv\.lock|setup\.(?:py|cfg)"
    r"|requirements[^/]*\.txt|go\.(?:mod|sum)|Cargo\.(?:toml|lock)|Gemfile(?:\.lock)?|composer\.(?:json|lock)|pom\.xml|[^/]*\.gradle(?:\.kts)?)$"
)
DEPLOYMENT = re.compile(
    r"(?:^|/)(?:\.github|\.gitlab-ci|\.circleci|deploy\w*|k8s|helm|terraform)|Dockerfile|docker-compose|Jenkinsfile|\.tf$"
)
MIGRATIONS = re.compile(r"(?:^|/)(?:migrations?|alembic|db/migrate)/")
ACCESS = re.compile(
    r"(?i)(?:^|[/_.-])(?:auth\w*|login|permissions?|session|crypto|secrets?|security|password|token)(?:[/_.-]|$)"
)


def summarize_change(parts: Sequence[FileStats], hot: Iterable[str] = ()) -> ChangeSummary:
    """The summary of a change.

    >>> summarize_change([FileStats("a.py", 3, 1, False, True), FileStats("test_a.py", 9, 0, True, True)]).classification
    'code'
    """
    added, removed = sum(part.added for part in parts), sum(part.removed for part in parts)
    heated = sorted(set(hot) & {part.path for part in parts})
    factors = [*_size(added + removed), *_spread(parts), *_heat(heated), *_kinds(parts), *_tests(parts)]
    points = sum(weight for weight, _ in factors)
    return ChangeSummary(
        classification=classify_change(parts),
        risk=min(RISK_MAX, 1 + points),
        factors=tuple(why for _, why in factors),
        hotspots=tuple(heated[:HOTSPOTS_MAX]),
        files=len(parts),
        added=added,
        removed=removed,
    )


def classify_change(parts: Sequence[FileStats]) -> str:
    """One word for a change: what all of its files are, else what they mostly are."""
    kinds = {_kind(part) for part in parts}
    if not kinds:
        return "empty"
    if len(kinds) == 1:
        return kinds.pop()
    return "code" if "code" in kinds else "mixed"


def _kind(part: FileStats) -> str:
    if part.is_test:
        return "tests"
    for name, pattern in (
        ("dependencies", DEPENDENCIES),
        ("migration", MIGRATIONS),
        ("deployment", DEPLOYMENT),
        ("docs", DOCS),
    ):
        if pattern.search(part.path):
            return name
    return "code" if part.is_code else "data"


Factor = tuple[int, str]


def _size(lines: int) -> list[Factor]:
    if lines <= SMALL_LINES:
        return []
    return [(2 if lines > LARGE_LINES else 1, f"size: {lines:,} changed lines")]


def _spread(parts: Sequence[FileStats]) -> list[Factor]:
    return [(1, f"spread: {len(parts)} files")] if len(parts) > MANY_FILES else []


def _heat(heated: Sequence[str]) -> list[Factor]:
    return [(1, f"heat: {', '.join(heated[:3])} are among the files that change most")] if heated else []


def _kinds(parts: Sequence[FileStats]) -> list[Factor]:
    named = (("migrations", MIGRATIONS), ("deployment", DEPLOYMENT), ("dependencies", DEPENDENCIES), ("access", ACCESS))
    touched = [name for name, pattern in named if any(pattern.search(part.path) and not part.is_test for part in parts)]
    return [(1, f"kind: {', '.join(touched)}")] if touched else []


def _tests(parts: Sequence[FileStats]) -> list[Factor]:
    code = any(_kind(part) == "code" for part in parts)
    return [(1, "tests: code changes and no test does")] if code and not any(part.is_test for part in parts) else []
