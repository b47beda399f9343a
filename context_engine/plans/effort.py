"""PURE. Effort in words and in hours: "2-4 hours", "half a day", 1.5."""

from __future__ import annotations

import re

from context_engine.plans.model import DAY_HOURS, Estimate

_HOURS = {"m": 1 / 60, "h": 1.0, "d": DAY_HOURS, "w": 5 * DAY_HOURS}
"""Unit by its first letter -> hours; a week has five working days."""
_NUMBER = r"(\d{1,5}(?:[.,]\d{1,3})?|an?\b|half an?\b|one\b)"
_EFFORT = re.compile(
    rf"{_NUMBER}\s*(?:(?:-|–|to)\s*{_NUMBER})?\s*(m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?|w(?:eeks?)?)\b",
    re.IGNORECASE,
)
_SPREAD = (0.5, 2.0)
"""Optimistic and pessimistic share of a single number: nobody who says "2 hours" means less than one or more than four."""


def parse_effort(effort: str) -> Estimate | None:
    """The hours that an effort in words means, None when it names none; of several the first counts.

    >>> parse_effort("2-4 hours"), parse_effort("about 30 min").hours, parse_effort("1 day").m, parse_effort("small")
    (Estimate(o=2.0, m=3.0, p=4.0), 0.541..., 8.0, None)
    """
    match = _EFFORT.search(effort[:200])
    if not match:
        return None
    unit = _HOURS[match[3][0].lower()]
    low = _number(match[1]) * unit
    if match[2]:
        high = max(low, _number(match[2]) * unit)
        return Estimate(low, (low + high) / 2, high)
    return Estimate(low * _SPREAD[0], low, low * _SPREAD[1])


def format_effort(hours: float) -> str:
    """Hours in words.

    >>> format_effort(0.5), format_effort(2.0), format_effort(20), format_effort(1.26)
    ('30 min', '2 h', '2.5 days', '1.3 h')
    """
    if hours < 1:
        return f"{hours * 60:.0f} min"
    if hours < 2 * DAY_HOURS:
        return f"{round(hours, 1):g} h"
    return f"{round(hours / DAY_HOURS, 1):g} days"


def _number(text: str) -> float:
    words = text.lower()
    if words.startswith("half"):
        return 0.5
    return 1.0 if words[0] in "ao" else float(words.replace(",", "."))
