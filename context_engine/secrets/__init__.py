"""Find and redact secrets in texts, before they are shown, stored or sent. This package opens only its own rule files.

    redact("url: postgres://app:Tr0ub4dor@db/app").text   ->   "url: postgres://app:[masked password]@db/app"

There are three tiers of rules. Strict rules know the shape of a key and are almost never wrong. Reply rules go by the
surroundings of a value and by the kind of file; files that are shown are redacted by both. Broad rules know the names
of providers; what is stored or sent elsewhere is redacted by all three. A label replaces a secret and names its kind.
Lines keep their numbers, and a second run changes nothing.

`secret_finder` decides: a word and a pattern of a rule (`rules/secrets.toml`, read by `secret_rules`) or an assignment
(`assignments`) make a candidate, `verifiers` confirm it by its surroundings and `heuristics` by its value;
`is_redacted_in_replies` says which kinds of files hide it. `encoded_text` decodes what is wrapped.

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
        RedactedText,
        RedactionOptions,
        collect_redactions,
        count_labels,
        mark_searched,
        redact,
        redact_diff,
        redact_file,
        redact_reply,
    )
    from context_engine.secrets.redactor import Redactor
    from context_engine.secrets.secret_finder import DetectedSecret
    from context_engine.secrets.secret_rules import describe_engines

__getattr__ = lazy_exports(__name__)
