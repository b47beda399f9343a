"""PURE. Replace the secrets of a text by labels, in one pass over the findings; lines keep their numbers."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from context_engine.secrets.secret_finder import DetectedSecret, find_secrets
from context_engine.secrets.secret_rules import SecretRules, Tier, builtin_rules

ROUNDS_MAX = 8
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
class RedactedText:
    """A redacted text, and the number of its secrets."""

    text: str
    count: int


@dataclass(frozen=True, slots=True)
class Redaction:
    """A redacted secret with its original position and its replacement."""

    secret: DetectedSecret
    length: int
    fingerprint: str
    replacement: str


@dataclass(frozen=True, slots=True)
class KeyedRedaction:
    """A redacted text and its redactions. `skipped_rules` are those that could not be read."""

    text: str
    redactions: tuple[Redaction, ...] = ()
    skipped_rules: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """The number of redacted secrets."""
        return len(self.redactions)


@dataclass(frozen=True, slots=True)
class RedactionOptions:
    """The options of a redaction. `show` are the numbers of characters that stay at the start and end of a secret."""

    mode: Tier = "broad"
    replacement: Replacement = "label"
    keep_structure: bool = True
    allowed: frozenset[str] = field(default_factory=frozenset)
    show: tuple[int, int] = (0, 0)


def redact(text: str, mode: Tier = "reply", *, path: str = "") -> RedactedText:
    """Return the text with every secret, and every copy of it, replaced by a label such as `[masked github token]`.

    `path` determines the kind of file. The result depends on no key, so it is the same on every machine.
    """
    count = 0
    for _ in range(ROUNDS_MAX):
        secrets = [(secret, f"[masked {secret.kind}]") for secret in find_secrets(text, mode, path=path)]
        if not secrets:
            break
        text = replace_secrets(text, secrets)
        count += len(secrets)
    return RedactedText(text, count)


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
) -> KeyedRedaction:
    """Return the text without its secrets. The same secret has the same label wherever the key is the same.

    A second run changes nothing, and no line moves unless `keep_structure` is off.
    """
    rules = rules or builtin_rules()
    found: list[Redaction] = []
    for _ in range(ROUNDS_MAX):
        candidates = find_secrets(text, options.mode, path=path, rules=rules)
        secrets = [secret for secret in candidates if _value(text, secret) not in options.allowed]
        if not secrets:
            break
        redactions = [_create_redaction(text, secret, key, options) for secret in secrets]
        replacements = [(redaction.secret, redaction.replacement) for redaction in redactions]
        text = replace_secrets(text, replacements, keep_lines=options.keep_structure)
        found += redactions
    found.sort(key=lambda redaction: (redaction.secret.line, redaction.secret.column))
    return KeyedRedaction(text, tuple(found), rules.skipped)


def replace_secrets(text: str, secrets: Sequence[tuple[DetectedSecret, str]], *, keep_lines: bool = True) -> str:
    """Return the text with replacements of the secrets, which are in order and do not overlap."""
    pieces, end = [], 0
    for secret, replacement in secrets:
        if keep_lines:
            parts = secret.parts
        else:
            parts = ((secret.start, secret.stop),)
        for number, (start, stop) in enumerate(parts):
            pieces += [text[end:start], "" if number else replacement]
            end = stop
    return "".join([*pieces, text[end:]])


def fingerprint(value: str, key: bytes) -> str:
    """Return a shortened HMAC, which distinguishes secrets without revealing them."""
    return hmac.new(key, value.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:FINGERPRINT_HEX]


def _create_redaction(text: str, secret: DetectedSecret, key: bytes, options: RedactionOptions) -> Redaction:
    value = _value(text, secret)
    digest = fingerprint(value, key)
    label = {
        "label": f"[REDACTED:{secret.rule}:{digest[:LABEL_HEX]}]",
        "hash": f"[REDACTED:{digest}]",
        "fixed": "[REDACTED]",
    }[options.replacement]
    first, last = options.show
    beginning, end = value[:first], value[len(value) - last :] if last else ""
    return Redaction(secret, len(value), digest, f"{beginning}{label}{end}")


def _value(text: str, secret: DetectedSecret) -> str:
    return "".join(text[start:stop] for start, stop in secret.parts)
