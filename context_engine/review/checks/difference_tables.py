"""PURE. The words by which differences are read in all languages, and the text of each rule.

The parsers name the same things alike: an argument list has `argument` in its kind in every grammar, a parameter
`param`, a name `identifier`. Where languages differ in words, the words of all are in one set.
"""

from __future__ import annotations

import re

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
