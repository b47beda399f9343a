"""PURE. The coverage of a review: every file or the reason why not, and every analyzer with its outcome."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from context_engine.model import Skipped

NO_TIME = "no time was left"
"""Why a file or an analyzer was left out: the next review may have the time."""


@dataclass(frozen=True, slots=True)
class AnalyzerRun:
    """One external program. `why_not` is set when it did not run, or not to its end."""

    name: str
    ran: bool
    ms: int = 0
    findings: int = 0
    why_not: str = ""

    @property
    def is_failure(self) -> bool:
        """Whether another run may report more: this one failed, or had no time."""
        return bool(self.why_not) and (self.ran or self.why_not == NO_TIME)


@dataclass(frozen=True, slots=True)
class FileCoverage:
    """One file. `skipped` is why it was not reviewed at all, `partly` what could not be checked, and why."""

    path: str
    skipped: str = ""
    partly: str = ""

    def with_reason(self, why: str) -> FileCoverage:
        """Add the reason why the text of the file, or a part of it, is missing.

        >>> FileCoverage("a.py").with_reason("the old version is too large").partly
        'the old version is too large'
        """
        if not why:
            return self
        if self.skipped:
            return replace(self, skipped=why)
        return replace(self, partly=why)


@dataclass(frozen=True, slots=True)
class Coverage:
    """All files of a change, each reviewed or skipped, and all analyzers."""

    files: tuple[FileCoverage, ...] = ()
    analyzers: tuple[AnalyzerRun, ...] = ()

    @property
    def files_reviewed(self) -> int:
        """The number of files that were reviewed."""
        return sum(not file.skipped for file in self.files)

    @property
    def files_skipped(self) -> tuple[Skipped, ...]:
        """The files that were not reviewed, with their reasons."""
        return tuple(Skipped(file.path, file.skipped) for file in self.files if file.skipped)

    @property
    def files_partly(self) -> tuple[Skipped, ...]:
        """The files of which only a part was reviewed, with the reasons."""
        return tuple(Skipped(file.path, file.partly) for file in self.files if file.partly and not file.skipped)


def merge_coverage(parts: Iterable[Coverage]) -> Coverage:
    """Merge the coverage of several parts of one change; an analyzer that ran for several becomes one run."""
    files: dict[str, FileCoverage] = {}
    runs: dict[str, AnalyzerRun] = {}
    for part in parts:
        files |= {file.path: file for file in part.files}
        for run in part.analyzers:
            runs[run.name] = _merge_runs(runs[run.name], run) if run.name in runs else run
    return Coverage(tuple(files[path] for path in sorted(files)), tuple(runs[name] for name in sorted(runs)))


def _merge_runs(one: AnalyzerRun, other: AnalyzerRun) -> AnalyzerRun:
    """Merge two runs of one program.

    >>> _merge_runs(AnalyzerRun("ruff", True, 20, 1), AnalyzerRun("ruff", False, why_not="timed out")).why_not
    'timed out'
    """
    why_not = "; ".join(dict.fromkeys(filter(None, (one.why_not, other.why_not))))
    ran = one.ran or other.ran
    return replace(one, ran=ran, ms=one.ms + other.ms, findings=one.findings + other.findings, why_not=why_not)
