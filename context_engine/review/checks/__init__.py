"""The built-in checks of reviews: declared in `checks.toml`, with a function here where a query is not enough."""

from __future__ import annotations

from context_engine.review.checks import (
    companion_checks,
    difference_checks,
    file_checks,
    symbol_checks,
    text_checks,
)
from context_engine.review.checks.check import DECLARED, Check

MODULES = (companion_checks, difference_checks, file_checks, symbol_checks, text_checks)
"""The modules with functions of checks."""
_BOUND = {value.rule: value for module in MODULES for value in vars(module).values() if isinstance(value, Check)}
CHECKS: tuple[Check, ...] = tuple(_BOUND.get(rule, declared) for rule, declared in DECLARED.items())
"""Every check, in the order in which they run."""
