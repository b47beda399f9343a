"""Run analyzers over both versions of the changed files, in folders of their own; what both versions have is not new.

An analyzer that hangs, crashes or prints nonsense is a warning and a line of the coverage, never the end of a review.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from context_engine.model import Finding
from context_engine.repo import (
    describe_exit,
    find_program,
    minimal_environment,
    program_identity,
    quote_known_words,
    run_program,
    temporary_files,
)
from context_engine.review.analyzers import Analyzer, AnalyzerOutputError
from context_engine.review.finding import assign_ids, mark_new
from context_engine.review.review_options import ReviewOptions
from context_engine.review.reviewer import TESTS, is_generated
from context_engine.review.source_versions import FileVersion, ReviewedFile
from context_engine.review.verdict import NO_TIME, AnalyzerRun
from context_engine.text import LineSpan

ANALYZER_S = 20.0
"""One program over the files of one change; a compiler with a cold cache takes some ten seconds."""
FILES_MAX = 500
"""More paths are too long for the command line of some systems."""
TREE_FILES_MAX, TREE_BYTES_MAX = 5_000, 100_000_000
"""A compiler needs the whole tree; a larger one is left to the project's own CI."""
SAID_BYTES_MAX = 10_000
"""A program says at the beginning of its output why it failed."""
QUIET_IN_TESTS = ("S", "ASYNC", "B003", "B018", "B015", "F841", "PLR0124")
"""Rules that tests break on purpose."""

NO_ANALYZER = "CTX_REVIEW_PROGRAMS names it, but there is no such analyzer"

TreeReader = Callable[[], Mapping[str, bytes]]
"""Returns all files of a version."""


