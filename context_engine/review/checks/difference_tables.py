"""PURE. The words by which differences are read in all languages, and the text of each rule.

The parsers name the same things alike: an argument list has `argument` in its kind in every grammar, a parameter
`param`, a name `identifier`. Where languages differ in words, the words of all are in one set.
"""

from __future__ import annotations

import re
from typing import NamedTuple

COMPARISON = frozenset("< <= > >= == != === !== is in <> ~=".split())
BOOLEAN = frozenset("and or && ||".split())
ARITHMETIC = frozenset("+ - * / % // += -= *= /= << >> & | ^ ++ -- .. ..= ... ..<".split())
ASSIGNMENTS = frozenset({"=", ":="})
HANDLERS = frozenset("catch except rescue finally ensure".split())
NEGATIONS = frozenset({"!", "not"})
CONSTANTS = frozenset("true false none null nil".split())
DEFINITIONS = frozenset(
    "def func function fn fun class struct interface enum trait impl import use using from package module end".split()
)
EXIT_WORDS = frozenset("return raise throw continue break panic exit abort fail bail yield goto".split())
LOCK_WORDS = frozenset("lock unlock mutex synchronized acquire semaphore rlock".split())
CLOSE_WORDS = frozenset("close dispose disconnect shutdown cleanup flush".split())
TRANSACTION_WORDS = frozenset("transaction commit rollback atomic savepoint".split())
PERMISSION_WORDS = frozenset(
    "permission permissions authorize authorized authenticated validate sanitize escape".split()
)
MISSING = frozenset("None null nil undefined".split())
LOSSES = (
    ("error-handler-removed", frozenset("try rescue catch except".split())),
    (
        "null-case-lost",
        frozenset("?? ?. None null nil undefined isset is_none is_some unwrap_or unwrap_or_default".split()),
    ),
    ("case-lost", frozenset("if elif unless case when ? && || and or".split())),
)
ERROR_TEST = re.compile(r"\b(?:err|error|e|ex|exception)\b|\b(?:Err|is_err)\b")
NULL_TEST = re.compile(r"\b(?:None|null|nil|undefined|nullptr|NULL|isset|is_none|is_some|Some|nil \?|empty|blank)\b")
SIZE_TEST = re.compile(r"\b(?:len|length|size|count|Count|Length|capacity|cap|index|idx)\b|[<>]=? ?\d")

RULES: dict[str, tuple[str, str]] = {
    "await-removed": (
        "await removed",
        "The call is no longer awaited: its result is a promise, and its errors are lost.",
    ),
    "lock-removed": ("Lock removed", "Several threads may now change the protected state at once."),
    "close-removed": ("Resource no longer closed", "The resource stays open."),
    "resource-removed": ("Resource no longer released", "The resource is not released at the end of the block."),
    "transaction-removed": ("Transaction removed", "A failure in between now leaves half of the work."),
    "permission-removed": ("Permission or validation removed", "Input or callers that were refused now pass."),
    "error-check-removed": ("Error check removed", "The error is ignored, and the code goes on with an invalid value."),
    "error-swallowed": ("Error swallowed", "The caller no longer sees the error."),
    "null-guard-removed": ("Guard for a missing value removed", "A missing value now reaches code that needs one."),
    "bounds-check-removed": ("Bounds check removed", "Sizes and indexes that were refused now pass."),
    "guard-removed": ("Guard removed", "A case that ended here now goes on."),
    "condition-removed": ("Condition removed", "Its code now runs in all cases, or in none."),
    "condition-part-removed": ("Part of a condition removed", "The condition now holds for other cases."),
    "break-removed": ("break removed", "The loop or the case goes on."),
    "return-removed": ("return removed", "The function goes on, or returns another value."),
    "super-removed": ("Call of the base class removed", "The work of the base class is missing."),
    "comparison-turned": ("Comparison turned", "The comparison now decides differently, at least at the boundary."),
    "boolean-turned": ("Boolean operator turned", "Both sides are now joined differently."),
    "arithmetic-turned": ("Operator turned", "The result is another one."),
    "negation-turned": ("Condition negated", "The condition now holds where it did not, and the reverse."),
    "constant-turned": ("Constant turned", "The constant has another value than before."),
    "default-changed": ("Default changed", "Callers that rely on the default now get another value."),
    "off-by-one": ("Off by one", "A boundary moved by one."),
    "swapped-arguments": ("Arguments swapped", "Two arguments have changed places."),
    "name-repeated": ("Same name twice", "One name replaced another one, and now occurs twice."),
    "copied-line": ("Copied line not adapted", "The line has a name of the line next to it where its own name was."),
    "name-exchanged": ("Another name", "A name that the file has elsewhere took the place of another one."),
    "name-misspelled": (
        "Name without a definition",
        "Nothing else in this file has this name; a similar one was here.",
    ),
    "argument-removed": (
        "Argument removed",
        "The call now relies on the default, or on another meaning of its arguments.",
    ),
    "condition-changed": ("Condition changed", "The condition now holds for other cases."),
    "call-unwrapped": ("Call around a value removed", "The value is used without what the call did to it."),
    "statement-removed": ("Statement removed", "Its effect is gone, and nothing takes its place."),
    "condition-contradicts": ("Condition that fails", "The value is missing where the condition uses it."),
    "debug-output": ("Debug output", "It was left over from debugging."),
    "part-removed": ("Part of a statement removed", "The value is used without what the removed part did to it."),
    "alternative-removed": ("Alternative removed", "Both cases now take the same value."),
    "result-dropped": ("Result no longer kept", "The value is computed and then dropped."),
    "error-handler-removed": ("Error handler removed", "An error that was handled here now leaves the function."),
    "null-case-lost": ("Missing value no longer handled", "The rewritten code treats a missing value like any other."),
    "case-lost": ("Case no longer distinguished", "The rewritten code makes no difference where the old one did."),
    "return-in-loop": ("return moved into the loop", "The loop now ends in its first round."),
}
"""The title and the body of each rule."""


