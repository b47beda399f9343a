"""PURE.

Where the secrets of a text stand: words point to places, patterns and second looks decide, overlaps become one.

    find('key = "ghp_..."')   ->   (Secret(rule="github-token", start=7, stop=47, tier="strict", confidence=0.95, ...),)

A text is searched once for all words. Only where one stands is a pattern tried, on a bounded number of characters, so
the time grows with the text and with nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from context_engine.secrets.assignments import NAME_CHARS, Assignment, find_assignment, find_nearby_value, is_escaping
from context_engine.secrets.base64_text import BLOB, BLOB_BYTES_MAX, decode_blob, long_runs, whole_blob
from context_engine.secrets.encoded_text import decode_parts, find_escapes
from context_engine.secrets.file_kinds import Kind, kind_of
from context_engine.secrets.heuristics import entropy, is_chosen, is_drawn, is_template
from context_engine.secrets.high_entropy import is_random_alone
from context_engine.secrets.overlaps import SecretSpan, merge_overlaps, parts_of, strength
from context_engine.secrets.pem import Parts, body_lines, key_lines
from context_engine.secrets.prefilter import WordIndex, create_finder
from context_engine.secrets.reply_rules import is_redacted_in_replies
from context_engine.secrets.secret_rules import (
    Allowance,
    SecretRule,
    SecretRules,
    Tier,
    builtin_rules,
    compile_own,
    compile_pattern,
)
from context_engine.secrets.verifiers import (
    BARE_KEY_CHARS_MIN,
    BY_NAME,
    SECRET_KEYS,
    VERIFIERS,
    SecretCandidate,
    is_key_of_secrets,
    names_more,
)

REACH_BYTES = 8_192
"""How far from its word a secret goes on: the longest known kinds, signed tokens, have 5,000."""
NEAR_BYTES = (100, 400)
"""How far before and after its word a secret is looked for that has no beginning of its own."""
WORD_CHARS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
WORD = frozenset(WORD_CHARS)
_WORD_LETTERS = frozenset(bytes([letter]) for letter in WORD_CHARS)
JOINTS = frozenset(b"-_")
BEFORE = re.compile(
    rb"""(?:\\[nrtbf"'/]|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|%[0-9A-Fa-f]{2}|\x1b\[[0-9;]{0,8}m|(?<![A-Za-z0-9])0[xX]|(?<![^\n])[0-9]{0,7}-)\Z"""
)
"""Ends in a letter or joint and is no part of a word: an escape of a string, an address or a terminal; a number before
a line."""
ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[nrtbfv0])")
"""An escape in a string of JSON or of a program."""
BEFORE_BYTES = 10
LINE_BYTES = 1_000
"""So far on both sides of a secret a comment is looked for that allows it: longer lines nobody writes by hand."""
ALLOWED = (b"gitleaks:allow", b"pragma: allowlist secret")


@dataclass(frozen=True, slots=True)
class DetectedSecret:
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


def find_secrets(
    text: str, mode: Tier = "broad", *, path: str = "", rules: SecretRules | None = None
) -> tuple[DetectedSecret, ...]:
    """Find the secrets of a text, in order, none over another, and every further copy of their values.

    `path` says what kind of file the text is of.
    """
    data = text.encode("utf-8", "surrogatepass")
    rules = rules or builtin_rules()
    found = merge_overlaps(data, find_spans(data, mode, rules, path))
    if not found:
        return ()
    values = {data[spot.start : spot.stop]: spot.rule for spot in reversed(found) if not spot.parts}
    if copied := list(find_copies(data, values)):
        found = merge_overlaps(data, [*found, *copied])
    return locate_spans(data, found, rules, path)


