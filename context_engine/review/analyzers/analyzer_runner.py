"""Analysers run over both versions of the changed files, in folders of their own; what both versions have is not new.

An analyser that hangs, crashes or says nonsense is a warning and a row of the coverage, never the end of a review.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from context_engine.model import Finding
from context_engine.repo.executables import find_program
from context_engine.repo.subprocess_runner import apart, bare, identity, run
from context_engine.review.analyzers.analyzer import Analyzer, AnalyzerMessage, AnalyzerOutputError
from context_engine.review.finding import assign_ids
from context_engine.review.new_findings import mark_new
from context_engine.review.review_coverage import NO_TIME, AnalyzerRun
from context_engine.review.review_options import ReviewOptions
from context_engine.review.reviewer import TESTS, is_generated
from context_engine.review.source_versions import ChangedFile, FileVersion
from context_engine.text import LineSpan

ANALYZER_S = 20.0
"""One program over the files of one change; a compiler that starts cold takes some ten seconds."""
FILES_MAX = 500
"""More paths are too long for the command line of some systems."""
TREE_FILES_MAX, TREE_BYTES_MAX = 5_000, 100_000_000
"""A compiler wants the whole tree; a larger one is its own CI's business."""
QUIET_IN_TESTS = ("S", "ASYNC", "B003", "B018", "B015", "F841", "PLR0124")
"""Rules that tests break on purpose."""


