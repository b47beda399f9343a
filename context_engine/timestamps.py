"""Timestamps as files contain them: ISO-8601 in UTC. Code that needs the present time takes a clock.

>>> texts = ("1970-01-02", "1970-01-01T01:00:00+01:00", "soon")
>>> format_timestamp(0.5), *map(parse_timestamp, texts)
('1970-01-01T00:00:00.500Z', 86400.0, 0.0, None)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from context_engine.errors import InvalidArgument

Now = Callable[[], float]
"""Seconds since 1970."""

DAY_S = 86_400.0


def make_clock(fake: str = "") -> Now:
    """Return the clock of this machine, or one that always returns the moment of `CTX_FAKE_NOW`, for tests.

    Raises: InvalidArgument when it is not a moment.
    """
    if not fake:
        return time.time
    moment = parse_timestamp(fake)
    if moment is None:
        raise InvalidArgument(
            f"CTX_FAKE_NOW is {fake!r}, which is not a moment", suggestion="Write 2026-11-21T16:00:00Z."
        )
    return lambda: moment


def format_timestamp(at: float) -> str:
    """Return a moment as text, to the millisecond; such texts sort like their moments."""
    return (
        datetime.fromtimestamp(round(at * 1000) / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def parse_timestamp(text: str) -> float | None:
    """Return the moment of a text: a day means its start, a missing zone means UTC. None when it is not a moment."""
    try:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def format_age(then_s: float | None, now_s: float) -> str:
    """Format how long ago a moment was, in the largest unit that fits.

    >>> format_age(0, 59), format_age(0, 7_300), format_age(0, 90_000), format_age(9, 0), format_age(None, 0)
    ('just now', '2 h ago', '1 d ago', 'just now', '')
    """
    if then_s is None:
        return ""
    for name, length_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if now_s - then_s >= length_s:
            return f"{int((now_s - then_s) // length_s)} {name} ago"
    return "just now"
