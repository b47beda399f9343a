"""The external analyzers: what each is and prints, and how they run over both versions of the changed files.

    runs no code of the project   ruff, typos: always run where they are installed
    runs code of the project      eslint (its configuration), tsc, go vet, cargo (build scripts): if the user allows it

They run in folders of their own; what both versions have is not new. None reaches another machine. One that hangs,
crashes or prints nonsense is a warning and a line of the coverage, never the end of a review.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from context_engine.model import Finding, Suggestion
from context_engine.repo import (
    describe_exit,
    find_program,
    minimal_environment,
    program_identity,
    quote_known_words,
    run_program,
    temporary_files,
)
from context_engine.review.checks.check import read_declarations
from context_engine.review.finding import ReviewOptions, assign_ids
from context_engine.review.reviewer import is_generated
from context_engine.review.source_versions import ReviewedChange, ReviewedFile, is_test
from context_engine.review.verdict import NO_TIME, AnalyzerRun
from context_engine.text import OUTPUT_BYTES_MAX, LineSpan, read_json

Kind = tuple[int, str, float]
"""Priority, category and confidence."""
Read = Callable[[bytes, str, Path], Sequence[Finding]]
"""Takes stdout, stderr and the folder of the run; returns the findings. Raises: OUTPUT_ERRORS."""
OUTPUT_ERRORS = (ValueError, KeyError, TypeError, AttributeError)
"""The output of a program is not what it should be."""


class Analyzer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One program and the files it reads, by `suffixes`; without any it reads every file.

    With `needs_whole_tree` it sees all files of the tree, of which `required_files` show that it is used here.
    `runs_project_code`: to start it is to run what the repository wrote. `offline` keeps it from the network.
    """

    name: str
    program: str
    args: tuple[str, ...]
    read: Any
    """A `Read`."""
    suffixes: tuple[str, ...] = ()
    runs_project_code: bool = False
    needs_whole_tree: bool = False
    required_files: tuple[str, ...] = ()
    good_exits: tuple[int, ...] = (0,)
    offline: Mapping[str, str] | None = None

    def accepts(self, file: ReviewedFile) -> bool:
        """Whether it reads this file: a whole text that no program wrote."""
        source = file.new
        if source is None or not file.is_whole or source.is_binary or file.diff.is_symlink or is_generated(source):
            return False
        return not self.suffixes or file.path.endswith(self.suffixes)

    def command(self, program: str, paths: Sequence[str]) -> list[str]:
        """Return the command line for these files."""
        folders = sorted({f"./{path.rpartition('/')[0]}".rstrip("/") for path in paths})
        named = {"{files}": paths, "{folders}": folders}
        return [program, *(word for arg in self.args for word in named.get(arg, (arg,)))]


_DECLARED: dict[str, Any] = msgspec.toml.decode(read_declarations("analyzers.toml"))
_RUFF_KINDS = msgspec.convert(_DECLARED["ruff_kinds"], dict[str, Kind])


def report(
    path: str, lines: tuple[Any, Any], rule: str, text: str, kind: Kind, fix: Suggestion | None = None
) -> Finding:
    """Return a finding of a program; `lines` are the first and the last."""
    priority, category, confidence = kind
    first, last = int(lines[0]), int(lines[1])
    span = LineSpan(first, max(first, last))
    return Finding(rule, "", text, text, priority, category, confidence, path, span, suggestion=fix)


def _relative(path: str, folder: Path) -> str:
    """Return a path of a program's output, relative to the folder of the run.

    >>> _relative("/tmp/x/src/a.py", Path("/tmp/x")), _relative("./a.py", Path("/tmp/x"))
    ('src/a.py', 'a.py')
    """
    return path.replace("\\", "/").removeprefix(f"{folder.as_posix()}/").removeprefix("./")


# -- ruff and typos ----------------------------------------------------------------------------------------------------

OLDER_NAMES = (
    *("reveal_type", "reveal_locals"),
    *("unicode", "basestring", "long", "xrange", "raw_input", "unichr", "reload", "reduce", "execfile", "file", "cmp"),
)
"""Names of type checkers and of Python 2, which Python 3 does not define."""
TYPO: Kind = (3, "documentation", 0.7)


