"""PURE. How many model tokens a text costs, near enough to keep a budget. No tokenizer is loaded here.

>>> estimate_tokens("def login(user): ..."), estimate_tokens("")
(5, 0)
"""

from __future__ import annotations

CHARS_PER_TOKEN = 4
"""English and code come to 3.5-4.5 characters a token in the tokenizers of today's models."""


def estimate_tokens(text: str) -> int:
    """Tokens of `text`, rounded up; characters outside ASCII count as one token each, as most scripts do."""
    if text.isascii():
        return -(-len(text) // CHARS_PER_TOKEN)
    plain = sum(character < "\x80" for character in text)
    return -(-plain // CHARS_PER_TOKEN) + len(text) - plain