def find_spans(data: bytes, mode: Tier, rules: SecretRules, path: str = "") -> list[SecretSpan]:
    """Everything that a rule takes for a secret, in no order, one over the other."""
    search = SearchContext(mode, kind_of(path))
    found = _find_at_words(data, rules.words(mode), search)
    if rules.user_rules:
        found += _find_anywhere(data, rules, path)
    if runs := long_runs(data):
        found += _find_in_runs(data, runs, rules, search)
    if escapes := find_escapes(data):
        found += _find_escaped(data, escapes, rules, search)
    if path:
        found += _find_whole_file(data, rules, path)
    if mode == "broad":
        for rule in rules.values:
            found += _find_random_values(data, rule)
    return found


@dataclass(frozen=True, slots=True)
class SearchContext:
    """By which rules is searched, and in what kind of file."""

    mode: Tier
    kind: Kind


def _find_at_words(data: bytes, words: WordIndex[SecretRule], search: SearchContext) -> list[SecretSpan]:
    """Find secrets at the words of the rules."""
    found: list[SecretSpan] = []
    tries: dict[tuple[str, int], int] = {}
    for start, stop, meant in words.find_places(data):
        if meant[0].place == "name":
            if may_be_assigned(data, start, stop, meant, search.kind):
                found += _find_given(data, meant, start, stop, search)
            continue
        if start and data[start - 1] in JOINTS and _is_repeated(tries, meant[0], start):
            continue
        for rule in meant:
            if rule.place == "near":
                spot = _match_near(data, rule, start, stop, search)
            else:
                # Hardly any word is the beginning of a secret, and most of the time goes into finding that out.
                match = compile_own(rule.pattern).match(data, start, start + REACH_BYTES)
                spot = _match_start(data, rule, match, stop, search) if match else None
            if spot is not None:
                found.append(spot)
    return found


JOINED_TRIES_MAX, BLOCK_BITS = 32, 12
"""So often in 4 KB the beginning of a token is looked at behind `-` or `_`: a text made of nothing else has no token in
it."""


def _is_repeated(tries: dict[tuple[str, int], int], rule: SecretRule, start: int) -> bool:
    """Return whether the same beginning was joined to others so often close by that only a hostile text has it."""
    block = rule.id, start >> BLOCK_BITS
    tries[block] = tries.get(block, 0) + 1
    return tries[block] > JOINED_TRIES_MAX


def _find_given(
    data: bytes, rules: Sequence[SecretRule], start: int, stop: int, search: SearchContext
) -> Iterator[SecretSpan]:
    """Find secrets that are assigned to a name with a word of the rules."""
    told, loose = (
        find_assignment(data, start, stop),
        find_nearby_value(data, start, stop) if search.mode != "strict" else None,
    )
    for rule in rules if told or loose else ():
        spot = _match_name(data, rule, start, stop, told, search) if told else None
        if spot is None and loose and rule.tier != "strict":
            spot = _match_name(data, rule, start, stop, loose, search)
        if spot is not None:
            yield spot


VALUE_AHEAD = re.compile(rb"""["'`0-9$!@#%^~?]""")
RANDOM_AHEAD = re.compile(
    rb"(?:[A-Za-z0-9+/=_.~-]{0,%d}+[^A-Za-z0-9+/=_.~-]++)*+[A-Za-z0-9+/=_.~-]{%d}"
    % (BARE_KEY_CHARS_MIN - 1, BARE_KEY_CHARS_MIN)
)
AHEAD_BYTES, HEAD_BYTES = 90, 16
"""How far a value is from its name, and how much of a name is looked at."""


def may_be_assigned(data: bytes, start: int, stop: int, rules: Sequence[SecretRule], kind: Kind) -> bool:
    """Return whether a word of a name may be followed by a secret: the cheap question before the dear ones, mostly answered no.

    Most keys are those of a mapping, most tokens are `tokenize`, and most values have no quote, digit or sign in them.
    """
    is_ahead = kind == "settings" or VALUE_AHEAD.search(data, stop, stop + AHEAD_BYTES) is not None
    if not is_ahead or (stop - start == len(b"key") and data[start:stop].lower() == b"key"):
        if RANDOM_AHEAD.match(data, stop, stop + AHEAD_BYTES):
            return True
        if not is_ahead or not start or data[start - 1] not in NAME_CHARS:
            return False
        return is_key_of_secrets(data[max(0, start - HEAD_BYTES) : start], SECRET_KEYS)
    after = data[stop : stop + 1]
    return not b"a" <= after <= b"z" or rules[-1].verifier not in BY_NAME or names_more(data, stop)


