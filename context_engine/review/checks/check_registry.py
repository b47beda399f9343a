"""Every built-in check in the order of its module: a check that is defined there needs no other entry."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from context_engine.review.checks import (
    companion_checks,
    complexity_checks,
    deployment_checks,
    file_metadata_checks,
    go_checks,
    javascript_checks,
    leftover_checks,
    python_checks,
    security_checks,
    symbol_checks,
    syntax_regressions,
)
from context_engine.review.checks.check import ChangeRun, CheckKind, FileRun, ReviewCheck, TextRun


def _collect(kind: CheckKind, modules: Sequence[ModuleType]) -> tuple[ReviewCheck[Any], ...]:
    """Return the checks of one kind that modules define, in their order."""
    defined = [value for module in modules for value in vars(module).values()]
    return tuple(value for value in defined if isinstance(value, ReviewCheck) and value.kind == kind)


TEXT: tuple[ReviewCheck[TextRun], ...] = _collect(
    "text", (leftover_checks, python_checks, javascript_checks, go_checks, security_checks, deployment_checks)
)
FILE: tuple[ReviewCheck[FileRun], ...] = _collect(
    "file", (syntax_regressions, file_metadata_checks, symbol_checks, complexity_checks)
)
CHANGE: tuple[ReviewCheck[ChangeRun], ...] = _collect("change", (symbol_checks, companion_checks))
