"""go vet and cargo check: compilers that know every type.

They run what the project's build runs, so the user has to allow them.

Neither reaches another machine: what their caches lack is an error of theirs, and a row of the coverage.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from context_engine.review.analyzers.analyzer import Analyzer, AnalyzerMessage, AnalyzerOutputError, relative_path
from context_engine.text import read_json

CONFIDENCE = 0.85
LINT_CONFIDENCE = 0.75


def vet_command(program: str, paths: Sequence[str]) -> Sequence[str]:
    """`go vet` of the packages that the files are in."""
    packages = sorted({f"./{path.rpartition('/')[0]}".rstrip("/") for path in paths})
    return [program, "vet", *packages]


def read_vet(out: bytes, complaint: str, folder: Path) -> Sequence[AnalyzerMessage]:
    """Its complaints `path:line:column: why`; compile errors look the same."""
    told = complaint or out.decode("utf-8", "replace")
    found = [
        AnalyzerMessage(relative_path(path, folder), int(line), int(line), "vet", why, 1, "correctness", CONFIDENCE)
        for path, line, why in _VET.findall(told)
    ]
    if not found and told.strip() and not all(line.startswith("#") for line in told.strip().splitlines()):
        raise AnalyzerOutputError(told)
    return found


_VET = re.compile(r"^(?:vet: )?(\S+?\.go):(\d+):(?:\d+:)? (.+)$", re.MULTILINE)


def cargo_command(program: str, paths: Sequence[str]) -> Sequence[str]:  # noqa: ARG001 - it reads the whole workspace
    """`cargo check` of the workspace, with its messages as JSON."""
    return [program, "check", "--workspace", "--all-targets", "--offline", "--quiet", "--message-format=json"]


def read_cargo(out: bytes, complaint: str, folder: Path) -> Sequence[AnalyzerMessage]:
    """Its messages; those without a place are summaries, and tests are compiled beside the library: each counts once."""
    try:
        rows = [read_json(line) for line in out.splitlines() if line.startswith(b"{")]
        found = [_rust(row["message"], folder) for row in rows if row.get("reason") == "compiler-message"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise AnalyzerOutputError(complaint or repr(error)) from error
    if not rows and complaint.strip():
        raise AnalyzerOutputError(complaint)
    return list(dict.fromkeys(each for each in found if each is not None))


def _rust(message: Any, folder: Path) -> AnalyzerMessage | None:
    place = next((span for span in message["spans"] if span["is_primary"]), None)
    if place is None or message["level"] not in ("error", "warning"):
        return None
    is_error = message["level"] == "error"
    return AnalyzerMessage(
        path=relative_path(place["file_name"], folder),
        line=place["line_start"],
        last=place["line_end"],
        rule=(message.get("code") or {}).get("code") or "rustc",
        message=message["message"],
        priority=0 if is_error else 2,
        category="correctness" if is_error else "maintainability",
        confidence=CONFIDENCE if is_error else LINT_CONFIDENCE,
    )


GO_VET = Analyzer(
    "go vet",
    "go",
    (".go",),
    vet_command,
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
    cargo_command,
    read_cargo,
    runs_project_code=True,
    needs_whole_tree=True,
    required_files=("Cargo.toml",),
    good_exits=(0, 101),
    offline={"CARGO_NET_OFFLINE": "true", "CARGO_INCREMENTAL": "0"},
)
