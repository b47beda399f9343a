"""Checks of one file: of its new text alone, and of its two versions."""

from __future__ import annotations

import ast
import builtins
import posixpath
import re
import symtable
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from context_engine.review.checks.check import at_capture, check, on_line

if TYPE_CHECKING:
    from context_engine.languages import Capture
    from context_engine.model import Finding
    from context_engine.review.source_versions import FileVersion, ReviewedFile

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

    `is_bidi`: it turns the direction of text, `is_opener` from here on; `is_open`: nothing on its line ends it.
    """

    character: str
    line: int
    column: int
    is_bidi: bool
    is_opener: bool
    is_open: bool

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
            character, is_opener = found.group(), found.group() in BIDI_OPENERS
            is_bidi = is_opener or character in BIDI_CLOSERS
            yield HiddenCharacter(character, number, found.start() + 1, is_bidi, is_opener, is_open)


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
    found = [hidden for hidden in find_hidden_characters(source.lines) if hidden.is_bidi]
    first_of_line = {hidden.line: hidden for hidden in reversed(found)}
    for line, hidden in sorted(first_of_line.items()):
        code = f"U+{ord(hidden.character):04X}"
        yield on_line(line, f"{code} changes the direction of the text: the code does not run as it reads.")


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


# -- Python, and deployment --------------------------------------------------------------------------------------------

_CHANGES = (
    r"\b{name}(?:\.(?:append|extend|insert|add|update|pop|popitem|remove|discard|clear|sort|reverse|setdefault)\("
    r"|\[[^\]\n]*\]\s*[-+*/|&]?=(?!=)|\s*[-+|&]=)|(?m:^\s*return {name}\s*$)|self\.\w+ = {name}\b"
)


@check("mutable-default")
def mutable_default(source: FileVersion) -> Iterator[Finding]:
    """Report a list, dict or set as a default that the function changes or returns; one that is only read is fine."""
    for found in mutable_default.matches(source):
        if re.search(_CHANGES.format(name=re.escape(found["name"].text)), found["body"].text):
            yield at_capture(found["value"])


@check("sql-built")
def sql_built(source: FileVersion) -> Iterator[Finding]:
    """Report `execute` of a statement that contains a value where a parameter could be."""
    for found in sql_built.matches(source):
        if _is_built_sql(found["text"].text):
            yield at_capture(found["it"])


def _is_built_sql(text: str) -> bool:
    """Whether a statement has a placeholder after a comparison, or is joined from parts.

    >>> _is_built_sql('f"SELECT a FROM b WHERE c = {d}"'), _is_built_sql('f"SELECT a FROM {table}"')
    (True, False)
    """
    statement = r"(?is)['\"]\s*(?:select\b.*\bfrom|insert\s+into|update\b.*\bset|delete\s+from)\b"
    if not re.search(statement, text):
        return False
    if re.match(r"[rR]?[fF][rR]?['\"]", text):
        return bool(re.search(r"(?i)(?:=|<|>|\blike\b|\bin\b|values\s*\()\s*\(?\s*['\"]?%?\{(?!(?-i:[A-Z_]+)\})", text))
    return bool(re.search(r"['\"]\s*(?:%\s*[\w(]|\+\s*\w)|['\"]\.format\(", text))


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
        yield from (at_capture(found["it"]) for found in source.matches(migration_one_way.queries["django"]))
        return
    by_name = {found["name"].text: found for found in source.matches(migration_one_way.queries["alembic"])}
    up, down = by_name.get("upgrade"), by_name.get("downgrade")
    if up and down and _does_something(up["body"].text) and not _does_something(down["body"].text):
        yield on_line(down["it"].first)


def _does_something(body: str) -> bool:
    plain = re.sub(r'"""[\s\S]*?"""|#.*', "", body)
    return any(line.strip() not in ("", "pass", "...") for line in plain.split("\n"))


# -- metadata ----------------------------------------------------------------------------------------------------------

LARGE_BYTES = 1_000_000
"""A binary of a megabyte stays in every clone forever."""


@check("path-escape")
def path_escape(file: ReviewedFile) -> Iterator[Finding]:
    """Report `../x`, `/etc/x`, `.git/x` as the path of a changed file."""
    for path in (file.path, file.old_path):
        parts = path.replace("\\", "/").lower().split("/")
        if {"..", ".git"} & {*parts} or re.match(r"/|[A-Za-z]:", path):
            body = "to apply this change is to write outside of the work tree, or into git's own folder."
            yield on_line(1, f"{path!r}: {body}")
            return


@check("symlink-escape")
def symlink_escape(file: ReviewedFile) -> Iterator[Finding]:
    """Report a new or changed symbolic link to an absolute path, or above the top folder."""
    if file.diff.new_mode != "120000" or not file.diff.added_lines:
        return
    target = file.diff.added_lines[0].text.strip()
    led_to = posixpath.normpath(posixpath.join(posixpath.dirname(file.path), target))
    if re.match(r"/|[A-Za-z]:", target) or led_to.startswith(".."):
        yield on_line(1, f"It points at {target!r}: another file on every machine, and perhaps a private one.")


@check("executable-text")
def executable_text(file: ReviewedFile) -> Iterator[Finding]:
    """Report the executable bit on a text without an interpreter."""
    new = file.new
    if file.diff.new_mode != "100755" or file.diff.old_mode == "100755" or new is None or new.is_binary:
        return
    if new.data and not new.text.startswith("#!") and not file.path.endswith((".bat", ".cmd", ".ps1", ".exe")):
        yield on_line(1)


@check("large-binary")
def large_binary(file: ReviewedFile) -> Iterator[Finding]:
    """Report a new binary above a megabyte, or one that grew above it."""
    before = len(file.old.data) if file.old else 0
    if file.new and file.new.is_binary and len(file.new.data) > LARGE_BYTES >= before and not file.diff.is_lfs:
        megabytes = len(file.new.data) / 1_000_000
        yield on_line(1, f"{megabytes:.1f} MB that stay in every clone forever; Git LFS or a release asset does not.")


# -- syntax ------------------------------------------------------------------------------------------------------------


@check("syntax-error")
def syntax_error(file: ReviewedFile) -> Iterator[Finding]:
    """Report the first error of a file that had none, if it is certain, or the change of the file is what brings it.

    A program that had errors is in a dialect unknown to the parser.
    """
    new, old = file.new, file.old
    if new is None or new.language is None or (old and old.errors):
        return
    is_caused = old is not None and "changes" in new.language.trusted_errors
    for error in [error for error in new.errors if is_caused or error.confidence == 1][:1]:
        near = min(file.added, key=lambda added: abs(added - error.line), default=error.line)
        yield on_line(near, f"It can no longer be read: line {error.line}: {error.title}.")


# -- definitions -------------------------------------------------------------------------------------------------------


@check("duplicate-definition")
def duplicate_definition(file: ReviewedFile) -> Iterator[Finding]:
    """Report functions, methods or classes with the name of another one in the same block, on the added one."""
    if file.new is None:
        return
    now = _find_doubles(file.new)
    before = {key[1:] for key in _find_doubles(file.old)} if now and file.old else set()
    for key, found in now.items():
        name, added = key[2], [definition.first for definition in found if definition.first in file.added]
        between = "\n".join(file.new.lines[found[0].last : found[-1].first - 1])
        is_rebound = re.search(rf"\b{re.escape(name)}\b(?!\s*\(self)", between)  # then both definitions count
        if added and key[1:] not in before and not is_rebound:
            others = ", ".join(str(one.first) for one in found if one.first != added[-1])
            yield on_line(added[-1], f"{name} is defined on line {others}, too: the last one replaces the others.")


def _find_doubles(source: FileVersion) -> Mapping[tuple[int, str, str], list[Capture]]:
    """Return what is defined twice by block, kind (a getter is not a setter) and name."""
    by_place: dict[tuple[int, str, str], list[Capture]] = {}
    for found in duplicate_definition.matches(source):
        definition, name = found["it"], found["name"].text
        how = definition.text.partition(name)[0] if definition.kind == "method_definition" else ""
        if name != "_":
            key = (found["block"].start, definition.kind + " ".join(how.split()), name)
            by_place.setdefault(key, []).append(definition)
    return {key: found for key, found in by_place.items() if len(found) > 1}


UNDEFINED_MAX = 5
DYNAMIC = re.compile(r"\bimport \*|\bglobals\(\)|\bexec\(|\bNameError\b")
"""A file with one of these may define names in other ways."""
KNOWN_NAMES = frozenset(
    {*dir(builtins), "__file__", "__path__", "__annotations__", "__builtins__", "WindowsError", "reveal_type"}
    | {*"basestring unicode unichr long xrange raw_input reduce file cmp reload".split()}
)
"""Names that need no definition; code for both versions of Python uses those of Python 2 behind a test."""


@check("undefined-name")
def undefined_name(file: ReviewedFile) -> Iterator[Finding]:
    """Report new uses of names, and old uses whose definition went, that no scope of Python around them defines.

    Compilers report them in other languages; there the names of removed imports were wrong in 12 of 12 cases.
    """
    known = find_undefined_names(file.old) if file.old else {}
    uses = find_undefined_names(file.new).items() if file.new else ()
    for name, lines in [use for use in uses if use[0] not in known][:UNDEFINED_MAX]:
        line = min(lines, key=lambda line: (line not in file.added, line))
        yield on_line(
            line, f"`{name}` is not defined in this file, nor is it a builtin. Using it fails with a NameError."
        )


def find_undefined_names(source: FileVersion) -> Mapping[str, Sequence[int]]:
    """Return the names that a file of Python uses and no scope around them defines, with the lines that use them."""
    uses: dict[str, list[int]] = {}
    if source.python is not None and not DYNAMIC.search(source.text) and (missing := _find_undefined(source)):
        for node in ast.walk(source.python):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in missing:
                uses.setdefault(node.id, []).append(node.lineno)
    return uses


def _find_undefined(source: FileVersion) -> frozenset[str]:
    """Return the names that a file of Python uses and no scope of it defines; none where it cannot be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = symtable.symtable(source.text, source.path, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    defined, used = {*KNOWN_NAMES}, set()
    pending = [module]
    while pending:
        scope = pending.pop()
        pending += scope.get_children()
        for symbol in scope.get_symbols():
            is_bound = symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
            if is_bound and (scope is module or symbol.is_declared_global()):
                defined.add(symbol.get_name())
            elif symbol.is_referenced() and (symbol.is_global() or scope is module):
                used.add(symbol.get_name())
    return frozenset(name for name in used - defined if not name.startswith("__"))
