r"""PURE.

A text that is shown in parts: its secrets are found once in all of it, and masked in every part that is cut out.

>>> key = "q8Zt2Lw0Xv5Rb7Nc" + "4Kd9Mf1Hs6Gj"
>>> text = RedactedDocument.of(f'first\napi_key = "{key}"\nlast'.encode())
>>> text.lines(2, 2), text.part(20, 30)
('api_key = "[masked secret]"\n', '[masked secret]')

A line alone does not tell that it is the middle of a key, and a mark in front of a token hides where it begins. So what
reads a file for somebody to see asks for a `RedactedDocument`, and puts numbers, quotes and marks on what that gives
out.

`noting` collects what is masked while a reply is made: `mask_reply` then masks every other copy of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple

from xxhash import xxh3_128_digest

from context_engine.secrets.redaction import RedactedText
from context_engine.secrets.secret_finder import find_secrets
from context_engine.secrets.secret_rules import Tier
from context_engine.text import slice_lines

OF_FILES: Tier = "reply"
"""By which rules the text of a file is masked. A whole reply is searched by strict ones: it holds ids and hashes of
ours."""
WHOLE_BYTES_MAX = 1_000_000
"""A larger text is searched around what is cut out of it: so much takes 10 to 30 ms."""
AROUND_BYTES = 16_384
"""Searched on both sides of a part: more than the longest private key in use (RSA of 16,384 bits has 13 kB in base64)."""
ROUNDS_MAX = 8
"""Masking one secret can show that another is there; hardly ever more than once."""
KEPT_MAX = 4_096
"""Files whose secrets are remembered: most have none, and cost 200 bytes here."""
COPY_CHARS_MIN = 6
"""Shorter values stand in a text by chance. The shortest password that is looked for has so many characters."""
LONG_CHARS = 16
"""A value of so many characters is masked inside other words, too."""
SEARCHED_CHARS_MIN = 2_000
"""Searching a shorter text a second time costs less than looking for it in a reply."""


class HiddenSpan(NamedTuple):
    """A piece of a secret: bytes of the text, half-open. The pieces of one secret share a number and its label."""

    start: int
    stop: int
    secret: int
    label: bytes


class RedactedDocument:
    """A text in UTF-8, of which everything that is given out is masked. A large one is searched around each part."""

    __slots__ = ("_data", "_hidden", "_path")

    def __init__(self, data: bytes, hidden: tuple[HiddenSpan, ...] | None, path: str = "") -> None:
        """Use `RedactedDocument.of`, or `RedactedDocuments` for repeated texts."""
        self._data = data
        self._hidden = hidden
        self._path = path

    @classmethod
    def of(cls, data: bytes, path: str = "") -> RedactedDocument:
        """A text as it may be shown. `path` says what kind of file it is."""
        return cls(data, find_hidden_spans(data, path) if len(data) <= WHOLE_BYTES_MAX else None, path)

    @property
    def has_secrets(self) -> bool:
        """Whether anything may be hidden in it; a large text may always hide something."""
        return self._hidden is None or bool(self._hidden)

    @property
    def text(self) -> str:
        """All of it. Lines stay where they are."""
        return self.part(0, len(self._data))

    def lines(self, first: int, last: int) -> str:
        """Lines `first` to `last` (1-based, both included), with their line feeds."""
        if not self.has_secrets:
            return slice_lines(self.text, first, last)
        start = _line_start(self._data, first)
        return self.part(start, _line_start(self._data, last - first + 2, start))

    def part(self, start: int, stop: int) -> str:
        """The bytes `start` to `stop`, as text."""
        return self.part_bytes(start, stop).decode("utf-8", "replace")

    def part_bytes(self, start: int, stop: int) -> bytes:
        """The bytes `start` to `stop` without their secrets; one that the part only touches is masked, too."""
        pieces: list[bytes] = []
        at, labelled = start, -1
        for each in self._inside(start, stop):
            pieces += [self._data[at : max(at, each.start)], b"" if each.secret == labelled else each.label]
            at, labelled = min(each.stop, stop), each.secret
        return b"".join([*pieces, self._data[at:stop]]) if pieces else self._data[start:stop]

    def _inside(self, start: int, stop: int) -> list[HiddenSpan]:
        """Return the secrets in a part, and note them for the reply that shows it."""
        if self._hidden is None:
            found = self._around(start, stop)
        else:
            found = [each for each in self._hidden if each.start < stop and each.stop > start]
        noted = _REDACTIONS.get()
        if found and noted is not None:
            for each in found:
                value = self._data[each.start : each.stop].decode("utf-8", "replace")
                noted.values[value] = each.label.decode()
        return found

    def _around(self, start: int, stop: int) -> list[HiddenSpan]:
        """Return the secrets in a part of a large text, found in the part and its surroundings."""
        first = self._data.rfind(b"\n", 0, max(0, start - AROUND_BYTES)) + 1
        first = max(first, start - 2 * AROUND_BYTES, 0)
        window = self._data[first : stop + AROUND_BYTES]
        return [
            each._replace(start=each.start + first, stop=each.stop + first)
            for each in find_hidden_spans(window, self._path)
            if each.start + first < stop and each.stop + first > start
        ]


def redact_file(text: str, path: str = "") -> str:
    """A whole text as it may be shown, line by line where it was."""
    return RedactedDocument.of(text.encode("utf-8", "replace"), path).text


class RedactedDocuments:
    """Makes masked texts; where the secrets of a text are is worked out once for each content. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes], tuple[HiddenSpan, ...]] = {}

    def of(self, data: bytes, path: str = "") -> RedactedDocument:
        """Return the document of a text, as `RedactedDocument.of` does."""
        if len(data) > WHOLE_BYTES_MAX:
            return RedactedDocument(data, None, path)
        key = path, xxh3_128_digest(data)
        hidden = self._known.get(key)
        if hidden is None:
            hidden = find_hidden_spans(data, path)
            if len(self._known) >= KEPT_MAX:
                self._known.clear()
            self._known[key] = hidden
        return RedactedDocument(data, hidden, path)


