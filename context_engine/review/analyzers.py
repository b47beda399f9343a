"""The external analyzers: what each of them is, its command line, and how its output becomes findings.

    runs no code of the project   ruff, typos: always run where they are installed
    runs code of the project      eslint (its configuration), tsc, go vet, cargo (build scripts): if the user allows it

The compilers and eslint know more than any check of this package. None of them reaches another machine: what their
caches lack is their error, and a line of the coverage.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from context_engine.model import Finding, Suggestion
from context_engine.text import OUTPUT_BYTES_MAX, LineSpan, read_json

COMPILER = (1, "correctness", 0.85)


class AnalyzerOutputError(Exception):
    """The output of a program is not what it should be; the message is that output."""


Command = Callable[[str, Sequence[str]], Sequence[str]]
"""Takes the path of the program and those of the files; returns the command line."""
Read = Callable[[bytes, str, Path], Sequence[Finding]]
"""Takes stdout, stderr and the folder of the run; returns the findings. Raises: AnalyzerOutputError."""
Kind = tuple[int, str, float]
"""Priority, category and confidence."""


@dataclass(frozen=True, slots=True)
class Analyzer:
    """One program and the files it reads, by `suffixes`; without any it reads every file.

    With `needs_whole_tree` it sees all files of the tree, of which `required_files` show that it is used here.
    `runs_project_code`: to start it is to run what the repository wrote. `offline` keeps it from the network.
    """

    name: str
    program: str
    suffixes: tuple[str, ...]
    command: Command
    read: Read
    runs_project_code: bool = False
    needs_whole_tree: bool = False
    required_files: tuple[str, ...] = ()
    good_exits: tuple[int, ...] = (0,)
    offline: Mapping[str, str] | None = None

    def accepts(self, path: str) -> bool:
        """Whether it reads this file."""
        return not self.suffixes or path.endswith(self.suffixes)


def relative_path(path: str, folder: Path) -> str:
    """Return a path of a program's output, relative to the folder of the run.

    >>> relative_path("/tmp/x/src/a.py", Path("/tmp/x")), relative_path("./a.py", Path("/tmp/x"))
    ('src/a.py', 'a.py')
    """
    return path.replace("\\", "/").removeprefix(f"{folder.as_posix()}/").removeprefix("./")


def report(
    path: str, lines: tuple[Any, Any], rule: str, text: str, kind: Kind, fix: Suggestion | None = None
) -> Finding:
    """Return a finding of a program; `lines` are the first and the last."""
    priority, category, confidence = kind
    first, last = int(lines[0]), int(lines[1])
    span = LineSpan(first, max(first, last))
    return Finding(rule, "", text, text, priority, category, confidence, path, span, suggestion=fix)


def _read_rows(rows: Callable[[], list[Finding]], problem: str) -> list[Finding]:
    """Return the findings that `rows` makes of JSON. Raises: AnalyzerOutputError when the JSON is something else."""
    try:
        return rows()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise AnalyzerOutputError(problem or repr(error)) from error


# -- ruff --------------------------------------------------------------------------------------------------------------

RUFF_RULES = (
    "E9 F4 F5 F6 F7 F82 F84 F9 PLE "
    "B002 B003 B005 B006 B012 B015 B016 B018 B020 B021 B023 B025 B029 B030 B031 B032 B033 B035 B039 "
    "S102 S301 S302 S306 S307 S323 S501 S502 S503 S504 S506 S508 S509 S602 S605 S608 S611 S612 S701 S702 "
    "ASYNC210 ASYNC220 ASYNC221 ASYNC222 ASYNC251 "
    "PLW0129 PLW0133 PLW0177 PLW0211 PLW0245 PLW1501 PLW1507 PLW1509 PLR0124 T100"
).split()
"""The rules that find mistakes, not style. F811, B026 and PLW0127 were wrong or useless on commits (evals/noise)."""
RUFF_IGNORED = ("F405", "F403", "F406", "F407")
"""Star imports: a style, and what follows from it."""
RUFF_KINDS: tuple[tuple[str, Kind], ...] = (
    ("F401", (3, "maintainability", 0.65)),
    ("F841", (3, "maintainability", 0.65)),
    ("F541", (3, "style", 0.75)),
    ("F82", (1, "correctness", 0.85)),
    ("F", (1, "correctness", 0.85)),
    ("E9", (0, "correctness", 0.9)),
    ("PLE", (1, "correctness", 0.85)),
    ("B018", (2, "correctness", 0.65)),
    ("B023", (2, "correctness", 0.65)),
    ("B", (2, "correctness", 0.75)),
    ("S301", (2, "security", 0.6)),
    ("S602", (1, "security", 0.7)),
    ("S605", (1, "security", 0.65)),
    ("S608", (1, "security", 0.6)),
    ("S701", (1, "security", 0.65)),
    ("S", (1, "security", 0.75)),
    ("ASYNC", (1, "performance", 0.75)),
    ("PL", (2, "correctness", 0.8)),
    ("T100", (1, "correctness", 0.9)),
    ("", (2, "correctness", 0.7)),
)
"""By the beginning of a rule's name; the first one that fits counts."""
OLDER_NAMES = (
    *("reveal_type", "reveal_locals"),
    *("unicode", "basestring", "long", "xrange", "raw_input", "unichr", "reload", "reduce", "execfile", "file", "cmp"),
)
"""Names of type checkers and of Python 2, which Python 3 does not define."""


