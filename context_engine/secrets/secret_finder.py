"""PURE. Find the secrets of a text: by words, then patterns and verifiers; overlapping findings become one.

    find_secrets('key = "ghp_..."')   ->   (DetectedSecret(rule="github-token", start=7, stop=47, tier="strict", ...),)

A text is searched once for all words. Patterns are tried only at their places, on a bounded number of characters, so
the time is linear in the length of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

from context_engine.secrets.assignments import (
    NAME_CHARS,
    Assignment,
    find_values,
    skip_escape,
)
from context_engine.secrets.encoded_text import (
    BLOB,
    BLOB_BYTES_MAX,
    DOTTED,
    decode_blob,
    decode_parts,
    decode_value,
    find_escapes,
    find_shape,
    is_public_data,
    long_runs,
    shape_of,
    whole_blob,
)
from context_engine.secrets.heuristics import (
    LABEL,
    entropy,
    is_chosen,
    is_drawn,
    is_placeholder,
    is_random_alone,
    is_template,
    turns,
)
from context_engine.secrets.secret_rules import (
    Allowance,
    SecretRule,
    SecretRules,
    Tier,
    WordIndex,
    builtin_rules,
    compile_own,
    compile_pattern,
    create_finder,
)
from context_engine.secrets.verifiers import (
    BARE_KEY_CHARS_MIN,
    BY_NAME,
    VERIFIERS,
    Kind,
    SecretCandidate,
    is_key_of_secrets,
    kind_of,
    names_more,
)

# -- pem ---------------------------------------------------------------------------------------------------------------

# Find the lines of private keys, after a BEGIN or without their first line, in any kind of text.

LINE_END = re.compile(rb"(?:\\r)?\\n|\r?\n")
"""Also as JSON writes it."""
AROUND_LINES = b" \t\"'`+,;()\\"
"""The characters around a line of a key in source code."""
KEY_LINE = re.compile(rb"[A-Za-z0-9+/=]+|[A-Za-z0-9+/=]{32,}(?: [A-Za-z0-9+/=]+)*")
"""Some tools write all lines into one, with blanks between them."""
KEY_HEADER = re.compile(rb"[A-Za-z-]+: .*")
KEY_LINE_CHARS_MIN = 32
"""The longest line of a key has 64 or more; code that only mentions keys has no such line."""

Parts = tuple[tuple[int, int], ...]


def key_lines(data: bytes, start: int) -> Parts:
    """Return the lines of a key after its BEGIN; its END may be missing."""
    end = data.find(b"-----", start)
    parts: list[tuple[int, int]] = []
    longest = 0
    for first, last in _pem_lines(data, start, len(data) if end < 0 else end):
        line = data[first:last].strip(AROUND_LINES)
        if KEY_LINE.fullmatch(line):
            begin = data.index(line, first)
            parts.append((skip_escape(data, begin), begin + len(line)))
            longest = max(longest, len(line))
        elif line and not KEY_HEADER.fullmatch(line):
            break
    return tuple(parts) if longest >= KEY_LINE_CHARS_MIN else ()


def _pem_lines(data: bytes, start: int, stop: int) -> list[tuple[int, int]]:
    lines, first = [], start
    for end in LINE_END.finditer(data, start, stop):
        lines.append((first, end.start()))
        first = end.end()
    return [*lines, (first, stop)]


# -- a key without its first line -------------------------------------------------------------------------------------

BODY_CHARS_MIN = 64
BODY = re.compile(rb"[A-Za-z0-9+/]{%d,}={0,2}" % BODY_CHARS_MIN)
BODY_WIDTHS = frozenset((64, 70, 76))
"""The line widths of PEM, OpenSSH and older encodings (MIME, PGP)."""
BODY_TURNS_MIN = 0.3
"""Of neighbors that change between small letters, capitals and digits: base64 changes at half of its places, paths at a
tenth."""
LINE_START = rb"""(?:(?:[^\s:]{1,200}[:-])?[0-9]{1,7}[-:|\t ])?[ \t]{0,80}(?:[-+>#*|][ \t]{0,8})?["'`(]{0,3}"""
"""The possible start of a line of a body: a file and a number, indentation, a diff or comment sign, a quote."""
LINE_START_BYTES = 300
LINE_STOP = rb"""(?:(?:\\r)?\\n|[ \t"'`,;+)\\]{0,8}(?:\r?\n|\Z)|["'`])"""
BEFORE_BODY = re.compile(rb"(?:(?<![^\n])" + LINE_START + rb"|\\n[ \t]{0,80})\Z")
BEFORE_ESCAPED = re.compile(BEFORE_BODY.pattern + rb"|[\"'`=:] ?\Z")
"""The same where the line ends in an escape, as in a string of JSON."""
AFTER_BODY = re.compile(LINE_STOP)
LAST_LINE = re.compile(LINE_START + rb"([A-Za-z0-9+/]{4,75}={0,2})" + LINE_STOP)
LAST_LINE_CHARS_MIN = 8
"""A shorter line without `=` may be a word."""
BETWEEN_BYTES_MAX, BETWEEN_LINES_MAX = 400, 3
"""The distance between two lines of the same body; one line between them may have another shape."""
MARKER = re.compile(rb"-----? ?(BEGIN|END) ([A-Z0-9 ]{1,40}?) ?-----?")
MARKER_BYTES = 600
"""The distance in which the BEGIN and END of a body are searched; headers are between."""


def body_lines(data: bytes, runs: Iterable[tuple[int, int]]) -> Iterator[Parts]:
    """Yield the lines of each key whose first line is not in the text, together where they follow each other.

    `runs` are the spans of base64 letters. A line counts if it is only base64 and as wide as tools write it. A body
    that a BEGIN or an END marks as public is left out.
    """
    run: list[tuple[int, int]] = []
    long = (span for span in runs if span[1] - span[0] >= BODY_CHARS_MIN)
    for match in chain.from_iterable(BODY.finditer(data, *span) for span in long):
        span = _body_line(data, *match.span())
        if span is None:
            continue
        if run and not _follows(data, run[-1][1], span[0]):
            yield from _secret_run(data, run)
            run = []
        run.append(span)
    yield from _secret_run(data, run)


def _body_line(data: bytes, start: int, stop: int) -> tuple[int, int] | None:
    """Return the span of one line of a body, or None for anything else that long."""
    start = skip_escape(data, start)
    if data[start - 1 : start] == b"\\" and data[start : start + 1] in (b"n", b"r"):  # escaped twice
        start += 1
    if data[start : start + 1] == b"+" and stop - start - 1 in BODY_WIDTHS:  # the sign of a diff
        start += 1
    line = data[start:stop]
    if len(line) not in BODY_WIDTHS or not _is_mixed(line) or turns(line.decode()) < BODY_TURNS_MIN:
        return None
    after = AFTER_BODY.match(data, stop)
    if after is None:
        return None
    before = BEFORE_ESCAPED if b"\\" in after.group() else BEFORE_BODY
    if before.search(data[max(0, start - LINE_START_BYTES) : start]):
        return (start, stop)
    return None


def _is_mixed(line: bytes) -> bool:
    """Return whether a line has small letters, capitals and digits: checksums have not all three."""
    return all(len(line.translate(None, letters)) < len(line) for letters in _LETTERS)


_LETTERS = (b"abcdefghijklmnopqrstuvwxyz", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"0123456789")


def _follows(data: bytes, stop: int, start: int) -> bool:
    """Return whether two lines belong to the same body."""
    between = b"-----"
    if start - stop <= BETWEEN_BYTES_MAX:
        between = data[stop:start]
    return b"-----" not in between and len(LINE_END.findall(between)) <= BETWEEN_LINES_MAX


def _secret_run(data: bytes, run: list[tuple[int, int]]) -> Iterator[Parts]:
    """Yield a run with the short line that ends it, unless what is around it says that it is public."""
    if not run or _is_public(data, run[0][0], run[-1][1]):
        return
    end = LINE_END.search(data, run[-1][1], run[-1][1] + LAST_LINE_CHARS_MIN)
    last = LAST_LINE.match(data, end.end()) if end else None
    if last and (b"=" in last[1] or (len(last[1]) >= LAST_LINE_CHARS_MIN and _is_mixed(last[1]))):
        run = [*run, last.span(1)]
    yield tuple(run)


def _is_public(data: bytes, start: int, stop: int) -> bool:
    """Return whether a body is not a private key: by its first bytes, or by a BEGIN before it or an END after it."""
    before = data[max(0, start - MARKER_BYTES) : start]
    above = BODY.search(before.rpartition(b"\n")[0].rpartition(b"\n")[2])  # its first line, behind a name
    if is_public_data(data[start:stop]) or (above and is_public_data(above[0])):
        return True
    first = MARKER.findall(before)
    if first and first[-1][0] == b"BEGIN":
        return b"PRIVATE" not in first[-1][1]
    last = MARKER.search(data, stop, stop + MARKER_BYTES)
    return last is not None and last[1] == b"END" and b"PRIVATE" not in last[2]


# -- reply rules -------------------------------------------------------------------------------------------------------

# Findings that replies show, by the kind of file: examples in docs and tests, checksums in lock files.
#
# Keys with the prefix of a provider, private keys and random-looking values are never shown. Measured by evals/secrets:
# without this, replies have twice as many false redactions and not one more correct one.

EXAMPLES = frozenset(("docs", "tests"))
"""Kinds of file whose passwords are mostly made up for the reader."""
WEAK = re.compile(
    r"[a-z]{1,9}[0-9]{0,4}|[A-Z]{1,9}[0-9]{0,4}|[A-Z][a-z]{1,8}[0-9]{0,4}|p[a@4]s+w[o0]rd.{0,4}", re.IGNORECASE
)
"""Passwords that are a word, or a word and a number: `tiger`, `Secret123`."""
SPEAKS_OF_ITSELF = ("pass", "secret", "hunter", "pa$$", "pa33")
"""Values that name what they are."""
HASH = re.compile(r"\$(?:apr1|[156y]|2[aby]|argon2\w{1,2})\$")


def is_redacted_in_replies(candidate: SecretCandidate, rule: SecretRule) -> bool:
    """Return whether what a rule has found is masked in replies, which have to stay readable as code."""
    kind, value = candidate.kind, candidate.value
    if kind == "locks":
        return rule.tier == "strict" and rule.place == "start"
    if kind not in EXAMPLES:
        return True
    if HASH.search(value):
        return False
    if rule.kind == "password" and (WEAK.fullmatch(value) or any(word in value.lower() for word in SPEAKS_OF_ITSELF)):
        return False
    words = decode_value(value).decode("latin-1")
    if words.isascii() and words.isprintable() and words:
        return is_drawn(words) or any(map(str.isdigit, words))
    return not is_placeholder(value)


# -- secret finder -----------------------------------------------------------------------------------------------------

REACH_BYTES = 8_192
"""The longest distance from a word to the end of its secret; the longest known kinds, signed tokens, have 5,000."""
NEAR_BYTES = (100, 400)
"""The distance before and after a word in which a secret without a beginning of its own is searched."""
WORD_CHARS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
WORD = frozenset(WORD_CHARS)
_WORD_LETTERS = frozenset(bytes([letter]) for letter in WORD_CHARS)
JOINTS = frozenset(b"-_")
BEFORE = re.compile(
    rb"""(?:\\[nrtbf"'/]|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|%[0-9A-Fa-f]{2}|\x1b\[[0-9;]{0,8}m|(?<![A-Za-z0-9])0[xX]|(?<![^\n])[0-9]{0,7}-)\Z"""
)
"""Texts that end in a letter or joint and are not part of a word: escapes, and line numbers."""
BEFORE_BYTES = 10
LINE_BYTES = 1_000
"""A comment that allows a secret is searched within this distance; lines written by hand are shorter."""
ALLOWED = (b"gitleaks:allow", b"pragma: allowlist secret")


@dataclass(frozen=True, slots=True)
class DetectedSecret:
    """A secret and its position: characters of the text, half-open, and its line and column from 1.

    `is_allowed`: a user declared it harmless; then it is not a finding, but it is redacted all the same. `parts` are
    redacted; there are several where line ends between them stay.
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
    """Find the secrets of a text and all copies of their values, in order and without overlaps.

    `path` determines the kind of file.
    """
    data = text.encode("utf-8", "surrogatepass")
    rules = rules or builtin_rules()
    spans = find_spans(data, mode, rules, path)
    found = merge_overlaps(data, spans)
    if not found:
        return ()
    # A value that was merged into a longer one may have copies of its own.
    values = {data[spot.start : spot.stop]: spot.rule for spot in reversed([*found, *spans]) if not spot.parts}
    if copied := list(find_copies(data, values)):
        found = merge_overlaps(data, [*found, *copied])
    return locate_spans(data, found, rules, path)


def find_spans(data: bytes, mode: Tier, rules: SecretRules, path: str = "") -> list[SecretSpan]:
    """Return all findings of the rules, unordered and with overlaps."""
    search = SearchContext(mode, kind_of(path))
    found = _find_at_words(data, rules.words(mode), search)
    if rules.by_place["anywhere"]:
        found += _find_anywhere(data, rules, path)
    shape = shape_of(data)
    if runs := long_runs(data, shape):
        found += _find_in_runs(data, runs, rules, search)
    for rule in rules.by_place["dots"]:
        found += _find_dotted(data, shape, rule, search)
    if escapes := find_escapes(data):
        found += _find_escaped(data, escapes, rules, search)
    if path:
        found += _find_whole_file(data, rules, path)
    if mode == "broad":
        for rule in rules.by_place["any name"]:
            found += _find_random_values(data, rule)
    return found


@dataclass(frozen=True, slots=True)
class SearchContext:
    """The tier of a search, and the kind of the file."""

    mode: Tier
    kind: Kind


def _find_at_words(data: bytes, words: WordIndex, search: SearchContext) -> list[SecretSpan]:
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
                spot = None
                if match:
                    spot = _match_start(data, rule, match, stop, search)
            if spot is not None:
                found.append(spot)
    return found


JOINED_TRIES_MAX, BLOCK_BITS = 32, 12
"""The beginning of a token after `-` or `_` is tried this often in 4 KB; a text of nothing else contains no token."""


def _is_repeated(tries: dict[tuple[str, int], int], rule: SecretRule, start: int) -> bool:
    """Return whether the same beginning was joined to others so often close by that only a hostile text has it."""
    block = rule.id, start >> BLOCK_BITS
    tries[block] = tries.get(block, 0) + 1
    return tries[block] > JOINED_TRIES_MAX


def _find_given(
    data: bytes, rules: Sequence[SecretRule], start: int, stop: int, search: SearchContext
) -> Iterator[SecretSpan]:
    """Find secrets that are assigned to a name with a word of the rules."""
    values = list(find_values(data, start, stop, nearby=search.mode != "strict"))
    for rule in rules if values else ():
        fitting = (value for value in values if not value.is_loose or rule.tier != "strict")
        spots = (_match_name(data, rule, start, stop, value, search) for value in fitting)
        if spot := next(filter(None, spots), None):
            yield spot


VALUE_AHEAD = re.compile(rb"""["'`0-9$!@#%^~?]""")
RANDOM_AHEAD = re.compile(
    rb"(?:[A-Za-z0-9+/=_.~-]{0,%d}+[^A-Za-z0-9+/=_.~-]++)*+[A-Za-z0-9+/=_.~-]{%d}"
    % (BARE_KEY_CHARS_MIN - 1, BARE_KEY_CHARS_MIN)
)
AHEAD_BYTES, HEAD_BYTES = 90, 16
"""The distance of a value from its name, and the examined length of a name."""


def may_be_assigned(data: bytes, start: int, stop: int, rules: Sequence[SecretRule], kind: Kind) -> bool:
    """Return whether a secret may follow a word of a name: a fast check before the slow ones, mostly False.

    Most keys are those of a mapping, most tokens are `tokenize`, and most values contain no quote, digit or sign.
    """
    is_ahead = kind == "settings" or VALUE_AHEAD.search(data, stop, stop + AHEAD_BYTES) is not None
    if not is_ahead or (stop - start == len(b"key") and data[start:stop].lower() == b"key"):
        if RANDOM_AHEAD.match(data, stop, stop + AHEAD_BYTES):
            return True
        if not is_ahead or not start or data[start - 1] not in NAME_CHARS:
            return False
        return is_key_of_secrets(data[max(0, start - HEAD_BYTES) : start])
    after = data[stop : stop + 1]
    return not b"a" <= after <= b"z" or rules[-1].verifier not in BY_NAME or names_more(data, stop)


# -- one rule at one place --------------------------------------------------------------------------------------------


def _match_start(
    data: bytes, rule: SecretRule, match: re.Match[bytes], stop: int, search: SearchContext
) -> SecretSpan | None:
    """Return a secret that begins with the word, or None."""
    start = match.start()
    edge = edge_before(data, start)
    if not edge or (edge is WordEdge.JOINED and not rule.joins):
        return None
    if rule.verifier == "pem":
        parts = key_lines(data, match.end())
        return SecretSpan(parts[0][0], parts[-1][1], rule, parts) if parts else None
    candidate = SecretCandidate(data, start, stop, *match.span(rule.group), match, kind=search.kind)
    return _verify(data, rule, candidate, search)


def _match_name(
    data: bytes, rule: SecretRule, start: int, stop: int, assignment: Assignment, search: SearchContext
) -> SecretSpan | None:
    """Return a secret that is assigned to a name with the word, or None."""
    match = compile_own(rule.pattern).fullmatch(assignment.value)
    if match is None:
        return None
    first, last = match.span(rule.group)
    span = assignment.start + first, assignment.start + last
    return _verify(data, rule, SecretCandidate(data, start, stop, *span, match, assignment, search.kind), search)


def _match_near(data: bytes, rule: SecretRule, start: int, stop: int, search: SearchContext) -> SecretSpan | None:
    """Return a secret around the word, or None."""
    before, after = NEAR_BYTES
    pattern, end = compile_own(rule.pattern), min(len(data), stop + after)
    match = pattern.search(data, max(0, start - before), end)
    # The letter of an escape is not part of the secret if the rest is one; without it a text would not stay valid JSON.
    if match and (first := skip_escape(data, match.start())) > match.start():
        match = pattern.search(data, first, end) or match
    if match is None or not edge_before(data, match.start(rule.group)):
        return None
    candidate = SecretCandidate(data, start, stop, *match.span(rule.group), match, kind=search.kind)
    return _verify(data, rule, candidate, search)


def _verify(data: bytes, rule: SecretRule, candidate: SecretCandidate, search: SearchContext) -> SecretSpan | None:
    """Return the candidate if it is a whole word and its verifier confirms it, else None."""
    start, stop = candidate.start, candidate.stop
    if start == stop or (candidate.assignment is None and not _is_separate(candidate, rule)):
        return None
    if not VERIFIERS[rule.verifier](candidate) or is_template(candidate.value):
        return None
    if rule.place == "name" and is_public_data(data[start:stop]):
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
    for rule in rules.by_place["anywhere"]:
        if rule.words and not any(word.lower().encode() in lowered for word in rule.words):
            continue
        if rule.path and not compile_pattern(rule.path).search(path.encode()):
            continue
        for match in compile_pattern(rule.pattern).finditer(data):
            start, stop = match.span(rule.group)
            value = data[start:stop].decode("utf-8", "replace")
            if stop > start and entropy(value) >= rule.entropy:
                yield SecretSpan(start, stop, rule)


def _is_separate(candidate: SecretCandidate, rule: SecretRule) -> bool:
    """Return whether a match is separate, or is joined to words by `-` or `_` and contains a digit."""
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
    """Return how a word that starts here is connected to what is before it; the letter of an escape starts none."""
    if skip_escape(data, start) > start:
        return WordEdge.INSIDE
    if not start or data[start] not in WORD or (data[start - 1] not in WORD and data[start - 1] not in JOINTS):
        return WordEdge.FREE
    if BEFORE.search(data[max(0, start - BEFORE_BYTES) : start]):
        return WordEdge.FREE
    if data[start - 1] in JOINTS:
        return WordEdge.JOINED
    return WordEdge.INSIDE


def edge_after(data: bytes, stop: int) -> WordEdge:
    """Return how a word that stops here is connected to what comes after it."""
    after = data[stop : stop + 2]
    if not after or (data[stop - 1] not in WORD and data[stop - 1] not in JOINTS):
        return WordEdge.FREE
    if after[0] not in JOINTS:
        return WordEdge.INSIDE if after[0] in WORD else WordEdge.FREE
    if after[0] in WORD or after[1:] in _WORD_LETTERS:
        return WordEdge.JOINED
    return WordEdge.FREE


# -- wrapped in base64, written in escapes, copied, a file of its own --------------------------------------------------


def _find_in_runs(
    data: bytes, runs: Sequence[tuple[int, int]], rules: SecretRules, search: SearchContext
) -> Iterator[SecretSpan]:
    """Find lines of keys, and base64 texts that contain a secret; text that is encoded twice is not searched."""
    for rule in rules.by_place["line"]:
        for parts in body_lines(data, runs):
            yield SecretSpan(parts[0][0], parts[-1][1], rule, parts)
    if search.mode == "strict":
        return
    words = rules.words("broad" if search.mode == "broad" else "strict")
    for first, last in runs:
        blob = BLOB.search(data, first, last)
        if blob is None:
            continue
        start, stop = whole_blob(data, *blob.span())
        inner = decode_blob(data[start : min(stop, start + BLOB_BYTES_MAX)])
        found = []
        if inner:
            found = _find_at_words(inner, words, search)
        if found:
            yield SecretSpan(start, stop, max(found, key=strength).rule)


def _find_dotted(data: bytes, shape: bytes, rule: SecretRule, search: SearchContext) -> Iterator[SecretSpan]:
    """Find tokens of parts with dots between them, by the lengths of their last parts."""
    for start in find_shape(shape, DOTTED):
        match = compile_own(rule.pattern).search(data, shape.rfind(b" ", 0, start) + 1, start + REACH_BYTES)
        if match and (spot := _match_start(data, rule, match, match.end(), search)):
            yield spot


def _find_escaped(
    data: bytes, escapes: Sequence[tuple[int, int]], rules: SecretRules, search: SearchContext
) -> Iterator[SecretSpan]:
    """Find secrets of the strict tier that contain escapes."""
    for text in decode_parts(data, escapes):
        for spot in _find_at_words(text.text, rules.words("strict"), search):
            for start, stop in parts_of(spot):
                yield SecretSpan(*text.original(start, stop), spot.rule)


def _find_whole_file(data: bytes, rules: SecretRules, path: str) -> Iterator[SecretSpan]:
    """Find the key that is the whole content of a file with a certain name."""
    for rule in rules.by_place["file"]:
        match = None
        if path.lower().endswith(rule.words):
            match = compile_own(rule.pattern).fullmatch(data)
        if match and is_drawn(match[rule.group].decode("ascii", "replace")):
            yield SecretSpan(*match.span(rule.group), rule)


COPY_CHARS_MIN, COPY_CHARS_FREE = 8, 16
"""Shorter values may be words of the text; from the second length on a copy may be part of a longer word."""
COPIED_VALUES_MAX = 1_000


def find_copies(data: bytes, values: Mapping[bytes, SecretRule]) -> Iterator[SecretSpan]:
    """Find all copies of secret values; short ones only as whole words."""
    sought = [value for value in values if len(value) >= COPY_CHARS_MIN and is_worth_copying(value)][:COPIED_VALUES_MAX]
    for number, start, stop in create_finder(sought)(data) if sought else ():
        if len(sought[number]) >= COPY_CHARS_FREE or (edge_before(data, start) and edge_after(data, stop)):
            yield SecretSpan(start, stop, values[sought[number]])


def is_worth_copying(value: bytes) -> bool:
    """Return whether a value is so rare that a copy of it is the same secret: not a word, a name or a number."""
    text = value.decode("utf-8", "replace")
    has_both = any(map(str.isdigit, text)) and any(map(str.isalpha, text))
    return is_drawn(text) or (has_both and is_chosen(text))


# -- any name at all --------------------------------------------------------------------------------------------------


def _find_random_values(data: bytes, rule: SecretRule) -> Iterator[SecretSpan]:
    """Find values that are certainly random, under names that do not name a checksum or an id."""
    for match in compile_pattern(rule.pattern).finditer(data):
        start, stop = match.span(1)
        value = match[1]
        has_digits = len(value) - len(value.translate(None, _DIGITS)) >= DIGITS_OF_VALUE_MIN
        if has_digits and is_random_alone(data, start, stop):
            yield SecretSpan(start, stop, rule)


_DIGITS = b"0123456789"
DIGITS_OF_VALUE_MIN = 2
"""Nine of ten random values of length 20 have two digits, and nearly all of length 32."""


# -- from spots to secrets --------------------------------------------------------------------------------------------


def locate_spans(
    data: bytes, found: Sequence[SecretSpan], rules: SecretRules, path: str = ""
) -> tuple[DetectedSecret, ...]:
    """Return the findings with characters instead of bytes, lines and columns. Each byte is counted once."""
    secrets: list[DetectedSecret] = []
    end, chars, line, line_chars = 0, 0, 1, 0
    for spot in found:
        if lines := data.count(b"\n", end, spot.start):
            line += lines
            line_chars = chars + _length(data[end : data.rfind(b"\n", end, spot.start) + 1])
        chars += _length(data[end : spot.start])
        end = spot.start
        parts = tuple(
            (chars + _length(data[end:start]), chars + _length(data[end:stop])) for start, stop in parts_of(spot)
        )
        rule, column = spot.rule, chars - line_chars + 1
        found_rule = (rule.id, rule.title, rule.kind, rule.tier, rule.confidence)
        is_allowed = _is_allowed(data, spot, rules, path)
        secrets.append(DetectedSecret(*found_rule, parts[0][0], parts[-1][1], line, column, is_allowed, parts))
    return tuple(secrets)


def _length(data: bytes) -> int:
    return len(data) if data.isascii() else len(data.decode("utf-8", "surrogatepass"))


# -- allowed findings -------------------------------------------------------------------------------------------------


def _is_allowed(data: bytes, spot: SecretSpan, rules: SecretRules, path: str) -> bool:
    """Return whether a comment on its line, or an allowlist of the user, allows a finding."""
    before = data[max(0, spot.start - LINE_BYTES) : spot.start].rpartition(b"\n")[2]
    after = data[spot.stop : spot.stop + LINE_BYTES].partition(b"\n")[0]
    line = before + data[spot.start : spot.stop] + after
    if any(mark in line for mark in ALLOWED) or spot.rule.id in rules.off:
        return True
    value = data[spot.start : spot.stop]
    allowances = (*spot.rule.allowances, *rules.allowances)
    return any(_covers(allowance, spot.rule, value, line, path) for allowance in allowances)


def _covers(allowance: Allowance, rule: SecretRule, value: bytes, line: bytes, path: str) -> bool:
    if allowance.rules and rule.id not in allowance.rules:
        return False
    target = line if allowance.target == "line" else value
    return (
        any(compile_pattern(pattern).search(target) for pattern in allowance.patterns)
        or any(word.encode() in value.lower() for word in allowance.stop_words)
        or bool(path and any(compile_pattern(pattern).search(path.encode()) for pattern in allowance.paths))
    )


# -- overlapping findings ---------------------------------------------------------------------------------------------


class SecretSpan(NamedTuple):
    """A finding of a rule, in bytes. `parts` are redacted if they are not all of it."""

    start: int
    stop: int
    rule: SecretRule
    parts: Parts = ()


def merge_overlaps(data: bytes, spans: Sequence[SecretSpan]) -> list[SecretSpan]:
    """Merge overlapping findings under the rule of the strongest: strict first, then the longest.

    A label of an earlier redaction is covered completely or not at all; a finding of only labels is dropped.
    """
    if not spans:
        return []
    labels = [match.span() for match in _LABEL.finditer(data)]
    extended = [_extend_to_labels(data, span, labels) for span in spans]
    merged: list[SecretSpan] = []
    for spot in sorted(filter(None, extended), key=_order):
        if merged and spot.start < merged[-1].stop:
            merged[-1] = _union(merged[-1], spot)
        else:
            merged.append(spot)
    return merged


def _order(spot: SecretSpan) -> tuple[int, int, int]:
    return spot.start, spot.stop, spot.rule.rank


_LABEL = re.compile(LABEL.pattern.encode())


def _extend_to_labels(data: bytes, spot: SecretSpan, labels: Sequence[tuple[int, int]]) -> SecretSpan | None:
    """Return the finding with each part extended to whole labels; None if it contains nothing else."""
    extended = [_extend_part(data, start, stop, labels) for start, stop in parts_of(spot)]
    parts = _merge_parts(list(filter(None, extended)))
    if not parts:
        return None
    return SecretSpan(parts[0][0], parts[-1][1], spot.rule, parts if spot.parts else ())


def _extend_part(data: bytes, start: int, stop: int, labels: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    start, stop = _characters(data, start, stop)
    first = bisect_right(labels, start, key=itemgetter(1))
    last = bisect_left(labels, stop, key=itemgetter(0))
    if first >= last:
        return start, stop
    start, stop = min(start, labels[first][0]), max(stop, labels[last - 1][1])
    rest = _LABEL.sub(b"", data[start:stop])
    return (start, stop) if rest.strip(b" \t\r\n") else None


def _characters(data: bytes, start: int, stop: int) -> tuple[int, int]:
    """Extend a span of bytes to whole characters."""
    while start > 0 and data[start] & 0xC0 == 0x80:
        start -= 1
    while stop < len(data) and data[stop] & 0xC0 == 0x80:
        stop += 1
    return start, stop


def _union(one: SecretSpan, other: SecretSpan) -> SecretSpan:
    strongest = max(one, other, key=strength)
    parts = ()
    if one.parts or other.parts:
        parts = _merge_parts(sorted([*parts_of(one), *parts_of(other)]))
    return SecretSpan(one.start, max(one.stop, other.stop), strongest.rule, parts)


def strength(spot: SecretSpan) -> tuple[bool, int, int]:
    """Return the key by which the rule of overlapping findings is chosen."""
    return spot.rule.tier == "strict", spot.stop - spot.start, spot.rule.rank


def parts_of(spot: SecretSpan) -> Parts:
    """Return the parts to redact."""
    return spot.parts or ((spot.start, spot.stop),)


def _merge_parts(parts: Sequence[tuple[int, int]]) -> Parts:
    """Merge overlapping parts."""
    joined: list[tuple[int, int]] = []
    for start, stop in parts:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return tuple(joined)
