"""PURE. Prepares texts for a model of another program: how much of a text, and how many texts at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from context_engine.text import CHARS_PER_TOKEN, estimate_tokens

ITEMS_MAX = 32
"""Texts in one request: text-embeddings-inference refuses more by default, all others take more."""
BATCH_TOKENS_MAX = 16_000
"""Estimated tokens in one request: 32 long chunks. Hosted endpoints take 120,000 and more, a small machine is slow."""
TOKENS_MAX = 512
"""Tokens of one text if nothing is configured: the window of most open models; some refuse longer texts."""


def cut(text: str, tokens_max: int) -> str:
    """Return the beginning of a text with at most `tokens_max` estimated tokens.

    >>> cut("abcdefghijkl", 2), cut("中文字符", 2)
    ('abcdefgh', '中文')
    """
    high = tokens_max * CHARS_PER_TOKEN
    if estimate_tokens(text[: high + 1]) <= tokens_max:
        return text
    low = tokens_max  # a character is never more than a token
    while low < high:
        middle = (low + high + 1) // 2
        fits = estimate_tokens(text[:middle]) <= tokens_max
        low, high = (middle, high) if fits else (low, middle - 1)
    return text[:low]


def encodable(text: str) -> str:
    r"""Return the text as UTF-8 can encode it: half a surrogate pair becomes a question mark.

    >>> encodable("a\ud800b")
    'a?b'
    """
    return text.encode("utf-8", "replace").decode()


def batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the texts in order, at most `ITEMS_MAX` texts and `BATCH_TOKENS_MAX` estimated tokens at once.

    >>> [len(batch) for batch in batches(["a"] * 40)]
    [32, 8]
    """
    batch: list[str] = []
    cost = 0
    for text in texts:
        more = estimate_tokens(text)
        if batch and (len(batch) == ITEMS_MAX or cost + more > BATCH_TOKENS_MAX):
            yield batch
            batch, cost = [], 0
        batch.append(text)
        cost += more
    if batch:
        yield batch
