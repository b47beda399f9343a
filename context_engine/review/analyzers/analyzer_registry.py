"""Every analyser, in the order in which they run: the quick ones first."""

from __future__ import annotations

from context_engine.review.analyzers.compilers import CARGO, GO_VET
from context_engine.review.analyzers.eslint import ESLINT, TSC
from context_engine.review.analyzers.ruff_analyzer import RUFF
from context_engine.review.analyzers.typos import TYPOS

ALL = (RUFF, TYPOS, ESLINT, GO_VET, TSC, CARGO)
