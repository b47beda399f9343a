"""PURE. Many rules find the same: what overlaps becomes one, and what stands for a former secret stays whole."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from context_engine.secrets.heuristics import LABEL
from context_engine.secrets.pem import Parts
from context_engine.secrets.secret_rules import SecretRule


class SecretSpan(NamedTuple):
    """Where a rule found something, in bytes. `parts` are what has to go, where that is not all of it."""

    start: int
    stop: int
    rule: SecretRule
    parts: Parts = ()


def merge_overlaps(data: bytes, spans: Sequence[SecretSpan]) -> list[SecretSpan]:
    """One spot for all that overlap: it covers them all and is called what the strongest is: strict first, then the longest.

    A label of a former redaction is covered whole or not at all; what is nothing but labels is no secret.
    """
    if not spans:
        return []
    labels = [match.span() for match in _LABEL.finditer(data)]
    kept = sorted((spot for each in spans if (spot := _extend_to_labels(data, each, labels))), key=_order)
    merged: list[SecretSpan] = []
    for spot in kept:
        if merged and spot.start < merged[-1].stop:
            merged[-1] = _union(merged[-1], spot)
        else:
            merged.append(spot)
    return merged


def _order(spot: SecretSpan) -> tuple[int, int, int]:
    return spot.start, spot.stop, spot.rule.rank


_LABEL = re.compile(LABEL.pattern.encode())


def _extend_to_labels(data: bytes, spot: SecretSpan, labels: Sequence[tuple[int, int]]) -> SecretSpan | None:
    """The spot with the labels whole that it cuts; None when nothing is left beside them."""
    start, stop = _characters(data, spot.start, spot.stop)
    first = bisect_right(labels, start, key=itemgetter(1))
    last = bisect_left(labels, stop, key=itemgetter(0))
    if first >= last:
        return spot._replace(start=start, stop=stop)
    start, stop = min(start, labels[first][0]), max(stop, labels[last - 1][1])
    rest = _LABEL.sub(b"", data[start:stop])
    return SecretSpan(start, stop, spot.rule) if rest.strip(b" \t\r\n") else None


def _characters(data: bytes, start: int, stop: int) -> tuple[int, int]:
    """The bytes of whole characters."""
    while start > 0 and data[start] & 0xC0 == 0x80:
        start -= 1
    while stop < len(data) and data[stop] & 0xC0 == 0x80:
        stop += 1
    return start, stop


def _union(one: SecretSpan, other: SecretSpan) -> SecretSpan:
    strongest = max(one, other, key=strength)
    parts = _merge_parts(sorted([*parts_of(one), *parts_of(other)])) if one.parts or other.parts else ()
    return SecretSpan(one.start, max(one.stop, other.stop), strongest.rule, parts)


def strength(spot: SecretSpan) -> tuple[bool, int, int]:
    """By what the rule of several is chosen."""
    return spot.rule.tier == "strict", spot.stop - spot.start, spot.rule.rank


def parts_of(spot: SecretSpan) -> Parts:
    """Return the parts to redact."""
    return spot.parts or ((spot.start, spot.stop),)


def _merge_parts(parts: Sequence[tuple[int, int]]) -> Parts:
    """Parts that overlap as one."""
    joined: list[tuple[int, int]] = []
    for start, stop in parts:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return tuple(joined)