# -- one rule at one place --------------------------------------------------------------------------------------------


def _match_start(
    data: bytes, rule: SecretRule, match: re.Match[bytes], stop: int, search: SearchContext
) -> SecretSpan | None:
    """A secret that begins with the word."""
    start = match.start()
    edge = edge_before(data, start)
    if not edge or (edge is WordEdge.JOINED and not rule.joins):
        return None
    if rule.verifier == "pem":
        parts = key_lines(data, match.end())
        return SecretSpan(parts[0][0], parts[-1][1], rule, parts) if parts else None
    return _verify(
        data, rule, SecretCandidate(data, start, stop, *match.span(rule.group), match, kind=search.kind), search
    )


def _match_name(
    data: bytes, rule: SecretRule, start: int, stop: int, told: Assignment, search: SearchContext
) -> SecretSpan | None:
    """A secret that is given to a name with the word in it."""
    match = compile_own(rule.pattern).fullmatch(told.value)
    if match is None:
        return None
    first, last = match.span(rule.group)
    return _verify(
        data,
        rule,
        SecretCandidate(data, start, stop, told.start + first, told.start + last, match, told, search.kind),
        search,
    )


def _match_near(data: bytes, rule: SecretRule, start: int, stop: int, search: SearchContext) -> SecretSpan | None:
    """Return a secret around the word, or None."""
    before, after = NEAR_BYTES
    pattern, end = compile_own(rule.pattern), min(len(data), stop + after)
    match = pattern.search(data, max(0, start - before), end)
    # The letter of an escape is not part of the secret if the rest is one; without it a text would not stay valid JSON.
    if match and (escape := ESCAPE.match(data, max(0, match.start() - 1))) and is_escaping(data, escape.start()):
        match = pattern.search(data, escape.end(), end) or match
    if match is None or not edge_before(data, match.start(rule.group)):
        return None
    return _verify(
        data, rule, SecretCandidate(data, start, stop, *match.span(rule.group), match, kind=search.kind), search
    )


def _verify(data: bytes, rule: SecretRule, candidate: SecretCandidate, search: SearchContext) -> SecretSpan | None:
    """The candidate, if it is a whole word and survives the second look."""
    if candidate.assignment is None:
        candidate = _cut_at_joint(candidate, rule)
    start, stop = candidate.start, candidate.stop
    if start == stop or (candidate.assignment is None and not _stands_apart(candidate, rule)):
        return None
    if not VERIFIERS[rule.verifier](candidate) or is_template(candidate.value):
        return None
    if search.mode == "reply" and not is_redacted_in_replies(candidate, rule):
        return None
    return SecretSpan(start, stop, rule, _lines(data, start, stop))


def _lines(data: bytes, start: int, stop: int) -> Parts:
    """Return the parts to redact of a secret of several lines: each line without its end."""
    if data.find(b"\n", start, stop) < 0:
        return ()
    return tuple((start + match.start(), start + match.end()) for match in _LINE.finditer(data[start:stop]))


_LINE = re.compile(rb"[^\r\n]+")


def _find_anywhere(data: bytes, rules: SecretRules, path: str) -> Iterator[SecretSpan]:
    """Find secrets by a user's rules, which apply everywhere."""
    lowered = data.lower()
    for rule in rules.user_rules:
        if rule.words and not any(word.lower().encode() in lowered for word in rule.words):
            continue
        if rule.path and not compile_pattern(rule.path).search(path.encode()):
            continue
        for match in compile_pattern(rule.pattern).finditer(data):
            start, stop = match.span(rule.group)
            value = data[start:stop].decode("utf-8", "replace")
            if stop > start and entropy(value) >= rule.entropy:
                yield SecretSpan(start, stop, rule)


