r"""A memory: one thing somebody wrote down for later, the Markdown file that it is, and what may be written into it.

    ---
    id: mem_0193...                       what a person may leave out, follows from the file: id, title, dates
    title: Money is counted in cents
    tags:
    - billing
    linked_files:
      src/billing/money.py: 9daeafb9...   the blob that was true when this was written
    linked_lines:
      src/billing/money.py: to_cents=1a2b3c4d5e6f   a name that the text mentions, and a hash of its lines
    ---

    Amounts are whole numbers of cents everywhere; only the last template divides by a hundred.

The folder that the file lies in is its category. This module reads no clock and no file.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import msgspec
import yaml

from context_engine import timestamps
from context_engine.errors import InvalidArgument, conversion_error
from context_engine.memory.memory_requests import CATEGORIES, PRIORITIES, SUBTYPES, MemoryDraft
from context_engine.secrets import RedactedText
from context_engine.storage import prepare_type
from context_engine.text import (
    ParseError,
    expand_words,
    make_slug,
    read_yaml,
    short_id,
    split_words,
    unique,
    uuid8,
)

DERIVED_TITLE_CHARS_MAX = 80
"""Characters of a title that is taken from the first line of the content."""

_LINES = re.compile(r"[\w$]{1,80}(?:,[\w$]{1,80}){0,15}=[0-9a-f]{12}")
_CONFLICT = re.compile(r"^<{7} .*?^={7}\r?$.*?^>{7} ", re.MULTILINE | re.DOTALL)
_TEXTS = ("id", "title", "subtype", "priority", "source", "owner", "evidence", "superseded_by")
_LISTS = ("tags", "linked_symbols", "linked_plans", "supersedes")
_DATES = ("created_at", "updated_at", "expires_at")
_NOTHING = ("", "null", "~")


@dataclass(frozen=True, slots=True)
class LinkedFile:
    """A file that a memory links, and its hash at that time; empty if only its existence counts.

    `lines` has the names in it that the memory mentions, and a hash of the lines with them: `cents,total=1a2b3c4d5e6f`;
    empty if the whole file counts.
    """

    path: str
    blob: str = ""
    lines: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory. Times are ISO-8601 in UTC, empty if there is none. `category` is the name of its folder."""

    id: str
    category: str
    title: str
    content: str
    tags: tuple[str, ...] = ()
    subtype: str = ""
    priority: str = "helpful"
    source: str = ""
    owner: str = ""
    evidence: str = ""
    created_at: str = ""
    updated_at: str = ""
    expires_at: str = ""
    linked_files: tuple[LinkedFile, ...] = ()
    linked_symbols: tuple[str, ...] = ()
    linked_plans: tuple[str, ...] = ()
    supersedes: tuple[str, ...] = ()
    superseded_by: str = ""

    @property
    def type(self) -> str:
        """Its type in search results: its subtype, else that of its category."""
        return self.subtype or {"decisions": "decision", "preferences": "rule"}.get(self.category, "pattern")

    @property
    def file_name(self) -> str:
        """The path of a new memory below its folder of memories."""
        return f"{self.category}/{make_slug(self.title)}--{short_id(self.id)}.md"


def derive_title(content: str) -> str:
    r"""Return a title for a content without one: its first line, cut at a word.

    >>> derive_title("## Money is counted in cents\n\nEverywhere.")
    'Money is counted in cents'
    """
    first = next((line.strip(" \t#*->") for line in content.splitlines() if line.strip(" \t#*->")), "Untitled")
    if len(first) <= DERIVED_TITLE_CHARS_MAX:
        return first
    return first[: DERIVED_TITLE_CHARS_MAX - 1].rsplit(" ", 1)[0] + "…"


# -- to a file ---------------------------------------------------------------------------------------------------------


def format_file(memory: Memory) -> str:
    """Return the file of a new memory."""
    return write_front_matter(_fields(memory), f"\n{memory.content}\n")


def update_file(text: str, old: Memory, new: Memory) -> str:
    """Return the file with only the changes between two memories. `old` is what the file contains now."""
    before, after, stated = _fields(old), _fields(new), parse_front_matter(text).fields
    changes = {name: after.get(name) for name in {**after, **before} if after.get(name) != before.get(name)}
    kept = {name: after[name] for name in ("id", "created_at") if name not in stated}  # both would change with the file
    if new.content != old.content:
        text = replace_body(text, f"\n{new.content}\n")
    return update_fields(text, kept | changes)


