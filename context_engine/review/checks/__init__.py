"""The built-in checks of reviews: declared in `checks.toml`, with a function here where a query is not enough.

A new module with functions is imported below.
"""

from __future__ import annotations

from context_engine.review.checks import companion_checks as _companions
from context_engine.review.checks import difference_checks as _differences
from context_engine.review.checks import file_checks as _files
from context_engine.review.checks import symbol_checks as _symbols
from context_engine.review.checks import text_checks as _texts
from context_engine.review.checks.check import DECLARED, Check

_ = _companions, _differences, _files, _symbols, _texts

CHECKS: tuple[Check, ...] = tuple(DECLARED.values())
"""Every check, in the order in which they run."""
