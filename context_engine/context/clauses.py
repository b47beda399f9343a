r"""PURE.

What a prompt asks to be done: its imperative clauses, in its own words. Nothing is added, nothing is rephrased.

>>> extract_clauses("Please add retries to the client. It fails often.\n- rename `foo` to `bar`, then update the docs")
['add retries to the client', 'rename `foo` to `bar`', 'update the docs']
>>> extract_clauses("make it better"), extract_objective("Login is slow. Fix it.")
(['make it better'], 'Login is slow.')
"""

from __future__ import annotations

import re

CLAUSES_MAX = 8
CLAUSE_CHARS_MAX = 160
OBJECTIVE_CHARS_MAX = 200

_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_END = re.compile(r"(?<=[.!?;])\s+|\n+|,? (?:and then|then|and also) ")
_POLITE = re.compile(
    r"^(?:[-*+\u2022]|\d+[.)])?\s*(?:\[[ xX]?\])?\s*(?:(?:please|then|also|and|now|finally|next|first|so|just|kindly)[, ]+"
    r"|(?:can|could|would|will) you (?:please )?|(?:we|you|i) (?:need|want|have|would like)(?: you)? to |(?:it|we|you) (?:should|must) "
    r"|let'?s |make sure (?:that )?(?:you |to )?|ensure (?:that )?(?=you )|help me (?:to )?)*",
    re.IGNORECASE,
)
VERBS = frozenset(
    "add allow apply avoid bump cache change check clean convert copy create cut debug decrease define delete deprecate detect "
    "disable document drop enable ensure expose export extend extract find fix format generate guard handle hide ignore implement "
    "import improve include increase inline introduce investigate keep limit load log make mark merge migrate mock move normalise "
    "normalize optimise optimize parse port prevent print profile raise read reduce refactor reject remove rename reorder replace "
    "report reproduce resolve restore retry return reuse revert rewrite run save set show simplify skip sort speed split start stop "
    "store strip support switch test throw tighten trim try turn type unify update upgrade use validate verify warn wrap write".split()
)
"""What people ask of somebody who changes code; a sentence that begins with none of these asks for nothing we could
check."""


def extract_clauses(prompt: str) -> list[str]:
    """The clauses that begin with a verb of asking, without their politeness; code fences hold none."""
    told = []
    for part in _END.split(_FENCE.sub("\n", prompt)):
        clause = _POLITE.sub("", part.strip(), count=1).strip().rstrip(".!?;,:")
        first = re.match(r"[A-Za-z]+", clause)
        if first and first.group().lower() in VERBS and " " in clause:
            told.append(clause[:CLAUSE_CHARS_MAX])
    return list(dict.fromkeys(told))[:CLAUSES_MAX]


def extract_objective(prompt: str) -> str:
    """The first sentence, as it is written."""
    plain = _FENCE.sub("\n", prompt).strip()
    first = re.split(r"(?<=[.!?])\s|\n", plain, maxsplit=1)[0].strip()
    return first[:OBJECTIVE_CHARS_MAX]
