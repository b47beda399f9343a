"""Secrets in a text: found, masked before it leaves, scrubbed before it is kept. This room opens no file but its own rules.

    mask("url: postgres://app:Tr0ub4dor@db/app").text   ->   "url: postgres://app:[masked password]@db/app"

Two tiers. A rule is strict only if it is next to never wrong: replies are masked by these, for an agent that is shown a mask
instead of code cannot work. Broad rules go by what stands around a value: what is kept or sent elsewhere is scrubbed by both.
What is taken out is visible and says what it was; lines stay where they are; doing it twice changes nothing more.
"""

from context_engine.text.secrets.finding import Secret, find
from context_engine.text.secrets.redaction import (
    Found,
    How,
    Masked,
    MaskedSource,
    Scrubbed,
    fingerprint,
    mask,
    mask_keys,
    mask_source,
    masks,
    scrub,
)
from context_engine.text.secrets.rules import Rule, Rules, Tier, builtin, engines, read_rules

__all__ = [
    "Found",
    "How",
    "Masked",
    "MaskedSource",
    "Rule",
    "Rules",
    "Scrubbed",
    "Secret",
    "Tier",
    "builtin",
    "engines",
    "find",
    "fingerprint",
    "mask",
    "mask_keys",
    "mask_source",
    "masks",
    "read_rules",
    "scrub",
]
