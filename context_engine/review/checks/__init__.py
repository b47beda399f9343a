"""The built-in checks of reviews: declared in `checks.toml`, with a function here where a query is not enough."""

from __future__ import annotations

from context_engine.review.checks import change_checks, difference_checks, file_checks, use_checks
from context_engine.review.checks.check import DECLARED, Check

_MODULES = (change_checks, difference_checks, file_checks, use_checks)
_BOUND = {value.rule: value for module in _MODULES for value in vars(module).values() if isinstance(value, Check)}
CHECKS: tuple[Check, ...] = tuple(_BOUND.get(rule, declared) for rule, declared in DECLARED.items())
"""Every check, in the order in which they run."""