def _ruff_command(program: str, paths: Sequence[str]) -> Sequence[str]:
    """Return `ruff check` without the project's settings: its own CI cares for its style.

    The target is Python 3.13, since 3.14 accepts `except ValueError, e` of old code.
    """
    rules = f"--select={','.join(RUFF_RULES)}", f"--ignore={','.join(RUFF_IGNORED)}"
    options = "--isolated", "--no-cache", "--quiet", "--output-format=json", "--target-version=py313"
    return [program, "check", *options, *rules, "--", *paths]


def read_ruff(out: bytes, complaint: str, folder: Path) -> Sequence[Finding]:
    """Read ruff's JSON, except files that it cannot parse: it only guesses there, and a check reports their syntax."""

    def messages() -> list[Finding]:
        rows = read_json(out or b"[]", bytes_max=OUTPUT_BYTES_MAX)
        unparsed = {row["filename"] for row in rows if row["code"] in (None, "invalid-syntax")}
        wanted = [row for row in rows if row["filename"] not in unparsed and not _is_older_name(row)]
        return [_read_ruff_row(row, folder) for row in wanted]

    return _read_rows(messages, complaint)


def _is_older_name(row: Any) -> bool:
    return row["code"] == "F821" and any(f"`{name}`" in row["message"] for name in OLDER_NAMES)


def _read_ruff_row(row: Any, folder: Path) -> Finding:
    rule, lines = row["code"], (row["location"]["row"], row["end_location"]["row"])
    kind = next(kind for start, kind in RUFF_KINDS if rule.startswith(start))
    fix = (row.get("fix") or {}).get("message")
    suggestion = Suggestion(fix, can_auto_fix=True) if fix else None
    return report(relative_path(row["filename"], folder), lines, rule, row["message"], kind, suggestion)


# -- typos -------------------------------------------------------------------------------------------------------------

TYPO: Kind = (3, "documentation", 0.7)


def _typos_command(program: str, paths: Sequence[str]) -> Sequence[str]:
    return [program, "--isolated", "--format=json", "--", *paths]


def read_typos(out: bytes, complaint: str, folder: Path) -> Sequence[Finding]:
    """Read the lines of typos, one JSON object each; other kinds than `typo` are notes, such as on a binary file."""

    def messages() -> list[Finding]:
        rows = [read_json(line) for line in out.splitlines() if line.strip()]
        return [_read_typo(row, folder) for row in rows if row.get("type") == "typo"]

    return _read_rows(messages, complaint)


def _read_typo(row: Any, folder: Path) -> Finding:
    corrections, line = ", ".join(row.get("corrections") or ()), row.get("line_num", 1)
    text = f"{row['typo']} is spelled {corrections or 'otherwise'}."
    suggestion = Suggestion(f"write {corrections}") if corrections else None
    return report(relative_path(row["path"], folder), (line, line), "typo", text, TYPO, suggestion)


# -- JavaScript and TypeScript: programs of the project's own node_modules ---------------------------------------------

SCRIPT_SUFFIXES = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts")
ESLINT_FATAL, ESLINT_ERROR, ESLINT_WARNING = (0, "correctness", 0.8), (2, "correctness", 0.8), (3, "style", 0.7)
"""An error of the project's own configuration is meant; its warnings are often left."""
_TSC_LINE = re.compile(r"^(.+?)\((\d+),\d+\): error (TS\d+): (.*)$", re.MULTILINE)


def _eslint_command(program: str, paths: Sequence[str]) -> Sequence[str]:
    return [program, "--format=json", "--no-error-on-unmatched-pattern", "--", *paths]


def read_eslint(out: bytes, complaint: str, folder: Path) -> Sequence[Finding]:
    """Read eslint's JSON. A row without a rule is about eslint itself, such as a file that it does not read."""

    def messages() -> list[Finding]:
        found = []
        for file in read_json(out, bytes_max=OUTPUT_BYTES_MAX):
            path = relative_path(file["filePath"], folder)
            rows = [row for row in file["messages"] if row.get("ruleId") or row.get("fatal")]
            found += [_read_eslint_row(row, path) for row in rows]
        return found

    return _read_rows(messages, complaint)


def _read_eslint_row(row: Any, path: str) -> Finding:
    kind = ESLINT_FATAL if row.get("fatal") else ESLINT_ERROR if row.get("severity") == 2 else ESLINT_WARNING
    line = row.get("line") or 1
    lines = (line, row.get("endLine") or line)
    return report(path, lines, row.get("ruleId") or "syntax-error", row["message"], kind)


