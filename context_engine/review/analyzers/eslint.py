"""eslint and tsc of the project itself, from its own `node_modules`: its configuration is code, so the user has to allow them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from context_engine.review.analyzers.analyzer import Analyzer, AnalyzerMessage, AnalyzerOutputError, relative_path
from context_engine.text import OUTPUT_BYTES_MAX, read_json

SUFFIXES = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts")
SERIOUS, MILD = 0.8, 0.7
"""What a project calls an error is one for it; what it only warns of is often left."""
TYPE_CONFIDENCE = 0.85


def eslint_command(program: str, paths: Sequence[str]) -> Sequence[str]:
    """The changed files, and nothing else."""
    return [program, "--format=json", "--no-error-on-unmatched-pattern", "--", *paths]


def read_eslint(out: bytes, complaint: str, folder: Path) -> Sequence[AnalyzerMessage]:
    """Its JSON. What has no rule is about eslint itself: that a file is none of its own."""
    try:
        rows = [
            (relative_path(file["filePath"], folder), row)
            for file in read_json(out, bytes_max=OUTPUT_BYTES_MAX)
            for row in file["messages"]
        ]
        return [_message(path, row) for path, row in rows if row.get("ruleId") or row.get("fatal")]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise AnalyzerOutputError(complaint or repr(error)) from error


def _message(path: str, row: Any) -> AnalyzerMessage:
    serious = row.get("severity") == 2
    line = row.get("line") or 1
    return AnalyzerMessage(
        path=path,
        line=line,
        last=row.get("endLine") or line,
        rule=row.get("ruleId") or "syntax-error",
        message=row["message"],
        priority=0 if row.get("fatal") else 2 if serious else 3,
        category="correctness" if serious else "style",
        confidence=SERIOUS if serious else MILD,
    )


def tsc_command(program: str, paths: Sequence[str]) -> Sequence[str]:  # noqa: ARG001 - it reads what tsconfig.json names
    """The compiler over the whole project, writing nothing."""
    return [program, "--noEmit", "--pretty", "false", "--incremental", "false"]


def read_tsc(out: bytes, complaint: str, folder: Path) -> Sequence[AnalyzerMessage]:
    """Its lines `path(line,column): error TS2322: why`."""
    text = out.decode("utf-8", "replace")
    found = [
        AnalyzerMessage(relative_path(path, folder), int(line), int(line), rule, why, 1, "correctness", TYPE_CONFIDENCE)
        for path, line, rule, why in _DIAGNOSTIC.findall(text)
    ]
    if not found and text.strip():
        raise AnalyzerOutputError(complaint or text)
    return found


_DIAGNOSTIC = re.compile(r"^(.+?)\((\d+),\d+\): error (TS\d+): (.*)$", re.MULTILINE)

ESLINT = Analyzer(
    "eslint",
    "eslint",
    SUFFIXES,
    eslint_command,
    read_eslint,
    runs_project_code=True,
    needs_whole_tree=True,
    good_exits=(0, 1),
)
TSC = Analyzer(
    "tsc",
    "tsc",
    (".ts", ".tsx", ".mts", ".cts"),
    tsc_command,
    read_tsc,
    runs_project_code=True,
    needs_whole_tree=True,
    required_files=("tsconfig.json",),
    good_exits=(0, 1, 2),
)
