"""PURE. Findings that replies show, by the kind of file: examples in docs and tests, checksums in lock files.

Keys with the prefix of a provider, private keys and random-looking values are never shown. Measured by evals/secrets:
without this, replies have twice as many false redactions and not one more correct one.
"""

from __future__ import annotations

import base64
import binascii
import re

from context_engine.secrets.assignments import is_setting
from context_engine.secrets.heuristics import CHOSEN_CHARS, is_drawn, is_placeholder
from context_engine.secrets.secret_rules import SecretRule
from context_engine.secrets.verifiers import BY_NAME, SecretCandidate

EXAMPLES = frozenset(("docs", "tests"))
"""Kinds of file whose passwords are mostly made up for the reader."""
WEAK = re.compile(
    r"[a-z]{1,9}[0-9]{0,4}|[A-Z]{1,9}[0-9]{0,4}|[A-Z][a-z]{1,8}[0-9]{0,4}|p[a@4]s+w[o0]rd.{0,4}", re.IGNORECASE
)
"""Passwords that are a word, or a word and a number: `tiger`, `Secret123`."""
SPEAKS_OF_ITSELF = re.compile(r"pass|secret|hunter|pa\$\$|pa33", re.IGNORECASE)
"""Values that name what they are."""
CODE = frozenset(("code", "tests"))
EXPRESSION = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
EXPRESSION_DIGITS_MIN = 4
HASH = re.compile(r"\$(?:apr1|[156y]|2[aby]|argon2\w{1,2})\$")
ENCODED = re.compile(r"[A-Za-z0-9+/]{8,}={0,2}")
NO_KEY_CHARS_MAX = 120
"""A decoded PEM block that is shorter has nothing between its first and its last line."""


def is_redacted_in_replies(candidate: SecretCandidate, rule: SecretRule) -> bool:
    """Return whether what a rule has found is masked in replies, which have to stay readable as code."""
    kind, value = candidate.kind, candidate.value
    if kind == "locks":
        return rule.tier == "strict" and rule.place == "start"
    if rule.place == "name":
        inner = unwrapped_text(value)
    else:
        inner = ""
    if inner.startswith("-----BEGIN") and (len(inner) < NO_KEY_CHARS_MAX or "CERTIFICATE" in inner[:40]):
        return False
    if kind in CODE and rule.verifier in BY_NAME and _is_expression(candidate):
        return False
    if kind not in EXAMPLES:
        return True
    if HASH.search(value) or (rule.kind == "password" and (WEAK.fullmatch(value) or SPEAKS_OF_ITSELF.search(value))):
        return False
    if rule.id == "password" and len(value) in CHOSEN_CHARS:
        return not WEAK.fullmatch(inner or value) and not is_placeholder(inner or value)
    return not inner or inner.startswith("-----") or is_drawn(inner) or any(map(str.isdigit, inner))


def _is_expression(candidate: SecretCandidate) -> bool:
    """Return whether a value without quotes is a name of the program rather than a value: `key := base64BufferSize`."""
    assignment, value = candidate.assignment, candidate.value
    if (
        assignment is None
        or assignment.is_quoted
        or is_setting(candidate.data, candidate.word_start - len(assignment.head))
    ):
        return False
    return EXPRESSION.fullmatch(value) is not None and sum(map(str.isdigit, value)) < EXPRESSION_DIGITS_MIN


def unwrapped_text(value: str) -> str:
    """Return the text that a value is in base64, or nothing if it is not base64 text.

    >>> unwrapped_text("c2VjdXJlLXBhc3N3b3Jk"), unwrapped_text("q8Zt2Lw0Xv5Rb7Nc")
    ('secure-password', '')
    """
    if not ENCODED.fullmatch(value):
        return ""
    try:
        inner = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return ""
    if inner.isascii() and all(32 <= code < 127 or code in (9, 10, 13) for code in inner):
        return inner.decode()
    return ""
