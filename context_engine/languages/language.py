"""Define a language (its files, grammar, comment marks and queries) and the ordered list of all known languages.

Each language is one TOML file next to this module; users can add such files to a folder of their own.

>>> languages = Languages.builtin()
>>> languages.detect("src/app.py").name, languages.detect("run", b"#!/usr/bin/env python3").name
('python', 'python')
>>> languages.detect("photo.xyz") is None
True
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from context_engine.errors import InvalidArgument
from context_engine.languages.outline_types import SymbolKind
from context_engine.storage import ConfinedFolder, UnsafePathError, prepare_type
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
    "bash zig matlab markdown rst json yaml toml sql html css scss dockerfile makefile vue svelte astro dart "
    "r julia perl ocaml protobuf graphql hcl cmake powershell erlang clojure nix asciidoc text xml ini notebook"
).split()
"""The built-in languages in order: where two have the same suffix or claim the same text, the first has it."""

SHEBANG = re.compile(rb"#!\s*(?:\S*/)?([\w.+-]+)(?:[ \t]+(?:-\S+[ \t]+)*([\w.+-]+))?")
EXAMPLES = re.compile(r"^\[\[examples\]\]", re.MULTILINE)


class Comments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The marks of comments: `line` prefixes, `block` pairs; `docstring` matches a doc text inside a body."""

    line: tuple[str, ...] = ()
    block: tuple[tuple[str, str], ...] = ()
    docstring: str = ""