def _tsc_command(program: str, paths: Sequence[str]) -> Sequence[str]:  # noqa: ARG001 - tsconfig.json names the files
    return [program, "--noEmit", "--pretty", "false", "--incremental", "false"]


def read_tsc(out: bytes, complaint: str, folder: Path) -> Sequence[Finding]:
    """Read the lines `path(line,column): error TS2322: message` of tsc."""
    text = out.decode("utf-8", "replace")
    messages = [
        report(relative_path(path, folder), (line, line), rule, message, COMPILER)
        for path, line, rule, message in _TSC_LINE.findall(text)
    ]
    if not messages and text.strip():
        raise AnalyzerOutputError(complaint or text)
    return messages


# -- Go and Rust: compilers that know every type -----------------------------------------------------------------------

RUST_ERROR, RUST_WARNING = (0, "correctness", 0.85), (2, "maintainability", 0.75)
_VET_LINE = re.compile(r"^(?:vet: )?(\S+?\.go):(\d+):(?:\d+:)? (.+)$", re.MULTILINE)


def _vet_command(program: str, paths: Sequence[str]) -> Sequence[str]:
    """Return `go vet` of the packages that contain the files."""
    return [program, "vet", *sorted({f"./{path.rpartition('/')[0]}".rstrip("/") for path in paths})]


def read_vet(out: bytes, complaint: str, folder: Path) -> Sequence[Finding]:
    """Read the lines `path:line:column: message` of go vet; errors of the compiler have the same form."""
    text = complaint or out.decode("utf-8", "replace")
    messages = [
        report(relative_path(path, folder), (line, line), "vet", message, COMPILER)
        for path, line, message in _VET_LINE.findall(text)
    ]
    if not messages and text.strip() and not all(line.startswith("#") for line in text.strip().splitlines()):
        raise AnalyzerOutputError(text)
    return messages


def _cargo_command(program: str, paths: Sequence[str]) -> Sequence[str]:  # noqa: ARG001 - it reads the whole workspace
    return [program, "check", "--workspace", "--all-targets", "--offline", "--quiet", "--message-format=json"]


def read_cargo(out: bytes, complaint: str, folder: Path) -> Sequence[Finding]:
    """Read cargo's JSON. Messages without a place are summaries; tests are compiled separately and repeat messages."""
    lines = [line for line in out.splitlines() if line.startswith(b"{")]
    if not lines and complaint.strip():
        raise AnalyzerOutputError(complaint)

    def messages() -> list[Finding]:
        rows = map(read_json, lines)
        found = [_read_rustc(row["message"], folder) for row in rows if row.get("reason") == "compiler-message"]
        return [message for message in found if message is not None]

    return list(dict.fromkeys(_read_rows(messages, complaint)))


def _read_rustc(message: Any, folder: Path) -> Finding | None:
    place = next((span for span in message["spans"] if span["is_primary"]), None)
    if place is None or message["level"] not in ("error", "warning"):
        return None
    rule, lines = (message.get("code") or {}).get("code") or "rustc", (place["line_start"], place["line_end"])
    kind = RUST_ERROR if message["level"] == "error" else RUST_WARNING
    return report(relative_path(place["file_name"], folder), lines, rule, message["message"], kind)


# -- all of them -------------------------------------------------------------------------------------------------------

RUFF = Analyzer("ruff", "ruff", (".py", ".pyi"), _ruff_command, read_ruff, good_exits=(0, 1))
TYPOS = Analyzer("typos", "typos", (), _typos_command, read_typos, good_exits=(0, 2))
ESLINT = Analyzer(
    "eslint",
    "eslint",
    SCRIPT_SUFFIXES,
    _eslint_command,
    read_eslint,
    runs_project_code=True,
    needs_whole_tree=True,
    good_exits=(0, 1),
)
TSC = Analyzer(
    "tsc",
    "tsc",
    (".ts", ".tsx", ".mts", ".cts"),
    _tsc_command,
    read_tsc,
    runs_project_code=True,
    needs_whole_tree=True,
    required_files=("tsconfig.json",),
    good_exits=(0, 1, 2),
)
GO_VET = Analyzer(
    "go vet",
    "go",
    (".go",),
    _vet_command,
    read_vet,
    runs_project_code=True,
    needs_whole_tree=True,
    required_files=("go.mod",),
    good_exits=(0, 1, 2),
    offline={"GOPROXY": "off", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"},
)
CARGO = Analyzer(
    "cargo check",
    "cargo",
    (".rs",),
    _cargo_command,
    read_cargo,
    runs_project_code=True,
    needs_whole_tree=True,
    required_files=("Cargo.toml",),
    good_exits=(0, 101),
    offline={"CARGO_NET_OFFLINE": "true", "CARGO_INCREMENTAL": "0"},
)
ALL = (RUFF, TYPOS, ESLINT, GO_VET, TSC, CARGO)
"""In the order in which they run: the quick ones first."""
