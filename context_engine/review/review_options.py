"""PURE. The options of a review: the change, the findings to show, and the priority that makes it fail.

>>> ReviewOptions(fail_on="P1").is_failing(1), ReviewOptions(fail_on="P1").is_failing(2), ReviewOptions().is_failing(0)
(True, False, False)
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
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
        """A hash of the options for caches and sessions."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class ReviewRequest:
    """The change that a session reviews. It is stored with full hashes, so that it means the same tomorrow."""

    commit: str
    base: str
    paths: tuple[str, ...] = ()
    options: ReviewOptions = field(default_factory=ReviewOptions)
    title: str = ""
    author: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """A hash of the change and the options; the title and the author do not count."""
        text = "\0".join((self.commit, self.base, self.options.key, *self.paths))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