def _fields(memory: Memory) -> dict[str, Any]:
    """Return the front matter of a memory, without empty fields."""
    values = asdict(memory) | {
        "linked_files": {link.path: link.blob for link in memory.linked_files},
        "linked_lines": {link.path: link.lines for link in memory.linked_files if link.lines},
    }
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    return {name: value for name, value in plain.items() if value and name not in ("category", "content")}


# -- from a file -------------------------------------------------------------------------------------------------------


def parse_file(text: str, name: str, *, modified_at: float = 0.0) -> Memory | str:
    """Return the memory in a file, or what is wrong with it. `name` is its path below the folder of memories.

    Fields that a person has left out are filled in: the id from the name, the title from the content, dates from the
    file.
    """
    if _CONFLICT.search(text):
        return "it holds conflict markers: a merge was not finished"
    matter = parse_front_matter(text)
    content = matter.body.strip()
    if matter.problem or not content:
        return matter.problem or "it has no content"
    said = {key: value for key, value in matter.fields.items() if value not in _NOTHING}
    values: dict[str, Any] = {}
    for key in (*_TEXTS, *_DATES):
        values[key] = said.get(key, "")
        if not isinstance(values[key], str):
            return f"its {key} is not a text"
    for key in _DATES:
        at = timestamps.parse_timestamp(values[key]) if values[key] else None
        if values[key] and at is None:
            return f"its {key} is {values[key]!r}, no date"
        values[key] = "" if at is None else timestamps.format_timestamp(at)
    for key, among in (("priority", ("", *PRIORITIES)), ("subtype", ("", *SUBTYPES))):
        if values[key] not in among:
            return f"its {key} is {values[key]!r}; it is one of {', '.join(filter(None, among))}"
    for key in _LISTS:
        values[key] = _read_texts(said.get(key, []))
    values["linked_files"] = _read_links(said)
    for key in (*_LISTS, "linked_files"):
        if values[key] is None:
            return f"its {key} is not a list of texts"
    values["id"] = values["id"] or f"mem_{uuid8(name)}"
    values["title"] = values["title"] or derive_title(content)
    values["priority"] = values["priority"] or "helpful"
    values["created_at"] = values["created_at"] or timestamps.format_timestamp(modified_at)
    values["updated_at"] = values["updated_at"] or values["created_at"]
    return Memory(category=name.split("/")[0], content=content, **values)


def _read_texts(value: Any) -> tuple[str, ...] | None:
    """Return texts from a list, or from a text with commas; None for anything else."""
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(text, str) for text in listed):
        return None
    return tuple(dict.fromkeys(text.strip() for text in listed if text.strip() not in _NOTHING))


def _read_links(said: Mapping[str, Any]) -> tuple[LinkedFile, ...] | None:
    """Return paths with their hashes, or a list of paths as a person writes it; None for anything else.

    A hash of lines that is not well-formed counts as absent, so the whole file counts.
    """
    value, lines = said.get("linked_files", {}), said.get("linked_lines", {})
    if not isinstance(value, dict) or not all(isinstance(part, str) for pair in value.items() for part in pair):
        paths = _read_texts(value)
        return None if paths is None else tuple(map(LinkedFile, paths))
    known = lines if isinstance(lines, dict) else {}
    known = {path: text for path, text in known.items() if isinstance(text, str) and _LINES.fullmatch(text)}
    return tuple(
        LinkedFile(path, "" if blob in _NOTHING else blob, known.get(path, "")) for path, blob in value.items()
    )


# -- front matter ------------------------------------------------------------------------------------------------------

# The YAML block that a Markdown file begins with, read and changed without touching anything else.
#
# A change replaces the lines of the keys it names. Keys we do not know, comments, the order and the body stay byte for
# byte, so that two people who change different things in one file are merged by git without a conflict.

