"""Every analyser, in the order in which they run: the quick ones first."""

from __future__ import annotations

from context_engine.review.analyzers.ruff import RUFF
from context_engine.review.analyzers.typos import TYPOS

ALL = (RUFF, TYPOS)
