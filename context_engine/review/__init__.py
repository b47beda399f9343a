"""Review changes and validate content: checks, analyzers, invariants of a team, sessions, second passes.

`repo` takes a change from git without starting any program that the repository names. Checks and analyzers look at
the old and the new version of each file. Only new findings on changed lines are reported, together with what was not
looked at. A long review does the same as a job in the background; it goes on where its process ended, and results for
content that was seen are used again.
"""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.review.finding import CATEGORIES, FAIL_ON, PRIORITIES, ReviewOptions, ReviewRequest
    from context_engine.review.review_formats import format_finding, format_review, render_review, review_to_json
    from context_engine.review.review_service import ReviewService, ReviewWorkspace
    from context_engine.review.review_store import ReviewSession
    from context_engine.review.second_pass import ContentCritique, MergedReview
    from context_engine.review.source_versions import ReviewedChange
    from context_engine.review.validation.content_validation import ValidationService
    from context_engine.review.validation.validation_request import CONTENT_KINDS, ValidationRequest, ValidationResult
    from context_engine.review.verdict import ReviewResult

__getattr__ = lazy_exports(__name__)
