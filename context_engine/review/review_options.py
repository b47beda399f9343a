"""PURE. How a review is wanted: what counts, from which confidence on, how much of it, and what makes it fail.

>>> Options(fail_on="P1").fails(1), Options(fail_on="P1").fails(2), Options().fails(0)
(True, False, False)
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

from context_engine.review.finding import CATEGORIES, PRIORITIES, Category

FAIL_ON = ("none", *PRIORITIES)
Analyzers = Literal["auto", "none"] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one review. `analyzers` are all that are installed (`auto`), none, or those named."""

    categories: tuple[Category, ...] = CATEGORIES
    confidence_threshold: float = 0.7
    max_findings: int = 20
    changed_lines_only: bool = True
    exclude_patterns: tuple[str, ...] = ()
    analyzers: Analyzers = "auto"
    fail_on: str = "none"
    allow_ids: tuple[str, ...] = ()
    custom_instructions: str = ""
    invariants_path: str = ""
    time_budget_s: float = 30.0

    def fails(self, priority: int) -> bool:
        """Whether a finding of this priority fails the review."""
        return self.fail_on != "none" and priority <= PRIORITIES.index(self.fail_on)

    @property
    def key(self) -> str:
        """What a cache may know these options by."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]