def describe_rule(rule: str) -> tuple[str, str]:
    """Return the title and the body of a rule."""
    return RULES[rule]


# -- difference confidence ---------------------------------------------------------------------------------------------

# How often each rule on differences was right, as counted on commits by evals/reviews.
#
# A hit on a reversed fix is right; a hit on a clean commit, or on a fix as it was made, is wrong. `small` are changes
# of at most twelve changed lines of code, without tests, that add nothing to tests. The confidence is a share with a
# prior: eight more hits that are right as often as all rules together in changes of that size. So a rule without
# counts has the confidence of its kind, and each hit moves it.
#
# Source: 430 reversed fixes, the same 430 as they were made and 330 clean commits of aiohttp, chi, cobra, commons-lang,
# gunicorn, hono, monolog, moshi, Newtonsoft.Json, rack, tokio and vitest, 2026-11-28. Planted bugs do not count. The
# fixes are all small: nothing is known in favor of a rule in a large change, and there it asks a question.

PRIOR_HITS = 8
"""The weight of the prior: more than half of the rules have fewer hits of their own. In folds by repository 2, 4 and 8
find 0.37, 0.38 and 0.39 of the reversed fixes, with the same findings on clean commits."""


class RuleCounts(NamedTuple):
    """The hits of a rule in small and in large changes."""

    small_right: int = 0
    small_wrong: int = 0
    large_right: int = 0
    large_wrong: int = 0


COUNTS: dict[str, RuleCounts] = {
    "alternative-removed": RuleCounts(1, 1, 0, 0),
    "argument-removed": RuleCounts(12, 1, 0, 3),
    "await-removed": RuleCounts(0, 1, 0, 0),
    "bounds-check-removed": RuleCounts(10, 2, 0, 2),
    "call-unwrapped": RuleCounts(5, 2, 0, 1),
    "case-lost": RuleCounts(9, 1, 0, 9),
    "close-removed": RuleCounts(5, 0, 1, 0),
    "comparison-turned": RuleCounts(3, 1, 0, 2),
    "condition-changed": RuleCounts(5, 2, 0, 14),
    "condition-part-removed": RuleCounts(13, 0, 0, 5),
    "condition-removed": RuleCounts(27, 5, 0, 17),
    "constant-turned": RuleCounts(3, 1, 0, 3),
    "default-changed": RuleCounts(0, 0, 0, 1),
    "error-check-removed": RuleCounts(1, 0, 0, 0),
    "error-handler-removed": RuleCounts(2, 2, 0, 1),
    "guard-removed": RuleCounts(13, 0, 0, 3),
    "lock-removed": RuleCounts(2, 0, 0, 1),
    "name-repeated": RuleCounts(1, 1, 0, 3),
    "negation-turned": RuleCounts(0, 1, 0, 3),
    "null-case-lost": RuleCounts(8, 0, 0, 12),
    "null-guard-removed": RuleCounts(12, 2, 0, 9),
    "off-by-one": RuleCounts(1, 0, 0, 2),
    "part-removed": RuleCounts(18, 5, 0, 6),
    "permission-removed": RuleCounts(1, 0, 0, 0),
    "resource-removed": RuleCounts(2, 0, 0, 0),
    "result-dropped": RuleCounts(1, 0, 0, 0),
    "return-removed": RuleCounts(3, 4, 0, 3),
    "statement-removed": RuleCounts(30, 2, 1, 11),
    "swapped-arguments": RuleCounts(2, 0, 0, 2),
}


def confidence_of(rule: str, *, is_small: bool) -> float:
    """Return the share of right hits of a rule, with the share of all rules as its prior.

    >>> confidence_of("a rule without counts", is_small=True) > confidence_of("a rule without counts", is_small=False)
    True
    """
    right, wrong = _hits(COUNTS.get(rule, RuleCounts()), is_small=is_small)
    pairs = [_hits(counts, is_small=is_small) for counts in COUNTS.values()]
    all_right, all_wrong = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    prior = (all_right + 1) / (all_right + all_wrong + 2)
    return round((right + PRIOR_HITS * prior) / (right + wrong + PRIOR_HITS), 2)


def _hits(counts: RuleCounts, *, is_small: bool) -> tuple[int, int]:
    if is_small:
        return counts.small_right, counts.small_wrong
    return counts.large_right, counts.large_wrong