FRONT_MATTER = re.compile(r"\A\ufeff?---[ \t]*\r?\n(?P<yaml>(?:.*?\n)??)---[ \t]*(?:\r?\n|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """A file taken apart: the fields of its front matter, and its body. `problem` says why there are no fields."""

    fields: Mapping[str, Any]
    body: str
    problem: str = ""


def parse_front_matter(text: str) -> FrontMatter:
    """Parse a file. A file without front matter is all body; invalid front matter is a problem, never an error."""
    fenced = FRONT_MATTER.match(text)
    if fenced is None:
        first, has_more, _ = text.removeprefix("\ufeff").partition("\n")
        is_opened = has_more and first.rstrip(" \t\r") == "---"
        return FrontMatter({}, text, "its front matter has no end: a line `---` is missing" if is_opened else "")
    body = text[fenced.end() :]
    try:
        # `yes`, 1.10 and dates stay what was written.
        fields = read_yaml(fenced["yaml"], plain_text=True, last_wins=True)
    except ParseError as error:
        return FrontMatter({}, body, f"its front matter cannot be read: {_describe_error(error)}")
    if fields is None or fields == "":
        return FrontMatter({}, body)
    if not isinstance(fields, dict):
        return FrontMatter({}, body, "its front matter is not a mapping of names to values")
    return FrontMatter(fields, body)


def write_front_matter(fields: Mapping[str, Any], body: str) -> str:
    """Return a file with these fields, in their order, and this body."""
    return f"---\n{_dump_yaml(fields)}---\n{body}"


def update_fields(text: str, changes: Mapping[str, Any]) -> str:
    r"""Return the file with some fields set, or removed if the value is None.

    `text` must be free of problems (`parse_front_matter`).

    >>> text = "---\nid: mem_1\nmine: yes # a note\n---\nUse tabs.\n"
    >>> parse_front_matter(text).fields
    {'id': 'mem_1', 'mine': 'yes'}
    >>> print(update_fields(text, {"id": None, "tags": ["style"]}), end="")
    ---
    mine: yes # a note
    tags:
    - style
    ---
    Use tabs.
    """
    fenced = FRONT_MATTER.match(text)
    if fenced is None:
        return write_front_matter(_merge_fields({}, changes), text)
    newline = "\r\n" if "\r\n" in fenced[0] else "\n"
    body = text[fenced.end() :]
    matter = _replace_keys(fenced["yaml"], changes, newline)
    spliced = text[: fenced.start("yaml")] + matter + text[fenced.end("yaml") :]
    after, wanted = parse_front_matter(spliced), _merge_fields(parse_front_matter(text).fields, changes)
    read_back = parse_front_matter(write_front_matter(wanted, "")).fields
    if not after.problem and (after.body, after.fields) == (body, read_back):
        return spliced
    return write_front_matter(_merge_fields(_read_typed_fields(fenced["yaml"]), changes), body)


def replace_body(text: str, body: str) -> str:
    """Return the file with another body."""
    fenced = FRONT_MATTER.match(text)
    return text[: fenced.end()] + body if fenced else body


def _replace_keys(matter: str, changes: Mapping[str, Any], newline: str) -> str:
    """Return the YAML with the lines of changed keys replaced, and new keys at the end."""
    new = {
        key: "" if value is None else _dump_yaml({key: value}).replace("\n", newline) for key, value in changes.items()
    }
    kept: list[str] = []
    for key, lines in split_keys(matter):
        if key in new:
            lines, new[key] = new[key], ""  # a key that is there twice goes the second time
        kept.append(lines)
    return "".join((*kept, *new.values()))


def split_keys(matter: str) -> Iterator[tuple[str | None, str]]:
    """Yield the lines of each key at the margin; comments and blank lines between two keys have none.

    Whoever writes keys in another form gets the whole front matter written again.
    """
    key, lines, between = None, "", ""
    for line in matter.split("\n"):
        if not line.strip(" \t\r") or line.lstrip(" \t").startswith("#"):
            between += f"{line}\n"
        elif line[0] in " \t-":
            lines, between = f"{lines}{between}{line}\n", ""
        else:
            yield key, lines
            yield None, between
            key, lines, between = line.partition(":")[0].strip(" \"'"), f"{line}\n", ""
    yield key, lines
    yield None, between.removesuffix("\n")  # after the last line


def _merge_fields(fields: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**fields, **changes}.items() if value is not None}


def _read_typed_fields(matter: str) -> dict[str, Any]:
    """Return the fields with the types that other YAML readers see, so that rewriting keeps them."""
    try:
        fields = read_yaml(matter, last_wins=True)
    except ParseError:
        fields = read_yaml(matter, plain_text=True, last_wins=True)  # `read` has no problem with it
    return fields if isinstance(fields, dict) else {}


def _dump_yaml(fields: Mapping[str, Any]) -> str:
    if not fields:
        return ""
    plain = yaml.safe_dump(dict(fields), sort_keys=False, allow_unicode=True, width=float("inf"))
    if not any(mark in plain for mark in "\x85\u2028\u2029"):
        return plain
    return yaml.safe_dump(dict(fields), sort_keys=False, width=float("inf"))  # escaped: YAML takes them for line ends


def _describe_error(error: ParseError) -> str:
    """Return the message of the parser with the line of the file, whose first line is the fence."""
    return f"{error.reason.removeprefix('not YAML: ')}{f' (line {error.line + 1})' if error.line else ''}"


# -- what may be written -----------------------------------------------------------------------------------------------

# Every check comes before anything is written, and its error names the part that is wrong.

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
