"""PURE. Where the secrets of a text stand: words point to places, patterns and second looks decide, overlaps become one.

    find('key = "ghp_..."')   ->   (Secret(rule="github-token", start=7, stop=47, tier="strict", confidence=0.95, ...),)

A text is searched once for all words. Only where one stands is a pattern tried, on a bounded number of characters, so the
time grows with the text and with nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from context_engine.text.secrets.alone import is_random_alone
from context_engine.text.secrets.given import Given, given, nearby
from context_engine.text.secrets.likely import entropy, is_template
from context_engine.text.secrets.looks import LOOKS, Candidate
from context_engine.text.secrets.pem import Parts, body_lines, key_lines
from context_engine.text.secrets.prefilter import Words
from context_engine.text.secrets.rules import Allowance, Rule, Rules, Tier, builtin, compiled, own
from context_engine.text.secrets.settling import Spot, parts_of, settled, strength
from context_engine.text.secrets.wrapping import BLOB, BLOB_BYTES_MAX, unwrapped, whole_blob

REACH_BYTES = 4_096
"""How far from its word a secret goes on: the longest known kinds, signed tokens, have 2,000."""
NEAR_BYTES = (100, 400)
"""How far before and after its word a secret is looked for that has no beginning of its own."""
WORD_CHARS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
WORD = frozenset(WORD_CHARS)
_WORD_LETTERS = frozenset(bytes([letter]) for letter in WORD_CHARS)
JOINTS = frozenset(b"-_")
BEFORE = re.compile(
    rb"""(?:\\[nrtbf"'/]|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|%[0-9A-Fa-f]{2}|\x1b\[[0-9;]{0,8}m|(?<![A-Za-z0-9])0[xX]|(?<![^\n])[0-9]{0,7}-)\Z"""
)
"""Ends in a letter or joint and is no part of a word: an escape of a string, an address or a terminal; a number before a line."""
BEFORE_BYTES = 10
LINE_BYTES = 1_000
"""So far on both sides of a secret a comment is looked for that allows it: longer lines nobody writes by hand."""
ALLOWED = (b"gitleaks:allow", b"pragma: allowlist secret")


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret and where it stands: characters of the text, half-open, and its line and column from 1.

    `is_allowed` says that somebody declared it to be none: a finding is then dropped, while a redaction never asks.
    `parts` are what has to go; more than one where lines between them stay.
    """

    rule: str
    title: str
    kind: str
    tier: Tier
    confidence: float
    start: int
    stop: int
    line: int
    column: int
    is_allowed: bool
    parts: tuple[tuple[int, int], ...]


def find(text: str, mode: Tier = "broad", *, path: str = "", rules: Rules | None = None) -> tuple[Secret, ...]:
    """The secrets of a text, in order, none over another. `path` is for rules that hold for some files only."""
    data = text.encode("utf-8", "surrogatepass")
    rules = rules or builtin()
    return located(data, settled(data, spots(data, mode, rules, path)), rules, path)


def spots(data: bytes, mode: Tier, rules: Rules, path: str = "") -> list[Spot]:
    """Everything that a rule takes for a secret, in no order, one over the other."""
    found = list(_at_words(data, rules.strict if mode == "strict" else rules.broad))
    found += _anywhere(data, rules, path)
    for rule in rules.lines:
        lines = body_lines(data, compiled(rule.pattern).finditer(data))
        found += [Spot(parts[0][0], parts[-1][1], rule, parts) for parts in lines]
    if mode == "broad":
        found += _wrapped(data, rules)
        for rule in rules.values:
            found += _assigned(data, rule)
    return found


def _at_words(data: bytes, words: Words[Rule]) -> Iterator[Spot]:
    """What the rules find whose words stand in the text."""
    for start, stop, meant in words.places(data):
        edge = edge_before(data, start)
        readings: list[Given | None] = []
        for rule in meant:
            if rule.place == "start":
                spot = _started(data, rule, start, stop) if edge is Edge.FREE or (edge and rule.joins) else None
            elif rule.place == "near":
                spot = _near(data, rule, start, stop)
            else:
                readings = readings or [given(data, start, stop)]
                spot = _named(data, rule, start, stop, readings[0])
                if spot is None and rule.tier == "broad":
                    if len(readings) < 2:
                        readings.append(nearby(data, start, stop))
                    spot = _named(data, rule, start, stop, readings[1])
            if spot is not None:
                yield spot


# -- one rule at one place --------------------------------------------------------------------------------------------


def _started(data: bytes, rule: Rule, start: int, stop: int) -> Spot | None:
    """A secret that begins with the word."""
    match = own(rule.pattern).match(data, start, min(len(data), start + REACH_BYTES))
    if match is None:
        return None
    if rule.look == "pem":
        parts = key_lines(data, match.end())
        return Spot(parts[0][0], parts[-1][1], rule, parts) if parts else None
    return _looked(data, rule, Candidate(data, start, stop, *match.span(rule.group), match))


def _named(data: bytes, rule: Rule, start: int, stop: int, told: Given | None) -> Spot | None:
    """A secret that is given to a name with the word in it."""
    match = own(rule.pattern).fullmatch(told.value) if told else None
    if told is None or match is None:
        return None
    first, last = match.span(rule.group)
    return _looked(data, rule, Candidate(data, start, stop, told.start + first, told.start + last, match, told))


def _near(data: bytes, rule: Rule, start: int, stop: int) -> Spot | None:
    """A secret around the word."""
    before, after = NEAR_BYTES
    match = own(rule.pattern).search(data, max(0, start - before), min(len(data), stop + after))
    if match is None or not edge_before(data, match.start(rule.group)):
        return None
    return _looked(data, rule, Candidate(data, start, stop, *match.span(rule.group), match))


def _looked(data: bytes, rule: Rule, candidate: Candidate) -> Spot | None:
    """The candidate, if it is a whole word and survives the second look."""
    start, stop = candidate.start, candidate.stop
    if start == stop or is_template(candidate.value):
        return None
    if candidate.given is None and not _stands_apart(candidate, rule):
        return None
    return Spot(start, stop, rule, _lines(data, start, stop)) if LOOKS[rule.look](candidate) else None


def _lines(data: bytes, start: int, stop: int) -> Parts:
    """What goes of a secret of several lines: each line, but not what ends it."""
    if data.find(b"\n", start, stop) < 0:
        return ()
    return tuple((start + match.start(), start + match.end()) for match in _LINE.finditer(data[start:stop]))


_LINE = re.compile(rb"[^\r\n]+")


def _anywhere(data: bytes, rules: Rules, path: str) -> Iterator[Spot]:
    """What the rules of a user find, which say nothing of places."""
    lowered = data.lower() if rules.theirs else b""
    for rule in rules.theirs:
        if rule.words and not any(word.lower().encode() in lowered for word in rule.words):
            continue
        if rule.path and not compiled(rule.path).search(path.encode()):
            continue
        for match in compiled(rule.pattern).finditer(data):
            start, stop = match.span(rule.group)
            value = data[start:stop].decode("utf-8", "replace")
            if stop > start and entropy(value) >= rule.entropy:
                yield Spot(start, stop, rule)


def _stands_apart(candidate: Candidate, rule: Rule) -> bool:
    """Return whether a match is a word of its own, or is joined to others by `-` or `_` and yet is no word."""
    begin = candidate.word_start if rule.place == "start" else candidate.start
    before, after = edge_before(candidate.data, begin), edge_after(candidate.data, candidate.stop)
    if before is Edge.FREE and after is Edge.FREE:
        return True
    return bool(before and after) and rule.joins and any(map(str.isdigit, candidate.value))


class Edge(IntEnum):
    """What the character next to a match says of it: inside a word, joined to one by `-` or `_`, or free of it."""

    INSIDE = 0
    JOINED = 1
    FREE = 2


def edge_before(data: bytes, start: int) -> Edge:
    """Return how a word that starts here is connected to what is before it."""
    if not start or data[start] not in WORD or (data[start - 1] not in WORD and data[start - 1] not in JOINTS):
        return Edge.FREE
    if BEFORE.search(data[max(0, start - BEFORE_BYTES) : start]):
        return Edge.FREE
    return Edge.JOINED if data[start - 1] in JOINTS else Edge.INSIDE


def edge_after(data: bytes, stop: int) -> Edge:
    """Return how a word that stops here is connected to what comes after it."""
    after = data[stop : stop + 2]
    if not after or (data[stop - 1] not in WORD and data[stop - 1] not in JOINTS):
        return Edge.FREE
    if after[0] not in JOINTS:
        return Edge.INSIDE if after[0] in WORD else Edge.FREE
    return Edge.JOINED if after[0] in WORD or after[1:] in _WORD_LETTERS else Edge.FREE


# -- wrapped in base64 ------------------------------------------------------------------------------------------------


def _wrapped(data: bytes, rules: Rules) -> Iterator[Spot]:
    """Blobs that hold a secret, one level deep: what is wrapped twice is not looked into."""
    for match in compiled(BLOB).finditer(data):
        start, stop = whole_blob(data, *match.span())
        inner = unwrapped(data[start : min(stop, start + BLOB_BYTES_MAX)])
        found = list(_at_words(inner, rules.broad)) if inner else []
        if found:
            yield Spot(start, stop, max(found, key=strength).rule)


# -- any name at all --------------------------------------------------------------------------------------------------


def _assigned(data: bytes, rule: Rule) -> Iterator[Spot]:
    """Values random beyond doubt that are given to a name which does not say that they are a checksum or an id."""
    for match in compiled(rule.pattern).finditer(data):
        start, stop = match.span(1)
        value = match[1]
        if len(value.translate(None, _DIGITS)) <= len(value) - DIGITS_OF_VALUE_MIN and is_random_alone(
            data, start, stop
        ):
            yield Spot(start, stop, rule)


_DIGITS = b"0123456789"
DIGITS_OF_VALUE_MIN = 2
"""Random letters and digits at length 20 have two nine times of ten, at 32 nearly always."""


# -- from spots to secrets --------------------------------------------------------------------------------------------


def located(data: bytes, found: Sequence[Spot], rules: Rules, path: str = "") -> tuple[Secret, ...]:
    """The spots as secrets of the text: characters instead of bytes, lines and columns. Each byte is looked at once."""
    told: list[Secret] = []
    at, chars, line, line_chars = 0, 0, 1, 0
    for spot in found:
        if lines := data.count(b"\n", at, spot.start):
            line += lines
            line_chars = chars + _length(data[at : data.rfind(b"\n", at, spot.start) + 1])
        chars += _length(data[at : spot.start])
        at = spot.start
        parts = tuple(
            (chars + _length(data[at:start]), chars + _length(data[at:stop])) for start, stop in parts_of(spot)
        )
        is_allowed = _is_allowed(data, spot, rules, path)
        told.append(_secret(spot.rule, parts, line, chars - line_chars + 1, is_allowed=is_allowed))
    return tuple(told)


def _secret(rule: Rule, parts: Parts, line: int, column: int, *, is_allowed: bool) -> Secret:
    return Secret(
        rule=rule.id,
        title=rule.title,
        kind=rule.kind,
        tier=rule.tier,
        confidence=rule.confidence,
        start=parts[0][0],
        stop=parts[-1][1],
        line=line,
        column=column,
        is_allowed=is_allowed,
        parts=parts,
    )


def _length(data: bytes) -> int:
    return len(data) if data.isascii() else len(data.decode("utf-8", "surrogatepass"))


# -- what somebody declared to be none --------------------------------------------------------------------------------


def _is_allowed(data: bytes, spot: Spot, rules: Rules, path: str) -> bool:
    """Whether a comment on its line, or an allowlist of the user, says that this is no secret."""
    before = data[max(0, spot.start - LINE_BYTES) : spot.start].rpartition(b"\n")[2]
    after = data[spot.stop : spot.stop + LINE_BYTES].partition(b"\n")[0]
    line = before + data[spot.start : spot.stop] + after
    if any(mark in line for mark in ALLOWED) or spot.rule.id in rules.off:
        return True
    value = data[spot.start : spot.stop]
    return any(_covers(each, spot.rule, value, line, path) for each in (*spot.rule.allowances, *rules.allowances))


def _covers(allowance: Allowance, rule: Rule, value: bytes, line: bytes, path: str) -> bool:
    if allowance.rules and rule.id not in allowance.rules:
        return False
    target = line if allowance.target == "line" else value
    return (
        any(compiled(pattern).search(target) for pattern in allowance.patterns)
        or any(word.encode() in value.lower() for word in allowance.stop_words)
        or bool(path and any(compiled(pattern).search(path.encode()) for pattern in allowance.paths))
    )
