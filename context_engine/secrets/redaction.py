"""PURE.

A text without its secrets: one pass over the places that were found, labels in their stead, lines where they were.
"""

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
"""A redaction can reveal a new word next to it; hardly ever more than once."""
LABEL_HEX, FINGERPRINT_HEX = 6, 12
"""Of the HMAC: enough to tell the secrets of one text apart, and those of one workspace."""
LABEL_LIKE = re.compile(r"\[(?:masked [^\[\]\n]{1,60}|REDACTED(?::[^\[\]\n]{0,100})?)\]")
INVENTED = re.compile(
    r"^\[REDACTED|\b(?:tokens?|keys?|passwords?|passphrase|secrets?|credentials?|cookie|login|webhook)\]$"
)
"""A label that no rule writes, but that a reader would take for one."""
Replacement = Literal["label", "hash", "fixed"]


@dataclass(frozen=True, slots=True)
class RedactedText:
    """A text that may leave, and how many secrets it held."""

    text: str
    count: int


@dataclass(frozen=True, slots=True)
class Redaction:
    """A secret that was taken out, where it stood in the text that was given, and what stands for it now."""

    secret: DetectedSecret
    length: int
    fingerprint: str
    replacement: str


@dataclass(frozen=True, slots=True)
class KeyedRedaction:
    """A text that may be kept or sent, and what was taken out of it. `skipped_rules` could not be read."""

    text: str
    redactions: tuple[Redaction, ...] = ()
    skipped_rules: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many secrets it held."""
        return len(self.redactions)


@dataclass(frozen=True, slots=True)
class RedactionOptions:
    """How secrets are taken out. `show` are characters of each that stay, at its start and its end."""

    mode: Tier = "broad"
    replacement: Replacement = "label"
    keep_structure: bool = True
    allowed: frozenset[str] = field(default_factory=frozenset)
    show: tuple[int, int] = (0, 0)


def redact(text: str, mode: Tier = "reply", *, path: str = "") -> RedactedText:
    """The text with every secret replaced by what it was, `[masked github token]`, and every further copy of it.

    `path` says what kind of file the text is of. The same text is masked in the same way on every machine: no key goes
    into it.
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
    """The text without its secrets; the same secret has the same label wherever the key is the same.

    A second run changes nothing, and no line moves unless `keep_structure` is off.
    """
    rules = rules or builtin_rules()
    found: list[Redaction] = []
    for _ in range(ROUNDS_MAX):
        secrets = [
            each
            for each in find_secrets(text, options.mode, path=path, rules=rules)
            if _value(text, each) not in options.allowed
        ]
        if not secrets:
            break
        taken = [_create_redaction(text, secret, key, options) for secret in secrets]
        text = replace_secrets(
            text, [(each.secret, each.replacement) for each in taken], keep_lines=options.keep_structure
        )
        found += taken
    return KeyedRedaction(
        text, tuple(sorted(found, key=lambda each: (each.secret.line, each.secret.column))), rules.skipped
    )


def replace_secrets(text: str, secrets: Sequence[tuple[DetectedSecret, str]], *, keep_lines: bool = True) -> str:
    """The text with something else in the place of each secret. They come in order and do not overlap."""
    pieces, at = [], 0
    for secret, instead in secrets:
        for number, (start, stop) in enumerate(secret.parts if keep_lines else ((secret.start, secret.stop),)):
            pieces += [text[at:start], instead if not number else ""]
            at = stop
    return "".join([*pieces, text[at:]])


def fingerprint(value: str, key: bytes) -> str:
    """Return a shortened HMAC, which distinguishes secrets without revealing them."""
    return hmac.new(key, value.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:FINGERPRINT_HEX]


def _create_redaction(text: str, secret: DetectedSecret, key: bytes, how: RedactionOptions) -> Redaction:
    value = _value(text, secret)
    told = fingerprint(value, key)
    instead = {
        "label": f"[REDACTED:{secret.rule}:{told[:LABEL_HEX]}]",
        "hash": f"[REDACTED:{told}]",
        "fixed": "[REDACTED]",
    }[how.replacement]
    first, last = how.show
    shown = value[:first], value[len(value) - last :] if last else ""
    return Redaction(secret, len(value), told, f"{shown[0]}{instead}{shown[1]}" if any(shown) else instead)


def _value(text: str, secret: DetectedSecret) -> str:
    return "".join(text[start:stop] for start, stop in secret.parts)