def _line_start(data: bytes, number: int, start: int = 0) -> int:
    """Where a line begins, counted from 1 at `start`; the end of the text for one behind it."""
    at = start
    for _ in range(number - 1):
        at = data.find(b"\n", at) + 1
        if not at:
            return len(data)
    return at


# -- where the secrets are --------------------------------------------------------------------------------------------


def find_hidden_spans(data: bytes, path: str = "") -> tuple[HiddenSpan, ...]:
    """The places of the secrets of a text, in order. Bytes that are no UTF-8 are read one by one."""
    try:
        text, width = data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        text, width = data.decode("latin-1"), "latin-1"
    spans = _find_labeled_parts(text, OF_FILES, path)
    if not spans:
        return ()
    hidden: list[HiddenSpan] = []
    chars, size = 0, 0
    for number, (parts, label) in enumerate(spans):
        for start, stop in parts:
            first = size + len(text[chars:start].encode(width))
            chars, size = stop, first + len(text[start:stop].encode(width))
            hidden.append(HiddenSpan(first, size, number, label.encode()))
    return tuple(hidden)


_Parts = tuple[tuple[int, int], ...]
_Span = tuple[_Parts, str]


def _find_labeled_parts(text: str, mode: Tier, path: str = "") -> list[_Span]:
    """Return the parts of a text to redact and their labels; search again until no more are found."""
    spans: list[_Span] = []
    shown, origins = text, [(0, 0)]
    for _ in range(ROUNDS_MAX):
        found = find_secrets(shown, mode, path=path)
        if not found:
            break
        new = [(_original_place(origins, each.start), _original_place(origins, each.stop), each) for each in found]
        spans = [span for span in spans if not any(a <= span[0][0][0] and span[0][-1][1] <= b for a, b, _ in new)]
        for start, stop, each in new:
            parts = each.parts if origins == [(0, 0)] else ((start, stop),)
            spans.append((parts, f"[masked {each.kind}]"))
        spans.sort()
        shown, origins = _apply_labels(text, spans)
    return spans