def _read_ruff(out: bytes, _complaint: str, folder: Path) -> Sequence[Finding]:
    """Read ruff's JSON, except files that it cannot parse: it only guesses there, and a check reports their syntax."""
    rows = read_json(out or b"[]", bytes_max=OUTPUT_BYTES_MAX)
    unparsed = {row["filename"] for row in rows if row["code"] in (None, "invalid-syntax")}
    found = []
    for row in rows:
        rule, message = row["code"], row["message"]
        is_older_name = rule == "F821" and any(f"`{name}`" in message for name in OLDER_NAMES)
        if row["filename"] in unparsed or is_older_name:
            continue
        kind = next(kind for start, kind in _RUFF_KINDS.items() if rule.startswith(start))
        fix = (row.get("fix") or {}).get("message")
        lines = row["location"]["row"], row["end_location"]["row"]
        suggestion = Suggestion(fix, can_auto_fix=True) if fix else None
        found.append(report(_relative(row["filename"], folder), lines, rule, message, kind, suggestion))
    return found


def read_typos(out: bytes, _complaint: str, folder: Path) -> Sequence[Finding]:
    """Read the lines of typos, one JSON object each; other kinds than `typo` are notes, such as on a binary file."""
    found = []
    for row in [read_json(line) for line in out.splitlines() if line.strip()]:
        if row.get("type") == "typo":
            corrections, line = ", ".join(row.get("corrections") or ()), row.get("line_num", 1)
            text = f"{row['typo']} is spelled {corrections or 'otherwise'}."
            fix = Suggestion(f"write {corrections}") if corrections else None
            found.append(report(_relative(row["path"], folder), (line, line), "typo", text, TYPO, fix))
    return found


# -- JavaScript and TypeScript -----------------------------------------------------------------------------------------

ESLINT_FATAL, ESLINT_ERROR, ESLINT_WARNING = (0, "correctness", 0.8), (2, "correctness", 0.8), (3, "style", 0.7)
"""An error of the project's own configuration is meant; its warnings are often left."""
COMPILER = (1, "correctness", 0.85)
_TSC_LINE = re.compile(r"^(?P<path>.+?)\((?P<line>\d+),\d+\): error (?P<rule>TS\d+): (?P<text>.*)$", re.MULTILINE)


def read_eslint(out: bytes, _complaint: str, folder: Path) -> Sequence[Finding]:
    """Read eslint's JSON. A row without a rule is about eslint itself, such as a file that it does not read."""
    found = []
    for file in read_json(out, bytes_max=OUTPUT_BYTES_MAX):
        for row in file["messages"]:
            rule, is_fatal = row.get("ruleId"), row.get("fatal")
            if rule or is_fatal:
                kind = ESLINT_FATAL if is_fatal else ESLINT_ERROR if row.get("severity") == 2 else ESLINT_WARNING
                line, path = row.get("line") or 1, _relative(file["filePath"], folder)
                lines = (line, row.get("endLine") or line)
                found.append(report(path, lines, rule or "syntax-error", row["message"], kind))
    return found


def read_tsc(out: bytes, complaint: str, folder: Path) -> Sequence[Finding]:
    """Read the lines `path(line,column): error TS2322: message` of tsc."""
    text = out.decode("utf-8", "replace")
    return _read_lines(_TSC_LINE, text, complaint or text, folder)


def _read_lines(pattern: re.Pattern[str], text: str, complaint: str, folder: Path) -> Sequence[Finding]:
    """Read the lines of a compiler; a text without one of them is a complaint, except comments."""
    found = [
        report(
            _relative(row["path"], folder),
            (row["line"], row["line"]),
            row.groupdict().get("rule", "vet"),
            row["text"],
            COMPILER,
        )
        for row in pattern.finditer(text)
    ]
    if not found and any(line.strip() and not line.startswith("#") for line in text.splitlines()):
        raise ValueError(complaint)
    return found


# -- Go and Rust: compilers that know every type -----------------------------------------------------------------------

RUST_KINDS: Mapping[str, Kind] = {"error": (0, "correctness", 0.85), "warning": (2, "maintainability", 0.75)}
_VET_LINE = re.compile(r"^(?:vet: )?(?P<path>\S+?\.go):(?P<line>\d+):(?:\d+:)? (?P<text>.+)$", re.MULTILINE)


