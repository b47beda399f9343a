"""PURE. Short names of plans, which people can type: the first words of a name, or the end of an id where those say too little."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from context_engine.text.readable_names import ending, short, slug

CHARS_MAX = 28
"""Four or five words: more is no short name."""


def make_slugs(named: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The handle of each plan, by id, out of ids and names.

    >>> make_slugs([("plan_1-aaaaaaaa", "Money in cents"), ("plan_1-bbbbbbbb", "???")])
    {'plan_1-aaaaaaaa': 'money-in-cents', 'plan_1-bbbbbbbb': 'bbbbbbbb'}
    """
    rows = [(plan_id, _slug_words(name)) for plan_id, name in named]
    taken = Counter(words for _, words in rows)
    return {each: words if words and taken[words] == 1 else short(each) for each, words in rows}


def _slug_words(name: str) -> str:
    """The first words of a name, joined by dashes."""
    whole = slug(name, "")
    return whole if len(whole) <= CHARS_MAX else whole[: CHARS_MAX + 1].rpartition("-")[0] or whole[:CHARS_MAX]


def resolve_slug(typed: str, by_id: Mapping[str, str], *, is_begun: bool = False) -> str:
    """The id that a handle or the end of an id stands for; what fits none or several stays as it was typed.

    `is_begun`: the beginning of a handle will do, which is for people.

    >>> known = {"plan_1-aaaaaaaa": "money-in-cents"}
    >>> resolve_slug("money-in-cents", known), resolve_slug("money", known), resolve_slug("money", known, is_begun=True)
    ('plan_1-aaaaaaaa', 'money', 'plan_1-aaaaaaaa')
    """
    found = [each for each, handle in by_id.items() if typed in (handle, each)]
    if is_begun and typed:
        found = found or [each for each, handle in by_id.items() if handle.startswith(typed)]
    found = found or ending(typed, by_id)
    return found[0] if len(found) == 1 else typed
