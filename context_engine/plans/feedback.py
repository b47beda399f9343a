r"""PURE. Operations on a plan that somebody says in words: simple imperatives, and nothing is guessed.

>>> read = parse_feedback("Remove step 4. step 2 depends on 1; make it faster")
>>> [dict(each) for each in read.operations], read.left
([{'op': 'remove_step', 'step': 4}, {'op': 'set_dependencies', 'step': 2, 'add': [1]}], ('make it faster',))

What is no operation is left over as it was said; it stays with the plan until somebody with more understanding takes it up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_STEP = r"(?:step|#)\s*#?(\d{1,6})"
_STEPS = r"(?:steps?|#)?\s*#?(\d{1,6}(?:\s*(?:,|and|&|,\s*and)\s*(?:step\s*)?#?\d{1,6})*)"
_QUOTED = r"[\"'“”‘’`](.+)[\"'“”‘’`]"
_BULLET = re.compile(r"^[ \t]*+(?:[-*+]|\d+[.)])\s+", re.MULTILINE)
_CLAUSE = re.compile(r"(?<=[^\s.])\.(?:\s+|\Z)|[;\n]+|(?:,|(?<!\s))\s++(?:and )?then\s+", re.IGNORECASE)
_POLITE = re.compile(r"(?:please|also|and|now|can you|could you|i want you to|let's)[, ]+", re.IGNORECASE)
CHARS_MAX = 10_000
"""Of one feedback; a page or two."""


class ParsedFeedback(NamedTuple):
    """The operations that a text names, and the clauses that name none."""

    operations: tuple[Mapping[str, Any], ...]
    left: tuple[str, ...]


def parse_feedback(text: str) -> ParsedFeedback:
    """Read a feedback, clause by clause."""
    operations: list[Mapping[str, Any]] = []
    left: list[str] = []
    for part in _CLAUSE.split(_BULLET.sub("", text[:CHARS_MAX])):
        clause = part.strip()
        found = _parse_clause(_POLITE.sub("", clause, count=1) if _POLITE.match(clause) else clause)
        operations += found
        left += [clause] if clause and not found else []
    return ParsedFeedback(tuple(operations), tuple(left))


def _parse_clause(clause: str) -> list[dict[str, Any]]:
    for pattern, made in _PATTERNS:
        if match := pattern.fullmatch(clause.rstrip(" ,!")):
            return made(match)
    return []


def _parse_numbers(text: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", text)]


def _remove_operations(match: re.Match[str]) -> list[dict[str, Any]]:
    return [{"op": "remove_step", "step": number} for number in _parse_numbers(match[1])]


def _wait_operation(match: re.Match[str]) -> list[dict[str, Any]]:
    return [{"op": "set_dependencies", "step": int(match[1]), "add": _parse_numbers(match[2])}]


def _stop_waiting_operation(match: re.Match[str]) -> list[dict[str, Any]]:
    return [{"op": "set_dependencies", "step": int(match[1]), "remove": _parse_numbers(match[2])}]


def _wait_for_nothing_operation(match: re.Match[str]) -> list[dict[str, Any]]:
    return [{"op": "set_dependencies", "step": int(match[1]), "depends_on": []}]


def _exclude_operations(match: re.Match[str]) -> list[dict[str, Any]]:
    paths = [path.strip(" `\"'") for path in re.split(r",|\s+and\s+", match[1])]
    return [{"op": "exclude", "path": path} for path in paths] if all(_is_path(path) for path in paths) else []


def _split_operation(match: re.Match[str]) -> list[dict[str, Any]]:
    if not match[2]:
        return [{"op": "split_step", "step": int(match[1])}]
    parts = [part.strip(" `\"'") for part in re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", match[2])]
    return [{"op": "split_step", "step": int(match[1]), "into": parts}] if len(parts) > 1 and all(parts) else []


def _merge_operation(match: re.Match[str]) -> list[dict[str, Any]]:
    steps = _parse_numbers(match[1])
    return [{"op": "merge_steps", "steps": steps}] if len(steps) > 1 else []


def _move_operation(match: re.Match[str]) -> list[dict[str, Any]]:
    where = {"before": "before", "after": "after"}.get(match[2].lower(), "to")
    return [{"op": "move_step", "step": int(match[1]), where: int(match[3])}]


def _rename_operation(match: re.Match[str]) -> list[dict[str, Any]]:
    return [{"op": "update_step", "step": int(match[1]), "title": match[2].strip(" \"'“”`")}]


def _priority_operation(match: re.Match[str]) -> list[dict[str, Any]]:
    return [{"op": "update_step", "step": int(match[1]), "priority": match[2].lower()}]


def _estimate_operation(match: re.Match[str]) -> list[dict[str, Any]]:
    return [{"op": "set_estimate", "step": int(match[1]), "effort": match[2]}]


def _add_operation(match: re.Match[str]) -> list[dict[str, Any]]:
    where = {match[2].lower(): int(match[3])} if match[2] else {}
    return [{"op": "add_step", "title": match[1].strip(), **where}]


def _risk_operation(match: re.Match[str]) -> list[dict[str, Any]]:
    return [{"op": "add_risk", "issue": match[1].strip()}]


def _is_path(path: str) -> bool:
    """Whether a word is meant as a path or glob, not as a thing to leave out of the work."""
    return bool(path) and " " not in path and any(mark in path for mark in "/*.")


_OperationBuilder = Callable[[re.Match[str]], list[dict[str, Any]]]


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


_PATTERNS: tuple[tuple[re.Pattern[str], _OperationBuilder], ...] = (
    (_pattern(rf"(?:remove|delete|drop|skip out) (?:the )?(?=steps?|#){_STEPS}"), _remove_operations),
    (
        _pattern(
            rf"{_STEP} (?:should |must )?(?:depends? on|needs?|waits? for|(?:comes? |goes? |runs? )?after) {_STEPS}"
        ),
        _wait_operation,
    ),
    (_pattern(rf"(?:let|make) {_STEP} (?:depend on|need|wait for) {_STEPS}"), _wait_operation),
    (
        _pattern(
            rf"{_STEP} (?:no longer|does not|doesn't|should not|need not) (?:depends? on|needs?|waits? for) {_STEPS}"
        ),
        _stop_waiting_operation,
    ),
    (_pattern(rf"{_STEP} (?:depends on|waits for) nothing"), _wait_for_nothing_operation),
    (
        _pattern(r"(?:exclude|leave out|ignore|do not touch|don't touch) (?:the )?(?:files? |folders? |path )?(\S.*)"),
        _exclude_operations,
    ),
    (_pattern(rf"split {_STEP}(?: (?:in|into|up into):? (.+))?"), _split_operation),
    (_pattern(rf"(?:merge|join|combine) {_STEPS}"), _merge_operation),
    (_pattern(rf"move {_STEP} (to|before|after) (?:place |position |step )?#?(\d{{1,6}})"), _move_operation),
    (_pattern(rf"(?:rename|retitle|call) {_STEP} (?:to |as )?{_QUOTED}"), _rename_operation),
    (
        _pattern(rf"(?:make |set )?{_STEP}(?: is|'s priority to| to)? (high|medium|low)(?: priority)?"),
        _priority_operation,
    ),
    (_pattern(rf"set (?:the )?priority of {_STEP} to (high|medium|low)"), _priority_operation),
    (_pattern(rf"{_STEP} (?:takes?|needs?) (?:about )?(\d.*)"), _estimate_operation),
    (_pattern(rf"estimate {_STEP} (?:at|as|with)? ?(\d.*)"), _estimate_operation),
    (_pattern(rf"add (?:a )?(?:new )?step:? {_QUOTED}(?: (before|after) (?:step )?#?(\d{{1,6}}))?"), _add_operation),
    (_pattern(r"add (?:a )?(?:new )?step: ([^\"'“`].*?)(?: (before|after) step #?(\d{1,6}))?"), _add_operation),
    (_pattern(r"add (?:a |the )?risk:? [\"'“`]?(.+?)[\"'”`]?"), _risk_operation),
)
"""Whole clauses only: a sentence that merely contains one of these means more than it."""
