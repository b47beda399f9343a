"""ruff: the rules of it that find mistakes, none of those that have opinions.

The project's own configuration is not asked.

What a project wants of its style its own CI says; here counts only what is wrong wherever it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from context_engine.model import Suggestion
from context_engine.repo import ruff_program
from context_engine.review.analyzers.analyzer import Analyzer, AnalyzerMessage, AnalyzerOutputError, relative_path

if TYPE_CHECKING:
    from context_engine.review.finding import Category

SELECTED = (
    "E9 F4 F5 F6 F7 F82 F84 F9 PLE "
    "B002 B003 B005 B006 B012 B015 B016 B018 B020 B021 B023 B025 B029 B030 B031 B032 B033 B035 B039 "
    "S102 S301 S302 S306 S307 S323 S501 S502 S503 S504 S506 S508 S509 S602 S605 S608 S611 S612 S701 S702 "
    "ASYNC210 ASYNC220 ASYNC221 ASYNC222 ASYNC251 "
    "PLW0129 PLW0133 PLW0177 PLW0211 PLW0245 PLW1501 PLW1507 PLW1509 PLR0124 T100"
).split()
"""Left out on purpose, since real commits showed them wrong or worth nothing: F811, B026, PLW0127 (evals/noise)."""
LEFT_OUT = ("F405", "F403", "F406", "F407")
"""Star imports: a style, and everything that follows from it."""

Kind = tuple[int, "Category", float]
KINDS: tuple[tuple[str, Kind], ...] = (
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
)
"""Priority, category and confidence by the beginning of a rule; the first that fits."""


def ruff_command(program: str, paths: Sequence[str]) -> Sequence[str]:
    """`ruff check` without the project's settings.

    As Python 3.13: to 3.14 `except ValueError, e` of old code is no mistake.
    """
    chosen = f"--select={','.join(SELECTED)}", f"--ignore={','.join(LEFT_OUT)}"
    return ruff_program.over(program, paths, ["--isolated", "--target-version=py313", *chosen])


def read_ruff(out: bytes, complaint: str, folder: Path) -> Sequence[AnalyzerMessage]:
    """Its rows. Of a file that it cannot parse it only guesses: whether the syntax is wrong our own check says."""
    try:
        rows = ruff_program.rows(out)
    except ValueError as error:
        raise AnalyzerOutputError(complaint or repr(error)) from error
    guessed = {row.path for row in rows if not row.rule}
    return [_reported(row, folder) for row in rows if row.path not in guessed and not _is_known(row)]


def _is_known(row: ruff_program.RuffFinding) -> bool:
    """Whether a name is only unknown to Python 3: those of type checkers, and of Python 2."""
    return row.rule == "F821" and any(f"`{name}`" in row.message for name in KNOWN_ELSEWHERE)


def _reported(row: ruff_program.RuffFinding, folder: Path) -> AnalyzerMessage:
    priority, category, confidence = next(kind for start, kind in (*KINDS, ("", OTHER)) if row.rule.startswith(start))
    return AnalyzerMessage(
        path=relative_path(row.path, folder),
        line=row.first,
        last=row.last,
        rule=row.rule,
        message=row.message,
        priority=priority,
        category=category,
        confidence=confidence,
        suggestion=Suggestion(row.fix, can_auto_fix=True) if row.fix else None,
    )


KNOWN_ELSEWHERE = (
    *("reveal_type", "reveal_locals"),
    *("unicode", "basestring", "long", "xrange", "raw_input", "unichr", "reload", "reduce", "execfile", "file", "cmp"),
)
OTHER: Kind = (2, "correctness", 0.7)
RUFF = Analyzer(
    ruff_program.NAME, ruff_program.NAME, ruff_program.SUFFIXES, ruff_command, read_ruff, good_exits=ruff_program.EXITS
)
