r"""PURE. Texts that are shown in parts: secrets are found once in the whole text, and redacted in every part.

>>> key = "q8Zt2Lw0Xv5Rb7Nc" + "4Kd9Mf1Hs6Gj"
>>> text = RedactedDocument.of(f'first\napi_key = "{key}"\nlast'.encode())
>>> text.lines(2, 2), text.part(20, 30)
('api_key = "[masked secret]"\n', '[masked secret]')

A line of a key cannot be recognized without its context, and a mark before a token hides its beginning. So code that
shows files uses a `RedactedDocument`, and adds numbers, quotes and marks to its redacted parts.

`collect_redactions` collects the values that are redacted while a reply is created. `redact_reply` then redacts every
other copy of them.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from xxhash import xxh3_128_digest

from context_engine.secrets.secret_finder import DetectedSecret, Parts, find_secrets
from context_engine.secrets.secret_rules import SecretRules, Tier, builtin_rules
from context_engine.text import slice_lines

# -- redaction ---------------------------------------------------------------------------------------------------------

# Replace the secrets of a text by labels, in one pass over the findings; lines keep their numbers.

REDACTION_ROUNDS_MAX = 8
"""A redaction can reveal another secret next to it, rarely more than once."""
LABEL_HEX, FINGERPRINT_HEX = 6, 12
"""The digits of the HMAC: enough to distinguish the secrets of one text, and those of one workspace."""
LABEL_LIKE = re.compile(r"\[(?:masked [^\[\]\n]{1,60}|REDACTED(?::[^\[\]\n]{0,100})?)\]")
INVENTED = re.compile(
    r"^\[REDACTED|\b(?:tokens?|keys?|passwords?|passphrase|secrets?|credentials?|cookie|login|webhook)\]$"
)
"""A label that no rule writes, but that looks like one to a reader."""
Replacement = Literal["label", "hash", "fixed"]


@dataclass(frozen=True, slots=True)
class Redaction:
    """A redacted secret: the parts of the text that go, in order, and the replacement of the first one."""

    parts: Parts
    secret: DetectedSecret
    replacement: str
    length: int = 0
    fingerprint: str = ""

    @property
    def start(self) -> int:
        """Where it begins."""
        return self.parts[0][0]

    @property
    def stop(self) -> int:
        """Where it ends."""
        return self.parts[-1][1]


@dataclass(frozen=True, slots=True)
class RedactedText:
    """A redacted text and the number of its secrets. `skipped_rules` are those that could not be read."""

    text: str
    count: int = 0
    redactions: tuple[Redaction, ...] = ()
    skipped_rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RedactionOptions:
    """The options of a redaction. `show` is the number of characters that stay at the start of a secret."""

    mode: Tier = "broad"
    replacement: Replacement = "label"
    keep_structure: bool = True
    allowed: frozenset[str] = field(default_factory=frozenset)
    show: int = 0


def redact(text: str, mode: Tier = "reply", *, path: str = "") -> RedactedText:
    """Return the text with every secret, and every copy of it, replaced by a label such as `[masked github token]`.

    `path` determines the kind of file. The result depends on no key, so it is the same on every machine.
    """
    shown, redactions = _replace_secrets(text, mode, path)
    return RedactedText(shown, len(redactions), tuple(redactions))


def count_labels(text: str) -> Counter[str]:
    """Count the labels in a text that look like those of redacted secrets.

    Labels that only look like ours count, too: their writers took them for ours.

    >>> count_labels("url: postgres://app:[masked password]@db/app")
    Counter({'[masked password]': 1})
    >>> count_labels("[REDACTED:x:1] [masked corporate token] [masked array]").total()
    2
    """
    if "[masked " not in text and "[REDACTED" not in text:
        return Counter()
    kinds = {f"[masked {kind}]" for kind in builtin_rules().kinds}
    labels = [match.group() for match in LABEL_LIKE.finditer(text)]
    return Counter(label for label in labels if label in kinds or INVENTED.search(label))


def redact_keyed(
    text: str,
    key: bytes,
    options: RedactionOptions = RedactionOptions(),
    *,
    path: str = "",
    rules: SecretRules | None = None,
) -> RedactedText:
    """Return the text without its secrets. The same secret has the same label wherever the key is the same.

    A second run changes nothing, and no line moves unless `keep_structure` is off.
    """
    rules = rules or builtin_rules()

    def label(secret: DetectedSecret, value: str, parts: Parts) -> Redaction | None:
        if value in options.allowed:
            return None
        if not options.keep_structure:
            parts = ((parts[0][0], parts[-1][1]),)
        digest = fingerprint(value, key)
        return Redaction(parts, secret, _label_with_key(secret, value, digest, options), len(value), digest)

    shown, redactions = _replace_secrets(text, options.mode, path, label, rules=rules)
    return RedactedText(shown, len(redactions), tuple(redactions), rules.skipped)


def fingerprint(value: str, key: bytes) -> str:
    """Return a shortened HMAC, which distinguishes secrets without revealing them."""
    return hmac.new(key, value.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:FINGERPRINT_HEX]


def _label_with_key(secret: DetectedSecret, value: str, digest: str, options: RedactionOptions) -> str:
    label = {
        "label": f"[REDACTED:{secret.rule}:{digest[:LABEL_HEX]}]",
        "hash": f"[REDACTED:{digest}]",
        "fixed": "[REDACTED]",
    }[options.replacement]
    return value[: options.show] + label


class _Origin(NamedTuple):
    """From `shown` on, a redacted text is the original one from `original` on; until the next such place."""

    shown: int
    original: int


def _label_kind(secret: DetectedSecret, _: str, parts: Parts) -> Redaction:
    return Redaction(parts, secret, f"[masked {secret.kind}]")


def _replace_secrets(
    text: str,
    mode: Tier,
    path: str = "",
    label: Callable[[DetectedSecret, str, Parts], Redaction | None] = _label_kind,
    *,
    rules: SecretRules | None = None,
) -> tuple[str, list[Redaction]]:
    """Return the text without its secrets, and these in order. It is searched again until there are no more.

    `label` gets a secret, its value and its parts in the original, and returns None for one that stays.
    """
    redactions: list[Redaction] = []
    shown, origins = text, [_Origin(0, 0)]
    for _ in range(REDACTION_ROUNDS_MAX):
        found: list[Redaction] = []
        for secret in find_secrets(shown, mode, path=path, rules=rules):
            value = "".join(shown[start:stop] for start, stop in secret.parts)
            parts = tuple((_to_original(origins, start), _to_original(origins, stop)) for start, stop in secret.parts)
            if redaction := label(secret, value, parts):
                found.append(redaction)
        if not found:
            break
        for new in found if redactions else ():
            redactions = [one for one in redactions if not new.start <= one.start <= one.stop <= new.stop]
        redactions = sorted([*redactions, *found], key=lambda redaction: redaction.parts)
        shown, origins = _apply_labels(text, redactions)
    return shown, redactions


def _apply_labels(text: str, redactions: Iterable[Redaction]) -> tuple[str, list[_Origin]]:
    """Return the text with labels, and where its pieces come from."""
    pieces: list[str] = []
    origins = [_Origin(0, 0)]
    length = end = 0
    for redaction in redactions:
        label = redaction.replacement
        for start, stop in redaction.parts:
            pieces += [text[end:start], label]
            length += start - end
            origins += [_Origin(length, start), _Origin(length + len(label), stop)]
            length += len(label)
            end = stop
            label = ""
    return "".join([*pieces, text[end:]]), origins


def _to_original(origins: list[_Origin], position: int) -> int:
    """Return the position in the original text for one in the redacted text."""
    origin = next(origin for origin in reversed(origins) if origin.shown <= position)
    return origin.original + position - origin.shown


# -- redacted text -----------------------------------------------------------------------------------------------------

OF_FILES: Tier = "reply"
"""The tier for the text of files that a reply shows. The reply as a whole is searched by strict rules alone, because it
contains our own ids and hashes."""
WHOLE_BYTES_MAX = 1_000_000
"""Of a larger text only the surroundings of a part are searched; this size takes 10 to 30 ms."""
AROUND_BYTES = 16_384
"""Searched on both sides of a part: more than the longest private key in use (RSA of 16,384 bits has 13 kB)."""
KEPT_MAX = 4_096
"""The number of files whose secrets are cached; most have none and take 200 bytes."""
COPY_CHARS_MIN = 6
"""Shorter values occur in texts by chance. The shortest password that is searched has this length."""
LONG_CHARS = 16
"""A value of this length is redacted inside other words, too."""
SEARCHED_CHARS_MIN = 2_000
"""Searching a shorter text again is faster than finding it in a reply."""


class HiddenSpan(NamedTuple):
    """A piece of a secret: bytes of the text, half-open. The pieces of one secret share a number and its label."""

    start: int
    stop: int
    secret: int
    label: bytes


class RedactedDocument:
    """A text in UTF-8 whose parts are redacted. A large one is searched around each part."""

    __slots__ = ("_data", "_hidden", "_path")

    def __init__(self, data: bytes, hidden: tuple[HiddenSpan, ...] | None, path: str = "") -> None:
        """Use `RedactedDocument.of`, or `RedactedDocuments` for repeated texts."""
        self._data = data
        self._hidden = hidden
        self._path = path

    @classmethod
    def of(cls, data: bytes, path: str = "") -> RedactedDocument:
        """Return the document of a text; `path` determines the kind of file."""
        return cls(data, find_hidden_spans(data, path) if len(data) <= WHOLE_BYTES_MAX else None, path)

    @property
    def has_secrets(self) -> bool:
        """Whether it may contain secrets; a large text always may."""
        return self._hidden is None or bool(self._hidden)

    @property
    def text(self) -> str:
        """The whole redacted text; lines keep their numbers."""
        return self.part(0, len(self._data))

    def lines(self, first: int, last: int) -> str:
        """Return the lines `first` to `last` (1-based, both included), with their line feeds."""
        if not self.has_secrets:
            return slice_lines(self.text, first, last)
        start = _line_start(self._data, first)
        return self.part(start, _line_start(self._data, last - first + 2, start))

    def part(self, start: int, stop: int) -> str:
        """Return the bytes `start` to `stop` as redacted text."""
        return self.part_bytes(start, stop).decode("utf-8", "replace")

    def part_bytes(self, start: int, stop: int) -> bytes:
        """Return the bytes `start` to `stop` without their secrets, also without those that are cut by the part."""
        pieces: list[bytes] = []
        end, labeled_secret = start, -1
        for span in self._inside(start, stop):
            label = b"" if span.secret == labeled_secret else span.label
            pieces += [self._data[end : max(end, span.start)], label]
            end, labeled_secret = min(span.stop, stop), span.secret
        return b"".join([*pieces, self._data[end:stop]]) if pieces else self._data[start:stop]

    def _inside(self, start: int, stop: int) -> list[HiddenSpan]:
        """Return the secrets in a part, and add them to the redactions of the reply that shows it."""
        if self._hidden is None:
            found = self._around(start, stop)
        else:
            found = [span for span in self._hidden if span.start < stop and span.stop > start]
        redactions = _REDACTIONS.get()
        if found and redactions is not None:
            for span in found:
                value = self._data[span.start : span.stop].decode("utf-8", "replace")
                redactions.values[value] = span.label.decode()
        return found

    def _around(self, start: int, stop: int) -> list[HiddenSpan]:
        """Return the secrets in a part of a large text, found in the part and its surroundings."""
        first = self._data.rfind(b"\n", 0, max(0, start - AROUND_BYTES)) + 1
        first = max(first, start - 2 * AROUND_BYTES, 0)
        window = self._data[first : stop + AROUND_BYTES]
        spans = find_hidden_spans(window, self._path)
        moved = [span._replace(start=span.start + first, stop=span.stop + first) for span in spans]
        return [span for span in moved if span.start < stop and span.stop > start]


def redact_file(text: str, path: str = "") -> str:
    """Return the redacted text of a file; lines keep their numbers."""
    return RedactedDocument.of(text.encode("utf-8", "replace"), path).text


def redact_diff(diff: str, texts: Iterable[str], path: str = "") -> str:
    """Return the redacted unified diff of a file, whose versions are `texts`: a diff may show only part of a secret."""
    hidden: dict[str, str] = {}
    for text in texts:
        shown = redact_file(text, path)
        if shown != text:
            hidden |= {a: b for a, b in zip(text.split("\n"), shown.split("\n"), strict=True) if a != b}
    if hidden:
        return "\n".join(line[:1] + hidden.get(line[1:], line[1:]) for line in diff.split("\n"))
    return diff


class RedactedDocuments:
    """A factory of documents with a cache: the secrets of each content are found once. Thread-safe."""

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
    """Return the start of a line, counted from 1 at `start`; the end of the text for a line after it."""
    position = start
    for _ in range(number - 1):
        position = data.find(b"\n", position) + 1
        if not position:
            return len(data)
    return position


# -- where the secrets are --------------------------------------------------------------------------------------------


def find_hidden_spans(data: bytes, path: str = "") -> tuple[HiddenSpan, ...]:
    """Return the spans of the secrets of a text in order. Invalid UTF-8 is read byte by byte."""
    try:
        text, encoding = data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        text, encoding = data.decode("latin-1"), "latin-1"
    hidden: list[HiddenSpan] = []
    chars_done = bytes_done = 0
    for number, redaction in enumerate(redact(text, OF_FILES, path=path).redactions):
        for start, stop in redaction.parts:
            first = bytes_done + len(text[chars_done:start].encode(encoding))
            chars_done, bytes_done = stop, first + len(text[start:stop].encode(encoding))
            hidden.append(HiddenSpan(first, bytes_done, number, redaction.replacement.encode()))
    return tuple(hidden)


# -- the copies of a reply --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ReplyRedactions:
    """The values that were redacted while a reply was created, with their labels, and texts that were searched."""

    values: dict[str, str] = field(default_factory=dict)
    searched: list[str] = field(default_factory=list)


_REDACTIONS: ContextVar[ReplyRedactions | None] = ContextVar("redactions", default=None)


@contextmanager
def collect_redactions() -> Generator[ReplyRedactions]:
    """Collect what `RedactedDocument` redacts inside the block."""
    redactions = ReplyRedactions()
    token = _REDACTIONS.set(redactions)
    try:
        yield redactions
    finally:
        _REDACTIONS.reset(token)


def mark_searched(text: str) -> None:
    """Mark a part of a reply as redacted already, so that it is not searched a second time."""
    if len(text) >= SEARCHED_CHARS_MIN and (redactions := _REDACTIONS.get()) is not None:
        redactions.searched.append(text.rstrip("\n"))  # replies often leave out the last line feed


def redact_reply(text: str) -> RedactedText:
    """Return a whole reply without its secrets, and without copies of those redacted while it was created.

    This is the second line of defense. The longest part that was searched already is not searched again.
    """
    redactions = _REDACTIONS.get() or ReplyRedactions()
    values = dict(redactions.values)
    clean = max((part for part in redactions.searched if part in text), key=len, default="")
    before, _, after = text.partition(clean) if clean else ("", "", text)
    before, after = _redact_searched(before, values), _redact_searched(after, values)
    shown = replace_copies(f"{before}{clean}{after}", values)
    labels = set(values.values())
    return RedactedText(shown, sum(shown.count(label) for label in labels))


def _redact_searched(text: str, values: dict[str, str]) -> str:
    """Return the text without its own secrets, which are added to `values`."""
    if not text:
        return text
    shown, redactions = _replace_secrets(text, "strict")
    for redaction in redactions:
        values |= {text[start:stop]: redaction.replacement for start, stop in redaction.parts}
    return shown


def replace_copies(text: str, values: Mapping[str, str]) -> str:
    """Return the text without these values, also in the form in which JSON writes them; the longest first."""
    for value, label in sorted(values.items(), key=lambda item: -len(item[0])):
        for form in {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}:
            if form in text and _is_distinctive(form):
                text = _copy_pattern(form).sub(label.replace("\\", r"\\"), text)
    return text


def _is_distinctive(value: str) -> bool:
    """Return whether a text with this value is hardly ever anything else."""
    return len(value) >= COPY_CHARS_MIN and not value.startswith("[masked ") and not value.isalpha()


def _copy_pattern(value: str) -> re.Pattern[str]:
    """Return a pattern for the value; a short one matches only as a whole word."""
    if len(value) >= LONG_CHARS:
        return re.compile(re.escape(value))
    return re.compile(rf"(?<![A-Za-z0-9]){re.escape(value)}(?![A-Za-z0-9])")
