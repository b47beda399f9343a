"""PURE. What a review has looked at, and what not: every file with its reason, every analyser with what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from context_engine.model import Skipped

NO_TIME = "no time was left"
"""Why a file or an analyser had to be left out: asked again, it may not be."""


@dataclass(frozen=True, slots=True)
class AnalyzerRun:
    """One external program: whether it ran, how long, what it found; `why_not` when it did not, or not to its end."""

    name: str
    ran: bool
    ms: int = 0
    findings: int = 0
    why_not: str = ""

    @property
    def is_failure(self) -> bool:
        """Whether it might say more another time: it failed, or had no time."""
        return bool(self.why_not) and (self.ran or self.why_not == NO_TIME)


@dataclass(frozen=True, slots=True)
class FileCoverage:
    """How one file was looked at. `skipped` says why not at all; `partly` what could not be asked, and why."""

    path: str
    skipped: str = ""
    partly: str = ""


@dataclass(frozen=True, slots=True)
class Coverage:
    """All files of a change, each reviewed or skipped, and all analysers."""

    files: tuple[FileCoverage, ...] = ()
    analyzers: tuple[AnalyzerRun, ...] = ()

    @property
    def files_reviewed(self) -> int:
        """How many files were looked at."""
        return sum(not each.skipped for each in self.files)

    @property
    def files_skipped(self) -> tuple[Skipped, ...]:
        """The others, each with its reason."""
        return tuple(Skipped(each.path, each.skipped) for each in self.files if each.skipped)

    @property
    def files_partly(self) -> tuple[Skipped, ...]:
        """Files of which only a part could be looked at, and why."""
        return tuple(Skipped(each.path, each.partly) for each in self.files if each.partly and not each.skipped)


def add_reason(covered: FileCoverage, why: str) -> FileCoverage:
    """A file's coverage, with the reason why its text, or a part of it, is not there.

    >>> add_reason(FileCoverage("a.py"), "the old version is too large").partly
    'the old version is too large'
    """
    if not why:
        return covered
    return replace(covered, skipped=why) if covered.skipped else replace(covered, partly=why)


def merge_coverage(parts: Iterable[Coverage]) -> Coverage:
    """The coverage of several parts of one change: analysers that ran in several are one."""
    files: dict[str, FileCoverage] = {}
    runs: dict[str, AnalyzerRun] = {}
    for part in parts:
        files |= {each.path: each for each in part.files}
        for run in part.analyzers:
            runs[run.name] = _joined(runs[run.name], run) if run.name in runs else run
    return Coverage(tuple(files[path] for path in sorted(files)), tuple(runs[name] for name in sorted(runs)))


def _joined(one: AnalyzerRun, other: AnalyzerRun) -> AnalyzerRun:
    """Two runs of one program.

    >>> _joined(AnalyzerRun("ruff", True, 20, 1), AnalyzerRun("ruff", False, why_not="timed out")).why_not
    'timed out'
    """
    why_not = "; ".join(dict.fromkeys(filter(None, (one.why_not, other.why_not))))
    ran = one.ran or other.ran
    return replace(one, ran=ran, ms=one.ms + other.ms, findings=one.findings + other.findings, why_not=why_not)