def read_vet(out: bytes, complaint: str, folder: Path) -> Sequence[Finding]:
    """Read the lines `path:line:column: message` of go vet; errors of the compiler have the same form."""
    text = complaint or out.decode("utf-8", "replace")
    return _read_lines(_VET_LINE, text, text, folder)


def read_cargo(out: bytes, complaint: str, folder: Path) -> Sequence[Finding]:
    """Read cargo's JSON. Messages without a place are summaries; tests are compiled separately and repeat messages."""
    lines = [line for line in out.splitlines() if line.startswith(b"{")]
    if not lines and complaint.strip():
        raise ValueError(complaint)
    found = []
    for row in map(read_json, lines):
        message: dict[str, Any] = row["message"] if row.get("reason") == "compiler-message" else {"spans": ()}
        place = next((span for span in message["spans"] if span["is_primary"]), None)
        if place and message["level"] in RUST_KINDS:
            rule, span = (message.get("code") or {}).get("code") or "rustc", (place["line_start"], place["line_end"])
            path, kind = _relative(place["file_name"], folder), RUST_KINDS[message["level"]]
            found.append(report(path, span, rule, message["message"], kind))
    return list(dict.fromkeys(found))


_READERS: Mapping[str, Read] = {
    "ruff": _read_ruff,
    "typos": read_typos,
    "eslint": read_eslint,
    "go vet": read_vet,
    "tsc": read_tsc,
    "cargo check": read_cargo,
}
ALL = tuple(msgspec.convert(row | {"read": _READERS[row["name"]]}, Analyzer) for row in _DECLARED["analyzer"])
RUFF = ALL[0]

# -- running them ------------------------------------------------------------------------------------------------------

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
    """The known analyzers, and those that the user `allowed` to run code of the project, each by its name or its path.

    Only these find the folders `linked` next to the files (`node_modules`). A program comes from the PATH and not from
    the workspace, which is `outside`, since a repository could bring its own, unless the user gave its path there.
    They read copies in `scratch`.
    """

    analyzers: tuple[Analyzer, ...]
    scratch: Path
    allowed: frozenset[str] = frozenset()
    outside: str = ""
    linked: Mapping[str, str] = field(default_factory=dict)
    analyzer_s: float = ANALYZER_S

    def run(
        self,
        change: ReviewedChange,
        options: ReviewOptions,
        *,
        deadline: float,
        cancel: threading.Event | None = None,
    ) -> AnalyzerReport:
        """Run the analyzers over the changed files until `deadline`, a moment of `time.monotonic`, or `cancel`.

        Never raises for what a program does.
        """
        unknown = self.allowed - {"", *(one.name for one in self.analyzers), *map(self._named_by, self.analyzers)}
        problem = "CTX_REVIEW_PROGRAMS names it, but there is no such analyzer"
        runs = [AnalyzerRun(name, ran=False, why_not=problem) for name in sorted(unknown)]
        findings: list[Finding] = []
        for analyzer in self.analyzers:
            accepted = list(filter(analyzer.accepts, change.files))
            if not accepted:
                continue
            start = time.monotonic()
            if why_not := self._refusal(analyzer, options, deadline - start):
                runs.append(AnalyzerRun(analyzer.name, ran=False, why_not=why_not))
                continue
            limit_s = min(self.analyzer_s, deadline - start)
            analysis = _Analysis(self, analyzer, accepted[:FILES_MAX], limit_s, cancel)
            try:
                found, problem = analysis.run(change)
            except OSError as error:
                found, problem = [], f"gets no copies of the files: {error.strerror}"
            if not problem and len(accepted) > FILES_MAX:
                problem = f"looked at {FILES_MAX} of {len(accepted)} files"
            ms = round((time.monotonic() - start) * 1_000)
            runs.append(AnalyzerRun(analyzer.name, True, ms, len(found), problem))
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
        named = self._named_by(analyzer)
        if "/" in named:  # the user wants this very one
            return find_program(str(Path(self.outside, named)))
        return find_program(analyzer.program, outside=self.outside)

    def _named_by(self, analyzer: Analyzer) -> str:
        """Return by what the user allowed an analyzer, its name or the path of its program; empty if he did not."""
        paths = (entry for entry in sorted(self.allowed) if entry.endswith(f"/{analyzer.program}"))
        return next(paths, analyzer.name if analyzer.name in self.allowed else "")

    def _refusal(self, analyzer: Analyzer, options: ReviewOptions, left_s: float) -> str:
        chosen = options.analyzers
        if chosen == "none" or (chosen != "auto" and analyzer.name not in chosen):
            return "not asked for"
        if analyzer.runs_project_code and not self._named_by(analyzer):
            return "it runs code of the project, which CTX_REVIEW_PROGRAMS does not allow"
        if not self.find_program(analyzer):
            own = f" on the PATH; node_modules/.bin/{analyzer.program} there allows the project's own"
            return f"not installed{own if analyzer.runs_project_code else ''}"
        return NO_TIME if left_s <= 0 else ""


