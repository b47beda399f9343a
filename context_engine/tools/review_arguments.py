"""The options of a review as arguments: the same names and limits wherever a review is asked for."""

from collections.abc import Mapping
from typing import Any

from context_engine.review.finding import CATEGORIES
from context_engine.review.review_options import FAIL_ON, ReviewOptions
from context_engine.tools.arguments import (
    BooleanArg,
    ChoiceArg,
    FractionArg,
    IntegerArg,
    Parameter,
    TextArg,
    TextListArg,
    bind,
)

ANALYZERS = ("auto", "none")
PATTERNS_MAX = 200
INSTRUCTIONS_CHARS = 4_000

OPTIONS = (
    Parameter("categories", TextListArg("Only these kinds.", CATEGORIES), ()),
    Parameter("confidence_threshold", FractionArg("Least confidence."), 0.7),
    Parameter("max_findings", IntegerArg("Findings told.", 1, 100), 20),
    Parameter("changed_lines_only", BooleanArg("P0 is told wherever it is."), True),
    Parameter("exclude_patterns", TextListArg("Not these files: globs.", most=PATTERNS_MAX), ()),
    Parameter("custom_instructions", TextArg("For a second pass.", 0, INSTRUCTIONS_CHARS), ""),
    Parameter("invariants_path", TextArg("Rules; else .review-invariants.yml."), ""),
    Parameter("analyzers", TextListArg("auto, none, or names such as ruff."), ("auto",)),
    Parameter(
        "fail_on", ChoiceArg("From which priority on it fails.", tuple(each.lower() for each in FAIL_ON)), "none"
    ),
    Parameter("allow_ids", TextListArg("Findings that are known.", most=1_000), ()),
    Parameter("time_budget_s", IntegerArg("Seconds.", 1, 600), 30),
)


def options_of(fields: Mapping[str, Any]) -> ReviewOptions:
    """The options that an object of arguments means. Raises: InvalidArgument, naming what is wrong with which."""
    given = bind(OPTIONS, dict(fields))
    analyzers = given.pop("analyzers")
    fail_on = given.pop("fail_on")
    categories = given.pop("categories") or CATEGORIES
    return ReviewOptions(
        **given,
        categories=tuple(categories),
        analyzers=analyzers[0] if analyzers in (("auto",), ("none",)) else analyzers,
        fail_on=fail_on if fail_on == "none" else fail_on.upper(),
    )
