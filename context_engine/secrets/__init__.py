"""Find and redact secrets in texts, before they are shown, stored or sent. This package opens only its own rule files.

    redact("url: postgres://app:Tr0ub4dor@db/app").text   ->   "url: postgres://app:[masked password]@db/app"

There are three tiers of rules. Strict rules know the shape of a key and are almost never wrong. Reply rules go by the
surroundings of a value and by the kind of file; files that are shown are redacted by both. Broad rules know the names
of providers; what is stored or sent elsewhere is redacted by all three. A label replaces a secret and names its kind.
Lines keep their numbers, and a second run changes nothing.

Replies get labels such as `[masked password]` from `redacted_text`; the dispatcher of the server calls it last. Stored
and sent text gets labels such as `[REDACTED:password:3fa91c]` from `Redactor`, which has the key of the workspace.
"""

from __future__ import annotations

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.secrets.redacted_text import (
        AROUND_BYTES,
        WHOLE_BYTES_MAX,
        RedactedDocument,
        RedactedDocuments,
        collect_redactions,
        mark_searched,
        redact_diff,
        redact_file,
        redact_reply,
    )
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
    from context_engine.secrets.redactor import Redactor
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
    "AROUND_BYTES",
    "WHOLE_BYTES_MAX",
    "DetectedSecret",
    "KeyedRedaction",
    "RedactedDocument",
    "RedactedDocuments",
    "RedactedText",
    "Redaction",
    "RedactionOptions",
    "Redactor",
    "SecretRule",
    "SecretRules",
    "Tier",
    "builtin_rules",
    "collect_redactions",
    "count_labels",
    "describe_engines",
    "find_secrets",
    "fingerprint",
    "mark_searched",
    "read_rules",
    "redact",
    "redact_diff",
    "redact_file",
    "redact_keyed",
    "redact_reply",
]
__getattr__ = lazy_exports(
    __name__,
    {
        "AROUND_BYTES": "redacted_text",
        "DetectedSecret": "secret_finder",
        "KeyedRedaction": "redaction",
        "RedactedDocument": "redacted_text",
        "RedactedDocuments": "redacted_text",
        "RedactedText": "redaction",
        "Redaction": "redaction",
        "RedactionOptions": "redaction",
        "Redactor": "redactor",
        "SecretRule": "secret_rules",
        "SecretRules": "secret_rules",
        "Tier": "secret_rules",
        "WHOLE_BYTES_MAX": "redacted_text",
        "builtin_rules": "secret_rules",
        "collect_redactions": "redacted_text",
        "count_labels": "redaction",
        "describe_engines": "secret_rules",
        "find_secrets": "secret_finder",
        "fingerprint": "redaction",
        "mark_searched": "redacted_text",
        "read_rules": "secret_rules",
        "redact": "redaction",
        "redact_diff": "redacted_text",
        "redact_file": "redacted_text",
        "redact_keyed": "redaction",
        "redact_reply": "redacted_text",
    },
)