@dataclass(frozen=True, slots=True)
class _Analysis:
    """One analyzer over the files of one change, in both versions within `limit_s`."""

    runner: AnalyzerRunner
    analyzer: Analyzer
    files: Sequence[ReviewedFile]
    limit_s: float
    cancel: threading.Event | None

    def run(self, change: ReviewedChange) -> tuple[list[Finding], str]:
        """Return the findings, or why there are none."""
        new = {file.path: file.new.data for file in self.files if file.new is not None}
        old = {file.path: file.old.data for file in self.files if file.old is not None}
        if not self.analyzer.needs_whole_tree:  # one start of the program for both versions
            both = {f"new/{path}": data for path, data in new.items()} | {f"old/{path}": old[path] for path in old}
            messages, problem = self._run_program(both, sorted(both), self.limit_s)
            sides = {"new": [], "old": []}
            for message in messages:
                side, _, path = message.path.partition("/")
                sides.get(side, []).append(replace(message, path=path))
            return list(self._compare(sides["new"], sides["old"])), problem
        tree = change.context.read(change.context.list_paths())
        if len(tree) > TREE_FILES_MAX or sum(map(len, tree.values())) > TREE_BYTES_MAX or not tree:
            return [], "wants the whole tree, which is not known here or too large"
        if missing := [name for name in self.analyzer.required_files if name not in tree]:
            return [], f"is not used here: there is no {missing[0]}"
        end = time.monotonic() + self.limit_s
        messages, problem = self._run_program({**tree, **new}, sorted(new), self.limit_s)
        if problem or not messages:
            return [], problem
        left_s = end - time.monotonic()
        old_messages, problem = self._run_program({**change.before(), **old}, sorted({**tree, **new}), left_s)
        return ([], problem) if problem else (list(self._compare(messages, old_messages)), "")

    def _run_program(
        self, files: Mapping[str, bytes], paths: Sequence[str], limit_s: float
    ) -> tuple[Sequence[Finding], str]:
        present = [path for path in paths if path in files]
        if not present:
            return (), ""
        analyzer = self.analyzer
        command = analyzer.command(self.runner.find_program(analyzer), present)
        environment = minimal_environment(os.environ, analyzer.offline)
        linked = self.runner.linked if analyzer.runs_project_code else {}
        with temporary_files(self.runner.scratch, files, linked) as folder:
            result = run_program(command, folder, limit_s=limit_s, environment=environment, cancel=self.cancel)
            if result.problem:
                return (), result.problem
            output = f"{result.err}\n{result.out[:SAID_BYTES_MAX].decode(errors='replace')}"
            if result.exit not in analyzer.good_exits:
                return (), f"failed with {describe_exit(result.exit, output)}"
            try:
                return analyzer.read(result.out, result.err, folder), ""
            except OUTPUT_ERRORS:
                return (), f"printed what cannot be read, {describe_exit(result.exit, output)}"

    def _compare(self, messages: Iterable[Finding], old_messages: Iterable[Finding]) -> Iterator[Finding]:
        sides: dict[str, tuple[list[Finding], list[Finding]]] = {}
        for number, side in enumerate((messages, old_messages)):
            for message in side:
                if not (message.rule.startswith(QUIET_IN_TESTS) and is_test(message.path)):
                    sides.setdefault(message.path, ([], []))[number].append(message)
        for file in self.files:
            for finding in file.compare(*sides.get(file.path, ((), ()))):
                yield self._complete(finding, file)

    def _complete(self, finding: Finding, file: ReviewedFile) -> Finding:
        text = finding.body
        if self.analyzer.runs_project_code and file.new:  # it can read any file, and make its program print it
            text = quote_known_words(text, file.new.text)
        return replace(finding, source=self.analyzer.name, title=text.partition("\n")[0], body=text)