@dataclass(frozen=True, slots=True)
class AnalyzerReport:
    """What the analysers found, how each of them fared, and what is to be said of it."""

    findings: tuple[Finding, ...] = ()
    runs: tuple[AnalyzerRun, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence for each that was to run and failed."""
        return tuple(f"{run.name} {run.why_not}" for run in self.runs if run.ran and run.why_not)


TreeReader = Callable[[], Mapping[str, bytes]]
"""All files of the new version, for those that want them."""


@dataclass(frozen=True, slots=True)
class AnalyzerRunner:
    """The analysers there are, and which of them the user allowed to run code of the project.

    Only these are looked for in `tools`, folders of the workspace, which is `outside`: a repository must not bring the
    ruff that is always asked. `linked` are folders that they find beside the files (`node_modules`), by their names.
    """

    analyzers: tuple[Analyzer, ...]
    allowed: frozenset[str] = frozenset()
    tools: tuple[str, ...] = ()
    outside: str = ""
    linked: Mapping[str, str] = field(default_factory=dict)
    analyzer_s: float = ANALYZER_S

    def run(
        self,
        files: Sequence[ChangedFile],
        options: ReviewOptions,
        *,
        deadline: float,
        before: TreeReader = dict,
        after: TreeReader = dict,
        now: Callable[[], float] = time.monotonic,
        cancel: threading.Event | None = None,
    ) -> AnalyzerReport:
        """What they say of the changed files. `deadline` is a moment of `now`. Never raises for what a program does.

        Those under way are ended when `cancel` is set.
        """
        findings: list[Finding] = []
        runs: list[AnalyzerRun] = []
        for analyzer in self.analyzers:
            mine = [file for file in files if _is_for(analyzer, file)]
            if not mine:
                continue
            began = now()
            why_not = self._why_not(analyzer, options, deadline - began)
            if why_not:
                runs.append(AnalyzerRun(analyzer.name, ran=False, why_not=why_not))
                continue
            left = min(self.analyzer_s, deadline - began)
            told, problem = self._told(analyzer, mine[:FILES_MAX], before, after, left, cancel)
            if not problem and len(mine) > FILES_MAX:
                problem = f"looked at {FILES_MAX} of {len(mine)} files"
            runs.append(AnalyzerRun(analyzer.name, True, round((now() - began) * 1_000), len(told), problem))
            findings += told
        return AnalyzerReport(assign_ids(findings), tuple(runs))

    def fingerprint(self, options: ReviewOptions, commit: str) -> str:
        """Which of them would be asked: another text when one is another program, or sees another tree."""
        asked = [each for each in self.analyzers if not self._why_not(each, options, 1.0)]
        programs = [f"{each.name}={identity(self._program(each))}" for each in asked]
        return "\n".join([*programs, *([commit] if any(each.needs_whole_tree for each in asked) else [])])

    def _why_not(self, analyzer: Analyzer, options: ReviewOptions, left_s: float) -> str:
        wanted = options.analyzers
        if wanted == "none" or (wanted != "auto" and analyzer.name not in wanted):
            return "not asked for"
        if analyzer.runs_project_code and analyzer.name not in self.allowed:
            return "it runs code of the project, which CTX_REVIEW_PROGRAMS does not allow"
        if not self._program(analyzer):
            return "not installed"
        return NO_TIME if left_s <= 0 else ""

    def _program(self, analyzer: Analyzer) -> str:
        if analyzer.runs_project_code:  # the user allowed it
            return find_program(analyzer.program, beside=self.tools)
        return find_program(analyzer.program, outside=self.outside)

    def _told(
        self,
        analyzer: Analyzer,
        files: Sequence[ChangedFile],
        before: TreeReader,
        after: TreeReader,
        left_s: float,
        cancel: threading.Event | None,
    ) -> tuple[list[Finding], str]:
        """Its findings, or why there are none."""
        new = {file.path: file.new.data for file in files if file.new is not None}
        old = {file.path: file.old.data for file in files if file.old is not None}
        if analyzer.needs_whole_tree:
            whole, was = after(), before()
            if len(whole) > TREE_FILES_MAX or sum(map(len, whole.values())) > TREE_BYTES_MAX or not whole:
                return [], "wants the whole tree, which is not known here or too large"
            if lacking := [name for name in analyzer.required_files if name not in whole]:
                return [], f"is not used here: there is no {lacking[0]}"
            new, old = {**whole, **new}, {**was, **old}
        ends = time.monotonic() + left_s
        now, problem = self._ran(analyzer, new, sorted(file.path for file in files), left_s, cancel)
        if problem or not now:
            return [], problem
        wanted = sorted(old if not analyzer.needs_whole_tree else new)
        then, problem = self._ran(analyzer, old, wanted, ends - time.monotonic(), cancel)
        return ([], problem) if problem else (list(_compared(analyzer, files, now, then)), "")

    def _ran(
        self,
        analyzer: Analyzer,
        files: Mapping[str, bytes],
        paths: Sequence[str],
        left_s: float,
        cancel: threading.Event | None,
    ) -> tuple[Sequence[AnalyzerMessage], str]:
        """What it reports of some files, and why it could not."""
        here = [path for path in paths if path in files]
        if not here:
            return (), ""
        program = self._program(analyzer)
        links = self.linked if analyzer.runs_project_code else {}
        with apart(files, links) as folder:
            words, environment = analyzer.command(program, here), bare(os.environ, analyzer.offline)
            ran = run(words, folder, limit_s=left_s, environment=environment, cancel=cancel)
            if ran.problem:
                return (), ran.problem
            if ran.exit not in analyzer.good_exits:
                said = ran.err or ran.out.decode(errors="replace")
                return (), f"failed with exit code {ran.exit}: {_last_line(said)}"
            try:
                return analyzer.read(ran.out, ran.err, folder), ""
            except AnalyzerOutputError as error:
                return (), f"said what cannot be read: {_last_line(str(error))}"


def _is_for(analyzer: Analyzer, file: ChangedFile) -> bool:
    source = file.new
    if source is None or not file.is_whole or source.is_binary or file.diff.is_symlink or is_generated(source):
        return False
    return analyzer.accepts(file.path)


def _compared(
    analyzer: Analyzer, files: Sequence[ChangedFile], now: Iterable[AnalyzerMessage], then: Iterable[AnalyzerMessage]
) -> Iterable[Finding]:
    """What is reported of the new version, each with whether the old one had it."""
    for file in files:
        if file.new is None:
            continue
        mine = [each for each in now if each.path == file.path and not _is_quiet(each)]
        for rule in dict.fromkeys(each.rule for each in mine):
            these = [each for each in mine if each.rule == rule]
            past = [_line(file.old, each) for each in then if each.path == file.path and each.rule == rule]
            lines = [(_line(file.new, each), each) for each in these]
            for each, is_new in zip(these, mark_new(lines, past), strict=True):
                yield _finding(analyzer, each, file, is_new=is_new)


def _is_quiet(reported: AnalyzerMessage) -> bool:
    return bool(TESTS.search(reported.path)) and reported.rule.startswith(QUIET_IN_TESTS)


def _line(source: FileVersion | None, reported: AnalyzerMessage) -> str:
    """The line it speaks of; with its message, since one line may be wrong in two ways."""
    return f"{source.line(reported.line) if source else ''} {reported.message}"


def _finding(analyzer: Analyzer, reported: AnalyzerMessage, file: ChangedFile, *, is_new: bool) -> Finding:
    span = LineSpan(reported.line, max(reported.line, reported.last))
    first = LineSpan(span.first, span.first)
    return Finding(
        rule=reported.rule,
        source=analyzer.name,
        title=reported.message.partition("\n")[0],
        body=reported.message,
        priority=reported.priority,
        category=reported.category,
        confidence=reported.confidence,
        path=file.path,
        span=span,
        quote=file.new.line(span.first).strip() if file.new else "",
        is_on_changed_line=file.touches(first),
        is_new=is_new,
        suggestion=reported.suggestion,
    )


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it said nothing")[:200]