JOINTS_TRIED = 8


def _cut_at_joint(candidate: SecretCandidate, rule: SecretRule) -> SecretCandidate:
    """Return a token without the beginning of the word behind it: `figd_...-suffix`, of which its pattern may take a part."""
    if rule.group or not rule.joins or edge_after(candidate.data, candidate.stop) is not WordEdge.INSIDE:
        return candidate
    stop = candidate.stop
    for _ in range(JOINTS_TRIED):
        stop = max(candidate.data.rfind(joint, candidate.start, stop) for joint in (b"-", b"_"))
        if stop <= candidate.start:
            break
        if match := compile_own(rule.pattern).fullmatch(candidate.data, candidate.start, stop):
            return candidate._replace(stop=stop, match=match)
    return candidate


def _stands_apart(candidate: SecretCandidate, rule: SecretRule) -> bool:
    """Return whether a match is a word of its own, or is joined to others by `-` or `_` and yet is no word."""
    begin = candidate.word_start if rule.place == "start" else candidate.start
    before, after = edge_before(candidate.data, begin), edge_after(candidate.data, candidate.stop)
    if before is WordEdge.FREE and after is WordEdge.FREE:
        return True
    return bool(before and after) and rule.joins and any(map(str.isdigit, candidate.value))


class WordEdge(IntEnum):
    """The relation of a match to the next character: inside a word, joined to one by `-` or `_`, or separate."""

    INSIDE = 0
    JOINED = 1
    FREE = 2


def edge_before(data: bytes, start: int) -> WordEdge:
    """Return how a word that starts here is connected to what is before it."""
    if not start or data[start] not in WORD or (data[start - 1] not in WORD and data[start - 1] not in JOINTS):
        return WordEdge.FREE
    if BEFORE.search(data[max(0, start - BEFORE_BYTES) : start]):
        return WordEdge.FREE
    return WordEdge.JOINED if data[start - 1] in JOINTS else WordEdge.INSIDE


def edge_after(data: bytes, stop: int) -> WordEdge:
    """Return how a word that stops here is connected to what comes after it."""
    after = data[stop : stop + 2]
    if not after or (data[stop - 1] not in WORD and data[stop - 1] not in JOINTS):
        return WordEdge.FREE
    if after[0] not in JOINTS:
        return WordEdge.INSIDE if after[0] in WORD else WordEdge.FREE
    return WordEdge.JOINED if after[0] in WORD or after[1:] in _WORD_LETTERS else WordEdge.FREE


# -- wrapped in base64, written in escapes, copied, a file of its own --------------------------------------------------


Place = tuple[int, int]


def _find_in_runs(
    data: bytes, runs: Sequence[Place], rules: SecretRules, search: SearchContext
) -> Iterator[SecretSpan]:
    """Lines of keys, and blobs that hold a secret, one level deep: what is wrapped twice is not looked into."""
    for rule in rules.lines:
        for parts in body_lines(data, runs):
            yield SecretSpan(parts[0][0], parts[-1][1], rule, parts)
    if search.mode == "strict":
        return
    for first, last in runs:
        blob = BLOB.search(data, first, last)
        if blob is None:
            continue
        start, stop = whole_blob(data, *blob.span())
        inner = decode_blob(data[start : min(stop, start + BLOB_BYTES_MAX)])
        found = _find_at_words(inner, rules.words_in_base64(search.mode), search) if inner else []
        if found:
            yield SecretSpan(start, stop, max(found, key=strength).rule)


def _find_escaped(
    data: bytes, escapes: Sequence[Place], rules: SecretRules, search: SearchContext
) -> Iterator[SecretSpan]:
    """Secrets of the strict tier with escapes in them, where these stand in the text."""
    for text in decode_parts(data, escapes):
        for spot in _find_at_words(text.text, rules.strict, search):
            for start, stop in parts_of(spot):
                yield SecretSpan(*text.original(start, stop), spot.rule)


