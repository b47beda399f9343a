"""PURE. How a question begins: a line that only announces the rest, or the verb of a task; words that say nothing."""

from __future__ import annotations

import re

from context_engine.text import STOP_WORDS

TITLE_CHARS_MAX = 160
"""A first line that is longer is cut after its first sentence: it is an issue in one line."""
CHATTER = frozenset(
    "able about actual actually after again all already also although any anyone anything back basically because "
    "been before being both bug but cannot case cases could currently description doing done each either else "
    "even ever every example expected few find found get gets getting give given going got had happen happened "
    "happening happens has have having hello help hi however if instead issue issues just keep know latest let "
    "like look looks made make makes making many may maybe might more most much need needed needs new no not "
    "nothing now off often ok one only other otherwise out over own perhaps please possible previously probably "
    "problem question really recently reproduce same see seem seems seen several should similar simply since so "
    "some someone something steps still such sure than thank thanks their them then there therefore they thing "
    "things think though thought through too tried try trying two unfortunately unless until up use used uses "
    "using very via want wanted way we well while whole will without wonder work worked working works would wrong "
    "yes yet your".split()
)
"""Words of issues that say nothing about code; a title has none to lose. Without them 2 % more commit messages find a
changed file first (evals/wide)."""
_LEAD_IN_END = re.compile(r":[\s*_]*\Z|\b(?:this|these|following|below|here)\b", re.IGNORECASE)
_LEAD_IN_WORDS = frozenset(
    "above address apply below change changes code codebase comment commit consider described description details "
    "do error feature fix following github gitlab go handle implement input instructions log message my open "
    "output patch perform pr project prompt pull repo report reported repository request requirement requirements "
    "resolve says solve spec stack statement story summary task text ticket todo trace traceback update user "
    "write".split()
)
"""Words that announce a text, besides stop words and `CHATTER`."""


def drop_lead_in(text: str) -> str:
    r"""Return a text without a first line that only announces the rest.

    >>> drop_lead_in("Please fix the following issue:\n\nPool leaks"), drop_lead_in("Fix this leak:\nPool leaks")
    ('Pool leaks', 'Fix this leak:\nPool leaks')
    """
    line, _, rest = text.lstrip().partition("\n")
    is_announcing = len(line) <= TITLE_CHARS_MAX and _LEAD_IN_END.search(line)
    if not is_announcing or not rest.strip():
        return text
    words = {word.lower() for word in re.findall(r"[^\W_]+|_", line)}
    return text if words - STOP_WORDS - CHATTER - _LEAD_IN_WORDS else rest.lstrip()


_POLITE = re.compile(
    r"^(?:[-*+\u2022]|\d+[.)])?\s*(?:\[[ xX]?\])?\s*"
    r"(?:(?:please|then|also|and|now|finally|next|first|so|just|kindly)[, ]+"
    r"|(?:can|could|would|will) you (?:please )?|(?:we|you|i) (?:need|want|have|would like)(?: you)? to "
    r"|(?:it|we|you) (?:should|must) "
    r"|let'?s |make sure (?:that )?(?:you |to )?|ensure (?:that )?(?=you )|help me (?:to )?)*",
    re.IGNORECASE,
)
_VERBS = frozenset(
    "add allow apply avoid bump cache change check clean convert copy create cut debug decrease define delete "
    "deprecate detect disable document drop enable ensure expose export extend extract find fix format "
    "generate guard handle hide ignore implement import improve include increase inline introduce investigate "
    "keep limit load log make mark merge migrate mock move normalise normalize optimise optimize parse port "
    "prevent print profile raise read reduce refactor reject remove rename reorder replace report reproduce "
    "resolve restore retry return reuse revert rewrite run save set show simplify skip sort speed split start "
    "stop store strip support switch test throw tighten trim try turn type unify update upgrade use validate "
    "verify warn wrap write".split()
)
"""Verbs that ask for a change of code."""
_SUBJECT = re.compile(r"^`?[\w./-]{1,40}(?:\([^)\n]{0,40}\))?`?!?:\s+")
"""The subject of a task in front of it, as commits have it: `fix(core): `, "`parser`: "."""
_QUOTES = " \t\r\n\"'\u201c\u2018"


def is_task(prompt: str) -> bool:
    """Return whether a prompt begins as a task of a developer does, with a verb that asks for a change of code.

    It may be in quotes, as `opencode run` puts it.

    >>> [is_task(text) for text in ("Please fix the loop", "fix(core): keep the order", '"Adding a limit"', "thanks")]
    [True, True, True, False]
    """
    words = _SUBJECT.sub("", _POLITE.sub("", prompt.lstrip(_QUOTES), count=1))
    first = re.match(r"[A-Za-z]+", words)
    word = first.group().lower() if first else ""
    plain = {word, *(word.removesuffix(ending) for ending in ("s", "es", "d", "ed", "ing"))}
    plain |= {f"{form}e" for form in plain} | {form[:-1] for form in plain if form[-1:] == form[-2:-1]}
    return not _VERBS.isdisjoint(plain)
