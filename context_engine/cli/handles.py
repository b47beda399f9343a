"""PURE. Short names that people can type: a plan by the words of its name, everything else by the end of its id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from context_engine.memory.ids import short, slug

NO_WORDS = slug("")
"""What stands for a name without a letter or digit of ASCII."""
CHARS_MAX = 28
"""Four or five words: more is no short name."""
ID_CHARS_MIN = 4
"""Of the end of an id, before it is taken for one."""


def handles(named: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The handle of each plan, by id, out of ids and names: its words, or the end of its id where those say too little.

    >>> handles([("plan_1-aaaaaaaa", "Money in cents"), ("plan_1-bbbbbbbb", "???")])
    {'plan_1-aaaaaaaa': 'money-in-cents', 'plan_1-bbbbbbbb': 'bbbbbbbb'}
    """
    rows = [(plan_id, _words(name)) for plan_id, name in named]
    taken = Counter(words for _, words in rows)
    return {each: words if words != NO_WORDS and taken[words] == 1 else short(each) for each, words in rows}


def _words(name: str) -> str:
    """The first words of a name, joined by dashes."""
    whole = slug(name)
    return whole if len(whole) <= CHARS_MAX else whole[: CHARS_MAX + 1].rpartition("-")[0] or whole[:CHARS_MAX]


def meant(typed: str, by_id: Mapping[str, str]) -> str:
    """The id that a handle, its beginning, or the end of an id stands for; what fits none or several stays as it was typed.

    >>> meant("money-in", {"plan_1-aaaaaaaa": "money-in-cents"}), meant("other", {})
    ('plan_1-aaaaaaaa', 'other')
    """
    found = [each for each, handle in by_id.items() if typed in (handle, each)]
    found = found or [each for each, handle in by_id.items() if typed and handle.startswith(typed)]
    found = found or ending(typed, by_id)
    return found[0] if len(found) == 1 else typed


def ending(typed: str, ids: Iterable[str]) -> list[str]:
    """The ids that end like this, if it is long enough to mean one."""
    return [each for each in ids if each.endswith(typed)] if len(typed) >= ID_CHARS_MIN else []
