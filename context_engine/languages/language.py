"""Define a language (its files, grammar, comment marks and queries) and the ordered list of all known languages.

Each language is one TOML file next to this module; users can add such files to a folder of their own.

>>> languages = Languages.builtin()
>>> languages.detect("src/app.py").name, languages.detect("run", b"#!/usr/bin/env python3").name
('python', 'python')
>>> languages.detect("photo.xyz") is None
True
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from importlib import resources
from typing import Any, Literal, get_args

from context_engine.errors import InvalidArgument
from context_engine.languages.outline_types import SYMBOL_KINDS
from context_engine.languages.resolution_rules import ResolutionRules
from context_engine.storage import ConfinedFolder, UnsafePathError
from context_engine.text import ParseError, compile_linear, load_re2, read_toml

Content = Literal["code", "documentation", "data"]

OWN_FOLDER = ".context-engine/languages"
"""The folder of a workspace for its own language files."""
DETECTED_BYTES_MAX = 65_536
"""How much of a file decides its language where several languages use the suffix."""
SHEBANG_BYTES_MAX = 200
OWN_FILES_MAX = 200
OWN_BYTES_MAX = 200_000
"""The built-in ones are fewer, and shorter than a quarter of that."""

ORDER = (
    "python javascript typescript tsx go rust java objc php cpp c csharp ruby kotlin swift scala elixir haskell lua "
    "bash zig matlab markdown rst json yaml toml sql html css scss dockerfile makefile vue svelte dart "
    "r julia perl ocaml protobuf graphql hcl cmake powershell erlang clojure nix asciidoc text xml ini"
).split()
"""The built-in languages in order: where two have the same suffix or claim the same text, the first has it."""

SHEBANG = re.compile(rb"#!\s*(?:\S*/)?([\w.+-]+)(?:[ \t]+(?:-\S+[ \t]+)*([\w.+-]+))?")
EXAMPLES = re.compile(r"^\[\[examples\]\]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Comments:
    """The marks of comments: `line` prefixes, `block` pairs; `docstring` matches a doc text inside a body."""

    line: tuple[str, ...] = ()
    block: tuple[tuple[str, str], ...] = ()
    docstring: str = ""


@dataclass(frozen=True, slots=True)
class Imports:
    """How an import becomes a file: `style` names a resolver of `import_resolution.py`, which uses the other fields.

    `index` files represent their folder; `roots` are source folders; `shortens`: folders need not mirror the first
    components of a path (PSR-4, Kotlin's common package).
    """

    style: str = ""
    separator: str = "."
    suffixes: tuple[str, ...] = ()
    index: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    shortens: bool = False


@dataclass(frozen=True, slots=True)
class NameRules:
    """The role of an identifier by its place in a tree, as `parent.field` or `parent`; see `name_occurrences.py`.

    `reads` use the meaning of the name, `binds` define it for the whole scope, `members` are looked up in another
    object (`?field`: only if the parent has that field), `labels` name a part of something, `imports` take the name
    from another file. Nodes of `through` have the role of their parent. Arguments of `macros` are expressions.

    A definition applies in one of `scopes`. The heads of `headed` scopes see the names outside. Names bound in `types`
    are visible directly inside only. Functions directly inside `holders` are members.
    """

    reads: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    through: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    headed: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    macros: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Language:
    """One language. `grammar` is None without a parser; `scanner` names a line scanner that replaces it.

    `definitions` and `references` are tree-sitter queries; `depth_max` is how deep below the root they may start;
    `upper_is_constant` makes UPPER_CASE variables and fields constants; `joins_clauses` makes neighbors of one name
    one definition; `declarator` reads name and owner out of a whole declarator, as C writes them; `keywords` give the
    kind of a definition that only its keyword gives; `blanks` are patterns whose first group is read as blank (macros
    that a parser cannot read); `only_inside` are [open, close] patterns of the parts to read (a `<script>` in HTML).
    `claims` maps a suffix that several languages use to a pattern of the files that are in this one.
    See docs/guides/adding-a-language.md.
    """

    name: str
    content: Content = "code"
    grammar: str | None = None
    scanner: str | None = None
    suffixes: tuple[str, ...] = ()
    filenames: tuple[str, ...] = ()
    interpreters: tuple[str, ...] = ()
    claims: tuple[tuple[str, str], ...] = ()
    comments: Comments = field(default_factory=Comments)
    imports: Imports = field(default_factory=Imports)
    names: NameRules = field(default_factory=NameRules)
    resolution: ResolutionRules = field(default_factory=ResolutionRules)
    definitions: str = ""
    references: str = ""
    depth_max: int | None = None
    upper_is_constant: bool = False
    joins_clauses: bool = False
    only_inside: tuple[tuple[str, str], ...] = ()
    blanks: tuple[str, ...] = ()
    declarator: str = ""
    keywords: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Languages:
    """An ordered, explicit list of languages and the look-ups that find a file's own."""

    listed: tuple[Language, ...]
    _names: Mapping[str, Language] = field(init=False, repr=False, compare=False)
    _filenames: Mapping[str, Language] = field(init=False, repr=False, compare=False)
    _suffixes: Mapping[str, Language] = field(init=False, repr=False, compare=False)
    _interpreters: Mapping[str, Language] = field(init=False, repr=False, compare=False)
    _claims: Mapping[str, tuple[tuple[str, Language], ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Build the look-ups; where two languages claim the same key, the first has it."""
        listed = self.listed
        lookups = {
            "_names": _first_wins((language.name, language) for language in listed),
            "_filenames": _first_wins((name.lower(), language) for language in listed for name in language.filenames),
            "_suffixes": _first_wins((suffix, language) for language in listed for suffix in language.suffixes),
            "_interpreters": _first_wins((name, language) for language in listed for name in language.interpreters),
            "_claims": _claims(listed),
        }
        for name, lookup in lookups.items():
            object.__setattr__(self, name, lookup)

    @classmethod
    def builtin(cls) -> Languages:
        """Return the built-in languages."""
        return _builtin()

    def with_folder(self, folder: ConfinedFolder, *, is_users: bool = False) -> Languages:
        """Return these and those of a folder (`*.toml`), which come first and so replace ours.

        The files of a repository have no queries but ours: tree-sitter cannot be stopped, and some take forever. Those
        of the user may have any (`is_users`). Raises: InvalidArgument naming file and field when one of the files is
        wrong.
        """
        try:
            own = tuple(read_language(text, str(folder.path / name), self._names) for name, text in _texts(folder))
        except (OSError, UnicodeDecodeError) as error:
            place = getattr(error, "filename", None) or folder.path
            raise InvalidArgument(
                f"the languages in {folder.path} cannot be read: {place}: {getattr(error, 'strerror', None) or error}",
                suggestion="Make it a file of its own in UTF-8, or remove it.",
            ) from error
        for language in () if is_users else own:
            _check_queries(language, str(folder.path / language.name))
        names = {language.name for language in own}
        return Languages(own + tuple(language for language in self.listed if language.name not in names))

    def file_endings(self) -> frozenset[str]:
        """Return what names of files end with after their last dot, in lower case: `py`, `tsx`, `cmake`."""
        return frozenset(suffix.rpartition(".")[2].lower() for suffix in self._suffixes)

    def get(self, name: str) -> Language | None:
        """Return the language of that name, if it is known."""
        return self._names.get(name)

    def __getitem__(self, name: str) -> Language:
        """Return the language of that name. Raises: InvalidArgument if it is unknown."""
        language = self._names.get(name)
        if language is None:
            known = ", ".join(sorted(self._names))
            raise InvalidArgument(f"no language {name!r}", suggestion=f"one of: {known}")
        return language

    def detect(self, path: str, data: bytes = b"") -> Language | None:
        """Return the language of a file by its name, its suffix and its `data`; None if it is unknown.

        Where several languages use a suffix, the text decides: the first 64 KB without comments. The files around it
        do not, so that a file has the same language wherever and whenever it is read. Headers whose text does not
        decide outline as C and as C++ alike.
        """
        name = path.rpartition("/")[2].lower()
        language = self._filenames.get(name)
        if language is not None:
            return language
        stem, dot, suffix = name.rpartition(".")
        if dot:
            language = self._by_suffix(stem, suffix, data)
            if language is not None:
                return language
            language = self._filenames.get(name.partition(".")[0] + ".*")
            if language is not None:
                return language
        if data.startswith(b"#!"):
            return self._by_shebang(data[:SHEBANG_BYTES_MAX])
        return None

    def _by_suffix(self, stem: str, suffix: str, data: bytes) -> Language | None:
        if "." in stem:
            language = self._suffixes.get(f".{stem.rpartition('.')[2]}.{suffix}")
            if language is not None:
                return language
        code: dict[Comments, bytes] = {}
        for pattern, claimant in self._claims.get("." + suffix, ()):
            if claimant.comments not in code:
                code[claimant.comments] = _drop_comments(claimant.comments, data[:DETECTED_BYTES_MAX])
            if compile_pattern(pattern, of_bytes=True).search(code[claimant.comments]):
                return claimant
        return self._suffixes.get("." + suffix)

    def _by_shebang(self, first_bytes: bytes) -> Language | None:
        match = SHEBANG.match(first_bytes.partition(b"\n")[0])
        if match is None:
            return None
        program, argument = (part.decode("ascii", "replace") if part else "" for part in match.groups())
        if program == "env":
            program = argument
        return self._interpreters.get(program) or self._interpreters.get(program.rstrip("0123456789."))


def _drop_comments(comments: Comments, data: bytes) -> bytes:
    """Return the text with a blank in place of each comment. A mark inside a string counts as one, too."""
    return _any_comment(comments).sub(b" ", data)


@lru_cache(maxsize=256)
def _any_comment(comments: Comments) -> re.Pattern[bytes]:
    """Match a comment. It takes linear time: a comment without an end goes to the end of the text."""
    marks = [rf"{re.escape(opening)}.*?(?:{re.escape(closing)}|\Z)" for opening, closing in comments.block]
    marks += [rf"{re.escape(mark)}[^\n]*" for mark in comments.line]
    return re.compile("|".join(marks or ["(?!)"]).encode(), re.DOTALL)


def _check_queries(language: Language, file: str) -> None:
    """Refuse queries that are not from this package. Raises: InvalidArgument."""
    for label, query in (("outline.definitions", language.definitions), ("outline.references", language.references)):
        if query and query not in _our_queries():
            raise InvalidArgument(
                f"{file}: {label} is a query of a repository, and those are not run",
                suggestion="Take the query from a built-in language (based_on), or move the file to the folder "
                "`languages` of your own settings (docs/guides/adding-a-language.md).",
                details={"file": file, "field": label},
            )


@lru_cache(maxsize=1)
def _our_queries() -> frozenset[str]:
    return frozenset(query for language in _builtin().listed for query in (language.definitions, language.references))


def _first_wins(pairs: Iterable[tuple[str, Language]]) -> dict[str, Language]:
    lookup: dict[str, Language] = {}
    for key, language in pairs:
        lookup.setdefault(key, language)
    return lookup


def _claims(listed: Iterable[Language]) -> dict[str, tuple[tuple[str, Language], ...]]:
    claims: dict[str, tuple[tuple[str, Language], ...]] = {}
    for language in listed:
        for suffix, pattern in language.claims:
            claims[suffix] = (*claims.get(suffix, ()), (pattern, language))
    return claims


@lru_cache(maxsize=1)
def _builtin() -> Languages:
    return Languages(_our_languages())


@lru_cache(maxsize=1)
def _our_languages() -> tuple[Language, ...]:
    """Return every language of this package, in the order of detection."""
    folder = resources.files("context_engine.languages")
    known: dict[str, Language] = {}
    for name in ORDER:
        text = (folder / f"{name}.toml").read_text("utf-8")
        known[name] = read_language(text, f"{name}.toml", known, is_ours=True)
    return tuple(known.values())


def _texts(folder: ConfinedFolder) -> Iterator[tuple[str, str]]:
    """Yield the language files of a folder by name. Raises: OSError, UnicodeDecodeError."""
    try:
        with folder.scan() as found:
            names = sorted(entry.name for entry in found if entry.name.endswith(".toml"))
    except (FileNotFoundError, NotADirectoryError):
        return
    except UnsafePathError as error:
        if "/" not in str(error.filename):  # the state folder itself is a link: nothing in it is ours
            return
        raise
    if len(names) > OWN_FILES_MAX:
        raise UnsafePathError(errno.E2BIG, f"has more than {OWN_FILES_MAX} language files", str(folder.path))
    for name in names:
        yield name, folder.read_bytes(name, bytes_max=OWN_BYTES_MAX).decode("utf-8")


# -- patterns -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def compile_pattern(pattern: str, flags: str = "", *, of_bytes: bool = False) -> re.Pattern[Any]:
    """Compile a pattern of a language file: those of this package run in `re`, all others in RE2. Raises: ValueError.

    A repository may bring language files, and RE2 takes no longer than a text is long. `flags` are letters out of
    `ims`. Patterns `of_bytes` run in RE2 where it is installed, 40 times faster.
    """
    written = pattern.encode() if of_bytes else pattern
    if pattern not in _our_patterns() or (of_bytes and load_re2()):
        return compile_linear(written, flags)
    return re.compile(written, sum(re.RegexFlag[flag.upper()] for flag in flags))


@lru_cache(maxsize=1)
def _our_patterns() -> frozenset[str]:
    """Every pattern in the language files of this package."""
    ours = _our_languages()
    claims = (pattern for language in ours for _, pattern in language.claims)
    blanks = (pattern for language in ours for pattern in language.blanks)
    inside = (pattern for language in ours for pair in language.only_inside for pattern in pair)
    single = (pattern for language in ours for pattern in (language.comments.docstring, language.declarator))
    return frozenset((*claims, *blanks, *inside, *single))


# -- from TOML ----------------------------------------------------------------------------------------------------

NAME_PLACES = tuple(place.name for place in fields(NameRules))

SECTIONS: dict[str, dict[str, str]] = {
    "": {
        "name": "text",
        "content": "content",
        "grammar": "text",
        "scanner": "text",
        "suffixes": "texts",
        "filenames": "texts",
        "interpreters": "texts",
        "based_on": "text",
        "only_inside": "pattern pairs",
    },
    "claims": {},
    "keywords": {},
    "comments": {"line": "texts", "block": "pairs", "docstring": "pattern"},
    "imports": {
        "style": "text",
        "separator": "text",
        "suffixes": "texts",
        "index": "texts",
        "roots": "texts",
        "shortens": "flag",
    },
    "names": dict.fromkeys(NAME_PLACES, "texts"),
    "resolution": {
        "style": "text",
        "nodes": "text",
        "first_is_self": "flag",
        "lexical": "flag",
        "block_scopes": "flag",
        "assigned_members": "flag",
        "capitals_match": "flag",
        "declarators": "flag",
        "dollar_marks": "flag",
        "renames": "flag",
        **dict.fromkeys(("identifiers", "transparent", "common", "builtins", "selves", "symbol_definers"), "texts"),
    },
    "outline": {
        "definitions": "text",
        "references": "text",
        "depth_max": "number",
        "upper_is_constant": "flag",
        "joins_clauses": "flag",
        "declarator": "pattern",
        "blanks": "patterns",
    },
}
"""Every field a language file may have, and what it must be. `claims` maps a suffix to a pattern, `keywords` a word
to a kind."""


def read_language(
    text: str, file: str, known: Mapping[str, Language] | None = None, *, is_ours: bool = False
) -> Language:
    """Read a language from a TOML file; the examples in it are for the tests and are not read here.

    `known` are the languages that it may be `based_on`, from which missing fields are taken. `is_ours` means that the
    file is one of this package, whose patterns `re` may run.

    Raises: InvalidArgument naming file and field.
    """
    try:
        raw = _raw(text, is_ours=is_ours)
    except ParseError as error:
        raise InvalidArgument(f"{file} cannot be read: {error}", details={"file": file}) from None
    sections: dict[str, dict[str, Any]] = {name: {} for name in SECTIONS}
    for key, value in raw.items():
        if key in SECTIONS and isinstance(value, dict):
            sections[key] = value
        else:
            sections[""][key] = value
    checker = _Checker(file, is_ours)
    return _language({name: checker.section(name, values) for name, values in sections.items()}, file, known or {})


def _raw(text: str, *, is_ours: bool) -> dict[str, Any]:
    """Parse a language file without its examples. Raises: ParseError."""
    start = EXAMPLES.search(text)
    return read_toml(text[: start.start()] if start else text, is_ours=is_ours)


def _language(sections: Mapping[str, dict[str, Any]], file: str, known: Mapping[str, Language]) -> Language:
    top = sections[""]
    if not top.get("name"):
        raise _wrong(file, "name", "is missing")
    base_name = top.pop("based_on", None)
    base = known.get(base_name) if base_name is not None else Language(name="")
    if base is None:
        raise _wrong(file, "based_on", f"names no language: {base_name!r}")
    return replace(
        base,
        **{"suffixes": (), "filenames": (), "interpreters": (), **top},
        claims=tuple(sections["claims"].items()),
        keywords=tuple(sections["keywords"].items()) or base.keywords,
        comments=replace(base.comments, **sections["comments"]),
        imports=replace(base.imports, **sections["imports"]),
        names=replace(base.names, **sections["names"]),
        resolution=replace(base.resolution, **sections["resolution"]),
        **sections["outline"],
    )


@dataclass(frozen=True, slots=True)
class _Checker:
    """Checks the fields of one file. Raises: InvalidArgument, naming file and field."""

    file: str
    is_ours: bool

    def section(self, section: str, values: Mapping[str, Any]) -> dict[str, Any]:
        checked: dict[str, Any] = {}
        for key, value in values.items():
            label = f"{section}.{key}" if section else key
            shape = OPEN_SECTIONS.get(section) or SECTIONS[section].get(key)
            if shape is None:
                raise _wrong(self.file, label, "is not a field of a language file")
            checked[key] = self._check_shape(shape, value, label)
        return checked

    def _check_shape(self, shape: str, value: Any, label: str) -> Any:
        if shape == "texts" and isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        if shape == "patterns" and isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(self._pattern(item, label) for item in value)
        if shape in ("pairs", "pattern pairs") and isinstance(value, list) and all(map(_is_pair, value)):
            pairs = tuple(map(tuple, value))
            if shape == "pairs":
                return pairs
            return tuple((self._pattern(a, label), self._pattern(b, label)) for a, b in pairs)
        if shape == "content" and value in get_args(Content):
            return value
        if shape == "kind" and value in KEYWORD_KINDS:
            return value
        if shape == "number" and type(value) is int:
            return value
        if shape == "flag" and type(value) is bool:
            return value
        if shape in ("text", "pattern") and isinstance(value, str):
            return value if shape == "text" else self._pattern(value, label)
        raise _wrong(self.file, label, f"must be {WANTED[shape]}, not {repr(value)[:SHOWN_CHARS_MAX]}")

    def _pattern(self, value: str, label: str) -> str:
        try:
            if self.is_ours:
                re.compile(value)
            else:
                compile_pattern(value)
        except (re.error, ValueError) as error:
            raise _wrong(self.file, label, f"is not a regular expression that RE2 can run: {error}") from error
        return value


OPEN_SECTIONS = {"claims": "pattern", "keywords": "kind"}
SHOWN_CHARS_MAX = 80
KEYWORD_KINDS = (*SYMBOL_KINDS, "extends", "import")


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and [type(item) for item in value] == [str, str]


WANTED = {
    "kind": f"one of {', '.join(KEYWORD_KINDS)}",
    "text": "a string",
    "texts": "a list of strings",
    "pairs": "a list of [open, close] pairs",
    "pattern pairs": "a list of [open, close] pairs of regular expressions",
    "content": f"one of {', '.join(get_args(Content))}",
    "number": "a whole number",
    "flag": "true or false",
    "pattern": "a regular expression",
    "patterns": "a list of regular expressions",
}


def _wrong(file: str, label: str, what: str) -> InvalidArgument:
    return InvalidArgument(
        f"{file}: {label} {what}",
        suggestion="see docs/guides/adding-a-language.md",
        details={"file": file, "field": label},
    )
