"""PURE. A review in the shape of replies: the fields that callers of the origin know, and what we know beyond them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from context_engine.review.finding import finding_to_json
from context_engine.review.review_coverage import Coverage
from context_engine.review.review_markdown import format_headline
from context_engine.review.verdict import ReviewResult

FILES_SHOWN_MAX = 200
"""A reply names so many files that were not looked at; the others it counts."""


def review_to_json(reviewed: ReviewResult) -> dict[str, Any]:
    """The whole review as JSON values. What is empty stays, so that its absence never has to be guessed at."""
    return {
        "findings": [finding_to_json(each) for each in reviewed.findings],
        "verdict": reviewed.verdict,
        "headline": format_headline(reviewed),
        "overall_correctness": reviewed.overall_correctness,
        "overall_explanation": reviewed.overall_explanation,
        "overall_confidence_score": round(reviewed.overall_confidence, 3),
        "should_fail": reviewed.should_fail,
        "fail_reasons": list(reviewed.fail_reasons),
        "findings_filtered": asdict(reviewed.filtered),
        "coverage": coverage_to_json(reviewed.coverage),
        "summary": _summary(reviewed),
        "partial": reviewed.is_partial,
        "second_pass": reviewed.second_pass,
        "warnings": list(reviewed.warnings),
    }


def coverage_to_json(covered: Coverage) -> dict[str, Any]:
    """What was looked at, and what was not and why."""
    skipped = [{"path": each.path, "why": each.reason} for each in covered.files_skipped]
    partly = [{"path": each.path, "why": each.reason} for each in covered.files_partly]
    return {
        "files": len(covered.files),
        "files_reviewed": covered.files_reviewed,
        "files_skipped": skipped[:FILES_SHOWN_MAX],
        "files_skipped_count": len(skipped),
        "files_partly": partly[:FILES_SHOWN_MAX],
        "analyzers": [
            {"name": run.name, "ran": run.ran, "ms": run.ms, "findings": run.findings, "why_not": run.why_not or None}
            for run in covered.analyzers
        ],
    }


def _summary(reviewed: ReviewResult) -> dict[str, Any]:
    told = reviewed.summary
    return {
        "classification": told.classification,
        "risk": told.risk,
        "factors": list(told.factors),
        "hotspots": list(told.hotspots),
        "files": told.files,
        "added": told.added,
        "removed": told.removed,
    }
