"""PURE. How often each rule on differences was right, as counted on commits by evals/reviews.

A hit on a reversed fix is right; a hit on a clean commit, or on a fix as it was made, is wrong. `small` are changes of
at most twelve changed lines of code, without tests, that add nothing to tests. The confidence is a share with a prior:
eight more hits that are right as often as all rules together in changes of that size. So a rule without counts has
the confidence of its kind, and each hit moves it.

Source: 360 reversed fixes, the same 360 as they were made and 360 clean commits of aiohttp, chi, cobra, commons-lang,
gunicorn, hono, monolog, moshi, Newtonsoft.Json, rack, tokio and vitest, 2026-11-23. Planted bugs do not count. The
fixes are all small: nothing is known in favor of a rule in a large change, and there it asks a question.
"""

from __future__ import annotations

from typing import NamedTuple

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
    "alternative-removed": RuleCounts(1, 1, 0, 1),
    "argument-removed": RuleCounts(10, 2, 0, 5),
    "await-removed": RuleCounts(0, 1, 0, 0),
    "bounds-check-removed": RuleCounts(9, 2, 0, 2),
    "call-unwrapped": RuleCounts(4, 2, 0, 1),
    "case-lost": RuleCounts(7, 2, 0, 7),
    "close-removed": RuleCounts(4, 0, 1, 0),
    "comparison-turned": RuleCounts(3, 1, 0, 2),
    "condition-changed": RuleCounts(4, 1, 0, 14),
    "condition-part-removed": RuleCounts(10, 0, 0, 6),
    "condition-removed": RuleCounts(19, 2, 0, 14),
    "constant-turned": RuleCounts(3, 1, 0, 3),
    "default-changed": RuleCounts(0, 0, 0, 1),
    "error-check-removed": RuleCounts(1, 0, 0, 0),
    "error-handler-removed": RuleCounts(2, 2, 0, 1),
    "guard-removed": RuleCounts(11, 0, 0, 2),
    "lock-removed": RuleCounts(0, 0, 0, 1),
    "name-repeated": RuleCounts(1, 1, 0, 3),
    "negation-turned": RuleCounts(0, 1, 0, 3),
    "null-case-lost": RuleCounts(10, 0, 0, 19),
    "null-guard-removed": RuleCounts(12, 2, 0, 11),
    "off-by-one": RuleCounts(1, 0, 0, 2),
    "part-removed": RuleCounts(16, 6, 0, 14),
    "permission-removed": RuleCounts(2, 0, 0, 1),
    "resource-removed": RuleCounts(2, 0, 0, 0),
    "result-dropped": RuleCounts(1, 0, 0, 1),
    "return-removed": RuleCounts(3, 3, 0, 4),
    "statement-removed": RuleCounts(17, 3, 1, 13),
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
