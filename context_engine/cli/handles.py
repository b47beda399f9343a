"""PURE. Short names that people can type: a plan by the words of its name, everything else by the end of its id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from context_engine.memory.ids import short, slug

NO_WORDS = slug("")
"""What stands for a name without a letter or digit of ASCII."""


def handles(named: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The handle of each plan, by id, out of ids and names: its words, or the end of its id where those say too little.

    >>> handles([("plan_1-aaaaaaaa", "Money in cents"), ("plan_1-bbbbbbbb", "???")])
    {'plan_1-aaaaaaaa': 'money-in-cents', 'plan_1-bbbbbbbb': 'bbbbbbbb'}
    """
    rows = list(named)
    taken = Counter(slug(name) for _, name in rows)
    return {
        plan_id: words if (words := slug(name)) != NO_WORDS and taken[words] == 1 else short(plan_id)
        for plan_id, name in rows
    }


def meant(typed: str, by_id: Mapping[str, str]) -> str:
    """The id that a handle, or the end of an id, stands for; what fits none or several stays as it was typed.

    >>> meant("money-in-cents", {"plan_1-aaaaaaaa": "money-in-cents"}), meant("other", {})
    ('plan_1-aaaaaaaa', 'other')
    """
    found = [each for each, handle in by_id.items() if typed in (handle, each)] or ending(typed, by_id)
    return found[0] if len(found) == 1 else typed


def ending(typed: str, ids: Iterable[str]) -> list[str]:
    """The ids that end like this, if that is enough of an id to mean one: four characters."""
    return [each for each in ids if each.endswith(typed)] if len(typed) >= 4 else []
