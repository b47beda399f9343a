"""Checks what may be written as a memory: free of secrets, within its limits, and readable again as intended.

Every check comes before anything is written, and its error names the part that is wrong.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

import msgspec

from context_engine import timestamps
from context_engine.errors import InvalidArgument, conversion_error
from context_engine.memory.memory_file import Memory, derive_title, format_file, parse_file
from context_engine.memory.memory_requests import CATEGORIES, PRIORITIES, SUBTYPES, MemoryDraft
from context_engine.secrets import RedactedText
from context_engine.storage import prepare_type
from context_engine.text import expand_words, split_words, unique

RedactText = Callable[[str], RedactedText]


def remove_secrets(values: Mapping[str, Any], redact_text: RedactText) -> tuple[dict[str, Any], int]:
    """Return the fields of a draft or of a change without secrets, and how many they had.

    Paths and ids are looked up, never kept as they were typed.
    """
    count = 0

    def clean(value: Any) -> Any:
        nonlocal count
        if isinstance(value, tuple):
            return tuple(map(clean, value))
        if not isinstance(value, str):
            return value
        redacted = redact_text(value)
        count += redacted.count
        return redacted.text

    return {name: value if name in _LOOKED_UP else clean(value) for name, value in values.items()}, count


_LOOKED_UP = frozenset({"category", "scope", "priority", "subtype", "linked_files", "supersedes"})


def normalize_draft(draft: MemoryDraft) -> MemoryDraft:
    """Return the draft with normalized line ends and blanks, and with a title if it has none."""

    def strip_all(values: Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(value.strip() for value in values if value.strip()))

    content = _lines(draft.content)
    return replace(
        draft,
        content=content,
        title=" ".join(draft.title.split()) or (derive_title(content) if content else ""),
        tags=strip_all([" ".join(tag.split()) for tag in draft.tags]),
        source=" ".join(draft.source.split()),
        owner=" ".join(draft.owner.split()),
        evidence=_lines(draft.evidence),
        linked_symbols=strip_all(draft.linked_symbols),
        linked_plans=strip_all(draft.linked_plans),
    )


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def check_draft(draft: MemoryDraft, categories: Sequence[str]) -> None:
    """Check the limits of a draft. Raises: InvalidArgument."""
    check_choice("category", draft.category, categories)
    check_choice("priority", draft.priority, PRIORITIES)
    check_choice("subtype", draft.subtype, ("", *SUBTYPES))
    try:
        msgspec.convert(asdict(draft), prepare_type(MemoryDraft))
    except msgspec.ValidationError as error:
        advice = "Keep what is to be remembered in a few sentences; link the file that has the rest."
        raise conversion_error(error, "", advice) from None
    parse_expiry(draft.expires_at)


def apply_changes(old: Memory, changes: Mapping[str, Any]) -> Memory:
    """Return the memory with some fields changed, except linked files. Raises: InvalidArgument."""
    kept: dict[str, Any] = {
        field.name: getattr(old, field.name) for field in fields(MemoryDraft) if hasattr(old, field.name)
    }
    kept["linked_files"] = ()
    draft = normalize_draft(MemoryDraft(**(kept | dict(changes))))
    check_draft(draft, (*CATEGORIES, old.category))
    new = {name: getattr(draft, name) for name in changes if name != "linked_files"}
    return replace(old, **(new | ({"expires_at": parse_expiry(draft.expires_at)} if "expires_at" in new else {})))


def parse_expiry(text: str) -> str:
    """Return a normalized time; empty for none. Raises: InvalidArgument."""
    if not text.strip():
        return ""
    at = timestamps.parse_timestamp(text)
    if at is None:
        raise InvalidArgument(
            f"expires_at is {text[:40]!r}, not a date",
            suggestion="Write 2027-01-31 or 2027-01-31T12:00:00Z.",
            details={"argument": "expires_at"},
        )
    return timestamps.format_timestamp(at)


def check_writable(memory: Memory) -> None:
    """Check that a memory can be read back as intended; conflict markers cannot. Raises: InvalidArgument."""
    try:
        found = parse_file(format_file(memory).encode("utf-8").decode("utf-8"), memory.file_name)
    except UnicodeEncodeError:
        raise unwritable_error("it holds half a character (a lone surrogate)") from None
    if found != memory:
        raise unwritable_error(found if isinstance(found, str) else "it would not read as it was meant")


def unwritable_error(why: str) -> InvalidArgument:
    """Return the error for a memory that no file can contain."""
    return InvalidArgument(
        f"this cannot be kept in a file: {why}", suggestion="Leave out control characters and conflict markers."
    )


def check_choice(name: str, value: str, among: Sequence[str]) -> None:
    """Check that a value is one of a few words. Raises: InvalidArgument."""
    if value not in among:
        raise InvalidArgument(
            f"{name} is {value[:40]!r}",
            suggestion=f"It is one of {', '.join(filter(None, among))}.",
            details={"argument": name},
        )


SAME_WORDS_MIN = 0.80
SAME_MEANING_MIN = 0.90
"""From this share of common terms, or this cosine, on two memories say nearly the same."""


def hash_content(content: str) -> str:
    """Return a hash that equal contents share; case, spacing and punctuation around words are ignored."""
    folded = unicodedata.normalize("NFKC", content).casefold()
    plain = " ".join(re.findall(r"[^\s.,;:!?*`'\"]+", folded))
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()


def collect_terms(content: str) -> frozenset[str]:
    """Return the terms of a content."""
    return frozenset(term for group in expand_words(unique(split_words(content))) for term in group)


def compare_terms(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the share of common terms (Jaccard), 0 to 1.

    >>> compare_terms(collect_terms("Use tabs for indentation."), collect_terms("use TABS for indentation"))
    1.0
    """
    return len(one & other) / (len(one | other) or 1)