def _find_whole_file(data: bytes, rules: SecretRules, path: str) -> Iterator[SecretSpan]:
    """The key that is all there is in a file whose name says so."""
    for rule in rules.files:
        match = compile_own(rule.pattern).fullmatch(data) if path.lower().endswith(rule.words) else None
        if match and is_drawn(match[rule.group].decode("ascii", "replace")):
            yield SecretSpan(*match.span(rule.group), rule)


COPY_CHARS_MIN, COPY_CHARS_FREE = 8, 16
"""A shorter value may be a word of the text; from the second number on a copy may be part of a longer word."""
COPIED_VALUES_MAX = 1_000


def find_copies(data: bytes, values: Mapping[bytes, SecretRule]) -> Iterator[SecretSpan]:
    """Every place of the values, which were found to be secrets; of short ones where they are words of their own."""
    sought = [value for value in values if len(value) >= COPY_CHARS_MIN and is_worth_copying(value)][:COPIED_VALUES_MAX]
    for number, start, stop in create_finder(sought)(data) if sought else ():
        if len(sought[number]) >= COPY_CHARS_FREE or (edge_before(data, start) and edge_after(data, stop)):
            yield SecretSpan(start, stop, values[sought[number]])


def is_worth_copying(value: bytes) -> bool:
    """Return whether a value is so rare that each copy of it is the same secret: no word, no name, no number."""
    text = value.decode("utf-8", "replace")
    has_both = any(map(str.isdigit, text)) and any(map(str.isalpha, text))
    return is_drawn(text) or (has_both and is_chosen(text))


# -- any name at all --------------------------------------------------------------------------------------------------


def _find_random_values(data: bytes, rule: SecretRule) -> Iterator[SecretSpan]:
    """Values random beyond doubt that are given to a name which does not say that they are a checksum or an id."""
    for match in compile_pattern(rule.pattern).finditer(data):
        start, stop = match.span(1)
        value = match[1]
        if len(value.translate(None, _DIGITS)) <= len(value) - DIGITS_OF_VALUE_MIN and is_random_alone(
            data, start, stop
        ):
            yield SecretSpan(start, stop, rule)


_DIGITS = b"0123456789"
DIGITS_OF_VALUE_MIN = 2
"""Random letters and digits at length 20 have two nine times of ten, at 32 nearly always."""


# -- from spots to secrets --------------------------------------------------------------------------------------------


def locate_spans(
    data: bytes, found: Sequence[SecretSpan], rules: SecretRules, path: str = ""
) -> tuple[DetectedSecret, ...]:
    """The spots as secrets of the text: characters instead of bytes, lines and columns. Each byte is looked at once."""
    told: list[DetectedSecret] = []
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


def _secret(rule: SecretRule, parts: Parts, line: int, column: int, *, is_allowed: bool) -> DetectedSecret:
    return DetectedSecret(
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


def _is_allowed(data: bytes, spot: SecretSpan, rules: SecretRules, path: str) -> bool:
    """Whether a comment on its line, or an allowlist of the user, says that this is no secret."""
    before = data[max(0, spot.start - LINE_BYTES) : spot.start].rpartition(b"\n")[2]
    after = data[spot.stop : spot.stop + LINE_BYTES].partition(b"\n")[0]
    line = before + data[spot.start : spot.stop] + after
    if any(mark in line for mark in ALLOWED) or spot.rule.id in rules.off:
        return True
    value = data[spot.start : spot.stop]
    return any(_covers(each, spot.rule, value, line, path) for each in (*spot.rule.allowances, *rules.allowances))


def _covers(allowance: Allowance, rule: SecretRule, value: bytes, line: bytes, path: str) -> bool:
    if allowance.rules and rule.id not in allowance.rules:
        return False
    target = line if allowance.target == "line" else value
    return (
        any(compile_pattern(pattern).search(target) for pattern in allowance.patterns)
        or any(word.encode() in value.lower() for word in allowance.stop_words)
        or bool(path and any(compile_pattern(pattern).search(path.encode()) for pattern in allowance.paths))
    )
