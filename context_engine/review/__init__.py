"""Review changes and validate content: checks, analyzers, invariants of a team, sessions, second passes."""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.review.finding import CATEGORIES, PRIORITIES
    from context_engine.review.review_formats import render_review
    from context_engine.review.review_options import FAIL_ON, ReviewOptions, ReviewRequest
    from context_engine.review.review_replies import review_to_json
    from context_engine.review.review_service import ReviewedChange, ReviewService
    from context_engine.review.review_sessions import SessionView
    from context_engine.review.review_workspace import ReviewWorkspace
    from context_engine.review.second_pass import MergedReview
    from context_engine.review.validation.content_validation import ValidationService
    from context_engine.review.validation.critique import ContentCritique
    from context_engine.review.validation.validation_request import CONTENT_KINDS, ValidationRequest, ValidationResult
    from context_engine.review.verdict import ReviewResult

__all__ = [
    "CATEGORIES",
    "CONTENT_KINDS",
    "FAIL_ON",
    "PRIORITIES",
    "ContentCritique",
    "MergedReview",
    "ReviewOptions",
    "ReviewRequest",
    "ReviewResult",
    "ReviewService",
    "ReviewWorkspace",
    "ReviewedChange",
    "SessionView",
    "ValidationRequest",
    "ValidationResult",
    "ValidationService",
    "render_review",
    "review_to_json",
]
__getattr__ = lazy_exports(
    __name__,
    {
        "CATEGORIES": "finding",
        "CONTENT_KINDS": "validation.validation_request",
        "ContentCritique": "validation.critique",
        "FAIL_ON": "review_options",
        "MergedReview": "second_pass",
        "PRIORITIES": "finding",
        "ReviewOptions": "review_options",
        "ReviewRequest": "review_options",
        "ReviewResult": "verdict",
        "ReviewService": "review_service",
        "ReviewWorkspace": "review_workspace",
        "ReviewedChange": "review_service",
        "SessionView": "review_sessions",
        "ValidationRequest": "validation.validation_request",
        "ValidationResult": "validation.validation_request",
        "ValidationService": "validation.content_validation",
        "render_review": "review_formats",
        "review_to_json": "review_replies",
    },
)