def _apply_labels(text: str, spans: Iterable[_Span]) -> tuple[str, list[tuple[int, int]]]:
    """The text with labels, and pairs of a place in it and the place in the text that was there."""
    pieces: list[str] = []
    origins, at, length = [(0, 0)], 0, 0
    for parts, label in spans:
        for number, (start, stop) in enumerate(parts):
            instead = "" if number else label
            pieces += [text[at:start], instead]
            length += start - at
            origins += [(length, start), (length + len(instead), stop)]
            length, at = length + len(instead), stop
    return "".join([*pieces, text[at:]]), origins


def _original_place(origins: list[tuple[int, int]], place: int) -> int:
    """The place in the first text of a place in what was made of it."""
    after, before = next(pair for pair in reversed(origins) if pair[0] <= place)
    return before + place - after


# -- the copies of a reply --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ReplyRedactions:
    """The values that were redacted while a reply was made, with their labels, and texts that need no second search."""

    values: dict[str, str] = field(default_factory=dict)
    searched: list[str] = field(default_factory=list)


_REDACTIONS: ContextVar[ReplyRedactions | None] = ContextVar("noted", default=None)


@contextmanager
def collect_redactions() -> Generator[ReplyRedactions]:
    """Collect what `RedactedDocument` redacts inside the block."""
    noted = ReplyRedactions()
    token = _REDACTIONS.set(noted)
    try:
        yield noted
    finally:
        _REDACTIONS.reset(token)


def mark_searched(text: str) -> None:
    """Mark a part of a reply as redacted already, so that it is not searched a second time."""
    if len(text) >= SEARCHED_CHARS_MIN and (noted := _REDACTIONS.get()) is not None:
        noted.searched.append(text.rstrip("\n"))  # replies often leave out the last line feed


def redact_reply(text: str) -> RedactedText:
    """A whole reply without its secrets, and without further copies of those found in it or noted while it was made.

    This is the second net. Long parts that were noted as searched are not searched again where the reply holds them as
    they are.
    """
    noted = _REDACTIONS.get() or ReplyRedactions()
    values = dict(noted.values)
    clean = max((each for each in noted.searched if each in text), key=len, default="")
    before, _, after = text.partition(clean) if clean else ("", "", text)
    before, after = _redact_searched(before, values), _redact_searched(after, values)
    shown = replace_copies(f"{before}{clean}{after}", values)
    labels = set(values.values())
    return RedactedText(shown, sum(shown.count(label) for label in labels))


def _redact_searched(text: str, values: dict[str, str]) -> str:
    """The text without the secrets that it shows by itself, which come to `values`."""
    if not text:
        return text
    spans = _find_labeled_parts(text, "strict")
    for parts, label in spans:
        values |= {text[start:stop]: label for start, stop in parts}
    return _apply_labels(text, spans)[0] if spans else text


def replace_copies(text: str, values: Mapping[str, str]) -> str:
    """The text without these values, as they are and as JSON writes them."""
    for value, label in sorted(values.items(), key=lambda each: -len(each[0])):
        for form in {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}:
            if form in text and _is_telling(form):
                text = _copy_pattern(form).sub(label.replace("\\", r"\\"), text)
    return text


def _is_telling(value: str) -> bool:
    """Whether a text that is this value is hardly anything else."""
    return len(value) >= COPY_CHARS_MIN and not value.startswith("[masked ") and not value.isalpha()


def _copy_pattern(value: str) -> re.Pattern[str]:
    """A pattern for the value; for a short one only as a whole word."""
    if len(value) >= LONG_CHARS:
        return re.compile(re.escape(value))
    return re.compile(rf"(?<![A-Za-z0-9]){re.escape(value)}(?![A-Za-z0-9])")