@dataclass(frozen=True, slots=True)
class AnalyzerReport:
    """The findings of the analyzers, and the outcome of each."""

    findings: tuple[Finding, ...] = ()
    runs: tuple[AnalyzerRun, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence for each analyzer that ran and failed."""
        return tuple(f"{run.name} {run.why_not}" for run in self.runs if run.ran and run.why_not)


@dataclass(frozen=True, slots=True)
class AnalyzerRunner:
    """The known analyzers, and the names of those that the user allowed to run code of the project.

    Only these are looked for in `tools`, folders of the workspace, and find the folders `linked` next to the files
    (`node_modules`). The others must not come from the workspace, which is `outside`: a repository could bring its own
    ruff.
    """

    analyzers: tuple[Analyzer, ...]
    allowed: frozenset[str] = frozenset()
    tools: tuple[str, ...] = ()
    outside: str = ""
    linked: Mapping[str, str] = field(default_factory=dict)
    analyzer_s: float = ANALYZER_S

    def run(
        self,
        files: Sequence[ReviewedFile],
        options: ReviewOptions,
        *,
        deadline: float,
        before: TreeReader = dict,
        after: TreeReader = dict,
        now: Callable[[], float] = time.monotonic,
        cancel: threading.Event | None = None,
    ) -> AnalyzerReport:
        """Run the analyzers over the changed files until `deadline`, a moment of `now`, or until `cancel` is set.

        Never raises for what a program does.
        """
        findings: list[Finding] = []
        runs = [AnalyzerRun(name, ran=False, why_not=NO_ANALYZER) for name in sorted(self._unknown_names())]
        for analyzer in self.analyzers:
            accepted = [file for file in files if _accepts(analyzer, file)]
            if not accepted:
                continue
            start = now()
            why_not = self._refusal(analyzer, options, deadline - start)
            if why_not:
                runs.append(AnalyzerRun(analyzer.name, ran=False, why_not=why_not))
                continue
            limit_s = min(self.analyzer_s, deadline - start)
            analysis = _Analysis(self, analyzer, accepted[:FILES_MAX], limit_s, cancel)
            found, problem = analysis.run(before, after)
            if not problem and len(accepted) > FILES_MAX:
                problem = f"looked at {FILES_MAX} of {len(accepted)} files"
            runs.append(AnalyzerRun(analyzer.name, True, round((now() - start) * 1_000), len(found), problem))
            findings += found
        return AnalyzerReport(assign_ids(findings), tuple(runs))

    def fingerprint(self, options: ReviewOptions, commit: str) -> str:
        """Return a text that changes when another program would run, or would see another tree."""
        used = [analyzer for analyzer in self.analyzers if not self._refusal(analyzer, options, 1.0)]
        programs = [f"{analyzer.name}={program_identity(self.find_program(analyzer))}" for analyzer in used]
        needs_tree = any(analyzer.needs_whole_tree for analyzer in used)
        return "\n".join([*programs, *([commit] if needs_tree else [])])

    def find_program(self, analyzer: Analyzer) -> str:
        """Return the path of a program; empty when it is not installed."""
        if analyzer.runs_project_code:  # the user allowed it
            return find_program(analyzer.program, beside=self.tools)
        return find_program(analyzer.program, outside=self.outside)

    def _unknown_names(self) -> frozenset[str]:
        """Return the names that the user allowed and that no analyzer has."""
        return self.allowed - {"", *(analyzer.name for analyzer in self.analyzers)}

    def _refusal(self, analyzer: Analyzer, options: ReviewOptions, left_s: float) -> str:
        """Return why an analyzer does not run; empty when it does."""
        chosen = options.analyzers
        if chosen == "none" or (chosen != "auto" and analyzer.name not in chosen):
            return "not asked for"
        if analyzer.runs_project_code and analyzer.name not in self.allowed:
            return "it runs code of the project, which CTX_REVIEW_PROGRAMS does not allow"
        if not self.find_program(analyzer):
            return "not installed"
        return NO_TIME if left_s <= 0 else ""


@dataclass(frozen=True, slots=True)
class _Analysis:
    """One analyzer over the files of one change, in both versions within `limit_s`."""

    runner: AnalyzerRunner
    analyzer: Analyzer
    files: Sequence[ReviewedFile]
    limit_s: float
    cancel: threading.Event | None

    def run(self, before: TreeReader, after: TreeReader) -> tuple[list[Finding], str]:
        """Return the findings, or why there are none."""
        new = {file.path: file.new.data for file in self.files if file.new is not None}
        old = {file.path: file.old.data for file in self.files if file.old is not None}
        if self.analyzer.needs_whole_tree:
            tree = after()
            if len(tree) > TREE_FILES_MAX or sum(map(len, tree.values())) > TREE_BYTES_MAX or not tree:
                return [], "wants the whole tree, which is not known here or too large"
            if missing := [name for name in self.analyzer.required_files if name not in tree]:
                return [], f"is not used here: there is no {missing[0]}"
            new, old = {**tree, **new}, {**before(), **old}
        if not self.analyzer.needs_whole_tree:  # one start of the program for both versions
            both = {f"new/{path}": data for path, data in new.items()} | {f"old/{path}": old[path] for path in old}
            messages, problem = self._run_program(both, sorted(both), self.limit_s)
            sides = [_below(side, messages) for side in ("new", "old")]
            return list(self._compare(*sides)), problem
        end = time.monotonic() + self.limit_s
        messages, problem = self._run_program(new, sorted(file.path for file in self.files), self.limit_s)
        if problem or not messages:
            return [], problem
        old_messages, problem = self._run_program(old, sorted(new), end - time.monotonic())
        return ([], problem) if problem else (list(self._compare(messages, old_messages)), "")

    def _run_program(
        self, files: Mapping[str, bytes], paths: Sequence[str], limit_s: float
    ) -> tuple[Sequence[Finding], str]:
        """Return the messages of the program on one version, or why there are none."""
        present = [path for path in paths if path in files]
        if not present:
            return (), ""
        analyzer = self.analyzer
        command = analyzer.command(self.runner.find_program(analyzer), present)
        with temporary_files(files, self.runner.linked if analyzer.runs_project_code else {}) as folder:
            result = run_program(
                command,
                folder,
                limit_s=limit_s,
                environment=minimal_environment(os.environ, analyzer.offline),
                cancel=self.cancel,
            )
            if result.problem:
                return (), result.problem
            output = f"{result.err}\n{result.out[:SAID_BYTES_MAX].decode(errors='replace')}"
            if result.exit not in analyzer.good_exits:
                return (), f"failed with {describe_exit(result.exit, output)}"
            try:
                return analyzer.read(result.out, result.err, folder), ""
            except AnalyzerOutputError:
                return (), f"printed what cannot be read, {describe_exit(result.exit, output)}"

    def _compare(self, messages: Iterable[Finding], old_messages: Iterable[Finding]) -> Iterator[Finding]:
        """Yield the findings in the new version, each with whether it is new."""
        groups: dict[tuple[str, str], list[Finding]] = {}
        for message in messages:
            if not (message.rule.startswith(QUIET_IN_TESTS) and TESTS.search(message.path)):
                groups.setdefault((message.path, message.rule), []).append(message)
        files = {file.path: file for file in self.files}
        for (path, rule), group in groups.items():
            file = files.get(path)
            if file is None or file.new is None:
                continue
            old_group = [old for old in old_messages if (old.path, old.rule) == (path, rule)]
            lines = [_line_with_message(file.new, message) for message in group]
            old_lines = [_line_with_message(file.old, message) for message in old_group]
            for message, is_new in zip(group, mark_new(lines, old_lines), strict=True):
                yield self._complete(message, file, file.new, is_new=is_new)

    def _complete(self, finding: Finding, file: ReviewedFile, new: FileVersion, *, is_new: bool) -> Finding:
        text = finding.body
        if self.analyzer.runs_project_code:  # which can read any file, and make its program print it
            text = quote_known_words(text, new.text)
        return replace(
            finding,
            source=self.analyzer.name,
            title=text.partition("\n")[0],
            body=text,
            quote=new.line(finding.line).strip(),
            is_on_changed_line=file.touches(LineSpan(finding.line, finding.line)),
            is_new=is_new,
        )


def _below(folder: str, messages: Iterable[Finding]) -> list[Finding]:
    """Return the messages about files below a folder, with paths relative to it."""
    below = [message for message in messages if message.path.startswith(f"{folder}/")]
    return [replace(message, path=message.path.removeprefix(f"{folder}/")) for message in below]


def _accepts(analyzer: Analyzer, file: ReviewedFile) -> bool:
    source = file.new
    if source is None or not file.is_whole or source.is_binary or file.diff.is_symlink or is_generated(source):
        return False
    return analyzer.accepts(file.path)


def _line_with_message(source: FileVersion | None, message: Finding) -> str:
    """Return the line of a message with its text, since one line may be wrong in two ways."""
    return f"{source.line(message.line) if source else ''} {message.body}"
