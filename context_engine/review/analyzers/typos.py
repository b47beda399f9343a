"""typos: words that are spelled wrong, in names and in prose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from context_engine.model import Suggestion
from context_engine.review.analyzers.analyzer import Analyzer, AnalyzerMessage, AnalyzerOutputError, relative_path
from context_engine.text import read_json

CONFIDENCE = 0.7


def typos_command(program: str, paths: Sequence[str]) -> Sequence[str]:
    """Its report as JSON, a line for each."""
    return [program, "--isolated", "--format=json", "--", *paths]


def read_typos(out: bytes, complaint: str, folder: Path) -> Sequence[AnalyzerMessage]:
    """Its lines; those of other kinds (a binary file) are no typos."""
    try:
        rows = [read_json(line) for line in out.splitlines() if line.strip()]
        return [_reported(row, folder) for row in rows if row.get("type") == "typo"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise AnalyzerOutputError(complaint or repr(error)) from error


def _reported(row: Any, folder: Path) -> AnalyzerMessage:
    corrections = ", ".join(row.get("corrections") or ())
    return AnalyzerMessage(
        path=relative_path(row["path"], folder),
        line=row.get("line_num", 1),
        last=row.get("line_num", 1),
        rule="typo",
        message=f"{row['typo']} is spelled {corrections or 'otherwise'}.",
        priority=3,
        category="documentation",
        confidence=CONFIDENCE,
        suggestion=Suggestion(f"write {corrections}") if corrections else None,
    )


TYPOS = Analyzer("typos", "typos", (), typos_command, read_typos, good_exits=(0, 2))
