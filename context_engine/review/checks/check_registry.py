"""Every built-in check in the order of its module: a check that is defined there needs no other entry.

A new module is added to the list of modules.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from context_engine.review.checks import (
    companion_checks,
    complexity_checks,
    deployment_checks,
    difference_checks,
    file_metadata_checks,
    go_checks,
    javascript_checks,
    leftover_checks,
    python_checks,
    security_checks,
    symbol_checks,
    syntax_regressions,
    undefined_names,
)
from context_engine.review.checks.check import ChangeRun, CheckKind, FileRun, ReviewCheck, TextRun

MODULES: tuple[ModuleType, ...] = (
    leftover_checks,
    python_checks,
    javascript_checks,
    go_checks,
    security_checks,
    deployment_checks,
    syntax_regressions,
    file_metadata_checks,
    symbol_checks,
    complexity_checks,
    difference_checks,
    undefined_names,
    companion_checks,
)


def _collect(kind: CheckKind) -> tuple[ReviewCheck[Any], ...]:
    """Return the checks of one kind, in the order of their modules."""
    defined = [value for module in MODULES for value in vars(module).values()]
    return tuple(value for value in defined if isinstance(value, ReviewCheck) and value.kind == kind)


TEXT: tuple[ReviewCheck[TextRun], ...] = _collect("text")
FILE: tuple[ReviewCheck[FileRun], ...] = _collect("file")
CHANGE: tuple[ReviewCheck[ChangeRun], ...] = _collect("change")
