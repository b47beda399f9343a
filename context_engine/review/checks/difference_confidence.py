"""PURE. How often each rule on differences was right, as counted on commits by evals/reviews.

A hit on a reversed fix is right, a hit on a clean commit is wrong. `small` are changes of at most twelve changed lines
of code without tests. The confidence is a share with a prior: two more hits that are right as often as all rules
together in changes of that size. So a rule without counts has the confidence of its kind, and each hit moves it.

Source: 160 reversed fixes and 120 clean commits (58 of them small) of flask, requests, aiohttp, cobra, chi, rack,
commons-lang and monolog, 2026-11-23. Planted bugs do not count. The fixes are all small, so nothing is known in favor
of a rule in a large change: there it asks a question.
"""

from __future__ import annotations

from typing import NamedTuple

PRIOR_HITS = 2
"""The weight of the prior: less than a handful of real hits."""


class RuleCounts(NamedTuple):
    """The hits of a rule in small and in large changes."""

    small_right: int = 0
    small_wrong: int = 0
    large_right: int = 0
    large_wrong: int = 0


COUNTS: dict[str, RuleCounts] = {
    "argument-removed": RuleCounts(2, 0, 0, 1),
    "bounds-check-removed": RuleCounts(3, 0, 0, 0),
    "call-unwrapped": RuleCounts(4, 1, 0, 0),
    "close-removed": RuleCounts(2, 0, 0, 0),
    "comparison-turned": RuleCounts(2, 0, 0, 0),
    "condition-changed": RuleCounts(2, 0, 0, 4),
    "condition-part-removed": RuleCounts(2, 0, 0, 1),
    "condition-removed": RuleCounts(5, 0, 0, 0),
    "guard-removed": RuleCounts(5, 0, 0, 1),
    "name-repeated": RuleCounts(0, 0, 0, 1),
    "negation-turned": RuleCounts(0, 0, 0, 2),
    "null-guard-removed": RuleCounts(4, 0, 0, 2),
    "permission-removed": RuleCounts(1, 0, 0, 0),
    "resource-removed": RuleCounts(2, 0, 0, 0),
    "return-removed": RuleCounts(2, 0, 0, 1),
    "statement-removed": RuleCounts(5, 0, 0, 3),
    "swapped-arguments": RuleCounts(1, 0, 0, 0),
    "transaction-removed": RuleCounts(1, 0, 0, 0),
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
