"""PURE. How a review is wanted: what counts, from which confidence on, how much of it, and what makes it fail.

>>> ReviewOptions(fail_on="P1").is_failing(1), ReviewOptions(fail_on="P1").is_failing(2), ReviewOptions().is_failing(0)
(True, False, False)
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

from context_engine.review.finding import CATEGORIES, PRIORITIES, Category

FAIL_ON = ("none", *PRIORITIES)
AnalyzerChoice = Literal["auto", "none"] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReviewOptions:
    """The options of one review. `analyzers` are all that are installed (`auto`), none, or those named."""

    categories: tuple[Category, ...] = CATEGORIES
    confidence_threshold: float = 0.7
    max_findings: int = 20
    changed_lines_only: bool = True
    exclude_patterns: tuple[str, ...] = ()
    analyzers: AnalyzerChoice = "auto"
    fail_on: str = "none"
    allow_ids: tuple[str, ...] = ()
    custom_instructions: str = ""
    invariants_path: str = ""
    time_budget_s: float = 30.0

    def is_failing(self, priority: int) -> bool:
        """Whether a finding of this priority fails the review."""
        return self.fail_on != "none" and priority <= PRIORITIES.index(self.fail_on)

    @property
    def key(self) -> str:
        """What a cache may know these options by."""
        written = repr(self).removeprefix(
            "Review"
        )  # release 0.1 called the class Options; its sessions must be found again
        return hashlib.sha256(written.encode()).hexdigest()[:16]
