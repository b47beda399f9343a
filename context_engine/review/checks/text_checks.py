"""Checks of one version of a file for which a query is not enough, and the characters that hide in a text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from context_engine.model import Finding
from context_engine.review.checks.check import at_capture, check, on_line

if TYPE_CHECKING:
    from context_engine.review.source_versions import FileVersion

# -- conflicts and hidden characters, for reviews and for validation ---------------------------------------------------

BIDI_OPENERS = frozenset("\u202a\u202b\u202d\u202e\u2066\u2067\u2068")
BIDI_CLOSERS = frozenset("\u202c\u2069")
"""Embeddings and isolates, and their ends: a line that leaves one open is shown in another order (CVE-2021-42574)."""

_HIDDEN = re.compile(
    "[\u202a-\u202e\u2066-\u2069\u200b\u2060\u2062-\u2064\u00ad\ufeff\x00-\x08\x0e-\x1a\x1c-\x1f\x7f\ufffd]"
)
_MARKER = re.compile(r"(?:<{7} \S|\|{7} |={7}\r?$|>{7} \S)")


class HiddenCharacter(NamedTuple):
    """A character that readers do not see.

    `is_bidi`: it turns the direction of text; `is_open`: nothing on its line ends it.
    """

    character: str
    line: int
    column: int
    is_bidi: bool
    is_open: bool

    @property
    def is_opener(self) -> bool:
        """Whether it begins to change the direction of text."""
        return self.character in BIDI_OPENERS

    @property
    def name(self) -> str:
        """The code point and its Unicode name."""
        return f"U+{ord(self.character):04X} {unicodedata.name(self.character, 'a control character').lower()}"


def find_hidden_characters(lines: Sequence[str]) -> Iterator[HiddenCharacter]:
    """Yield the hidden characters of a text in their order; a byte order mark at its beginning is fine."""
    for number, line in enumerate(lines, 1):
        if not _HIDDEN.search(line):
            continue
        text = line.removeprefix("\ufeff") if number == 1 else line
        openers = sum(character in BIDI_OPENERS for character in text)
        is_open = openers > sum(character in BIDI_CLOSERS for character in text)
        for found in _HIDDEN.finditer(text):
            character = found.group()
            is_bidi = character in BIDI_OPENERS or character in BIDI_CLOSERS
            yield HiddenCharacter(character, number, found.start() + 1, is_bidi, is_open)


def find_conflicts(lines: Sequence[str]) -> Iterator[list[int]]:
    """Yield the lines of the markers of each conflict: all of them, in the order in which git writes them."""
    markers = [(number, line[0]) for number, line in enumerate(lines, 1) if _MARKER.match(line)]
    kinds = "".join(kind for _, kind in markers)
    for found in re.finditer(r"<\|?=>", kinds):
        yield [number for number, _ in markers[found.start() : found.end()]]


@check("conflict-marker")
def conflict_marker(source: FileVersion) -> Iterator[Finding]:
    """Report the lines that git writes around the two sides of a conflict, in their order."""
    for conflict in find_conflicts(source.lines):
        yield from map(on_line, conflict)


@check("hidden-character")
def hidden_character(source: FileVersion) -> Iterator[Finding]:
    """Report characters that change the direction of text, in code; translations need them."""
    reported = 0
    for hidden in find_hidden_characters(source.lines):
        if hidden.is_bidi and hidden.line > reported:
            code = f"U+{ord(hidden.character):04X}"
            yield on_line(hidden.line, f"{code} changes the direction of the text: the code does not run as it reads.")
            reported = hidden.line


# -- secrets -----------------------------------------------------------------------------------------------------------

SAMPLE_CONFIDENCE = 0.5
"""In tests, docs and examples most apparent passwords are made up."""
UNSIGNED = frozenset({
    *("assigned-secret", "password", "secret", "random-value", "token", "jwt", "encrypted-token", "session-cookie"),
    *("password-in-address", "secret-in-address", "basic-authorization", "token-authorization", "curl-password"),
    *("connection-password", "private-key", "putty-private-key"),
})  # fmt: skip
"""Kinds without the prefix of a provider: a made-up one looks the same."""
_SAMPLE = re.compile(r"(?:^|/)(?:tests?|specs?|__tests__|docs?|examples?|fixtures?|samples?)(?:/|$)|[._]test\.")


@check("secret")
def secret(source: FileVersion) -> Iterator[Finding]:
    """Report what the rules for secrets find; what only looks like a secret has less confidence."""
    is_sample = bool(_SAMPLE.search(source.path))
    for detected in source.secrets:
        is_unsure = is_sample and detected.rule in UNSIGNED
        yield on_line(
            detected.line,
            f"{detected.title}: once pushed it is known. Revoke it; read it from the environment or a secret store.",
            title=f"{detected.title} in the file",
            priority=0 if detected.tier == "strict" else 1,
            confidence=SAMPLE_CONFIDENCE if is_unsure else detected.confidence,
        )


# -- Python ------------------------------------------------------------------------------------------------------------

_DEFAULTS = """
(function_definition
  parameters: (parameters [
    (default_parameter name: (identifier) @name value: [(list) (dictionary) (set)] @value)
    (typed_default_parameter name: (identifier) @name value: [(list) (dictionary) (set)] @value)
    (default_parameter name: (identifier) @name
      value: (call function: (identifier) @_made arguments: (argument_list)) @value)
    (typed_default_parameter name: (identifier) @name
      value: (call function: (identifier) @_made arguments: (argument_list)) @value)
  ])
  body: (block) @body
  (#any-of? @_made "list" "dict" "set" "defaultdict" "deque"))
"""
_CHANGES = (
    r"\b{name}(?:\.(?:append|extend|insert|add|update|pop|popitem|remove|discard|clear|sort|reverse|setdefault)\("
    r"|\[[^\]\n]*\]\s*[-+*/|&]?=(?!=)|\s*[-+|&]=)|(?m:^\s*return {name}\s*$)|self\.\w+ = {name}\b"
)


@check("mutable-default")
def mutable_default(source: FileVersion) -> Iterator[Finding]:
    """Report a list, dict or set as a default that the function changes or returns; one that is only read is fine."""
    for found in source.matches(_DEFAULTS):
        if re.search(_CHANGES.format(name=re.escape(found["name"].text)), found["body"].text):
            yield at_capture(found["value"])


@check("sql-built")
def sql_built(source: FileVersion) -> Iterator[Finding]:
    """Report `execute` of a statement that contains a value where a parameter could be."""
    query = (
        "(call function: (attribute attribute: (identifier) @_name) arguments: (argument_list . (_) @text)"
        ' (#any-of? @_name "execute" "executemany" "executescript")) @it'
    )
    for found in source.matches(query):
        if _is_built_sql(found["text"].text):
            yield at_capture(found["it"])


def _is_built_sql(text: str) -> bool:
    """Whether a statement has a placeholder after a comparison, or is joined from parts.

    >>> _is_built_sql('f"SELECT a FROM b WHERE c = {d}"'), _is_built_sql('f"SELECT a FROM {table}"')
    (True, False)
    """
    if not re.search(
        r"(?i)['\"]\s*(?:select\b.*\bfrom|insert\s+into|update\b.*\bset|delete\s+from)\b", text, re.DOTALL
    ):
        return False
    if re.match(r"[rR]?[fF][rR]?['\"]", text):
        return bool(re.search(r"(?i)(?:=|<|>|\blike\b|\bin\b|values\s*\()\s*\(?\s*['\"]?%?\{(?!(?-i:[A-Z_]+)\})", text))
    return bool(re.search(r"['\"]\s*(?:%\s*[\w(]|\+\s*\w)|['\"]\.format\(", text))


# -- deployment --------------------------------------------------------------------------------------------------------


@check("image-unpinned")
def image_unpinned(source: FileVersion) -> Iterator[Finding]:
    """Report `FROM image` with no tag, or `latest`."""
    stages = {"scratch"}
    for number, line in enumerate(source.lines, 1):
        found = re.match(r"(?i)\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", line)
        if found:
            if found[1].lower() not in stages and not re.search(r"[$@]|:(?!latest$)[^/]+$", found[1]):
                yield on_line(number)
            stages.add((found[2] or "").lower())


_STRANGE = re.compile(
    r"\$\{\{[^}]{0,300}?github\.(?:head_ref|event\.(?:issue|pull_request|comment|review|discussion)"
    r"\.(?:title|body|head\.(?:ref|label)))"
)


@check("workflow-injection")
def workflow_injection(source: FileVersion) -> Iterator[Finding]:
    """Report `run` with an expression that strangers write."""
    script_indent = -1
    for number, line in enumerate(source.lines, 1):
        indent = len(line) - len(line.lstrip(" -"))
        if line.strip() and indent <= script_indent:
            script_indent = -1
        if found := re.match(r"(\s*-?\s*)run:", line):
            script_indent = len(found[1])
        if script_indent >= 0 and _STRANGE.search(line):
            yield on_line(number)


@check("migration-one-way")
def migration_one_way(source: FileVersion) -> Iterator[Finding]:
    """Report Alembic's empty `downgrade`, Django's `RunPython` without a reverse."""
    if re.search(r"(?:^|/)migrations/", source.path):
        query = (
            "(call function: (attribute) @_name arguments: (argument_list . (_) .)"
            ' (#any-of? @_name "migrations.RunPython" "migrations.RunSQL")) @it'
        )
        yield from (at_capture(found["it"]) for found in source.matches(query))
        return
    functions = source.matches("(module (function_definition name: (identifier) @name body: (block) @body) @it)")
    by_name = {found["name"].text: found for found in functions}
    up, down = by_name.get("upgrade"), by_name.get("downgrade")
    if up and down and _does_something(up["body"].text) and not _does_something(down["body"].text):
        yield on_line(down["it"].first)


def _does_something(body: str) -> bool:
    """Whether a function has a statement other than `pass`, a docstring or a comment."""
    plain = re.sub(r'"""[\s\S]*?"""|#.*', "", body)
    return any(line.strip() not in ("", "pass", "...") for line in plain.split("\n"))
