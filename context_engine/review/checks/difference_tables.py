"""The words by which differences are read in all languages, and the rules of `differences.toml`.

The parsers name the same things alike: an argument list has `argument` in its kind in every grammar, a parameter
`param`, a name `identifier`. Where languages differ in words, the words of all are in one set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from context_engine.review.checks.check import read_declarations

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

PRIOR_HITS = 8
"""The weight of the prior: more than half of the rules have fewer hits of their own. In folds by repository 2, 4 and 8
find 0.37, 0.38 and 0.39 of the reversed fixes, with the same findings on clean commits."""


class DifferenceRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The texts of a rule, and its right and wrong hits in small and in large changes."""

    title: str
    body: str
    small: tuple[int, int] = (0, 0)
    large: tuple[int, int] = (0, 0)


RULES: Mapping[str, DifferenceRule] = msgspec.toml.decode(
    read_declarations("differences.toml"), type=dict[str, DifferenceRule]
)


def confidence_of(rule: str, *, is_small: bool) -> float:
    """Return the share of right hits of a rule, with eight more that are right as often as those of all rules.

    So a rule without counts has the confidence of its kind, and each hit moves it.

    >>> confidence_of("super-removed", is_small=True) > confidence_of("super-removed", is_small=False)
    True
    """
    hits = {name: known.small if is_small else known.large for name, known in RULES.items()}
    all_right, all_wrong = (sum(counts) for counts in zip(*hits.values(), strict=True))
    right, wrong = hits[rule]
    prior = (all_right + 1) / (all_right + all_wrong + 2)
    return round((right + PRIOR_HITS * prior) / (right + wrong + PRIOR_HITS), 2)
