"""Every built-in check in its order: those of one version of a file, those that compare two, those of a whole change."""

from __future__ import annotations

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

TEXT = (
    *leftover_checks.ALL,
    *python_checks.ALL,
    *javascript_checks.ALL,
    *go_checks.ALL,
    *security_checks.ALL,
    *deployment_checks.ALL,
)
FILE = (*syntax_regressions.ALL, *file_metadata_checks.ALL, *symbol_checks.FILE, *complexity_checks.ALL)
CHANGE = (*symbol_checks.CHANGE, *companion_checks.ALL)