class Imports(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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


class RenameRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How `rename_symbol` treats the definitions of a language; without `follows` none of its names is certain.

    With `strict` a place about which nothing is known may mean any definition of the name. With `packaged` the files of
    a folder see one another without an import; `together` are other languages that use the definitions of this one,
    `accessors` those where its `accessor` kind (function or property) has another name. With `named_files` a file is
    called as its class; `object_members` in no class may be read by anything. Something else uses functions that are
    `reserved`, definitions with `modifiers` ([word, reason]), those below a `decorator` (a pattern), and `examples`, a
    prefix of functions that show a definition; `outside` says what a member may be that overrides nothing here.

    `called_strings` are patterns [before, after] of strings that name a function, `member_strings` those that name a
    member; after a pattern of `called_comments` a comment names a function, after `type_comments` a type. `label` is
    the kind of node that a shorthand has as a label.

    An import may mean files of `module_suffixes` by one name, but for the `fixed_modules`, which programs look for.
    With `dotted_modules` it names a module, and binds its name; without, the path of a file.
    """

    follows: bool = False
    strict: bool = False
    packaged: bool = False
    together: tuple[str, ...] = ()
    accessors: tuple[str, ...] = ()
    accessor: Literal["function", "property", ""] = ""
    named_files: bool = False
    object_members: bool = False
    reserved: tuple[str, ...] = ()
    modifiers: tuple[tuple[str, str], ...] = ()
    decorator: str = ""
    examples: str = ""
    outside: str = "it may override a member of a base that is not in the workspace"
    called_strings: tuple[tuple[str, str], ...] = ()
    member_strings: tuple[tuple[str, str], ...] = ()
    called_comments: str = ""
    type_comments: str = ""
    label: str = "field_identifier"
    module_suffixes: tuple[str, ...] = ()
    fixed_modules: tuple[str, ...] = ()
    dotted_modules: bool = False


class ResolutionRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rules of one language; without a `style` its names are matched by name only.

    `style` names how its files see one another. `identifiers` are the types of leaf nodes that name something. A
    `transparent` generic type has the value of its argument. `common` are members of built-in types and `builtins`
    names that need no binding. `selves` are the names of the object a method belongs to; `first_is_self` means that it
    is the first parameter. With `capitals_match` a capital name in a pattern is compared, not bound. In `lexical`
    classes members are found without an object. With `declarators` names are bound as in C. Calls of `symbol_definers`
    define the symbols that they get. With `block_scopes` a variable holds in the block around it; with
    `assigned_members` `thing.name = value` makes a member. With `dollar_marks` the dollar sign of `$name` is not part
    of the name. With `open_heads` the head of a function does not see its parameters.

    A definition is `private` to the project if this pattern is found in its head with its name, or if it is at the top
    of its file and the pattern of what is `exported` is not. With `checked` it is an error if `calls` do not fit, or if
    nothing binds plain `names`. The first of the `constructors` takes the arguments of a class, if it has none of the
    others; with `overloads` several functions of one name differ in what they take; with `methods_of_types` a method
    that is looked up in its type takes the object as well; with `several_results` one call may be all arguments of
    another.

    `nodes` is a table. Each row has types of nodes with `|` between them, their role, and the fields of the role in
    order; `.` is the node's first named child, `$` the last, `-` for none, and `^field` is a field of the parent.
    `@type|type` is the first named child of one of these types, and `$type` the last one of a type.

    | role | fields | meaning |
    | --- | --- | --- |
    | `function` | name, return type, list of parameters (or `parameters`) | a definition, which is a scope |
    | `class` | name | a definition, which is a scope |
    | `bases` | children (a field, `.`, `@type` or `-`, else all) | has bases of the class, or others of its like |
    | `namespace` | name | as a class, but its names need no object inside of it |
    | `alias` | name, type | another name of a type, or a type of the members that are written there |
    | `object` | | a type that lists its members |
    | `outside` | | a method that is not inside of its type |
    | `extends` | type | a block that adds members to a type |
    | `scope` | | another node in which a name may have its own meaning |
    | `block` | | a list of statements: an assignment in it replaces earlier ones |
    | `variable`, `parameter` | name, type, value | a binding |
    | `rest` | `places` or `names` | a parameter that takes all further arguments by position, or by name |
    | `rest` | `start` or `-` | what is before it has no name for a caller, or what follows has to be named |
    | `marks` | | words before a parameter |
    | `unpacked` | | an argument that is several |
    | `loop`, `context` | name, value | binds an element of the value, or what entering it returns |
    | `pattern` | | takes a value apart |
    | `import` | | a statement that binds names of other files |
    | `member` | object, name | a name that is looked up in an object |
    | `call`, `new` | function or type, arguments | |
    | `index` | object | |
    | `through`, `cast` | field | the value of a part, or an instance of the type that is a part |
    | `either` | | the value of one of the parts |
    | `return` | | |
    | `generic` | name, arguments | a type with arguments |
    | `array` | element | |
    | `tuple`, `callable` | result | several types, and a type of functions |
    | `literal`, `record` | | a value of a built-in type, and an object that is written there |
    | `self`, `super` | | |
    | `super_call` | `super` | calls the constructor of the base |
    | `label` | | names a part of something |
    """

    style: str = ""
    nodes: str = ""
    identifiers: tuple[str, ...] = ()
    transparent: tuple[str, ...] = ()
    common: tuple[str, ...] = ()
    builtins: tuple[str, ...] = ()
    selves: tuple[str, ...] = ()
    first_is_self: bool = False
    lexical: bool = False
    block_scopes: bool = False
    assigned_members: bool = False
    capitals_match: bool = False
    declarators: bool = False
    symbol_definers: tuple[str, ...] = ()
    dollar_marks: bool = False
    open_heads: bool = False
    private: str = ""
    exported: str = ""
    checked: tuple[Literal["calls", "names"], ...] = ()
    constructors: tuple[str, ...] = ()
    overloads: bool = False
    methods_of_types: bool = False
    several_results: bool = False


class Outlining(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of `[outline]`."""

    definitions: str = ""
    references: str = ""
    depth_max: int | None = None
    upper_is_constant: bool = False
    joins_clauses: bool = False
    declarator: str = ""
    blanks: tuple[str, ...] = ()
    semicolons: str = ""
    opening: str = ""
    macros: tuple[tuple[str, int, SymbolKind], ...] = ()


class Language(Outlining, frozen=True, kw_only=True):
    """One language. `grammar` is None without a parser; `scanner` names a line scanner that replaces it.

    `definitions` and `references` are tree-sitter queries; `depth_max` is how deep below the root they may start;
    `upper_is_constant` makes UPPER_CASE variables and fields constants; `joins_clauses` makes neighbors of one name
    one definition; `declarator` reads name and owner out of a whole declarator, as C writes them; `keywords` give the
    kind of a definition that only its keyword gives; `blanks` are patterns whose first group is read as blank
    (macros that a parser cannot read), and `semicolons` one of blanks to be read as such; `opening` matches a file
    of which no part is read without what its first group begins with (`<?php`); `macros` are rows of a pattern of
    names, the number of the argument that names what such a call defines (or else the last one), and its kind.
    `only_inside` are [open, close] patterns of the parts to read (a `<script>` in HTML), of which a group of `open`
    is one, too; with [open, close, before, after] the bytes around a part are read as these.
    `claims` maps a suffix that several languages use to a pattern of the files that are in this one.
    `inline_tests` and `parsed_bytes_max`: see docs/guides/adding-a-language.md.

    `parser` names a parser of `review/content_parsers.py` that decides about syntax instead of the grammar. Of an error
    of the grammar is trusted (`trusted_errors`) all of it, brackets that do not close, or one that a change brings.
    Languages of one `family` have the nodes that a query for any of them names.
    """

    name: str = ""
    content: Content = "code"
    grammar: str | None = None
    scanner: str | None = None
    suffixes: tuple[str, ...] = ()
    filenames: tuple[str, ...] = ()
    interpreters: tuple[str, ...] = ()
    claims: tuple[tuple[str, str], ...] = ()
    comments: Comments = Comments()
    imports: Imports = Imports()
    resolution: ResolutionRules = ResolutionRules()
    renames: RenameRules = RenameRules()
    only_inside: tuple[tuple[str, ...], ...] = ()
    keywords: tuple[tuple[str, str], ...] = ()
    parsed_bytes_max: int = 600_000
    inline_tests: bool = False
    parser: Literal["", "python", "json", "toml", "yaml"] = ""
    trusted_errors: tuple[Literal["all", "brackets", "changes"], ...] = ()
    family: str = ""


class Languages:
    """An ordered, explicit list of languages and the look-ups that find a file's own."""

    def __init__(self, listed: tuple[Language, ...], unused: tuple[tuple[str, str], ...] = ()) -> None:
        """Build the look-ups; where two languages claim the same key, the first has it.

        `unused` says of each folder with files that are not used which these are, and what to do.
        """
        self.listed = listed
        self.unused = unused
        self._names: dict[str, Language] = {}
        self._filenames: dict[str, Language] = {}
        self._suffixes: dict[str, Language] = {}
        self._interpreters: dict[str, Language] = {}
        self._claims: dict[str, list[tuple[str, Language]]] = {}
        for language in listed:
            self._names.setdefault(language.name, language)
            for name in language.filenames:
                self._filenames.setdefault(name.lower(), language)
            for suffix in language.suffixes:
                self._suffixes.setdefault(suffix, language)
            for program in language.interpreters:
                self._interpreters.setdefault(program, language)
            for suffix, pattern in language.claims:
                self._claims.setdefault(suffix, []).append((pattern, language))

    @classmethod
    def builtin(cls) -> Languages:
        """Return the built-in languages."""
        return _builtin()

    def with_folder(self, folder: ConfinedFolder, *, is_users: bool = False) -> Languages:
        """Return these and those of a folder (`*.toml`), which come first and so replace ours.

        The files of a repository have no queries but ours: tree-sitter cannot be stopped, and some take forever. Those
        of the user may have any (`is_users`). Only plain files are used: a link or a pipe must not stop the use of a
        repository.

        Raises: InvalidArgument naming file and field when one of the files is wrong.
        """
        try:
            texts, unused = _read_texts(folder)
            own = tuple(read_language(text, str(folder.path / name), self._names) for name, text in texts.items())
        except (OSError, UnicodeDecodeError) as error:
            place = getattr(error, "filename", None) or folder.path
            raise InvalidArgument(
                f"the languages in {folder.path} cannot be read: {place}: {getattr(error, 'strerror', None) or error}",
                suggestion="Make it a file of its own in UTF-8, or remove it.",
            ) from error
        for language in () if is_users else own:
            _check_queries(language, str(folder.path / language.name))
        names = {language.name for language in own}
        listed = own + tuple(language for language in self.listed if language.name not in names)
        if len(unused) > UNUSED_SHOWN_MAX:
            unused[UNUSED_SHOWN_MAX:] = [f"and {len(unused) - UNUSED_SHOWN_MAX} more"]
        note = f"{folder.path}: {'; '.join(unused)}: not used", "Make it a plain file that ends in .toml, or remove it."
        return Languages(listed, (*self.unused, note) if unused else self.unused)

    def file_endings(self) -> frozenset[str]:
        """Return what names of files end with after their last dot, in lower case: `py`, `tsx`, `cmake`."""
        return frozenset(suffix.rpartition(".")[2].lower() for suffix in self._suffixes)

    def get(self, name: str) -> Language | None:
        """Return the language of that name, if it is known."""
        return self._names.get(name)

    def __getitem__(self, name: str) -> Language:
        """Return the language of that name. Raises: InvalidArgument if it is unknown."""
        if name not in self._names:
            known = ", ".join(sorted(self._names))
            raise InvalidArgument(f"no language {name!r}", suggestion=f"one of: {known}")
        return self._names[name]

    def detect(self, path: str, data: bytes = b"") -> Language | None:
        """Return the language of a file by its name, its suffix and its `data`; None if it is unknown.

        Where several languages use a suffix, the text decides: the first 64 KB without comments. The files around it
        do not, so that a file has the same language wherever and whenever it is read. Headers whose text does not
        decide outline as C and as C++ alike.
        """
        name = path.rpartition("/")[2].lower()
        if name in self._filenames:
            return self._filenames[name]
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
                # A mark inside a string counts as a comment, too.
                code[claimant.comments] = _any_comment(claimant.comments).sub(b" ", data[:DETECTED_BYTES_MAX])
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


@lru_cache(maxsize=1)
def _builtin() -> Languages:
    return Languages(_our_languages())


@lru_cache(maxsize=1)
def _our_languages() -> tuple[Language, ...]:
    """Return every language of this package, in the order of detection."""
    folder = Path(__file__).parent
    known: dict[str, Language] = {}
    for name in ORDER:
        text = (folder / f"{name}.toml").read_text("utf-8")
        known[name] = read_language(text, f"{name}.toml", known, is_ours=True)
    return tuple(known.values())


def _read_texts(folder: ConfinedFolder) -> tuple[dict[str, str], list[str]]:
    """Return the language files of a folder, and why others are not used. Raises: OSError, UnicodeDecodeError."""
    texts: dict[str, str] = {}
    unused: list[str] = []
    try:
        with folder.scan() as found:
            names = sorted(entry.name for entry in found if not entry.name.startswith("."))
    except FileNotFoundError:
        return texts, unused
    except (NotADirectoryError, UnsafePathError) as error:
        return texts, [f"{error.filename} {error.strerror}"]
    for name in names:
        try:
            if not name.endswith(".toml"):
                unused.append(f"{name} is not a .toml file")
            elif len(texts) == OWN_FILES_MAX:
                unused.append(f"{name} is one of more than {OWN_FILES_MAX} files")
            else:
                texts[name] = folder.read_bytes(name, bytes_max=OWN_BYTES_MAX).decode("utf-8")
        except UnsafePathError as error:
            unused.append(f"{name} {error.strerror}")
    return texts, unused


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
    return frozenset(pattern for language in _our_languages() for _, pattern in _patterns(language))


def macro_call(names: str) -> str:
    """Return the pattern of a call of macros at the start of a line; its first group begins with the statement."""
    return rf"(?m)^[ \t]*((?:static[ \t]+)?(?:{names})[ \t]*\()"


def _patterns(language: Language) -> Iterator[tuple[str, str]]:
    """Yield the patterns of a language, each with its field."""
    yield "comments.docstring", language.comments.docstring
    yield "outline.declarator", language.declarator
    yield from (("outline.semicolons", language.semicolons), ("outline.opening", language.opening))
    yield from (("outline.macros", macro_call(names)) for names, _, _ in language.macros)
    yield from (("outline.blanks", pattern) for pattern in language.blanks)
    yield from (("only_inside", pattern) for part in language.only_inside for pattern in part[:2])
    renames = language.renames
    for pattern in (renames.decorator, renames.called_comments, renames.type_comments):
        yield "renames", pattern
    yield from (("resolution", pattern) for pattern in (language.resolution.private, language.resolution.exported))
    for pair in (*renames.called_strings, *renames.member_strings):
        yield from (("renames", pattern) for pattern in pair)
    yield from ((f"claims.{suffix}", pattern) for suffix, pattern in language.claims)


# -- from TOML ----------------------------------------------------------------------------------------------------


def read_language(
    text: str, file: str, known: Mapping[str, Language] | None = None, *, is_ours: bool = False
) -> Language:
    """Read a language from a TOML file; the examples in it are for the tests and are not read here.

    `known` are the languages that it may be `based_on`, from which missing fields are taken. `is_ours` means that the
    file is one of this package, whose patterns `re` may run.

    Raises: InvalidArgument naming file and field.
    """
    examples = EXAMPLES.search(text)
    try:
        raw = read_toml(text[: examples.start()] if examples else text, is_ours=is_ours)
    except ParseError as error:
        raise InvalidArgument(f"{file} cannot be read: {error}", details={"file": file}) from None
    try:
        language = _convert_language(raw, known or {})
        for field, pattern in () if is_ours else _patterns(language):
            _check_pattern(field, pattern)
    except _FieldError as wrong:
        raise InvalidArgument(
            f"{file}: {wrong.field}: {wrong.reason}",
            suggestion="see docs/guides/adding-a-language.md",
            details={"file": file, "field": wrong.field},
        ) from None
    return language


class _FieldError(Exception):
    def __init__(self, field: str, reason: str) -> None:
        self.field = field[:SHOWN_CHARS_MAX]
        self.reason = reason[:SHOWN_CHARS_MAX]


def _convert_language(raw: dict[str, Any], known: Mapping[str, Language]) -> Language:
    """Return the language of a table. Raises: _FieldError."""
    based_on = _convert("based_on", raw.pop("based_on", ""), str)
    base = known.get(based_on) if based_on else Language()
    if base is None:
        raise _FieldError("based_on", f"no language {based_on!r}")
    claims = _convert("claims", raw.pop("claims", {}), dict[str, str])
    keywords = {word: _convert(f"keywords.{word}", kind, KeywordKind) for word, kind in _table(raw, "keywords").items()}
    outline = _table(raw, "outline")
    changes = {key: getattr(_convert("outline", outline, Outlining), key) for key in outline}
    given = _convert("", raw, Language)
    changes |= {key: getattr(given, key) for key in raw}
    for section in ("comments", "imports", "resolution", "renames"):
        fields = {key: getattr(changes[section], key) for key in raw.get(section, ())}
        changes[section] = replace(getattr(base, section), **fields)
    if not given.name:
        raise _FieldError("name", "is missing")
    own = {"suffixes": (), "filenames": (), "interpreters": (), **changes}
    return replace(base, **own, claims=tuple(claims.items()), keywords=tuple(keywords.items()) or base.keywords)


def _table(raw: dict[str, Any], section: str) -> dict[str, Any]:
    return _convert(section, raw.pop(section, {}), dict[str, Any])


def _convert(section: str, value: Any, kind: Any) -> Any:
    """Return a value of a language file as a type. Raises: _FieldError."""
    try:
        return msgspec.convert(value, prepare_type(kind))
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        unknown = reason.rpartition("unknown field `")[2].rstrip("`") if "unknown field" in reason else ""
        places = [section, *path.rstrip("`").partition("[")[0].split("."), unknown]
        raise _FieldError(".".join(filter(None, places)), reason) from None


def _check_pattern(field: str, pattern: str) -> None:
    """Refuse a pattern that RE2 cannot run, or that lacks a group that is read. Raises: _FieldError."""
    try:
        found = compile_pattern(pattern)
    except (re.error, ValueError) as error:
        raise _FieldError(field, f"is not a regular expression that RE2 can run: {error}") from error
    missing = [group for group in GROUPS.get(field, ()) if group not in (*found.groupindex, *range(found.groups + 1))]
    if pattern and missing:
        raise _FieldError(field, f"has no group {missing[0]}")


GROUPS: Mapping[str, Sequence[str | int]] = {
    "outline.declarator": ("path", "name", "call"),
    **dict.fromkeys(("outline.blanks", "outline.semicolons", "outline.opening"), (1,)),
}
"""The groups that are read of a match of these patterns."""
SHOWN_CHARS_MAX = 200
UNUSED_SHOWN_MAX = 5
KeywordKind = SymbolKind | Literal["extends", "import"]
