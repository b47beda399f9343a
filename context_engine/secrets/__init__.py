"""Find and redact secrets in texts, before they are shown, stored or sent. This package opens only its own rule files.

    redact("url: postgres://app:Tr0ub4dor@db/app").text   ->   "url: postgres://app:[masked password]@db/app"

Three tiers. A rule is strict only if it is next to never wrong. Rules of replies go by what is around a value and by
the kind of file that it is in: files that are shown are masked by these too. Broad rules know the names of providers:
what is kept or sent elsewhere is redacted by all three. A label takes the place of a secret and names its kind. Lines
keep their numbers, and a second run changes nothing.
"""

from context_engine.secrets.redaction import (
    KeyedRedaction,
    RedactedText,
    Redaction,
    RedactionOptions,
    count_labels,
    fingerprint,
    redact,
    redact_keyed,
)
from context_engine.secrets.secret_finder import DetectedSecret, find_secrets
from context_engine.secrets.secret_rules import (
    SecretRule,
    SecretRules,
    Tier,
    builtin_rules,
    describe_engines,
    read_rules,
)

__all__ = [
    "DetectedSecret",
    "KeyedRedaction",
    "RedactedText",
    "Redaction",
    "RedactionOptions",
    "SecretRule",
    "SecretRules",
    "Tier",
    "builtin_rules",
    "count_labels",
    "describe_engines",
    "find_secrets",
    "fingerprint",
    "read_rules",
    "redact",
    "redact_keyed",
]
